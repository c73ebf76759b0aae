"""Differentially private counts over a public hierarchy: consistent non-negative integers at every level.

Heavy parts are imported when they are first used, so that `import tallytree` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tallytree import counts, engines, sizes, solvers, sources, tables
    from tallytree.api import (
        new_secret,
        release_contributions,
        release_counts,
        release_flows,
        release_group_sizes,
        release_households,
        release_tables,
    )
    from tallytree.budget import Budget
    from tallytree.errors import BudgetExceeded
    from tallytree.hierarchy import Hierarchy
    from tallytree.kinds.contributions import Contributions
    from tallytree.numbers.accuracy.replicate_errors import replicate_errors
    from tallytree.numbers.changes import change, series
    from tallytree.numbers.reconcile import reconcile_group_sizes
    from tallytree.numbers.several_releases import total_of
    from tallytree.product import Product
    from tallytree.release import HouseholdsRelease, Release
    from tallytree.spec.planned_errors import plan

_MODULE_OF = {
    "Budget": "tallytree.budget",
    "BudgetExceeded": "tallytree.errors",
    "Contributions": "tallytree.kinds.contributions",
    "Hierarchy": "tallytree.hierarchy",
    "HouseholdsRelease": "tallytree.release",
    "Product": "tallytree.product",
    "Release": "tallytree.release",
    "change": "tallytree.numbers.changes",
    "new_secret": "tallytree.api",
    "plan": "tallytree.spec.planned_errors",
    "reconcile_group_sizes": "tallytree.numbers.reconcile",
    "release_contributions": "tallytree.api",
    "release_counts": "tallytree.api",
    "release_flows": "tallytree.api",
    "release_group_sizes": "tallytree.api",
    "release_households": "tallytree.api",
    "release_tables": "tallytree.api",
    "replicate_errors": "tallytree.numbers.accuracy.replicate_errors",
    "series": "tallytree.numbers.changes",
    "total_of": "tallytree.numbers.several_releases",
}
_PACKAGES = ("counts", "engines", "sizes", "solvers", "sources", "tables")

__all__ = [
    "Budget",
    "BudgetExceeded",
    "Contributions",
    "Hierarchy",
    "HouseholdsRelease",
    "Product",
    "Release",
    "change",
    "counts",
    "engines",
    "new_secret",
    "plan",
    "reconcile_group_sizes",
    "release_contributions",
    "release_counts",
    "release_flows",
    "release_group_sizes",
    "release_households",
    "release_tables",
    "replicate_errors",
    "series",
    "sizes",
    "solvers",
    "sources",
    "tables",
    "total_of",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name in _MODULE_OF:
        value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    elif name in _PACKAGES:
        value = importlib.import_module(f"tallytree.{name}")
    elif name == "__version__":
        value = importlib.import_module("importlib.metadata").version("tallytree")
    else:
        raise AttributeError(f"module 'tallytree' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """What tab completion offers; `solvers`, whose functions work on plain arrays, is for other programs."""
    return [*(name for name in __all__ if name != "solvers"), "__version__"]
