/* Faults on demand: preload this library, arm it, and the n-th write of this thread fails.
 *
 * Writes to regular files fail with an error, or, if that is 0, write half of what they were given.
 * fsync, rename and ftruncate fail with an error.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static __thread int is_armed, error_number;
static __thread long number, seen;

void arm_faults(long n, int error) {
    is_armed = 1, number = n, error_number = error, seen = 0;
}

long disarm_faults(void) { /* the number of calls that were seen, with the one that failed */
    is_armed = 0;
    return seen;
}

static int is_due(void) {
    return is_armed && ++seen == number;
}

static int is_file(int descriptor) {
    struct stat status;
    return is_armed && fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
}

#define NEXT(name, type) ((type)dlsym(RTLD_NEXT, name))

ssize_t write(int descriptor, const void *bytes, size_t n) {
    if (is_file(descriptor) && is_due()) {
        if (error_number)
            return errno = error_number, -1;
        n = n / 2 + 1;
    }
    return NEXT("write", ssize_t(*)(int, const void *, size_t))(descriptor, bytes, n);
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t n, off64_t where) {
    if (is_file(descriptor) && is_due()) {
        if (error_number)
            return errno = error_number, -1;
        n = n / 2 + 1;
    }
    return NEXT("pwrite64", ssize_t(*)(int, const void *, size_t, off64_t))(descriptor, bytes, n, where);
}

ssize_t writev(int descriptor, const struct iovec *parts, int n) {
    if (is_file(descriptor) && error_number && is_due())
        return errno = error_number, -1;
    return NEXT("writev", ssize_t(*)(int, const struct iovec *, int))(descriptor, parts, n);
}

size_t fwrite(const void *bytes, size_t size, size_t n, FILE *file) { /* numpy's tofile */
    if (is_file(fileno(file)) && error_number && is_due())
        return errno = error_number, 0;
    return NEXT("fwrite", size_t(*)(const void *, size_t, size_t, FILE *))(bytes, size, n, file);
}

int fflush(FILE *file) {
    if (file != NULL && is_file(fileno(file)) && error_number && is_due())
        return errno = error_number, EOF;
    return NEXT("fflush", int (*)(FILE *))(file);
}

int fsync(int descriptor) {
    if (error_number && is_due())
        return errno = error_number, -1;
    return NEXT("fsync", int (*)(int))(descriptor);
}

int ftruncate64(int descriptor, off64_t size) {
    if (is_file(descriptor) && error_number && is_due())
        return errno = error_number, -1;
    return NEXT("ftruncate64", int (*)(int, off64_t))(descriptor, size);
}

int rename(const char *from, const char *to) {
    if (error_number && is_due())
        return errno = error_number, -1;
    return NEXT("rename", int (*)(const char *, const char *))(from, to);
}
