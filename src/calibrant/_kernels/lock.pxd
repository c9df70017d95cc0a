"""Keep the lock of the interpreter while a kernel works on few cells.

Letting go of it for a few microseconds hands it to another thread, and to get it back takes longer
than the work: eight threads that each predict one row would be slower than one. ``with nogil``
cannot be told to depend on a number, so the two calls that it is compiled to are made to do so
here. Say ``keep_lock(n_cells)`` just before it.
"""

cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
    #define keep_lock(n_cells) ((void) 0)
    #else
    /* Only read and written by the thread that has the lock. */
    static int lock_is_kept = 0;
    #define keep_lock(n_cells) ((void) (lock_is_kept = (n_cells) < 4096))
    #define PyEval_SaveThread() (lock_is_kept ? NULL : PyEval_SaveThread())
    #define PyEval_RestoreThread(state) \\
        ((state) != NULL ? PyEval_RestoreThread(state) : (void) (lock_is_kept = 0))
    #endif
    """
    void keep_lock(Py_ssize_t n_cells) noexcept
