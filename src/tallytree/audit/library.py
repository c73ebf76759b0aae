"""The library audits itself: every mechanism, relation and kind of budget, on inputs small enough to enumerate."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from typing import Any, cast, get_args

import numpy as np
import pyarrow as pa

from tallytree import counts, sizes
from tallytree.arrays import IntArray
from tallytree.audit.auditing import (
    DEFAULT_CONFIDENCE,
    DEFAULT_RELEASES,
    DEFAULT_RUNS,
    AuditResult,
    Subject,
    audit_subject,
    planned,
)
from tallytree.audit.exact import worst_pair
from tallytree.audit.inputs import Inputs, neighbors
from tallytree.audit.views import publisher
from tallytree.budget import Budget, exact
from tallytree.counts import CountsMechanism, TopDown
from tallytree.counts.top_down import Projection
from tallytree.hierarchy import Hierarchy
from tallytree.jobs import CountsJob
from tallytree.planning import Options
from tallytree.product import Product
from tallytree.sizes import Matching, SizesDomain, SizesMechanism
from tallytree.sizes.estimators import ESTIMATORS

Mechanism = CountsMechanism | SizesMechanism

DELTA = Fraction(1, 10**6)
RELATIONS = ("add_remove", "change_one")
LARGEST_SIZE = 3


@dataclass(frozen=True, eq=False)
class Case:
    """One audit of the library.

    Attributes:
        statistic: `"counts"`, `"flows"` or `"group_sizes"`.
        mechanism: with its options.
        tree: the public side of the built-in input.
        budget: what is said to be spent.
        neighboring: the relation.
        max_contributions: the most records of one person.
    """

    statistic: str
    mechanism: Mechanism
    tree: Hierarchy | Product | SizesDomain
    budget: Budget
    neighboring: str
    max_contributions: int

    @property
    def name(self) -> str:
        """The statistic and the mechanism, with the options that differ from the defaults."""
        options = (
            f"{field.name}={'mixed' if isinstance(value, Mapping) else value}"
            for field in fields(cast(Any, self.mechanism))
            if (value := getattr(self.mechanism, field.name)) != field.default
        )
        return f"{self.statistic} {type(self.mechanism).__name__}({', '.join(options)})"

    def run(
        self,
        *,
        runs: int = DEFAULT_RUNS,
        releases: int = DEFAULT_RELEASES,
        confidence: float = DEFAULT_CONFIDENCE,
        seed: int | None = None,
    ) -> AuditResult:
        """Enumerate all neighbouring inputs, take the pair with the largest exact loss, and audit it."""
        options = Options(
            neighboring=self.neighboring, max_contributions=self.max_contributions, mechanism=self.mechanism
        )
        job, inputs = planned(self.tree, self.budget, options)
        total_is_public = isinstance(job, CountsJob) and job.terms.total_is_public
        pairs = (
            (before, after)
            for before in self._data_sets(inputs)
            for after in neighbors(
                before, job.terms.neighboring, job.terms.max_contributions, total_is_public=total_is_public
            )
        )
        before, after = worst_pair(job.plan, inputs.tabulate, pairs)
        subject = Subject(
            name=repr(self.mechanism),
            neighboring=job.terms.neighboring,
            plan=job.plan,
            before=inputs.tabulate(before),
            after=inputs.tabulate(after),
            publisher=publisher(job, self.tree, int(before.sum()) if total_is_public else None),
        )
        return audit_subject(subject, runs=runs, releases=releases, confidence=confidence, seed=seed)

    def _data_sets(self, inputs: Inputs) -> Iterator[IntArray]:
        """Data sets among which are the worst: how far counts move does not depend on them, how far sizes move does."""
        m = self.max_contributions
        if self.statistic != "group_sizes":
            yield np.full(inputs.places, m, dtype=np.int64)
            return
        sizes_tried = range(LARGEST_SIZE + 1) if m == 1 else (1, LARGEST_SIZE)
        for members in itertools.product(sizes_tried, repeat=inputs.places):
            yield np.array(members, dtype=np.int64)


def library_mechanisms() -> dict[str, list[Mechanism]]:
    """Every mechanism that `tallytree.counts` and `tallytree.sizes` offer, with the options that change what is drawn.

    One that is not listed in `_variants` is audited with its default options.
    """
    found: dict[str, list[Mechanism]] = {}
    for package, protocol in ((counts, CountsMechanism), (sizes, SizesMechanism)):
        for name in package.__all__:
            offered: Any = getattr(package, name)
            if is_dataclass(offered) and issubclass(cast(type, offered), protocol):
                found[name] = _variants().get(name) or [cast(Any, offered)()]
    return found


def library_cases(epsilon: Any = 1, mechanism: str | None = None) -> list[Case]:
    """The audits of the library, or of one of its mechanisms.

    Args:
        epsilon: ε of the pure and the (ε, 10^-6) budgets; the budget in ρ is ε²/2, as ε-differential privacy implies.
        mechanism: the name of a class; all if None.

    Raises:
        ValueError: an unknown mechanism, or an ε that is no budget.
    """
    mechanisms = library_mechanisms()
    if mechanism is not None and mechanism not in mechanisms:
        raise ValueError(f"mechanism: {mechanism!r} is not known; choose one of {', '.join(mechanisms)}")
    pure = Budget(epsilon=epsilon)
    budgets = (
        pure,
        Budget(epsilon=epsilon, delta=DELTA),
        Budget(rho=exact(epsilon, "epsilon") ** 2 / 2),
    )
    return [
        Case(statistic, variant, tree, budget, neighboring, m)
        for name in ([mechanism] if mechanism else mechanisms)
        for variant in mechanisms[name]
        for statistic, tree, bounds in _inputs_for(variant)
        for m in bounds
        for neighboring in RELATIONS
        for budget in budgets
    ]


def _variants() -> dict[str, list[Mechanism]]:
    levels = _areas().levels
    mixed = dict(zip(levels, itertools.cycle(ESTIMATORS), strict=False))
    return {
        "TopDown": [TopDown(projection) for projection in get_args(Projection)],
        "Matching": [*(Matching(estimator) for estimator in ESTIMATORS), Matching(mixed)],
    }


def _inputs_for(mechanism: Mechanism) -> Sequence[tuple[str, Hierarchy | Product | SizesDomain, tuple[int, ...]]]:
    """The built-in inputs that a mechanism is audited on, and the bounds m of each."""
    areas = _areas()
    if isinstance(mechanism, SizesMechanism):
        domain = SizesDomain.from_leaves(areas, np.array([2, 1, 1], dtype=np.int64), 0, LARGEST_SIZE)
        return [("group_sizes", domain, (1, 3))]
    flows = Product({"origin": areas, "destination": areas}, order=["destination", "origin"] * 2)
    return [("counts", areas, (1, 3)), ("flows", flows, (1,))]


def _areas() -> Hierarchy:
    """Two states, one with two counties and one with one."""
    table = pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "z"]})
    return Hierarchy.from_table(table, ["state", "county"])
