"""Non-negative numbers on a tree, each the sum of its children, that are nearest to others."""

from tallytree.solvers.trees.project import is_optimal, project

__all__ = ["is_optimal", "project"]
