"""What a prior expects of tables, and when it is believed; against sums by hand and simulated tables."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallytree.solvers.laws import (
    ALONE,
    GRID,
    NEAR,
    REVISED,
    WITH_PRIOR,
    evidence,
    guarded,
    law,
    learned_laws,
)
from tallytree.solvers.posteriors import posteriors
from tallytree.solvers.tables import decided
from tallytree.solvers.tables.fit import fit
from tallytree.solvers.tables.linear import NoisyTable
from tallytree.solvers.tables.marginals import Detail, Lattice
from tallytree.solvers.tables.prior import PriorOfTables, expected_by_prior, prior_rows, with_prior

RNG = np.random.default_rng
TOTAL, BOTH = (0, 0), (1, 1)


def lattices_of(detail, levels):
    return [Lattice.below(detail, [BOTH]) for _ in range(levels)]


# --- Which cells it has ---


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_coarser_tables_and_areas_are_sums_of_what_is_given(seed, some_missing):
    rng = RNG(seed)
    detail, family = Detail.flat((2, 3)), np.array([0, 2, 5], dtype=np.int64)
    families = [np.array([0, 2], dtype=np.int64), family]
    cells = rng.integers(0, 9, (5, 6)).astype(float)
    if some_missing:
        cells[3] = np.nan
    given = PriorOfTables({(2, BOTH): cells})
    root, middle, leaves = (each for each, _ in prior_rows(lattices_of(detail, 3), families, given))
    by_hand = cells.reshape(5, 2, 3)
    rows = [by_hand.sum(axis=(1, 2))[:, None], by_hand.sum(axis=1), by_hand.sum(axis=2), cells]
    np.testing.assert_array_equal(leaves, np.hstack(rows))
    np.testing.assert_array_equal(middle, np.add.reduceat(leaves, family[:-1], axis=0))
    assert (root is None) == some_missing  # a sum of which a part is missing is not known
    if not some_missing:
        np.testing.assert_array_equal(root, leaves.sum(axis=0, keepdims=True))


def test_what_is_given_of_a_level_goes_before_sums_of_finer_areas():
    detail, families = Detail.flat((2, 3)), [np.array([0, 2], dtype=np.int64)]
    given = {(1, BOTH): np.ones((2, 6)), (0, (1, 0)): np.array([[5.0, 7.0]])}
    (root, _), _ = prior_rows(lattices_of(detail, 2), families, PriorOfTables(given))
    np.testing.assert_array_equal(root, [[12, 4, 4, 4, 5, 7, 2, 2, 2, 2, 2, 2]])


def test_no_prior_is_no_rows():
    detail, families = Detail.flat((2,)), [np.array([0, 2], dtype=np.int64)]
    found = prior_rows([Lattice.below(detail, [(1,)])] * 2, families, PriorOfTables({}))
    assert [each for each, _ in found] == [None, None]


def test_sums_have_the_errors_of_sums_but_where_an_error_is_given():
    """Tables of 2 × 3 cells: totals, those by each attribute, and all cells; 5 areas in 2, which are in 1."""
    detail, families = Detail.flat((2, 3)), [np.array([0, 2]), np.array([0, 2, 5])]
    tables = {(2, BOTH): np.ones((5, 6)), (0, (1, 0)): np.ones((1, 2))}
    prior = PriorOfTables(tables, {(2, BOTH): 2.0, (0, (1, 0)): 7.0, (0, TOTAL): 3.0})
    root, middle, leaves = (errors for _, errors in prior_rows(lattices_of(detail, 3), families, prior))
    assert Lattice.below(detail, [BOTH]).known == (TOTAL, (0, 1), (1, 0), BOTH)
    by_hand = 2 * np.sqrt([6, 2, 3, 1])
    np.testing.assert_allclose(leaves, by_hand)
    np.testing.assert_allclose(middle, by_hand * np.sqrt(5 / 2))
    np.testing.assert_allclose(root, [3, 2 * np.sqrt(2 * 5), 7, 2 * np.sqrt(5)])
    unknown = [errors for _, errors in prior_rows(lattices_of(detail, 3), families, PriorOfTables(tables))]
    assert np.isnan(unknown).all()


@pytest.mark.parametrize("error", [0.0, 5.0, np.nan])
def test_no_law_is_nearer_to_a_prior_than_its_error_and_one_that_is_not_known_is_that_of_the_estimates(error):
    true, _ = areas_with_patterns(3)
    y = true + RNG(3).normal(0, 10, true.shape)
    flat, prior, deviations = np.full(true.shape, true.mean()), true.astype(float), np.full(len(true), 10.0)
    laws, _ = with_prior(y, flat, prior, deviations, None, error=error)
    least = 1.0 if np.isnan(error) else error / 10
    np.testing.assert_allclose(laws.parts.near[len(GRID) :], np.hypot(NEAR, least))


def test_the_errors_of_a_prior_are_scaled_with_its_numbers(monkeypatch):
    """A sample of a fiftieth: what a number errs by is as much of it."""
    taken = []
    monkeypatch.setattr(
        decided, "with_prior", lambda *given, **of: taken.append(of["error"]) or with_prior(*given, **of)
    )
    true, before = areas_with_patterns(3)
    fitted(true, 10.0, 3, prior=PriorOfTables({(1, BOTH): before / 50.0}, {(1, BOTH): 2.0}))
    assert taken[-1] == pytest.approx(100, rel=0.05)


# --- What it expects ---


def by_prior(prior, expected, tables, parents):
    """`expected_by_prior` of the finest table of 2 × 3 cells, for one family of areas."""
    lattice = Lattice.below(Detail.flat((2, 3)), [BOTH])
    found = np.full(prior.shape, np.nan)
    families, base = np.array([0, len(prior)], dtype=np.int64), np.ones(len(prior))
    expected_by_prior(lattice.rows, 3, families, base, tables, parents, prior, expected, found)
    return found


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_cells_are_scaled_to_the_coarser_tables_and_keep_the_ratios_of_the_prior(seed):
    rng = RNG(seed)
    prior, true = rng.uniform(1, 9, (4, 6)), rng.uniform(1, 9, (4, 2, 3))
    tables = np.hstack([true.sum(axis=(1, 2))[:, None], true.sum(axis=1), true.sum(axis=2), np.zeros((4, 6))])
    found = by_prior(prior, np.ones((4, 6)), tables, true.reshape(4, 6).sum(axis=0)[None]).reshape(4, 2, 3)
    np.testing.assert_allclose(found.sum(axis=1), true.sum(axis=1), rtol=0.02)
    np.testing.assert_allclose(found.sum(axis=2), true.sum(axis=2), rtol=0.02)
    odds = found[:, 0, :2] / found[:, 1, :2]  # odds ratios of an area are those of the prior, scaled to the parent
    scale = (true.sum(axis=0) / prior.reshape(4, 2, 3).sum(axis=0))[:, :2]
    wanted = (prior.reshape(4, 2, 3)[:, :, :2] * scale)[:, 0] / (prior.reshape(4, 2, 3)[:, :, :2] * scale)[:, 1]
    np.testing.assert_allclose(odds[:, 0] / odds[:, 1], wanted[:, 0] / wanted[:, 1], rtol=1e-6)


def test_areas_that_the_prior_lacks_and_impossible_cells_keep_what_is_expected_without_it():
    prior, expected = np.full((3, 6), 2.0), np.full((3, 6), 5.0)
    prior[1], expected[:, 0] = np.nan, 0.0
    tables = np.tile([25.0, 5, 10, 10, 10, 15, 0, 0, 0, 0, 0, 0], (3, 1))  # the sums of what is expected
    found = by_prior(prior, expected, tables, np.full((1, 6), 15.0))
    assert (found[:, 0] == 0).all()
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-6)


# --- Laws with parts about M ---


def test_the_evidence_is_the_likelihood_of_the_mixture():
    rng = RNG(1)
    y, expected, s = rng.normal(20, 9, (60, 2)), rng.uniform(1, 40, (60, 2)), rng.uniform(2, 6, 60)
    laws = learned_laws(y, expected, s, WITH_PRIOR)
    found, last = 0.0, len(WITH_PRIOR.ratio)
    for c in range(60):
        for g in range(2):
            m = WITH_PRIOR.ratio * expected[c, g]
            own = WITH_PRIOR.own * m + (WITH_PRIOR.width * m) ** 2 + (WITH_PRIOR.near * s[c]) ** 2
            like = np.exp(-0.5 * (y[c, g] - m) ** 2 / (s[c] ** 2 + own)) / np.sqrt(s[c] ** 2 + own)
            weights = laws.weights[laws.stratum[int(np.floor(np.log2(expected[c, g]))) + 8]]
            outlier = alone_likelihood(y[c, g], expected[c, g], s[c])
            found += np.log(like @ weights[:last] + outlier * weights[last])
    assert evidence(y, expected, s, laws.stratum, laws.weights, WITH_PRIOR, 1) == pytest.approx(found, rel=1e-9)


def alone_likelihood(y, expected, s):
    """The density of an outlier, found by a law that has no other part."""
    weights = np.zeros((1, len(ALONE.begin)))
    weights[0, -1] = 1.0
    strata = np.zeros(39, dtype=np.int64)
    one = np.array([[y]]), np.array([[expected]]), np.array([s])
    return np.exp(evidence(*one, strata, weights, ALONE, 1))


def test_a_step_looks_at_every_so_manieth_cell():
    y, m, s = np.arange(12.0).reshape(6, 2), np.ones((6, 2)), np.ones(6)
    weights, strata = ALONE.begin[None], np.zeros(39, dtype=np.int64)
    some = [
        evidence(y[c : c + 1, g : g + 1], m[:1, :1], s[:1], strata, weights, ALONE, 1)
        for c, g in ((0, 0), (2, 1), (5, 0))
    ]
    assert evidence(y, m, s, strata, weights, ALONE, 5) == pytest.approx(sum(some))


@pytest.mark.parametrize("changed", [0.1, 1.0])
def test_the_law_finds_how_far_cells_lie_from_m(changed):
    """True cells lie 0.1 s, or s, from M = 1,000 s, which is less than the steps of the grid of ratios."""
    rng = RNG(5)
    m = np.full((2_000, 1), 1e4)
    x = m + changed * 10 * rng.standard_normal(m.shape)
    y, s = x + 10 * rng.standard_normal(m.shape), np.full(2_000, 10.0)
    laws = learned_laws(y, m, s, WITH_PRIOR)
    mean, variance, held = (np.empty(m.shape) for _ in range(3))
    posteriors(y, m, s, laws.stratum, laws.weights, laws.guarded, laws.parts, mean, variance, held)
    best = 10 * changed / np.sqrt(1 + changed**2)  # the error of the best estimate, which knows the law
    assert np.sqrt(np.mean((mean - held - x) ** 2)) <= best + 1
    assert np.sqrt(variance.mean() * laws.part) == pytest.approx(max(best, 2.0), rel=0.6)


def test_no_size_near_m_errs_by_much_more_than_alone():
    s, m = 10.0, 1e4
    weights = np.zeros(len(WITH_PRIOR.begin))
    weights[len(ALONE.ratio)] = 1.0  # all are within 0.1 s of M
    careful = guarded(weights, m, s, WITH_PRIOR)
    rng = RNG(3)
    for off in (1.0, 2.0, 3.0, 4.0, -3.0, 8.0):
        y = m + off * s + s * rng.standard_normal((4_000, 1))
        mean, variance, held = (np.empty(y.shape) for _ in range(3))
        strata = np.zeros(39, dtype=np.int64)
        posteriors(
            y,
            np.full(y.shape, m),
            np.full(4_000, s),
            strata,
            careful[None],
            careful[None],
            WITH_PRIOR,
            mean,
            variance,
            held,
        )
        assert np.sqrt(np.mean((mean - m - off * s) ** 2)) <= 2.4 * s  # never moved by more than 2 s
        if abs(off) >= 8:
            assert np.sqrt(np.mean((mean - m - off * s) ** 2)) <= 1.1 * s


def test_a_law_of_a_revision_begins_near_m():
    y, m, s = np.array([103.0]), np.array([100.0]), np.array([10.0])
    near = slice(len(ALONE.ratio), len(ALONE.ratio) + 5)
    assert law(y, m, s, REVISED, 100)[near].sum() > law(y, m, s, WITH_PRIOR, 100)[near].sum() > 0.2


# --- Fits ---


def fitted(true, sigma, seed, **options):
    """Tables of areas with 12 cells, from noisy totals and cells."""
    detail, areas = Detail.flat((3, 4)), len(true)
    families = [np.array([0, areas], dtype=np.int64)]
    noise = RNG(seed).normal(0, sigma, (2, *true.shape)).round().astype(np.int64)
    total = true.sum(axis=1, keepdims=True) + noise[0, :, :1]
    measured = [[], [NoisyTable(TOTAL, total, sigma**2), NoisyTable(BOTH, true + noise[1], sigma**2)]]
    return fit(detail, families, measured, wanted=[[], [BOTH]], **options)


def exact(cells):
    """A prior without errors."""
    return PriorOfTables({(1, BOTH): cells.astype(float)}, {(1, BOTH): 0.0})


def error(made, true):
    return np.sqrt(np.mean((made.leaves - true) ** 2))


def areas_with_patterns(seed, areas=300):
    """Areas that are unlike each other: what the area above has tells little of them."""
    rng = RNG(seed)
    pattern = rng.dirichlet(np.full(12, 0.4), areas)
    return rng.poisson(200 * pattern), rng.poisson(200 * pattern)


def test_a_prior_that_resembles_the_truth_lowers_errors_and_states_it():
    """Mean of 8 runs; without the prior the root mean square error is about 6."""
    alone, known, stated = [], [], []
    for seed in range(8):
        true, before = areas_with_patterns(seed)
        without = fitted(true, 10.0, seed)
        made = fitted(true, 10.0, seed, prior=exact(before))
        alone.append(error(without, true))
        known.append(error(made, true))
        stated.append(np.sqrt(np.mean(made.typical_errors[1, BOTH] ** 2)))
        np.testing.assert_array_equal(
            made.estimates[1, BOTH], without.estimates[1, BOTH]
        )  # unbiased ones do not know it
    assert np.mean(known) <= 0.8 * np.mean(alone)
    assert 0.85 <= np.mean(stated) / np.mean(known) <= 1.2


@pytest.mark.parametrize("sigma", [3.0, 30.0])
def test_a_prior_whose_cells_are_shuffled_costs_next_to_nothing(sigma):
    alone, shuffled = [], []
    for seed in range(6):
        true, before = areas_with_patterns(seed)
        wrong = RNG(seed).permutation(before.ravel()).reshape(before.shape).astype(float)
        alone.append(error(fitted(true, sigma, seed), true))
        shuffled.append(error(fitted(true, sigma, seed, prior=exact(wrong)), true))
    assert np.mean(shuffled) <= 1.02 * np.mean(alone)


def test_a_prior_is_believed_where_the_noisy_numbers_say_so():
    true, before = areas_with_patterns(3)
    y = true + RNG(3).normal(0, 5, true.shape)
    expected = np.tile(true.mean(axis=0), (len(true), 1))
    deviations = np.full(len(true), 5.0)
    laws = learned_laws(y, expected, deviations)
    believed, m = with_prior(y, expected, before.astype(float), deviations, laws)
    assert believed is not laws
    assert np.corrcoef(m.ravel(), before.ravel())[0, 1] > 0.9
    wrong = RNG(3).permutation(before.ravel()).reshape(before.shape).astype(float)
    kept, m = with_prior(y, expected, wrong, deviations, laws)
    assert kept is laws
    assert m is expected


def test_a_prior_of_zeros_or_of_a_few_areas_is_no_error():
    true, before = areas_with_patterns(1)
    some = np.full(before.shape, np.nan)
    some[:3] = before[:3]
    for prior in (np.zeros(before.shape), some, np.full(before.shape, np.nan)):
        made = fitted(true, 10.0, 1, prior=exact(prior))
        assert made.leaves.min() >= 0
        assert error(made, true) <= 1.05 * error(fitted(true, 10.0, 1), true)


def test_a_prior_has_no_part_without_pooling():
    true, before = areas_with_patterns(1)
    with_it = fitted(true, 10.0, 1, prior=exact(before), pooled=False)
    np.testing.assert_array_equal(with_it.leaves, fitted(true, 10.0, 1, pooled=False).leaves)


def test_a_revision_stays_near_what_it_revises_and_shows_what_changed():
    """The noise is ten times that of the first release; one area really changed by far more than it."""
    true = RNG(4).poisson(300, (40, 12))
    first = fitted(true, 3.0, 1).leaves
    now = true.copy()
    now[7] += 400
    made = fitted(
        now, 30.0, 2, prior=PriorOfTables({(1, BOTH): first.astype(float)}, {(1, BOTH): 3.0}, revised=True)
    ).leaves
    alone = fitted(now, 30.0, 2).leaves
    others = np.arange(40) != 7
    assert np.sqrt(np.mean((made - first)[others] ** 2)) <= 0.5 * np.sqrt(np.mean((alone - first)[others] ** 2))
    assert abs((made - now)[7].mean()) <= 40


def test_at_the_root_a_cell_that_a_prior_of_other_units_does_not_know_is_expected_as_without_it():
    true = RNG(5).poisson(300, (1, 60))
    noisy = true + RNG(6).normal(0, 60, true.shape).round().astype(np.int64)
    measured = [[NoisyTable((0,), true.sum(keepdims=True), 1.0), NoisyTable((1,), noisy, 3_600.0)]]
    made = []
    for units in (1.0, 1_000.0):
        cells = true * units
        cells[0, 7] = np.nan
        prior = PriorOfTables({(0, (1,)): cells}, {(0, (1,)): 0.0}, revised=True)
        made.append(fit(Detail.flat((60,)), [], measured, wanted=[[(1,)]], prior=prior).leaves)
    np.testing.assert_array_equal(*made)
    assert np.sqrt(np.mean((made[0] - true) ** 2)) <= 30  # of 60
