"""The ``calibrant`` command: its options, exit codes and the last line of defence."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import click

from calibrant import __version__
from calibrant._cli import commands
from calibrant._cli.monitor import monitor_command
from calibrant._cli.outputs import check_outputs
from calibrant._cli.showing import to_json
from calibrant._cli.study import study
from calibrant._extras import advice, missing

if TYPE_CHECKING:
    from collections.abc import Callable

EXIT_DATA = 3
EXIT_MODEL = 4
EXIT_PIPE = 141


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


for command in (*commands.ALL, study, monitor_command):
    check_outputs(command)
    cli.add_command(command)


def run(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    # Before it is imported: Arrow's own allocator keeps more memory than it uses.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    with warnings.catch_warnings():
        warnings.showwarning = _warn
        return _run(arguments)


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    _say(f"warning: {message}")


def _say(text: str) -> None:
    """Print one line on standard error, as it is."""
    click.echo(f"calibrant: {' '.join(text.split())}", err=True)


def _run(arguments: list[str] | None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    try:
        result = cli.main(args=arguments, prog_name="calibrant", standalone_mode=False)
    except click.exceptions.Exit as end:
        return int(end.exit_code)
    except click.ClickException as error:
        _fail(words, error, error.format_message(), int(error.exit_code), error.show)
        return int(error.exit_code)
    except SystemExit:  # how click ends when nobody reads its output any more
        return EXIT_PIPE
    except (ValueError, OSError, MemoryError, TypeError, ImportError) as error:
        from calibrant.errors import ModelFileError

        if "--debug" in words:
            traceback.print_exc()
        code = EXIT_MODEL if isinstance(error, ModelFileError) else EXIT_DATA
        message = _plain(error)
        _fail(words, error, message, code, lambda: _say(message))
        return code
    return int(result or 0)


def _fail(
    words: list[str], error: BaseException, message: str, code: int, tell: Callable[[], None]
) -> None:
    """Tell an error; with ``--json`` also, or only, where and how the result would have come."""
    if "--json" not in words:
        tell()
        return
    text = " ".join(message.split())
    found = {"error": {"type": type(error).__name__, "message": text, "exit_code": code}}
    is_taken = _writes_to_stdout(words)
    if not is_taken:
        tell()
    click.echo(to_json(found), err=is_taken)


def _writes_to_stdout(words: list[str]) -> bool:
    """Whether calibrated rows go to standard output, so that all else goes elsewhere."""
    told = {"-o-", "--output=-"} & {*words}
    return bool(told or {("-o", "-"), ("--output", "-")} & {*pairwise(words)})


def _plain(error: BaseException) -> str:
    """Say what went wrong without the words of the system or of a library's innards."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'standard output'}: {error.strerror}"
    if isinstance(error, MemoryError):
        return f"there is not enough memory: {error}"
    if isinstance(error, ImportError) and missing(error):
        return f"this needs {missing(error)}; {advice()}"
    return str(error) or type(error).__name__
