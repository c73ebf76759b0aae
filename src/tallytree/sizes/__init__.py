"""Mechanisms for group sizes, one module each; give one as `mechanism=`."""

from tallytree.sizes.bottom_up import BottomUp
from tallytree.sizes.census_top_down import CensusTopDown
from tallytree.sizes.chain import Chain
from tallytree.sizes.cumulative_projection import CumulativeProjection
from tallytree.sizes.histogram_projection import HistogramProjection
from tallytree.sizes.independent import Independent
from tallytree.sizes.joint import Joint
from tallytree.sizes.matching import Matching
from tallytree.sizes.mean_consistency import MeanConsistency
from tallytree.sizes.mechanism import ReleasedSizes, SizesDomain, SizesMechanism
from tallytree.sizes.private_maximum import PrivateMaximum

__all__ = [
    "BottomUp",
    "CensusTopDown",
    "Chain",
    "CumulativeProjection",
    "HistogramProjection",
    "Independent",
    "Joint",
    "Matching",
    "MeanConsistency",
    "PrivateMaximum",
    "ReleasedSizes",
    "SizesDomain",
    "SizesMechanism",
]


def __dir__() -> list[str]:
    """The public names, for tab completion."""
    return __all__
