"""The kernel of `simplex.euclidean` with weights, in exact arithmetic."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tallytree.support.arrays import FloatArray, IntArray
from tallytree.support.kernels import kernel


@kernel
def _wide_product(w: float, m: int) -> tuple[Any, Any, Any]:
    """w·m for w > 0, m > 0 as (exponent, high, low) with the top bit of the 128-bit mantissa set; exact."""
    low32 = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    one = np.uint64(1)
    fraction, exponent = math.frexp(w)
    a = np.uint64(np.int64(fraction * 2.0**53))
    b = np.uint64(m)
    a0, a1, b0, b1 = a & low32, a >> half, b & low32, b >> half
    middle = ((a0 * b0) >> half) + ((a0 * b1) & low32) + ((a1 * b0) & low32)
    low = (middle << half) | ((a0 * b0) & low32)
    high = a1 * b1 + ((a0 * b1) >> half) + ((a1 * b0) >> half) + (middle >> half)
    shift = np.int64(exponent)
    while high >> np.uint64(63) == np.uint64(0):
        high = (high << one) | (low >> np.uint64(63))
        low = low << one
        shift -= 1
    return shift, high, low


@kernel
def _compare(w: float, m: int, v: float, k: int) -> int:
    """The sign of w·m − v·k, exactly, for w, v > 0.

    Rounding keeps order, so two rounded products that differ decide; only equal ones need all their bits.
    """
    if abs(m) < 2**53 and abs(k) < 2**53:
        p, q = w * m, v * k
        if p != q:
            return 1 if p > q else -1
    signs = np.sign(m) - np.sign(k)
    if signs != 0:
        return 1 if signs > 0 else -1
    if m == 0:
        return 0
    sign = 1 if m > 0 else -1
    a, b = _wide_product(w, abs(m)), _wide_product(v, abs(k))
    if a[0] != b[0]:
        return sign if a[0] > b[0] else -sign
    if a[1] != b[1]:
        return sign if a[1] > b[1] else -sign
    if a[2] != b[2]:
        return sign if a[2] > b[2] else -sign
    return 0


@kernel
def _affordable(w: float, y: int, price: float, total: int) -> int:
    """How many units from 0 up, at most total + 1, cost at most `price` each; unit k costs w(2(k − y) + 1).

    A float guess with its error bound leaves a few candidates, which exact comparison decides by bisection.
    """
    guess = (price / w + 1) / 2 + y
    slack = 2 + (abs(price / w) + abs(y)) * 2.0**-50
    if guess - slack >= total + 1:
        return total + 1
    if guess + slack <= 0:
        return 0
    below = int(max(0.0, guess - slack))
    above = min(int(min(guess + slack, 2.0**61)) + 1, total + 1)
    sign = 1 if price > 0 else -1
    while below < above:
        k = (below + above) // 2
        m = 2 * (k - y) + 1
        dear = m > 0 if price == 0 else _compare(w, m, abs(price), sign) > 0
        if dear:
            above = k
        else:
            below = k + 1
    return below


@kernel
def _price(rank: int) -> float:
    """The double of this rank in the order of all doubles; rank 0 is 0.0."""
    magnitude = float(np.array([abs(rank)], np.int64).view(np.float64)[0])
    return magnitude if rank >= 0 else -magnitude


@kernel
def _raised_before(i: int, j: int, y: IntArray, w: FloatArray, x: IntArray) -> bool:
    order = _compare(w[i], 2 * (x[i] - y[i]) + 1, w[j], 2 * (x[j] - y[j]) + 1)
    if order != 0:
        return order < 0
    if y[i] != y[j]:
        return bool(y[i] > y[j])
    return i > j


@kernel
def _sift_down(heap: IntArray, at: int, y: IntArray, w: FloatArray, x: IntArray) -> None:
    moved = heap[at]
    while True:
        child = 2 * at + 1
        if child >= len(heap):
            break
        if child + 1 < len(heap) and _raised_before(heap[child + 1], heap[child], y, w, x):
            child += 1
        if not _raised_before(heap[child], moved, y, w, x):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = moved


@kernel
def weighted_kernel(y: IntArray, total: int, w: FloatArray) -> IntArray:
    """Take the `total` cheapest units; raising x_i from k to k + 1 costs w_i(2(k − y_i) + 1), which grows with k.

    Bisection over the doubles (64 steps) finds the greatest price at which no more than `total` units are
    affordable; x then holds exactly those. The few units left cost at most the next double: a heap, ordered exactly,
    takes them one by one. Nothing is decided by rounding and nothing loops over `total`. All w are in (0, 1).
    """
    n = len(y)
    x = np.zeros(n, np.int64)
    # Unit costs are below 2^63 in magnitude: none is affordable at the first price, total + 1 each at the second.
    enough = np.array([2.0**63]).view(np.int64)[0]
    few = -enough
    while enough - 1 > few:
        rank = few // 2 + enough // 2 + (few % 2 + enough % 2) // 2
        price = _price(rank)
        count = 0
        for i in range(n):
            count += _affordable(w[i], y[i], price, total)
            if count > total:
                break
        if count > total:
            enough = rank
        else:
            few = rank
    left = total
    for i in range(n):
        x[i] = _affordable(w[i], y[i], _price(few), total)
        left -= x[i]
    heap = np.arange(n)
    for at in range(n // 2 - 1, -1, -1):
        _sift_down(heap, at, y, w, x)
    for _ in range(left):
        x[heap[0]] += 1
        _sift_down(heap, 0, y, w, x)
    return x
