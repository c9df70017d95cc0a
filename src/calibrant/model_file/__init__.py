"""Save and load fitted calibrators, without pickle: numbers and strings only.

``docs/reference/model-files.md`` specifies the format and its limits.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from calibrant._atomic_file import replace_file
from calibrant._calibrators.base import Calibrator
from calibrant._calibrators.parameters import stored_names, take_state
from calibrant.model_file import _format as limits
from calibrant.model_file._fields import parts_in, stored_values
from calibrant.model_file._format import pack, require, unpack
from calibrant.model_file._parts import Reader, Writer

if TYPE_CHECKING:
    Path = str | os.PathLike[str]

__all__ = ["describe", "dumps", "load", "loads", "save"]


def __dir__() -> list[str]:
    return __all__


def save(calibrator: Calibrator, path: Path, *, sample: bool = False) -> str:
    """Write a fitted calibrator to a file, atomically.

    Parameters
    ----------
    calibrator : Calibrator
        Any fitted calibrator of this package.
    path : path-like
        File to write or replace, usually with the suffix ``.calibrant``.
    sample : bool, default=False
        Whether the file also holds ``sample_``, the rows of ``partial_fit``, which goes on from
        them after ``load``. These are scores and labels: whoever reads the file reads them, too.

    Returns
    -------
    sha256 : str
        SHA-256 of the file, to be passed to ``load``; keep it where the file cannot be changed with
        it.

    Raises
    ------
    ModelFileError
        If the calibrator cannot be saved; ``rule`` is usually "savable".

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from calibrant import TemperatureScaling
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.model_file import load, save
    >>> path = f"{mkdtemp()}/model.calibrant"
    >>> digest = save(TemperatureScaling().fit(*simulated_scores()), path)
    >>> load(path, sha256=digest)
    TemperatureScaling()
    """
    pieces, digest = _encode(calibrator, sample=sample)
    with replace_file(path) as file:
        for piece in pieces:
            file.write(piece)
    return digest


def load(path: Path, *, sha256: str | None = None) -> Calibrator:
    r"""Read a fitted calibrator from a file of up to 1 GiB; no code in the file can run.

    Parameters
    ----------
    path : path-like
        File written by ``save``.
    sha256 : str, optional
        Digest returned by ``save``. Any other file is refused before it is parsed. The checksum
        inside the file detects damage, not forgery.

    Returns
    -------
    calibrator : Calibrator
        Calibrator whose ``predict_proba`` returns the same bytes as the saved one; with the rows
        of ``partial_fit`` if the file holds them.

    Raises
    ------
    ModelFileError
        If the file is not a valid model file; ``rule`` says why.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from calibrant.model_file import load
    >>> path = Path(mkdtemp()) / "model.pickle"
    >>> _ = path.write_bytes(b"\x80\x05N.")
    >>> load(path)
    Traceback (most recent call last):
    calibrant.errors.ModelFileError: the file is not a calibrant model file; it looks like a ...
    """
    return Reader(*unpack(_read(path), sha256)).outermost()


def dumps(calibrator: Calibrator, *, sample: bool = False) -> bytes:
    """Return the bytes that ``save`` writes.

    Parameters
    ----------
    calibrator : Calibrator
        Any fitted calibrator of this package.
    sample : bool, default=False
        Whether they also hold ``sample_``, as of ``save``.

    Returns
    -------
    data : bytes

    Examples
    --------
    >>> from calibrant import FlattenedIsotonic
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.model_file import dumps, loads
    >>> loads(dumps(FlattenedIsotonic().fit(*simulated_scores())))
    FlattenedIsotonic()
    """
    return b"".join(_encode(calibrator, sample=sample)[0])


def loads(data: bytes, *, sha256: str | None = None) -> Calibrator:
    """Return the calibrator whose bytes ``dumps`` returned.

    Parameters
    ----------
    data : bytes-like
        The content of a model file.
    sha256 : str, optional
        Digest returned by ``save``. Any other file is refused before it is parsed. The checksum
        inside the file detects damage, not forgery.

    Returns
    -------
    calibrator : Calibrator

    Examples
    --------
    >>> from calibrant.model_file import loads
    >>> loads(b"")
    Traceback (most recent call last):
    calibrant.errors.ModelFileError: the file is empty
    """
    copy = bytearray(memoryview(data))  # not an int, of which bytearray would make zeros
    return Reader(*unpack(memoryview(copy), sha256)).outermost()


def describe(path: Path) -> dict[str, Any]:
    """Describe the content of a model file, after all checks of ``load``.

    Parameters
    ----------
    path : path-like
        File written by ``save``.

    Returns
    -------
    description : dict
        ``method``, ``class``, ``parameters``, ``classes``, ``n_classes``, ``fitted`` (plain
        values), ``reports``, ``parts`` (the fitted calibrators inside, described likewise, each
        with its ``role``, the attribute that holds it), ``sample`` (how many rows ``partial_fit``
        has counted and kept, None if the file holds none), ``bytes``, ``format``, ``library`` and
        ``sha256``.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from calibrant import TemperatureScaling
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.model_file import describe, save
    >>> path = f"{mkdtemp()}/model.calibrant"
    >>> digest = save(TemperatureScaling().fit(*simulated_scores()), path)
    >>> facts = describe(path)
    >>> facts["method"], facts["n_classes"], facts["sha256"] == digest
    ('ts', 3, True)
    """
    data = _read(path)
    header, arrays = unpack(data)
    calibrator = Reader(header, arrays).outermost()
    sample = vars(calibrator).get("sample_")
    minor = limits.WITH_MORE if {"sample", "summary"} & header.keys() else limits.MINOR
    return {
        **_description(calibrator),
        "sample": sample and {"n_rows": sample.n_rows, "n_kept": sample.n_kept},
        "bytes": len(data),
        "format": f"{limits.MAJOR}.{minor}",
        "library": header["library"],
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def _description(calibrator: Calibrator) -> dict[str, object]:
    values, names = stored_values(calibrator), stored_names(type(calibrator))
    reports = {n: asdict(v) for n, v in values.items() if v is not None and n.endswith("report_")}
    return {
        "method": calibrator.method,
        "class": type(calibrator).__name__,
        "parameters": {name: _plain(getattr(calibrator, name)) for name in names},
        "n_classes": len(calibrator.classes_),
        "classes": _plain(calibrator.classes_),
        "fitted": {n: v for n, v in values.items() if isinstance(v, int | float | str)},
        "reports": reports,
        "parts": [
            {"role": name, **_description(part)}
            for name, value in values.items()
            for part in parts_in(value)
        ],
    }


def _plain(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return value.tolist()
    return value if value is None or isinstance(value, int | float | str) else repr(value)


def _encode(calibrator: Calibrator, *, sample: bool) -> tuple[list[bytes | memoryview], str]:
    if isinstance(calibrator, Calibrator):
        calibrator = take_state(calibrator)  # with its own rows, though it may be fitted again
    writer = Writer()
    writer.part(calibrator, fitted=True)
    header: dict[str, object] = {"parts": writer.parts, "vectors": writer.vectors}
    if vars(calibrator).get("score_summary_") is not None:
        header["summary"] = writer.summary(calibrator)
    if sample:
        header["sample"] = writer.sample(calibrator)
    return pack(header, writer.arrays)


def _read(path: Path) -> memoryview:
    """Read a regular file once; what is checked and what is used are the same bytes."""
    # Before it is opened: a pipe would make whoever opens it wait.
    is_regular = stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116
    require(
        is_regular, f"{path} is a directory, a pipe or a device; name a regular file", "regular"
    )
    with open(path, "rb") as file:  # noqa: PTH123
        size = os.fstat(file.fileno()).st_size
        require(size <= limits.MAX_FILE, f"{path} has {size} bytes, more than 1 GiB", "size")
        data = bytearray(size)
        is_whole = file.readinto(data) == size and not file.read(1)
        require(is_whole, f"{path} changed while it was read; read it again", "unchanged")
    return memoryview(data)
