"""The main functions: `release_counts`, `release_flows`, `release_tables`, `release_group_sizes`, `release_households`.

Their arguments are defined, each once with its description, in `tallytree.run.arguments` and, where the statement
or the audit needs them too, in `tallytree.kinds.terms`. `takes` makes the signatures and the help texts from there.
"""

from __future__ import annotations

import os
from pathlib import Path

from tallytree.release import HouseholdsRelease, Release
from tallytree.run import (
    ContributionsArguments,
    CountsArguments,
    FlowsArguments,
    HouseholdsArguments,
    SizesArguments,
    TablesArguments,
    make_secret,
    plan_contributions,
    plan_counts,
    plan_flows,
    plan_group_sizes,
    plan_households,
    plan_tables,
    released,
)
from tallytree.run.options import SharedArguments
from tallytree.run.signature import takes


@takes(CountsArguments, shared=SharedArguments)
def release_counts(arguments: CountsArguments) -> Release:
    """Publish how many records every node of a public hierarchy has.

    The released counts are integers ≥ 0, and every node's count is the sum of its children's. Mechanisms that are kept
    for comparison may not keep this promise: they warn, and the statement says so.

    Args:
        {arguments}

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
    return released(plan_counts, arguments)


@takes(FlowsArguments, shared=SharedArguments)
def release_flows(arguments: FlowsArguments) -> Release:
    """Publish how many trips go from every origin to every destination, at every level of both.

    `release_counts` on the product of two hierarchies that refine in turn (Boninsegna and Silvestri 2025, section 3).
    Where one side runs out of levels the other refines alone. Levels are named by the column they refine.

    Args:
        {arguments}

    Returns:
        The release; `release.table(level)` has one row per non-zero cell.

    Raises:
        ValueError, TypeError: an argument or the trips are not usable; nothing was published.
        BudgetExceeded: more than the budget, or than the ledger has left, would be spent; nothing was drawn.
        OSError: the ledger is locked or cannot be written; nothing was drawn.
    """
    return released(plan_flows, arguments)


@takes(TablesArguments, shared=SharedArguments)
def release_tables(arguments: TablesArguments) -> Release:
    """Publish several tables of areas by attributes that agree with each other, such as county × age × sex.

    All published tables are sums of one table of integers ≥ 0. So they agree, at every level of every hierarchy, and
    every coarser table follows exactly. See `docs/explanation/tables.md`.

    Args:
        {arguments}

    Returns:
        The release. `release.table("county", "sex")` has the path columns, `count` and `std_dev`; one row for each
        cell, zeros included, or for each non-zero cell of a table of more than 16 million cells. `release.tables`
        lists what was asked for, and `release.levels` also has what was measured to make these more accurate.

    Raises:
        ValueError, TypeError: an argument or the records are not usable; nothing was published.
        BudgetExceeded: more than the budget, or than the ledger has left, would be spent; nothing was drawn.
        OSError: the ledger is locked or cannot be written; nothing was drawn.

    Example:
        >>> import pyarrow as pa, tallytree as tt
        >>> areas = tt.Hierarchy.from_table(pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "x"]}),
        ...                                 levels=["state", "county"])
        >>> people = tt.Product({"area": areas, "sex": tt.Hierarchy.from_values("sex", ["f", "m"])})
        >>> records = pa.table({"state": ["A"] * 900, "county": ["y"] * 900, "sex": ["f", "m", "m"] * 300})
        >>> release = tt.release_tables(records, people, tt.Budget(epsilon=1), neighboring="change_one",
        ...                             tables=[("county", "sex"), ("state",), ()])
        >>> release.table()["count"].to_pylist()
        [900]
    """
    return released(plan_tables, arguments)


@takes(SizesArguments, shared=SharedArguments)
def release_group_sizes(arguments: SizesArguments) -> Release:
    """Publish how many groups (households, taxis) of every node have 0, 1, 2, … members.

    The released numbers are integers ≥ 0, every node's are the sums of its children's, and what `invariants` says is
    public is kept exactly. Mechanisms that are kept for comparison may not keep this promise: they warn, and the
    statement says so. Give either entity rows (`group`) or (leaf, size, groups) rows (`size` and `groups`), which state
    every group, those of size 0 included.

    Args:
        {arguments}

    Returns:
        The release; `release.table(level)` has one row per (node, size) with groups.

    Raises:
        ValueError, TypeError: an argument or the records are not usable; nothing was published.
        BudgetExceeded: more than the budget, or than the ledger has left, would be spent; nothing was drawn.
        OSError: the ledger is locked or cannot be written; nothing was drawn.
    """
    return released(plan_group_sizes, arguments)


@takes(HouseholdsArguments, shared=SharedArguments)
def release_households(arguments: HouseholdsArguments) -> HouseholdsRelease:
    """Publish tables of persons and households by size that agree at every level of areas.

    One release, one budget: persons are measured and fitted as in `release_tables`; households by size are measured as
    well, and fitted such that their members add up to the published persons in households of every area. Records are
    persons. A neighboring change is that of a person, with all their records (`max_contributions`). See
    `docs/explanation/households.md`.

    Args:
        {arguments}

    Returns:
        The release: `release.table("county", "sex")` has persons, `release.sizes("county")` households by size with
        their number of members, `release.mean("county")` the mean size of households. `release.persons` and
        `release.households` are these parts as releases of their own.

    Raises:
        ValueError, TypeError: an argument or the records are not usable; nothing was published.
        BudgetExceeded: more than the budget, or than the ledger has left, would be spent; nothing was drawn.
        OSError: the ledger is locked or cannot be written; nothing was drawn.
    """
    release = released(plan_households, arguments)
    assert isinstance(release, HouseholdsRelease)  # noqa: S101  (what a plan of them makes)
    return release


@takes(ContributionsArguments, shared=SharedArguments)
def release_contributions(arguments: ContributionsArguments) -> Release:
    """Publish how many people have how many records, and recommend a contribution bound.

    To choose `max_contributions` of a release of counts before it is made, with a part of its budget. The arguments are
    those of that release; of group sizes give the entity rows, whose records are memberships, and of flows a `Product`.
    The privacy unit is a person with all of their records, however many. See `docs/how-to/contributions.md`.

    Args:
        {arguments}

    Returns:
        The release; `release.table("contributions")` has one row per bin of numbers of records, with a noisy number of
        people, and `release.statement["contributions"]` says what `max_contributions` leaves out, and which bound is
        recommended.

    Raises:
        ValueError, TypeError: an argument or the records are not usable; nothing was published.
        BudgetExceeded: more than the ledger has left would be spent; nothing was drawn.
        OSError: the ledger is locked or cannot be written; nothing was drawn.
    """
    return released(plan_contributions, arguments)


def new_secret(path: str | os.PathLike[str]) -> Path:
    """Make a file with a new secret, readable by its owner alone (mode 0600); see the argument `secret`.

    Args:
        path: where to; nothing may be there yet.

    Returns:
        The file's path.

    Raises:
        FileExistsError: something is there; a secret is never overwritten.
        OSError: the file cannot be made.
        TypeError: not a path.
    """
    return make_secret(path)
