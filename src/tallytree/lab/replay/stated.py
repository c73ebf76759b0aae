"""What a statement says of the noise, against the noise that was drawn and the distance that it had to cover."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tallytree.lab._internals import BESIDE_THE_LEVELS, Noise
from tallytree.lab.audit.exact import delta_of_moves
from tallytree.lab.replay.answers import Address, Run

ROUNDING = 1 + 1e-9
"""Of what is stated as a float."""
KEYS = {"largest_size": "maximum", "contributions": "contributions"}
"""Under which key a statement says how something is measured beside the levels."""


@dataclass(frozen=True)
class Moved:
    """How far the true values of one measured statistic of a level are apart.

    Attributes:
        address: level and statistic.
        l1: Σ|difference|.
        squared: Σ difference².
        noise: of every cell.
        distances: how many cells differ by a distance > 0.
    """

    address: Address
    l1: int
    squared: int
    noise: Noise
    distances: Counter[int]

    @property
    def cost(self) -> Fraction:
        """ε of Laplace noise, ρ of Gaussian noise."""
        if self.noise.distribution == "discrete_laplace":
            return self.l1 / self.noise.scale
        return self.squared / (2 * self.noise.scale**2)


def moved(first: Run, second: Run) -> list[Moved]:
    """The differences between two runs, for all that was measured; of counts above a threshold, of nodes in both."""
    found = []
    for address, noise in first.noise.items():
        one, other = first.true[address], second.true.get(address, {})
        cells = {*one} & {*other} if address in first.threshold else {*one} | {*other}
        distances = Counter(abs(one.get(cell, 0) - other.get(cell, 0)) for cell in cells)
        del distances[0]
        l1, squared = (sum(times * distance**power for distance, times in distances.items()) for power in (1, 2))
        found.append(Moved(address, l1, squared, noise, distances))
    return found


def contradictions(statement: Mapping[str, Any], first: Run, second: Run) -> list[str]:
    """Where two runs contradict the statement: other noise, data sets further apart than stated, more spent."""
    measured: dict[Address, Mapping[str, Any]] = {
        (each["level"], each["statistic"]): each for each in statement["levels"] if each["measured"]
    }
    differences = moved(first, second)
    found = [f"{address} is measured of one of the data sets only" for address in {*first.noise} ^ {*second.noise}]
    for one in differences:
        beside = one.address[-1] in BESIDE_THE_LEVELS
        stated = statement.get(KEYS[str(one.address[-1])]) if beside else measured.get(one.address)
        if stated is None:
            found.append(f"cells below {one.address} get noise, which the statement does not have")
            continue
        found += _of_noise(one.address, stated, first, second)
        most = stated["sensitivity"]
        if one.l1 > most["l1"] or one.squared > most["l2"] ** 2 * ROUNDING:
            found.append(f"{one.address} moves by {one.l1} in L1 and {one.squared} in L2², beyond {most}")
        if one.address in first.threshold:
            found += _of_threshold(one, stated, statement["spent"]["delta"], first, second)
    spent, laplace = statement["spent"], {each.noise.distribution for each in differences} == {"discrete_laplace"}
    limit = spent["epsilon"] if laplace else spent.get("rho")
    cost = sum((each.cost for each in differences), Fraction(0))
    if limit is not None and cost > limit * ROUNDING:
        found.append(f"the loss is {float(cost):.6g}, where {limit:.6g} is stated")
    if not laplace and "delta" in spent:
        cells = Counter[tuple[int, float]]()
        for one in differences:
            cells.update({(each, float(one.noise.scale)): times for each, times in one.distances.items()})
        delta = delta_of_moves(cells, spent["epsilon"])
        if delta > spent["delta"] * ROUNDING:
            found.append(
                f"delta is {delta:.6g} at epsilon {spent['epsilon']:.6g}, where {spent['delta']:.6g} is stated"
            )
    return found


def _of_noise(address: Address, stated: Mapping[str, Any], *runs: Run) -> list[str]:
    """The noise of every run is that of the statement, so that it does not follow from the data either."""
    wanted = Noise(stated["noise"]["distribution"], Fraction(stated["noise"]["scale_exact"]))
    others = {run.noise[address] for run in runs if address in run.noise} - {wanted}
    return [f"the cells below {address} have {other!r}, where {wanted!r} is stated" for other in others]


def _of_threshold(one: Moved, stated: Mapping[str, Any], delta: float, first: Run, second: Run) -> list[str]:
    """A node that one data set alone has is shown with a probability of at most δ.

    With noise of scale b, P(X ≥ k) = q^k / (1 + q) for k ≥ 1, where q = exp(−1/b).
    """
    threshold = stated["threshold"]
    others = {run.threshold[one.address] for run in (first, second)} - {threshold}
    found = [f"the threshold of {one.address} is {other}, where {threshold} is stated" for other in others]
    q = math.exp(-1 / one.noise.scale)
    for run, other in ((first, second), (second, first)):
        mine, theirs = run.true.get(one.address, {}), other.true.get(one.address, {})
        hidden = [1 - q ** (threshold - count) / (1 + q) for cell, count in mine.items() if cell not in theirs]
        if 1 - math.prod(hidden) > delta * ROUNDING:
            found.append(
                f"a node of {one.address} that one data set alone has is shown with a probability of "
                f"{1 - math.prod(hidden):.3g}, where {delta:.3g} is stated"
            )
    return found
