"""Integer noise, drawn exactly: a pure function of (scale, key, address, cell).

Noise is drawn by inverse CDF from the words of a keyed cipher (`sampler_by_scale`, `inverse_cdf`, `chacha`). It is
exact but for two things: the uniform bits are ChaCha20's, and what lies beyond 2^62 - 1, less than exp(-10^9) of any
law, counts as that largest value. The running time depends on the values drawn and is outside the privacy guarantee.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallytree.accounting.scales import Number, next_float, representable, shown
from tallytree.kinds.measurements import Noise
from tallytree.private.noise.chacha import opened
from tallytree.private.noise.entropy import derive
from tallytree.private.noise.sampler import Sampler
from tallytree.private.noise.sampler_by_scale import sampler_of_gaussian, sampler_of_laplace
from tallytree.support.memory import machine_bytes
from tallytree.support.threads import available_threads, side_by_side
from tallytree.support.validate import require_packages

Integers = NDArray[np.int64]

_MAX_CELL = 2**63 - 1
_CHUNK = 2**17
_OPENDP_CHUNK = 100_000


def discrete_laplace(
    scale: Number, size: int, key: bytes, address: tuple[str | int, ...] = (), *, threads: int | None = None
) -> Integers:
    """Draw discrete Laplace (two-sided geometric) noise for the cells 0..size-1.

    P(X = k) = (1 - r)/(1 + r) · r^|k| with r = exp(-1/s), where s = `representable(scale)`. Equal arguments give equal
    arrays; any other key, address or s gives independent ones.

    Args:
        scale: s above, in units of the count; a float is taken exactly.
        size: the number of cells.
        key: 32 bytes.
        address: what the cells belong to, such as ("measure", level).
        threads: how many share the work; as many as there are processors if not given. The noise is the same.

    Returns:
        int64, shape (size,).

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: a scale outside [0.001, 10^9], a negative size, a key that is not 32 bytes long, no thread.
        MemoryError: a size that this machine cannot hold.
    """
    return _draw(sampler_of_laplace, "scale", scale, key, address, range(_checked_size(size)), threads)


def discrete_gaussian(
    sigma: Number, size: int, key: bytes, address: tuple[str | int, ...] = (), *, threads: int | None = None
) -> Integers:
    """Draw discrete Gaussian noise for the cells 0..size-1.

    P(X = k) ∝ exp(-k²/(2s²)), where s = `representable(sigma)`. Equal arguments give equal arrays; any other key,
    address or s gives independent ones.

    Args:
        sigma: s above, in units of the count; a float is taken exactly.
        size: the number of cells.
        key: 32 bytes.
        address: what the cells belong to, such as ("measure", level).
        threads: how many share the work; as many as there are processors if not given. The noise is the same.

    Returns:
        int64, shape (size,).

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: a sigma outside [0.001, 10^9], a negative size, a key that is not 32 bytes long, no thread.
        MemoryError: a size that this machine cannot hold.
    """
    return _draw(sampler_of_gaussian, "sigma", sigma, key, address, range(_checked_size(size)), threads)


def laplace_at(
    scale: Number, key: bytes, address: tuple[str | int, ...], cells: ArrayLike, *, threads: int | None = None
) -> Integers:
    """Draw the noise that `discrete_laplace` gives these cells.

    Args:
        scale: as in `discrete_laplace`.
        key: 32 bytes.
        address: what the cells belong to.
        cells: integers >= 0, shape (n,), any subset in any order; an equal cell has equal noise.
        threads: how many share the work; as many as there are processors if not given. The noise is the same.

    Returns:
        int64, shape (n,).

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: a scale outside [0.001, 10^9], a negative cell, a key that is not 32 bytes long, no thread.
    """
    return _draw(sampler_of_laplace, "scale", scale, key, address, _checked_cells(cells), threads)


def gaussian_at(
    sigma: Number, key: bytes, address: tuple[str | int, ...], cells: ArrayLike, *, threads: int | None = None
) -> Integers:
    """Draw the noise that `discrete_gaussian` gives these cells.

    Args:
        sigma: as in `discrete_gaussian`.
        key: 32 bytes.
        address: what the cells belong to.
        cells: integers >= 0, shape (n,), any subset in any order; an equal cell has equal noise.
        threads: how many share the work; as many as there are processors if not given. The noise is the same.

    Returns:
        int64, shape (n,).

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: a sigma outside [0.001, 10^9], a negative cell, a key that is not 32 bytes long, no thread.
    """
    return _draw(sampler_of_gaussian, "sigma", sigma, key, address, _checked_cells(cells), threads)


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


def subkey_of(noise: Noise, key: bytes, address: tuple[str | int, ...]) -> bytes:
    """The 32-byte subkey of which `laplace_at` or `gaussian_at` draws the noise of the cells below an address.

    Args:
        noise: the distribution; it is part of the subkey's address, so no two distributions share one.
        key: 32 bytes.
        address: what the cells belong to.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: a scale outside [0.001, 10^9], a key that is not 32 bytes long.
    """
    _, argument = _SAMPLERS[noise.distribution]
    return _subkey(representable(noise.scale, argument), argument, key, address)


def drawn_with(subkey: bytes, noise: Noise, cells: ArrayLike) -> Integers:
    """The noise of these cells, given `subkey_of` of the same distribution: that of `laplace_at` or `gaussian_at`.

    Args:
        subkey: 32 bytes.
        noise: the distribution.
        cells: integers >= 0, shape (n,).

    Returns:
        int64, shape (n,).

    Raises:
        TypeError, ValueError: as `laplace_at`.
    """
    sampler_of, argument = _SAMPLERS[noise.distribution]
    return _filled(sampler_of(representable(noise.scale, argument)), subkey, _checked_cells(cells), available_threads())


_SAMPLERS: dict[str, tuple[Callable[[Fraction], Sampler], str]] = {
    "discrete_laplace": (sampler_of_laplace, "scale"),
    "discrete_gaussian": (sampler_of_gaussian, "sigma"),
}
"""Per distribution its sampler, and the name of its parameter."""


def _draw(
    sampler_of: Callable[[Fraction], Sampler],
    argument: str,
    scale: Number,
    key: bytes,
    address: tuple[str | int, ...],
    cells: Integers | range,
    threads: int | None,
) -> Integers:
    used = representable(scale, argument)
    if not isinstance(address, tuple):
        raise TypeError(f"address must be a tuple of str and int, got {shown(address)}; write ({shown(address)},)")
    workers = _checked_threads(threads)
    return _filled(sampler_of(used), _subkey(used, argument, key, address), cells, workers)


def _subkey(used: Fraction, argument: str, key: bytes, address: tuple[str | int, ...]) -> bytes:
    # The distribution is part of the stream's address: the same noise at two scales would give the count away.
    return derive(key, "noise", argument, used.numerator, used.denominator, *address)


def _filled(sampler: Sampler, subkey: bytes, cells: Integers | range, workers: int) -> Integers:
    noise = np.empty(len(cells), np.int64)
    count = np.arange(min(len(cells), _CHUNK))
    with opened(subkey) as words:

        def fill(start: int) -> None:
            part = cells[start : start + _CHUNK]
            # A copy: one memory layout is one compilation, and no list of all cells is made.
            part = count[: len(part)] + start if isinstance(part, range) else np.array(part, np.int64)
            sampler.fill(words, part, noise[start : start + _CHUNK])

        starts = range(0, len(cells), _CHUNK)
        for _ in side_by_side(fill, starts, threads=min(workers, len(starts))):
            pass  # `fill` writes into `noise`
    return noise


def _checked_threads(threads: int | None) -> int:
    if threads is None:
        return available_threads()
    if isinstance(threads, bool) or not isinstance(threads, int):
        raise TypeError(f"threads must be an int, got {shown(threads)}; give the number of threads, or None for all")
    if threads < 1:
        raise ValueError(f"threads must be at least 1, got {threads}; give the number of threads, or None for all")
    return threads


def _checked_size(size: int) -> int:
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)):
        raise TypeError(f"size must be an int, got {shown(size)}; give the number of cells")
    if size < 0:
        raise ValueError(f"size must be at least 0, got {size}; give the number of cells")
    if 8 * size > machine_bytes():
        raise MemoryError(
            f"size {size} takes {8 * size / 2**30:,.0f} GiB, more than this machine has; draw part after part with "
            "laplace_at or gaussian_at"
        )
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
    if lowest < 0 or highest > _MAX_CELL:
        wrong = lowest if lowest < 0 else highest
        raise ValueError(f"cells must lie between 0 and 2^63 - 1, got {wrong}; number the cells from 0")
    return array


def _opendp(argument: str, scale: Number, size: int, make: str, metric: Callable[[Any], Any]) -> Integers:
    count = _checked_size(size)
    used = float(next_float(scale, argument))
    require_packages("noise", '"opendp"', {"opendp": "OpenDP"}, "opendp")
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), metric(dp)
    measurement = getattr(dp.m, make)(*space, used)
    noise = np.empty(count, np.int64)
    for start in range(0, count, _OPENDP_CHUNK):
        part = noise[start : start + _OPENDP_CHUNK]
        part[:] = measurement(np.zeros(part.size, np.int64))
    return noise
