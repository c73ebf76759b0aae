"""Mechanisms for counts: one file each, chosen with `mechanism=`."""

from tallytree.counts.leaf_gaussian import LeafGaussian
from tallytree.counts.mechanism import CountsMechanism, LevelCounts
from tallytree.counts.stability_histogram import StabilityHistogram
from tallytree.counts.top_down import TopDown

__all__ = ["CountsMechanism", "LeafGaussian", "LevelCounts", "StabilityHistogram", "TopDown"]
