"""Generators of synthetic data sets and readers of public ones: the modules of `tallytree.lab.datasets`."""

import sys

from tallytree.lab import datasets as _modules
from tallytree.lab.datasets import (
    boninsegna,
    checked_lines,
    commutes,
    fioretto,
    flows,
    group_sizes,
    health,
    households,
    istat,
    italy,
    italy_areas,
    kuo,
    residents,
    united_states,
)

__all__ = ["boninsegna", "commutes", "fioretto", "health", "households", "istat", "italy", "kuo", "residents"]

_MODULES = (
    boninsegna, checked_lines, commutes, fioretto, flows, group_sizes, health, households, istat, italy, italy_areas,
    kuo, residents, united_states,
)  # fmt: skip
# `taxi_trips` has a file of its own here: it reads boundaries and trips, and takes half a second to import.
# `import tallytree.datasets.kuo` gives the same module as `tallytree.lab.datasets.kuo`, not a second copy of it.
sys.modules |= {module.__name__.replace(_modules.__name__, __name__): module for module in _MODULES}
