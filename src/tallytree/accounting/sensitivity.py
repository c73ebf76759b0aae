"""Sensitivities, all in one table. No mechanism brings a number of its own.

What one neighboring change is (the unit of protection): a person with at most m records is added or removed
(`"add_remove"`), or replaced by another such person (`"change_one"`). A record adds its quantity, at most z, to the
size of one group (z = 1 where records have none). The hierarchy is fixed. Within one level the nodes partition the
records, so the sensitivity of a level is that of its cells taken together.

`docs/explanation/proofs.md` states every entry as a lemma, with its proof:

* counts and stable counts (records per node), the total (the root's count), distinct counts (people per leaf, each at
  most once in a leaf and in at most m leaves; of the leaf level only): Lemmas 1 to 3. A table is one of counts,
  whatever levels it names: a record has one leaf in each hierarchy. One with a single cell is the total. Where a person
  has at most m distinct combinations of leaves, one of each hierarchy of the product, a table whose cells are these
  combinations is one of distinct counts. Any coarser table is one of counts: its cells sum several combinations, and
  all m may lie in one of its cells. So it is where a hierarchy of the product is left out of a table, unless it has one
  leaf only.
* histogram (groups per size), tail counts T_s (groups of size ≥ s), chain tail counts (Fioretto et al. 2021, section
  9.2, as tails; Lemma 6 of that paper says 1: see `docs/decisions/0011-chain.md`), sorted sizes, the largest size:
  Lemmas 4 to 8.
* persons by rank (per node the tail counts T_1 … T_K of households, and Σ max(size − K, 0)): Lemma 14.
* contributions (people per bin of their number of records, for any bins that do not overlap): Lemma 9. Neither number
  depends on m. They also hold where what is counted of a person is not records but distinct leaves, or memberships.

Clamping sizes into [min_group_size, max_group_size] increases none of these (Lemma 11). There are at most K −
min_group_size + 1 thresholds, and no clamped size moves further, so a larger z counts as that (`effective_quantity`).

**Shifts**: how single cells move, which is what composing privacy-loss distributions needs (`accounting.pld`). A
pattern lists by how much cells move, up to sign and without those that stay. Every neighboring change moves a level by
one of its patterns, or by part of one. The page's last section has them.

**A bound that is enforced** (`person`), Lemma 12. One person with two ids is two people here, and two people with one
id are one. How many records are kept changes with a person's, so the total is private in both relations. A group of
which no membership is kept is a group without members. It counts (as one of size 0) only where the number of groups of
every leaf is public, and then stays in that number. The total number of groups with members would depend on what is
kept, which is why it cannot be an invariant beside an enforced bound (`run.plan_sizes` refuses it).

**K that was measured** (`PrivateMaximum`), Lemma 13. Sizes are clamped to a public bound first, and the largest of them
is measured. Then the levels are measured with sizes clamped to K, and the noise is that of the public bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from tallytree.kinds.measurements import Statistic
from tallytree.kinds.terms import Neighboring

Shifts = tuple[int, ...]
"""By how much single cells move, largest first; cells that stay are left out."""

MAX_SHIFTS = 1_000
"""Longer patterns are not written out; they are far beyond what `accounting.pld` composes."""


@dataclass(frozen=True)
class Sensitivity:
    """How far one neighboring change moves a level's statistic.

    Attributes:
        l1: in the sum of absolute differences.
        l2_squared: in the sum of squared differences (L2², an integer, so that nothing is rounded).
        shifts: the patterns in which single cells move: every change moves them by one of these or by part of one.
            Empty where they are not known.
    """

    l1: int
    l2_squared: int
    shifts: tuple[Shifts, ...] = ()

    @property
    def l2(self) -> float:
        """L2, for display; accounting uses `l2_squared`."""
        return math.sqrt(self.l2_squared)


def sensitivity(
    statistic: Statistic,
    neighboring: Neighboring,
    max_contributions: int = 1,
    *,
    max_quantity: int = 1,
    nodes: int = 1,
) -> Sensitivity:
    """Look up the sensitivity of one level.

    Args:
        statistic: what is measured at the level.
        neighboring: the neighboring relation.
        max_contributions: m, the most records of one person.
        max_quantity: z, the most that one record adds to its group's size.
        nodes: how many nodes the level has; of chain tail counts only.
    """
    if statistic not in get_args(Statistic):
        raise ValueError(f"statistic: {statistic!r} has no known sensitivity")
    if statistic == "contributions":
        cells = 2 if neighboring == "change_one" else 1
        return Sensitivity(cells, cells, _cells_by_one(cells))
    if statistic == "distinct_counts":
        cells = max_contributions * (2 if neighboring == "change_one" else 1)
        return Sensitivity(cells, cells, _cells_by_one(cells))
    l1, l2_squared, shifts = _per_contribution(statistic, neighboring == "change_one", max_quantity, nodes)
    known = shifts if max_contributions == 1 else ()
    return Sensitivity(l1 * max_contributions, l2_squared * max_contributions**2, known)


def effective_quantity(max_quantity: int, smallest: int, largest: int) -> int:
    """The most that a record of quantity `max_quantity` can move sizes that are clamped into [smallest, largest]."""
    return min(max_quantity, largest - smallest + 1)


def level_sensitivities(
    statistics: Mapping[str, Statistic],
    neighboring: Neighboring,
    max_contributions: int,
    *,
    max_quantity: int,
    nodes: Mapping[str, int],
) -> dict[str, tuple[Statistic, Sensitivity]]:
    """What is measured at each level, with its sensitivity; `nodes` says how many each level has."""
    return {
        level: (
            statistic,
            sensitivity(statistic, neighboring, max_contributions, max_quantity=max_quantity, nodes=nodes[level]),
        )
        for level, statistic in statistics.items()
    }


def _per_contribution(statistic: Statistic, replaced: bool, z: int, nodes: int) -> tuple[int, int, tuple[Shifts, ...]]:
    """L1 / m, (L2 / m)², and the patterns of shifts where m = 1."""
    people = 2 if replaced else 1
    if statistic == "total":
        return 1, 1, ((1,),)
    if statistic == "largest_size":
        return z, z * z, ((1,),) if z == 1 else ()
    if statistic in ("counts", "stable_counts", "persons_by_rank"):
        return people, people, ((1,) * people,)
    if statistic == "histogram":
        return (4, 6, ((2, 1, 1), (1, 1, 1, 1))) if replaced else (2, 2, ((1, 1),))
    if statistic == "sorted_sizes":
        return people * z, people * z * z, ((1,) * people,) if z == 1 else ()
    cells = people * z * (nodes if statistic == "chain_tail_counts" else 1)
    return cells, cells, _cells_by_one(cells)


def _cells_by_one(cells: int) -> tuple[Shifts, ...]:
    return ((1,) * cells,) if cells <= MAX_SHIFTS else ()
