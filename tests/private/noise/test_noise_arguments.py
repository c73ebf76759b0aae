"""Which arguments of the noise functions are refused, and that no message shows a key."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from tallytree.mechanisms import Noise
from tallytree.private.noise.discrete import (
    discrete_gaussian,
    discrete_laplace,
    noise_at,
    opendp_gaussian,
    opendp_laplace,
)
from tallytree.private.noise.entropy import key_from_seed

KEY = key_from_seed(2020)


def laplace_at(scale, *rest, **options):
    return noise_at(Noise("discrete_laplace", scale), *rest, **options)


def gaussian_at(sigma, *rest, **options):
    return noise_at(Noise("discrete_gaussian", sigma), *rest, **options)


both = pytest.mark.parametrize("draw", [discrete_laplace, discrete_gaussian])


@pytest.fixture(params=["scale", "sigma"])
def by_scale(request):
    """The argument's name, and every function that takes it."""
    if request.param == "scale":
        calls = [
            lambda s: discrete_laplace(s, 1, KEY),
            lambda s: laplace_at(s, KEY, (), [0]),
            lambda s: opendp_laplace(s, 1),
        ]
    else:
        calls = [
            lambda s: discrete_gaussian(s, 1, KEY),
            lambda s: gaussian_at(s, KEY, (), [0]),
            lambda s: opendp_gaussian(s, 1),
        ]
    return request.param, calls


@pytest.mark.parametrize(
    "scale",
    [
        0,
        0.0,
        -1,
        -0.5,
        Fraction(-1, 3),
        math.nan,
        math.inf,
        -math.inf,
        Decimal("nan"),
        Decimal("sNaN"),
        Decimal("-inf"),
    ],
)
def test_a_scale_is_positive_and_finite(by_scale, scale):
    name, calls = by_scale
    for call in calls:
        with pytest.raises(ValueError, match=rf"{name} must be positive and finite, got {scale}; "):
            call(scale)


@pytest.mark.parametrize("scale", [True, np.True_, "1", None, 1j, np.array([1.0]), [1]])
def test_a_scale_is_a_number(by_scale, scale):
    name, calls = by_scale
    for call in calls:
        with pytest.raises(TypeError, match=rf"{name} must be an int, float, Decimal or Fraction, got "):
            call(scale)


@pytest.mark.parametrize("scale", [Fraction(1, 1001), 1e-9, 10**9 + 1, 1e300, Fraction(10**9) + Fraction(1, 10**30)])
def test_a_scale_is_within_the_range_that_is_exact(by_scale, scale):
    name, calls = by_scale
    for call in calls:
        with pytest.raises(ValueError, match=rf"{name} must lie between 0.001 and 1e\+09, got .*; change the budget"):
            call(scale)


@pytest.fixture(params=[discrete_laplace, discrete_gaussian, opendp_laplace, opendp_gaussian])
def by_size(request):
    return (lambda n: request.param(1, n)) if "opendp" in request.param.__name__ else lambda n: request.param(1, n, KEY)


def test_a_size_is_not_negative(by_size):
    with pytest.raises(ValueError, match="size must be at least 0, got -1; give the number of cells"):
        by_size(-1)


@pytest.mark.parametrize("size", [10**12, 2**63, 10**30])
def test_a_size_beyond_memory_is_refused(by_size, size):
    with pytest.raises(MemoryError, match=rf"size {size} takes .* GiB, more than this machine has; draw part after"):
        by_size(size)


@both
@pytest.mark.parametrize(("threads", "error"), [(0, ValueError), (-1, ValueError), (1.0, TypeError), (True, TypeError)])
def test_threads_are_a_positive_number(draw, threads, error):
    with pytest.raises(error, match=rf"threads must be .*, got {threads}; give the number of threads, or None for all"):
        draw(1, 1, KEY, threads=threads)


@pytest.mark.parametrize("size", [1.0, True, "1", None, (2, 3)])
def test_a_size_is_an_int(by_size, size):
    with pytest.raises(TypeError, match="size must be an int, got .*; give the number of cells"):  # noqa: RUF043
        by_size(size)


@both
def test_a_key_is_32_bytes_and_is_never_shown(draw):
    with pytest.raises(ValueError, match="key must be 32 bytes long, got 6; take one from fresh_key") as short:
        draw(1, 1, b"secret")
    with pytest.raises(TypeError, match="key must be bytes, got str; take one from fresh_key") as text:
        draw(1, 1, "secret" * 5 + "!!")
    assert "secret" not in str(short.value) + str(text.value)


@both
def test_an_address_is_a_tuple_of_strings_and_ints(draw):
    with pytest.raises(TypeError, match=r"address must be a tuple of str and int, got 'ab'; write \('ab',\)"):
        draw(1, 1, KEY, "ab")
    with pytest.raises(TypeError, match=r"address takes str and int, got 1.5; convert it"):
        draw(1, 1, KEY, (1.5,))


@pytest.mark.parametrize("draw_at", [laplace_at, gaussian_at])
@pytest.mark.parametrize(
    ("cells", "error", "message"),
    [
        ([3, -1], ValueError, r"cells must lie between 0 and 2\^63 - 1, got -1; number the cells from 0"),
        (np.array([2**63], np.uint64), ValueError, rf"cells must lie between 0 and 2\^63 - 1, got {2**63}; number"),
        ([[1, 2]], ValueError, r"cells must have one dimension, got shape \(1, 2\); give a flat list"),
        (5, ValueError, r"cells must have one dimension, got shape \(\); give a flat list"),
        ([0.5], TypeError, r"cells must be integers, got dtype float64; give indices as int64"),
        ([True], TypeError, r"cells must be integers, got dtype bool; give indices as int64"),
        (["a"], TypeError, r"cells must be integers, got dtype <U1; give indices as int64"),
    ],
)
def test_cells_are_indices(draw_at, cells, error, message):
    with pytest.raises(error, match=message):
        draw_at(1, KEY, (), cells)


@pytest.mark.parametrize(
    "call",
    [
        lambda key: discrete_laplace(1.0, key, 10),
        lambda key: discrete_laplace(1.0, 10, key, key),
        lambda key: laplace_at(1.0, key, key, [1]),
        lambda key: discrete_laplace(1.0, 10, key, (key,)),
        lambda key: discrete_laplace(key, 10, key),
        lambda key: discrete_laplace(1.0, 10, key, threads=key),
        lambda key: key_from_seed(key),
    ],
)
def test_a_key_that_came_to_the_wrong_place_is_not_shown(call):
    key = b"secret-secret-secret-secret-1234"
    with pytest.raises(TypeError) as caught:
        call(key)
    assert "secret" not in str(caught.value)
