"""The ``calibrant`` command: its options, exit codes and the last line of defence."""

from __future__ import annotations

import os
import re
import sys
import traceback
import warnings

import click

from calibrant import __version__
from calibrant._cli.fitting import export, fit, inspect
from calibrant._cli.judge import judge
from calibrant._cli.measuring import compare, evaluate
from calibrant._cli.reading import tell, to_json
from calibrant._cli.serving import apply, decide, monitor
from calibrant._cli.studies import compare_models, demo, study
from calibrant._extras import advice, missing

EXIT_DATA = 3
"""Something is wrong with the data, the model file, the disk or the memory."""

COMMANDS = (
    *(evaluate, fit, apply, compare, compare_models, decide),
    *(judge, inspect, export, demo, study, monitor),
)
SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True}


@click.group(context_settings=SETTINGS)
@click.version_option(__version__, prog_name="calibrant")
@click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
def cli() -> None:
    """Calibrate the probabilities of a classifier.

    Predictions are read from files: npz with the arrays `probs` or `logits` and `labels`; CSV, TSV,
    Parquet or Arrow with a column per class and a column `label`; npy; JSON lines.

    \b
    Example:
      calibrant compare val.npz test.npz --report report.html
    """  # noqa: D301  (click's mark for a paragraph that is not wrapped)


for command in COMMANDS:
    cli.add_command(command)


def run(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    # Before it is imported: Arrow's own allocator keeps more memory than it uses.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    words = sys.argv[1:] if arguments is None else arguments
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: tell(f"warning: {message}")
        return _run(words)


def _run(words: list[str]) -> int:
    try:
        result = cli.main(args=words, prog_name="calibrant", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return _fail(words, error, error.format_message(), error.exit_code)
    except SystemExit:  # how click ends when nobody reads its output any more
        return EXIT_DATA
    except (ValueError, OSError, MemoryError, TypeError, ImportError) as error:
        if "--debug" in words:
            traceback.print_exc()
        message = _plain(error)
        tell(message)
        return _fail(words, error, message, EXIT_DATA)
    return int(result or 0)


def _fail(words: list[str], error: Exception, message: str, code: int) -> int:
    """Return the exit code of an error; with ``--json``, print it where the result would be."""
    if "--json" in words:
        text = " ".join(message.split())
        result = {"error": {"type": type(error).__name__, "message": text, "exit_code": code}}
        click.echo(to_json(result))
    return code


def _plain(error: Exception) -> str:
    """Say what went wrong in the words of the command, and not of a system or of Python."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'standard output'}: {error.strerror}"
    if isinstance(error, MemoryError):
        return f"there is not enough memory: {error}"
    if isinstance(error, ImportError) and missing(error):
        return f"this needs {missing(error)}; {advice()}"
    # Rooms name these arguments of costs and grades, which are options here.
    text = re.sub(r"\bpass (classes|values)=(?! \()", r"pass --\1", str(error))
    return text or type(error).__name__
