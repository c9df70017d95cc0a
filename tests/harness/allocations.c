/* Failing allocations on demand: the n-th array that this thread makes has no memory.
 *
 * These are arrays of numpy alone: kernels of calibrant allocate nothing else, and numpy and BLAS
 * themselves abort where malloc fails for their own buffers.
 */
#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <Python.h>
#include <numpy/arrayobject.h>

static __thread int is_armed, is_lasting;
static __thread long number, seen;

static int is_due(void) {
    return is_armed && (++seen == number || (is_lasting && seen > number));
}

static void *new_bytes(void *context, size_t size) {
    return is_due() ? NULL : malloc(size ? size : 1);
}

static void *new_zeros(void *context, size_t n, size_t size) {
    return is_due() ? NULL : calloc(n ? n : 1, size ? size : 1);
}

static void *resize(void *context, void *old, size_t size) {
    return is_due() ? NULL : realloc(old, size ? size : 1);
}

static void free_bytes(void *context, void *old, size_t size) {
    free(old);
}

static PyDataMem_Handler handler = {
    "faults", 1, {NULL, new_bytes, new_zeros, resize, free_bytes},
};

static PyObject *arm(PyObject *self, PyObject *arguments) {
    if (!PyArg_ParseTuple(arguments, "lp", &number, &is_lasting))
        return NULL;
    is_armed = 1, seen = 0;
    Py_RETURN_NONE;
}

static PyObject *disarm(PyObject *self, PyObject *nothing) {
    is_armed = 0;
    return PyLong_FromLong(seen);
}

static PyMethodDef methods[] = {
    {"arm", arm, METH_VARARGS, "Let the n-th allocation fail, and all later ones if asked to."},
    {"disarm", disarm, METH_NOARGS, "Return how many allocations were seen."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "allocations", NULL, -1, methods};

PyMODINIT_FUNC PyInit_allocations(void) {
    import_array();
    PyObject *capsule = PyCapsule_New(&handler, "mem_handler", NULL);
    if (capsule == NULL || PyDataMem_SetHandler(capsule) == NULL)
        return NULL;
    return PyModule_Create(&module);
}
