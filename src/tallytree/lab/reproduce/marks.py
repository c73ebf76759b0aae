"""One color and one shape for each mechanism, in every figure."""

from __future__ import annotations

from collections.abc import Sequence

from tallytree.lab._internals import Scheme

MARKS = {
    # Kuo et al. 2018
    "Naive": ("muted", "diamond"),
    "Hc": ("accent", "circle"),
    "Hg": ("orange", "square"),
    "bottom-up": ("pink", "triangle-down"),
    "Hc matched": ("accent", "triangle-up"),
    "Hg matched": ("orange", "triangle-up"),
    "Hc above Hg": ("green", "triangle-right"),
    "Hg above Hc": ("yellow", "triangle-left"),
    # Fioretto et al. 2021
    "M_H": ("text", "square"),
    "M_H^r": ("muted", "square"),
    "M_H^dp": ("orange", "circle"),
    "M_dp^OP": ("text", "triangle-up"),
    "M_c": ("text", "diamond"),
    "M_c^r": ("muted", "triangle-up"),
    "M_c^dp": ("accent", "square"),
    "M_c^ch": ("green", "diamond"),
    "TopDown": ("pink", "triangle-up"),
    # Boninsegna and Silvestri 2025
    "InfTDA": ("accent", "diamond"),
    "InfTDA, descending": ("pink", "circle"),
    "TDA, Euclidean": ("orange", "diamond"),
    "TDA, black box": ("green", "circle"),
    "SH": ("yellow", "triangle-up"),
    "VanillaGauss": ("muted", "triangle-down"),
    "Theorem 4": ("text", "cross"),
    "Proposition 1": ("text", "stroke"),
    "Proposition 1, SH": ("yellow", "stroke"),
    "bound of this tree": ("pink", "cross"),
    # ours
    "LeastSquares": ("pink", "square"),
    "Joint": ("yellow", "circle"),
}
"""By the mechanism's name in the figures: a color of the scheme and a shape of Vega."""
EXACT = "exact"
"""The mechanism of figures that no noise has part in."""


def colors(mechanisms: Sequence[str], scheme: Scheme) -> list[str]:
    """The color of each mechanism, as #rrggbb."""
    return [scheme.text if name == EXACT else str(getattr(scheme, MARKS[name][0])) for name in mechanisms]


def shapes(mechanisms: Sequence[str]) -> list[str]:
    """The shape of each mechanism's points, as Vega calls it."""
    return ["circle" if name == EXACT else MARKS[name][1] for name in mechanisms]
