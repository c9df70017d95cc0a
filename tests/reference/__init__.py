"""Slow, literal, exact versions; never optimised."""
