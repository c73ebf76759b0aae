"""Data sets that mechanisms are compared on, and their true tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallytree.release import Release


@dataclass(frozen=True, eq=False, repr=False)
class Data:
    """A data set that mechanisms can be compared on: how it is released, and the truth.

    Attributes:
        name: in the results.
        release: a function of `mechanism`, `budget`, `neighboring`, `accounting` and `seed` that returns a release, for
            instance `functools.partial(tt.release_counts, records, areas)`.
        true: the true numbers: the path columns of the leaves, and `count` (without it each row is one), or `size` and
            `groups`; rows with the same path are added up. They may differ from the records that are released: sizes
            that the release clamps must be clamped here too, or the clamping counts as an error.
    """

    name: str
    release: Callable[..., Release]
    true: pa.Table

    def __repr__(self) -> str:
        """The name; nothing of the data."""
        return f"Data({self.name!r})"

    @property
    def is_group_sizes(self) -> bool:
        """Whether the truth is groups per size; otherwise it is counts."""
        return {"size", "groups"} <= set(self.true.column_names)


class TrueByLevel:
    """The true tables of a data set. Each is added up when it is first used."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self._tables: dict[tuple[str, ...], pa.Table] = {}

    def at(self, path: tuple[str, ...]) -> pa.Table:
        """The true table with these path columns: one row per node, or per node and size, that the truth has.

        Raises:
            ValueError: the truth lacks one of the columns.
        """
        if path not in self._tables:
            self._tables[path] = self._summed(path)
        return self._tables[path]

    def _summed(self, path: tuple[str, ...]) -> pa.Table:
        true, sizes = self.data.true, self.data.is_group_sizes
        for column in path:
            if column not in true.column_names:
                raise ValueError(f"data: true of {self.data.name!r} has no column {column!r}, which the release has")
        value = "groups" if sizes else "count"
        if value not in true.column_names:
            true = true.append_column(value, pa.array(np.ones(true.num_rows, dtype=np.int64)))
        columns = {column: true[column].cast(pa.large_string()) for column in path}
        columns |= {column: true[column] for column in (["size"] if sizes else [])}
        if not columns:
            return pa.table({value: pa.array([pc.sum(true[value]).as_py() or 0], true.schema.field(value).type)})
        summed = pa.table(columns | {value: true[value]}).group_by(list(columns)).aggregate([(value, "sum")])
        return summed.select([*columns, f"{value}_sum"]).rename_columns([*columns, value])
