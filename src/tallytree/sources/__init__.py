"""Tables that users give: files, data frames, Arrow, databases; see `locate` for all kinds.

What a path alone cannot say is said with one of the classes here, in Python and, as a mapping, in a spec.
"""

from tallytree.sources.kinds import CSV, DuckDB, Parquet, PostgreSQL

__all__ = ["CSV", "DuckDB", "Parquet", "PostgreSQL"]


def __dir__() -> list[str]:
    """The public names, for tab completion."""
    return __all__
