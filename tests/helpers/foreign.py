"""Mechanisms from outside, as a stranger would write them, on the names of `tallytree.mechanisms` alone."""

from dataclasses import dataclass

import numpy as np

from tallytree.mechanisms import (
    CountsMechanism,
    FittedTables,
    ReleasedCounts,
    ReleasedSizes,
    SizesMechanism,
    TablesMechanism,
    statistics_of_counts,
    statistics_of_sizes,
    sums_of_counts,
    sums_of_sizes,
)


@dataclass(frozen=True)
class UniformBelow(CountsMechanism):
    """Measures one level, and shares each of its counts out evenly below; `add` breaks the sums."""

    level: str = "state"
    add: int = 0
    keeps_total = False

    def statistics(self, tree, *, total_is_public):
        if self.level not in tree.levels[1:]:
            raise ValueError(f"level: {self.level!r} must be one of {', '.join(tree.levels[1:])}")
        return {self.level: "counts"}

    def reconcile(self, tree, total, measurer):
        depth = tree.levels.index(self.level)
        nodes = np.arange(tree.size(depth))
        counts = np.maximum(measurer.measure(self.level, nodes, "counts").values, 0)
        for above in range(depth, len(tree.levels) - 1):
            children, offsets = tree.children(above, nodes)
            sizes = np.diff(offsets)
            place = np.arange(len(children)) - np.repeat(offsets[:-1], sizes)
            counts = np.repeat(counts // sizes, sizes) + (place < np.repeat(counts % sizes, sizes))
            nodes = children
        levels = sums_of_counts(tree, ReleasedCounts(nodes, counts))
        levels[depth] = ReleasedCounts(levels[depth].nodes, levels[depth].counts + self.add)
        return levels


@dataclass(frozen=True)
class Rounded(CountsMechanism):
    """Measures every level and publishes the leaves; breaks what `fault` says where the total is above `above`."""

    fault: str = ""
    above: int = -1

    def statistics(self, tree, *, total_is_public):
        return statistics_of_counts(tree, total_is_public=total_is_public)

    def reconcile(self, tree, total, measurer):
        for level, statistic in self.statistics(tree, total_is_public=total is not None).items():
            nodes = np.arange(tree.size(tree.levels.index(level)))
            noisy = measurer.measure(level, nodes, statistic).values
        counts = np.maximum(noisy, 0)
        if total is not None:
            counts[0] += total - counts.sum()
        levels = sums_of_counts(tree, ReleasedCounts(nodes, counts))
        if levels[0].counts.sum() <= self.above:
            return levels
        return FAULTS[self.fault](levels, nodes, counts)


def _replaced(levels, depth, counts):
    return [*levels[:depth], ReleasedCounts(np.arange(len(counts)), counts), *levels[depth + 1 :]]


FAULTS = {
    "": lambda levels, nodes, counts: levels,
    "adds_up": lambda levels, nodes, counts: _replaced(levels, 0, np.array([counts.sum() + 7])),
    "not_negative": lambda levels, nodes, counts: [ReleasedCounts(each.nodes, -each.counts) for each in levels],
    "integers": lambda levels, nodes, counts: [ReleasedCounts(each.nodes, each.counts / 3) for each in levels],
    "fails": lambda levels, nodes, counts: levels[10],
    "too few levels": lambda levels, nodes, counts: levels[1:],
    "not finite": lambda levels, nodes, counts: _replaced(levels, 0, np.array([np.nan])),
    "unknown nodes": lambda levels, nodes, counts: [*levels[:-1], ReleasedCounts(nodes + 1, counts)],
    "a node twice": lambda levels, nodes, counts: [*levels[:-1], ReleasedCounts(nodes * 0, counts)],
    "a list": lambda levels, nodes, counts: [*levels[:-1], ReleasedCounts(nodes, counts.tolist())],
    "deviations of some": lambda levels, nodes, counts: [
        *levels[:-1], ReleasedCounts(nodes[1:], counts[1:], std_dev=np.ones(len(nodes) - 1))
    ],
}  # fmt: skip


@dataclass(frozen=True)
class LeafTails(SizesMechanism):
    """Publishes the noisy tail counts of the leaves as they come, made to descend; `fault` breaks a promise."""

    fault: str = ""

    def statistics(self, hierarchy, *, invariants):
        if invariants != "none":
            raise ValueError(f"invariants: {invariants!r} must be 'none'; public numbers of groups are not kept")
        return {hierarchy.levels[-1]: statistics_of_sizes(hierarchy, "tail_counts")[hierarchy.levels[-1]]}

    def reconcile(self, domain, measurer):
        leaves = np.arange(domain.hierarchy.n_leaves)
        measured = measurer.measure(domain.hierarchy.levels[-1], leaves, "tail_counts")
        tails = np.maximum.accumulate(np.maximum(measured.values.reshape(len(leaves), -1), 0)[:, ::-1], axis=1)[:, ::-1]
        groups = -np.diff(tails, axis=1, append=0)
        nodes, places = np.nonzero(groups)
        found = ReleasedSizes(nodes, places + domain.smallest, groups[nodes, places])
        levels = sums_of_sizes(domain.hierarchy, found, domain.largest)
        if self.fault == "sizes":
            return [ReleasedSizes(each.nodes, each.sizes + domain.largest, each.groups) for each in levels]
        if self.fault == "integers":
            return [ReleasedSizes(each.nodes, each.sizes, each.groups / 2 + 0.1) for each in levels]
        return levels


@dataclass(frozen=True)
class FinestTable(TablesMechanism):
    """Publishes the finest measured table, cut at 0, and sums of it; says nothing of errors."""

    fault: str = ""

    def reconcile(self, layout, measured, totals, measurer):
        finest = max(range(len(layout.levels)), key=layout.width)
        name = layout.levels[finest]
        noisy = measurer.measure(name, np.arange(layout.areas(finest)), measured[name]).values
        leaves = np.maximum(noisy.reshape(layout.areas(finest), -1), 0)
        if self.fault == "integers":
            leaves = leaves + 0.25
        shapes = {each: (layout.areas(i), layout.width(i)) for i, each in enumerate(layout.levels)}
        known = {each: np.full(shape, -1.0 if self.fault == "negative" else 1.0) for each, shape in shapes.items()}
        known.pop(self.fault, None)
        if self.fault == "typical":
            return FittedTables(leaves, {}, {}, {}, typical_errors=known)
        if self.fault == "typical_negative":
            return FittedTables(leaves, known, {}, {}, typical_errors={each: -known[each] for each in known})
        return FittedTables(leaves, known if self.fault else {}, {}, {})
