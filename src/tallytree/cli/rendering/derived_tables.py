"""What a derived table says, in sentences: differences, and areas that are not compared."""

from __future__ import annotations

from itertools import takewhile

import pyarrow as pa
import pyarrow.compute as pc

from tallytree.numbers.changes import AREAS, EARLIER, RELEASE
from tallytree.numbers.crosswalk import BY_WEIGHT, ONLY_EARLIER, ONLY_LATER

MOST_NAMED = 10
_SAID = {
    ONLY_EARLIER: "Not compared, since only the earlier release has them",
    ONLY_LATER: "Not compared, since only the later release has them",
    BY_WEIGHT: "Estimated by weight, which intervals take as exact",
}


def sentences(table: pa.Table) -> list[str]:
    """What a reader of a derived table must know of its rows."""
    if "difference" in table.column_names:
        return [_difference(row) for row in table.to_pylist()]
    if AREAS not in table.column_names:
        return []
    said = []
    for how, text in _SAID.items():
        rows = table.filter(pc.equal(table.column(AREAS), how)).select(_paths(table))
        names = list(dict.fromkeys(", ".join(row.values()) for row in rows.to_pylist()))
        if names:
            more = f"; and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
            said.append(f"{text}: {len(names):,} ({'; '.join(names[:MOST_NAMED])}{more}).")
    return said


def _paths(table: pa.Table) -> list[str]:
    return list(takewhile(lambda name: name not in (EARLIER, RELEASE), table.column_names))


def _difference(row: dict[str, object]) -> str:
    number, low, high = (int(str(row[name])) for name in ("difference", "ci_lower", "ci_upper"))
    more = "more than" if number >= 0 else "fewer than"
    reach = max(high - number, number - low)
    return f"{row['first']} has {abs(number):,} {more} {row['second']}, ± {reach:,}: {row['verdict']}."
