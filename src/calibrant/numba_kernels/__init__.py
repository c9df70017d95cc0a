"""Compiled kernels: arrays in, arrays out; no checks, no randomness, no fastmath."""
