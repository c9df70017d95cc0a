"""One optimisation method a file; each returns what it found and a ``SolverReport``."""
