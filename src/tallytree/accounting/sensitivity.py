"""Sensitivities, all in one table. No mechanism brings a number of its own.

What one neighboring change is (the unit of protection): a person with at most m records is added or removed
(`"add_remove"`), or replaced by another such person (`"change_one"`). A record adds its quantity, at most z, to the
size of one group (z = 1 where records have none). The hierarchy is fixed. Within one level the nodes partition the
records, so the sensitivity of a level is that of its cells taken together.

Proofs, for one level:

* **counts** (records per node). A person's m records may all fall into one node of an inner level even where their
  leaves are distinct, so one cell moves by m: L1 = L2 = m. Replacing: one node loses m and another gains m: L1 = 2m,
  L2 = √(m² + m²) = √2·m.
* **stable counts** (records per node, of those that have any): the same numbers, as noise and threshold are what
  differs (`accounting.stability`): L1 and L2 as for counts.
* **distinct counts** (people per leaf, each at most once in a leaf and in at most m leaves; of the leaf level only). A
  person is a set A of at most m leaves, whose cells it moves by 1 each: L1 = m, L2 = √m, attained by m leaves.
  Replacing A by B moves the leaves of A without B by −1, those of B without A by 1, and those of both not at all: at
  most 2m cells by 1, L1 = 2m, L2 = √(2m), attained where A and B have m leaves each and none in common. An inner level
  is one of counts: all m leaves may lie in one of its nodes, which then moves by m and not by √m.
* **total** (the root's count). One cell, moved by m when a person comes or goes, and by at most m when a person with a
  ≤ m records becomes one with b ≤ m: L1 = L2 = m in both relations.
* **tables** (records per combination of nodes, one level of each of some hierarchies; the others count as their roots).
  A record has one leaf in each hierarchy, so it lies in one cell of the table: the cells partition the records, as the
  nodes of a level do, and a table is one of counts: L1 = L2 = m, replacing L1 = 2m and L2 = √2·m, whatever levels it
  names. Attributes do not divide a person's records: all m may have the same of each. A table with a single cell is the
  total. Where a person has at most m distinct combinations of leaves, one of each hierarchy of the product, a table
  whose cells are these combinations is one of distinct counts. Any coarser table is one of counts: its cells sum
  several combinations, and all m may lie in one of its cells. So it is where a hierarchy of the product is left out of
  a table, unless it has one leaf only.
* **histogram** H (groups per size). A record of quantity at most z takes a group from size s to s + a, a ≤ z, whatever
  a is: the vector gain(s, a) = e(s+a) − e(s); one that leaves is loss(s, a) = e(s−a) − e(s). Either has L1 = 2 and
  squared L2 = 2, so m of them have L1 ≤ 2m and L2 ≤ √2·m, attained by m equal ones. Replacing: m losses and m gains,
  L1 ≤ 4m. The inner product of loss(s, a) and gain(t, b) is at most 1, where t = s or s − a = t + b (not both, since
  a, b > 0), so the squared L2 is at most 2m² + 2m² + 2·m² = 6m²: √6·m, attained where m groups of size s each give a
  member to m other groups of size s. Where groups are private, cell 0 is left out; leaving out cells increases no
  norm.
* **tail counts** T_s (groups of size ≥ s, s = 1 … K). A record of quantity at most z takes one group across at most z
  thresholds: z cells by 1 each, all the same way. m records: L1 ≤ m·z, and L2 ≤ m·√z (all across the same thresholds,
  in m groups of one size). Replacing: L1 ≤ 2m·z, and L2 ≤ m·√(2z): a loss moves cells down, a gain moves cells up, so
  their inner product is not positive and |Δ|² ≤ m²z + m²z. This holds whether the number of groups is public or not (a
  group that appears with its first member crosses thresholds like any other), which is why tail counts are measured
  and not cumulative counts, of which such a group would move every cell.
* **chain tail counts** (Fioretto et al. 2021, section 9.2, as tails): cell (s, r) holds the level's groups with (size,
  node) ≥ (s, r), sizes first, so that it sums over *all nodes of the level*. A group of node r that grows by one
  member passes the cells after (s, r) up to (s + 1, r), one for each of the level's n nodes: n cells by 1, all the
  same way; a group that appears passes (1, first node) … (1, r), at most n. So a record moves at most z·n cells, and
  all is as for tail counts with z·n in place of z. (Lemma 6 of the paper says 1: see `docs/decisions/0011-chain.md`.)
* **sorted sizes** Hg (sizes of a node's groups in ascending order, their number fixed). One record changes one group's
  size by at most z, and sorting is a contraction in L1 and in L2: L1 ≤ m·z, L2 ≤ m·z, attained by m records of one
  group; replacing L1 ≤ 2m·z, and L2 ≤ √2·m·z: before sorting one set of groups loses at most m·z and another gains at
  most m·z.
* **largest size** (of all groups; where there is none, the least size that is published). One cell. It never falls when
  records are added, and each adds at most z to one group's size, so that the new largest size is at most z above the
  old one: either that group was not the larger before, or it is new and now has at most z, where the old value was at
  least the least size. So m records that come move it by something in [0, m·z], m that go by something in [−m·z, 0],
  and m that go and m that come by something in [−m·z, m·z]: L1 = L2 = m·z in both relations, whatever is public of the
  numbers of groups. Attained by m records that join the largest group.

* **contributions** (people per bin of their number of records, for any bins that do not overlap). Every person is in
  one bin, that of the number of all of their records, before any bound; in none if they have none, or if no bin has
  that number. No bin depends on anybody else's records. A person who comes or goes, with however many records, moves
  one cell by 1 or none: L1 = L2 = 1. A person who is replaced, or whose records are, however many they were and then
  are, leaves one bin and enters one: two cells by 1 or, where these are the same bin, none; one where there is only the
  one or the other: L1 = 2, L2 = √2. Neither depends on m, so they hold whatever is enforced or assumed of it. They also
  hold where what is counted of a person is not records but distinct leaves, or memberships: whatever it is, it is a
  number that depends on that person's records alone.

**Shifts**: how single cells move, which is what composing privacy-loss distributions needs (`accounting.pld`). A
pattern lists by how much cells move, up to sign and without those that stay. For m = 1 every neighboring change moves
a level by one of the patterns of the table, or by part of one (the other cells stay):

* counts: a record that comes or goes moves its node by 1. Replacing moves two nodes by 1, or none where both records
  lie in the same node, or one where one of the records is outside the hierarchy. The total: one cell by 1.
* histogram: a move is two cells by 1. Replacing is loss(s, a) + gain(t, b) = e(s−a) − e(s) + e(t+b) − e(t): four cells
  by 1 where they do not meet; where s − a = t they cancel there (and everywhere if a = b too); −2 at s and 1 at two
  other cells where t = s; 2 at s − a and −1 at two other cells where s − a = t + b. So there are two patterns, (1, 1,
  1, 1) and (2, 1, 1), neither part of the other.
* tail counts and chain tail counts: a loss moves some cells by −1, a gain some cells by 1, at most z (z·n) each; where
  they are the same cells, they stay.
* sorted sizes, z = 1: a loss turns the sorted vector v into v − e(i), with i the first of the groups of its size, and
  a gain turns that into v − e(i) + e(j), with j the last of the groups of its size: two places by 1, or none where i =
  j. For z > 1 the places that move, and by how much, depend on the sizes in between, so no pattern is stated.
* largest size, z = 1: one cell by 1, or none. For z > 1 it moves by anything up to z. That z is the worst of these for
  discrete Gaussian noise is not proven, so no pattern is stated.

* contributions, any m: one cell by 1 (add_remove), or two (change_one), or a part of these, as above.

* distinct counts, any m: as above, so every change is the pattern of m (add_remove) or 2m (change_one) cells by 1, or a
  part of it: fewer leaves, or some in common.

For m > 1, cells of other statistics move by any split of the m records. That one cell by m is the worst of these is
numerically plausible for discrete Gaussian noise, but not proven, so no pattern is stated.

Clamping sizes into [min_group_size, max_group_size] is a contraction on sizes: it turns moves into smaller moves or
none, and never increases any of these; a move by 1 stays or vanishes, so patterns turn into parts of themselves. So
does cutting quantities to z, which is what bounds them. There are at most K − min_group_size + 1
thresholds, and no clamped size moves further, so a larger z counts as that (`effective_quantity`).

**A bound that is enforced** (`person`). What is tabulated of people's records is, of each person, at most m records
(with `distinct`, at most m distinct leaves): a function of a key and of that person's records alone
(`contribution_bound`). So for every key, data sets that differ in one person's records, however many those are, are
tabulated from kept records that differ in one person's, at most m of them: what is said above holds of the kept
records, for people with any number of records. The key is drawn independently of the records, so the same loss bounds
the release together with the key, and without it. For group sizes a record is a membership: the group, and the quantity
cut to z. What is said above of m records of a person then holds of the kept ones, since every statistic of the sizes is
a function of the kept memberships and of public facts: a group of which no membership is kept is a group without
members, which counts (as one of size 0) only where the number of groups of every leaf is public, and then stays in that
number; so no public number of groups depends on what is kept. The total number of groups with members would, which is
why it cannot be an invariant beside an enforced bound (`pipeline.plan_sizes` refuses it). How many records are kept
changes with a person's, so the total is private in both relations. One person with two ids is two people here, and two
people with one id are one.

**K that was measured** (`PrivateMaximum`). Sizes are clamped to a public bound first, and the largest of them is
measured. Then K is a function of that noisy value and of public numbers, and the levels are measured with sizes clamped
to K. That is adaptive composition: for every K that can come out, what is said here of a level holds, since clamping is
a contraction whatever K is, and the noise is that of the public bound, for which sensitivities are no smaller.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from tallytree.measurements import Statistic
from tallytree.terms import Neighboring

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
    """Look up the sensitivity of one level; the module's docstring proves every entry.

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
    if statistic in ("counts", "stable_counts"):
        return people, people, ((1,) * people,)
    if statistic == "histogram":
        return (4, 6, ((2, 1, 1), (1, 1, 1, 1))) if replaced else (2, 2, ((1, 1),))
    if statistic == "sorted_sizes":
        return people * z, people * z * z, ((1,) * people,) if z == 1 else ()
    cells = people * z * (nodes if statistic == "chain_tail_counts" else 1)
    return cells, cells, _cells_by_one(cells)


def _cells_by_one(cells: int) -> tuple[Shifts, ...]:
    return ((1,) * cells,) if cells <= MAX_SHIFTS else ()
