"""What the tests of refused records share: a hierarchy, planted values, and a check that no message shows them."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from helpers.inside import LeafKey
from tallytree.hierarchy import Hierarchy

SECRET = "s3cr3t"  # noqa: S105
NUMBER = 77_712_345
PLANTED = (SECRET, str(NUMBER))

towns = Hierarchy.from_table(
    pa.table({"country": ["X"] * 3, "region": ["A", "A", "B"], "town": ["a", "b", "a"]}), ["country", "region", "town"]
)
TOWN = LeafKey(towns, ("country", "region", "town"))
digits = Hierarchy.from_table(pa.table({"leaf": ["1", "2", "-3"]}), ["leaf"])
LEAF = LeafKey(digits, ("leaf",))


@contextmanager
def refused(
    kind: type[Exception], *says: str, capfd: Any, caplog: Any, planted: tuple[str, ...] = PLANTED
) -> Iterator[None]:
    """The block raises `kind`, whose message says all of `says`; nothing planted is printed, logged or chained."""
    with pytest.raises(kind) as caught:
        yield
    for part in says:
        assert part in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    own = "\n".join(traceback.format_exception_only(caught.value))
    out, err = capfd.readouterr()
    for text in (own, out, err, caplog.text):
        assert not any(value in text for value in planted)


def members(**columns: Any) -> pa.Table:
    return pa.table({"leaf": ["1", "1", "2"], "id": [SECRET, "j", "k"], "n": [NUMBER, 1, 1]} | columns)
