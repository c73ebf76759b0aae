"""The library audits itself: every mechanism, relation and kind of budget, on inputs small enough to enumerate."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from typing import Any, cast, get_args

import numpy as np
import pyarrow as pa

from tallytree import counts, sizes, tables
from tallytree.budget import Budget, exact
from tallytree.counts import CountsMechanism, StabilityHistogram, TopDown
from tallytree.counts.top_down import Projection
from tallytree.hierarchy import Hierarchy
from tallytree.lab._internals import (
    PROJECTION_PACKAGES,
    SOLVER_PACKAGES,
    Invariants,
    Neighboring,
    StabilityPlan,
    Statistic,
)
from tallytree.lab.audit.audited import Audited, invariants_of, neighborhood_of
from tallytree.lab.audit.auditing import (
    DEFAULT_CONFIDENCE,
    DEFAULT_RELEASES,
    DEFAULT_RUNS,
    Subject,
    audit_subject,
)
from tallytree.lab.audit.exact import worst_pair
from tallytree.lab.audit.inputs import Inputs
from tallytree.lab.audit.result import AuditResult
from tallytree.lab.audit.threshold import worst_stable_pair
from tallytree.lab.audit.views import publisher
from tallytree.product import Product
from tallytree.sizes import Chain, CumulativeProjection, HistogramProjection, Matching, SizesDomain, SizesMechanism
from tallytree.sizes.cumulative_projection import CumulativeSolver
from tallytree.sizes.estimators import ESTIMATORS
from tallytree.sizes.histogram_projection import HistogramSolver
from tallytree.support.arrays import IntArray
from tallytree.support.validate import safe_text, text
from tallytree.tables import TablesMechanism

Mechanism = CountsMechanism | SizesMechanism | TablesMechanism

DELTA = Fraction(1, 10**6)
LARGE_DELTA = Fraction(1, 20)
RELATIONS: tuple[Neighboring, ...] = ("add_remove", "change_one")
MAX_CASE_SIZE = 4
MAXIMUM_SHARE = Fraction(1, 2)
MAX_VARIED_SIZE = 16
"""What a private K is at most, so that others come out as well: at ε = 1 it is the noisy maximum plus 15."""
MAX_VARIED = 3
"""Of more places not every combination of counts is tried."""
FEW_RELEASES = 200
"""Where only the plan differs from that of an audit whose releases are looked at."""
FEW_TABLES = 100
"""So it is with tables, of which a release takes more time."""
MAGNITUDES = (10**4, 10**9)
"""True values are about 1, and in further runs about these."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Case(Audited):
    """One audit of the library: a release, on a built-in input.

    Attributes:
        statistic: `"counts"`, `"flows"`, `"tables"` or `"group_sizes"`.
        max_releases: no more runs than this are turned into releases.
    """

    statistic: str
    max_releases: int = DEFAULT_RELEASES

    @property
    def name(self) -> str:
        """The statistic and the mechanism, with all that differs from the defaults."""
        options = (
            f"{field.name}={'mixed' if isinstance(value, Mapping) else value}"
            for field in fields(cast(Any, self.mechanism))
            if (value := getattr(self.mechanism, field.name)) != field.default
        )
        more = [] if self.invariants == "groups" else [f"invariants={self.invariants}"]
        if self.max_quantity > 1:
            more.append(f"max_quantity={self.max_quantity}")
        if self.distinct:
            more.append("distinct")
        if self.public_totals is not None:
            more.append("public_totals")
        if self.budget_split is not None:
            more.append(f"budget_split={self.budget_split}")
        if self.maximum_share is not None:
            more.append("max_group_size=private")
        return " ".join([self.statistic, f"{type(self.mechanism).__name__}({', '.join(options)})", *more])

    @property
    def described(self) -> str:
        """The name, the relation, the contribution bound and the budget."""
        return f"{self.name}, {self.neighboring}, m = {self.max_contributions}, {self.budget!r}"

    @property
    def invariants(self) -> Invariants:
        """Which numbers of groups are public; of counts nothing is said by it."""
        return invariants_of(self.tree) if isinstance(self.tree, SizesDomain) else "groups"

    def run(
        self,
        *,
        runs: int = DEFAULT_RUNS,
        releases: int = DEFAULT_RELEASES,
        confidence: float = DEFAULT_CONFIDENCE,
        seed: int | None = None,
    ) -> AuditResult:
        """Enumerate all neighboring inputs, take the pair with the largest exact loss, and audit it."""
        planned, inputs = self.plan()
        neighborhood = neighborhood_of(planned, self.tree)
        data = self._data_sets(
            inputs, planned.plan.stable.threshold if isinstance(planned.plan, StabilityPlan) else None
        )
        near = [neighborhood.of(records) for records in data]
        befores = np.repeat(data, [len(each) for each in near], axis=0)
        afters = np.concatenate(near)
        if isinstance(planned.plan, StabilityPlan):
            before, after = worst_stable_pair(planned.plan, inputs.tabulate, befores, afters)
        else:
            before, after = worst_pair(planned.plan, inputs.tabulate, befores, afters)
        subject = Subject(
            name=repr(self.mechanism),
            neighboring=planned.arguments.relation,
            plan=planned.plan,
            before=inputs.tabulate(before),
            after=inputs.tabulate(after),
            publisher=publisher(planned, self.tree, int(before.sum()) if neighborhood.same_records else None),
            raised=MAGNITUDES,
        )
        some = min(releases, self.max_releases)
        return audit_subject(subject, runs=runs, releases=some, confidence=confidence, seed=seed)

    def _data_sets(self, inputs: Inputs, threshold: int | None) -> IntArray:
        """Data sets among which are the worst: how far counts move does not depend on them, how far sizes move does.

        With a threshold it matters which cells have how many records: few enough to vanish, or as many as it.
        """
        m = self.max_contributions
        if threshold is not None and inputs.places <= MAX_VARIED:
            return np.array(list(itertools.product(sorted({0, 1, m, threshold}), repeat=inputs.places)), dtype=np.int64)
        if threshold is not None:
            return np.stack([np.full(inputs.places, 1), np.arange(inputs.places) % 2])
        if self.statistic != "group_sizes":
            return np.full((1, inputs.places), m, dtype=np.int64)
        sizes_tried = range(MAX_CASE_SIZE + 1) if m == 1 else (1, MAX_CASE_SIZE)
        return np.array(list(itertools.product(sizes_tried, repeat=inputs.places)), dtype=np.int64)


def library_mechanisms() -> dict[str, list[Mechanism]]:
    """Every mechanism of counts, of group sizes and of tables, by name, with the options that change what is drawn.

    Mechanisms of several packages can share a name. One that is not listed in `_variants` is audited with its default
    options.
    """
    found: dict[str, list[Mechanism]] = {}
    for package, protocol in ((counts, CountsMechanism), (sizes, SizesMechanism), (tables, TablesMechanism)):
        for name in package.__all__:
            offered: Any = getattr(package, name)
            if is_dataclass(offered) and issubclass(cast(type, offered), protocol):
                own = found.setdefault(name, [])
                own += _variants().get(name) or [cast(Any, offered)()]
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
    if mechanism is not None and text(mechanism, "mechanism", "the name of a mechanism") not in mechanisms:
        raise ValueError(f"mechanism: {mechanism!r} is not known; choose one of {', '.join(mechanisms)}")
    budgets = _budgets(epsilon)
    cases: list[Case] = []
    measured: set[tuple[Statistic, ...]] = set()
    for name, variants in mechanisms.items():
        for variant in variants:
            if isinstance(variant, SizesMechanism):
                new = _measured(variant)
                found = _sizes_cases(variant, budgets, first_of_its_kind=new not in measured)
                measured.add(new)
            elif isinstance(variant, TablesMechanism):
                found = _tables_cases(variant, budgets)
            else:
                found = _counts_cases(variant, budgets)
            cases += found if mechanism in (None, name) else []
    return cases


def audit_mechanism(
    mechanism: Mechanism,
    *,
    epsilon: Any = 1,
    runs: int = DEFAULT_RUNS,
    releases: int = DEFAULT_RELEASES,
    seed: int | None = None,
) -> dict[str, AuditResult]:
    """Audit a mechanism, of the library or from outside, as the library audits its own.

    Every relation and kind of budget, on trees small enough to enumerate all neighboring inputs and to take the worst
    pair of them. Inputs are made up; no data is read.

    Args:
        mechanism: the mechanism.
        epsilon: see `library_cases`.
        runs: how often everything is measured under each input.
        releases: how many runs are turned into releases, at most.
        seed: makes the audits reproducible.

    Returns:
        By the name of the case, what was found; cases that the mechanism refuses are left out.

    Raises:
        ValueError: it refuses all cases.
        TypeError: not a mechanism.
    """
    return {
        f"{number}. {case.described}": case.run(runs=runs, releases=releases, seed=seed)
        for number, case in enumerate(mechanism_cases(mechanism, epsilon), 1)
    }


def mechanism_cases(mechanism: Mechanism, epsilon: Any = 1) -> list[Case]:
    """The audits of one mechanism, but for those that it refuses; see `audit_mechanism`.

    Raises:
        ValueError: it refuses all cases.
        TypeError: not a mechanism.
    """
    budgets = _budgets(epsilon)
    if isinstance(mechanism, SizesMechanism):
        cases = _sizes_cases(mechanism, budgets, first_of_its_kind=True)
    elif isinstance(mechanism, TablesMechanism):
        cases = _tables_cases(mechanism, budgets)
    elif isinstance(mechanism, CountsMechanism):
        cases = [case for case in _counts_cases(mechanism, budgets) if not _is_refused(case)]
    else:
        raise TypeError(f"mechanism: {safe_text(mechanism)} must be a mechanism, with one of the three bases")
    if not cases:
        raise ValueError(
            f"mechanism: {mechanism!r} refuses every case; those of counts have the levels state and county, or those "
            "of flows between counties: audit it on a tree of yours, with tallytree.lab.audit.audit"
        )
    return cases


def _is_refused(case: Case) -> bool:
    """Whether the mechanism of a case of counts raises that the tree is not for it."""
    try:
        case.plan()
    except ValueError:
        return True
    return False


def _budgets(epsilon: Any) -> tuple[Budget, Budget, Budget]:
    return (
        Budget(epsilon=epsilon),
        Budget(epsilon=epsilon, delta=DELTA),
        Budget(rho=exact(epsilon, "epsilon") ** 2 / 2),
    )


def _counts_cases(mechanism: CountsMechanism, budgets: Sequence[Budget]) -> list[Case]:
    """Counts with m = 1, m = 3 and m = 3 distinct leaves, flows with m = 1, under every relation and kind of budget."""
    if isinstance(mechanism, StabilityHistogram):  # it takes no other; of a large δ a few thousand runs show something
        budgets = [each for each in budgets if each.kind == "approximate"]
        budgets += [Budget(epsilon=each.epsilon, delta=LARGE_DELTA) for each in budgets]
    areas = _areas()
    flows = Product({"origin": areas, "destination": areas}, order=["destination", "origin"] * 2)
    inputs: list[tuple[str, Hierarchy | Product, int, bool]] = [
        ("counts", areas, 1, False),
        ("counts", areas, 3, False),
        ("counts", areas, 3, True),
        ("flows", flows, 1, False),
    ]
    return [
        Case(
            statistic=statistic,
            mechanism=mechanism,
            tree=tree,
            budget=budget,
            neighboring=neighboring,
            max_contributions=m,
            distinct=distinct,
        )
        for (statistic, tree, m, distinct), neighboring, budget in itertools.product(inputs, RELATIONS, budgets)
    ]


def _tables_cases(mechanism: TablesMechanism, budgets: tuple[Budget, Budget, Budget]) -> list[Case]:
    """Tables with m = 1 and every kind of budget; then m = 3, distinct people, public totals, more tables.

    The latter change what is planned, and not how the mechanism works, so that few of their runs become releases. With
    the shares of `"auto"` tables that were not asked for are measured too.
    """
    pure, approximate, zcdp = budgets
    areas, sexes = _areas(), Hierarchy.from_values("sex", ["f", "m"])
    ages = Hierarchy.from_table(pa.table({"band": ["young", "young", "old"], "age": ["0", "1", "2"]}), ["band", "age"])
    two, three = Product({"area": areas, "sex": sexes}), Product({"area": areas, "age": ages, "sex": sexes})
    of_two = [("county", "sex"), ("state", "sex"), ("county",), ("sex",), ()]
    of_three = [("county", "age", "sex"), ("state", "band"), ("age",), ("county",)]
    totals = pa.table({"state": ["A", "B"], "count": [7, 3]})
    few = {"max_releases": FEW_TABLES}
    wanted: list[tuple[Product, list[Any], Budget, dict[str, Any]]] = [
        (two, of_two, pure, {}),
        (two, of_two, approximate, few),
        (two, of_two, zcdp, {}),
        *((two, of_two, budget, {"max_contributions": 3} | few) for budget in (pure, zcdp)),
        *((two, of_two, budget, {"max_contributions": 3, "distinct": True} | few) for budget in (pure, zcdp)),
        (two, of_two, pure, {"public_totals": totals} | few),
        (three, of_three, zcdp, few),
        (two, of_two[:1], approximate, {"budget_split": "auto"} | few),
    ]
    return [
        Case(
            statistic="tables",
            mechanism=mechanism,
            tree=product,
            tables=published,
            budget=budget,
            neighboring=relation,
            **options,
        )
        for (product, published, budget, options), relation in itertools.product(wanted, RELATIONS)
        if relation == "change_one" or "public_totals" not in options  # they would tell a person's presence
    ]


def _sizes_cases(
    mechanism: SizesMechanism, budgets: tuple[Budget, Budget, Budget], *, first_of_its_kind: bool
) -> list[Case]:
    """The first regime with a pure budget and one in ρ, the other regimes with a pure budget, under every relation.

    (ε, δ), several records per person and quantities change what is planned, which is the same for all mechanisms that
    measure the same; so only the first of these is audited with them, and few of its runs become releases. So it is
    with a private K.
    """
    pure, approximate, zcdp = budgets
    first, *others = _regimes(mechanism)
    settings = [(first, 1, 1, pure), (first, 1, 1, zcdp), *((regime, 1, 1, pure) for regime in others)]
    of_the_plan = [(first, 1, 1, approximate)]
    of_the_plan += [(first, m, z, budget) for m, z in ((3, 1), (1, 2)) for budget in (pure, zcdp)]
    of_the_plan += [(regime, 1, 2, pure) for regime in others[-1:]]
    private = [(first, 1, 1, pure), (first, 3, 1, zcdp), (others[-1] if others else first, 1, 2, pure)]
    wanted: list[tuple[tuple[Invariants, int, int, Budget], int, Fraction | None]]
    wanted = [(each, DEFAULT_RELEASES, None) for each in settings]
    if first_of_its_kind:
        wanted += [(each, FEW_RELEASES, None) for each in of_the_plan]
        wanted += [(each, FEW_RELEASES, MAXIMUM_SHARE) for each in private]
    return [
        Case(
            statistic="group_sizes",
            mechanism=mechanism,
            tree=domain,
            budget=budget,
            neighboring=neighboring,
            max_contributions=m,
            max_quantity=z,
            groups_per_leaf=places,
            maximum_share=share,
            max_releases=releases,
        )
        for (regime, m, z, budget), releases, share in wanted
        for domain, places in [_domain(regime, MAX_CASE_SIZE if share is None else MAX_VARIED_SIZE)]
        for neighboring in RELATIONS
    ]


def _domain(regime: Invariants, largest: int = MAX_CASE_SIZE) -> tuple[SizesDomain, IntArray | None]:
    """What is public of the built-in groups; and how many groups a leaf can have, where that is not public."""
    places = np.array([2, 1, 1], dtype=np.int64)
    if regime == "groups":
        return SizesDomain.from_leaves(_areas(), places, 0, largest), None
    there = np.array([1, 1, 1], dtype=np.int64)  # under "total" three groups of the four, any of them
    return SizesDomain.from_leaves(_areas(), there, 1, largest, regime), places


def _regimes(mechanism: SizesMechanism) -> list[Invariants]:
    """What may be public of the numbers of groups: all that the mechanism does not refuse."""
    regimes: list[Invariants] = []
    for regime in get_args(Invariants):
        with suppress(ValueError):
            mechanism.statistics(_areas(), invariants=regime)
            regimes.append(regime)
    return regimes


def _measured(mechanism: SizesMechanism) -> tuple[Statistic, ...]:
    """What it measures, level by level."""
    return tuple(mechanism.statistics(_areas(), invariants=_regimes(mechanism)[0]).values())


def _variants() -> dict[str, list[Mechanism]]:
    """The options that change what is drawn, and the solvers that need nothing to be installed.

    `Independent` and `BottomUp` have the estimators of `Matching` measured and fitted by the same code, so those are
    audited there.
    """
    levels = _areas().levels
    mixed = dict(zip(levels, itertools.cycle(ESTIMATORS), strict=False))
    return {
        "TopDown": [TopDown(p) for p in get_args(Projection) if p not in PROJECTION_PACKAGES],
        "Matching": [*(Matching(estimator) for estimator in ESTIMATORS), Matching(mixed)],
        "HistogramProjection": [HistogramProjection(s) for s in get_args(HistogramSolver) if s not in SOLVER_PACKAGES],
        "CumulativeProjection": [
            CumulativeProjection(s) for s in get_args(CumulativeSolver) if s not in SOLVER_PACKAGES
        ],
        # As published, it states more than the budget; that is for tests/lab/audit/test_faults.py.
        "Chain": [Chain("valid")],
    }


def _areas() -> Hierarchy:
    """Two states, one with two counties and one with one."""
    table = pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "z"]})
    return Hierarchy.from_table(table, ["state", "county"])
