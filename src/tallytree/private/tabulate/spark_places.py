"""`keyed_place` on executors: the key of the contribution bound is fetched from the driver; see `spark_answers`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from tallytree.private.tabulate.spark_answers import Where, fetching


def place_function(where: Where) -> Any:
    """`keyed_place` as a function of Spark: see `dialect.DUCKDB_FUNCTIONS`.

    It is a closure with imports of its own, so executors need pyarrow, and not this package.
    """
    fetched = fetching(where)

    def place(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        import hashlib

        import pyarrow as pa

        begun = hashlib.sha256(fetched(0))

        def of(content: str) -> int:
            one = begun.copy()
            one.update(content.encode())
            return int.from_bytes(one.digest()[:8], "big") >> 4

        for batch in batches:
            yield pa.array([of(content) for content in batch.to_pylist()], pa.int64())

    from pyspark.sql.functions import arrow_udf

    return arrow_udf(_annotated(place), "bigint")


def _annotated(place: Callable[..., Any]) -> Callable[..., Any]:
    """Types as objects, from which Spark takes that the function is one of iterators."""
    place.__annotations__ = {"batches": Iterator[pa.Array], "return": Iterator[pa.Array]}
    return place
