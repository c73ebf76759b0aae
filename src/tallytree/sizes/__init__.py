"""Mechanisms for group sizes: one file each, chosen with `mechanism=`."""

from tallytree.sizes.census_top_down import CensusTopDown
from tallytree.sizes.chain import Chain
from tallytree.sizes.cumulative_projection import CumulativeProjection
from tallytree.sizes.histogram_projection import HistogramProjection
from tallytree.sizes.joint import Joint
from tallytree.sizes.matching import Matching
from tallytree.sizes.mechanism import LevelSizes, SizesDomain, SizesMechanism, UnderstatesLoss, count_violations
from tallytree.sizes.private_maximum import PrivateMaximum

__all__ = [
    "CensusTopDown",
    "Chain",
    "CumulativeProjection",
    "HistogramProjection",
    "Joint",
    "LevelSizes",
    "Matching",
    "PrivateMaximum",
    "SizesDomain",
    "SizesMechanism",
    "UnderstatesLoss",
    "count_violations",
]
