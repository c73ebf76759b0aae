"""No message about records depends on how many there are, of those at fault or of all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import tallytree as tt
from helpers.inside import ContributionBound
from helpers.refused_records import LEAF, TOWN
from helpers.tabulating import count_records, group_rows, group_sizes
from tallytree.engines import Engine, Local

AREAS = tt.Hierarchy.from_values("leaf", ["1", "2"])
GOOD = {"leaf": "1", "region": "A", "town": "a", "id": "k", "who": "p", "n": 1, "g": 1, "to": "1"}


def counted(engine: Engine, records: pa.Table) -> Any:
    return count_records(engine, records, [LEAF], count="n")


def towns(engine: Engine, records: pa.Table) -> Any:
    return count_records(engine, records, [TOWN])


def bounded(engine: Engine, records: pa.Table) -> Any:
    return count_records(engine, records, [LEAF], bound=ContributionBound("who", 1, bytes(32)))


def grouped(engine: Engine, records: pa.Table) -> Any:
    return group_sizes(engine, records, LEAF, group="id", smallest=0, largest=9)


def stated(engine: Engine, records: pa.Table) -> Any:
    return group_rows(engine, records, LEAF, size="n", groups="g", smallest=0, largest=9)


def flows(engine: Engine, records: pa.Table) -> Any:
    options = {"budget": tt.Budget(epsilon=1), "neighboring": "add_remove", "engine": engine}
    return tt.release_flows(records, origins=AREAS, destinations=AREAS, origin=["leaf"], destination=["to"], **options)


def listed(engine: Engine, records: pa.Table) -> Any:
    impossible = pa.table({"leaf": ["2"], "g": ["7"]})
    product = tt.Product({"leaf": AREAS, "g": tt.Hierarchy.from_values("g", ["1", "7"])}, impossible=impossible)
    options = {"tables": [("leaf", "g")], "neighboring": "add_remove", "engine": engine}
    return tt.release_tables(records, product, tt.Budget(epsilon=1), **options)


def huge(engine: Engine, records: pa.Table) -> Any:
    mechanism = tt.counts.TopDown()
    return tt.release_counts(
        records, AREAS, tt.Budget(epsilon=1), neighboring="add_remove", count="n", mechanism=mechanism, engine=engine
    )


REFUSED: dict[str, tuple[Callable[[Engine, pa.Table], Any], dict[str, Any]]] = {
    "a record outside the hierarchy": (counted, {"leaf": "9"}),
    "a record outside below a known label": (towns, {"region": "B", "town": "z"}),
    "a trip outside": (flows, {"to": "9"}),
    "a membership outside": (grouped, {"leaf": "9"}),
    "stated groups outside": (stated, {"leaf": "9"}),
    "a number below 0": (counted, {"n": -3}),
    "a size below 0": (stated, {"n": -3}),
    "no key": (counted, {"leaf": None}),
    "no group": (grouped, {"id": None}),
    "nobody": (bounded, {"who": None}),
    "a group in two leaves": (grouped, {"leaf": "2"}),
    "an impossible combination": (listed, {"leaf": "2", "g": 7}),
    "more than can be added up": (huge, {"n": 2**59}),
}


def another(value: Any, number: int) -> Any:
    """Another label that is not there, or another number that is wrong: records at fault differ from each other."""
    if value in KNOWN or value is None or not number:
        return value
    return f"{value}{number}" if isinstance(value, str) else value - number


KNOWN = ("1", "2", "A", "B", 7)


@pytest.mark.parametrize("fault", REFUSED)
def test_no_message_depends_on_how_many_records_there_are(fault: str) -> None:
    work, change = REFUSED[fault]
    at_fault = [GOOD | {name: another(value, number) for name, value in change.items()} for number in range(9)]
    said = []
    for good, bad in ((3, 1), (3, 5), (8, 1), (1, 7)):
        records = pa.Table.from_pylist([GOOD] * good + at_fault[:bad])
        with pytest.raises(ValueError) as caught:
            work(Local(), records)
        said.append(str(caught.value))
    assert set(said) == {said[0]}
