"""Files of predictions in every format that is written, as other libraries write them."""

import gzip
import json

import numpy as np

from calibrant._files.formats import FORMATS

WRITTEN = [known for known in FORMATS if known.write is not None]
SUFFIXES = [suffix for known in WRITTEN for suffix in known.suffixes]
ONE_OF_EACH = [known.suffixes[0] for known in WRITTEN]
TABLES = [known.suffixes[0] for known in WRITTEN if known.holds == "table"]


def write_file(path, frame, scores=(), name="probs"):
    """Write a frame, in which some columns have the scores: all but those known to have none.

    A suffix of a format that no row here writes is an error: every format is tried.
    """
    suffix = path.name[path.name.index(".") :]
    others = [own for own in ("label", "group", "id") if own in frame]
    scores = list(scores) or [own for own in frame if own not in others]
    MAKERS[suffix.removesuffix(".gz")](path, frame, scores, others, name)
    if suffix.endswith(".gz"):
        path.write_bytes(gzip.compress(path.read_bytes()))
    return path


def _array(path, frame, scores, *_):
    np.save(path, np.ascontiguousarray(frame[scores]))


def _archive(path, frame, scores, others, name):
    arrays = {f"{own}s" if own == "label" else own: frame[own].to_numpy() for own in others}
    arrays = {own: a.astype(str) if a.dtype == object else a for own, a in arrays.items()}
    if len(scores) > 1:
        arrays["classes"] = np.array(scores, dtype=str)
    np.savez(path, **{name: np.ascontiguousarray(frame[scores])}, **arrays)


def _text(separator):
    def write(path, frame, *_):
        frame.to_csv(path, index=False, sep=separator, na_rep="nan", compression=None)

    return write


def _lines(path, frame, scores, others, name):
    rows = [
        {name: {own: row[own] for own in scores}, **{own: row[own] for own in others}}
        for row in frame.to_dict("records")
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


MAKERS = {
    ".npy": _array,
    ".npz": _archive,
    ".csv": _text(","),
    ".tsv": _text("\t"),
    **dict.fromkeys((".parquet", ".pq"), lambda path, frame, *_: frame.to_parquet(path)),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), lambda path, frame, *_: frame.to_feather(path)),
    **dict.fromkeys((".jsonl", ".ndjson"), _lines),
}
