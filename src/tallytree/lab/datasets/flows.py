"""Shared by the generators of flows: their result, and the table of pairs of areas."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tallytree.support.arrays import IntArray

SIDES = ("origin", "destination")


@dataclass(frozen=True)
class Flows:
    """Trips between areas, counted per pair of areas and not listed one by one.

    Attributes:
        flows: one row per pair of leaves that has trips: `origin_<level>` and `destination_<level>` for every level
            (strings, in some data sets dictionary-encoded), and `count` (int64, ≥ 1). It would be private if it were
            real.
        areas: one row per leaf, with the columns in `levels`. Public; it includes areas without trips.
        levels: the columns of `areas`, top first.
    """

    flows: pa.Table
    areas: pa.Table
    levels: tuple[str, ...]

    @property
    def origin(self) -> tuple[str, ...]:
        """The columns of the origin's path."""
        return side_columns("origin", self.levels)

    @property
    def destination(self) -> tuple[str, ...]:
        """The columns of the destination's path."""
        return side_columns("destination", self.levels)

    @property
    def n_trips(self) -> int:
        """How many trips there are in all."""
        return int(self.flows["count"].to_numpy().sum())

    @property
    def n_pairs(self) -> int:
        """How many pairs of areas have trips."""
        return int(self.flows.num_rows)


def side_columns(side: str, levels: tuple[str, ...]) -> tuple[str, ...]:
    """The path columns of a side of the trips."""
    return tuple(f"{side}_{level}" for level in levels)


def pair_table(areas: pa.Table, origin: IntArray, destination: IntArray, count: IntArray) -> pa.Table:
    """One row per pair of areas, given by their rows in `areas`: the paths of both sides, then `count`."""
    columns = {
        name: column.take(pa.array(rows))
        for side, rows in zip(SIDES, (origin, destination), strict=True)
        for name, column in zip(side_columns(side, tuple(areas.column_names)), areas.columns, strict=True)
    }
    return pa.table({**columns, "count": pa.array(count.astype(np.int64))})
