"""Mechanisms for counts: one file each, chosen with `mechanism=`."""

from tallytree.counts.leaf_gaussian import LeafGaussian
from tallytree.counts.least_squares import LeastSquares
from tallytree.counts.mechanism import CountsMechanism
from tallytree.counts.released_counts import ReleasedCounts
from tallytree.counts.stability_histogram import StabilityHistogram
from tallytree.counts.top_down import TopDown

__all__ = [
    "CountsMechanism",
    "LeafGaussian",
    "LeastSquares",
    "ReleasedCounts",
    "StabilityHistogram",
    "TopDown",
]
