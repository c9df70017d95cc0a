"""What the processor of this machine can do."""

cdef extern from *:
    """
    #ifdef BUILT_FOR_X86_64_V3
    #include <cpuid.h>

    /* AVX2, FMA and BMI2, and a system that keeps the wide registers (bits of XCR0). */
    static int runs_x86_64_v3(void) {
        unsigned a, b, c, d, low, high;
        if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
        if (!(c & bit_FMA) || !(c & bit_OSXSAVE) || !(c & bit_AVX) || !(c & bit_MOVBE)) return 0;
        __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
        if ((low & 6) != 6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
        return (b & bit_AVX2) && (b & bit_BMI) && (b & bit_BMI2);
    }
    #else
    static int runs_x86_64_v3(void) { return 0; }
    #endif
    """
    bint runs_x86_64_v3()


def has_vectors():
    """Whether this processor runs what is built for x86-64-v3; never where nothing was."""
    return runs_x86_64_v3()
