"""The arguments of `tallytree.release_households`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Annotated, TypeAlias

from tallytree.budget import Budget, exact
from tallytree.hierarchy import Hierarchy
from tallytree.kinds.terms import AUTO, Doc
from tallytree.product import Product
from tallytree.run.arguments import BUDGET, PRIVATE_TABLE, ByTable, NumberByTable, TableArgument, TableNames
from tallytree.run.shared_arguments import SharedArguments
from tallytree.support.validate import column, integer, safe_text, text
from tallytree.tables import TablesMechanism

Share: TypeAlias = Annotated[float | Fraction, "share"]
"""A share of the budget, between 0 and 1."""
MOST_SIZES = 1_000


@dataclass(frozen=True, eq=False, repr=False)
class HouseholdsArguments(SharedArguments):
    """The arguments of `tallytree.release_households`."""

    records: Annotated[TableArgument, PRIVATE_TABLE]
    hierarchy: Annotated[
        Hierarchy | Product,
        Doc(
            "the public tree of areas; or a `tallytree.Product` without an order, the areas first, whose other "
            "hierarchies are attributes of persons.",
            hint="give the public hierarchies: hierarchy: {attributes: {area: {path: areas.parquet, levels: [state]}}}",
        ),
    ]
    budget: Annotated[Budget, BUDGET]
    _: KW_ONLY
    household: Annotated[
        str,
        Doc(
            "the column with the id of the household that a person lives in; null (or empty) for a person who lives "
            "in none. All persons of a household are in one leaf of the areas. An id may be null because of the "
            "person's own record or of public facts, not because of how many records have it.",
            hint="name the column with the id of the household, null for persons who live in none",
        ),
    ]
    max_household_size: Annotated[
        int,
        Doc(
            'K: households by size have the sizes 1, 2, … K − 1, and "K or more". It must not follow from the records.',
            hint='give the last class of sizes, which is "K or more": max_household_size: 7',
        ),
    ]
    tables: Annotated[
        TableNames,
        Doc(
            "what is published of persons, as in `tallytree.release_tables`: a list of tables, each a tuple of level "
            "names; `in_household` (`yes` or `no`) is an attribute too. Every area level by `in_household` is "
            "published beside these.",
            hint="list the tables of persons by their levels: tables: [[county, age, sex], [state]]",
        ),
    ] = ()
    share_of_sizes: Annotated[
        Share,
        Doc(
            "the share of the budget that measures households by size; the tables of persons have the rest. With a "
            "half neither part has more than √2 times (with pure ε: 2 times) the noise that it would have with all of "
            "it; with any other share one of them has.",
            hint="the share of the budget for households by size, between 0 and 1",
        ),
    ] = 0.5
    person: Annotated[
        str | None,
        Doc(
            "the column with the id of the person whom a record belongs to (text or integers), for people with several "
            "records, such as two homes. Of every person at most `max_contributions` records then count, in both "
            "parts.",
            hint="the column with the ids of people, to enforce max_contributions",
        ),
    ] = None
    precision: Annotated[
        NumberByTable,
        Doc(
            "the wanted standard deviation of some tables of persons; see `tallytree.release_tables`.",
            hint='give standard deviations by table: precision: {"county, sex": 10}',
        ),
    ] = None
    budget_split: Annotated[
        ByTable,
        Doc(
            "the shares of the tables of persons; see `tallytree.release_tables`. Those of the levels of households by "
            "size follow from public facts.",
            hint='auto, even, or weights by table: {"county, sex": 2, "state": 1}',
        ),
    ] = "auto"
    mechanism: Annotated[
        TablesMechanism | None,
        Doc(
            "how noisy tables of persons become one table of integers; `tallytree.tables.LeastSquares()` by default.",
            hint="give its name, and options if any: mechanism: {name: ...}",
        ),
    ] = None

    keep_detail: Annotated[
        bool,
        Doc(
            "publish the cells that all tables of persons are sums of, too; see `tallytree.release_tables`.",
            hint="true to publish the cells that all tables are sums of, for records",
        ),
    ] = False

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            ValueError: a value that is out of range, or an option that this release does not have.
            TypeError: a value of the wrong kind.
        """
        super().__post_init__()
        text(self.household, "household", "the name of a column")
        column(self.person, "person")
        if self.person is not None and self.person == self.household:
            raise ValueError(
                f"person: {self.person!r} is the column of household too; name the column with the ids of people"
            )
        largest = integer(self.max_household_size, "max_household_size", least=1, most=MOST_SIZES)
        object.__setattr__(self, "max_household_size", largest)
        share = exact(self.share_of_sizes, "share_of_sizes")
        if not 0 < share < 1:
            raise ValueError(
                f"share_of_sizes: {safe_text(self.share_of_sizes)} must lie strictly between 0 and 1: persons and "
                "households by size are both measured"
            )
        object.__setattr__(self, "share_of_sizes", share)
        if self.max_contributions == AUTO:
            raise ValueError(
                'max_contributions: "auto" is not chosen for persons and households; give a number, such as what '
                "tallytree.release_contributions recommends"
            )
        if self.memory is not None:
            raise ValueError(
                f"memory: {self.memory!r} was given, but persons and households are released in memory, not band by "
                "band; leave memory out"
            )

    @property
    def person_column(self) -> str | None:
        """See `Terms.person_column`."""
        return self.person

    @property
    def sizes_share(self) -> Fraction:
        """The share of the budget that measures households by size, exactly."""
        return exact(self.share_of_sizes, "share_of_sizes")

    @property
    def asked_tables(self) -> Sequence[object]:
        """The option `tables` as a list.

        Raises:
            TypeError: it is none.
        """
        if isinstance(self.tables, str | bytes) or not isinstance(self.tables, Sequence):
            raise TypeError(
                f'tables: {safe_text(self.tables)} must be a list of tables, such as [("county", "sex"), ("state",)]'
            )
        return self.tables
