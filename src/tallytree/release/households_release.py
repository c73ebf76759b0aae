"""`HouseholdsRelease`: persons and households that agree, in two parts that are releases themselves.

On disk a folder (format version 4):

    release.json     statement of both parts, spec, checksums of the parts' release.json; written last
    persons/         the tables of persons, as any release of tables
    households/      households by size, as any release of group sizes
    deployment.yaml  of a private release: an entry for a registry, of both parts
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.hierarchy import TOTAL, Hierarchy, decoded
from tallytree.kinds.households import PARTS, PERSONS, SIZES
from tallytree.kinds.registry import kind_of
from tallytree.product import Attribute, Product
from tallytree.release.files import sha256
from tallytree.release.intervals import checked_alpha, quantile
from tallytree.release.level_tables import beside_paths
from tallytree.release.manifest import FORMAT_VERSION, MANIFEST, read_manifest
from tallytree.release.release import Release, write_manifest
from tallytree.support.whole_files import flush

IN_HOUSEHOLD = "in_household"
"""The attribute of persons that follows from the id of their household."""
IN_OR_OUTSIDE = ("yes", "no")
"""Its values."""


def area_tables(side: Attribute) -> list[tuple[str, ...]]:
    """For every level of the areas, root first, the table of persons in households and outside.

    Args:
        side: the areas.
    """
    without = len(side.hierarchy.levels) - len(side.columns)  # levels above the first column
    depths = range(1 - without, len(side.columns) + 1)
    return [(*((side.columns[depth - 1],) if depth > 0 else ()), IN_HOUSEHOLD) for depth in depths]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class HouseholdsRelease(Release):
    """A differentially private release of persons and households that agree.

    Attributes:
        persons: the tables of persons, a release of tables.
        households: households by size, a release of group sizes.
    """

    persons: Release
    households: Release

    def __repr__(self) -> str:
        """The parts with their levels and published rows."""
        return f"HouseholdsRelease(persons: {self.persons!r}, households: {self.households!r})"

    def _repr_html_(self) -> str:
        """Both parts, for notebooks."""
        return self.persons._repr_html_() + self.households._repr_html_()

    @property
    def parts(self) -> dict[str, Release]:
        """Both parts by name."""
        return {PERSONS: self.persons, SIZES: self.households}

    @property
    def tree(self) -> Hierarchy | Product | None:
        """The public hierarchies of the tables of persons; those of the areas are the first."""
        return self.persons.tree

    @property
    def levels(self) -> tuple[str, ...]:
        """Names of the tables of persons; the levels of areas are `households.levels`."""
        return self.persons.levels

    @property
    def tables(self) -> tuple[tuple[str, ...], ...]:
        """The tables of persons that were asked for, each as `table` takes it."""
        return self.persons.tables

    def table(self, *level: str | tuple[str, ...], **options: Any) -> pa.Table:
        """A table of persons by the levels that it was asked for; see `Release.table`. Sizes are in `sizes`.

        Raises:
            ValueError: see `Release.table`.
        """
        return self.persons.table(*level, **options)

    def measurements(self, *level: str) -> pa.Table:
        """The noisy measurements of a table of persons; those of sizes are `households.measurements`."""
        return self.persons.measurements(*level)

    def sizes(self, level: str, **options: Any) -> pa.Table:
        """Households by size of a level of areas; see `Release.table`.

        Path columns; `size` (K stands for K or more); `groups`, the number of households of that size; `persons`, how
        many members they have together; `persons_std_dev`; `households_std_dev`, of the number of all households of the
        area; `std_dev`, of `groups`; `quality`. A row for each area and size that has households.

        Raises:
            ValueError: see `Release.table`.
        """
        return self.households.table(level, **options)

    def mean(self, level: str = TOTAL, *, alpha: float = 0.1, **options: Any) -> pa.Table:
        """The mean number of members of a household of every area: persons in households ÷ households.

        Its standard deviation is that of the ratio to first order, and its interval is the mean ± a quantile of the
        normal distribution times that. Of one person too many in households, a part is in the number of households
        too: 1 / (K + 1), which is the least that is so, is counted as the covariance of both errors.

        Args:
            level: of areas; `"total"`, the default, is all areas together.
            alpha: intervals are to miss the true mean with this probability.
            options: with `attribute`, the mean of an attribute of persons: see `Release.mean`.

        Returns:
            Path columns; `persons`, those in households, and `households` (int64); `mean`, `std_dev`, `ci_lower` and
            `ci_upper` (float64), null of an area without households. A mean is 1 at least, so `ci_lower` is too.

        Raises:
            ValueError: an unknown level, or an `alpha` that is not between 0 and 1.
        """
        if any(given is not None for given in options.values()):
            return self.persons.mean(level, alpha=alpha, **options)
        from tallytree.release.view.release_view import ReleaseView, published_level

        reach = quantile(checked_alpha(alpha), None)
        view = ReleaseView(self.households)
        areas = view.known_tree
        name = self.households._name((areas.levels[0] if level == TOTAL else level,))
        depth = self.households.levels.index(name)
        if not isinstance(areas, Hierarchy):
            raise ValueError("level: the tree of this release is none of areas; take a fresh copy of the release")
        size = areas.size(depth)
        persons, of_persons = self._in_households(depth, size)
        found, rows = published_level(self.households.level_tables[name], areas, depth), view.whole(name)
        households, of_households = np.zeros(size, dtype=np.int64), np.zeros(size)
        np.add.at(households, found.nodes, found.numbers)
        of_households[found.nodes] = rows.column("households_std_dev").to_numpy()
        none = households == 0
        number = np.maximum(households, 1)
        mean = persons / number
        part = np.minimum(1 / ((view.largest_size or 0) + 1), 1 / np.maximum(mean, 1))
        variance = (mean * of_households) ** 2 + of_persons**2 * (1 - 2 * mean * part)
        std_dev = np.sqrt(np.maximum(variance, 0.0)) / number
        ends = np.maximum(mean - reach * std_dev, np.minimum(mean, 1.0)), mean + reach * std_dev
        columns = {"persons": pa.array(persons), "households": pa.array(households)}
        for column, values in zip(("mean", "std_dev", "ci_lower", "ci_upper"), (mean, std_dev, *ends), strict=True):
            columns[column] = pa.array(values, mask=none)
        return decoded(beside_paths(areas, depth, np.arange(size, dtype=np.int64), pa.table(columns)))

    def _name(self, given: tuple[str | tuple[str, ...], ...]) -> str:
        """The name of a table of persons, which is what is derived from by other methods than `mean`."""
        return self.persons._name(given)

    def _in_households(self, depth: int, size: int) -> tuple[Any, Any]:
        """Of every area of a level, the published persons in households and the standard deviation, (areas,) each."""
        from tallytree.release.view.release_view import ReleaseView, published_level
        from tallytree.tables.layout import table_of

        view = ReleaseView(self.persons)
        layout = view.layout
        place = layout.place(table_of(layout.product, area_tables(layout.product.attributes[0])[depth], "level"))
        if place is None:
            raise ValueError("level: the persons of this level are not in the release; take a fresh copy of it")
        found = published_level(self.persons.level_tables[layout.levels[place]], layout, place)
        numbers, std_dev = np.zeros(2 * size, dtype=np.int64), np.zeros(2 * size)
        numbers[found.nodes], std_dev[found.nodes] = found.numbers, view.column(layout.levels[place], "std_dev")
        return numbers[::2], std_dev[::2]

    def _write(self, folder: Path, *, csv: bool) -> None:
        files = {}
        for name, part in self.parts.items():
            (folder / name).mkdir()
            part._write(folder / name, csv=csv)
            flush(folder / name)
            files[f"{name}/{MANIFEST}"] = {"rows": 0, "sha256": sha256(folder / name / MANIFEST)}
        manifest = {
            "format_version": FORMAT_VERSION,
            "levels": [each["level"] for each in self.statement["levels"]],
            "statement": self.statement,
            "spec": self.spec,
            "files": files,
        }
        write_manifest(manifest, folder)


def part_folders(folder: Path) -> tuple[Path, ...]:
    """The folders of the parts of a release of persons and households; of anything else, its own.

    Raises:
        ValueError: no complete release.
    """
    parts = kind_of(read_manifest(folder)["statement"]).parts if folder.is_dir() else ()
    return tuple(folder / part for part in parts) or (folder,)


def loaded_parts(place: Path, manifest: dict[str, Any]) -> HouseholdsRelease:
    """The release in a folder, whose own files were compared with its manifest.

    Raises:
        ValueError: a part is no complete release, or was changed.
    """
    persons, households = (Release.load(place / part) for part in PARTS)
    return HouseholdsRelease(manifest["statement"], manifest["spec"], {}, {}, persons=persons, households=households)
