"""The statements in Spark's dialect."""

import pytest

from tallytree.private.tabulate.session import DUCKDB_FUNCTIONS

pytestmark = pytest.mark.needs("sqlglot")


def test_every_function_of_the_statements_has_a_definition_for_spark():
    from tallytree.private.tabulate.spark_session import SPARK_FUNCTIONS

    assert {signature.partition("(")[0] for signature in DUCKDB_FUNCTIONS} == set(SPARK_FUNCTIONS)


def test_calls_within_calls_are_replaced_and_integers_put_in():
    from tallytree.private.tabulate.spark_session import rendered

    query = "SELECT exact_sum(least(utf8_length(v), $most)) AS s FROM t WHERE full_match(v, '[0-9]+')"
    assert rendered(query, {"most": 3}) == (
        "SELECT SUM(CAST(LEAST(OCTET_LENGTH(v), 3) AS DECIMAL(38, 0))) AS s FROM t "
        "WHERE CONCAT(v, 'x') RLIKE '^([0-9]+)x$'"
    )


def test_a_key_is_in_no_statement():
    from tallytree.private.tabulate.spark_session import rendered

    assert rendered("SELECT keyed_place($key, v) AS place FROM t", {}) == "SELECT TALLYTREE_PLACE(v) AS place FROM t"
    with pytest.raises(ValueError, match="parameter 'key': a plan holds integers only"):
        rendered("SELECT $key AS k", {"key": b"0" * 32})


def test_patterns_that_engines_read_in_different_ways_are_refused():
    from tallytree.private.tabulate.spark_session import rendered

    with pytest.raises(ValueError, match="backslash"):
        rendered(r"SELECT full_match(v, '\d') AS m FROM t", {})
