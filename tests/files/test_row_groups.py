"""Row groups of Parquet and batches of Arrow: any size, little memory."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conftest import simulate

KINDS = ["parquet", "arrow", "feather"]


def write(path, table, rows):
    """Groups of so many rows; ``.feather`` is compressed."""
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=rows)
        return
    compression = "lz4" if path.suffix == ".feather" else None
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(path, table.schema, options=options) as file:
        file.write_table(table, max_chunksize=rows)


MEMORY = """
import resource, sys
from pathlib import Path
from calibrant._files.apply import apply_file
from calibrant.model_file import load
model = load(sys.argv[1])
peaks = []
for path in sys.argv[2:]:
    apply_file(model, Path(path), Path(path).with_suffix(".npy"))
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
print(peaks[1] - peaks[0])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB here")
@pytest.mark.parametrize("kind", KINDS)
def test_memory_of_apply_does_not_grow_with_a_group(tmp_path, kind):
    """192 MB in one group; the first file is small."""
    n_rows, n_classes = 2_400_000, 10
    from calibrant import TemperatureScaling, model_file

    p, y = simulate(300, n_classes)
    model = TemperatureScaling(classes=np.arange(n_classes)).fit(p, y)
    model_file.save(model, tmp_path / "model")
    rng = np.random.default_rng(0)
    names = [str(j) for j in range(n_classes)]
    paths = [tmp_path / f"small.{kind}", tmp_path / f"large.{kind}"]
    for path, size in zip(paths, (300, n_rows), strict=True):
        rows = rng.dirichlet(np.ones(n_classes), size)
        write(path, pa.table(dict(zip(names, rows.T.copy(), strict=True))), size)
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, tmp_path / "model", *paths],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 140
    assert np.load(Path(paths[1]).with_suffix(".npy"), mmap_mode="r").shape == (n_rows, n_classes)
