"""Where the work on the records runs: the same names in each engine."""

from tallytree.engines.local import Local

__all__ = ["Local"]
