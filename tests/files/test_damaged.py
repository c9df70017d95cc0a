"""Damaged files: an error that names the file in one line, whatever its decoder raises."""

import io
import re
import zipfile
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calibrant._files.align import align
from calibrant._files.formats import read_prediction_file
from calibrant.errors import DataError
from conftest import simulate, tells
from whole_files import ONE_OF_EACH, SUFFIXES, write_file

P, Y = simulate(150, 3)
NAMES = ["ant", "bee", "cow"]
TABLE = pa.table({"label": [NAMES[y] for y in Y], **{n: P[:, j] for j, n in enumerate(NAMES)}})
TEXT = TABLE.to_pandas().to_csv(index=False)
LEAKS = re.compile(r"Errno|codec|[Tt]hrift|0-d array|magic string|<class|object at 0x")


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npy_with(header):
    """A npy file with a header of our own."""
    size = len(header).to_bytes(2, "little")
    return b"\x93NUMPY\x01\x00" + size + header.encode() + P.tobytes()


def npz(scores=None, labels=Y, **more):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as out:
        for name, content in {
            "probs": P if scores is None else scores,
            "labels": labels,
            **more,
        }.items():
            out.writestr(f"{name}.npy", content if isinstance(content, bytes) else npy(content))
    return file.getvalue()


def table_with(**columns):
    changed = TABLE
    for name, column in columns.items():
        changed = changed.set_column(changed.column_names.index(name), name, column)
    return changed


def parquet(table=TABLE):
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


def arrow(table=TABLE, make=pa.ipc.new_file):
    file = io.BytesIO()
    with make(file, table.schema) as out:
        out.write_table(table)
    return file.getvalue()


DICT = "{'descr': '<f8', 'fortran_order': False, 'shape': (150, 3), }\n"
WHOLE = {}
with TemporaryDirectory() as home:
    for suffix in SUFFIXES:
        path = write_file(Path(home) / f"p{suffix}", TABLE.to_pandas(), NAMES)
        WHOLE[suffix[1:]] = path.read_bytes()
OBJECTS = npy_with(DICT.replace("<f8", "|O"))
DAMAGED = {
    **{f"{suffix} cut": (suffix, data[: len(data) // 2]) for suffix, data in WHOLE.items()},
    **{f"{suffix} of zeros": (suffix, bytes(len(data))) for suffix, data in WHOLE.items()},
    **{f"{suffix} of nothing": (suffix, b"") for suffix in (*WHOLE, "json")},
    "npy header that is code": ("npy", npy_with("__import__('os').abort()\n")),
    "npy header of deep brackets": ("npy", npy_with("(" * 5000 + ")" * 5000)),
    "npy of too many rows": ("npy", npy_with(DICT.replace("150", str(2**70)))),
    "npy of Python objects": ("npy", OBJECTS),
    "npy of a negative size": ("npy", npy_with(DICT.replace("(150", "(-150"))),
    "npz of too many rows": ("npz", npz(npy_with(DICT.replace("150", str(2**70))))),
    "npz with a pickle": ("npz", npz(b"\x80\x04]q\0.")),
    "npz that is npy": ("npz", WHOLE["npy"]),
    "npy that is npz": ("npy", WHOLE["npz"]),
    "npz without rows": ("npz", npz(P[:0], Y[:0])),
    "npz of NaN": ("npz", npz(np.full_like(P, np.nan))),
    "npz of rows that sum to two": ("npz", npz(2 * P)),
    "npz with a label too few": ("npz", npz(labels=Y[:-1])),
    "npz with fractions as labels": ("npz", npz(labels=Y + 0.5)),
    "npz with one-hot labels": ("npz", npz(labels=np.eye(3)[Y])),
    "npz with equal class names": ("npz", npz(classes=np.array(["ant", "ant", "bee"]))),
    "csv in UTF-16": ("csv", TEXT.encode("utf-16")),
    "csv in Latin-1": ("csv", TEXT.replace("\nant", "\n\xe4nt").encode("latin-1")),
    "csv with a long label": ("csv", (TEXT + f"{'x' * 140_000},0.1,0.2,0.7\n").encode()),
    "csv with an open quote": ("csv", (TEXT + '"ant,0.1,0.2,0.7\n').encode()),
    "csv without a label": ("csv", (TEXT + ",0.1,0.2,0.7\n").encode()),
    "csv without rows": ("csv", b"label,ant,bee,cow\n"),
    "arrow as a stream": ("arrow", arrow(make=pa.ipc.new_stream)),
    "parquet without rows": ("parquet", parquet(TABLE[:0])),
    "parquet with text for scores": ("parquet", parquet(table_with(ant=TABLE["label"]))),
    "arrow with a missing score": (
        "arrow", arrow(table_with(ant=pa.array([None, *P[1:, 0].tolist()])))),
    "arrow with lists for labels": ("arrow", arrow(table_with(label=pa.array([[y] for y in Y])))),
    "a suffix that is not known": ("xlsx", b"PK"),
}  # fmt: skip


def read(tmp_path, suffix, data):
    path = tmp_path / f"damaged.{suffix}"
    path.write_bytes(data)
    rows = align(read_prediction_file(path))
    rows.check()
    return rows


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_file_is_named_in_one_line(tmp_path, kind):
    with tells("damaged.") as caught:
        read(tmp_path, *DAMAGED[kind])
    assert "\n" not in str(caught.value)
    assert not LEAKS.search(str(caught.value))


def test_nothing_is_unpickled(tmp_path):
    for suffix, data in (("npy", DAMAGED["npy of Python objects"][1]), ("npz", npz(OBJECTS))):
        with tells("never unpickled"):
            read(tmp_path, suffix, data)


@pytest.mark.parametrize("suffix", [suffix[1:] for suffix in ONE_OF_EACH])
def test_flipped_bits_are_refused_or_change_a_number(tmp_path, suffix):
    whole, rng = WHOLE[suffix], np.random.default_rng(0)
    for n_bits in range(1, 9):
        data = bytearray(whole)
        for place in rng.integers(0, len(whole), n_bits):
            data[place] ^= 1 << int(rng.integers(8))
        with suppress(DataError):
            assert read(tmp_path, suffix, bytes(data)).rows.scores.shape == P.shape


@pytest.mark.parametrize(
    "table",
    [
        table_with(ant=pa.array(P[:, 0]).cast(pa.decimal128(30, 17), safe=False)),
        table_with(label=TABLE["label"].combine_chunks().dictionary_encode()),
    ],
    ids=["decimals", "categories"],
)
def test_other_types_of_columns_are_read(tmp_path, table):
    for suffix, data in (("parquet", parquet(table)), ("arrow", arrow(table))):
        rows = read(tmp_path, suffix, data)
        np.testing.assert_allclose(rows.rows.scores, P, atol=1e-9)
        assert rows.y.tolist() == TABLE["label"].to_pylist()
