"""Households by size at every level that agree with how many persons each node has, from noisy ranks of persons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tallytree.kinds.measurements import Noise
from tallytree.solvers.checks import MAX_EXACT
from tallytree.solvers.sizes import persons_tree
from tallytree.support.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class MeasuredRanks:
    """The noisy ranks of the persons of a level's nodes.

    A person has the rank s if it is the s-th of its household. So the number of persons of rank s is T(s), the number
    of households of size s or more, and every person is in one of K + 1 cells.

    Attributes:
        values: int64 (nodes, K + 1): noisy T(1) … T(K), then the noisy excess, which is the number of persons of ranks
            above K.
        noise: that of every cell.
    """

    values: IntArray
    noise: Noise


@dataclass(frozen=True, eq=False)
class HouseholdsBySize:
    """Households of a level's nodes by size.

    Σ_{s ≤ K} s·households[:, s − 1] + excess is the number of persons, exactly.

    Attributes:
        households: int64 (nodes, K): of sizes 1 … K − 1, and of size K or more.
        excess: int64 (nodes,): how many more persons the last class has than K in each household; 0 where it is empty.
        std_dev: float64 (nodes, K) of the errors of `households` by the noise.
        households_std_dev: float64 (nodes,) the same of the number of all households.
        last_class_std_dev: float64 (nodes,) the same of the number of persons in the last class.
    """

    households: IntArray
    excess: IntArray
    std_dev: FloatArray
    households_std_dev: FloatArray
    last_class_std_dev: FloatArray


class GivenPersons(NamedTuple):
    """What `sizes_given_persons` returns."""

    levels: list[HouseholdsBySize]
    """One for each given level, root first."""
    mended: int
    """How many persons have another rank than the first estimates of parents said, because their children's persons
    cannot have it. A number of the published numbers, not of true ones."""


def sizes_given_persons(
    levels: Sequence[MeasuredRanks | None],
    persons: Sequence[IntArray],
    first_child: Sequence[IntArray],
    of_persons: Sequence[FloatArray] | None = None,
) -> GivenPersons:
    """Estimate households by size at every level, given the numbers of persons: post-processing alone.

    docs/explanation/households.md says how.

    Args:
        levels: root first; None for a level that was not measured, because it repeats the one above node for node.
        persons: of each level, int64 (nodes,) ≥ 0; each node's are the sum of its children's.
        first_child: of each level but the last, int64 (nodes + 1,): node i has the children first_child[i] …
            first_child[i + 1] − 1 of the next level, one at least. More are not read.
        of_persons: of each level, float64 (nodes,), the standard deviations of the errors of `persons`; None for 0.

    Returns:
        Households by size that add up over children, and with the persons of every node.

    Raises:
        ValueError: for levels that do not fit together, a first level that is not measured or has several nodes,
            persons that are negative or do not add up, or numbers that are too large to be added up exactly.
    """
    depths = _check(levels, persons, first_child)
    measured: list[persons_tree.RanksLevel] = []
    for depth, below in zip(depths, [*depths[1:], None], strict=True):
        given = levels[depth]
        assert given is not None  # noqa: S101 (depths are those of measured levels)
        # Levels between are not measured because they repeat this one, node for node.
        children = np.zeros(len(persons[depth]) + 1, np.int64) if below is None else first_child[below - 1]
        measured.append(
            persons_tree.RanksLevel(given.values, max(given.noise.variance, 1e-12), persons[depth], children)
        )
    fitted = persons_tree.fit(measured)
    found: list[HouseholdsBySize] = []
    for depth in range(len(levels)):
        repeats = depth not in depths
        errors = np.zeros(len(persons[depth])) if of_persons is None else of_persons[depth] ** 2
        found.append(found[-1] if repeats else _households(fitted, depths.index(depth), errors))
    return GivenPersons(found, fitted.missed)


def _households(fitted: persons_tree.RanksOfTree, level: int, of_persons: FloatArray) -> HouseholdsBySize:
    """The level's households by size, from its ranks, and the variances of the errors of its persons."""
    ranks = fitted.levels[level].ranks
    k = ranks.shape[1] - 1
    functions = np.zeros((k + 2, k + 1))
    functions[:k, :k] = np.eye(k) - np.eye(k, k=1)
    functions[k, 0] = 1.0
    functions[k + 1, k - 1 :] = k, 1.0
    std_dev = np.sqrt(fitted.variances(level, functions, of_persons))
    households = -np.diff(ranks[:, :k], axis=1, append=0)
    return HouseholdsBySize(households, ranks[:, k].copy(), std_dev[:, :k], std_dev[:, k], std_dev[:, k + 1])


def _check(
    levels: Sequence[MeasuredRanks | None], persons: Sequence[IntArray], first_child: Sequence[IntArray]
) -> list[int]:
    """Refuse what does not fit together, see `sizes_given_persons`; the measured levels."""
    depths = [depth for depth, level in enumerate(levels) if level is not None]
    if not depths or depths[0] != 0 or len(persons[0]) != 1:
        raise ValueError("levels: they must begin with the root, which is measured and has one node")
    if len(persons) != len(levels) or len(first_child) < len(levels) - 1:
        raise ValueError(
            f"levels: there are {len(levels)}, persons for {len(persons)} and children for {len(first_child)}; "
            "they must agree"
        )
    cells = levels[0].values.shape[-1] if levels[0] is not None else 0
    for depth, (level, here) in enumerate(zip(levels, persons, strict=True)):
        if (here < 0).any():
            raise ValueError(f"persons[{depth}] holds {here.min()}; numbers of persons must be ≥ 0")
        if level is not None:
            if level.values.shape != (len(here), cells) or cells < 2:
                raise ValueError(
                    f"levels[{depth}].values has shape {level.values.shape}; it must be ({len(here)}, K + 1), K ≥ 1"
                )
            largest = max(int(level.values.max(initial=0)), -int(level.values.min(initial=0)))
            if largest * level.values.size > MAX_EXACT:
                raise ValueError(f"levels[{depth}].values holds {largest}, too much to be added up exactly")
        if depth == 0:
            continue
        first = first_child[depth - 1]
        if (
            len(first) != len(persons[depth - 1]) + 1
            or first[0] != 0
            or first[-1] != len(here)
            or (np.diff(first) < 1).any()
        ):
            raise ValueError(
                f"first_child[{depth - 1}] must give each of {len(persons[depth - 1])} nodes a child at least, "
                f"of {len(here)} in all"
            )
        if level is None and len(here) != len(persons[depth - 1]):
            raise ValueError(f"levels[{depth}] is None, but it does not repeat the level above node for node")
        if (np.add.reduceat(here, first[:-1]) != persons[depth - 1]).any():
            raise ValueError(f"persons[{depth}] do not add up to persons[{depth - 1}]")
    return depths
