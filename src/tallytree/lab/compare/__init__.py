"""How far released tables are from true ones, and experiments that compare mechanisms."""

from tallytree.lab.compare.benchmark import differences, plot
from tallytree.lab.compare.compared_data import Data
from tallytree.lab.compare.comparison import compare, summary
from tallytree.lab.compare.level_metrics import BENCHMARK_METRICS, COUNT_METRICS, GROUP_SIZE_METRICS, LevelResult

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
