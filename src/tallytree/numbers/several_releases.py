"""What several releases must have in common, and `total_of`: their totals together, with the error of each."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.hierarchy import RESERVED
from tallytree.numbers.accuracy.replicate_errors import opened
from tallytree.numbers.cells import ReleasedCells, Replication
from tallytree.numbers.derived import cells_of
from tallytree.numbers.totals import Totals, added
from tallytree.release import HouseholdsRelease, Release
from tallytree.release.contributions_table import description
from tallytree.release.counted_unit import counted_unit, is_bounded
from tallytree.release.intervals import checked_alpha
from tallytree.sources.leaf_paths import decoded
from tallytree.support.arrays import FloatArray
from tallytree.support.validate import safe_text

SHARE = "share_left_out"
"""The column with the accumulated share."""


def counted(given: Any, argument: str) -> Release:
    """A release that was given, or that of a folder; of persons and households the tables of persons.

    Raises:
        TypeError: neither.
    """
    release = opened(given, argument)
    return release.persons if isinstance(release, HouseholdsRelease) else release


def refuse_repeated(releases: Sequence[Release], names: Sequence[str]) -> None:
    """Refuse releases that have the same noise: their errors are not independent.

    Raises:
        ValueError: two have one id.
    """
    seen: dict[Any, str] = {}
    for release, name in zip(releases, names, strict=True):
        statement = release.statement
        identity = statement["release"]["id"]
        if identity in seen:
            raise ValueError(
                f"{name}: it is the same release as {seen[identity]} (or has its seed), with the same noise; give "
                "releases that were made on their own"
            )
        seen[identity] = name


def cells_of_same(derived: str, releases: Sequence[Release], names: Sequence[str]) -> list[ReleasedCells]:
    """The cells of releases whose numbers are of the same things.

    Raises:
        ValueError: something else is derived from one of them, or the numbers are of different things.
    """
    several = []
    for release, name in zip(releases, names, strict=True):
        several.append(cells_of(release, derived, name))
        for what, of in (("statistic", lambda each: each["statistic"]), ("unit", counted_unit)):
            if of(release.statement) != of(releases[0].statement):
                raise ValueError(
                    f"{name}: its {what} is {of(release.statement)!r}, and that of {names[0]} is "
                    f"{of(releases[0].statement)!r}; give releases of the same numbers"
                )
    return several


def total_of(
    releases: Sequence[Release | str | os.PathLike[str]],
    areas: Any = None,
    *,
    by: str | None = None,
    where: Mapping[str, Any] | None = None,
    alpha: float = 0.1,
    replicates: int | None = None,
    seed: int | None = None,
    progress: bool = False,
) -> pa.Table:
    """The totals of several releases together, such as the days of a week, with the error of each.

    Releases have noise of their own, so the variances of their totals add up. Nothing is spent.

    Args:
        releases: releases, or folders of saved ones; of one statistic and unit.
        areas: a public table of areas, as in `Release.total`; of tables it may be left out.
        by: as in `Release.total`.
        where: as in `Release.total`.
        alpha: intervals are to miss the true number with this probability.
        replicates: as in `Release.total`, of each release.
        seed: makes the replicates reproducible, for tests.
        progress: show the progress of replicates on standard error.

    Returns:
        The column `by` (or the path columns of the level), if it is given; `count`; `std_dev`, `ci_lower`, `ci_upper`
        and `quality`, as of `Release.total`. With an enforced contribution bound also `share_left_out`: the share of
        all records that the bounds of all releases left out of the area, taken that each left out the same share
        everywhere; null where a release did not measure it.

    Raises:
        ValueError: no releases, one twice, one beside its revision, or such of different statistics or units; what
            `Release.total` refuses.
        TypeError: an argument of the wrong kind.
    """
    level_alpha = checked_alpha(alpha)
    if isinstance(releases, str | os.PathLike | Release) or not isinstance(releases, Sequence):
        raise TypeError(f"releases: {safe_text(releases)} must be a list of releases, or of folders of saved ones")
    if not releases:
        raise ValueError("releases: the list is empty; give at least one release")
    names = [f"releases[{place}]" for place in range(len(releases))]
    several = [counted(given, name) for given, name in zip(releases, names, strict=True)]
    refuse_repeated(several, names)
    _refuse_revised(several, names)
    cells = cells_of_same("total_of", several, names)
    replication = Replication.checked(replicates, seed, progress=progress)
    of_each = [each.totals(areas, by, where, replication.with_seed_of(place)) for place, each in enumerate(cells)]
    paths = [{name: each.columns[name] for name in each.columns if name not in RESERVED} for each in of_each]
    for name, other in zip(names, paths, strict=True):
        if not pa.table(other).equals(pa.table(paths[0])):
            raise ValueError(
                f"{name}: its areas at {by!r} are others than those of {names[0]}, or in another order; give a table "
                "of areas"
            )
    together = added(of_each, paths[0])
    table = decoded(together.judged(level_alpha))
    if is_bounded(several[0].statement):
        table = table.append_column(SHARE, _share_left_out(several, of_each))
    return table.replace_schema_metadata(description(several[0].statement) or None)


def _refuse_revised(several: Sequence[Release], names: Sequence[str]) -> None:
    """Refuse a release beside the one that takes its place: both are of the same records."""
    entries = [release.statement["release"] for release in several]
    place_of = {each["id"]: name for each, name in zip(entries, names, strict=True)}
    for each, name in zip(entries, names, strict=True):
        earlier = place_of.get((each.get("revises") or {}).get("id"))
        if earlier is not None:
            raise ValueError(f"releases: {name} takes the place of {earlier}, and has the same records; keep one")


def _share_left_out(several: Sequence[Release], of_each: Sequence[Totals]) -> pa.Array:
    """The share of all records that the bounds left out, of each area: what is left out of each over all of them.

    A release that counted C records and left out the share s is of C / (1 − s) records.
    """
    shares = [
        (release.statement.get("contributions") or {}).get(SHARE, {}).get("estimate", np.nan) for release in several
    ]
    counted = np.array([each.numbers for each in of_each], dtype=np.float64)
    records = counted / (1 - np.minimum(np.array(shares, dtype=np.float64), 1 - 1e-9))[:, None]
    every: FloatArray = records.sum(axis=0)
    share = np.divide(every - counted.sum(axis=0), every, out=np.zeros(len(every)), where=every != 0)
    return pa.array(share, mask=np.isnan(share))
