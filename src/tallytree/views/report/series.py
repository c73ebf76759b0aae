"""The section of a report about a release and earlier ones: numbers as lines with bands, and how they changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tallytree.numbers.changes import AREAS, RELEASE, series
from tallytree.numbers.crosswalk import SAME
from tallytree.release import Release
from tallytree.release.counted_unit import counted_unit
from tallytree.release.view.release_view import ReleaseView
from tallytree.views import charts
from tallytree.views.report.pictures import Grid, Picture, short_labels
from tallytree.views.report.sections import ReportSection
from tallytree.views.report.wording import name, whole

MOST_AREAS = 24


@dataclass(frozen=True)
class ComparedReleases:
    """A release and earlier ones, which it is compared with.

    Attributes:
        releases: releases, or their folders, in the order of time; the last is the one that a report is about.
        level: whose numbers are compared, or the levels of a table; None for the last small level or table.
        crosswalk: as in `tallytree.series`.
        names: of the releases; None for their own.
    """

    releases: Sequence[Any]
    level: Sequence[str] | None = None
    crosswalk: Any = None
    names: Sequence[str] | None = None

    def section(self, release: Release) -> ReportSection:
        """The section about these; `release` is the last one.

        Raises:
            ValueError, TypeError: see `tallytree.series`.
        """
        view = ReleaseView(release)
        small = [each.level for each in view.tables if view.rows(each.level) <= MOST_AREAS]
        level = self.level or small[-1:]
        table = series(self.releases, level, crosswalk=self.crosswalk, names=self.names)
        paths = table.column_names[: table.column_names.index(RELEASE)]
        rows = table.to_pylist()
        labels = short_labels(table, paths) if paths else ["all"] * len(rows)
        read = view.shown(table.select(paths)) if paths else table
        coded = [pc.coalesce(read.column(each), table.column(each)) for each in paths]  # the last release has not all
        names = short_labels(pa.table(coded, names=paths), paths) if paths else labels
        called = {code: name(each) for code, each in zip(labels, names, strict=True)}
        releases = list(dict.fromkeys(table.column(RELEASE).to_pylist()))
        other = {label for label, row in zip(labels, rows, strict=True) if row[AREAS] != SAME}
        every = sorted(dict.fromkeys(labels), key=lambda label: label not in other)  # areas that changed come first
        areas = every[:MOST_AREAS]
        shown = [(label, row) for label, row in zip(labels, rows, strict=True) if label in areas]
        points = [
            {"area": areas.index(label), "release": releases.index(row[RELEASE]), "value": row["count"],
             "lower": row["ci_lower"], "upper": row["ci_upper"]}
            for label, row in shown
        ]  # fmt: skip
        unit, title = counted_unit(view.statement), f"{' and '.join(map(name, level)) or 'All'} over the releases"
        words = (
            f"{title}: {', '.join(map(name, releases))}. A line for each area; in the band the true number probably is."
        )
        grid = Grid(
            title,
            ("area", "release", unit, "from", "to", "change", "verdict", "how compared"),
            [
                (called[label], name(row[RELEASE]), *map(_number, (row["count"], row["ci_lower"], row["ci_upper"])),
                 _number(row["change"]), row["verdict"] or "-", row[AREAS])
                for label, row in shown
            ],
            f"{len(every) - len(areas):,} areas are left out." if len(every) > len(areas) else "",
        )  # fmt: skip
        drawn = Picture(
            title,
            words,
            lambda width: charts.lines(
                points, releases=[name(each) for each in releases], areas=[called[each] for each in areas], unit=unit,
                width=width, description=words,
            ),
            grid,
        )  # fmt: skip
        changed = sorted({row[AREAS] for row in rows} - {SAME})
        told = f" Some areas changed ({', '.join(changed)}), and come first." if changed else ""
        told += f" {len(areas):,} of {len(every):,} areas are shown." if len(every) > len(areas) else ""
        paragraph = (
            f"All numbers are of the areas of the last release.{told} “No change can be told” says that the noise of "
            "both releases may be all of the change, and not that nothing changed."
        )
        return ReportSection("series", "How the numbers changed", pictures=[drawn], paragraphs=[paragraph])


def _number(value: float | None) -> str:
    return "-" if value is None else whole(value)
