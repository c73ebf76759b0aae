"""How far released tables are from true ones, and experiments that compare mechanisms: of `tallytree.lab.compare`."""

from tallytree.lab.compare import (
    BENCHMARK_METRICS,
    COUNT_METRICS,
    GROUP_SIZE_METRICS,
    Data,
    LevelResult,
    compare,
    differences,
    plot,
    summary,
)

__all__ = [
    "BENCHMARK_METRICS",
    "COUNT_METRICS",
    "GROUP_SIZE_METRICS",
    "Data",
    "LevelResult",
    "compare",
    "differences",
    "plot",
    "summary",
]
