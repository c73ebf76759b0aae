"""The arguments of the public functions: every option once, with its type, its default and its description.

A class holds the arguments of one function. The signature and the help text of the function are made from its fields
(`run.signature`), and so is the spec of the statistic (`spec.models`). The options that several functions have come in
groups, in `tallytree.run.options`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Annotated, Any, Literal, TypeAlias

from tallytree.budget import Budget, exact
from tallytree.hierarchy import Hierarchy
from tallytree.kinds.terms import AUTO, Doc, Invariants, RecordsOfAPerson
from tallytree.product import Product
from tallytree.run.options import CountsOptions, PersonOptions, PriorOptions, SharedArguments
from tallytree.sizes import PrivateMaximum, SizesMechanism
from tallytree.support.validate import column, flag, integer, safe_text, text
from tallytree.tables import TablesMechanism

TableArgument: TypeAlias = Annotated[Any, "table"]
"""Any table: see `tallytree.sources.locate.locate`."""

TableNames: TypeAlias = Annotated[Any, "tables"]
"""A list of tables, each a tuple of level names."""
ByTable: TypeAlias = Annotated[Any, "by table"]
"""A weight for each of some tables, or the name of a rule."""
NumberByTable: TypeAlias = Annotated[Any, "number by table"]
"""A number for each of some tables."""
Share: TypeAlias = Annotated[float | Fraction, "share"]
"""A share of the budget, between 0 and 1."""
MOST_SIZES = 1_000

PRIVATE_TABLE = Doc(
    "the private table: a path, folder, glob or URL (Parquet, CSV) or a list of these, a pandas, polars or pyarrow "
    "table, a DuckDB relation, or one of `tallytree.sources`; with the columns of the hierarchy's levels (a "
    "single-valued top column may be missing).",
    hint="give the path or glob of the private table (Parquet, CSV)",
)
PUBLIC_TREE = Doc(
    "the public tree. A leaf without records is measured all the same.",
    hint="give the public tree: hierarchy: {path: areas.parquet, levels: [state]}",
)
BUDGET = Doc(
    "what may be spent. Pure ε: discrete Laplace noise. With δ or ρ: discrete Gaussian noise.",
    hint="give epsilon (with or without delta) or rho: budget: {epsilon: 1.0}",
)


@dataclass(frozen=True, eq=False, repr=False)
class CountsArguments(CountsOptions, PriorOptions):
    """The arguments of `tallytree.release_counts`."""

    records: Annotated[TableArgument, PRIVATE_TABLE]
    hierarchy: Annotated[Hierarchy | Product, PUBLIC_TREE]
    budget: Annotated[Budget, BUDGET]


@dataclass(frozen=True, eq=False, repr=False)
class ContributionsArguments(CountsArguments):
    """The arguments of `tallytree.release_contributions`."""

    _: KW_ONLY
    share: Annotated[
        float | None,
        Doc("the share of the budget that is spent; by default that of `contributions` if given, else all of it."),
    ] = None
    at_most: Annotated[
        int | None,
        Doc(
            "public: people with more records are counted as with so many; by default as in `contributions`, or 1,000."
        ),
    ] = None


@dataclass(frozen=True, eq=False, repr=False)
class FlowsArguments(CountsOptions, PriorOptions):
    """The arguments of `tallytree.release_flows`."""

    private_argument = "trips"

    trips: Annotated[
        TableArgument,
        Doc(
            "the private table, one row per trip unless `count` says otherwise; see `tallytree.release_counts`.",
            hint="give the path or glob of the private table (Parquet, CSV)",
        ),
    ]
    _: KW_ONLY
    origins: Annotated[
        Hierarchy,
        Doc(
            "the public hierarchy of origins.",
            hint="give the public tree: origins: {path: areas.parquet, levels: [state]}",
        ),
    ]
    destinations: Annotated[
        Hierarchy,
        Doc(
            "the public hierarchy of destinations; it may be another one, of another depth.",
            hint="give the public tree: destinations: {path: areas.parquet, levels: [state]}",
        ),
    ]
    origin: Annotated[
        Sequence[str],
        Doc(
            "the columns of `trips` with the origin's path, top first, one per level of `origins`. The column of a "
            "single-valued top level may be left out.",
            hint="list the columns of trips with the origin, top first: origin: [home_state]",
        ),
    ]
    destination: Annotated[
        Sequence[str],
        Doc(
            "the columns with the destination's path.",
            hint="list the columns of trips with the destination, top first: destination: [work_state]",
        ),
    ]
    budget: Annotated[Budget, BUDGET]
    tree: Annotated[
        Literal["destination", "origin"],
        Doc(
            'which side is refined first: `"destination"` for a destination tree, or `"origin"`.',
            hint="destination or origin, whichever is refined first",
        ),
    ] = "destination"
    impossible: Annotated[
        TableArgument,
        Doc(
            "a public table of trips that cannot be, such as those within a zone: columns named in `origin` and "
            "`destination`, a row for each combination. These cells are 0 and not measured; see `tallytree.Product`. "
            "A trip in one is treated as one outside the hierarchies.",
            hint="the public table of trips that cannot be, with columns of both sides",
        ),
    ] = None


@dataclass(frozen=True, eq=False, repr=False)
class TablesArguments(PriorOptions):
    """The arguments of `tallytree.release_tables`."""

    records: Annotated[TableArgument, PRIVATE_TABLE]
    hierarchy: Annotated[
        Product,
        Doc(
            "a `tallytree.Product` without an order: the public hierarchies, that of the areas first. The others are "
            "attributes, with at most 65,536 combinations of values.",
            hint="give the public hierarchies: hierarchy: {attributes: {area: {path: areas.parquet, levels: [state]}}}",
        ),
    ]
    budget: Annotated[Budget, BUDGET]
    _: KW_ONLY
    tables: Annotated[
        TableNames,
        Doc(
            'what is published: a list of tables, each a tuple of level names such as `("county", "sex")`, at most one '
            'of each hierarchy; `"total"` is the total (or `()`).',
            hint="list the tables by their levels: tables: [[county, sex], [state], total]",
        ),
    ]
    measure: Annotated[
        TableNames,
        Doc(
            'the tables that are measured; by default those that are published, and with `budget_split="auto"` also '
            "coarser ones, where they help.",
            hint="list the tables that are measured, as under tables",
        ),
    ] = None
    precision: Annotated[
        NumberByTable,
        Doc(
            "the wanted standard deviation of some published tables, by table; the others have the largest of these "
            'wishes. It decides the shares with `budget_split="auto"`.',
            hint='give standard deviations by table: precision: {"county, sex": 10}',
        ),
    ] = None
    budget_split: Annotated[
        ByTable,
        Doc(
            'the shares of the measured tables. `"auto"` (the default) makes the worst ratio of a published table\'s '
            '`std_dev` to its `precision` as small as possible, from public facts. `"even"`, or a weight for each '
            "measured table.",
            hint='auto, even, or weights by table: {"county, sex": 2, "state": 1}',
        ),
    ] = "auto"
    public_totals: Annotated[
        TableArgument,
        Doc(
            "a public table of totals that are published exactly: the columns of an area level and those above it, and "
            "`count`. Every area is listed once; a warning says how many are not listed, which have no records.",
            hint="the public table of totals per area, which are then exact",
        ),
    ] = None
    mechanism: Annotated[
        TablesMechanism | None,
        Doc(
            "how noisy tables become one table of integers; `tallytree.tables.LeastSquares()` by default.",
            hint="give its name, and options if any: mechanism: {name: ...}",
        ),
    ] = None
    keep_detail: Annotated[
        bool,
        Doc(
            "publish the detail too: the cells, not 0, of the one table of integers that all published tables are sums "
            "of. `Release.records` needs it. It costs no privacy; most of its cells are mostly noise.",
            hint="true to publish the cells that all tables are sums of, for records",
        ),
    ] = False

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            ValueError, TypeError: a value that cannot be used.
        """
        super().__post_init__()
        flag(self.keep_detail, "keep_detail")


@dataclass(frozen=True, eq=False, repr=False)
class SizesArguments(PersonOptions):
    """The arguments of `tallytree.release_group_sizes`."""

    records: Annotated[TableArgument, PRIVATE_TABLE]
    hierarchy: Annotated[
        Hierarchy,
        Doc(
            "the public tree; every group lies in one leaf.",
            hint="give the public tree: hierarchy: {path: areas.parquet, levels: [state]}",
        ),
    ]
    budget: Annotated[Budget, BUDGET]
    _: KW_ONLY
    max_contributions: Annotated[
        RecordsOfAPerson,
        Doc(
            "the most records of one person: memberships of groups. It is assumed, not enforced, unless `person` names "
            'the people. With `person` and `contributions` also `"auto"`: it is chosen from what `contributions` '
            "measures.",
            hint="the most records of one person, or auto",
        ),
    ] = 1
    group: Annotated[
        str | None,
        Doc(
            "for entity rows, the column that names an entity's group.",
            hint="for entity rows: the column that names an entity's group",
        ),
    ] = None
    quantity: Annotated[
        str | None,
        Doc(
            "for entity rows, a column with what each adds to its group's size (cars, seats); without it, 1.",
            hint="for entity rows: what each adds to its group's size",
        ),
    ] = None
    max_quantity: Annotated[
        int,
        Doc(
            "larger quantities are cut to it, so with the default of 1 a quantity only says whether there is any; the "
            "noise is for quantities up to it. For (leaf, size, groups) rows, the most that one record can have added "
            "to a size; assumed, not enforced.",
            hint="larger quantities are cut to it",
        ),
    ] = 1
    size: Annotated[
        str | None,
        Doc(
            "for (leaf, size, groups) rows, the column with the size.",
            hint="for (leaf, size, groups) rows: the column with the size",
        ),
    ] = None
    groups: Annotated[
        str | None,
        Doc(
            "for (leaf, size, groups) rows, the column with the number of groups of that size in that leaf.",
            hint="for (leaf, size, groups) rows: the column with the number of groups",
        ),
    ] = None
    public_groups: Annotated[
        TableArgument,
        Doc(
            "for entity rows, the public table of all groups: the hierarchy's columns and `groups`, the number of "
            "groups in a leaf. Groups without entities have size 0. Every leaf is listed once; a warning says how many "
            "are not listed, which have no groups.",
            hint="for entity rows: the public table of groups per leaf",
        ),
    ] = None
    invariants: Annotated[
        Invariants | None,
        Doc(
            'which numbers of groups are published exactly: `"groups"`, every leaf\'s (the default with '
            '`public_groups` and for (leaf, size, groups) rows); `"total"`, their sum; `"none"` (the default for '
            "entity rows alone). "
            "With the last two, groups without members are not counted, so sizes begin with 1.",
            hint="groups, total or none: which numbers of groups are public",
        ),
    ] = None
    max_group_size: Annotated[
        int | PrivateMaximum | Literal["private"],
        Doc(
            "K; larger groups are set to it. Where it is not public: a `tallytree.sizes.PrivateMaximum`, or "
            '`"private"` for one with its defaults, measures the largest size with a share of the budget first.',
            hint="larger groups are set to it; private or {share: ..., at_most: ...} if it is not public",
        ),
    ] = 10_000
    min_group_size: Annotated[
        int,
        Doc("smaller groups are set to it.", hint="smaller groups are set to it"),
    ] = 0
    mechanism: Annotated[
        SizesMechanism | None,
        Doc(
            "how noisy measurements become group sizes, one of `tallytree.sizes`; `Joint()` by default.",
            hint="give its name, and options if any: mechanism: {name: ...}",
        ),
    ] = None

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            ValueError, TypeError: a value that cannot be used.
        """
        super().__post_init__()
        for name in ("group", "quantity", "size", "groups"):
            column(getattr(self, name), name)
        quantity = integer(self.max_quantity, "max_quantity", least=1, most=10**6)
        object.__setattr__(self, "max_quantity", quantity)


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
