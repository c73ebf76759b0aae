"""What is audited: a release without records, planned as the public functions would plan it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from tallytree.budget import Budget
from tallytree.counts import CountsMechanism
from tallytree.hierarchy import Hierarchy
from tallytree.lab._internals import (
    CountsArguments,
    Invariants,
    NoiseTerms,
    PlannedCounts,
    PlannedSizes,
    PlannedTables,
    SizesArguments,
    TablesArguments,
    options_of,
    plan_counts,
    plan_group_sizes,
    plan_tables,
)
from tallytree.lab.audit.inputs import Inputs, Neighborhood, counts_inputs, sizes_inputs, tables_inputs
from tallytree.product import Product
from tallytree.sizes import PrivateMaximum, SizesDomain, SizesMechanism
from tallytree.support.arrays import IntArray
from tallytree.support.validate import integer, safe_text
from tallytree.tables import TablesMechanism

PERSON_COLUMN = "person"
"""Stands for the column of people where there are no records, and so no columns."""

Tree: TypeAlias = Hierarchy | Product | SizesDomain
"""The public side: a tree for counts, the hierarchies for tables, what is public of the groups for group sizes."""

Plans: TypeAlias = PlannedCounts | PlannedTables | PlannedSizes


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Audited(NoiseTerms):
    """A release whose privacy is audited; the options that decide its noise are those of `NoiseTerms`.

    Attributes:
        mechanism: of `tallytree.counts`, `tallytree.sizes` or `tallytree.tables`; None for the default.
        tree: the public side.
        budget: what the release is said to spend.
        distinct: of counts and tables, whether a person counts at most once in a leaf, or combination of leaves.
        tables: of tables, what is published.
        public_totals: of tables, the totals that are published exactly; None for none.
        max_quantity: of group sizes, the most that one record adds to its group's size.
        maximum_share: of group sizes, the share of the budget that measures the largest size; None where K is public.
        groups_per_leaf: of group sizes whose numbers of groups are private, how many groups a leaf can have.
    """

    mechanism: CountsMechanism | SizesMechanism | TablesMechanism | None
    tree: Tree
    budget: Budget
    distinct: bool = False
    tables: Any = None
    public_totals: Any = None
    max_quantity: int = 1
    maximum_share: Any = None
    groups_per_leaf: IntArray | None = None

    def plan(self) -> tuple[Plans, Inputs]:
        """The planned release, and what its data sets look like."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "hierarchy: on the chain")  # this and a caution are about releases, ...
            if self.mechanism is not None and self.mechanism.caution is not None:
                warnings.simplefilter("ignore")  # ... and nothing is published here
            if isinstance(self.tree, Product) and not self.tree.ordered:
                planned = self._plan_tables(self.tree)
                return planned, tables_inputs(planned)
            for name, given in (("tables", self.tables), ("public_totals", self.public_totals)):
                if given is not None:
                    raise ValueError(
                        f"{name}: {safe_text(given)} is about tables, whose tree is a Product without an order; leave "
                        "it out for others"
                    )
            if isinstance(self.tree, SizesDomain):
                return self._plan_sizes(self.tree), sizes_inputs(self.tree, self.groups_per_leaf)
            return self._plan_counts(self.tree), counts_inputs(self.tree, distinct=self.distinct)

    def _plan_sizes(self, domain: SizesDomain) -> PlannedSizes:
        if self.distinct is not False:
            raise ValueError(f"distinct: {self.distinct!r} is about counts; leave it out for group sizes")
        share = self.maximum_share
        arguments = SizesArguments(
            None,
            domain.hierarchy,
            self.budget,
            mechanism=cast(Any, self.mechanism),  # one of the other package is refused
            size="size",
            groups="groups",
            max_quantity=self.max_quantity,
            invariants=invariants_of(domain),
            max_group_size=domain.largest if share is None else PrivateMaximum(share, domain.largest),
            min_group_size=domain.smallest,
            **options_of(self, NoiseTerms),
        )
        return plan_group_sizes(arguments)

    def _plan_counts(self, tree: Any) -> PlannedCounts:
        if not isinstance(tree, Hierarchy | Product):
            raise TypeError(
                f"tree: {type(tree).__name__} must be a tallytree.Hierarchy or Product for counts, or a "
                "tallytree.sizes.SizesDomain for group sizes"
            )
        self._check_no_sizes("counts")
        arguments = CountsArguments(
            None,
            tree,
            self.budget,
            mechanism=cast(Any, self.mechanism),  # one of the other package is refused
            person=PERSON_COLUMN if self.distinct else None,
            distinct=self.distinct,
            **options_of(self, NoiseTerms),
        )
        return plan_counts(arguments)

    def _plan_tables(self, product: Product) -> PlannedTables:
        self._check_no_sizes("tables")
        arguments = TablesArguments(
            None,
            product,
            self.budget,
            tables=self.tables,
            public_totals=self.public_totals,
            mechanism=cast(Any, self.mechanism),  # one of the other package is refused
            person=PERSON_COLUMN if self.distinct else None,
            distinct=self.distinct,
            **options_of(self, NoiseTerms),
        )
        return plan_tables(arguments)

    def _check_no_sizes(self, statistic: str) -> None:
        """Refuse the options of group sizes.

        Raises:
            ValueError: one is given.
        """
        if self.maximum_share is not None:
            raise ValueError(
                f"maximum_share: {safe_text(self.maximum_share)} is about group sizes; {statistic} have no K, leave it "
                "out"
            )
        if integer(self.max_quantity, "max_quantity", least=1) > 1:
            raise ValueError(
                f"max_quantity: {self.max_quantity} is about group sizes; in {statistic} every record is 1, leave it "
                "out"
            )


def invariants_of(domain: SizesDomain) -> Invariants:
    """Which numbers of groups a domain says are public."""
    if domain.groups_are_public:
        return "groups"
    return "none" if domain.total is None else "total"


def neighborhood_of(planned: Plans, tree: Tree) -> Neighborhood:
    """What a release protects: which data sets are neighbors."""
    terms = planned.arguments
    relation, m = terms.relation, terms.bound
    if not isinstance(planned, PlannedSizes):
        return Neighborhood(relation, m, same_records=terms.total_is_public, distinct=terms.distinct_people)
    groups = tree.total if isinstance(tree, SizesDomain) and not tree.groups_are_public else None
    return Neighborhood(relation, m, planned.arguments.max_quantity, groups=groups)
