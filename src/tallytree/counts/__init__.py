"""Mechanisms for counts: one file each, chosen with `mechanism=`."""

from tallytree.counts.leaf_gaussian import LeafGaussian
from tallytree.counts.least_squares import LeastSquares
from tallytree.counts.level_counts import LevelCounts
from tallytree.counts.mechanism import CorrectsUpward, CountsMechanism
from tallytree.counts.stability_histogram import StabilityHistogram
from tallytree.counts.top_down import TopDown

__all__ = [
    "CorrectsUpward",
    "CountsMechanism",
    "LeafGaussian",
    "LeastSquares",
    "LevelCounts",
    "StabilityHistogram",
    "TopDown",
]
