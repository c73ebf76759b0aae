"""Isotonic regression: the non-decreasing numbers that are nearest to others."""

from tallytree.solvers.sizes.isotonic import Norm, fit

__all__ = ["Norm", "fit"]
