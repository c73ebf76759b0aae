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

Clamping sizes into [min_group_size, max_group_size] is a contraction on sizes: it turns moves into smaller moves or
none, and never increases any of these.
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

# statistic -> relation -> (L1 / m, (L2 / m)²)
_PER_CONTRIBUTION: dict[Statistic, dict[Neighboring, tuple[int, int]]] = {
    "counts": {"add_remove": (1, 1), "change_one": (2, 2)},
    "total": {"add_remove": (1, 1), "change_one": (1, 1)},
    "histogram": {"add_remove": (2, 2), "change_one": (4, 6)},
    "tail_counts": {"add_remove": (1, 1), "change_one": (2, 2)},
    "sorted_sizes": {"add_remove": (1, 1), "change_one": (2, 2)},
}


@dataclass(frozen=True)
class Sensitivity:
    """How far one neighbouring change moves a level's statistic.

    Attributes:
        l1: in the sum of absolute differences.
        l2_squared: in the sum of squared differences (L2², an integer, so that nothing is rounded).
    """

    l1: int
    l2_squared: int

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
    l1, l2_squared = _PER_CONTRIBUTION[statistic][neighboring]
    return Sensitivity(l1 * max_contributions, l2_squared * max_contributions**2)


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
