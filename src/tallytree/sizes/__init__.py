"""Mechanisms for group sizes: one file each, chosen with `mechanism=`."""

from tallytree.sizes.matching import Matching
from tallytree.sizes.mechanism import LevelSizes, SizesDomain, SizesMechanism

__all__ = ["LevelSizes", "Matching", "SizesDomain", "SizesMechanism"]
