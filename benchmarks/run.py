"""All benchmarks on one thread; or those named on the command line: ``run.py foundation``."""

import os
import sys

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"  # before anything loads a thread pool

from importlib import import_module
from pathlib import Path

ORDER = ["foundation", "na_fir", "scir"]


def main():
    here = Path(__file__).parent
    for name in sys.argv[1:] or [name for name in ORDER if (here / f"{name}.py").exists()]:
        print(f"\n== {name} ==")
        import_module(name).main()


if __name__ == "__main__":
    main()
