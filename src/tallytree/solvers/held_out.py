"""How large posterior variances are beside what laws with parts about a prior say, by cells that taught none of them.

A law with parts about M fits the cells that it is learned from, and few cells that lie near M by chance make it narrow.
So each stratum's law is learned from every other cell, and the risk of its posterior means is found on the rest, by
Stein's unbiased estimate; and the other way round. That estimate needs the mean slope of the posterior mean e,

    E (e(y) − x)² = E [(y − e)² − s² + 2 s² e'(y*)],    s² e' = v, the posterior variance,

where y* = y for normal noise. For Laplace noise, y* is y and as much Laplace noise again: E N g(N) = s² E g'(N + N').
Sources: Stein 1981, Annals of Statistics 9; Goldstein and Reinert 1997, Annals of Applied Probability 7 (zero bias).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tallytree.solvers.laws import DOUBT, PARTS, ROUNDS, Laws, law, sampled, steps_and_variances
from tallytree.support.arrays import FloatArray
from tallytree.support.large_arrays import LargeArrays

LEAST_TOLD = 36
"""Fewer cells tell nothing of their risk."""
MOST_OF_LAPLACE = 4.0
"""The most that is found with Laplace noise."""
SQUARES, SQUARES_OF_LAPLACE = 2.0, 5.0
"""The variance of the square of noise, in s⁴: its kurtosis less 1."""
_NODES = 16
_UPPER = -np.log(1 - (np.arange(_NODES // 2) + 0.5) / (_NODES // 2))
LAPLACE = np.concatenate([-_UPPER[::-1], _UPPER]) / np.sqrt((_UPPER**2).mean())
"""Quantiles of Laplace noise, of equal weight and variance 1."""


def held_out_part(y: FloatArray, expected: FloatArray, deviations: FloatArray, laws: Laws, *, laplace: bool) -> float:
    """What the variances of the posteriors are to be multiplied by.

    What is found counts as `laws._found_part` has it.

    Args:
        y: see `learned_laws`.
        expected: see `learned_laws`.
        deviations: see `learned_laws`.
        laws: learned from these.
        laplace: whether the noise is Laplace noise. Of sums of such noise, which is nearer to normal, too much is found
            with it.
    """
    found = sampled(y, expected, deviations, LEAST_TOLD, LargeArrays())
    if found is None:
        return 1.0
    _, total, samples = found
    risk, said, error = 0.0, 0.0, 0.0
    for number, cells, own in zip(total, samples, laws.weights, strict=True):
        for half in (0, 1):
            taught, told = np.ascontiguousarray(cells[:, half::2]), cells[:, 1 - half :: 2]
            weights = law(taught[0], taught[1], taught[2], laws.parts, ROUNDS)
            off, variance = steps_and_variances(told, weights, laws.parts)
            if laplace:
                variance = _smoothed(told, weights, laws)
            risk += number / 2 * float((off**2 - told[2] ** 2 + 2 * variance).mean())
            said += number / 2 * float(steps_and_variances(told, own, laws.parts)[1].mean())
        squares = SQUARES_OF_LAPLACE if laplace else SQUARES
        error += number**2 * squares * float((cells[2] ** 4).mean()) / cells.shape[1]
    doubt = (DOUBT * said) ** 2
    part = 1 + doubt / (doubt + error) * (risk / max(said, 1e-300) - 1)
    return float(np.clip(part, PARTS[0], MOST_OF_LAPLACE if laplace else PARTS[1]))


def _smoothed(cells: FloatArray, weights: FloatArray, laws: Laws) -> FloatArray:
    """The mean posterior variance of each cell over further Laplace noise of its estimate: float64 (n,)."""
    y, expected, s = cells
    moved: Sequence[FloatArray] = [
        steps_and_variances(np.stack([y + step * s, expected, s]), weights, laws.parts)[1] for step in LAPLACE
    ]
    return np.asarray(np.mean(moved, axis=0))
