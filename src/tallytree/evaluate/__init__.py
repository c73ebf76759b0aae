"""How far released tables are from true ones, and experiments that compare mechanisms: of `tallytree.lab.compare`."""

from tallytree.lab.compare import COUNT_METRICS, GROUP_SIZE_METRICS, Data, LevelResult, compare, summary

__all__ = ["COUNT_METRICS", "GROUP_SIZE_METRICS", "Data", "LevelResult", "compare", "summary"]
