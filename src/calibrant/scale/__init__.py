"""Fits to more rows than memory holds: statistics of chunks that merge into the same maps."""
