"""`audit`: run a mechanism many times on two neighboring inputs, and bound its privacy loss from below."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from typing import Annotated, Any

import numpy as np

from tallytree.budget import Budget
from tallytree.counts import CountsMechanism
from tallytree.lab._internals import (
    Doc,
    KeyedNoise,
    NoiseSource,
    NoiseTerms,
    OpenDPNoise,
    Plan,
    StabilityPlan,
    TrueStatistics,
    entropy,
    epsilon_from_rho,
    options_of,
    takes,
)
from tallytree.lab.audit.audited import Audited, Tree, neighborhood_of
from tallytree.lab.audit.confidence_bounds import clopper_pearson, epsilon_at_least, rho_at_least
from tallytree.lab.audit.events import AuditedView, Event, Objective, best_events
from tallytree.lab.audit.exact import exact_delta, exact_loss
from tallytree.lab.audit.inputs import group_lists
from tallytree.lab.audit.maximum import draw_within_maximum, measured_within_maximum, published_within_maximum
from tallytree.lab.audit.result import AuditResult
from tallytree.lab.audit.runs import RunsOfLevel, draw_runs
from tallytree.lab.audit.threshold import stable_delta, stable_view
from tallytree.lab.audit.views import Publisher, measured_view, published_view, publisher
from tallytree.sizes import SizesDomain, SizesMechanism
from tallytree.support.validate import integer, safe_text
from tallytree.tables import TablesMechanism

ZCDP_DELTA = Fraction(1, 10**6)
"""The δ at which a budget in ρ is stated as an ε; the bound on ρ itself is the stronger test."""

DEFAULT_RUNS = 50_000
DEFAULT_RELEASES = 2_000
DEFAULT_CONFIDENCE = 0.9999
"""So high because a suite has many audits, and one false alarm among them is one too many."""
MIN_RUNS = 100
RAISED_SHARE = 4
"""Of every magnitude of the true values there are so many times fewer runs: a fault in the noise shows at any level."""


@dataclass(frozen=True, eq=False)
class Subject:
    """What `audit_subject` audits: a plan, two neighboring inputs, and how a run is published.

    Attributes:
        name: in words.
        neighboring: the neighboring relation.
        plan: the noise of every measured level, and the budget that is said to cover it.
        before: the true statistics of the data.
        after: those of its neighbor.
        publisher: runs the mechanism; None to audit the measurements alone.
        raised: what is added to every true cell in further runs, in which the measurements alone are looked at; see
            `lab.audit.runs`.
    """

    name: str
    neighboring: str
    plan: Plan
    before: TrueStatistics
    after: TrueStatistics
    publisher: Publisher | None = None
    raised: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class AuditArguments(NoiseTerms):
    """The arguments of `audit`."""

    mechanism: Annotated[
        CountsMechanism | SizesMechanism | TablesMechanism | None,
        Doc("of `tallytree.counts`, `tallytree.sizes` or `tallytree.tables`; None for the default."),
    ]
    tree: Annotated[
        Tree,
        Doc(
            "for counts a `Hierarchy` or `Product`; for tables a `Product` without an order; for group sizes a "
            "`tallytree.sizes.SizesDomain`, which says what is public of the numbers of groups."
        ),
    ]
    data: Annotated[
        Any,
        Doc(
            "for counts the records of every leaf; for tables those of every combination of leaves, the last "
            "hierarchy's fastest; for group sizes, for every leaf, the list of its groups' sizes. "
            "Where the numbers of groups are private, a size of 0 is a group that is not there, but can be in "
            "the neighbor."
        ),
    ]
    neighbor: Annotated[
        Any, Doc("the neighboring input, in the same form; group i of a leaf is the same group in both.")
    ]
    budget: Annotated[Budget, Doc("what the release is said to spend.")]
    _: KW_ONLY
    distinct: Annotated[
        bool,
        Doc(
            "for counts, whether a person counts at most once in a leaf (see `tallytree.release_counts`), and for "
            "tables in a combination of leaves; `data` and `neighbor` then are people per leaf, or combination."
        ),
    ] = False
    tables: Annotated[
        Any, Doc("for tables, what is published; see `tallytree.release_tables`. `budget_split` is `None` for even.")
    ] = None
    public_totals: Annotated[Any, Doc("for tables, the public table of totals that are published exactly.")] = None
    max_quantity: Annotated[int, Doc("the most that one record adds to its group's size; 1 for counts.")] = 1
    maximum_share: Annotated[
        Any,
        Doc(
            "where K is private, the share of the budget that measures the largest size (see "
            "`tallytree.sizes.PrivateMaximum`); the domain's `largest` is then what K is at most."
        ),
    ] = None
    runs: Annotated[int, Doc("how often everything is measured under each input, at least 100.")] = DEFAULT_RUNS
    releases: Annotated[
        int, Doc("how many runs are turned into releases, at most all of them; at least 100, or 0 for none.")
    ] = DEFAULT_RELEASES
    confidence: Annotated[float, Doc("of the bounds, in (0, 1).")] = DEFAULT_CONFIDENCE
    seed: Annotated[int | None, Doc("makes the audit reproducible.")] = None

    def audited(self) -> Audited:
        """The release whose privacy is audited."""
        groups_per_leaf = None
        if isinstance(self.tree, SizesDomain) and not self.tree.groups_are_public:
            found = [len(sizes) for sizes in group_lists(self.data, "data", self.tree)]
            groups_per_leaf = np.array(found, dtype=np.int64)
        return Audited(
            mechanism=self.mechanism,
            tree=self.tree,
            budget=self.budget,
            distinct=self.distinct,
            tables=self.tables,
            public_totals=self.public_totals,
            max_quantity=self.max_quantity,
            maximum_share=self.maximum_share,
            groups_per_leaf=groups_per_leaf,
            **options_of(self, NoiseTerms),
        )


@takes(AuditArguments, shared=NoiseTerms)
def audit(arguments: AuditArguments) -> AuditResult:
    """Look for a privacy loss beyond what a release with these arguments states.

    The release is planned as `release_counts`, `release_flows`, `release_tables` or `release_group_sizes` would plan
    it. All that the plan allows to be measured is drawn `runs` times under both inputs with fresh noise, and the
    mechanism, unchanged, turns some of these runs into releases. Events are sought in the measurements, which see every
    draw, and in the releases.

    Args:
        {arguments}

    Raises:
        ValueError: a value that is out of range, or inputs that are not neighbors.
        TypeError: a value of the wrong kind.

    Example:
        >>> import pyarrow as pa, tallytree as tt
        >>> from tallytree.lab.audit import audit
        >>> towns = tt.Hierarchy.from_table(pa.table({"town": ["x", "y"]}), ["town"])
        >>> found = audit(tt.counts.TopDown(), towns, [3, 1], [3, 2], tt.Budget(epsilon=1), neighboring="add_remove",
        ...               runs=2_000, seed=1)
        >>> found.passed, found.exact_epsilon
        (True, 1.0)
    """
    planned, inputs = arguments.audited().plan()
    records = inputs.parse(arguments.data, "data"), inputs.parse(arguments.neighbor, "neighbor")
    neighborhood = neighborhood_of(planned, arguments.tree)
    neighborhood.check(*records)
    total = int(records[0].sum()) if neighborhood.same_records else None
    subject = Subject(
        name=repr(planned.mechanism),
        neighboring=planned.arguments.relation,
        plan=planned.plan,
        before=inputs.tabulate(records[0]),
        after=inputs.tabulate(records[1]),
        publisher=publisher(planned, arguments.tree, total),
    )
    source: Callable[[bytes], NoiseSource] = KeyedNoise if arguments.noise == "keyed" else lambda key: OpenDPNoise()
    return audit_subject(
        subject,
        source=source,
        runs=arguments.runs,
        releases=arguments.releases,
        confidence=arguments.confidence,
        seed=arguments.seed,
    )


def audit_subject(
    subject: Subject,
    *,
    source: Callable[[bytes], NoiseSource] = KeyedNoise,
    runs: int = DEFAULT_RUNS,
    releases: int = DEFAULT_RELEASES,
    confidence: float = DEFAULT_CONFIDENCE,
    seed: int | None = None,
) -> AuditResult:
    """Audit any plan, statistics and noise source, which need not be the library's; see `audit`.

    Args:
        subject: what is audited.
        source: makes the noise source of a 32-byte key; called once for each input, with different keys.
        runs: see `audit`.
        releases: see `audit`.
        confidence: see `audit`.
        seed: see `audit`.
    """
    runs = integer(runs, "runs", least=MIN_RUNS)
    published = min(integer(releases, "releases", least=0), runs)
    if 0 < published < MIN_RUNS:
        raise ValueError(f"releases: {published} must be 0, or at least {MIN_RUNS}")
    alpha = 1 - _checked_confidence(confidence)
    key = entropy.fresh_key() if seed is None else entropy.key_from_seed(seed)
    sources = [source(entropy.derive(key, "audit", name)) for name in ("data", "neighbor")]
    views = _views(subject, sources, runs, published)
    stated = _Stated.of(subject.plan)
    findings = _findings(views, stated.objectives, alpha)
    exact, delta = _exactly(subject, stated)
    epsilon, rho = (max((loss for name, loss, _ in findings if name == kind), default=0.0) for kind in ("ε", "ρ"))
    within = epsilon <= stated.epsilon and (stated.rho is None or rho <= stated.rho)
    event = max(findings, key=lambda found: found[1] / stated.of_kind(found[0]), default=("", 0.0, None))[2]
    return AuditResult(
        mechanism=subject.name,
        neighboring=subject.neighboring,
        epsilon_stated=float(stated.epsilon),
        delta=float(stated.delta),
        epsilon_lower=epsilon,
        exact_epsilon=float(exact) if stated.rho is None and exact is not None else None,
        rho_stated=None if stated.rho is None else float(stated.rho),
        rho_lower=None if stated.rho is None else rho,
        exact_rho=None if stated.rho is None or exact is None else float(exact),
        exact_delta=delta,
        confidence=float(confidence),
        event="nothing was measured" if event is None else str(event),
        runs=runs,
        releases=published if len(views) > 1 else 0,
        passed=within
        and (exact is None or exact <= (stated.epsilon if stated.rho is None else stated.rho))
        and (delta is None or delta <= stated.delta),
    )


def _exactly(subject: Subject, stated: _Stated) -> tuple[Fraction | None, float | None]:
    """The exact loss in ε or ρ, and the exact δ, where there are such."""
    plan, before, after = subject.plan, subject.before, subject.after
    if isinstance(plan, StabilityPlan):
        return None, stable_delta(plan, before, after)
    exact = exact_loss(plan, [(before, after)])
    return exact, None if stated.rho is None else exact_delta(plan, before, after, float(stated.epsilon))


def _views(subject: Subject, sources: list[NoiseSource], runs: int, published: int) -> list[AuditedView]:
    """What is seen: all that was measured, and what was published from some of it, if anything was."""
    plan, sides = subject.plan, list(zip((subject.before, subject.after), sources, strict=True))
    publishes = subject.publisher if published else None
    if not isinstance(plan, StabilityPlan) and plan.maximum is not None:
        clamped = [draw_within_maximum(statistics, plan, source, runs) for statistics, source in sides]
        views = [measured_within_maximum(clamped[0], clamped[1], plan)]
        if publishes is not None:
            views.append(published_within_maximum(publishes, clamped[0], clamped[1], published))
        return views + _raised_views(subject, sides, runs)
    drawn = [draw_runs(statistics, plan, source, runs) for statistics, source in sides]
    views = [_measured_view(plan, drawn, runs)]
    if publishes is not None:
        views.append(published_view(publishes, drawn[0], drawn[1], published))
    return views + _raised_views(subject, sides, runs)


def _raised_views(
    subject: Subject, sides: Sequence[tuple[TrueStatistics, NoiseSource]], runs: int
) -> list[AuditedView]:
    """What is measured of the levels where every true cell is raised, in `RAISED_SHARE` of as many further runs."""
    views, some = [], max(runs // RAISED_SHARE, MIN_RUNS)
    for place, raised in enumerate(subject.raised):
        drawn = [
            draw_runs(statistics, subject.plan, source, some, first=runs + place * some, raised=raised)
            for statistics, source in sides
        ]
        view = _measured_view(subject.plan, drawn, some)
        labels = [f"{label} of {raised:,} more in every cell" for label in view.labels]
        scores = [replace(score, name=f"{score.name}, of {raised:,} more in every cell") for score in view.scores]
        views.append(replace(view, labels=labels, scores=tuple(scores)))
    return views


def _measured_view(plan: Plan, drawn: Sequence[dict[str, RunsOfLevel]], runs: int) -> AuditedView:
    """All that was measured under both inputs."""
    if isinstance(plan, StabilityPlan):
        return stable_view(drawn[0], drawn[1], plan)
    return measured_view(drawn[0], drawn[1], runs)


@dataclass(frozen=True)
class _Stated:
    """What a plan promises: ε at a δ, and the ρ that its sensitivities and scales add up to where noise is Gaussian."""

    epsilon: Fraction
    delta: Fraction
    rho: Fraction | None

    @classmethod
    def of(cls, plan: Plan) -> _Stated:
        budget = plan.budget
        if isinstance(plan, StabilityPlan):
            return cls(budget.epsilon or Fraction(0), budget.delta or Fraction(0), None)
        if budget.epsilon is not None and budget.delta is None:
            return cls(budget.epsilon, Fraction(0), None)
        spent = sum((each.cost for each in plan.measured), Fraction(0))
        if budget.epsilon is not None and budget.delta is not None:
            return cls(budget.epsilon, budget.delta, spent)
        rho = budget.rho or spent
        return cls(epsilon_from_rho(rho, ZCDP_DELTA, "zcdp"), ZCDP_DELTA, rho)

    @property
    def objectives(self) -> dict[str, Objective]:
        epsilon: Objective = lambda p, q: epsilon_at_least(p, q, float(self.delta))  # noqa: E731
        return {"ε": epsilon} if self.rho is None else {"ε": epsilon, "ρ": rho_at_least}

    def of_kind(self, kind: str) -> float:
        """What is stated, as a float, of ε or ρ (never 0, to divide by)."""
        stated = self.epsilon if kind == "ε" or self.rho is None else self.rho
        return float(stated) or math.ulp(0.0)


def _findings(
    views: list[AuditedView], objectives: Mapping[str, Objective], alpha: float
) -> list[tuple[str, float, Event]]:
    """For every view and objective the loss that is certain, all of them with probability 1 − alpha (Bonferroni).

    Each event is chosen on the first quarter of the runs and counted on the others, with two Clopper-Pearson bounds.
    """
    share = alpha / (2 * len(views) * len(objectives))
    findings: list[tuple[str, float, Event]] = []
    for view in views:
        chosen_on, counted_on = view.split()
        for name, event in best_events(chosen_on, objectives).items():
            more, fewer = event.counts(counted_on)
            trials = len(counted_on.before)
            low, high = clopper_pearson(more, trials, share)[0], clopper_pearson(fewer, trials, share)[1]
            findings.append((name, float(objectives[name](np.array(low), np.array(high))), event))
    return findings


def _checked_confidence(confidence: Any) -> float:
    if isinstance(confidence, bool) or not isinstance(confidence, int | float):
        raise TypeError(f"confidence: {safe_text(confidence)} must be a number")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence: {confidence!r} must lie strictly between 0 and 1, for instance 0.9999")
    return float(confidence)
