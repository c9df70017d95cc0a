"""Parquet and Arrow files a chunk of rows at a time, however large what they hold together is.

Both keep columns together: a row group of Parquet, a record batch of Arrow. One that is too large
is read some columns at a time into scratch files, of chunks of rows, which are read side by side.
"""

from __future__ import annotations

import mmap
from contextlib import ExitStack
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Read = Callable[[list[str]], Iterator[Any]]

CHUNK_BYTES = 1 << 23
GROUP_BYTES = 1 << 25
"""What may be read at once."""

PAGE_BYTES = 1 << 21
"""What a column of Parquet takes while it is read: a page and a dictionary."""


def open_parquet(path: Path, stack: ExitStack) -> tuple[Any, Iterator[Any]]:
    """Open a Parquet file: its schema, and chunks of rows."""
    import pyarrow.parquet as pq

    file = stack.enter_context(pq.ParquetFile(path, buffer_size=1 << 14, pre_buffer=False))
    schema = file.schema_arrow
    names, step = schema.names, _step(schema)

    def chunks() -> Iterator[Any]:
        for group in range(file.num_row_groups):

            def read(columns: list[str], group: int = group) -> Iterator[Any]:
                found = file.iter_batches(step, [group], columns)
                return (batch.select(columns) for batch in found)

            size = file.metadata.row_group(group).total_byte_size
            of_a_column = min(size // max(len(names), 1), PAGE_BYTES)
            yield from _row_chunks(names, of_a_column, read)

    return schema, chunks()


def open_arrow(path: Path, _: ExitStack) -> tuple[Any, Iterator[Any]]:
    """Open an Arrow file: its schema, and chunks of rows."""
    import pyarrow as pa

    with path.open("rb") as opened:
        mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    source = pa.py_buffer(mapped)  # only the columns that are asked for are touched
    with pa.ipc.open_file(source) as file:
        schema, n_batches = file.schema, file.num_record_batches
    names, step = schema.names, _step(schema)
    place = {name: j for j, name in enumerate(names)}

    def select(columns: list[str], number: int) -> Any:
        options = pa.ipc.IpcReadOptions(included_fields=[place[name] for name in columns])
        with pa.ipc.open_file(source, options=options) as file:
            return file.get_batch(number)

    def chunks() -> Iterator[Any]:
        for number in range(n_batches):

            def read(columns: list[str], number: int = number) -> Iterator[Any]:
                batch = select(columns, number)
                for start in range(0, batch.num_rows, step):
                    yield batch.slice(start, step)
                if hasattr(mapped, "madvise"):  # so that what was read does not count as ours
                    mapped.madvise(mmap.MADV_DONTNEED)

            n_rows = select(names[:1], number).num_rows
            yield from _row_chunks(names, 8 * n_rows, read)

    return schema, chunks()


def _step(schema: Any) -> int:
    return max(1, CHUNK_BYTES // (8 * max(len(schema.names), 1)))


def _row_chunks(names: list[str], bytes_of_a_column: int, read: Read) -> Iterator[Any]:
    """Chunks of rows of one group, which ``read`` gives for some of its columns."""
    width = max(1, GROUP_BYTES // max(bytes_of_a_column, 1))
    if width >= len(names):
        yield from read(names)
        return
    import pyarrow as pa

    with ExitStack() as stack:
        readers = []
        for start in range(0, len(names), width):
            scratch = stack.enter_context(TemporaryFile())
            _copy(read(names[start : start + width]), scratch)
            pa.default_memory_pool().release_unused()
            readers.append(stack.enter_context(pa.ipc.open_stream(scratch)))
        for parts in zip(*readers, strict=True):
            columns = [column for part in parts for column in part.columns]
            yield pa.RecordBatch.from_arrays(columns, names)


def _copy(batches: Iterator[Any], scratch: Any) -> None:
    """Write chunks of rows one after the other, to be read again from the start."""
    import pyarrow as pa

    first = next(batches)
    with pa.ipc.new_stream(scratch, first.schema) as out:
        out.write_batch(first)
        for batch in batches:
            out.write_batch(batch)
    scratch.seek(0)
