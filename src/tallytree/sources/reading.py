"""The rows of located tables in batches of the wanted columns. Each file is opened, read to its end, and closed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet

from tallytree.sources.csv_files import csv_header, is_gzip, open_csv
from tallytree.sources.failures import SourceError
from tallytree.sources.locate import Files
from tallytree.sources.partitions import require_agreement
from tallytree.sources.scans import BATCH_ROWS, Batches

if TYPE_CHECKING:
    from tallytree.sources.cloud import CloudPlace


def schema_of_file(files: Files, path: str) -> pa.Schema:
    """The columns that a file itself has; CSV columns are text. Only its header or footer is read.

    Raises:
        ArrowException, OSError, EOFError, zlib.error, csv.Error, StopIteration: it cannot be read.
    """
    place = files.place
    if files.format == "parquet":
        if place is None:
            return pa.parquet.read_schema(path).remove_metadata()
        with place.system.open_input_file(path) as file:
            return pa.parquet.read_schema(file).remove_metadata()
    source = None if place is None else place.system.open_input_file(path)
    return pa.schema([(name, pa.string()) for name in csv_header(path, files.dialect, source)])


def file_batches(files: Files, path: str, columns: Sequence[str], argument: str) -> Batches:
    """The rows of a file, with the wanted columns in their order; those of its folders' names are text.

    Raises:
        SourceError: a file elsewhere changed, is gone or is cut short; a partition column disagrees with the file's.
        ArrowException, OSError: a file cannot be read.
    """
    values = dict(files.partition_values(path))
    own = set(schema_of_file(files, path).names) if values else set(columns)
    read = [name for name in columns if name in own]
    rows = _parquet(files, path, read, argument) if files.format == "parquet" else _csv(files, path, read, argument)
    with closing(rows):
        for batch in rows:
            arrays = []
            for name in columns:
                if name not in own:
                    arrays.append(_repeated(values[name], batch.num_rows))
                    continue
                arrays.append(batch.column(name))
                if name in values:
                    require_agreement(arrays[-1], values[name], files.named(path), name, argument)
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _repeated(value: str | None, number: int) -> pa.Array:
    return pa.nulls(number, pa.string()) if value is None else pa.repeat(pa.scalar(value, pa.string()), number)


def _parquet(files: Files, path: str, columns: Sequence[str], argument: str) -> Batches:
    """Row group by row group: of one only, the wanted columns are in memory."""
    with _opened(files.place, path, argument) as (file, asked):
        table = asked(lambda: pa.parquet.ParquetFile(file, pre_buffer=True))
        for group in range(table.num_row_groups):
            if not columns:  # the rows alone
                yield pa.record_batch({"": pa.nulls(table.metadata.row_group(group).num_rows)})
                continue
            batches = table.iter_batches(BATCH_ROWS, row_groups=[group], columns=list(columns))
            yield from _each(batches, asked)


def _csv(files: Files, path: str, columns: Sequence[str], argument: str) -> Batches:
    columns = columns or schema_of_file(files, path).names[:1]  # the rows alone
    place = files.place
    if place is None:
        with open_csv(path, columns, files.dialect) as reader:
            yield from reader
        return
    with _opened(place, path, argument) as (file, asked):
        opened: list[Any] = []

        def source() -> Any:
            opened.append(place.system.open_input_file(path))
            return opened[-1]

        with asked(lambda: open_csv(path, columns, files.dialect, source)) as reader:
            yield from _each(reader, asked)
            cut = not is_gzip(path) and opened[-1].tell() != file.size()
        if cut:
            raise SourceError(f"{argument}: {files.named(path)!r} was not read to its end; try again")


def _each(batches: Any, asked: Callable[[Callable[[], Any]], Any]) -> Iterator[pa.RecordBatch]:
    waiting = iter(batches)
    while (batch := asked(lambda: next(waiting, None))) is not None:
        yield batch


@contextmanager
def _opened(
    place: CloudPlace | None, path: str, argument: str
) -> Iterator[tuple[Any, Callable[[Callable[[], Any]], Any]]]:
    """A file to read from, and what asks its server; at the end it is still the file that was found.

    Raises:
        SourceError: it is not, or it cannot be read.
    """
    if place is None:
        yield path, lambda work: work()
        return
    file = place.run(lambda: place.system.open_input_file(path), path, argument)
    with file:
        tag = place.tag(file)
        yield file, lambda work: place.run(work, path, argument)
        place.require_same(path, file.size(), tag, argument)
