"""Table 1, Figures 3 to 6, Theorem 4 and Proposition 1 of Boninsegna and Silvestri 2025.

Privacy is (ε, 10⁻⁸), with Lemma 3 for the conversion from ρ, and one trip for each person under `change_one`. The error
bars of the paper's figures are the least and the greatest value of five runs; ours are intervals of means.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tallytree.budget import Budget
from tallytree.counts import LeafGaussian, StabilityHistogram, TopDown
from tallytree.lab.compare import compare
from tallytree.lab.compare.error_bounds import theorem_4_bound, top_down_error_bound
from tallytree.lab.reproduce.boninsegna_as_run import half_budget, stability_histogram
from tallytree.lab.reproduce.boninsegna_data import (
    DELTA,
    FALSE_DISCOVERIES,
    LARGEST,
    QUANTITIES,
    SETS,
    Trips,
    commutes,
    synthetic,
)
from tallytree.lab.reproduce.experiment import Experiment, Found, Settings
from tallytree.lab.reproduce.figure import Plot
from tallytree.lab.reproduce.marks import EXACT
from tallytree.lab.reproduce.measured import AS_RUN, AS_STATED, MeasuredRows
from tallytree.lab.reproduce.measuring import measured

INFTDA, EUCLIDEAN, BLACK_BOX, SH, GAUSS = "InfTDA", "TDA, Euclidean", "TDA, black box", "SH", "VanillaGauss"
TOP_DOWN: Mapping[str, TopDown] = {INFTDA: TopDown(), EUCLIDEAN: TopDown(projection="euclidean")}
TIMED: Mapping[str, Any] = {**TOP_DOWN, SH: StabilityHistogram()}
TIME = "time (s)"
BETA = 0.05
LINF, L2 = TopDown(projection="cvxpy-linf"), TopDown(projection="cvxpy-l2")
BOXED = "as run, black box"
"""The variant of the Euclidean distance as the authors solve it."""
HALF = 'Rows "as run" have half of the budget, as the published runs had, and for SH noise of scale √2/ε.'
BLACK_BOXES = (
    "The black boxes solve one program for each family by CVXPY, and take minutes for a release of random_sparse. The "
    "full size runs them there, at ε = 1, with half of the budget; elsewhere their published figures stand alone."
)
REPOSITORY = (
    "results of the authors' repository, github.com/aidaLabDEI/TDA_hierarchical at 6f8d70b; the paper draws them and "
    "prints no number"
)


def table_1(settings: Settings) -> Found:
    """How many trips and pairs the synthetic data sets have."""
    found = []
    for name in SETS:
        flows = synthetic(name).flows
        found += [
            MeasuredRows(name, EXACT, "users", [flows.n_trips]),
            MeasuredRows(name, EXACT, "O/D pairs", [flows.n_pairs]),
        ]
    note = "The paper's 95,612 pairs of random_dense are a misprint of 94,612, half of 435²: the users agree."
    return Found(found, None, [note])


def figure_3(settings: Settings) -> Found:
    """Italy: errors, false discoveries and times, by level."""
    runs = settings.n_runs(small=5, full=5)
    name, data = commutes(settings)
    found = _both_readings(name, data.data, _epsilons(settings), runs, settings.seed, QUANTITIES)
    found += _times(name, data.data, _epsilons(settings), settings)
    plot = Plot(
        "level", "level of the destination tree (0 is the root)", panels=("quantity", "epsilon"), y_scale="symlog",
        columns=3, quantities=(LARGEST, FALSE_DISCOVERIES, TIME),
    )  # fmt: skip
    time = "The time is that of a whole release; its panel has it at the root."
    return Found(found, plot, [data.note, HALF, BLACK_BOXES, time])


def figure_4(settings: Settings) -> Found:
    """The largest error of each level of the synthetic data sets."""
    return _synthetic(settings, SETS if settings.full else ("binary_sparse", "random_sparse"), (LARGEST,))


def figure_5(settings: Settings) -> Found:
    """False discoveries and false negatives on the sparse data sets."""
    sparse = ("binary_sparse", "random_sparse")
    wanted = tuple(name for name in QUANTITIES if name.endswith("(%)"))
    names = sparse if settings.full else sparse[1:]
    found = _synthetic(settings, names, wanted)
    quantities = {name: QUANTITIES[name] for name in wanted}
    halved = {epsilon: half_budget(epsilon) for epsilon in _epsilons(settings)}
    descending = {"InfTDA, descending": TopDown(projection="chebyshev-descending")}
    runs = settings.n_runs(small=5, full=10)
    more: list[MeasuredRows] = []
    for name in names:
        more += _measured(name, synthetic(name), descending, halved, runs, settings.seed, quantities, AS_RUN)
    note = "InfTDA in descending order (section 4.2) has fewer false negatives, and more false discoveries."
    return dataclasses.replace(found, measured=[*found.measured, *more], notes=[*found.notes, note])


def figure_6(settings: Settings) -> Found:
    """The time of a release of each synthetic data set."""
    found = []
    for name in SETS if settings.full else ("random_sparse",):
        found += _times(name, synthetic(name), _epsilons(settings), settings)
    if settings.full:
        found += _times("random_sparse", synthetic("random_sparse"), (1.0,), settings, {BLACK_BOX: LINF})
        found += _times("random_sparse", synthetic("random_sparse"), (1.0,), settings, {EUCLIDEAN: L2}, BOXED)
    notes = ["Times are those of a whole release, tabulation excluded, on this machine.", BLACK_BOXES]
    return Found(found, Plot("data", "data set", TIME, panels=("epsilon",), columns=2), notes)


def theorem_4(settings: Settings) -> Found:
    """Theorem 4 and Proposition 1 beside the largest errors on the complete binary tree."""
    runs = settings.n_runs(small=5, full=20)
    name, epsilon = "binary_complete", 1.0
    trips = synthetic(name)
    budget = Budget(epsilon=epsilon, delta=DELTA)
    mechanisms = {INFTDA: TopDown(), GAUSS: LeafGaussian(), SH: StabilityHistogram()}
    compared = _measured(
        name, trips, mechanisms, {epsilon: budget}, runs, settings.seed, {LARGEST: QUANTITIES[LARGEST]}
    )
    depth = 2 * len(trips.flows.levels)
    rho = (math.sqrt(-math.log(DELTA) + epsilon) - math.sqrt(-math.log(DELTA))) ** 2
    tight = top_down_error_bound(trips.tree, budget, neighboring="change_one", beta=BETA, accounting="paper")
    published = trips.compared(name).release(
        mechanism=StabilityHistogram(), budget=budget, neighboring="change_one", accounting=None, seed=settings.seed
    )
    threshold = published.statement["levels"][-1]["threshold"]
    bounds = []
    for level in range(1, depth + 1):
        values = {
            "Theorem 4": theorem_4_bound(2, level, math.sqrt(depth / rho), BETA),
            "Proposition 1": leaf_gaussian_bound(2, depth, level, math.sqrt(1 / rho), BETA),
            "Proposition 1, SH": stability_bound(2, depth, level, epsilon, threshold, trips.flows.n_pairs, BETA),
            "bound of this tree": tight[trips.tree.levels[level]],
        }
        bounds += [
            MeasuredRows(name, label, LARGEST, [value], epsilon=epsilon, level=level) for label, value in values.items()
        ]
    notes = [
        f"The bounds hold with probability {1 - BETA:g} for each level. Theorem 4 bounds InfTDA. Proposition 1 bounds "
        "the sums of leaves that the Gaussian mechanism, or SH, measured. The bound of this tree has the proof of "
        "Theorem 4, with the laws of the discrete noise in place of tail bounds.",
        "At the root InfTDA publishes the total exactly.",
        "The measured errors are with the whole budget. The paper has no errors beside its bounds, and those of its "
        "figures had half of the budget, so none stand here.",
    ]
    return Found([*compared, *bounds], Plot("level", "level", LARGEST, panels=("epsilon",), columns=1), notes)


def leaf_gaussian_bound(branching: int, depth: int, level: int, sigma: float, beta: float) -> float:
    """Proposition 1, first part: a bound on the largest error of a level whose counts are sums of noisy leaves.

    An error at level l is a sum of b^(T−l) Gaussian variables of scale σ, so it is above t with probability at most
    2·exp(−t²/(2·b^(T−l)·σ²)); a union over the b^l nodes gives σ·√(2·b^(T−l)·ln(2·b^l/β)).

    Args:
        branching: b, the children of every node.
        depth: T, the depth of the leaves.
        level: l.
        sigma: of the noise of a leaf.
        beta: the probability that the bound fails.
    """
    below = float(branching) ** (depth - level)
    return sigma * math.sqrt(2 * below * (math.log(2 / beta) + level * math.log(branching)))


def stability_bound(
    branching: int, depth: int, level: int, epsilon: float, threshold: int, cells: int, beta: float
) -> float:
    """Proposition 1, second part, with its constants: a bound on the error of sums of a stability histogram's leaves.

    No noise of n leaves is above M = (2/ε)·ln(n/β) in magnitude, with probability 1 − β. A leaf that is published is
    off by its noise, one that is not has less than t + M records. So a node of level l is off by at most
    b^(T−l)·(t + M).

    Args:
        branching: b, the children of every node.
        depth: T, the depth of the leaves.
        level: l.
        epsilon: the noise has scale 2/ε, for a sensitivity of 2.
        threshold: t, the least noisy count that is published.
        cells: n, the leaves that have records.
        beta: the probability that the bound fails.
    """
    return float(branching) ** (depth - level) * (threshold + 2 / epsilon * math.log(cells / beta))


def _synthetic(settings: Settings, names: Sequence[str], wanted: Iterable[str]) -> Found:
    runs = settings.n_runs(small=5, full=10)
    quantities = {name: QUANTITIES[name] for name in wanted}
    found = []
    for name in names:
        trips = synthetic(name)
        found += _both_readings(name, trips, _epsilons(settings), runs, settings.seed, quantities)
    if settings.full:
        found += black_boxes(settings, quantities)
    panels = ("data", "epsilon", "quantity") if len(quantities) > 1 else ("data", "epsilon")
    title = "" if len(quantities) > 1 else next(iter(quantities))
    plot = Plot(
        "level", "level (0 is the root)", title, panels=panels, y_scale="log" if len(quantities) == 1 else "linear"
    )
    return Found(found, plot, ["The data sets are the paper's own.", HALF, BLACK_BOXES])


def black_boxes(settings: Settings, quantities: Mapping[str, Any]) -> list[MeasuredRows]:
    """The projections as the paper's authors solve them, on random_sparse at ε = 1 with half of the budget."""
    halved, runs = {1.0: half_budget(1.0)}, settings.n_runs(small=1, full=2)
    trips, found = synthetic("random_sparse"), []
    for label, mechanism, variant in ((BLACK_BOX, LINF, AS_RUN), (EUCLIDEAN, L2, BOXED)):
        about = ("random_sparse", trips, {label: mechanism}, halved, runs, settings.seed, quantities)
        found += [dataclasses.replace(one, variant=variant) for one in _measured(*about, AS_RUN)]
    return found


def _both_readings(
    name: str, trips: Trips, epsilons: Sequence[float], runs: int, seed: int, quantities: Mapping[str, Any]
) -> list[MeasuredRows]:
    """All mechanisms, as the paper states them and as its authors ran them."""
    stated = {epsilon: Budget(epsilon=epsilon, delta=DELTA) for epsilon in epsilons}
    mechanisms: dict[str, Any] = {**TOP_DOWN, SH: StabilityHistogram()}
    if trips.tree.size(2 * len(trips.flows.levels)) < 2**20:  # the paper, too, leaves VanillaGauss out for Italy
        mechanisms[GAUSS] = LeafGaussian()
    found = _measured(name, trips, mechanisms, stated, runs, seed, quantities)
    halved = {epsilon: half_budget(epsilon) for epsilon in epsilons}
    found += _measured(name, trips, TOP_DOWN, halved, runs, seed, quantities, AS_RUN)
    for epsilon in epsilons:
        found += [one for one in stability_histogram(name, trips, epsilon, runs, seed) if one.quantity in quantities]
    return found


def _measured(
    name: str,
    trips: Trips,
    mechanisms: Mapping[str, Any],
    budgets: Mapping[float, Budget],
    runs: int,
    seed: int,
    quantities: Mapping[str, Any],
    variant: str = AS_STATED,
) -> list[MeasuredRows]:
    found = []
    for label, mechanism in mechanisms.items():
        converted = None if variant == AS_RUN or label == SH else "paper"  # ρ needs no conversion, and SH has none
        found += measured(
            trips.compared(name), {label: mechanism}, budgets, quantities, neighboring="change_one", runs=runs,
            seed=seed, accounting=converted, variant=variant,
        )  # fmt: skip
    return found


def _times(
    name: str,
    trips: Trips,
    epsilons: Sequence[float],
    settings: Settings,
    mechanisms: Mapping[str, Any] = TIMED,
    variant: str = AS_STATED,
) -> list[MeasuredRows]:
    """The seconds of releases; the first, which tabulates, is left out. Black boxes have one run."""
    runs = 1 if mechanisms is not TIMED else settings.n_runs(small=5, full=5)
    found = []
    for epsilon in epsilons:
        rows = compare(
            trips.compared(name), mechanisms, Budget(epsilon=epsilon, delta=DELTA), neighboring="change_one",
            runs=runs + 1, seed=settings.seed, levels=["all"], metrics={"none": lambda level: 0.0},
        ).to_pylist()  # fmt: skip
        for label in mechanisms:
            seconds = [row["seconds"] for row in rows if row["mechanism"] == label and row["run"] > 0]
            found.append(MeasuredRows(name, label, TIME, seconds, variant, epsilon=epsilon, level=0))
    return found


def _epsilons(settings: Settings) -> tuple[float, ...]:
    return (0.1, 1.0, 10.0) if settings.full else (1.0,)


def ratios(found: Iterable[MeasuredRows], published: Mapping[Any, float]) -> list[float]:
    """Ours over what was published, where both are above 0."""
    pairs = ((np.mean(one.values), published.get(one.key)) for one in found)
    return [float(ours / theirs) for ours, theirs in pairs if theirs and ours > 0]


OWN = "generated, the paper's own"
SOLVERS = ("cvxpy", "clarabel", "highspy")
EXPERIMENTS = (
    Experiment("inftda-table1", "boninsegna", "users and pairs of the synthetic data sets", OWN, table_1, 1, 1,
               "Table 1 of the paper"),
    Experiment("inftda-figure3", "boninsegna", "Italy: errors, false discoveries, times", "Italy", figure_3, 8, 6,
               REPOSITORY),
    Experiment("inftda-figure4", "boninsegna", "largest errors by level", OWN, figure_4, 30, 3, REPOSITORY, SOLVERS),
    Experiment("inftda-figure5", "boninsegna", "false discoveries on sparse data", OWN, figure_5, 15, 1, REPOSITORY,
               SOLVERS),
    Experiment("inftda-figure6", "boninsegna", "times of a release", OWN, figure_6, 15, 3, REPOSITORY, SOLVERS),
    Experiment("inftda-theorem4", "boninsegna", "Theorem 4 and Proposition 1 beside measured errors",
               OWN, theorem_4, 2, 2),
)  # fmt: skip
