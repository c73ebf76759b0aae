"""`Kind`: what a released statistic is. Every room asks it, and none compares the statistic's name.

A statistic is what is released. Each has its own file beside this one, and `kind_of` (`registry.py`) finds it. A fact
is named after what it says, not after the statistic that it is true of. What the data show (the tree, the columns, the
statement) is no fact of a kind: rooms ask the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tallytree.kinds.columns import ERRORS, Combinations
from tallytree.kinds.terms import Unit


@dataclass(frozen=True, kw_only=True)
class KindWords:
    """How a statistic is spoken of. The publisher's words for units are put in their places later.

    Attributes:
        noun: what a number counts, in the plural.
        one, several: what a person has: one of it, and several.
        cells: what a level has.
        level: what a level is called.
        outside: what a record may lie outside of.
        title: a heading.
        meaning: what its numbers are, after its name.
        what: what one number is; with `{}` an example for groups without a name has its place there.
        published: what is published of a unit, which stands in place of `{}`.
        listed: a title for a registry of deployments.
        domain: the data sets that it is of, for such a registry.
    """

    noun: str = "records"
    one: str = "record"
    several: str = "records"
    cells: str = "areas"
    level: str = "level"
    outside: str = "areas"
    title: str
    meaning: str
    what: str
    published: str = "numbers of {}"
    listed: str
    domain: str


@dataclass(frozen=True, kw_only=True, repr=False)
class Kind:
    """A released statistic.

    Attributes:
        name: its name in specs and statements.
        unit: what a person has up to `max_contributions` of.
        words: how it is spoken of.
        number: the column of its tables with what was published.
        keys: columns of its tables after the paths and before the number.
        errors: the columns that may follow the number, each combination that is written.
        measured: the columns of its measurements after the paths, but for the last, `std_dev`.
        has_tree: whether it is counted by place: its folder has public hierarchies.
        nested: whether every level but the root's is finer than the one before, so that the last is the finest.
        has_tables: whether its levels are tables over several hierarchies, each named by its own levels.
        has_attributes: whether conditions can be set on attributes beside the areas.
        reconciled: whether its numbers are made of the measurements, so that parts add up; else they are the
            measurements.
        protects_all_records: whether a person with any number of records is protected, whatever the bound is.
        shows_unbiased: whether files for readers have the unbiased estimate: it is for means over many cells.
        sides: where a cell leads from and to, by the names of its two hierarchies; empty where it leads nowhere.
        parts: the names of the releases that it consists of; empty where it is one.
        beside: keys of a statement about what is measured beside the levels, before them.
        private_table: the argument with the private records.
        trees: the arguments with the public hierarchies.
        made_again_by: the command that makes its tables again from the measurements; empty where there is none.
    """

    name: str
    unit: Unit
    words: KindWords
    number: str = "count"
    keys: tuple[str, ...] = ()
    errors: Combinations = ERRORS
    measured: tuple[str, ...] = ("value",)
    has_tree: bool = True
    nested: bool = True
    has_tables: bool = False
    has_attributes: bool = False
    reconciled: bool = True
    protects_all_records: bool = False
    shows_unbiased: bool = False
    sides: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    beside: tuple[str, ...] = ("contributions",)
    private_table: str = "records"
    trees: tuple[str, ...] = ("hierarchy",)
    made_again_by: str = ""

    def __repr__(self) -> str:
        """Its name."""
        return f"Kind({self.name!r})"

    @property
    def by_size(self) -> bool:
        """Whether a node has a number for each size of a group, and not one number."""
        return "size" in self.keys

    @property
    def counts_nodes(self) -> bool:
        """Whether every node of nested levels has one count."""
        return self.nested and not self.by_size

    def measured_beside(self, statement: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
        """What was measured beside the levels, by the key of the statement that tells of it."""
        return {key: statement[key] for key in self.beside if key in statement}
