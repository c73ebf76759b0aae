"""Files of a real S3 server: what is found, what of it is read, and what happens when it fails."""

from __future__ import annotations

import gzip
import logging
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

import tallytree as tt
from helpers.counted import counts, said
from helpers.s3_server import BUCKET, S3, parquet
from tallytree.cli.failures import ExitCode, exit_code
from tallytree.sources.failures import SourceError
from tallytree.sources.locate import locate
from tallytree.sources.reading import column_names, read_public
from tallytree.sources.same_tables import refuse_private, stamps_of

pytestmark = [pytest.mark.slow, pytest.mark.needs("moto")]

PEOPLE = pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "x"], "name": ["NAME-1", "NAME-2", "NAME-3"]})


def url(name: str) -> str:
    return f"s3://{BUCKET}/{name}"


@pytest.fixture
def people(s3: S3) -> S3:
    s3.write("people/a.parquet", parquet(PEOPLE))
    s3.write("people/deep/b.parquet", parquet(PEOPLE.slice(0, 1)))
    s3.write("people/_temporary/c.parquet", parquet(PEOPLE))
    s3.write("people/_SUCCESS", b"")
    s3.write("people.csv", b"state,county\nA,x\nA,y\nB,x\nA,x\n")
    return s3


def test_a_folder_a_glob_and_a_list_are_their_files_each_once(people: S3) -> None:
    whole = counts(pa.concat_tables([PEOPLE, PEOPLE.slice(0, 1)]))
    a, b = url("people/a.parquet"), url("people/deep/b.parquet")
    for given in (url("people"), url("people/"), url("people/**/[ab].parquet"), [a, b], [a, url("people"), a],
                  tt.sources.Parquet([b, "s3a" + a[2:]]), url("people.csv")):  # fmt: skip
        assert counts(given) == whole
    assert counts(url("people/*.parquet")) == counts(a) == counts(PEOPLE)


def test_public_tables_and_text_in_other_encodings(people: S3) -> None:
    people.write("régions.txt.gz", gzip.compress('région;n\nÎle\n"a;b";2\n'.encode("latin-1")))
    csv = tt.sources.CSV(url("régions.txt.gz"), separator=";", encoding="latin-1")
    with pytest.raises(ValueError, match="cannot be read as csv"):  # a row with one cell too few
        read_public(csv, ["région"], "areas")
    people.write("régions.txt.gz", gzip.compress('région;n\nÎle;1\n"a;b";2\n'.encode("latin-1")))
    assert read_public(csv, ["région"], "areas").column(0).to_pylist() == ["Île", "a;b"]
    assert tt.Hierarchy.from_table(url("people/a.parquet"), ["state", "county"]).n_leaves == 3


def test_partitions_of_a_lake(s3: S3) -> None:
    for state, rows in (("A", PEOPLE.slice(0, 2)), ("B", PEOPLE.slice(2))):
        s3.write(f"lake/state={state}/part.parquet", parquet(rows.drop_columns(["state"])))
    assert counts(url("lake")) == counts(url("lake/state=*/*.parquet")) == counts(PEOPLE)
    s3.write("lake/state=B/part.parquet", parquet(PEOPLE))
    for given, named in (
        (url("lake"), "state=…"),
        (url("lake/*/*.parquet"), "state=…"),
        (url("lake/state=B"), "state=B"),
    ):
        says = rf"'s3://{BUCKET}/lake/{named}/part\.parquet' has the column 'state' itself, with other values than its"
        with pytest.raises(SourceError, match=says):
            counts(given)


def test_only_the_wanted_columns_are_sent_and_nothing_is_sent_whole(s3: S3) -> None:
    import numpy as np

    rows = 200_000
    noise = np.random.default_rng(1).integers(0, 1 << 62, (6, rows))
    wide = pa.table({"state": ["A", "B"] * (rows // 2), "county": ["x"] * rows} | {f"w{i}": noise[i] for i in range(6)})
    content = parquet(wide, row_group_size=50_000)
    s3.write("wide.parquet", content)
    assert len(content) > 9_000_000
    column_names(locate(url("wide.parquet"), "records"), "records")
    footer = sum(s3.gate.sent.values())
    assert footer < 200_000
    counts(url("wide.parquet"))
    assert sum(s3.gate.sent.values()) < len(content) / 10
    assert all(each is not None for each in s3.gate.ranges)


def test_wrong_credentials(people: S3, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    caplog.set_level(logging.DEBUG)
    people.require_credentials(0)
    try:
        for given in (url("people/a.parquet"), url("people"), [url("people/*.parquet")]):
            with pytest.raises(
                OSError, match=r"records: 's3://lake/people.*' cannot be read: access is denied, or "
            ) as c:
                counts(given, seed=1)
            logged = "".join(record.getMessage() for record in caplog.records if record.name.startswith("tallytree"))
            assert logged
            assert not any(key in said(c.value) + logged for key in ("KEY-OF-THE-LAKE", "AKIAPUBLISHER"))
    finally:
        people.require_credentials(1 << 40)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("s3://lake/nowhere.parquet", r"records: no file at 's3://lake/nowhere\.parquet'; give"),
        ("s3://lake/people/*.csv", r"records: no file at 's3://lake/people/\*\.csv'; give"),
        ("s3://other/people.parquet", r"records: 's3://other/people\.parquet' is in no bucket that there is"),
        ("s3://other/*.parquet", r"is in no bucket that there is"),
        ("s3://*/a.parquet", r"names no bucket; write it as s3://bucket/path"),
        (["s3://lake/people.csv", "people.csv"], r"records: the list has files of several file systems"),
        (["s3://lake/people.csv", "s3://lake/people"], r"must name \.parquet files, or \.csv"),
    ],
)
def test_what_is_not_there(people: S3, given: Any, message: str) -> None:
    with pytest.raises((ValueError, OSError), match=message) as caught:
        counts(given)
    assert exit_code(caught.value) == ExitCode.INPUT  # a second try does not help


def test_a_run_of_the_command_line_shows_no_credential_and_ends(people: S3, tmp_path: Any) -> None:
    (tmp_path / "spec.yaml").write_text(
        f"{{statistic: counts, records: 's3://{BUCKET}/people', budget: {{epsilon: 1}}, neighboring: change_one, "
        f"hierarchy: {{path: 's3://{BUCKET}/areas.csv', levels: [state, county]}}}}"
    )
    people.write("areas.csv", b"state,county\nA,x\nA,y\nB,x\n")
    command = [
        sys.executable,
        "-m",
        "tallytree",
        "--debug",
        "release",
        "spec.yaml",
        "--out",
        "out",
        "--log-format",
        "json",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    shown = done.stdout + done.stderr
    assert not any(each in shown for each in people.environment.values() if len(each) > 9)


def test_an_object_that_is_gone_in_the_middle(people: S3, tmp_path: Any) -> None:
    def gone(path: str) -> None:
        if path.endswith("a.parquet"):
            people.gate.on_get = None
            people.system.delete_file(f"{BUCKET}/people/deep/b.parquet")

    planned = url("people")
    column_names(locate(planned, "records"), "records")
    armed = [0]

    def second(path: str) -> None:
        armed[0] += path.endswith("a.parquet")
        if armed[0] == 2:  # the first is for the schema
            gone(path)

    people.gate.on_get = second
    with pytest.raises(
        OSError, match=r"^records: 's3://lake/people/deep/b.parquet' is not there \(any more\)$"
    ) as caught:
        counts(planned)
    assert "NAME-" not in said(caught.value)


@pytest.mark.parametrize("name", ["people/a.parquet", "people.csv", "people.csv.gz"])
def test_an_object_that_is_replaced_while_it_is_read(people: S3, name: str) -> None:
    # What is compressed may be damaged where the two versions meet.
    what = "(was replaced while|cannot be read to its end)" if name.endswith("gz") else "was replaced while it was read"
    people.write("people.csv.gz", gzip.compress(b"state,county\nA,x\nA,y\nB,x\n"))
    with people.system.open_input_file(f"{BUCKET}/{name}") as file:
        content = file.read()
    other = content.replace(b"x", b"y") if name == "people.csv" else content + b" "
    asked = [0]

    def replace(path: str) -> None:
        asked[0] += 1
        if asked[0] == 3:
            people.gate.on_get = None
            people.write(name, other)

    people.gate.sent = {}
    people.gate.on_get = replace
    with pytest.raises(OSError, match=rf"records: 's3://lake/{name}' {what}"):
        counts(url(name))
    assert people.gate.on_get is None


@pytest.mark.parametrize("name", ["big.parquet", "big.csv", "big.csv.gz"])
def test_a_server_that_stops_half_way(s3: S3, name: str, tmp_path: Any, capfd: Any) -> None:
    rows = 150_000
    table = pa.table({"state": ["A"] * rows, "county": ["x"] * rows, "name": [f"NAME-{i * 7919}" for i in range(rows)]})
    text = "state,county,name\n" + "".join(f"A,x,NAME-{i * 7919}\n" for i in range(rows))
    content = {"big.parquet": parquet(table), "big.csv": text.encode(), "big.csv.gz": gzip.compress(text.encode(), 1)}
    s3.write(name, content[name])
    s3.gate.stop_after = 150_000 if name == "big.parquet" else 100_000
    ledger = tt_ledger(tmp_path)
    options = {"ledger": ledger, "dataset": "people", "seed": None, "person": "name"}
    with pytest.raises(OSError, match=rf"records: 's3://lake/{name}' cannot be read to its end: ") as caught:
        counts(url(name), **options)
    assert "NAME-" not in said(caught.value) + capfd.readouterr().err
    from tallytree.ledger import Ledger

    assert Ledger(ledger).entries() == ()
    s3.gate.stop_after = None
    assert sum(counts(url(name), **options)) > rows - 1_000


def tt_ledger(folder: Any) -> Any:
    from tallytree.ledger import Ledger

    Ledger(folder / "ledger.db").set_limit("people", tt.Budget(epsilon=5), neighboring="add_remove")
    return folder / "ledger.db"


def test_a_truncated_file_is_no_file(people: S3) -> None:
    whole = parquet(PEOPLE)
    people.write("people/a.parquet", whole[:-20])
    with pytest.raises(ValueError, match=r"records: 's3://lake/people/a\.parquet' cannot be read as parquet; is it"):
        counts(url("people"))
    people.write("cut.csv.gz", gzip.compress(b"state,county\n" + b"A,x\n" * 9_000)[:-12])
    with pytest.raises((ValueError, OSError), match="records"):
        counts(url("cut.csv.gz"))


def test_the_private_objects_are_found_by_every_name(people: S3) -> None:
    people.write("areas.parquet", parquet(PEOPLE))
    a = url("people/a.parquet")
    for given in (a, "s3a" + a[2:], url("people"), url("people/*"), [a], tt.sources.Parquet(url("people/"))):
        for public, private in ((given, a), (a, given)):
            with pytest.raises(ValueError, match=r"^hierarchy: it is the private table that is given as records"):
                refuse_private(public, "hierarchy", private, "records")
        refuse_private(url("areas.parquet"), "hierarchy", given, "records")


def test_a_spec_of_a_lake_is_published_without_its_bucket(people: S3, tmp_path: Any) -> None:
    from tallytree.spec import load_spec

    text = f"""\
    statistic: counts
    records: {{parquet: ["s3://{BUCKET}/people/*.parquet"]}}
    hierarchy: {{path: s3://{BUCKET}/people.csv, levels: [state]}}
    budget: {{epsilon: 1}}
    neighboring: change_one
    seed: 1
    """
    (tmp_path / "spec.yaml").write_text(text)
    people.write("people.csv", b"state\nA\nB\n")
    release = load_spec(tmp_path / "spec.yaml").release(tmp_path / "out")
    assert release.spec["records"] == {"parquet": "<list of files>"}
    everything = "".join(each.read_text(errors="replace") for each in (tmp_path / "out").rglob("*") if each.is_file())
    assert BUCKET not in everything


def test_an_object_that_was_written_again_has_another_stamp(people: S3) -> None:
    before = stamps_of(url("people"), "records")
    assert before is not None
    assert stamps_of([url("people/deep/b.parquet"), url("people/a.parquet")], "records") == before
    people.write("people/a.parquet", parquet(PEOPLE.slice(1)))
    assert stamps_of(url("people"), "records") != before
    assert stamps_of(url("nothing"), "records") is None
