"""Mechanisms for tables, and what tables are; give a mechanism as `mechanism=`."""

from tallytree.tables.layout import Table, TableLayout
from tallytree.tables.least_squares import LeastSquares
from tallytree.tables.mechanism import FittedTables, PublicTotals, TablesMechanism

__all__ = [
    "FittedTables",
    "LeastSquares",
    "PublicTotals",
    "Table",
    "TableLayout",
    "TablesMechanism",
]


def __dir__() -> list[str]:
    """The public names, for tab completion."""
    return ["LeastSquares", "TablesMechanism"]
