"""How far released tables are from true ones, and experiments that compare mechanisms."""

from tallytree.evaluate.compared_data import Data
from tallytree.evaluate.comparison import compare, summary
from tallytree.evaluate.level_metrics import COUNT_METRICS, GROUP_SIZE_METRICS, LevelResult

__all__ = ["COUNT_METRICS", "GROUP_SIZE_METRICS", "Data", "LevelResult", "compare", "summary"]
