"""Sensitivities, all in one table. No mechanism brings a number of its own.

What one neighbouring change is (the unit of protection): a person with at most m records is added or removed
(`"add_remove"`), or replaced by another such person (`"change_one"`). The hierarchy is fixed. Within one level the
nodes partition the records, so the sensitivity of a level is that of its cells taken together.

Proofs, for one level:

* **counts** (records per node). A person's m records may all fall into one node of an inner level even where their
  leaves are distinct, so one cell moves by m: L1 = L2 = m. Replacing: one node loses m and another gains m:
  L1 = 2m, L2 = √(m² + m²) = √2·m. (The smaller √m for distinct leaves is true of the leaf level only and not used.)
* **total** (the root's count). One cell, moved by m when a person comes or goes, and by at most m when a person with
  a ≤ m records becomes one with b ≤ m: L1 = L2 = m in both relations.
* **histogram** H (groups per size, groups per node fixed). One record that joins a group of size s moves one group from
  cell s to cell s + 1, the vector gain(s) = e(s+1) − e(s); one that leaves is loss(s) = e(s−1) − e(s). A move has
  L1 = 2 and squared L2 = 2, so m moves have L1 ≤ 2m and L2 ≤ √2·m, attained by m equal moves. Replacing: m losses and m
  gains, L1 ≤ 4m. The inner product of loss(s) and gain(t) is 1 where t = s or t = s − 2, −2 where t = s − 1 (the move
  undone) and 0 otherwise, so the squared L2 is at most 2m² + 2m² + 2·m² = 6m²: √6·m, attained where m groups of size s
  each give a member to m other groups of size s.
* **tail counts** T_s (groups of size ≥ s, s = 1 … K). One record moves one group across one threshold: one cell by 1.
  m records: L1 ≤ m, and L2 ≤ m (all across the same threshold, in m groups of one size). Replacing: L1 ≤ 2m, and
  L2 ≤ √2·m: a loss moves cells down, a gain moves cells up, so their inner product is not positive and
  |Δ|² ≤ m² + m². This holds whether the number of groups is public or not, which is why tail counts are measured and
  not cumulative counts.
* **sorted sizes** Hg (sizes of a node's groups in ascending order, their number fixed). One record changes the sorted
  vector in one place by 1 (sorting is a contraction in L1): L1 ≤ m, L2 ≤ m; replacing L1 ≤ 2m, and L2 ≤ √2·m: sorting
  is a contraction in L2 too, and before sorting one set of groups loses at most m and another gains at most m.

**Shifts**: how single cells move, which is what composing privacy-loss distributions needs (`accounting.pld`). A
pattern lists by how much cells move, up to sign and without those that stay. For m = 1 every neighbouring change moves
a level by one of the patterns of the table, or by part of one (the other cells stay):

* counts: a record that comes or goes moves its node by 1. Replacing moves two nodes by 1, or none where both records
  lie in the same node, or one where one of the records is outside the hierarchy. The total: one cell by 1.
* histogram: a move is two cells by 1. Replacing is loss(s) + gain(t) = e(s−1) − e(s) + e(t+1) − e(t): four cells by 1
  where they do not meet; nothing where t = s − 1; −2 at s and 1 at both its neighbours where t = s; 2 at s − 1 and −1
  at both its neighbours where t = s − 2. So there are two patterns, (1, 1, 1, 1) and (2, 1, 1), neither part of the
  other.
* tail counts: a loss moves one cell by −1, a gain one cell by 1; where it is the same cell, it stays.
* sorted sizes: a loss turns the sorted vector v into v − e(i), with i the first of the groups of its size, and a gain
  turns that into v − e(i) + e(j), with j the last of the groups of its size: two places by 1, or none where i = j.

For m > 1, cells move by any split of m. That one cell by m is the worst of these is numerically plausible for discrete
Gaussian noise, but not proven, so no pattern is stated.

Clamping sizes into [min_group_size, max_group_size] is a contraction on sizes: it turns moves into smaller moves or
none, and never increases any of these; a move by 1 stays or vanishes, so patterns turn into parts of themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from tallytree.measurements import Statistic

Neighboring = Literal["add_remove", "change_one"]
ALIASES: dict[str, Neighboring] = {
    "add_remove": "add_remove",
    "unbounded": "add_remove",
    "change_one": "change_one",
    "bounded": "change_one",
}

Shifts = tuple[int, ...]
"""By how much single cells move, largest first; cells that stay are left out."""

# statistic -> relation -> (L1 / m, (L2 / m)², patterns of shifts where m = 1)
_PER_CONTRIBUTION: dict[Statistic, dict[Neighboring, tuple[int, int, tuple[Shifts, ...]]]] = {
    "counts": {"add_remove": (1, 1, ((1,),)), "change_one": (2, 2, ((1, 1),))},
    "total": {"add_remove": (1, 1, ((1,),)), "change_one": (1, 1, ((1,),))},
    "histogram": {"add_remove": (2, 2, ((1, 1),)), "change_one": (4, 6, ((2, 1, 1), (1, 1, 1, 1)))},
    "tail_counts": {"add_remove": (1, 1, ((1,),)), "change_one": (2, 2, ((1, 1),))},
    "sorted_sizes": {"add_remove": (1, 1, ((1,),)), "change_one": (2, 2, ((1, 1),))},
}


@dataclass(frozen=True)
class Sensitivity:
    """How far one neighbouring change moves a level's statistic.

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


def sensitivity(statistic: Statistic, neighboring: Neighboring, max_contributions: int = 1) -> Sensitivity:
    """Look up the sensitivity of one level; the module's docstring proves every entry.

    Args:
        statistic: what is measured at the level.
        neighboring: the neighbouring relation.
        max_contributions: m, the most records of one person.
    """
    if statistic not in get_args(Statistic):
        raise ValueError(f"statistic: {statistic!r} has no known sensitivity")
    l1, l2_squared, shifts = _PER_CONTRIBUTION[statistic][neighboring]
    known = shifts if max_contributions == 1 else ()
    return Sensitivity(l1 * max_contributions, l2_squared * max_contributions**2, known)


def neighboring_relation(name: str) -> Neighboring:
    """The relation behind a name or its alias.

    Raises:
        ValueError: an unknown name.
    """
    if name not in ALIASES:
        raise ValueError(
            f'neighboring: {name!r} is not known; choose "add_remove" (alias "unbounded") or '
            '"change_one" (alias "bounded")'
        )
    return ALIASES[name]
