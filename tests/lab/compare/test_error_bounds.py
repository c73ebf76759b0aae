"""The bounds on TopDown's error: by hand, against enumeration, against draws, and above what TopDown errs."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tallytree as tt
from helpers.inside import CountsArguments, KeyedNoise, Measurer, TrueCounts, plan_counts
from tallytree.evaluate.metrics import max_absolute_error
from tallytree.lab.compare import error_bounds as bounds
from tallytree.lab.compare.error_bounds import plan_error_bound, theorem_4_bound, top_down_error_bound
from tallytree.mechanisms import Noise
from tallytree.noise import discrete_gaussian, discrete_laplace
from tallytree.solvers.trees import simplex

AREAS = tt.Hierarchy.from_table(
    pa.table(
        {"a": [str(i // 12) for i in range(48)], "b": [str(i // 3) for i in range(48)], "c": [*map(str, range(48))]}
    ),
    ["a", "b", "c"],
)
BUDGETS = [tt.Budget(epsilon=1), tt.Budget(rho=0.1), tt.Budget(epsilon=1, delta=1e-8)]


def planned(tree, budget, neighboring, split=None):
    options = {"neighboring": neighboring, "budget_split": split, "mechanism": tt.counts.TopDown()}
    return plan_counts(CountsArguments(pa.table({"a": []}), tree, budget, **options)).plan


def test_theorem_4_by_hand():
    # l = 2, b = 3, σ = 5, β = 0.1: 2·2·5·√(2·ln(2·2·27/0.1)) = 20·√(2·ln 1080) = 20·√13.9694.
    assert theorem_4_bound(3, 2, 5, 0.1) == pytest.approx(74.751, abs=1e-3)
    assert theorem_4_bound(3, 0, 5, 0.1) == 0
    assert theorem_4_bound(1, 1, 1, 0.5) == pytest.approx(2 * math.sqrt(2 * math.log(4)))


def test_one_level_of_one_family_by_hand():
    # ε = ln 3 on sensitivity 2 gives q = exp(−ε/2) = 1/√3: P(|Z| ≥ t) = 2·3^(−t/2)/(1 + 1/√3) = 1.2679·3^(−t/2).
    # Two children: P(M ≥ t) = 1 − (1 − that)². At t = 8: 0.0311, at t = 7: 0.0535; so M ≤ 7 but for 5 %, and S = 2·7.
    pair = tt.Hierarchy.from_table(pa.table({"c": ["x", "y"]}), ["c"])
    budget = tt.Budget(epsilon=Fraction(math.log(3)))
    assert top_down_error_bound(pair, budget, neighboring="change_one", beta=0.05) == {"all": 0, "c": 14}
    assert top_down_error_bound(pair, budget, neighboring="change_one", beta=0.0534) == {"all": 0, "c": 14}
    assert top_down_error_bound(pair, budget, neighboring="change_one", beta=0.0536) == {"all": 0, "c": 12}


def exact_bound(law, sizes, root, beta):
    """By convolving the exact laws of the largest noises, as dictionaries; `law` is P(|Z| = t) by t."""
    spread = {0: 1.0}
    found = []
    for n, times in [(1, 1)] * root + [(n, 2) for n in sizes]:
        below = list(itertools.accumulate(law))
        largest = [c**n - (below[t - 1] ** n if t else 0) for t, c in enumerate(below)]
        new = {}
        for (s, p), (t, q) in itertools.product(spread.items(), enumerate(largest)):
            new[s + times * t] = new.get(s + times * t, 0) + p * q
        spread = new
        total = 0.0
        for s in sorted(spread):
            total += spread[s]
            if total >= 1 - beta:
                break
        found.append(s)
    return found


@settings(max_examples=25)
@given(st.sampled_from(["rho", "epsilon"]), st.floats(0.2, 3), st.sampled_from([0.01, 0.05, 0.3]), st.booleans())
def test_the_bound_is_the_quantile_of_the_convolved_laws(kind, amount, beta, private_root):
    tree = tt.Hierarchy.from_table(pa.table({"a": ["1", "1", "2"], "b": ["x", "y", "z"]}), ["a", "b"])
    neighboring = "add_remove" if private_root else "change_one"
    plan = planned(tree, tt.Budget(**{kind: amount}), neighboring)
    scales = {float(level.noise.scale) for level in plan.levels.values()}
    if len(scales) > 1:
        return  # under add_remove all sensitivities are 1, under change_one only two levels are measured
    scale = scales.pop()
    weight = [
        math.exp(-t / scale if kind == "epsilon" else -t * t / (2 * scale**2)) for t in range(int(60 * scale) + 9)
    ]
    norm = 2 * sum(weight) - 1
    law = [(2 if t else 1) * w / norm for t, w in enumerate(weight)]
    found = list(plan_error_bound(tree, plan, beta=beta).values())
    assert found == ([] if private_root else [0]) + exact_bound(law, [2, 3], private_root, beta)


@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
@pytest.mark.parametrize("neighboring", ["add_remove", "change_one"])
def test_the_sum_of_the_largest_noises_exceeds_the_bound_as_often_as_beta_says(budget, neighboring):
    """20,000 draws: a bound at the 0.94 or the 0.96 quantile in the place of 0.95 is 6 standard errors off."""
    plan, runs, beta = planned(AREAS, budget, neighboring), 20_000, 0.05
    found = plan_error_bound(AREAS, plan, beta=beta)
    draw = {"discrete_laplace": discrete_laplace, "discrete_gaussian": discrete_gaussian}
    total = np.zeros(runs, dtype=np.int64)
    error = math.sqrt(beta * (1 - beta) / runs)
    for depth, level in enumerate(AREAS.levels):
        if level in plan.levels:
            noise = plan.levels[level].noise
            n = AREAS.size(depth)
            drawn = draw[noise.distribution](noise.scale, runs * n, bytes([depth + 1] * 32)).reshape(runs, n)
            total += (2 if depth else 1) * np.abs(drawn).max(axis=1)
            assert (total > found[level]).mean() <= beta + 4 * error
            assert (total > found[level] - 2).mean() >= beta - 4 * error


@pytest.mark.slow
@pytest.mark.parametrize("budget", BUDGETS[:2], ids=repr)
@pytest.mark.parametrize("neighboring", ["add_remove", "change_one"])
@pytest.mark.parametrize("beta", [0.05, 0.5])
def test_no_more_runs_than_beta_err_above_the_bound(budget, neighboring, beta):
    """300 runs with fixed keys on counts of 0 to 30, where cutting at 0 matters."""
    plan = planned(AREAS, budget, neighboring)
    counts = np.random.default_rng(3).integers(0, 31, 48) * (np.arange(48) % 3 == 0)
    leaves = np.flatnonzero(counts).astype(np.int64)
    true = TrueCounts(AREAS, leaves, counts[leaves])
    truth = [counts]
    for depth in range(3, 0, -1):
        truth.insert(0, np.add.reduceat(truth[0], AREAS.first_child[depth - 1][:-1]))
    limits = plan_error_bound(AREAS, plan, beta=beta)
    total = int(counts.sum()) if neighboring == "change_one" else None
    failures = np.zeros(4)
    for run in range(300):
        measurer = Measurer(true, plan, KeyedNoise(run.to_bytes(32, "big")))
        released = tt.counts.TopDown().reconcile(AREAS, total, measurer)
        errors = [np.abs(level.counts - here).max() for level, here in zip(released, truth, strict=True)]
        failures += np.array(errors) > list(limits.values())
    assert (failures <= 300 * beta).all()


def test_a_family_can_err_by_twice_its_noise_so_the_bound_cannot_be_halved():
    # True (10, 0, 0, 0), noise (−5, 5, 5, 5), measured (5, 5, 5, 5): what is 2 or 3 below has the sum 10.
    released = simplex.chebyshev([5, 5, 5, 5], 10)
    assert np.abs(released - [10, 0, 0, 0]).max() == 8 > 5


def test_it_is_tighter_than_theorem_4_and_grows_down_the_tree_with_less_budget_and_smaller_beta():
    plan = planned(AREAS, tt.Budget(rho=0.1), "change_one")
    sigma = float(plan.levels["c"].noise.scale)
    found = plan_error_bound(AREAS, plan)
    assert list(found.values()) == sorted(found.values())
    for depth, level in enumerate(AREAS.levels):
        assert found[level] <= theorem_4_bound(4, depth, sigma)
    assert found["c"] > 0.5 * theorem_4_bound(4, 3, sigma)
    less = top_down_error_bound(AREAS, tt.Budget(rho=0.05), neighboring="change_one")
    surer = plan_error_bound(AREAS, plan, beta=0.001)
    private = top_down_error_bound(AREAS, tt.Budget(rho=0.1), neighboring="change_one", on_unknown="drop")
    assert private["all"] > 0
    for level in ("a", "b", "c"):
        assert less[level] > found[level]
        assert surer[level] > found[level]


@pytest.mark.parametrize("distribution", ["discrete_laplace", "discrete_gaussian"])
def test_with_large_noise_the_grid_and_the_normal_tail_cost_little(distribution, monkeypatch):
    """What is rounded away is below 1 % and never makes the bound smaller."""
    at = {}
    for scale in (9_000, 9_000_000):
        largest = bounds._Largest(Noise(distribution, Fraction(scale)), 1_000, 2)
        step = max(1, largest.reach(1e-12) // 4_096)
        masses, beyond = largest.masses(step, 1e-12)
        assert masses.sum() + beyond == pytest.approx(1, abs=1e-12)
        at[scale] = step * int(np.argmax(np.cumsum(masses) > 0.95)) / scale
    assert at[9_000_000] == pytest.approx(at[9_000], rel=0.01)
    point = np.array([30_000.0])
    summed = bounds._tails(Noise(distribution, Fraction(9_000)), point)
    monkeypatch.setattr(bounds, "MAX_SUMMED_SIGMA", 1)
    assert summed <= bounds._tails(Noise(distribution, Fraction(9_000)), point) < 1.01 * summed


def test_levels_without_measurements_have_the_bound_of_the_level_above():
    table = pa.table({"country": ["N"] * 2, "c": ["x", "y"], "only": ["o", "o"]})
    tree = tt.Hierarchy.from_table(table, ["country", "c", "only"])
    found = top_down_error_bound(tree, tt.Budget(epsilon=1), neighboring="bounded")
    assert found["country"] == 0 < found["c"] == found["only"]


def test_a_product_of_ten_to_the_eleven_cells_takes_no_time():
    sections = tt.Hierarchy.from_table(pa.table({"s": [str(i) for i in range(300_000)]}), ["s"])
    product = tt.Product({"o": sections, "d": sections}, order=["d", "o"])
    found = top_down_error_bound(product, tt.Budget(rho=0.1), neighboring="change_one")
    assert 0 < found["d_s"] < found["o_s"] < 200


@pytest.mark.slow
@pytest.mark.shared_data
@pytest.mark.parametrize("name", ["random_sparse", "binary_sparse"])
def test_on_the_papers_data_every_level_errs_less_than_the_bound(shared_data, name):
    trips = pq.read_table(shared_data / f"od_{name}.parquet")
    names = [column.removeprefix("origin_") for column in trips.column_names if column.startswith("origin_")]
    areas = tt.Hierarchy.from_table(shared_data / f"od_{name.split('_')[0]}_areas.parquet", names)
    sides = {side: [f"{side}_{level}" for level in names] for side in ("origin", "destination")}
    budget = tt.Budget(epsilon=1, delta=1e-8)
    order = ["destination", "origin"] * len(names)
    product = tt.Product({"origin": areas, "destination": areas}, order=order, columns=sides)
    limits = top_down_error_bound(product, budget, neighboring="change_one", accounting="zcdp")
    release = tt.release_flows(
        trips, origins=areas, destinations=areas, **sides, count="count", budget=budget, neighboring="change_one",
        accounting="zcdp", mechanism=tt.counts.TopDown(), seed=1,
    )  # fmt: skip
    for level in release.levels:
        assert max_absolute_error(release.table(level), trips) <= limits[level]


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: theorem_4_bound(0, 1, 1), ValueError, "branching: 0 must be at least 1"),
        (lambda: theorem_4_bound(2, -1, 1), ValueError, "level: -1 must be at least 0"),
        (lambda: theorem_4_bound(2, 1.5, 1), TypeError, "level: 1.5 must be an integer"),
        (lambda: theorem_4_bound(2, 1, 0), ValueError, "sigma: 0 must be positive and finite"),
        (lambda: theorem_4_bound(2, 1, "1"), TypeError, "sigma: str must be a number"),
        (lambda: theorem_4_bound(2, 1, 1, 1), ValueError, "beta: 1 must lie strictly between 0 and 1"),
        (
            lambda: top_down_error_bound("tree", tt.Budget(rho=1), neighboring="change_one"),
            TypeError,
            r"tree: str must be a tallytree\.Hierarchy or a tallytree\.Product",
        ),
        (
            lambda: top_down_error_bound(AREAS, tt.Budget(rho=1), neighboring="nobody"),
            ValueError,
            "neighboring: 'nobody' is not known",
        ),
        (
            lambda: top_down_error_bound(AREAS, 1.0, neighboring="change_one"),
            TypeError,
            r"budget: 1.0 must be a tallytree\.Budget",
        ),
        (
            lambda: plan_error_bound(
                tt.Hierarchy.from_table(pa.table({"x": ["1", "2"]}), ["x"]),
                planned(AREAS, tt.Budget(rho=1), "change_one"),
            ),
            ValueError,
            "plan: the tree has no level 'a'; its levels are all, x",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(call, error, says):
    with pytest.raises(error, match=says):
        call()


@pytest.mark.slow
@pytest.mark.parametrize("distinct", [False, True])
def test_where_people_are_named_the_root_has_an_error_too_and_no_bound_is_exceeded_too_often(distinct):
    """40 releases: the total is measured, and what is bounded is the error of the records that count."""
    tree = tt.Hierarchy.from_table(pa.table({"a": ["1", "1", "2"], "b": ["x", "y", "z"]}), ["a", "b"])
    people = np.repeat(np.arange(40), 2)  # two records of each, in two leaves, so that all of them count
    records = pa.table({"a": ["1", "2"] * 40, "b": ["x", "z"] * 40, "who": people})
    asked = {"neighboring": "change_one", "max_contributions": 2, "person": "who", "distinct": distinct}
    budget, runs, beta = tt.Budget(epsilon=1), 40, 0.1
    bounds = top_down_error_bound(tree, budget, beta=beta, **asked)
    assert bounds["all"] > 0
    assert bounds == plan_error_bound(
        tree,
        plan_counts(CountsArguments(records, tree, budget, mechanism=tt.counts.TopDown(), **asked)).plan,
        beta=beta,
    )
    exceeded = dict.fromkeys(tree.levels, 0)
    truth = {"all": [80], "a": [40, 40], "b": [40, 0, 40]}
    for seed in range(runs):
        release = tt.release_counts(records, tree, budget, mechanism=tt.counts.TopDown(), seed=seed, **asked)
        for level, numbers in truth.items():
            found = release.table(level)["count"].to_numpy()
            exceeded[level] += int(np.abs(found - np.array(numbers)).max()) > bounds[level]
    # At the root the bound is the quantile itself: 4 of 40 are expected, and more than 13 with a probability of 3e-5.
    assert max(exceeded.values()) <= 13
