"""Tables and queries of a real PostgreSQL server."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest

import tallytree as tt
from helpers.counted import COMMON, counts, said
from tallytree.ledger import Ledger
from tallytree.sources import postgresql as module
from tallytree.sources.locate import locate
from tallytree.sources.reading import read_public
from tallytree.sources.same_tables import refuse_private
from tallytree.spec import load_spec

pytestmark = [pytest.mark.slow, pytest.mark.needs("adbc_driver_postgresql")]

PEOPLE = pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "x"], "n": [1, 2, 3]})
MAKE = """
CREATE TYPE region AS ENUM ('A', 'B');
CREATE TABLE people (state region, county char(5), n numeric, who numeric, name text, born date);
INSERT INTO people VALUES ('A', 'x', 1.0, 7.0, 'NAME-1', '2000-01-01'), ('A', 'y', 2, 7.00, 'NAME-2', NULL),
    ('B', 'x', 3.00, 8, 'NAME-3', NULL);
CREATE SCHEMA "the Lake";
CREATE VIEW "the Lake"."People" AS SELECT * FROM people
"""


@pytest.fixture
def people(database: Any) -> Any:
    database.run('DROP SCHEMA IF EXISTS "the Lake" CASCADE;' + MAKE)
    return database


def test_a_table_a_view_and_a_query_are_read(people: Any) -> None:
    whole = counts(PEOPLE, count="n")
    for given in (
        {"table": "people"}, {"table": "public.people"}, {"table": "the Lake.People"},
        {"query": "SELECT state, county, n FROM people; "}, {"query": "SELECT * FROM people -- all of them"},
    ):  # fmt: skip
        assert counts(tt.sources.PostgreSQL(people.url, **given), count="n") == whole
    areas = tt.sources.PostgreSQL(people.url, table="people")
    assert tt.Hierarchy.from_table(areas, ["state", "county"]).n_leaves == 3
    assert read_public(areas, ["county", "state"], "areas").to_pylist()[0] == {"county": "x", "state": "A"}


def test_equal_numbers_are_one_person_however_they_are_written(people: Any) -> None:
    table = tt.sources.PostgreSQL(people.url, table="people")
    schema = locate(table, "records").schema
    assert {schema.field(name).type for name in ("who", "state", "county", "n")} == {pa.string()}
    assert read_public(table, ["who"], "areas").column(0).to_pylist() == ["7", "7", "8"]
    exact = {**COMMON, "budget": tt.Budget(epsilon=10_000), "person": "who"}
    assert sum(tt.release_counts(table, **exact).table("county")["count"].to_pylist()) == 2


def test_only_wanted_columns_in_batches_and_read_only(people: Any, monkeypatch: Any) -> None:
    people.run("CREATE TABLE long AS SELECT 'A' AS state, 'x' AS county, g AS who, repeat('NAME-', 20) AS name "
               "FROM generate_series(1, 400000) AS g")  # fmt: skip
    scan = locate(tt.sources.PostgreSQL(people.url, table="long"), "records")
    monkeypatch.setattr(module, "BATCH_BYTES", 1 << 18)
    batches = list(scan.batches(["who", "state"], "records"))
    assert [batch.schema.names for batch in batches[:1]] == [["who", "state"]]
    assert sum(batch.num_rows for batch in batches) == 400_000
    assert max(batch.nbytes for batch in batches) < 1 << 19
    people.run("CREATE FUNCTION write() RETURNS int LANGUAGE sql AS 'DELETE FROM people RETURNING 1'")
    with pytest.raises(OSError, match=r"^records: PostgreSQL did not give the rows to their end"):
        counts(tt.sources.PostgreSQL(people.url, query="SELECT 'A' AS state, 'x' AS county, write() AS n"), count="n")
    assert counts(tt.sources.PostgreSQL(people.url, table="people")) == counts(PEOPLE)  # nothing was deleted


def test_what_the_server_says_is_withheld(people: Any, tmp_path: Any, capfd: Any, caplog: Any) -> None:
    caplog.set_level(0)
    Ledger(tmp_path / "ledger.db").set_limit("people", tt.Budget(epsilon=5), neighboring="add_remove")
    failing = "SELECT state, county, name::int AS n FROM people"
    with pytest.raises(OSError, match=r"withheld, since it may quote a record") as caught:
        counts(tt.sources.PostgreSQL(people.url, query=failing), count="n", ledger=tmp_path / "ledger.db",
               dataset="people", seed=None)  # fmt: skip
    assert Ledger(tmp_path / "ledger.db").entries() == ()
    shown = said(caught.value) + capfd.readouterr().err + caplog.text
    assert not any(private in shown for private in ("NAME-", people.password, failing, "publisher"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"table": "nothing"}, r"^records: the table 'nothing' cannot be read \(SQLSTATE 42P01\); there is no such"),
        ({"table": "PEOPLE"}, r"letter for letter"),
        ({"query": "SELECT nothing FROM people"}, r"^records: the query cannot be read \(SQLSTATE 42703\)"),
        ({"query": "DELETE FROM people"}, r"^records: the query cannot be read \(SQLSTATE 42601\); it is not valid"),
        ({"query": "SELECT born AS state, 'x' AS county FROM people"}, r"column 'state' holds date32"),
    ],
)
def test_what_cannot_be_read(people: Any, given: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        counts(tt.sources.PostgreSQL(people.url, **given))


@pytest.mark.parametrize("wrong", ["password", "port", "database"])
def test_a_database_that_cannot_be_opened(people: Any, monkeypatch: Any, wrong: str) -> None:
    url = people.url
    if wrong == "password":
        monkeypatch.setenv("PGPASSWORD", "WRONG-password")
    url = url.replace(str(people.port), "1") if wrong == "port" else url
    url = url.replace("/postgres", "/nowhere") if wrong == "database" else url
    with pytest.raises(OSError, match=r"^records: the PostgreSQL database cannot be opened; is the server") as caught:
        counts(tt.sources.PostgreSQL(url, table="people"))
    assert not any(each in said(caught.value) for each in ("WRONG-password", people.password, "nowhere"))


def test_a_server_that_ends_the_session_half_way(people: Any) -> None:
    people.run(
        "CREATE VIEW slow AS SELECT 'A' AS state, 'x' AS county, pg_sleep(0.001)::text AS slept "
        "FROM generate_series(1, 100000)"
    )
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%slow%' AND pid <> pg_backend_pid()"

    over = threading.Event()

    def end_it() -> None:
        while not over.wait(0.7):  # on a busy machine the query may begin later
            people.run(end)

    ending = threading.Thread(target=end_it)
    ending.start()
    try:
        with pytest.raises(OSError, match=r"^records: PostgreSQL did not give the rows to their end"):
            counts(tt.sources.PostgreSQL(people.url, query="SELECT state, county, slept FROM slow"), person="slept")
    finally:
        over.set()
        ending.join()


def test_a_spec_names_the_database_and_the_table_alone(people: Any, tmp_path: Any) -> None:
    text = f"""\
    statistic: counts
    records: {{postgresql: "{people.url}", query: "SELECT state, county FROM people WHERE name <> 'SOMEBODY'"}}
    hierarchy: {{path: {{postgresql: "{people.url}", table: the Lake.Areas}}, levels: [state, county]}}
    budget: {{epsilon: 1}}
    neighboring: change_one
    seed: 1
    """
    people.run('CREATE TABLE "the Lake"."Areas" AS SELECT state, county FROM people')
    (tmp_path / "spec.yaml").write_text(text)
    release = load_spec(tmp_path / "spec.yaml").release(tmp_path / "out")
    assert release.spec["records"] == {"postgresql": "postgres", "query": "<query>"}
    everything = "".join(each.read_text(errors="replace") for each in (tmp_path / "out").rglob("*") if each.is_file())
    assert not any(each in everything for each in ("127.0.0.1", "publisher@", "SOMEBODY", people.password))


def test_codes_are_joined_with_a_public_table_of_the_database(people: Any, tmp_path: Any) -> None:
    people.run(
        "CREATE TABLE lake_areas AS SELECT * FROM (VALUES ('A', '01'), ('A', '02'), ('B', '03')) AS areas(state, code);"
        "CREATE TABLE lake_people AS SELECT * FROM (VALUES ('01'), ('01'), ('03'), ('9'), (NULL)) AS people(home)"
    )
    (tmp_path / "spec.yaml").write_text(
        f"""
    statistic: counts
    records: {{postgresql: "{people.url}", table: lake_people}}
    hierarchy: {{postgresql: "{people.url}", table: lake_areas, levels: [state, code]}}
    leaf: home
    on_unknown: {{code: "02"}}
    budget: {{epsilon: 100000}}
    neighboring: add_remove
    seed: 1
    """
    )
    release = load_spec(tmp_path / "spec.yaml").release(tmp_path / "out")
    assert release.table("code")["count"].to_pylist() == [2, 2, 1]
    people.run("DROP TABLE lake_areas; DROP TABLE lake_people")


def test_the_private_table_is_found_by_every_address(people: Any) -> None:
    def table(url: str = people.url, name: str = "people") -> Any:
        return tt.sources.PostgreSQL(url, table=name)

    private = table()
    for public in (private, table(), table(people.url + "?sslmode=prefer"), table(name="public.people")):
        with pytest.raises(ValueError, match=r"^hierarchy: it is the private table that is given as records"):
            refuse_private(public, "hierarchy", private, "records")
    refuse_private(table(name="areas"), "hierarchy", private, "records")


def test_the_private_table_is_found_by_every_name_of_its_server_and_in_queries(people: Any) -> None:
    people.run(
        "CREATE TABLE areas (state region); CREATE TABLE trips (year int, state text) PARTITION BY LIST (year);"
        'CREATE TABLE "it\'s" PARTITION OF trips FOR VALUES IN (2026)'
    )

    def table(name: str, url: str = people.url) -> Any:
        return tt.sources.PostgreSQL(url, table=name)

    def query(text: str) -> Any:
        return tt.sources.PostgreSQL(people.url, query=text)

    private = table("people")
    joined = query("SELECT county, areas.state FROM people JOIN areas USING (state)")
    for public, records in (
        (table("people", people.url.replace("127.0.0.1", "localhost")), private),
        (table("people", f"postgresql://publisher@/postgres?host={people.folder}&port={people.port}"), private),
        (table("people", f"postgresql://publisher@127.0.0.1:{people.port}/template1?dbname=postgres"), private),
        (query("SELECT DISTINCT state FROM people"), private),
        (private, query("SELECT * FROM people WHERE name <> ''")),
        (table("the Lake.People"), private),
        (query("SELECT 1 AS a WHERE EXISTS (SELECT FROM people)"), private),
        (joined, private),
        (query("SELECT state, county FROM areas JOIN people USING (state)"), joined),
        (table("it's"), table("trips")),
    ):
        with pytest.raises(ValueError, match=r"^hierarchy: it is the private table that is given as records"):
            refuse_private(public, "hierarchy", records, "records")
    for public in (
        table("areas"), table("areas", people.url.replace("127.0.0.1", "localhost")), query("SELECT 1 AS a"),
        query("no SQL"), table("people", people.url.replace("/postgres", "/template1")),
        table("people", people.url.replace(str(people.port), "1")),
    ):  # fmt: skip
        refuse_private(public, "hierarchy", private, "records")
        refuse_private(public, "hierarchy", query("SELECT state FROM people"), "records")
    refuse_private(table("areas"), "hierarchy", joined, "records")  # what was joined may be public


def test_a_table_and_those_that_inherit_from_it_are_one(people: Any) -> None:
    people.run(
        "CREATE TABLE visits (year int, state text); CREATE TABLE visits_2026 () INHERITS (visits);"
        "CREATE TABLE visits_may () INHERITS (visits_2026)"
    )

    def query(text: str) -> Any:
        return tt.sources.PostgreSQL(people.url, query=text)

    private = tt.sources.PostgreSQL(people.url, table="visits")
    for part in ("ONLY visits", "visits_2026", "ONLY visits_2026", "visits_may"):
        with pytest.raises(ValueError, match=r"^hierarchy: it is the private table that is given as records"):
            refuse_private(query(f"SELECT DISTINCT state FROM {part}"), "hierarchy", private, "records")
    refuse_private(tt.sources.PostgreSQL(people.url, table="areas"), "hierarchy", private, "records")


def test_a_query_that_takes_too_long_is_stopped(people: Any, monkeypatch: Any) -> None:
    slow = "SELECT state, county FROM people WHERE pg_sleep({}) IS NOT NULL"
    monkeypatch.setattr(module, "QUERY_SECONDS", 0.3)
    with pytest.raises(OSError, match=r"rows to their end.*statement_timeout"):
        counts(tt.sources.PostgreSQL(people.url, query=slow.format(60)))
    monkeypatch.setenv("PGOPTIONS", "-c statement_timeout=60s")
    assert counts(tt.sources.PostgreSQL(people.url, query=slow.format(0.2))) == counts(PEOPLE)
