"""Optimal matching of a parent's groups to those of its children, on runs of equal groups (Kuo et al. 2018)."""

from tallytree.solvers.sizes.matching import Matches, Runs, match

__all__ = ["Matches", "Runs", "match"]
