"""The main job: `release_counts`, `release_flows` and `release_group_sizes`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal

from tallytree.budget import Budget, BudgetSplit
from tallytree.counts import CountsMechanism
from tallytree.hierarchy import Hierarchy
from tallytree.ledger import Ledger
from tallytree.pipeline import CountsJob, GroupSizesJob, Options, counts_job, flows_job, group_sizes_job
from tallytree.private.engines.engine import Engine
from tallytree.product import Product
from tallytree.release import Release
from tallytree.sizes import PrivateMaximum, SizesMechanism


def release_counts(
    records: Any,
    hierarchy: Hierarchy | Product,
    budget: Budget,
    *,
    neighboring: str,
    count: str | None = None,
    max_contributions: int = 1,
    person: str | None = None,
    distinct: bool = False,
    mechanism: CountsMechanism | None = None,
    budget_split: BudgetSplit = None,
    accounting: str | None = None,
    on_unknown: Literal["error", "drop"] = "error",
    seed: int | None = None,
    noise: Literal["keyed", "opendp"] = "keyed",
    engine: Engine | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    progress: bool = False,
) -> Release:
    """Publish how many records every node of a public hierarchy has.

    The released counts are integers ≥ 0, and every node's count is the sum of its children's. A mechanism kept for
    comparison that falls short of this warns, and the statement says it.

    Args:
        records: the private table: a path or glob (Parquet, CSV), a pandas, polars or pyarrow table, or a DuckDB
            relation; with the columns of the hierarchy's levels (a single-valued top column may be missing).
        hierarchy: the public tree; a leaf without records is measured all the same.
        budget: what may be spent. Pure ε: discrete Laplace noise; with δ or ρ: discrete Gaussian noise (but see
            `tallytree.counts.StabilityHistogram`).
        neighboring: what is protected: `"add_remove"` (`"unbounded"`), a person's presence; or `"change_one"`
            (`"bounded"`), the content of a person's record, with everyone having one (the total is then published).
        count: a column with the number of records that each row stands for; by default each row is one.
        max_contributions: the most records of one person; assumed, unless `person` says who they are.
        person: the column with the id of the person whom a record belongs to (text or integers). Of every person at
            most `max_contributions` records then count, chosen by a secret key. The total is private then.
        distinct: with `person`, count every person at most once in a leaf. At most `max_contributions` leaves of a
            person count, and the leaves have less noise (by √m with Gaussian noise).
        mechanism: how measurements become counts; `tallytree.counts.LeastSquares()` by default.
        budget_split: `"even"` (the default), a weight for each measured level, or `"auto"`, which chooses weights from
            public facts so that the expected maximum error, averaged over levels, is least.
        accounting: for a budget with δ: `"pld"` (privacy-loss distributions, the tightest; the default where it is
            proven: `max_contributions=1`), `"zcdp"` (tight conversion of ρ, the default elsewhere) or `"paper"`.
        on_unknown: a record outside the hierarchy is an `"error"` or left out (`"drop"`; the total is private then).
        seed: makes the noise reproducible, and the release **not private**; for tests and experiments. Other data,
            mechanisms or options draw other noise from the same seed.
        noise: `"keyed"`, or `"opendp"` to draw from OpenDP (extra `tallytree[opendp]`).
        engine: where records are tabulated; `tallytree.engines.Local()` by default.
        ledger: a file, or a `tallytree.ledger.Ledger`, in which the release is recorded before its noise is
            drawn, and which refuses it where the data set's limit has no room. It is made where there is none.
        dataset: the data set's name in the ledger; the same for all releases of the same people.
        progress: show a progress bar on standard error.

    Returns:
        The release; `release.table(level)` has one row per node, zeros included (per non-zero cell for a `Product`).

    Raises:
        ValueError, TypeError: an argument or the records are not usable; nothing was published.
        BudgetExceeded: more than the budget, or than the ledger has left, would be spent; nothing was drawn.
        OSError: the ledger is locked or cannot be written; nothing was drawn.

    Example:
        >>> import pyarrow as pa, tallytree as tt
        >>> areas = tt.Hierarchy.from_table(pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "x"]}),
        ...                                 levels=["state", "county"])
        >>> people = pa.table({"state": ["A"] * 900 + ["B"] * 100, "county": ["y"] * 900 + ["x"] * 100})
        >>> release = tt.release_counts(people, areas, tt.Budget(epsilon=1), neighboring="change_one")
        >>> release.table("all")["count"].to_pylist()
        [1000]
    """
    options = Options(
        neighboring=neighboring,
        max_contributions=max_contributions,
        person=person,
        distinct=distinct,
        mechanism=mechanism,
        budget_split=budget_split,
        accounting=accounting,
        on_unknown=on_unknown,
        seed=seed,
        noise=noise,
        engine=engine,
        progress=progress,
        ledger=ledger,
        dataset=dataset,
    )
    return _released(counts_job(records, hierarchy, budget, options, count=count))


def release_flows(
    trips: Any,
    *,
    origins: Hierarchy,
    destinations: Hierarchy,
    origin: Sequence[str],
    destination: Sequence[str],
    budget: Budget,
    neighboring: str,
    tree: Literal["destination", "origin"] = "destination",
    count: str | None = None,
    max_contributions: int = 1,
    person: str | None = None,
    distinct: bool = False,
    mechanism: CountsMechanism | None = None,
    budget_split: BudgetSplit = None,
    accounting: str | None = None,
    on_unknown: Literal["error", "drop"] = "error",
    seed: int | None = None,
    noise: Literal["keyed", "opendp"] = "keyed",
    engine: Engine | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    progress: bool = False,
) -> Release:
    """Publish how many trips go from every origin to every destination, at every level of both.

    `release_counts` on the product of two hierarchies that refine in turn (Boninsegna and Silvestri 2025, section 3).
    Where one side runs out of levels the other refines alone. Levels are named by the column they refine.

    Args:
        trips: the private table, one row per trip unless `count` says otherwise.
        origins: the public hierarchy of origins.
        destinations: the public hierarchy of destinations; it may be another one, of another depth.
        origin: the columns of `trips` with the origin's path, top first, one per level of `origins`. The column of a
            single-valued top level may be left out.
        destination: the columns with the destination's path.
        budget: what may be spent.
        neighboring: `"add_remove"` or `"change_one"`; see `release_counts`.
        tree: which side is refined first: `"destination"` for a destination tree, or `"origin"`.
        count: a column with the number of trips that each row stands for.
        max_contributions: the most trips of one person; assumed, unless `person` says who they are.
        person: see `release_counts`.
        distinct: see `release_counts`; a leaf is a pair of leaves.
        mechanism: see `release_counts`; likewise the remaining arguments.
        budget_split: see `release_counts`.
        accounting: see `release_counts`.
        on_unknown: see `release_counts`.
        seed: see `release_counts`.
        noise: see `release_counts`.
        engine: see `release_counts`.
        ledger: see `release_counts`.
        dataset: see `release_counts`.
        progress: see `release_counts`.

    Returns:
        The release; `release.table(level)` has one row per non-zero cell.

    Raises:
        ValueError, TypeError: an argument or the trips are not usable; nothing was published.
        BudgetExceeded: more than the budget, or than the ledger has left, would be spent; nothing was drawn.
        OSError: the ledger is locked or cannot be written; nothing was drawn.
    """
    options = Options(
        neighboring=neighboring,
        max_contributions=max_contributions,
        person=person,
        distinct=distinct,
        mechanism=mechanism,
        budget_split=budget_split,
        accounting=accounting,
        on_unknown=on_unknown,
        seed=seed,
        noise=noise,
        engine=engine,
        progress=progress,
        ledger=ledger,
        dataset=dataset,
    )
    job = flows_job(
        trips,
        budget,
        options,
        origins=origins,
        destinations=destinations,
        origin=origin,
        destination=destination,
        tree=tree,
        count=count,
    )
    return _released(job)


def release_group_sizes(
    records: Any,
    hierarchy: Hierarchy,
    budget: Budget,
    *,
    neighboring: str,
    group: str | None = None,
    quantity: str | None = None,
    max_quantity: int = 1,
    size: str | None = None,
    groups: str | None = None,
    public_groups: Any = None,
    invariants: Literal["groups", "total", "none"] | None = None,
    max_group_size: int | PrivateMaximum | Literal["private"] = 10_000,
    min_group_size: int = 0,
    max_contributions: int = 1,
    mechanism: SizesMechanism | None = None,
    budget_split: BudgetSplit = None,
    accounting: str | None = None,
    on_unknown: Literal["error", "drop"] = "error",
    seed: int | None = None,
    noise: Literal["keyed", "opendp"] = "keyed",
    engine: Engine | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    progress: bool = False,
) -> Release:
    """Publish how many groups (households, taxis) of every node have 0, 1, 2, … members.

    The released numbers are integers ≥ 0, every node's are the sums of its children's, and what `invariants` says is
    public is kept exactly; a mechanism kept for comparison that falls short of this warns, and the statement says it.
    Give either entity rows (`group`) or (leaf, size, groups) rows (`size` and `groups`), which
    state every group, those of size 0 included.

    Args:
        records: the private table, with the columns of the hierarchy's levels.
        hierarchy: the public tree; every group lies in one leaf.
        budget: what may be spent.
        neighboring: `"add_remove"` or `"change_one"`: a member of a group comes or goes, or moves to another group.
        group: for entity rows, the column that names an entity's group.
        quantity: for entity rows, a column with what each adds to its group's size (cars, seats); without it, 1.
        max_quantity: larger quantities are cut to it, so with the default of 1 a quantity only says whether there is
            any; the noise is for quantities up to it. For (leaf, size, groups) rows, the most that one record can have
            added to a size; assumed, not enforced.
        size: for (leaf, size, groups) rows, the column with the size.
        groups: for (leaf, size, groups) rows, the column with the number of groups of that size in that leaf.
        public_groups: for entity rows, the public table of all groups: the hierarchy's columns and `groups`, the number
            of groups in a leaf. Groups without entities have size 0; a leaf that is not listed has no groups.
        invariants: which numbers of groups are published exactly: `"groups"`, every leaf's (the default with
            `public_groups` and for (leaf, size, groups) rows); `"total"`, their sum; `"none"` (the default for entity
            rows alone). With the last two, groups without members are not counted, so sizes begin with 1.
        max_group_size: K; larger groups are set to it. Where it is not public: a `tallytree.sizes.PrivateMaximum`, or
            `"private"` for one with its defaults, measures the largest size with a share of the budget first.
        min_group_size: smaller groups are set to it.
        max_contributions: the most records of one person; assumed, not enforced.
        mechanism: how measurements become group sizes, one of `tallytree.sizes`; `Joint()` by default.
        budget_split: `"even"` (the default), a weight for each measured level, or `"auto"`, which chooses weights from
            public facts so that no level pays much more than another for all of them being published.
        accounting: see `release_counts`; likewise the remaining arguments.
        on_unknown: see `release_counts`.
        seed: see `release_counts`.
        noise: see `release_counts`.
        engine: see `release_counts`.
        ledger: see `release_counts`.
        dataset: see `release_counts`.
        progress: see `release_counts`.

    Returns:
        The release; `release.table(level)` has one row per (node, size) with groups.

    Raises:
        ValueError, TypeError: an argument or the records are not usable; nothing was published.
        BudgetExceeded: more than the budget, or than the ledger has left, would be spent; nothing was drawn.
        OSError: the ledger is locked or cannot be written; nothing was drawn.
    """
    options = Options(
        neighboring=neighboring,
        max_contributions=max_contributions,
        mechanism=mechanism,
        budget_split=budget_split,
        accounting=accounting,
        on_unknown=on_unknown,
        seed=seed,
        noise=noise,
        engine=engine,
        progress=progress,
        ledger=ledger,
        dataset=dataset,
    )
    job = group_sizes_job(
        records,
        hierarchy,
        budget,
        options,
        group=group,
        quantity=quantity,
        max_quantity=max_quantity,
        size=size,
        groups=groups,
        public_groups=public_groups,
        invariants=invariants,
        max_group_size=max_group_size,
        min_group_size=min_group_size,
    )
    return _released(job)


def _released(job: CountsJob | GroupSizesJob) -> Release:
    release = job.run()
    job.finish()
    return release
