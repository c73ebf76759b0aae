"""Mechanisms for counts, one module each; give one as `mechanism=`."""

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


def __dir__() -> list[str]:
    """The public names, for tab completion."""
    return __all__
