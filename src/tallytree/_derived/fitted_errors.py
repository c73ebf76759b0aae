"""The errors that a release has of its own: intervals from the `std_dev` of its fit, without replicates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tallytree.release import LevelTable, Release
from tallytree.release.intervals import COVERS, LevelErrors, checked_alpha, stated_errors, with_intervals
from tallytree.release.statement import TABLES_MADE_BY, versions

METHOD = "fit"
"""How `errors` of the statement names these."""


@dataclass(frozen=True, eq=False)
class _WithIntervals:
    """A published table with `ci_lower` and `ci_upper`, which are made when it is read."""

    table: LevelTable
    alpha: float
    errors: LevelErrors

    @property
    def num_rows(self) -> int:
        """How many rows it has."""
        return self.table.num_rows

    def read(self, start: int, stop: int) -> pa.Table:
        """Rows `start` … `stop` − 1."""
        return with_intervals(self.table.read(start, stop), self.alpha, self.errors)

    def slices(self) -> Iterator[slice]:
        """Those of the table."""
        return self.table.slices()


def has_fitted_errors(release: Release) -> bool:
    """Whether every published table has the `std_dev` of its fit, and not that of replicates."""
    by = (release.statement.get("errors") or {}).get("method", METHOD)
    tables = release.level_tables.values()
    return by == METHOD and all("std_dev" in table.read(0, 0).column_names for table in tables)


def fitted_errors(release: Release, *, alpha: float = 0.1) -> Release:
    """The release with intervals around every published number, from the standard deviations of its own fit.

    They cost no time, and are narrower than those of replicates. `docs/explanation/errors.md` says how well they cover.

    Args:
        release: one whose tables have `std_dev`, such as those of `counts.LeastSquares`.
        alpha: intervals are to miss the true number with this probability.

    Returns:
        The same release, whose tables also have `ci_lower` and `ci_upper`; `std_dev` stays as it is.

    Raises:
        ValueError: its tables have no `std_dev` of a fit; an `alpha` not between 0 and 1.
        TypeError: an `alpha` that is no number.
    """
    level_alpha = checked_alpha(alpha)
    if release.statement.get("statistic") == "contributions":
        raise ValueError("release: it counts people by their number of records; its table has their std_dev")
    if not has_fitted_errors(release):
        raise ValueError(
            "release: its tables have no std_dev of a fit (LeastSquares without a sparsity gives one); estimate the "
            "errors from replicates instead, with tallytree.replicate_errors"
        )
    levels: list[dict[str, Any]]
    levels = [{"level": level, "upward_std_dev": None, "unlisted_ci_upper": None} for level in release.levels]
    entry = {
        "method": METHOD,
        "replicates": None,
        "alpha": level_alpha,
        "seeded": False,
        "covers": COVERS,
        "levels": levels,
        "software": versions(TABLES_MADE_BY),
    }
    tables = {
        level: _WithIntervals(table, level_alpha, stated_errors(release.statement, level))
        for level, table in release.level_tables.items()
    }
    return release.with_tables(tables, {**release.statement, "errors": entry})
