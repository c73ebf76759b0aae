"""The isotonic regression of a row that comes in pieces is that of the whole row."""

from fractions import Fraction
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.cases import few
from tallytree.solvers.sizes import isotonic, isotonic_runs
from tallytree.solvers.sizes.isotonic import RunStream

examples = settings(max_examples=300)

cells = st.lists(
    st.one_of(st.integers(-4, 4), st.integers(-(10**6), 10**6), st.integers(-(2**61) + 1, 2**61 - 1)), max_size=40
)
cuts = st.lists(st.integers(0, 40), max_size=5).map(sorted)


def streamed(row, places, **options):
    stream = RunStream(**options)
    for piece in np.split(np.array(row, dtype=np.int64), places):
        stream.push(piece)
    return stream.finish()


def as_lists(runs):
    return [column.tolist() for column in runs]


@pytest.mark.slow
@pytest.mark.parametrize("capacity", [1, 4_096])
@examples
@given(cells, cuts, st.sampled_from([1, 2]), st.sampled_from([(None, None), (-2, 3), (0, None), (5, 5)]))
def test_pieces_are_fitted_as_the_whole_row(capacity, row, places, norm, bounds):
    lower, upper = bounds
    whole = isotonic.fit_row_runs(row, [0, len(row)], norm=norm, lower=lower, upper=upper)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(isotonic_runs, "FIRST_CAPACITY", capacity)  # 1: arrays grow, heaps are joined
        found = streamed(row, places, norm=norm, lower=lower, upper=upper)
    assert as_lists(found) == as_lists(whole)


@examples
@given(cells.filter(bool), cuts)
def test_means_of_any_size_are_exact(row, places):
    """Against the max-min formula in fractions: sums here are far beyond 64 bits."""
    sums = np.cumsum([0, *row], dtype=object)
    n = len(row)
    exact = [
        max(min(Fraction(sums[k] - sums[j], k - j) for k in range(i + 1, n + 1)) for j in range(i + 1))
        for i in range(n)
    ]
    blocks = [(value, len(list(block))) for value, block in groupby(exact)]
    runs = streamed(row, places, norm=2)
    assert runs.length.tolist() == [length for _, length in blocks]
    assert runs.value.tolist() == [(2 * value + 1) // 2 for value, _ in blocks]


@pytest.mark.parametrize("lengths", [(2**40, 3), (2**33, 2**35 + 1), (2**31, 2**59), (5, 7)])
def test_blocks_of_any_length_merge_exactly(lengths):
    """Two blocks as billions of cells would leave them; the next cell, far below, merges all three."""
    state = isotonic_runs.empty_state(4)
    blocks, used = state[0], state[3]
    means = [(10**12 + 7, lengths[0] - 1), (2**60 + 12_345, lengths[1] // 2)]
    for b, ((whole, rest), length) in enumerate(zip(means, lengths, strict=True)):
        blocks[:, b] = whole, rest, length
    used[0] = 2
    low = -(2**60)
    blocks = isotonic_runs.push_means(np.array([low]), blocks, used)
    second = means[1][0] * lengths[1] + means[1][1] + low
    merged = [(*divmod(second, lengths[1] + 1), lengths[1] + 1)]
    first = means[0][0] * lengths[0] + means[0][1]
    if Fraction(first, lengths[0]) >= Fraction(second, lengths[1] + 1):
        n = lengths[0] + lengths[1] + 1
        merged = [(*divmod(first + second, n), n)]
    else:
        merged = [(*means[0], lengths[0]), *merged]
    assert [tuple(block) for block in blocks[:, : used[0]].T.tolist()] == merged


@pytest.mark.parametrize("norm", few([1, 2], 1))
def test_a_million_cells_in_pieces_are_the_row_in_one(norm):
    rng = np.random.default_rng(norm)
    row = np.repeat(rng.integers(0, 10**5, 1_000), 1_000)
    row.sort()
    row += np.rint(rng.laplace(0, 300, len(row))).astype(np.int64)
    whole = isotonic.fit_row_runs(row, [0, len(row)], norm=norm, lower=0, upper=10**5)
    found = streamed(row, np.sort(rng.integers(0, len(row), 30)), norm=norm, lower=0, upper=10**5)
    assert as_lists(found) == as_lists(whole)
    assert found.length.sum() == len(row)
    # The same answer as the one that keeps every cell's range.
    fitted = np.floor(isotonic.fit(row, norm=norm, lower=0, upper=10**5) + 0.5).astype(np.int64)
    assert np.array_equal(np.repeat(found.value, found.length), fitted)


def test_memory_is_that_of_the_distinct_values():
    """L1 keeps a breakpoint for each distinct value, however many cells there are."""
    stream = RunStream(norm=1)
    rng = np.random.default_rng(1)
    for _ in range(20):
        stream.push(rng.integers(0, 3_000, 100_000))
    assert stream._first.shape[1] <= 2 * isotonic_runs.FIRST_CAPACITY


def test_more_may_be_pushed_after_a_finish():
    for norm in (1, 2):
        stream = RunStream(norm=norm)
        assert as_lists(stream.finish()) == [[0, 0], [], []]
        stream.push([4, 2])
        assert as_lists(stream.finish()) == [[0, 1], [3], [2]]
        stream.push([9])
        assert as_lists(stream.finish()) == [[0, 2], [3, 9], [2, 1]]


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"norm": 3}, ValueError, "norm=3; it must be 1 or 2"),
        ({"norm": 1, "lower": 2, "upper": 1}, ValueError, "lower=2 must be at most upper=1"),
        ({"norm": 1, "lower": 0.5}, TypeError, "lower has dtype float64"),
        ({"norm": 1, "upper": 2**61}, ValueError, "upper must be below 2\\^61"),
    ],
)
def test_a_stream_says_what_is_wrong(options, error, says):
    with pytest.raises(error, match=says):
        RunStream(**options)


def test_a_piece_that_does_not_fit_is_refused():
    stream = RunStream(norm=2)
    with pytest.raises(TypeError, match="values has dtype float64"):
        stream.push([0.5])
    for value in (2**61, -(2**63)):
        with pytest.raises(ValueError, match="values must be below 2\\^61 in magnitude"):
            stream.push([value])
