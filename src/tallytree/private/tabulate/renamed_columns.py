"""The wanted columns of records under our names, as expressions in DuckDB's dialect.

The names are k0, k1, … for the columns of paths; g for the group or household, or the person where there is neither; p
for the person beside one; v0, v1 for the numbers. So no name given by a user is part of a statement.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tallytree.private.tabulate.in_period import in_period
from tallytree.private.tabulate.leaf_statistics import MAX_TOTAL
from tallytree.private.tabulate.records import Records, is_narrow_decimal
from tallytree.sources.text_columns import is_text_type

_EXACT_FLOATS = 2**53
"""Below this every integer has an exact float."""


def renamed_columns(records: Records, values: Sequence[str], types: Sequence[pa.DataType]) -> str:
    """Column by column: `c5 AS k0`, numbers validated.

    Args:
        records: the records, whose wanted columns these are.
        values: per wanted column, the expression that reads it, such as `c5`.
        types: per wanted column, its type.
    """
    columns, path, numbers = [], 0, 0
    for column, value, found in zip(records.wanted, values, types, strict=True):
        if column.days is not None:  # it decides which rows there are
            inside = in_period(value, found, column.days)
            if column.unreadable == "refused":
                columns.append(f"({inside}) IS NULL AS undated")
            elif column.unreadable == "shown":
                columns.append(f"CASE WHEN {value} IS NULL THEN FALSE ELSE {inside} END AS inside")
                columns.append(f"nullif(CAST({value} AS VARCHAR), '') AS day")
            continue
        kind = found.value_type if pa.types.is_dictionary(found) else found
        if column.use == "key":
            columns.append(f"{value} AS k{path}")
            path += 1
        elif column.use in ("group", "household"):
            # An empty text is no id, in no format: a CSV file cannot tell it from a null.
            columns.append(f"{_text_id(value) if is_text_type(kind) else value} AS g")
        elif column.use == "person":
            name = id_columns(records)[-1]
            # Integers stay: they are quicker to group, and are united with another file's text as text. An empty text
            # is no id, in no format: all who have none would be one person.
            columns.append(f"{value if pa.types.is_integer(kind) else _text_id(value)} AS {name}")
        elif column.use == "number":
            columns.append(f"{_integer(value, kind)} AS v{numbers}")
            numbers += 1
    if rest := [value for column, value in zip(records.wanted, values, strict=True) if column.use == "rest"]:
        columns.append(f"hash({', '.join(rest)}) AS whole")
    return ", ".join(columns)


def id_columns(records: Records) -> list[str]:
    """Our names of the columns with ids, in their order: the group is `g`, and the person where there is no group."""
    uses = [column.use for column in records.wanted if column.use in ("group", "household", "person")]
    return ["g", "p"][: len(uses)]


def _text_id(value: str) -> str:
    return f"nullif(CAST({value} AS VARCHAR), '')"


def _integer(value: str, kind: pa.DataType) -> str:
    """The number as BIGINT, and NULL for everything that is not an integer from 0 to 2^62.

    Casts round ('3.5' becomes 4), so a value is cast only after the test that it is an integer.
    """
    if pa.types.is_floating(kind):
        test = f"{value} >= 0 AND {value} < {_EXACT_FLOATS} AND {value} = floor({value})"
    elif is_text_type(kind) or is_narrow_decimal(kind):
        # Decimals are written out exactly, digit by digit.
        test = f"full_match(CAST({value} AS VARCHAR), '[+]?[0-9]+([.]0*)?')"
        value = f"split_part(CAST({value} AS VARCHAR), '.', 1)"
    else:
        test = f"{value} >= 0"
    number = f"TRY_CAST({value} AS BIGINT)"
    return f"CASE WHEN {test} AND {number} <= {MAX_TOTAL} THEN {number} END"
