"""How far the demo's published numbers are from the true ones, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console, Group, RenderableType
from rich.text import Text

from tallytree.cli.demo.specs import MAX_GROUP_SIZE
from tallytree.cli.rendering.terminal import fitted_table
from tallytree.lab.compare.metrics import absolute_errors, earth_movers_distance
from tallytree.release import Release
from tallytree.support.arrays import NumberArray


@dataclass(frozen=True)
class ComparedLevel:
    """How a level's published numbers compare with the true ones.

    Attributes:
        level: its name.
        nodes: how many nodes or cells are compared.
        true: the true total.
        published: the published total.
        errors: one error per node or cell.
    """

    level: str
    nodes: int
    true: int
    published: int
    errors: NumberArray

    @property
    def row(self) -> tuple[str, ...]:
        """As a row of a printed table."""
        mean, worst = (f"{value:,.1f}" for value in (self.errors.mean(), self.errors.max()))
        return self.level, f"{self.nodes:,}", f"{self.true:,}", f"{self.published:,}", mean, worst.removesuffix(".0")


def household_errors(people: pa.Table, release: Release, console: Console) -> RenderableType:
    """Earth mover's distance per node: how many persons would have to be added to or taken out of households."""
    sizes = people.group_by([*release.levels, "household_id"], use_threads=False).aggregate([([], "count_all")])
    true = sizes.append_column("size", pc.min_element_wise(sizes["count_all"], MAX_GROUP_SIZE))
    true = true.append_column("groups", pa.array(np.ones(true.num_rows, dtype=np.int64)))

    def errors(level: str) -> ComparedLevel:
        published = release.table(level)
        # Households without members are not among the people; the distance does not depend on them.
        distance = earth_movers_distance(published, true)
        persons = pc.sum(pc.multiply(published["size"], published["groups"])).as_py()
        return ComparedLevel(level, len(distance), people.num_rows, persons, distance)

    return _error_table(
        console,
        "Households by size (epsilon = 1; a person's presence is protected)",
        ("nodes", "true persons", "published persons"),
        "EMD* (persons)",
        [errors(level) for level in release.levels],
        "* earth mover's distance of a node: persons to add to its households or to take out of them",
    )


def commute_errors(trips: pa.Table, release: Release, console: Console) -> RenderableType:
    """Absolute error per cell that has a true or a published commuter."""
    true = trips.append_column("count", pa.array(np.ones(trips.num_rows, dtype=np.int64)))

    def errors(level: str) -> ComparedLevel:
        published = release.table(level)
        error = absolute_errors(published, true)
        total = pc.sum(published["count"]).as_py() or 0
        return ComparedLevel(level, len(error), trips.num_rows, total, error)

    return _error_table(
        console,
        "Commutes (epsilon = 1, delta = 1e-8; where one commuter lives and works is protected)",
        ("cells*", "true commuters", "published commuters"),
        "error (commuters)",
        [errors(level) for level in release.levels],
        "* cells with a true or a published commuter, over which the absolute error is taken; all others are 0 in both",
    )


def _error_table(
    console: Console, title: str, headings: Sequence[str], error: str, levels: Sequence[ComparedLevel], note: str
) -> RenderableType:
    columns = ("level", *headings, f"mean {error}", f"greatest {error}")
    table = fitted_table(console, columns, [level.row for level in levels])
    return Group(Text(f"\n{title}", style="bold"), table, Text(note))
