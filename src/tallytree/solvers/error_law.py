"""The distribution of the errors of a level whose variances are known: quantiles, and the expected largest error.

An error is taken as the sum of two independent parts with mean 0: a normal one, and one with the Laplace distribution.
The second is the noise of a single cell where that is Laplace noise; the first is what many cells contribute. With s²
the variance of the first and b the scale of the second (2b² its variance), for t ≥ 0

    P(error > t) = Q(t/s) + ½·exp(s²/2b² − t/b)·Φ(t/s − s/b) − ½·exp(s²/2b² + t/b)·Q(t/s + s/b),

where Φ is the normal distribution function and Q = 1 − Φ. Errors of a level are taken as independent for its largest
one: those of siblings are nearly so, and what they have in common makes the largest error smaller, not larger (Šidák
1967, for normal errors).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tallytree.support.arrays import FloatArray

BINS = 64
"""Nodes of a level are put into so many bins of equal numbers of nodes by their variance, each with its mean."""
POINTS = 2_000
"""Of the grid on which tails are integrated, up to an error that the largest exceeds with probability `NEGLIGIBLE`."""
NEGLIGIBLE = 1e-9


@dataclass(frozen=True, eq=False)
class ErrorLaw:
    """The errors of the nodes of one level.

    Attributes:
        variances: float64 (bins,), the variance of a node's error.
        laplace: float64 (bins,), the part of it that is of the Laplace distribution.
        nodes: float64 (bins,), how many nodes have this variance.
    """

    variances: FloatArray
    laplace: FloatArray
    nodes: FloatArray

    @classmethod
    def of(cls, variances: FloatArray, single: FloatArray, nodes: int, *, laplace: bool) -> ErrorLaw:
        """Of the nodes of a level.

        Args:
            variances: float64 (n,), the variance of every node's error, or of one node that stands for all.
            single: float64 (n,), the part of it that one noise alone contributes.
            nodes: how many nodes the level has.
            laplace: whether that noise is Laplace noise.
        """
        order = np.argsort(variances, kind="stable")
        cuts = np.unique(np.linspace(0, len(order), BINS + 1).astype(np.int64))
        sizes = np.diff(cuts).astype(np.float64)
        part = np.minimum(single, variances) if laplace else np.zeros(len(variances))
        means = [np.add.reduceat(each[order], cuts[:-1]) / sizes for each in (variances, part)]
        return cls(means[0], means[1], sizes * (nodes / len(variances)))

    @property
    def std_dev(self) -> float:
        """The root mean square of the errors of the level's nodes."""
        return float(np.sqrt(np.average(self.variances, weights=self.nodes)))

    def half_width(self, alpha: float) -> float:
        """What the error of a node exceeds with probability `alpha`, averaged over the nodes."""
        if not self.variances.any():
            return 0.0
        low, high = 0.0, self._reach()
        for _ in range(60):
            middle = (low + high) / 2
            beyond = float(np.average(self._tails(np.array([middle]))[:, 0], weights=self.nodes))
            low, high = (middle, high) if beyond > alpha else (low, middle)
        return high

    @property
    def expected_maximum(self) -> float:
        """The expectation of the largest error of the level."""
        if not self.variances.any():
            return 0.0
        points = np.linspace(0.0, self._reach(), POINTS)
        return float(np.trapezoid(self._exceeds(points), points))

    def _reach(self) -> float:
        """An error that the largest exceeds with a probability of at most `NEGLIGIBLE`."""
        point = float(np.sqrt(self.variances.max()))
        while self._exceeds(np.array([point]))[0] > NEGLIGIBLE:
            point *= 1.25
        return point

    def _exceeds(self, points: FloatArray) -> FloatArray:
        """The probability that the largest error exceeds each of the points."""
        with np.errstate(divide="ignore"):
            below = (self.nodes[:, None] * np.log1p(-self._tails(points))).sum(axis=0)
        return np.asarray(-np.expm1(below), dtype=np.float64)

    def _tails(self, points: FloatArray) -> FloatArray:
        """The probability that a node's error exceeds each of the points, in either direction: (bins, points)."""
        from scipy.special import log_ndtr  # 0.2 s: only where it is needed

        t = points[None, :]
        scale = np.sqrt(np.maximum(self.laplace / 2, 1e-12 * self.variances + 1e-300))[:, None]
        # A part of each kind, however small, so that one formula holds for all.
        normal = np.sqrt(np.maximum(self.variances - self.laplace, 1e-12 * self.variances + 1e-300))[:, None]
        shift = normal / scale
        gain = np.exp(np.minimum(shift**2 / 2 - t / scale + log_ndtr(t / normal - shift), 0.0))
        loss = np.exp(np.minimum(shift**2 / 2 + t / scale + log_ndtr(-t / normal - shift), 0.0))
        one_side = np.exp(log_ndtr(-t / normal)) + gain / 2 - loss / 2
        only_normal = self.laplace[:, None] <= 1e-9 * self.variances[:, None]
        tails = 2 * np.where(only_normal, np.exp(log_ndtr(-t / normal)), one_side)
        return np.asarray(np.clip(np.where(self.variances[:, None] > 0, tails, 0.0), 0.0, 1.0), dtype=np.float64)
