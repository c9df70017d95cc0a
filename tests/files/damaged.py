"""Damaged files of predictions, one kind a name: ``KINDS["npz cut at 50 %"]`` -> suffix, bytes."""

import io
import struct
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from conftest import simulate

P, Y = simulate(150, 3)
NAMES = ["ant", "bee", "cow"]
TEXT = "label,ant,bee,cow\n" + "".join(
    f"{NAMES[label]},{a:.6f},{b:.6f},{1 - round(a, 6) - round(b, 6):.6f}\n"
    for label, (a, b, _) in zip(Y, P, strict=True)
)
KINDS = {}


def npy(array, **named):
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(array), **named)
    return file.getvalue()


def raw_npy(header, data=b"", version=(1, 0), length=None):
    """A npy file with a header of our own."""
    text = header if isinstance(header, bytes) else header.encode("latin-1")
    size = len(text) if length is None else length
    return b"\x93NUMPY" + bytes(version) + struct.pack("<H", size) + text + data


def archive(members, method=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as out:
        for name, data in members:
            out.writestr(name, data)
    return file.getvalue()


def npz(scores=P, labels=Y, method=zipfile.ZIP_STORED, **more):
    members = [("probs.npy", scores), ("labels.npy", labels)]
    members += [(f"{name}.npy", data) for name, data in more.items()]
    pairs = [(n, d if isinstance(d, bytes) else npy(d)) for n, d in members if d is not None]
    return archive(pairs, method)


def columns(**changed):
    found = {"label": [NAMES[y] for y in Y], **{n: P[:, j] for j, n in enumerate(NAMES)}}
    found.update(changed)
    return {name: column for name, column in found.items() if column is not None}


def parquet(table=None, **options):
    file = io.BytesIO()
    pq.write_table(pa.table(columns()) if table is None else table, file, **options)
    return file.getvalue()


def arrow(table=None, stream=False, **options):
    table = pa.table(columns()) if table is None else table
    file = io.BytesIO()
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(file, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as out:
        out.write_table(table)
    return file.getvalue()


def cut(suffix, whole):
    for share in (0, 1, 10, 25, 50, 75, 90, 99):
        KINDS[f"{suffix} cut at {share} %"] = suffix, whole[: len(whole) * share // 100]
    KINDS[f"{suffix} without its last byte"] = suffix, whole[:-1]
    KINDS[f"{suffix} with bytes after its end"] = suffix, whole + b"more" * 50
    KINDS[f"{suffix} of zeros"] = suffix, bytes(len(whole))


def flip(suffix, whole, times):
    rng = np.random.default_rng(0)
    for i in range(times):
        damaged = bytearray(whole)
        for place in rng.integers(0, len(whole), 1 + i):
            damaged[place] ^= 1 << int(rng.integers(8))
        KINDS[f"{suffix} with {1 + i} flipped bits"] = suffix, bytes(damaged)


def patch(whole, mark, offset, data, last=False):
    place = (whole.rindex if last else whole.index)(mark) + offset
    return whole[:place] + data + whole[place + len(data) :]


CENTRAL, LOCAL, END = b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06"
WHOLE, DEFLATED = npz(), npz(method=zipfile.ZIP_DEFLATED)
for whole, suffix in (
    (DEFLATED, "npz"), (npy(P), "npy"), (TEXT.encode(), "csv"), (parquet(), "parquet"),
    (arrow(), "arrow"), (arrow(compression="lz4"), "feather"),
):  # fmt: skip
    cut(suffix, whole)
    flip(suffix, whole, 8)

DICT = "{'descr': '<f8', 'fortran_order': False, 'shape': (150, 3), }\n"
HEADERS = {
    "that is no dict": "[1, 2, 3]\n",
    "that is code": "__import__('os').abort()\n",
    "with dtype U0": DICT.replace("<f8", "<U0"),
    "with dtype O": DICT.replace("<f8", "|O"),
    "with a negative size": DICT.replace("(150, 3)", "(-150, 3)"),
    "with too many rows": DICT.replace("(150, 3)", "(151, 3)"),
    "with 2 ** 70 rows": DICT.replace("150", str(2**70)),
    "with no columns": DICT.replace("(150, 3)", "(150, 0)"),
    "in Fortran order": DICT.replace("False", "True"),
    "of deep brackets": "(" * 5000 + ")" * 5000,
}  # fmt: skip
for name, text in HEADERS.items():
    KINDS[f"npy header {name}"] = "npy", raw_npy(text, P.tobytes())
    KINDS[f"npz header {name}"] = "npz", npz(scores=raw_npy(text, P.tobytes()))
for version in ((0, 0), (3, 0), (9, 9)):
    data = raw_npy(DICT, P.tobytes(), version)
    KINDS[f"npy version {version}"] = "npy", data
KINDS["npy header longer than the file"] = "npy", raw_npy(DICT, P.tobytes(), length=65535)

KINDS |= {
    "npz encrypted": ("npz", patch(patch(WHOLE, LOCAL, 6, b"\x01"), CENTRAL, 8, b"\x01")),
    "npz with another checksum": ("npz", patch(WHOLE, CENTRAL, 16, b"\0\0\0\0")),
    "npz with a size too large": ("npz", patch(WHOLE, CENTRAL, 24, b"\xff\xff\xff\x7f")),
    "npz of nothing": ("npz", archive([])),
    "npz with a member that is a pickle": ("npz", npz(scores=b"\x80\x04]q\0.")),
    "npz of one column": ("npz", npz(scores=P[:, :1])),
    "npz without rows": ("npz", npz(P[:0], Y[:0])),
    "npz of NaN": ("npz", npz(np.full_like(P, np.nan))),
    "npz of rows that sum to two": ("npz", npz(2 * P)),
    "npz of big-endian numbers": ("npz", npz(P.astype(">f8"))),
    "npz without labels": ("npz", npz(labels=None)),
    "npz with a label too few": ("npz", npz(labels=Y[:-1])),
    "npz with fractions as labels": ("npz", npz(labels=Y + 0.5)),
    "npz with labels too large": ("npz", npz(labels=Y + 10**15)),
    "npz with two columns of labels": ("npz", npz(labels=np.column_stack([Y, Y]))),
    "npz with equal class names": ("npz", npz(classes=np.array(["ant", "ant", "bee"]))),
    "npz with damaged class names": ("npz", npz(classes=b"\x93NUMPY\x01\0")),
    "npz that is npy": ("npz", npy(P)),
    "npy that is npz": ("npy", WHOLE),
}  # fmt: skip

LINES = TEXT.splitlines(keepends=True)
LONG = "x" * 140_000
KINDS |= {
    "csv of a byte order mark": ("csv", b"\xef\xbb\xbf"),
    "csv with CR after a header": (
        "csv", (LINES[0] + "".join(LINES[1:]).replace("\n", "\r")).encode()),
    "csv in UTF-16": ("csv", TEXT.encode("utf-16")),
    "csv with a label in Latin-1": ("csv", TEXT.replace("\nant", "\n\xe4nt").encode("latin-1")),
    "csv with NUL in a label": ("csv", TEXT.replace("\nant", "\na\0t", 1).encode()),
    "csv with a long label": ("csv", (TEXT + f"{LONG},0.1,0.2,0.7\n").encode()),
    "csv with an open quote": ("csv", (TEXT + '"ant,0.1,0.2,0.7\n').encode()),
    "csv without a label": ("csv", (TEXT + ",0.1,0.2,0.7\n").encode()),
    "csv with NaN": ("csv", (TEXT + "ant,nan,0.2,0.7\n").encode()),
    "csv with markup": ("csv", TEXT.replace("ant", "[/x]").encode() + b"[/b],0.1,[/b],0.7\n"),
    "tsv with commas": ("tsv", TEXT.encode()),
    "parquet that is text": ("parquet", TEXT.encode()),
    "parquet with an encrypted footer": ("parquet", parquet()[:-4] + b"PARE"),
    "parquet with a long footer": ("parquet", parquet()[:-8] + b"\xff\xff\xff\x7fPAR1"),
    "arrow that is text": ("arrow", TEXT.encode()),
    "arrow as a stream": ("arrow", arrow(stream=True)),
    "a suffix that is not known": ("xlsx", b"PK"),
}  # fmt: skip

HALF = pa.array(P[:, 0])
TYPES = {
    "equal names": pa.Table.from_arrays([HALF, HALF, HALF], names=["a", "a", "b"]),
    "a nameless column": pa.Table.from_arrays([HALF, HALF], names=["", "b"]),
    "no rows": pa.table(columns()).slice(0, 0),
    "text for scores": pa.table(columns(ant=pa.array(P[:, 0].astype(str)))),
    "a missing score": pa.table(columns(ant=pa.array([None, *P[1:, 0]]))),
    "decimals": pa.table(columns(ant=HALF.cast(pa.decimal128(30, 17), safe=False))),
    "lists for labels": pa.table(columns(label=pa.array([[y] for y in Y]))),
    "categories for labels": pa.table(
        columns(label=pa.array([NAMES[y] for y in Y]).dictionary_encode())
    ),
    "fractions for labels": pa.table(columns(label=pa.array(Y + 0.5))),
}  # fmt: skip
UNION = pa.UnionArray.from_sparse(pa.array([0] * 150, pa.int8()), [HALF, HALF])
for name, table in TYPES.items():
    KINDS[f"parquet with {name}"] = "parquet", parquet(table)
    KINDS[f"arrow with {name}"] = "arrow", arrow(table)
KINDS["arrow with a union"] = "arrow", arrow(pa.table(columns(ant=UNION)))
