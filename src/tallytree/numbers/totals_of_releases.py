"""`total_of`: totals of several releases together, such as the days of a week, with their errors."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.hierarchy import RESERVED, decoded
from tallytree.numbers.accuracy.replicate_errors import checked_replicates
from tallytree.numbers.changes import opened, refuse_different, refuse_repeated
from tallytree.numbers.summed_totals import Totals, added
from tallytree.numbers.totals import totals
from tallytree.release import Release
from tallytree.release.contributions_table import description
from tallytree.release.counted_unit import is_bounded
from tallytree.release.intervals import checked_alpha
from tallytree.release.view.release_view import ReleaseView
from tallytree.support.arrays import FloatArray
from tallytree.support.validate import integer, safe_text

SHARE = "share_left_out"
"""The column with the accumulated share."""


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
    several = [opened(given, name) for given, name in zip(releases, names, strict=True)]
    refuse_repeated(several, names)
    _refuse_revised(several, names)
    refuse_different("total_of", several, names)
    rounds = None if replicates is None else checked_replicates(replicates)
    fixed = None if seed is None else integer(seed, "seed")
    options: dict[str, Any] = {"by": by, "where": where, "replicates": rounds, "progress": progress}
    of_each = [
        totals(ReleaseView(release), areas, seed=None if fixed is None else fixed + place, **options)
        for place, release in enumerate(several)
    ]
    paths = [{name: each.columns[name] for name in each.columns if name not in RESERVED} for each in of_each]
    for name, other in zip(names, paths, strict=True):
        if not pa.table(other).equals(pa.table(paths[0])):
            raise ValueError(
                f"{name}: its areas at {by!r} are others than those of {names[0]}, or in another order; give a table "
                "of areas"
            )
    together = added(of_each, paths[0])
    made = decoded(together.judged(level_alpha))
    if is_bounded(several[0].statement):
        made = made.append_column(SHARE, _share_left_out(several, of_each))
    return made.replace_schema_metadata(description(several[0].statement) or None)


def _refuse_revised(several: Sequence[Release], names: Sequence[str]) -> None:
    """Refuse a release beside the one that takes its place: both are of the same records."""
    made = [release.statement["release"] for release in several]
    place_of = {each["id"]: name for each, name in zip(made, names, strict=True)}
    for each, name in zip(made, names, strict=True):
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
    found = np.divide(every - counted.sum(axis=0), every, out=np.zeros(len(every)), where=every != 0)
    return pa.array(found, mask=np.isnan(found))
