"""A prior: a public table, or an earlier release, that numbers are expected to resemble.

**It costs no privacy.** Noise is drawn for a plan that does not depend on the prior: neither what is measured nor its
scales do. Given the noisy measurements, what is published is a function of these and of the prior. Where the prior is
public, that is post-processing. Where it is a release that was made of the same people, it was paid for by itself, and
the pair (prior, measurements) loses the sum of both; a function of the pair loses no more. The ledger adds up that sum,
so a release has to be in it; of one that is published already, and of other people, the publisher can say so. So all
that has to be shown is that nothing else gets in as a prior, and this module refuses: a release with a seed, whose
noise is known; a folder that was changed (`Release.load`); the private records; a release of the same data set that the
ledger does not have, so that the sum would be too small; and a table without a statement of what it was made of, unless
the publisher says that it is public. The digest of the prior is in the plan, so another prior is another plan, with
other noise.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallytree.engines import Local
from tallytree.hierarchy import Hierarchy
from tallytree.kinds.terms import OnUnknown
from tallytree.ledger import Account, Ledger, checked_run
from tallytree.private import CountRecords, LeafCounts
from tallytree.product import Attribute, LeafKey, Product
from tallytree.release import Release
from tallytree.release.view.release_view import ReleaseView
from tallytree.run.options import PriorOptions
from tallytree.run.release_keys import plan_digest
from tallytree.run.revised import refuse_unrecorded
from tallytree.solvers.tables.variance import Table as Place
from tallytree.sources.addresses import published_name
from tallytree.sources.locate import locate
from tallytree.sources.reading import column_names
from tallytree.sources.same_tables import refuse_private
from tallytree.support.arrays import BoolArray, FloatArray, IntArray, NumberArray, sum_by_key
from tallytree.tables import TableLayout

_NUMBER = "number of the area"
NOT_PAID = (
    "give the ledger that it was recorded in, or, if it is of another data set and published, prior_is_public=True"
)
COUNT = "count"
"""The column of the numbers."""
LEAST_FOUND = 0.5
"""The least share of a release in cells of the hierarchies; with less its labels are others."""
MOST_RECORDS = 2**50
"""Cells are fitted in doubles."""
NOTE = (
    "Numbers are also moved towards those of an earlier table, which the statement names as the prior: as far as the "
    "noisy numbers say that it is like this one. A change since then that the noise hides may not show in a number."
)


@dataclass(frozen=True, eq=False)
class Prior:
    """What a release takes from a prior.

    Attributes:
        tables: of tables, by level of the areas and marginal, float64 (areas, cells); of counts see `prior_of_counts`.
            Areas that it does not have are not numbers.
        found: the least share, over its tables, of what it counts in cells of the hierarchies.
        release: the release that it is, where it is one.
        revised: whether the release that is made takes its place.
        said_to_be_public: whether the publisher says that it is public.
    """

    tables: Mapping[Any, NumberArray]
    found: float
    release: Release | None
    revised: bool = False
    said_to_be_public: bool = False

    @property
    def digest(self) -> str:
        """A digest of all that the fit takes: 64 hexadecimal digits."""
        digest = hashlib.sha256(b"revised" if self.revised else b"")  # the same numbers are then fitted in another way
        for place in sorted(self.tables):
            numbers = np.ascontiguousarray(self.tables[place])
            digest.update(json.dumps([*place, *numbers.shape]).encode())
            digest.update(numbers.astype(numbers.dtype.newbyteorder("<")).tobytes())
        return digest.hexdigest()

    @property
    def facts(self) -> dict[str, Any]:
        """What the statement says of it."""
        release = None if self.release is None else self.release.statement["release"]["id"]
        return {
            "digest": self.digest,
            "release": release,
            "said_to_be_public": self.said_to_be_public,
            "spent": None if self.release is None else self.release.statement["spent"],
            "share_in_cells": float(f"{self.found:.3g}"),
        }

    @property
    def recorded(self) -> dict[str, str]:
        """What the ledger's entry says of it."""
        facts = self.facts
        return {"prior": facts["digest"]} | ({"release": facts["release"]} if facts["release"] else {})

    def refuse_unpaid(self, account: Account | None, *, seeded: bool) -> None:
        """Refuse a release whose loss is not added up with that of the release that is made.

        Where both are in no ledger, nobody adds up anything, and the statement has what the prior spent.

        Args:
            account: the place of the release that is made, in a ledger; None without one.
            seeded: whether that has a seed, and is not private anyway.

        Raises:
            ValueError: the ledger does not have it, and nobody says that it is public; or it is of the same data set.
        """
        if self.release is None or seeded:
            return
        dataset = (self.release.statement.get("ledger") or {}).get("dataset")
        if account is not None:
            if dataset == account.posting.dataset or not self.said_to_be_public:
                refuse_unrecorded(self.release, account, "prior", "the release", NOT_PAID)
        elif dataset is not None and not self.said_to_be_public:
            raise ValueError(
                f"prior: the release is counted for the data set {dataset!r} in a ledger, and this one in none, so the "
                "two would not be added up; give the ledger, or prior_is_public=True if that release is published"
            )


def prior_of_tables(given: PriorOptions, layout: TableLayout) -> Prior | None:
    """The prior of a release of tables; None without one.

    Args:
        given: the options; `prior` is a public table, a release, or the folder of one. Without it, the release that is
            revised is the prior.
        layout: the tables.

    Raises:
        ValueError: it may not be used, or none of its tables is one of the layout's hierarchies.
        TypeError: it is no table and no release.
        OSError: it cannot be read.
    """
    tables: dict[Place, FloatArray] = {}
    read = _read(given, layout.product, layout.product.attributes)
    if read is None:
        return None
    for refined, listed in read.tables:
        level, marginal, cells = layout.summed_at(refined, listed.parts, listed.counts)
        areas = layout.product.attributes[0]
        cells[_absent(areas, layout.areas_refined(level), read.release)] = np.nan
        tables[level, marginal] = cells
    return Prior(tables, read.found, read.release, read.revised, given.prior_is_public)


def prior_of_counts(given: PriorOptions, tree: Hierarchy | Product) -> Prior | None:
    """The prior of a release of counts; None without one.

    Its `tables` are by level: (depth, 0) has nodes, int64 (n,) ascending, and (depth, 1) their counts, float64 (n,);
    all other nodes of the level have 0.

    Args:
        given: the options; see `prior_of_tables`.
        tree: the public tree.

    Raises:
        ValueError, TypeError, OSError: see `prior_of_tables`.
    """
    sides = tree.attributes if isinstance(tree, Product) else (Attribute("area", tree, tree.columns),)
    read = _read(given, tree, sides)
    if read is None:
        return None
    levels: dict[int, tuple[IntArray, FloatArray]] = {}
    for refined, listed in read.tables:
        if isinstance(tree, Product):
            found = tree.nodes_of_table(refined, listed.parts)
            if found is None:
                continue
            depth, rows = found
        else:
            depth, rows = len(tree.levels) - 1 - len(tree.columns) + refined[0], listed.parts[0]
        nodes, counts = sum_by_key(rows, listed.counts.astype(np.float64))
        if isinstance(tree, Hierarchy) and (absent := _absent(sides[0], refined[0], read.release)).any():
            gone = np.flatnonzero(absent)
            nodes, counts = sum_by_key(
                np.concatenate([nodes, gone]), np.concatenate([counts, np.full(len(gone), np.nan)])
            )
        levels[depth] = nodes, counts
    for depth in range(max(levels, default=0), 0, -1):  # coarser levels are sums, where they are not given
        nodes, counts = levels[depth]
        levels.setdefault(depth - 1, sum_by_key(tree.parents(depth, nodes), counts))
    tables: dict[tuple[int, int], NumberArray] = {}
    for depth, each in levels.items():
        tables |= {(depth, 0): each[0], (depth, 1): each[1]}
    return Prior(tables, read.found, read.release, read.revised, given.prior_is_public)


@dataclass(frozen=True, eq=False)
class _Read:
    """What was read of a prior.

    Attributes:
        tables: per table, how many columns of each hierarchy it has, and what it counts there.
        found: see `Prior`.
        release: see `Prior`.
        revised: see `Prior`.
    """

    tables: Sequence[tuple[Sequence[int], LeafCounts]]
    found: float
    release: Release | None
    revised: bool


def _read(given: PriorOptions, tree: Hierarchy | Product, sides: Sequence[Attribute]) -> _Read | None:
    """Read the prior of a release; None without one.

    Args:
        given: the options.
        tree: the public tree. A release of another tree cannot be revised, which is said before anything is made.
        sides: the hierarchies.
    """
    revised = given.prior is None and given.revised is not None
    release = _release_of(given)
    if given.revised is not None and revised:
        release = given.revised.release
        if release.tree is None or plan_digest("", release.tree) != plan_digest("", tree):
            return None
    if given.prior is None and (release is None or ReleaseView(release).number != COUNT):
        return None
    tables, shares = [], [0.0]
    for table in _tables_of(given.prior, release, [column for side in sides for column in side.columns]):
        refined = [_refined(side, table.columns) for side in sides]
        keys = [LeafKey(*_truncated(side, depth)) for side, depth in zip(sides, refined, strict=True) if depth]
        unknown: OnUnknown = "error" if release is None else "drop"
        try:
            listed = Local().tabulate(table.given, CountRecords(tuple(keys), COUNT, unknown, "prior"))
        except ValueError as error:
            what = str(error).partition(";")[0].removeprefix("prior: ")
            raise ValueError(f"prior: {what}; correct the prior, or leave such rows out of it") from None
        if int(listed.counts.sum()) > MOST_RECORDS:
            raise ValueError("prior: its counts add up to more than 2^50; give a coarser unit")
        shares.append(1.0 if table.total is None else float(listed.counts.sum()) / max(table.total, 1))
        tables.append((refined, listed))
    if max(shares) < LEAST_FOUND:
        raise ValueError(
            f"prior: {max(shares):.0%} of what it counts lies in cells of the hierarchies; give one with their columns "
            "and labels"
        )
    return _Read(tables, min(shares[1:]), release, revised)


def _absent(side: Attribute, refined: int, release: Release | None) -> BoolArray:
    """The areas that an earlier release does not have, as there were none then: bool (areas,); of a table, none.

    Args:
        side: the hierarchy of the areas.
        refined: how many of its columns are refined at their level.
        release: the earlier release; None where the prior is a table, in which areas that are not listed have 0.
    """
    absent: BoolArray = np.zeros(side.size(refined), dtype=np.bool_)
    if release is None or not refined or release.tree is None:
        return absent
    tree = ReleaseView(release).known_tree
    sides = tree.attributes if isinstance(tree, Product) else (Attribute("area", tree, tree.columns),)
    other = next((each for each in sides if each.columns[:refined] == side.columns[:refined]), None)
    if other is None:
        return absent
    names = list(side.columns[:refined])
    own, theirs = (
        pa.table(dict(zip(names, of.path_arrays(refined, np.arange(of.size(refined))), strict=True)))
        for of in (side, other)
    )
    numbered = own.append_column(_NUMBER, pa.array(np.arange(own.num_rows)))
    absent[numbered.join(theirs, names, join_type="left anti").column(_NUMBER).to_numpy()] = True
    return absent


def _release_of(given: PriorOptions) -> Release | None:
    """The release that is given as the prior; None where it is a table, or nothing is given.

    Raises:
        ValueError: it may not be used.
    """
    prior, release = given.prior, None
    if prior is None:
        if given.prior_is_public:
            raise ValueError("prior_is_public: it is about a prior, and there is none; give prior, or leave it out")
        return None
    if isinstance(prior, Release):
        release = prior
    elif isinstance(prior, str | os.PathLike) and os.path.isfile(os.path.join(prior, "release.json")):  # noqa: PTH113, PTH118
        try:
            release = Release.load(prior)
        except ValueError as error:
            raise ValueError(f"prior: {str(error).removeprefix('folder: ')}") from None
    if release is None:
        refuse_private(prior, "prior", given.private_table, given.private_argument)
        if not given.prior_is_public:
            raise ValueError(
                "prior: a table does not say what it was made of, and what is not public must not decide published "
                "numbers; give the folder of a release, or prior_is_public=True if the table is public, such as a "
                "register or the last census"
            )
        return None
    if not release.statement["private"] and given.seed is None:
        raise ValueError(
            "prior: it was made with a seed, so it is not private, and what follows from it is not; give a release "
            "without a seed"
        )
    return release


def prior_name(prior: Any) -> Any:
    """How the published spec names a prior: a release by its id, a table or a folder as it is named."""
    return f"release {prior.statement['release']['id']}" if isinstance(prior, Release) else published_name(prior)


def folder_of_run(
    run: str, folder: str | os.PathLike[str], ledger: Ledger | None, dataset: str | None, own: str | None
) -> Path:
    """The folder with the last release of a run, among those that lie beside a folder.

    Where the ledger has the run that is made already, with a release of that run as prior, it is this release: a run
    that is repeated has the prior that it had, also if that was revised since.

    Args:
        run: the name of the run.
        folder: the folder of the release that is made.
        ledger: has the run.
        dataset: the data set's name in it.
        own: the name of the run that is made; None without one.

    Raises:
        ValueError: no ledger is named, it does not have the run, or no folder has the release.
        OSError: the ledger, or a folder, cannot be read.
    """
    if ledger is None or dataset is None:
        raise ValueError(
            "prior_run: the ledger says which release is that of a run; name ledger and dataset, or give prior"
        )
    entries = ledger.entries(dataset)
    found = [entry.release_id for entry in entries if entry.run == checked_run(run)]
    priors = [entry.prior or {} for entry in entries if entry.run == own]
    before = [prior["release"] for prior in priors if "release" in prior]
    if not found:
        raise ValueError(
            f"prior_run: the ledger {ledger.path.name!r} has no run {run!r} of {dataset!r}; name one that it has"
        )
    wanted = before[-1] if before and before[-1] in found else found[-1]
    beside = Path(os.path.abspath(folder)).parent  # noqa: PTH100  (as the release is saved)
    for file in sorted(beside.glob("*/release.json")):
        try:
            stated = json.loads(file.read_bytes())["statement"]["release"]["id"]
        except (ValueError, KeyError, TypeError):  # of something else; what is found is checked when it is loaded
            continue
        if stated == wanted:
            return file.parent
    raise ValueError(
        f"prior_run: no folder in {beside.name!r} has the release of the run {run!r}; give its folder as prior"
    )


@dataclass(frozen=True)
class _PriorTable:
    """A table of a prior.

    Attributes:
        given: the table.
        columns: those that say which cell a row is about.
        total: what it counts; None where all of that has to lie in cells of the hierarchies.
    """

    given: Any
    columns: tuple[str, ...]
    total: int | None = None


def _tables_of(prior: Any, release: Release | None, columns: Sequence[str]) -> Iterator[_PriorTable]:
    """The tables of a prior, of those with columns of the hierarchies, and of no others.

    Raises:
        ValueError: a release of something else than counts; a table without a count, or without such columns.
    """
    if release is None:
        names = column_names(locate(prior, "prior", (), public=True), "prior")
        known = tuple(name for name in names if name in columns)
        if COUNT not in names or not known:
            raise ValueError(
                f"prior: it has the columns {', '.join(map(repr, names))}; it needs {COUNT!r}, and columns of the "
                f"hierarchies, which are {', '.join(map(repr, columns))}"
            )
        yield _PriorTable(prior, known)
        return
    view = ReleaseView(release)
    if view.number != COUNT:
        raise ValueError(
            f"prior: the release is of {view.statistic}, which has no counts; give one of tables, counts or flows"
        )
    for level in view.levels:
        path = view.paths(level)
        if path and set(path) <= set(columns):
            rows = view.whole(level).select([*path, COUNT]).drop_null()
            yield _PriorTable(rows, tuple(path), pc.sum(rows.column(COUNT)).as_py() or 0)


def _refined(side: Attribute, names: Sequence[str]) -> int:
    """How many columns of a hierarchy a table has, from the top.

    Raises:
        ValueError: a column without those above it.
    """
    depth = max((at for at, column in enumerate(side.columns, 1) if column in names), default=0)
    missing = [column for column in side.columns[:depth] if column not in names]
    if missing and not (missing == [side.columns[0]] and side.size(1) == 1):
        raise ValueError(
            f"prior: it has the column {side.columns[depth - 1]!r} and not {missing[0]!r}, which is above it; give both"
        )
    return depth


def _truncated(side: Attribute, depth: int) -> tuple[Hierarchy, tuple[str, ...]]:
    """A hierarchy down to a level, as one of its own, and its columns."""
    if depth == len(side.columns):
        return side.hierarchy, side.columns
    nodes = np.arange(side.size(depth), dtype=np.int64)
    paths = pa.table(dict(zip(side.columns[:depth], side.path_arrays(depth, nodes), strict=True)))
    hierarchy = Hierarchy.from_table(paths, side.columns[:depth])
    return hierarchy, hierarchy.columns
