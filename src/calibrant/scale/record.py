"""Statistics as bytes: an uncompressed zip of arrays of numpy, and what they are in JSON."""

from __future__ import annotations

import io
import json
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import errors, simplex
from calibrant.scale.parts import Part

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from calibrant.scale.mergeable import Mergeable

FORMAT = "calibrant statistics 1"
MOST_ROWS = 1 << 62
EPOCH = (1980, 1, 1, 0, 0, 0)


def plain(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings with arrays as lists, to be compared and written."""
    return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in settings.items()}


def dump(statistics: Mergeable) -> bytes:
    """Write all that statistics have counted; equal ones have equal bytes."""
    about = {"format": FORMAT, **statistics.about(), "n_rows": statistics.n_rows}
    arrays: dict[str, NDArray[Any]] = {
        "classes": statistics.classes,
        "labels": statistics.labels.parts(),
    }
    for name, part in statistics.parts.items():
        arrays |= {f"{name}/{key}": array for key, array in part.arrays().items()}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        text = json.dumps(about, sort_keys=True, allow_nan=True)
        archive.writestr(zipfile.ZipInfo("about.json", EPOCH), text)
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", EPOCH), member.getvalue())
    return out.getvalue()


def load(data: bytes, class_of: Callable[[str], type[Mergeable] | None]) -> Mergeable:
    """Read statistics that ``dump`` wrote; everything about them is checked again.

    ``class_of`` takes the name of a method, and returns the class of its statistics.
    """
    try:
        about, arrays = _members(data)
        return _build(about, arrays, class_of)
    except errors.StatisticsError:
        raise
    except Exception as error:
        raise errors.StatisticsError(
            f"these {len(data)} bytes hold no statistics, or damaged ones: {error}"
        ) from error


def _members(data: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    arrays = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED or member.file_size > len(data):
                raise ValueError(f"{member.filename} is compressed")
            content = archive.read(member)
            if member.filename == "about.json":
                about = json.loads(content)
            else:
                name = member.filename.removesuffix(".npy")
                stream = io.BytesIO(content)
                arrays[name] = np.lib.format.read_array(stream, allow_pickle=False)
    return about, arrays


def _build(
    about: dict[str, Any],
    arrays: dict[str, NDArray[Any]],
    class_of: Callable[[str], type[Mergeable] | None],
) -> Mergeable:
    if about["format"] != FORMAT:
        raise errors.StatisticsError(
            f"statistics of format {about['format']!r} cannot be read; {FORMAT!r} can"
        )
    method = about["method"]
    if (cls := class_of(method)) is None:
        raise errors.StatisticsError(
            f"statistics of {method!r} are not known here; update calibrant, or import the module "
            "that defines them"
        )
    classes = arrays["classes"]
    if classes.ndim != 1 or len(classes) < 2 or len(np.unique(classes)) != len(classes):
        raise ValueError("classes are not one label for each column")
    shared = {k: about[k] for k in ("scores", "normalize", "max_rows") if k in about}
    found = cls(classes, **shared, **about["options"])
    if about["parts"].keys() != found.parts.keys() and hasattr(found, "next_pass"):
        found.parts = {
            name: Part.registered[name](**settings) for name, settings in about["parts"].items()
        }
    if any(about[key] != value for key, value in found.about().items()):
        raise ValueError("its parts are not those of the method")
    found.labels.restore(arrays["labels"])
    simplex.check_number("n_rows", about["n_rows"], low=0, high=MOST_ROWS, whole=True)
    found.n_rows = about["n_rows"]
    for name, part in found.parts.items():
        own = {k.partition("/")[2]: a for k, a in arrays.items() if k.partition("/")[0] == name}
        part.restore(own)
    found.check()
    return found
