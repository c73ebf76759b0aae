"""Integer noise, drawn exactly: a pure function of (scale, key, address, cell).

The samplers are those of Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (NeurIPS 2020,
Algorithms 1-3), in integers only. Exact means: nothing is approximated but the uniform bits, which are ChaCha20's.
The running time depends on the values drawn and is outside the privacy guarantee.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallytree.kernels import kernel
from tallytree.privacy.entropy import Stream, derive, next_word, open_streams, seek
from tallytree.privacy.scales import Number, next_float, representable

Integers = NDArray[np.int64]

# Why nothing overflows int64. A scale is p/q with 0 < p, q <= 2^40.
#   _uniform       draw < 2^63 as the word loses its lowest bit; unit * bound <= 2^63 - 1 by the floor in unit
#   _bernoulli     unit * numerator <= unit * denominator <= 2^63 - 1, since numerator <= denominator
#   _laplace       2p <= 2^41; turns < 2^22, so digit + p * turns < p * (1 + turns) <= 2^62 and so is |Y| <= that / q
#   _gaussian_kept |Y| * q <= digit + p * turns < 2^62, and p <= 2^40, so their difference fits; the loops over `whole`
#                  count to less than 2^62 and multiply nothing
_TURNS_BITS = 22
_LARGEST_WORD = 2**63 - 1

# A uniform word below _FACTORIAL_RANGE is below _FACTORIAL_LIMITS[k] with probability 1/k!, for k = 0..19.
_FACTORIAL_TERMS = 19
_FACTORIAL_RANGE = _LARGEST_WORD // factorial(_FACTORIAL_TERMS) * factorial(_FACTORIAL_TERMS)
_FACTORIAL_LIMITS = np.array([_FACTORIAL_RANGE // factorial(k) for k in range(_FACTORIAL_TERMS + 1)], np.int64)

_OPENDP_CHUNK = 100_000


def discrete_laplace(scale: Number, size: int, key: bytes, address: tuple[str | int, ...] = ()) -> Integers:
    """Draw discrete Laplace (two-sided geometric) noise for the cells 0..size-1.

    P(X = k) = (1 - r)/(1 + r) · r^|k| with r = exp(-1/s), where s = `representable(scale)`. Equal arguments give equal
    arrays; any other key, address or s gives independent ones.

    Args:
        scale: s above, in units of the count; a float is taken exactly.
        size: the number of cells.
        key: 32 bytes.
        address: what the cells belong to, such as ("measure", level).

    Returns:
        int64, shape (size,).

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: a scale outside [0.001, 10^9], a negative size, a key that is not 32 bytes long.
    """
    return laplace_at(scale, key, address, np.arange(_checked_size(size)))


def discrete_gaussian(sigma: Number, size: int, key: bytes, address: tuple[str | int, ...] = ()) -> Integers:
    """Draw discrete Gaussian noise for the cells 0..size-1.

    P(X = k) ∝ exp(-k²/(2s²)), where s = `representable(sigma)`. Equal arguments give equal arrays; any other key,
    address or s gives independent ones.

    Args:
        sigma: s above, in units of the count; a float is taken exactly.
        size: the number of cells.
        key: 32 bytes.
        address: what the cells belong to, such as ("measure", level).

    Returns:
        int64, shape (size,).

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: a sigma outside [0.001, 10^9], a negative size, a key that is not 32 bytes long.
    """
    return gaussian_at(sigma, key, address, np.arange(_checked_size(size)))


def laplace_at(scale: Number, key: bytes, address: tuple[str | int, ...], cells: ArrayLike) -> Integers:
    """Draw the noise that `discrete_laplace` gives these cells.

    Args:
        scale: as in `discrete_laplace`.
        key: 32 bytes.
        address: what the cells belong to.
        cells: integers >= 0, shape (n,), any subset in any order; an equal cell has equal noise.

    Returns:
        int64, shape (n,).

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: a scale outside [0.001, 10^9], a negative cell, a key that is not 32 bytes long.
    """
    return _draw(_laplace_cells, "scale", scale, key, address, cells)


def gaussian_at(sigma: Number, key: bytes, address: tuple[str | int, ...], cells: ArrayLike) -> Integers:
    """Draw the noise that `discrete_gaussian` gives these cells.

    Args:
        sigma: as in `discrete_gaussian`.
        key: 32 bytes.
        address: what the cells belong to.
        cells: integers >= 0, shape (n,), any subset in any order; an equal cell has equal noise.

    Returns:
        int64, shape (n,).

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: a sigma outside [0.001, 10^9], a negative cell, a key that is not 32 bytes long.
    """
    return _draw(_gaussian_cells, "sigma", sigma, key, address, cells)


def opendp_laplace(scale: Number, size: int) -> Integers:
    """Draw discrete Laplace noise from OpenDP: the distribution of `discrete_laplace`, with OpenDP's own randomness.

    OpenDP takes its scale as a float: the smallest that is not below `scale`.

    Returns:
        int64, shape (size,), different at every call.

    Raises:
        ModuleNotFoundError: OpenDP is not installed.
        TypeError: an argument of the wrong kind.
        ValueError: a scale outside [0.001, 10^9], a negative size.
    """
    return _opendp("scale", scale, size, "make_laplace", lambda dp: dp.l1_distance(T="i64"))


def opendp_gaussian(sigma: Number, size: int) -> Integers:
    """Draw discrete Gaussian noise from OpenDP: the distribution of `discrete_gaussian`, with OpenDP's own randomness.

    OpenDP takes its sigma as a float: the smallest that is not below `sigma`.

    Returns:
        int64, shape (size,), different at every call.

    Raises:
        ModuleNotFoundError: OpenDP is not installed.
        TypeError: an argument of the wrong kind.
        ValueError: a sigma outside [0.001, 10^9], a negative size.
    """
    return _opendp("sigma", sigma, size, "make_gaussian", lambda dp: dp.l2_distance(T="f64"))


def _draw(
    sampler: Callable[[Stream, int, int, Integers], Integers],
    argument: str,
    scale: Number,
    key: bytes,
    address: tuple[str | int, ...],
    cells: ArrayLike,
) -> Integers:
    used = representable(scale, argument)
    if not isinstance(address, tuple):
        raise TypeError(f"address must be a tuple of str and int, got {address!r}; write ({address!r},)")
    # The distribution is part of the stream's address: the same noise at two scales would give the count away.
    subkey = derive(key, "noise", argument, used.numerator, used.denominator, *address)
    return sampler(open_streams(subkey), used.numerator, used.denominator, _checked_cells(cells))


@kernel
def _laplace_cells(stream: Stream, p: int, q: int, cells: Integers) -> Integers:
    noise = np.empty(cells.size, np.int64)
    for i in range(cells.size):
        seek(stream, np.uint64(cells[i]), np.uint64(0))
        noise[i] = _laplace(stream, p, q)
    return noise


@kernel
def _gaussian_cells(stream: Stream, p: int, q: int, cells: Integers) -> Integers:
    noise = np.empty(cells.size, np.int64)
    for i in range(cells.size):
        seek(stream, np.uint64(cells[i]), np.uint64(0))
        noise[i] = _gaussian(stream, p, q)
    return noise


@kernel
def _gaussian(stream: Stream, p: int, q: int) -> int:
    """Algorithm 3: discrete Laplace of scale t, kept with probability exp(-(|Y| - s²/t)²/(2s²)).

    Any t > 0 gives the discrete Gaussian. We take t = s = p/q instead of the paper's floor(s) + 1: at least 0.55 of
    the proposals are kept at every s, and the exponent is (|Y|q - p)²/(2p²), whose parts all fit 64 bits. What the
    proposal leaves out lies beyond 2^22·s - 1, where the Gaussian has less than exp(-2^42).
    """
    while True:
        proposal = _laplace(stream, p, q)
        if _gaussian_kept(stream, abs(proposal), p, q):
            return proposal


@kernel
def _gaussian_kept(stream: Stream, magnitude: int, p: int, q: int) -> bool:
    """Bernoulli(exp(-x²/2)) for x = |magnitude·q - p|/p = w + f, split into a whole number w and a fraction f < 1.

    exp(-x²/2) = exp(-f²/2) · (exp(-f) · exp(-1/2)^w)^w, and the first factor to fail rejects: however large the
    magnitude is, this stays exact and short.
    """
    distance = abs(magnitude * q - p)
    whole, fraction = distance // p, distance % p
    for _ in range(whole):
        for _ in range(whole):
            if not _exp_bernoulli(stream, 1, 2):
                return False
        if not _exp_bernoulli(stream, fraction, p):
            return False
    trials = _factorial_run(stream)
    successes = 0
    while (
        successes < trials
        and _bernoulli(stream, 1, 2)
        and _bernoulli(stream, fraction, p)
        and _bernoulli(stream, fraction, p)
    ):
        successes += 1
    return successes % 2 == 0


@kernel
def _laplace(stream: Stream, p: int, q: int) -> int:
    """Algorithm 2: digit + p·turns is geometric with ratio exp(-1/p), its quotient by q with ratio exp(-q/p).

    2^22 turns, of probability exp(-4,194,304), would not fit: the draw starts again, so it is exactly the distribution
    given fewer turns, in which no |Y| below 2^22·p/q - 1 has lost any.
    """
    while True:
        signed_digit = _uniform(stream, 2 * p)
        digit = signed_digit >> 1
        if not _exp_bernoulli(stream, digit, p):
            continue
        turns = 0
        while _factorial_run(stream) % 2 == 0:  # Bernoulli(exp(-1))
            turns += 1
        if turns >> _TURNS_BITS:
            continue
        magnitude = (digit + p * turns) // q
        if signed_digit & 1 == 0:
            return magnitude
        if magnitude > 0:  # a negative zero would count zero twice
            return -magnitude


@kernel
def _exp_bernoulli(stream: Stream, numerator: int, denominator: int) -> bool:
    """Algorithm 1: Bernoulli(exp(-g)) for g = numerator/denominator in [0, 1].

    Trial k = 1, 2, … succeeds with probability g/k, as Bernoulli(1/k) and Bernoulli(g); the number of trials before
    the first failure is even with probability Σ (-g)^k/k!.
    """
    trials = _factorial_run(stream)
    successes = 0
    while successes < trials and _bernoulli(stream, numerator, denominator):
        successes += 1
    return successes % 2 == 0


@kernel
def _factorial_run(stream: Stream) -> int:
    """How many of Bernoulli(1/1), Bernoulli(1/2), Bernoulli(1/3), … succeed before the first failure.

    n or more do with probability 1/n!, so one uniform word settles the first 19 of them.
    """
    word = _uniform_below(stream, _FACTORIAL_RANGE)
    run = 1
    while run < _FACTORIAL_TERMS and word < _FACTORIAL_LIMITS[run + 1]:
        run += 1
    if run == _FACTORIAL_TERMS:
        while _bernoulli(stream, 1, run + 1):
            run += 1
    return run


@kernel
def _bernoulli(stream: Stream, numerator: int, denominator: int) -> bool:
    unit = _LARGEST_WORD // denominator
    return _uniform_below(stream, unit * denominator) < unit * numerator


@kernel
def _uniform(stream: Stream, bound: int) -> int:
    unit = _LARGEST_WORD // bound
    return _uniform_below(stream, unit * bound) // unit


@kernel
def _uniform_below(stream: Stream, bound: int) -> int:
    while True:
        draw = np.int64(next_word(stream) >> np.uint64(1))
        if draw < bound:
            return int(draw)


def _checked_size(size: int) -> int:
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)):
        raise TypeError(f"size must be an int, got {size!r}; give the number of cells")
    if size < 0:
        raise ValueError(f"size must be at least 0, got {size}; give the number of cells")
    return int(size)


def _checked_cells(cells: ArrayLike) -> Integers:
    array = np.asarray(cells)
    if array.ndim != 1:
        raise ValueError(f"cells must have one dimension, got shape {array.shape}; give a flat list of cell indices")
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"cells must be integers, got dtype {array.dtype}; give indices as int64")
    lowest, highest = int(array.min()), int(array.max())
    if lowest < 0 or highest > _LARGEST_WORD:
        wrong = lowest if lowest < 0 else highest
        raise ValueError(f"cells must lie between 0 and 2^63 - 1, got {wrong}; number the cells from 0")
    return np.ascontiguousarray(array, dtype=np.int64)


def _opendp(argument: str, scale: Number, size: int, make: str, metric: Callable[[Any], Any]) -> Integers:
    count = _checked_size(size)
    used = float(next_float(scale, argument))
    try:
        import opendp.prelude as dp
    except ModuleNotFoundError:
        raise ModuleNotFoundError("OpenDP is not installed: pip install tallytree[opendp]") from None
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), metric(dp)
    measurement = getattr(dp.m, make)(*space, used)
    noise = np.empty(count, np.int64)
    for start in range(0, count, _OPENDP_CHUNK):
        part = noise[start : start + _OPENDP_CHUNK]
        part[:] = measurement(np.zeros(part.size, np.int64))
    return noise
