"""`Joint`: measure the tail counts of every node and estimate all of them together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from tallytree.compute.arrays import IntArray
from tallytree.hierarchy import Hierarchy
from tallytree.measurements import Measures, Statistic
from tallytree.sizes.mechanism import ReleasedSizes, SizesDomain, SizesMechanism, measured_everywhere, sum_over_tree
from tallytree.sizes.noisy import measure_level, whole_tails
from tallytree.solvers import joint_families as joint
from tallytree.solvers.joint_downward import Tails
from tallytree.solvers.rates import DISPERSIONS
from tallytree.terms import Invariants


@dataclass(frozen=True, eq=False)
class TailErrors:
    """How far the released tail counts of one level may be off.

    Attributes:
        first_size: the size s of the first column.
        std_dev: float32 (nodes, sizes), the standard deviation of the number of groups of size ≥ s in each node, from
            the noise alone; about, see docs/joint.md. 0 where that number is public.
    """

    first_size: int
    std_dev: npt.NDArray[np.float32]


@dataclass(frozen=True)
class Joint(SizesMechanism):
    """Measure the tail counts of every node, and find smooth, monotone whole numbers that fit all levels at once.

    How many groups of one size a node has is expected to be near the average over similar sizes; how near is found from
    the noisy counts themselves, node by node and range of sizes by range of sizes, and where it is not near at all the
    counts are only taken to be monotone. See docs/joint.md.

    Args:
        smoothness: `"auto"`, or one number for all: the reciprocal of how many times further than Poisson numbers the
            groups of one size scatter about that average; 0 does not smooth.
        tolerance: by how many groups, on average, the sums of a family may be missed before its numbers are rounded.

    Raises:
        ValueError: a smoothness that is neither `"auto"` nor ≥ 0 and finite, a tolerance that is not positive.
        TypeError: options of the wrong kind.
    """

    smoothness: Literal["auto"] | float = "auto"
    tolerance: float = 0.01

    def __post_init__(self) -> None:
        """Check the options."""
        if isinstance(self.smoothness, str):
            if self.smoothness != "auto":
                raise ValueError(f'smoothness: {self.smoothness!r} is not known; give "auto" or a number')
        elif not 0 <= _number("smoothness", self.smoothness) < math.inf:
            raise ValueError(f"smoothness: {self.smoothness!r} must be at least 0 and finite")
        if not 0 < _number("tolerance", self.tolerance) < math.inf:
            raise ValueError(f"tolerance: {self.tolerance!r} must be positive and finite")

    def statistics(self, hierarchy: Hierarchy, *, invariants: Invariants) -> dict[str, Statistic]:
        """The levels to be measured, root first (none that repeats the one above it), and what is measured there."""
        return measured_everywhere(hierarchy, "tail_counts")

    def reconcile(self, domain: SizesDomain, measurer: Measures) -> Sequence[ReleasedSizes]:
        """Group sizes per level, root first."""
        return self._released(domain, self._fit(domain, measurer))

    def release_with_errors(
        self, domain: SizesDomain, measurer: Measures
    ) -> tuple[Sequence[ReleasedSizes], Sequence[TailErrors]]:
        """Group sizes per level, root first, and how far the tail counts of each level may be off."""
        fit = self._fit(domain, measurer)
        by_depth: list[TailErrors] = []
        measured = iter(fit.variances if fit else ())
        for depth in range(len(domain.hierarchy.levels)):
            if depth not in domain.measured_depths:
                by_depth.append(by_depth[-1])
                continue
            known = domain.groups[depth]
            if fit is None:  # one size only, so nothing was measured
                errors = np.zeros((domain.hierarchy.size(depth), 0), dtype=np.float32)
                by_depth.append(TailErrors(domain.smallest + 1, errors))
                continue
            # Rounding to whole numbers adds 1/12 where the number is not as good as certain.
            variance = next(measured)
            errors = np.sqrt(variance + np.minimum(variance, 1 / 12)).astype(np.float32)
            if known is not None and not domain.groups_are_public:
                errors[:, 0] = 0
            by_depth.append(TailErrors(domain.smallest + domain.groups_are_public, errors))
        return self._released(domain, fit), by_depth

    def _fit(self, domain: SizesDomain, measurer: Measures) -> joint.TailsFit | None:
        """The fit of all measured levels; None where groups have one size only and their numbers are public."""
        levels = [_measure(domain, depth, measurer) for depth in domain.measured_depths]
        if levels[0].values.shape[1] == 0:
            return None
        return joint.fit(
            levels,
            first_size=domain.smallest + domain.groups_are_public,
            total=None if domain.groups_are_public else domain.total,
            dispersions=self._dispersions(),
            tolerance=self.tolerance,
        )

    def _dispersions(self) -> npt.ArrayLike:
        if isinstance(self.smoothness, str):
            return DISPERSIONS
        return math.inf if self.smoothness == 0 else 1 / self.smoothness

    @staticmethod
    def _released(domain: SizesDomain, fit: joint.TailsFit | None) -> Sequence[ReleasedSizes]:
        public = domain.groups[-1]
        if fit is None:
            groups = np.zeros(0, dtype=np.int64) if public is None else public
            nodes = np.flatnonzero(groups)
            leaves = ReleasedSizes(nodes, np.full(len(nodes), domain.smallest, dtype=np.int64), groups[nodes])
        else:
            leaves = _leaf_sizes(fit.levels[-1], public, domain.smallest, domain.largest)
        return sum_over_tree(domain.hierarchy, leaves, domain.largest)


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name}: {value!r} must be a number")
    return float(value)


def _measure(domain: SizesDomain, depth: int, measurer: Measures) -> joint.TailsLevel:
    """One level's noisy tail counts; where only the root's number of groups is public, that is its first cell."""
    level = measure_level(domain, depth, measurer, "tail_counts")
    known = domain.groups[depth]
    if known is not None:
        most = known.astype(np.float64)
    else:
        most = np.full(len(level.values), math.inf if domain.total is None else float(domain.total))
    values = level.values if domain.groups_are_public else whole_tails(domain, level)
    largest = joint.MAX_TAIL_SUM // len(values) - 1  # noise beyond that says no more, and doubles must add it up
    return joint.TailsLevel(
        np.clip(values, -largest, largest) if max(values.max(initial=0), -values.min(initial=0)) > largest else values,
        _children(domain, depth),
        float(level.noise.scale),
        level.noise.distribution == "discrete_laplace",
        most,
    )


def _children(domain: SizesDomain, depth: int) -> IntArray:
    """Where each node's children in the next measured level begin; the last level has none."""
    later = [other for other in domain.measured_depths if other > depth]
    if not later:
        return np.zeros(domain.hierarchy.size(depth) + 1, dtype=np.int64)
    # Levels between are not measured because they repeat this one, node for node.
    return domain.hierarchy.first_child[later[0] - 1]


def _leaf_sizes(tails: Tails, public: IntArray | None, smallest: int, largest: int) -> ReleasedSizes:
    """Groups by size from the runs of the leaves' tail counts.

    Where numbers of groups are public, cell j counts those of size > smallest + j, and a drop at its beginning is of
    groups of size smallest + j; elsewhere it is of groups one smaller, and cell 0 is the number of groups.
    """
    runs = np.diff(tails.offsets)
    leaf = np.repeat(np.arange(len(runs), dtype=np.int64), runs)
    first, last = tails.offsets[:-1], tails.offsets[1:] - 1
    before = np.empty_like(tails.value)
    before[1:] = tails.value[:-1]
    before[first] = tails.value[first] if public is None else public
    size = tails.start + smallest - (1 if public is None else 0)
    # What is left at a node's end are groups of the largest size.
    leaf = np.concatenate([leaf, np.arange(len(runs), dtype=np.int64)])
    size = np.concatenate([size, np.full(len(runs), largest, dtype=np.int64)])
    groups = np.concatenate([before - tails.value, tails.value[last]])
    kept = groups > 0
    return ReleasedSizes(leaf[kept], size[kept], groups[kept])
