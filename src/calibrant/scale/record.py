"""Statistics as bytes: an uncompressed archive of numpy arrays, and what they are in JSON."""

from __future__ import annotations

import io
import json
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import errors, simplex

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from calibrant.scale.mergeable import Mergeable

FORMAT = "calibrant statistics 2"
MOST_ROWS = 1 << 62


def dump(statistics: Mergeable) -> bytes:
    """Write all that statistics of a first pass have counted; equal ones have equal bytes."""
    about = {"format": FORMAT, **statistics.about(), "n_rows": statistics.n_rows}
    arrays: dict[str, NDArray[Any]] = {
        "classes": statistics.classes,
        "labels": statistics.labels,
        "about": np.array(json.dumps(about, sort_keys=True)),
    }
    for name, part in statistics.parts.items():
        arrays |= {f"{name}/{key}": array for key, array in part.arrays().items()}
    if statistics.classes.dtype.hasobject:
        raise errors.StatisticsError("labels of mixed types have no bytes; make them all of one")
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def load(data: bytes, class_of: Callable[[str], type[Mergeable] | None]) -> Mergeable:
    """Read statistics that ``dump`` wrote; everything about them is checked again.

    ``class_of`` takes the name of a method, and returns the class of its statistics.
    """
    try:
        arrays = _arrays(data)
        return _build(json.loads(str(arrays["about"])), arrays, class_of)
    except errors.StatisticsError:
        raise
    except Exception as error:
        raise errors.StatisticsError(
            f"these {len(data)} bytes hold no statistics, or damaged ones: {error}"
        ) from error


def _arrays(data: bytes) -> dict[str, NDArray[Any]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        raise ValueError("they are compressed")
    with np.load(io.BytesIO(data), allow_pickle=False) as found:
        return dict(found)


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
    classes, labels = arrays["classes"], arrays["labels"]
    if classes.ndim != 1 or len(classes) < 2 or len(np.unique(classes)) != len(classes):
        raise ValueError("classes are not one label for each column")
    shared = {k: about[k] for k in ("scores", "normalize", "max_rows") if k in about}
    found = cls(classes, **shared, **about["options"])
    if any(about[key] != value for key, value in found.about().items()):
        raise ValueError("they are not those of the method")
    if labels.shape != found.labels.shape or labels.dtype != np.float64:
        raise ValueError(f"labels are {labels.dtype} of shape {labels.shape}")
    simplex.check_number("n_rows", about["n_rows"], low=0, high=MOST_ROWS, whole=True)
    found.labels, found.n_rows = labels, about["n_rows"]
    for name, part in found.parts.items():
        start = f"{name}/"
        part.restore({k.removeprefix(start): a for k, a in arrays.items() if k.startswith(start)})
    found.check()
    return found
