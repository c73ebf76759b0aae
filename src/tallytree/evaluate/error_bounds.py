"""Bounds on the error of `TopDown` before anything is spent, of `tallytree.lab.compare`."""

from tallytree.lab.compare.error_bounds import theorem_4_bound, top_down_error_bound

__all__ = ["theorem_4_bound", "top_down_error_bound"]
