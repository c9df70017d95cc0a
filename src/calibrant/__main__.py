"""The command ``calibrant``, which is ``python -m calibrant`` as well."""

from __future__ import annotations

import sys

from calibrant._cli.stop import listen
from calibrant._extras import advice, missing

EXIT_ENVIRONMENT = 3


def main() -> None:
    """Run the command line, if what it is made with is installed."""
    listen()  # before anything slow is imported
    try:
        from calibrant._cli.main import run
    except ImportError as error:
        if not missing(error):
            raise
        sys.stderr.write(f"calibrant: the command needs {missing(error)}; {advice()}\n")
        sys.exit(EXIT_ENVIRONMENT)
    sys.exit(run())


if __name__ == "__main__":
    main()
