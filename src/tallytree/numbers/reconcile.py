"""From noisy measurements to published tables, again: `reconcile_group_sizes` and `reconcile_counts`.

No private data is read, and nothing is spent: what was measured stays as it was.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tallytree.counts import CountsMechanism, LeastSquares
from tallytree.counts.released_counts import count_negative, count_violations
from tallytree.hierarchy import Hierarchy
from tallytree.kinds.foreign import check_foreign, is_foreign
from tallytree.kinds.measurements import Measurement, Noise, Statistic
from tallytree.kinds.mechanism import FOR_COMPARISON, Mechanism
from tallytree.kinds.registry import kind_of
from tallytree.kinds.terms import Invariants
from tallytree.numbers.accuracy.replicate_errors import opened, stated_plan
from tallytree.release import LevelTable, Release
from tallytree.release.released_tables import about_size_tables, count_tables, size_tables
from tallytree.release.statement import (
    BROKEN,
    TABLES_MADE_BY,
    TOTAL_IS_PUBLIC,
    marks_of,
    mechanism_spec,
    not_audited,
    prior_note,
    versions,
)
from tallytree.release.view.recorded_measurements import (
    FRESH_COPY,
    described,
    nodes_of_paths,
    path_texts,
    published_range,
    read_measurements,
    recorded_noise,
)
from tallytree.release.view.release_view import ReleaseView
from tallytree.run.checked_results import about_foreign_counts, broken, counts_by, in_words, sizes_by
from tallytree.run.checked_results import described as described_class
from tallytree.run.planning import warn_caller
from tallytree.sizes import Joint
from tallytree.sizes.mechanism import SizesDomain, SizesMechanism, measured_depths
from tallytree.support.arrays import IntArray, NumberArray

MADE_AGAIN = "The tables were made again from the noisy measurements of an earlier release"

FITTING: dict[Statistic, str] = {
    "tail_counts": "Matching(), Joint() or CumulativeProjection()",
    "histogram": 'HistogramProjection(), CensusTopDown() or Matching(estimator="naive")',
    "sorted_sizes": 'Matching(estimator="sorted")',
    "chain_tail_counts": "Chain()",
}
"""Mechanisms for what was measured at all levels."""


def reconcile_group_sizes(
    release: Release | str | os.PathLike[str], hierarchy: Hierarchy, *, mechanism: SizesMechanism | None = None
) -> Release:
    """Make the tables of a release of group sizes again, from its noisy measurements, by another mechanism.

    No private data is read, and nothing is spent: what was measured stays as it was. The same mechanism gives the same
    tables.

    Args:
        release: a release of group sizes, or the folder of a saved one.
        hierarchy: the public tree of the release, its leaves in the same order.
        mechanism: one of `tallytree.sizes` that works on what was measured; `Joint()` by default.

    Returns:
        A release with the same measurements and new tables. Its statement is the earlier one's, but for `mechanism`
        and what is said of the tables; `reconciled` says where they come from.

    Raises:
        ValueError: the release is not one of group sizes, is damaged or was not made over the hierarchy, or the
            mechanism wants what was not measured.
        TypeError: an argument of the wrong kind.
    """
    earlier = opened(release, "release")
    if not isinstance(hierarchy, Hierarchy):
        raise TypeError(f"hierarchy: {type(hierarchy).__name__} must be a tallytree.Hierarchy")
    statement = earlier.statement
    _check_kind(statement)
    chosen = SizesMechanism.chosen(mechanism, Joint())
    check_foreign(chosen)
    measured = recorded_noise(statement, hierarchy)
    invariants, smallest, largest = published_range(earlier.spec, statement)
    chosen.check_cells(hierarchy, largest - smallest + 1)
    _check_measured(chosen, _wanted(chosen, hierarchy, invariants, measured), measured, measured_depths(hierarchy))
    _check_calibration(chosen, hierarchy, statement)
    domain = SizesDomain.from_leaves(
        hierarchy, _public_groups(earlier, hierarchy, invariants), smallest, largest, invariants
    )
    measures = read_measurements(earlier, domain, measured)
    if chosen.caution is not None:
        warn_caller(f"mechanism: {chosen.caution}")
    levels = sizes_by(chosen, domain, measures)
    about = about_size_tables(domain, levels)
    _refuse_broken(chosen, about)
    return _made_again(earlier, chosen, size_tables(hierarchy, levels), about)


_OF_THE_TABLES = ("errors", BROKEN, "fractional_numbers", "public_total_kept", "prior")
"""What a statement says of the earlier tables, and not of all."""
_TAKEN_OVER: dict[str, type] = {
    "private": bool,
    "seeded": bool,
    "guarantee": str,
    "budget": Mapping,
    "spent": Mapping,
    "mechanism": Mapping,
    "notes": list,
}


def _check_kind(statement: Mapping[str, Any]) -> None:
    """Refuse other releases than of group sizes.

    Raises:
        ValueError: another statistic, or a statement that lacks what a new one needs of it.
    """
    if not kind_of(statement).by_size:
        raise ValueError(
            f"release: its statistic is {statement.get('statistic')!r}; only releases of group_sizes can be reconciled "
            "again, so give one of those"
        )
    for key, kind in _TAKEN_OVER.items():
        if not isinstance(statement.get(key), kind):
            raise ValueError(f"release: its statement has {key} = {statement.get(key)!r}; {FRESH_COPY}")
    if statement["private"] is statement["seeded"]:
        raise ValueError(
            f"release: its statement has private = {statement['private']!r} and seeded = {statement['seeded']!r}; a "
            f"seeded release is not private; {FRESH_COPY}"
        )


def _wanted(
    mechanism: SizesMechanism,
    hierarchy: Hierarchy,
    invariants: Invariants,
    measured: Mapping[str, tuple[Statistic, Noise]],
) -> dict[str, Statistic]:
    """What the mechanism works on.

    Raises:
        ValueError: it does not go with what is public.
    """
    try:
        return mechanism.statistics(hierarchy, invariants=invariants)
    except ValueError as error:
        raise ValueError(
            f"mechanism: {mechanism!r} does not go with a release with invariants = {invariants!r} that measured "
            f"{described(measured)}; choose another ({error})"
        ) from None


def _check_measured(
    mechanism: SizesMechanism,
    wanted: Mapping[str, Statistic],
    measured: Mapping[str, tuple[Statistic, Noise]],
    everywhere: Sequence[int],
) -> None:
    """Refuse a mechanism that wants what was not measured.

    Raises:
        ValueError: naming what it wants, what there is, and mechanisms that work on it.
    """
    for level, statistic in wanted.items():
        if level not in measured or measured[level][0] != statistic:
            kinds = {kind for kind, _ in measured.values()}
            fitting = FITTING.get(kinds.pop()) if len(kinds) == 1 else None
            if len(measured) < len(everywhere):  # the leaves alone
                fitting = "BottomUp(), with the estimator it was measured for"
            raise ValueError(
                f"mechanism: {mechanism!r} wants {statistic!r} measured at {level!r}, but the release measured "
                f"{described(measured)}; choose {fitting or 'a mechanism that works on these'}, or release anew, which "
                "spends a budget"
            )


def _check_calibration(mechanism: SizesMechanism, hierarchy: Hierarchy, statement: Mapping[str, Any]) -> None:
    """Refuse a published calibration that is wrong where the noise is not so calibrated.

    Raises:
        ValueError: the noise was calibrated by another mechanism.
    """
    understated = bool(mechanism.understatement(hierarchy))
    if understated and _measured_for(statement) != mechanism_spec(mechanism):
        raise ValueError(
            f"mechanism: {mechanism!r} is calibrated as published, but the noise was drawn already, otherwise; use "
            f"{type(mechanism).__name__}()"
        )


def _measured_for(statement: Mapping[str, Any]) -> Any:
    """The mechanism for which the noise was drawn."""
    reconciled = statement.get("reconciled")
    return reconciled.get("measured_for") if isinstance(reconciled, Mapping) else statement["mechanism"]


def _public_groups(release: Release, hierarchy: Hierarchy, invariants: Invariants) -> IntArray:
    """Numbers of groups of the leaves that have all that is public right, int64 (n_leaves,), from the released tables.

    Raises:
        ValueError: the tables need not have the public numbers, or are damaged.
    """
    view = ReleaseView(release, hierarchy)
    leaves = _groups_of_nodes(view, len(hierarchy.levels) - 1)
    if invariants == "none":
        return np.zeros(len(leaves), dtype=np.int64)
    if release.statement.get("public_groups_kept") is not True:
        raise ValueError(
            "release: its tables do not have the public numbers of groups (public_groups_kept is "
            f"{release.statement.get('public_groups_kept')!r} in its statement), so these are not known here; give a "
            "release by a mechanism that keeps them"
        )
    public, level = leaves, hierarchy.levels[-1]
    if invariants == "total":
        level = hierarchy.levels[0]
        public = np.zeros(len(leaves))  # only the sum is public, and used
        public[0] = _groups_of_nodes(view, 0)[0]
    if (public != np.rint(public)).any() or (public < 0).any():
        raise ValueError(f"release: the table of {level!r}: a node's groups must add up to an integer; {FRESH_COPY}")
    return public.astype(np.int64)


def _groups_of_nodes(view: ReleaseView, depth: int) -> NumberArray:
    """The released number of groups of every node of a level, (n,); float64 if fractions were released, else int64.

    Raises:
        ValueError: the table is damaged, or has nodes that the hierarchy has not.
    """
    level = view.published(depth)
    groups, kind = level.numbers, level.numbers.dtype.kind  # integers with a null are read as fractions
    if kind not in "if" or not (groups > 0 if kind == "i" else np.isfinite(groups)).all():
        where = f"release: the table of {view.levels[depth]!r}"
        raise ValueError(f"{where}: groups must be integers ≥ 1, without nulls; {FRESH_COPY}")
    counted: NumberArray = np.zeros(view.cells.size(depth), dtype=groups.dtype)
    np.add.at(counted, level.nodes, groups)
    return counted


def reconcile_counts(release: Release | str | os.PathLike[str], *, mechanism: CountsMechanism | None = None) -> Release:
    """Make the tables of a release of counts or flows again, from its noisy measurements, by another mechanism.

    No private data is read, and nothing is spent: what was measured stays as it was. So a release that its mechanism
    made wrong is made right.

    Args:
        release: a release of counts or flows, or the folder of a saved one.
        mechanism: one that asks for what was measured; `tallytree.counts.LeastSquares()` by default.

    Returns:
        A release with the same measurements and new tables. Its statement is the earlier one's, but for `mechanism`
        and what is said of the tables; `reconciled` says where they come from.

    Raises:
        ValueError: the release is of another statistic, is damaged or holds no measurements; or the mechanism wants
            what was not measured, or breaks a promise that it does not declare.
        TypeError: an argument of the wrong kind.
    """
    earlier = opened(release, "release")
    statement = earlier.statement
    kind = kind_of(statement)
    if not (kind.has_tree and kind.counts_nodes):
        raise ValueError(
            f"release: its statistic is {statement.get('statistic')!r}, and these are made again of counts and flows; "
            "of group sizes by tallytree.reconcile_group_sizes"
        )
    view = ReleaseView(earlier)
    tree = view.known_tree
    chosen = CountsMechanism.chosen(mechanism, LeastSquares())
    check_foreign(chosen)
    public = TOTAL_IS_PUBLIC in statement.get("invariants", ())
    total = _public_total(view) if public else None
    plan = stated_plan(view)
    recorded = RecordedCounts(
        {level: _measured_counts(view, level, plan.asked(level), noise) for level, (_, noise) in plan.levels.items()}
    )
    for level, wanted in chosen.statistics(tree, total_is_public=public).items():
        recorded.require(level, wanted)
    if chosen.caution is not None:
        warn_caller(f"mechanism: {chosen.caution}")
    levels = counts_by(chosen, tree, total if chosen.keeps_total else None, recorded)
    about: dict[str, Any] = {
        "constraint_violations": count_violations(tree, levels),
        "negative_numbers": count_negative(levels),
        **(about_foreign_counts(levels, total) if is_foreign(chosen) else {}),
    }
    _refuse_broken(chosen, about)
    return _made_again(earlier, chosen, count_tables(tree, levels), about)


@dataclass(frozen=True, eq=False)
class RecordedCounts:
    """Answers with the counts that were measured before, of nodes that were; implements `Measures`.

    Attributes:
        levels: by name, what was measured: nodes ascending, each once.
    """

    levels: Mapping[str, Measurement]

    def require(self, level: str, statistic: Statistic) -> Measurement:
        """What was measured at a level.

        Raises:
            ValueError: another statistic, or none.
        """
        measured = self.levels.get(level)
        if measured is None or measured.statistic != statistic:
            raise ValueError(
                f"mechanism: it wants {statistic!r} measured at {level!r}, and the release measured "
                f"{described(self.levels)}; choose a mechanism that works on these"
            )
        return measured

    def measure(
        self, level: str, nodes: IntArray, statistic: Statistic, cells: tuple[int, int] | None = None
    ) -> Measurement:
        """See `Measures`.

        Raises:
            ValueError: a node that was not measured.
        """
        measured = self.require(level, statistic)
        places = np.searchsorted(measured.nodes, nodes)
        inside = np.minimum(places, len(measured.nodes) - 1)
        if len(nodes) and (not len(measured.nodes) or (measured.nodes[inside] != nodes).any()):
            raise ValueError(
                f"mechanism: it wants nodes of {level!r} that the release did not measure; choose a mechanism that "
                "works on those that it did"
            )
        offsets = np.arange(len(nodes) + 1, dtype=np.int64)
        return replace(measured, nodes=nodes, values=measured.values[places], offsets=offsets)

    def measure_stable(self, level: str) -> Measurement:
        """See `Measures`."""
        return self.require(level, "stable_counts")


def _measured_counts(view: ReleaseView, level: str, statistic: Statistic, noise: Noise) -> Measurement:
    """What was measured at a level, by node."""
    tree, where = view.known_tree, f"release: the measurements of {level!r}"
    depth = tree.levels.index(level)
    table = view.release.measurements(level)
    paths = path_texts(table, tree, depth, where, ("value", "std_dev"))
    nodes = nodes_of_paths(paths, tree, depth, table.num_rows, "measured")
    values = table.column("value").to_numpy().astype(np.int64)
    order = np.argsort(nodes, kind="stable")
    if (np.diff(nodes[order]) == 0).any():
        raise ValueError(f"{where}: a node is listed twice; {FRESH_COPY}")
    offsets = np.arange(len(nodes) + 1, dtype=np.int64)
    return Measurement(level, statistic, nodes[order], values[order], offsets, noise)


def _public_total(view: ReleaseView) -> int:
    """The public number of records, which is that of the root.

    Raises:
        ValueError: the tables do not have it.
    """
    if view.statement.get("public_total_kept") is False:
        raise ValueError(
            "release: its root is not the public number of records, so that number is not known here; give a release "
            "by a mechanism that keeps it"
        )
    return int(view.column(view.levels[0], "count")[0])


def _refuse_broken(mechanism: Mechanism, about: Mapping[str, Any]) -> None:
    """Refuse tables that break a promise of a mechanism from outside: nothing is spent, so nothing is lost.

    Raises:
        ValueError: naming the promises.
    """
    names = broken(mechanism, about)
    if names:
        raise ValueError(
            f"mechanism: in what {described_class(mechanism)} made of the measurements it does not hold "
            f"{in_words(names)}. Nothing was spent; correct it, or choose another"
        )


def _made_again(
    earlier: Release, mechanism: Mechanism, tables: Mapping[str, LevelTable], about: Mapping[str, Any]
) -> Release:
    """The release with new tables: what is protected and what was spent is as it was."""
    statement = earlier.statement
    note = (
        f"{MADE_AGAIN}, by {type(mechanism).__name__}. No private data was read and nothing more was spent: the "
        "earlier release and this one together spend the budget once. What is said of privacy is the earlier "
        "statement's, taken over unchecked."
    )
    # Of the earlier notes those go that are about its tables.
    marks, caution = marks_of(statement), mechanism.caution
    if "prior" in statement:  # it has no part in tables that are made again
        marks = [*marks, prior_note(statement["prior"])]
    kept = [
        each
        for each in statement["notes"]
        if not each.startswith(MADE_AGAIN) and not each.endswith(FOR_COMPARISON) and each not in marks
    ]
    return earlier.with_tables(
        tables,
        {
            **{key: value for key, value in statement.items() if key not in _OF_THE_TABLES},
            "mechanism": mechanism_spec(mechanism),
            **about,
            "reconciled": {"measured_for": _measured_for(statement), "software": versions(TABLES_MADE_BY)},
            "notes": [*not_audited(mechanism), *([] if caution is None else [caution]), note, *kept],
        },
    )
