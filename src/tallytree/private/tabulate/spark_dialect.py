"""The statements in Spark's dialect: sqlglot renders them, and our own functions are put in place of their calls.

Parameters become literals here. They are public options (a bound, a range of sizes); a secret is never one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import sqlglot
from sqlglot import exp

SUMS = exp.DataType.build("DECIMAL(38, 0)", dialect="spark")
"""The type of sums: a sum of 64-bit integers is exact in it for 10^19 rows, as in DuckDB's HUGEINT."""

PLACE_FUNCTION = "tallytree_place"
"""The function that a session registers for `keyed_place`; it has the key from the driver (see `spark_places`)."""


def rendered(query: str, parameters: Mapping[str, object]) -> str:
    """A statement in Spark's dialect.

    Args:
        query: in DuckDB's dialect, with the functions of `dialect.DUCKDB_FUNCTIONS`.
        parameters: the integers of `$name`.

    Raises:
        ValueError: a parameter that is not an integer, which a plan must not hold.
    """
    tree = sqlglot.parse_one(query, read="duckdb")
    # `find_all` yields a call before the calls within it, so the innermost is replaced first.
    for node in reversed(list(tree.find_all(exp.Anonymous))):
        if node.name.lower() in SPARK_FUNCTIONS:
            node.replace(SPARK_FUNCTIONS[node.name.lower()](*node.expressions))
    for node in list(tree.find_all(exp.Parameter, exp.Placeholder)):
        node.replace(_literal(node.name, parameters))
    text: str = tree.sql(dialect="spark")
    return text


def _literal(name: str, parameters: Mapping[str, object]) -> exp.Expression:
    value = parameters[name]
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"parameter {name!r}: a plan holds integers only")
    return exp.Literal.number(value)


def full_match(content: exp.Expression, pattern: exp.Expression) -> exp.Expression:
    """Spark's patterns are searched for, so both ends are fixed.

    `$` matches before a last line break too; behind an x that is put at the end it matches at the end alone.
    """
    if "\\" in pattern.name:
        raise ValueError("pattern: engines read a backslash in different ways")
    ended = exp.Concat(expressions=[content, exp.Literal.string("x")])
    return exp.RegexpLike(this=ended, expression=exp.Literal.string(f"^({pattern.name})x$"))


def exact_sum(number: exp.Expression) -> exp.Expression:
    """The sum of BIGINT overflows."""
    return exp.Sum(this=exp.Cast(this=number, to=SUMS.copy()))


def utf8_length(content: exp.Expression) -> exp.Expression:
    """The length in bytes."""
    return exp.Anonymous(this="octet_length", expressions=[content])


def utc_day(moment: exp.Expression) -> exp.Expression:
    """The zone of the session is UTC."""
    return exp.Cast(this=moment, to=exp.DataType.build("DATE", dialect="spark"))


def keyed_place(key: exp.Expression, content: exp.Expression) -> exp.Expression:
    """A function of the session, which has the key; the key is no part of the statement."""
    del key
    return exp.Anonymous(this=PLACE_FUNCTION, expressions=[content])


SPARK_FUNCTIONS: dict[str, Callable[..., exp.Expression]] = {
    function.__name__: function for function in (full_match, exact_sum, utf8_length, utc_day, keyed_place)
}
"""Of each function of `dialect.DUCKDB_FUNCTIONS`, what stands in its place."""
