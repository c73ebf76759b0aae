"""Readings of the naive estimator of Kuo et al. 2018 (section 4.1), of which the published errors fit none exactly.

The paper's program is the nearest histogram in the norm 2, which is `Matching("naive")`. The poster prints the program
with a general norm. Here are the program with the norm 1, and the noisy histogram without its negative numbers.
"""

from __future__ import annotations

import numpy as np

from tallytree.lab._internals import Method, nearest_in_l1
from tallytree.lab.reproduce.kuo_as_run import geometric_noise
from tallytree.lab.reproduce.kuo_data import Groups
from tallytree.support.arrays import IntArray


def true_and_noisy(groups: Groups, epsilon: float, seed: int) -> tuple[IntArray, IntArray]:
    """The root's histogram, and the same with noise of scale 2/ε, as its sensitivity is 2: int64 (K + 1,) each.

    Args:
        groups: the data; sizes above K count as K.
        epsilon: of the root alone.
        seed: of the noise.
    """
    size = np.minimum(groups.rows["size"].to_numpy(), groups.largest)
    true = np.bincount(size, groups.rows["groups"].to_numpy(), minlength=groups.largest + 1).astype(np.int64)
    noisy = true + geometric_noise(groups.largest + 1, 2 / epsilon, seed)
    if true[0] == 0:
        noisy[0] = 0  # the published code measures from the smallest size on
    return true, noisy


def clipped_error(groups: Groups, epsilon: float, seed: int) -> float:
    """The earth mover's distance where numbers below 0 are replaced by 0, and nothing else.

    The groups that are too many count as groups of size 0 of the truth.
    """
    true, noisy = true_and_noisy(groups, epsilon, seed)
    return _distance(np.maximum(noisy, 0), true)


def norm_1_error(groups: Groups, epsilon: float, seed: int, method: Method) -> float:
    """The earth mover's distance of the nearest histogram in the norm 1 that HiGHS finds by this method, rounded."""
    true, noisy = true_and_noisy(groups, epsilon, seed)
    return _distance(nearest_in_l1(noisy, int(true.sum()), method=method), true)


def _distance(estimated: IntArray, true: IntArray) -> float:
    return float(np.abs((estimated - true)[::-1].cumsum()[:-1]).sum())
