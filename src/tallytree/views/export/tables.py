"""The tables of a release as they are exported: in slices, with intervals where asked, each column described."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from tallytree.kinds.registry import kind_of
from tallytree.release import Release
from tallytree.release.contributions_table import FILE as CONTRIBUTIONS
from tallytree.release.intervals import LevelErrors, checked_alpha, stated_errors, with_intervals, without_hidden
from tallytree.release.level_tables import ROWS_AT_ONCE, LevelTable, PlainTable
from tallytree.release.quality import STANDARD, QualityThresholds, with_quality, without_unreliable
from tallytree.release.view.release_view import ReleaseView
from tallytree.release.view.sides import TreeSide, sides_of, with_names
from tallytree.sources.leaf_paths import decoded
from tallytree.views.export.dictionary import Column, described_columns, table_text
from tallytree.views.export.naming import file_stems, unique_names


@dataclass(frozen=True, eq=False)
class ExportedTable:
    """One table.

    Attributes:
        name: of the level, or of the table.
        stem: its file's name, without a suffix.
        source: the published table.
        view: of the release.
        alpha: of intervals that are computed; None to keep those that the table has.
        thresholds: of the verdicts.
        suppressed: whether numbers that are unreliable, or not distinguishable from 0, are left empty.
        part: the part of the release that it is of, where one file has several; else empty.
        with_names: whether names of nodes have columns beside the labels.
    """

    name: str
    stem: str
    source: LevelTable
    view: ReleaseView
    alpha: float | None
    thresholds: QualityThresholds = STANDARD
    suppressed: bool = False
    part: str = ""
    with_names: bool = True

    @property
    def title(self) -> str:
        """Its name, after that of the part."""
        return f"{self.part}.{self.name}" if self.part else self.name

    @property
    def statement(self) -> Mapping[str, Any]:
        """Of the release."""
        return self.view.statement

    @property
    def sides(self) -> tuple[TreeSide, ...]:
        """The hierarchies of the tree."""
        return sides_of(self.view.tree)

    @property
    def num_rows(self) -> int:
        """How many rows it has."""
        return self.source.num_rows

    @cached_property
    def schema(self) -> pa.Schema:
        """Its columns; labels are strings."""
        return decoded(self._complete(self.source.read(0, 0))).schema.remove_metadata()

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Its columns, described."""
        names = {*self.schema.names} - {*self._with_errors(self.source.read(0, 0)).column_names}
        return described_columns(self.schema, self.statement, self.alpha, suppressed=self.suppressed, names=names)

    @property
    def text(self) -> str:
        """What it holds, in sentences."""
        names = any(column.role.startswith("name") for column in self.columns)
        known = {"zeros_listed": self.zeros_listed, "suppressed": self.suppressed, "names": names}
        return table_text(self.name, self.schema.names, self.statement, **known)

    @property
    def zeros_listed(self) -> bool:
        """Whether it has a row for every node, or cell; otherwise one for those that are not 0."""
        about: Mapping[str, Any] = next((each for each in self.statement["levels"] if each["level"] == self.name), {})
        return bool(about.get("zeros_listed", self.view.lists_all))

    @property
    def paths(self) -> tuple[str, ...]:
        """The columns that say what a row is about, without sizes."""
        return tuple(column.name for column in self.columns if column.role.startswith("path"))

    def slices(self, rows_at_once: int = ROWS_AT_ONCE) -> Iterator[pa.Table]:
        """All rows, slice by slice, with labels as strings; one empty slice of a table without rows."""
        for coded in self.coded_slices(rows_at_once):
            yield decoded(coded)

    def coded_slices(self, rows_at_once: int = ROWS_AT_ONCE) -> Iterator[pa.Table]:
        """The same with labels as dictionaries."""
        for span in self.source.slices() if self.num_rows else (slice(0, 0),):
            stop = min(span.stop, self.num_rows)
            for start in range(span.start, max(stop, span.start + 1), rows_at_once):
                rows = self.source.read(start, min(start + rows_at_once, stop))
                yield self._complete(rows).replace_schema_metadata(None)

    def _complete(self, rows: pa.Table) -> pa.Table:
        rows = self._with_errors(rows)
        return with_names(rows, self.view.tree) if self.with_names else rows

    def _with_errors(self, rows: pa.Table) -> pa.Table:
        people = "people" in rows.column_names
        errors = LevelErrors() if people else stated_errors(self.statement, self.name)
        if self.alpha is not None and not people:
            rows = with_intervals(rows, self.alpha, errors)
        if "std_dev" in rows.column_names:
            rows = with_quality(rows, errors, self.thresholds)
            rows = without_unreliable(rows) if self.suppressed else rows
        # Of tables the unbiased estimate is for means over many cells; elsewhere it says nothing to a reader.
        return rows if kind_of(self.statement).shows_unbiased else without_hidden(rows)


def exported_tables(
    release: Release,
    names: Sequence[Any] | None,
    alpha: float | None,
    thresholds: QualityThresholds = STANDARD,
    *,
    suppressed: bool = False,
) -> tuple[ExportedTable, ...]:
    """The tables to export, root first.

    Args:
        release: the release.
        names: levels; of tables, the levels that each was asked for by, or its name; None for all.
        alpha: of intervals to compute.
        thresholds: of the verdicts.
        suppressed: whether unreliable numbers are left empty.

    Raises:
        ValueError: an unknown name, or none; `alpha` where errors are not known.
    """
    if alpha is not None:
        checked_alpha(alpha)
    levels, people = release.level_tables, release.contributions
    sources = dict(levels)
    if people is not None:
        (beside,) = unique_names([CONTRIBUTIONS], taken=levels)
        sources[beside] = PlainTable(people)
    stems = dict(zip(sources, file_stems(sources), strict=True))  # of all, so that a choice changes none
    view = ReleaseView(release)
    tables = [
        ExportedTable(name, stems[name], sources[name], view, alpha, thresholds, suppressed)
        for name in _chosen(release, names, list(sources))
    ]
    if alpha is not None:
        _refuse_unknown_errors(tables, alpha)
    return tuple(tables)


def _refuse_unknown_errors(tables: Sequence[ExportedTable], alpha: float) -> None:
    for table in tables:
        if not {"std_dev", "tail_std_dev"} & {*table.source.read(0, 0).column_names}:
            raise ValueError(
                f"alpha: {alpha:g} asks for intervals, but the errors of the numbers of {table.name!r} are not known; "
                "estimate them with tallytree.replicate_errors(release), or `tallytree error DIR`, or name tables "
                "without it"
            )


def _chosen(release: Release, names: Sequence[Any] | None, known: list[str]) -> list[str]:
    if names is None:
        asked = {each["level"]: each.get("asked", True) for each in release.statement["levels"]}
        return [name for name in known if asked.get(name, True)]
    if isinstance(names, str):
        raise TypeError(f"tables: {names!r} must be a list of names, such as [{names!r}]")
    found = {_table_named(release, (each,) if isinstance(each, str) else tuple(each), known) for each in names}
    if not found:
        raise ValueError("tables: none is named; leave the argument out for all")
    return sorted(found, key=known.index)


def _table_named(release: Release, parts: tuple[Any, ...], known: Sequence[str]) -> str:
    """The name of a table, given by itself or by the levels that it was asked for by, in any order.

    Raises:
        ValueError: there is none.
    """
    named = parts[0] if len(parts) == 1 else None
    if named not in known and kind_of(release.statement).has_tables:
        wanted = sorted(map(str, parts))
        levels = release.statement["levels"]
        named = next((each["level"] for each in levels if sorted(each["table"]) == wanted), None)
    if named not in known:
        shown = parts[0] if len(parts) == 1 else parts
        raise ValueError(f"tables: {shown!r} is not in the release, which has {', '.join(map(repr, known))}")
    return str(named)
