"""Tables that are read in batches, of the wanted columns alone, as often as they are asked for."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import pyarrow as pa

from tallytree.sources.column_types import NOT_READ

Batches: TypeAlias = Generator[pa.RecordBatch, None, None]
"""Batches that end what reads them when they are closed."""

BATCH_ROWS = 65_536
"""Rows of a batch, where the source does not decide."""


@dataclass(frozen=True, eq=False, repr=False)
class Scan(ABC):
    """A table whose rows are not in memory.

    Attributes:
        schema: all of its columns, as far as their types are known to Arrow.
    """

    schema: pa.Schema

    numbers_are_text: ClassVar[bool] = False
    """Whether numbers may come as decimal text, as in CSV."""

    @abstractmethod
    def batches(self, columns: Sequence[str], argument: str) -> Batches:
        """The rows, with these columns in this order.

        Args:
            columns: of the schema, each once.
            argument: the table's name in messages.

        Raises:
            SourceError: it cannot be read to its end, or changed.
        """

    def spilling_to(self, place: str | None) -> Scan:
        """The same, with the rows that do not fit in memory in a folder that is made in this one, if it spills any.

        Args:
            place: None: the system's place for temporary files.
        """
        return self


@dataclass(frozen=True, eq=False, repr=False)
class DatasetScan(Scan):
    """A data set of Arrow; its own format decides what is read of a file."""

    dataset: Any

    def batches(self, columns: Sequence[str], argument: str) -> Batches:
        """See `Scan`; what a file system says is withheld by the reader of the batches."""
        reader = self.dataset.scanner(
            columns=list(columns), batch_size=BATCH_ROWS, batch_readahead=2, fragment_readahead=1
        ).to_reader()
        with reader:
            yield from reader


@dataclass(frozen=True, eq=False, repr=False)
class LazyFrameScan(Scan):
    """A query of polars: it is run for the wanted columns, in batches."""

    frame: Any

    def batches(self, columns: Sequence[str], argument: str) -> Batches:
        """See `Scan`; what polars says is withheld by the reader of the batches."""
        wanted = self.frame.select(list(columns))
        if hasattr(wanted, "collect_batches"):
            frames = wanted.collect_batches(maintain_order=False, chunk_size=BATCH_ROWS, lazy=True)
        else:  # polars before 1.35
            frames = iter([wanted.collect(engine="streaming")])
        for frame in frames:
            yield from frame.to_arrow().to_batches()


def quoted(name: str) -> str:
    """A name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def scan_of_dataset(dataset: Any, argument: str) -> Scan:
    """A data set of Arrow.

    Raises:
        ValueError: it has a file twice, also by two names: each record would be read twice.
    """
    files = _files_of(dataset)
    if len({os.path.realpath(each) for each in files}) < len(files):
        raise ValueError(f"{argument}: a file is in the data set twice, perhaps by a link; give each file once")
    return DatasetScan(dataset.schema, dataset)


def _files_of(dataset: Any) -> list[str]:
    """The files of a data set, as far as it is known to have some."""
    inside = [path for child in getattr(dataset, "children", ()) for path in _files_of(child)]
    return [*inside, *getattr(dataset, "files", ())]


def scan_of_lazy_frame(frame: Any, argument: str, columns: Collection[str] | None = None) -> Scan:
    """A query of polars; only its schema is asked for. Columns other than `columns` have the type `NOT_READ`.

    Raises:
        ValueError: polars cannot say its columns.
        TypeError: a column of `columns` has no Arrow type.
    """
    try:
        schema = frame.collect_schema()
    except Exception:  # noqa: BLE001 (what polars says may quote a value of the query)
        schema = None
    if schema is None:
        raise ValueError(
            f"{argument}: the columns of the LazyFrame are not known; its query may fail, or a file of it is not there"
        )
    asked = schema if columns is None else columns
    types = {name: _arrow_type(kind) if name in asked else NOT_READ for name, kind in schema.items()}
    if None not in types.values():
        return LazyFrameScan(pa.schema(types), frame)
    culprit = list(types.values()).index(None) + 1
    raise TypeError(
        f"{argument}: column {culprit} of the LazyFrame has a type that Arrow does not know; cast it or leave it out"
    )


def _arrow_type(kind: Any) -> pa.DataType | None:
    """The Arrow type of a type of polars; None where it has none."""
    import polars

    try:
        return polars.Series([], dtype=kind).to_frame().to_arrow().schema.types[0]
    except Exception:  # noqa: BLE001 (as above)
        return None
