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

import pyarrow as pa

from tallytree.hierarchy import TOTAL, Hierarchy
from tallytree.kinds.households import PARTS, PERSONS, SIZES
from tallytree.kinds.registry import kind_of
from tallytree.product import Attribute, Product
from tallytree.release.derived_methods import method_from_above
from tallytree.release.files import sha256
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
        mean: pa.Table = method_from_above("mean_of_households")(self, level, alpha)
        return mean

    def _name(self, given: tuple[str | tuple[str, ...], ...]) -> str:
        """The name of a table of persons, which is what is derived from by other methods than `mean`."""
        return self.persons._name(given)

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
