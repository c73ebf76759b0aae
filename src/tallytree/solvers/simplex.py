"""Non-negative integers with a given sum that are nearest to others, in two norms."""

from tallytree.solvers.trees.simplex import Order, chebyshev, euclidean

__all__ = ["Order", "chebyshev", "euclidean"]
