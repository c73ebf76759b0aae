"""From noisy measurements to published counts, again: `reconcile_counts`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tallytree.counts import CountsMechanism, LeastSquares
from tallytree.counts.released_counts import count_negative, count_violations
from tallytree.kinds.foreign import check_foreign, is_foreign
from tallytree.kinds.measurements import Measurement, Noise, Statistic
from tallytree.numbers.reconcile_sizes import refuse_broken, remade_statement
from tallytree.release import Release
from tallytree.release.released_tables import count_tables
from tallytree.release.statement import TOTAL_IS_PUBLIC
from tallytree.release.view.recorded_measurements import FRESH_COPY, described, nodes_of_paths, path_texts
from tallytree.release.view.release_view import ReleaseView
from tallytree.run.checked_results import about_foreign_counts, counts_by
from tallytree.support.arrays import IntArray
from tallytree.support.validate import safe_text


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
    earlier = Release.load(release) if isinstance(release, str | os.PathLike) else release
    if not isinstance(earlier, Release):
        raise TypeError(f"release: {safe_text(release)} must be a tallytree.Release, or the folder of a saved one")
    statement = earlier.statement
    if statement.get("statistic") not in ("counts", "flows"):
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
    recorded = RecordedCounts({level: _level(view, level, *law) for level, law in view.noise.items()})
    for level, wanted in chosen.statistics(tree, total_is_public=public).items():
        recorded.require(level, wanted)
    if chosen.caution is not None:
        warnings.warn(f"mechanism: {chosen.caution}", stacklevel=2)
    levels = counts_by(chosen, tree, total if chosen.keeps_total else None, recorded)
    about: dict[str, Any] = {
        "constraint_violations": count_violations(tree, levels),
        "negative_numbers": count_negative(levels),
        **(about_foreign_counts(levels, total) if is_foreign(chosen) else {}),
    }
    refuse_broken(chosen, about)
    return earlier.with_tables(count_tables(tree, levels), remade_statement(statement, chosen, about, chosen.caution))


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
        found = self.levels.get(level)
        if found is None or found.statistic != statistic:
            raise ValueError(
                f"mechanism: it wants {statistic!r} measured at {level!r}, and the release measured "
                f"{described(self.levels)}; choose a mechanism that works on these"
            )
        return found

    def measure(
        self, level: str, nodes: IntArray, statistic: Statistic, cells: tuple[int, int] | None = None
    ) -> Measurement:
        """See `Measures`.

        Raises:
            ValueError: a node that was not measured.
        """
        found = self.require(level, statistic)
        places = np.searchsorted(found.nodes, nodes)
        inside = np.minimum(places, len(found.nodes) - 1)
        if len(nodes) and (not len(found.nodes) or (found.nodes[inside] != nodes).any()):
            raise ValueError(
                f"mechanism: it wants nodes of {level!r} that the release did not measure; choose a mechanism that "
                "works on those that it did"
            )
        return replace(
            found, nodes=nodes, values=found.values[places], offsets=np.arange(len(nodes) + 1, dtype=np.int64)
        )

    def measure_stable(self, level: str) -> Measurement:
        """See `Measures`."""
        return self.require(level, "stable_counts")


def _level(view: ReleaseView, level: str, statistic: Statistic, noise: Noise) -> Measurement:
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
    asked: Statistic = "counts" if statistic == "distinct_counts" else statistic
    offsets = np.arange(len(nodes) + 1, dtype=np.int64)
    return Measurement(level, asked, nodes[order], values[order], offsets, noise)


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
