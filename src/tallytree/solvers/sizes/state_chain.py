"""The exact posterior of a node's tail counts as integers, a hidden Markov chain, where few groups have one size.

Source: ours; forward and backward recursions of hidden Markov models (Rabiner 1989).
"""

from __future__ import annotations

import math

import numpy as np

from tallytree.solvers.sizes.gaussian_chain import smooth
from tallytree.support.arrays import BoolArray, FloatArray, IntArray
from tallytree.support.kernel_arrays import enlarged
from tallytree.support.kernels import inlined, kernel

NEGLIGIBLE = 1e-9
"""States and drops that are less likely than the likeliest by this factor are left out."""
MAX_POISSON = 32.0
"""Above this dispersion, drops are modelled as rare jumps of any height."""
MAX_SCALE_OF_JUMPS = 64.0
"""Jumps are modelled up to this scale of the noise."""
MAX_DROPS = 1024
"""A drop whose likely values reach beyond this breaks the chain."""
MAX_DROP_VARIANCE = 1000.0
"""Drops with a variance up to this are modelled as integers."""
MAX_SCALE = 256.0
"""Noise of a greater scale does not tell integers apart."""
LANES = 4
"""Drops that are summed in one walk over the states."""
PAD = LANES - 1
"""Zeros before and after the states of a message, so that a walk need not look where they end."""
MIN_POSTERIOR_VARIANCE = 1e-5
"""Of a posterior. A leaf that is almost certain must stay so in sums of many leaves, so this is small."""


@inlined
def drop_masses(rate: float, dispersion: float, masses: FloatArray) -> int:
    """Probabilities of 0, 1, 2, … groups: Poisson, or negative binomial where the dispersion is above 1.

    Returns the number of those that matter; at most len(masses).
    """
    if rate <= 0:
        masses[0] = 1.0
        return 1
    if dispersion > 1.001:
        r, q = rate / (dispersion - 1.0), 1.0 - 1.0 / dispersion
        masses[0] = math.exp(-r * math.log(dispersion))
    else:
        r, q = 0.0, rate
        masses[0] = math.exp(-rate)
    j = 0
    while j + 1 < len(masses):
        masses[j + 1] = masses[j] * ((r + j) * q / (j + 1) if r > 0 else q / (j + 1))
        j += 1
        if j > rate and masses[j] < NEGLIGIBLE:
            break
    return j + 1


@inlined
def jump_masses(rate: float, dispersion: float) -> tuple[float, float]:
    """π and q of a drop that is 0 with probability 1 − π, else geometric, P(j) = (1 − q) q^j, with this rate and κ."""
    height = 0.5 * dispersion
    chance = min(max(rate / height, 1e-4), 0.5)
    height = max(height, rate / chance)
    return chance, height / (1.0 + height)


@inlined
def fall_off(gap: int, nearest: int, scale: float, laplace: bool, falls: FloatArray) -> float:
    """The likelihood of a gap between value and state, over that of the nearest state; falls[i] = exp(−i / scale)."""
    if laplace:
        return falls[gap - nearest] if gap - nearest < len(falls) else 0.0
    return math.exp(0.5 * (nearest - gap) * (nearest + gap) / (scale * scale))


@inlined
def _unmodelled_drops(scale: float, mu: FloatArray, dispersion: FloatArray) -> BoolArray:
    """Which drops break the chain: the first, the last, and those with too many likely values."""
    n = len(mu) - 1
    broken = np.empty(n + 1, np.bool_)
    broken[0] = broken[n] = True
    for r in range(1, n):
        spread = dispersion[r] * mu[r]
        most = mu[r] + 6.0 * math.sqrt(spread) + 20.0 * max(dispersion[r] - 1.0, 1.0)
        if dispersion[r] > MAX_POISSON:
            broken[r] = scale > MAX_SCALE_OF_JUMPS or math.isinf(dispersion[r])
        else:
            broken[r] = spread > MAX_DROP_VARIANCE or most > MAX_DROPS
    return broken


@inlined
def _times_likelihood(
    message: FloatArray,
    low: int,
    width: int,
    value: int,
    scale: float,
    laplace: bool,
    falls: FloatArray,
    out: FloatArray,
) -> None:
    """Write to out[k] the message of state low + k times the likelihood of the noisy value, up to one factor."""
    nearest = max(low - value, value - (low + width - 1), 0)
    for k in range(width):
        out[k] = message[k] * fall_off(abs(value - (low + k)), nearest, scale, laplace, falls)


@inlined
def _scale_to_one(message: FloatArray, width: int) -> None:
    """Divide the message by its largest entry; a message without any is that of states that are equally likely."""
    top = 0.0
    for k in range(width):
        top = max(top, message[k])
    if top <= 0.0:
        for k in range(width):
            message[k] = 1.0
        top = 1.0
    for k in range(width):
        message[k] = np.divide(message[k], top)  # no test for a zero, which would keep it from being vectorised


# --- Forward, from the last cell to the first: from the states of cell r + 1 to those of cell r ---


@inlined
def _states_near(value: int, reach: int, cap: float, out: FloatArray) -> tuple[int, int]:
    """Equally likely states around the noisy value, for a cell behind which the chain is broken: lowest, how many."""
    first = max(int(value) - reach, 0)
    last = max(int(min(float(max(int(value) + reach, 0)), cap)), 0)
    first = min(first, last)
    width = last - first + 1
    for k in range(width):
        out[k] = 1.0
    return first, width


@inlined
def _forward_jump(
    later: FloatArray, bottom: int, value: int, reach: int, cap: float, chance: float, ratio: float, out: FloatArray
) -> tuple[int, int]:
    """Through a drop as `jump_masses`, from the states bottom, bottom + 1, … of the later cell: lowest, how many."""
    top_state = bottom + len(later) - 1
    first = min(max(bottom, int(value) - reach), top_state + int(value) + reach)
    first = max(min(first, int(min(cap, 9e15))), bottom)
    last = int(min(float(max(top_state, int(value) + reach)), cap))
    width = max(last - first + 1, 1)
    carried = 0.0  # Σ_j later[j] ratio^(state − j), so far
    for j in range(min(first - bottom, len(later))):
        carried = carried * ratio + later[j]
    if first - bottom > len(later):
        carried *= ratio ** float(first - bottom - len(later))
    for k in range(width):
        j = first + k - bottom
        here = later[j] if j < len(later) else 0.0
        carried = carried * ratio + here
        out[k] = (1.0 - chance) * here + chance * (1.0 - ratio) * carried
    return first, width


@inlined
def _forward_count(
    later: FloatArray, bottom: int, masses: FloatArray, many: int, cap: float, out: FloatArray
) -> tuple[int, int]:
    """Through a drop with these probabilities, from the states bottom, bottom + 1, …: lowest, how many.

    Args:
        later: the states' message, with `PAD` zeros on both sides.
        bottom: the lowest of them.
        masses: the probabilities, then zeros up to a multiple of `LANES`.
        many: how many they are.
        cap: the greatest state.
        out: the message of the earlier cell.
    """
    size = len(later) - 2 * PAD
    width = size + many - 1
    if bottom + width - 1 > cap:
        width = max(int(cap) - bottom + 1, 1)
    # The sum of each state is in the order of the drops. What is added beyond them is 0.
    for k in range(width):
        out[k] = 0.0
    for j in range(0, len(masses), LANES):
        m0, m1, m2, m3 = masses[j], masses[j + 1], masses[j + 2], masses[j + 3]
        here = out[j:]
        for k in range(min(size + PAD, width - j)):
            here[k] = (((here[k] + m0 * later[k + 3]) + m1 * later[k + 2]) + m2 * later[k + 1]) + m3 * later[k]
    return bottom, width


@inlined
def _likely_states(message: FloatArray, width: int) -> tuple[int, int, float]:
    """The range of states that are not `NEGLIGIBLE` beside the likeliest, and its entry."""
    top = 0.0
    for k in range(width):
        top = max(top, message[k])
    if top <= 0.0:
        top = 1e-300
    start, stop = 0, width
    while start < stop - 1 and message[start] < NEGLIGIBLE * top:
        start += 1
    while stop - 1 > start and message[stop - 1] < NEGLIGIBLE * top:
        stop -= 1
    return start, stop, top


@kernel
def _forward(
    values: IntArray,
    scale: float,
    laplace: bool,
    mu: FloatArray,
    dispersion: FloatArray,
    cap: float,
    broken: BoolArray,
    falls: FloatArray,
    work: FloatArray,
) -> tuple[IntArray, IntArray, FloatArray, IntArray, FloatArray]:
    """Lowest states, offsets and messages: those of cell r, ~ p(x_r, y_r … y_(n−1)), are kept[begin[r]:end[r]].

    Messages have `PAD` zeros before and after them, and masses follow one another as `_forward_count` takes them.

    Returns:
        low (n,): the state of a cell's first message; place (2, n): begin and end; kept: all messages. The masses of
        drop r, where it is modelled by `drop_masses`: `drops` (2, n + 1), begin and end, and `masses`.
    """
    n = len(values)
    reach = int(30.0 * scale) + 2
    low, place = np.empty(n, np.int64), np.empty((2, n), np.int64)
    drops = np.empty((2, n + 1), np.int64)
    kept, masses = np.empty(12 * n + 1024), np.empty(4 * n + 4 * MAX_DROPS)
    used = filled = many = 0
    kept[:PAD] = 0.0
    last = -1  # the drop whose masses were computed last
    for r in range(n - 1, -1, -1):
        if broken[r] and broken[r + 1]:
            low[r], place[0, r], place[1, r] = 0, used + PAD, used + PAD
            continue
        if broken[r + 1]:
            first, width = _states_near(values[r], reach, cap, work)
        else:
            if dispersion[r + 1] > MAX_POISSON:
                chance, ratio = jump_masses(mu[r + 1], dispersion[r + 1])
                later = kept[place[0, r + 1] : place[1, r + 1]]
                first, width = _forward_jump(later, low[r + 1], values[r], reach, cap, chance, ratio, work)
            else:
                if last < 0 or mu[r + 1] != mu[last] or dispersion[r + 1] != dispersion[last]:
                    if filled + MAX_DROPS + PAD > len(masses):
                        masses = enlarged(masses, filled, 2 * len(masses))
                    last = r + 1
                    many = drop_masses(mu[last], dispersion[last], masses[filled : filled + MAX_DROPS])
                    drops[0, last] = filled
                    filled += many
                    while (filled - drops[0, last]) % LANES > 0:
                        masses[filled] = 0.0
                        filled += 1
                    drops[1, last] = filled
                drops[0, r + 1], drops[1, r + 1] = drops[0, last], drops[1, last]
                here = masses[drops[0, last] : drops[1, last]]
                later = kept[place[0, r + 1] - PAD : place[1, r + 1] + PAD]
                first, width = _forward_count(later, low[r + 1], here, many, cap, work)
        _times_likelihood(work, first, width, values[r], scale, laplace, falls, work)
        start, stop, top = _likely_states(work, width)
        size = stop - start
        if used + size + 2 * PAD > len(kept):
            kept = enlarged(kept, used + PAD, 2 * (used + size + 2 * PAD))
        message, found = kept[used + PAD :], work[start:]
        for k in range(size):
            message[k] = np.divide(found[k], top)
        for k in range(size, size + PAD):
            message[k] = 0.0
        low[r], place[0, r], place[1, r] = first + start, used + PAD, used + PAD + size
        used += size + PAD
    return low, place, kept, drops, masses


# --- Backward, from the first cell to the last: from the states of cell r − 1 to those of cell r ---


@inlined
def _backward_jump(
    earlier: FloatArray, shift: int, width: int, chance: float, ratio: float, sums: FloatArray, out: FloatArray
) -> None:
    """Through a drop as `jump_masses`; state k of this cell is entry k + shift of the earlier one's message."""
    size = len(earlier)
    for i in range(size - 2, -1, -1):  # tail sums Σ_j ratio^j earlier[i + j]
        sums[i] = earlier[i] + ratio * (sums[i + 1] if i + 1 < size - 1 else earlier[i + 1])
    sums[size - 1] = earlier[size - 1]
    for k in range(width):
        i = shift + k
        if i < 0:
            out[k] = chance * (1.0 - ratio) * sums[0] * ratio ** float(-i)
        elif i < size:
            out[k] = (1.0 - chance) * earlier[i] + chance * (1.0 - ratio) * sums[i]
        else:
            out[k] = 0.0


@inlined
def _backward_count(earlier: FloatArray, shift: int, width: int, masses: FloatArray, out: FloatArray) -> None:
    """Through a drop with these probabilities; state k of this cell is entry k + shift of the earlier one's message.

    The message has `PAD` zeros on both sides, and the masses are as in `_forward_count`.
    """
    size = len(earlier) - 2 * PAD
    for k in range(width):
        out[k] = 0.0
    for j in range(0, len(masses), LANES):
        m0, m1, m2, m3 = masses[j], masses[j + 1], masses[j + 2], masses[j + 3]
        first = max(-shift - j - PAD, 0)
        here, there = out[first:], earlier[first + shift + j + PAD :]
        for k in range(min(size - shift - j, width) - first):
            here[k] = (((here[k] + m0 * there[k]) + m1 * there[k + 1]) + m2 * there[k + 2]) + m3 * there[k + 3]


@inlined
def _moments(forward: FloatArray, backward: FloatArray) -> tuple[float, float, float]:
    """The sum of the products of two messages; mean and variance of the state's number k (0 where the sum is 0)."""
    total = average = square = 0.0
    for k in range(len(forward)):
        p = forward[k] * backward[k]
        total += p
        average += p * k
        square += p * k * k
    if total > 0.0:
        average /= total
        square = max(square / total - average * average, 0.0)
    return total, average, square


@kernel
def count_states(
    values: IntArray,
    scale: float,
    laplace: bool,
    mu: FloatArray,
    dispersion: FloatArray,
    cap: float,
    mean: FloatArray,
    variance: FloatArray,
) -> None:
    """Exact posterior of integer tail counts where drops are rare; overwrites mean and variance there.

    A hidden Markov chain from the last cell to the first: x_(r−1) = x_r + d_r, with d_r as in `drop_masses` or
    `jump_masses`. Drops whose variance is above `MAX_DROP_VARIANCE` break the chain; a cell between two breaks is left
    as it is. States that are `NEGLIGIBLE` beside the likeliest are dropped, so a cell costs (states kept) × (drops that
    matter).
    """
    if scale > MAX_SCALE:
        return
    n = len(values)
    reach = int(30.0 * scale) + 2
    room = 4 * reach + 4 * MAX_DROPS + 64  # more than states and zeros
    work, other, sums = np.empty(room), np.empty(room), np.empty(room)
    falls = np.empty(4 * reach)
    for k in range(4 * reach):
        falls[k] = np.exp(-k / scale)
    other[:PAD] = 0.0
    broken = _unmodelled_drops(scale, mu, dispersion)
    low, place, kept, drops, masses = _forward(values, scale, laplace, mu, dispersion, cap, broken, falls, work)
    for r in range(n):
        if broken[r] and broken[r + 1]:
            continue
        size = place[1, r] - place[0, r]
        if broken[r]:
            for k in range(size):
                work[k] = 1.0
        else:
            # work[k] ~ p(y_0 … y_(r−1) | x_r = low[r] + k), from `other`, the same of cell r − 1 times its likelihood.
            before = place[1, r - 1] - place[0, r - 1]
            if dispersion[r] > MAX_POISSON:
                chance, ratio = jump_masses(mu[r], dispersion[r])
                earlier = other[PAD : before + PAD]
                _backward_jump(earlier, low[r] - low[r - 1], size, chance, ratio, sums, work)
            else:
                here, earlier = masses[drops[0, r] : drops[1, r]], other[: before + 2 * PAD]
                _backward_count(earlier, low[r] - low[r - 1], size, here, work)
            _scale_to_one(work, size)
        total, average, spread = _moments(kept[place[0, r] : place[1, r]], work[:size])
        if total > 0.0:
            mean[r], variance[r] = low[r] + average, spread
        _times_likelihood(work, low[r], size, values[r], scale, laplace, falls, other[PAD:])
        other[PAD + size : 2 * PAD + size] = 0.0


@kernel
def posterior(
    values: IntArray,
    scale: float,
    laplace: bool,
    cap: float,
    mu: FloatArray,
    dispersion: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
    scratch: FloatArray,
) -> None:
    """Posterior mean and variance of every cell: of integers where drops are rare, Gaussian elsewhere."""
    n = len(values)
    variance[:n] = -1.0
    count_states(values, scale, laplace, mu, dispersion, cap, mean, variance)
    left = False
    for r in range(n):
        left = left or variance[r] < 0.0
    if left:  # of most nodes nothing is
        gauss, spread = np.empty(n), np.empty(n)
        smooth(values, scale, laplace, mu, dispersion, gauss, spread, scratch)
        for r in range(n):
            if variance[r] < 0.0:
                mean[r], variance[r] = gauss[r], spread[r]
    for r in range(n):
        variance[r] = max(variance[r], MIN_POSTERIOR_VARIANCE)
