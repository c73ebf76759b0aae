"""Integer noise, drawn exactly: a pure function of (scale, key, address, cell).

Noise is drawn by inverse CDF from the words of a keyed cipher (`digits`, `inverse_cdf`, `entropy`). It is
exact but for two things: the uniform bits are ChaCha20's, and what lies beyond 2^62 - 1, less than exp(-10^9) of any
law, counts as that largest value. The running time depends on the values drawn and is outside the privacy guarantee.

A `NoiseSource` is where a release's noise comes from: keyed (the default), or drawn by OpenDP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallytree.accounting.scales import Number, next_float, representable, shown
from tallytree.errors import BudgetExceeded
from tallytree.kinds.measurements import Noise
from tallytree.private.noise.digits import sampler_of_gaussian, sampler_of_laplace
from tallytree.private.noise.entropy import derive, opened
from tallytree.private.noise.inverse_cdf import Sampler
from tallytree.support.arrays import IntArray
from tallytree.support.machine import available_threads, machine_bytes, side_by_side
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


def noise_at(
    noise: Noise, key: bytes, address: tuple[str | int, ...], cells: ArrayLike, *, threads: int | None = None
) -> Integers:
    """Draw the noise that `discrete_laplace` or `discrete_gaussian` gives these cells.

    Args:
        noise: the distribution, with its scale or sigma.
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
    sampler_of, argument = _SAMPLERS[noise.distribution]
    return _draw(sampler_of, argument, noise.scale, key, address, _checked_cells(cells), threads)


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
    """The 32-byte subkey of which `noise_at` draws the noise of the cells below an address.

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
            f"size {size} takes {8 * size / 2**30:,.0f} GiB, more than this machine has; draw part after part, "
            "each under an address of its own"
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


class NoiseSource(Protocol):
    """Draws the noise of cells that are known by an address and a number."""

    def draw(self, noise: Noise, address: tuple[str | int, ...], cells: IntArray) -> IntArray:
        """Noise for `cells` (int64 (n,), distinct) below `address`: int64 (n,)."""


class KeyedNoise:
    """Noise as a function of a secret key and the cell's address: drawn twice, a cell gets the same noise.

    A recomputed cell is therefore not a second release. The key never leaves the object.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __repr__(self) -> str:
        """Nothing of the key."""
        return "KeyedNoise(<secret>)"

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled: the key would leave the object."""
        raise TypeError("KeyedNoise holds a secret key and cannot be pickled")

    def draw(self, noise: Noise, address: tuple[str | int, ...], cells: IntArray) -> IntArray:
        """Noise for `cells` below `address`."""
        return noise_at(noise, self._key, address, cells)

    def below(self, asked: Iterable[tuple[Noise, tuple[str | int, ...]]]) -> SubkeyNoise:
        """The noise below some addresses, for a task elsewhere: it draws the same, and knows nothing of other noise.

        Args:
            asked: the distributions and addresses.
        """
        return SubkeyNoise({each: subkey_of(each[0], self._key, each[1]) for each in asked})


class SubkeyNoise:
    """The noise of `KeyedNoise` below some addresses, drawn with their subkeys. No key can be computed from a subkey.

    Args:
        subkeys: by distribution and address, 32 bytes.
    """

    def __init__(self, subkeys: Mapping[tuple[Noise, tuple[str | int, ...]], bytes]) -> None:
        self._subkeys = dict(subkeys)

    def __repr__(self) -> str:
        """Nothing of the subkeys."""
        return "SubkeyNoise(<secret>)"

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled, so that no closure holds a subkey; `shown_to_task` is the way to a task."""
        raise TypeError("SubkeyNoise holds secret keys and cannot be pickled")

    def shown_to_task(self) -> dict[tuple[Noise, tuple[str | int, ...]], bytes]:
        """The subkeys, for the connection over which a task fetches them; they are written nowhere."""
        return dict(self._subkeys)

    def draw(self, noise: Noise, address: tuple[str | int, ...], cells: IntArray) -> IntArray:
        """Noise for `cells` below `address`.

        Raises:
            BudgetExceeded: the subkey was not given.
        """
        subkey = self._subkeys.get((noise, address))
        if subkey is None:
            raise BudgetExceeded(f"noise: a task has no key for {address}, so it cannot measure there")
        sampler_of, argument = _SAMPLERS[noise.distribution]
        sampler = sampler_of(representable(noise.scale, argument))
        return _filled(sampler, subkey, _checked_cells(cells), available_threads())


class OpenDPNoise:
    """Noise drawn by OpenDP from the operating system's entropy, fresh at every call.

    A cell drawn twice would be a second release, so each cell is drawn once only.
    """

    def __init__(self) -> None:
        self._drawn: dict[tuple[str | int, ...], list[IntArray]] = {}

    def draw(self, noise: Noise, address: tuple[str | int, ...], cells: IntArray) -> IntArray:
        """Noise for `cells` below `address`.

        Raises:
            BudgetExceeded: one of them was drawn before, or is asked for twice.
        """
        earlier = self._drawn.setdefault(address, [])
        if len(np.unique(cells)) < len(cells) or any(np.isin(cells, before).any() for before in earlier):
            raise BudgetExceeded(f"noise: a cell of {address} was measured before; measuring it again is not paid for")
        earlier.append(cells.copy())
        draw = opendp_laplace if noise.distribution == "discrete_laplace" else opendp_gaussian
        return draw(noise.scale, len(cells))
