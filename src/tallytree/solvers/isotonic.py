"""Isotonic regression: the non-decreasing numbers that are nearest to others."""

from tallytree._solvers.sizes.isotonic import Norm, fit

__all__ = ["Norm", "fit"]
