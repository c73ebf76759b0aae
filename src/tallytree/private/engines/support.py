"""Which tables each engine reads, and how, as a table for the documentation; made from what the engines declare."""

from __future__ import annotations

from tallytree.private.engines.local import Local
from tallytree.private.engines.spark import Spark


def support_table() -> str:
    """A table in Markdown: a row per kind of table or column, a column per engine."""
    engines = (Local, Spark)
    rows = [f"| | {' | '.join(f'`{engine.__name__}`' for engine in engines)} |", "| --- " * (len(engines) + 1) + "|"]
    kinds = dict.fromkeys(kind for engine in engines for kind in engine.support)
    rows += [f"| {kind} | {' | '.join(engine.support.get(kind, 'no') for engine in engines)} |" for kind in kinds]
    return "\n".join(rows)
