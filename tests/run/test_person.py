"""`person` and `distinct`: a bound that is enforced, from the arguments to the statement."""

import inspect
import json
from dataclasses import is_dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import tallytree as tt
from helpers.inside import entropy
from tallytree import counts as mechanisms
from tallytree.counts import CountsMechanism
from tallytree.run import CountsArguments, make_release, plan_counts
from tallytree.run.people import contribution_bound
from tallytree.spec import load_spec

LOUD = tt.Budget(rho=10**9)
"""Next to no noise: what is released is what counts."""

RECORDS = pa.table(
    {
        "who": ["ann"] * 50 + ["bob"] * 3 + ["cy"] * 2,
        "state": ["A"] * 53 + ["B"] * 2,
        "county": ["x", "y"] * 25 + ["x", "y", "z"] + ["x"] * 2,
    }
)


def released(areas, records=RECORDS, **changes):
    arguments = {"budget": LOUD, "neighboring": "add_remove", "person": "who"} | changes
    return tt.release_counts(records, areas, arguments.pop("budget"), **arguments)


def counted(release, level):
    return release.table(level)["count"].to_pylist()


def bound_of(planned):
    return contribution_bound(planned.arguments, None, distinct=planned.arguments.distinct)


def planned(areas, **changes):
    options = {"neighboring": "add_remove", "person": "who"} | changes
    return plan_counts(CountsArguments(RECORDS, areas, tt.Budget(rho=1), **options))


@pytest.mark.parametrize(("m", "kept"), [(1, 3), (2, 6), (3, 8), (60, 55)])
@pytest.mark.parametrize("neighboring", ["add_remove", "change_one"])
def test_of_every_person_at_most_m_records_count(areas, neighboring, m, kept):
    release = released(areas, max_contributions=m, neighboring=neighboring)
    assert counted(release, "all") == [kept]
    assert counted(release, "state") == [kept - min(m, 2), min(m, 2)]


def test_people_are_counted_once_in_a_leaf(areas):
    release = released(areas, max_contributions=3, distinct=True)
    assert counted(release, "county") == [2, 2, 1, 1]
    assert counted(release, "state") == [5, 1]
    assert sum(counted(released(areas, max_contributions=1, distinct=True), "county")) == 3


def test_flows_count_a_person_once_between_two_places(areas):
    trips = pa.table(
        {"who": [1] * 9 + [2], "from": ["A"] * 10, "fc": ["x"] * 10, "to": ["B"] * 10, "tc": ["x"] * 10, "n": [2] * 10}
    )
    arguments = {
        "origins": areas, "destinations": areas, "origin": ["from", "fc"], "destination": ["to", "tc"],
        "budget": LOUD, "neighboring": "change_one", "person": "who", "max_contributions": 5, "count": "n",
    }  # fmt: skip
    assert counted(tt.release_flows(trips, **arguments), "fc") == [5 + 2]
    once = tt.release_flows(trips, **arguments, distinct=True)
    assert counted(once, "fc") == [2]
    assert [level.get("statistic") for level in once.statement["levels"]] == [
        "total", "counts", "counts", "counts", "distinct_counts",
    ]  # fmt: skip


MECHANISMS = [
    kind()
    for kind in (getattr(mechanisms, name) for name in mechanisms.__all__)
    if inspect.isclass(kind) and is_dataclass(kind) and issubclass(kind, CountsMechanism)
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
@pytest.mark.filterwarnings("ignore:mechanism")
def test_every_mechanism_that_measures_counts_of_leaves_has_people_counted_once(areas, mechanism):
    budget = tt.Budget(epsilon=1_000, delta=1e-6)
    release = released(areas, budget=budget, mechanism=mechanism, max_contributions=3, distinct=True)
    if mechanism.statistics(areas, total_is_public=False)["county"] == "counts":
        assert release.statement["levels"][-1]["statistic"] == "distinct_counts"
        assert release.measurements("county").num_rows > 0


# --- Sensitivities and the total ---


@pytest.mark.parametrize("m", [1, 4])
def test_the_total_is_private_where_people_are_named(areas, m):
    statement = released(areas, max_contributions=m, neighboring="change_one").statement
    assert statement["invariants"] == ["the hierarchy"]
    assert statement["levels"][0]["sensitivity"] == {"l1": m, "l2": m}


@pytest.mark.parametrize(("neighboring", "people"), [("add_remove", 1), ("change_one", 2)])
def test_only_the_leaves_have_the_smaller_sensitivity(areas, neighboring, people):
    m = 4
    once = released(areas, max_contributions=m, neighboring=neighboring, distinct=True).statement["levels"]
    often = released(areas, max_contributions=m, neighboring=neighboring).statement["levels"]
    assert [level["sensitivity"]["l2"] for level in once] == pytest.approx(
        [m, np.sqrt(people) * m, np.sqrt(people * m)]
    )
    assert [level["sensitivity"]["l1"] for level in once] == [m, people * m, people * m]
    assert [level["statistic"] for level in once] == ["total", "counts", "distinct_counts"]
    assert [level["statistic"] for level in often] == ["total", "counts", "counts"]
    assert often[:2] == once[:2]
    assert once[2]["noise"]["std_dev"] == pytest.approx(often[2]["noise"]["std_dev"] / np.sqrt(m), rel=1e-3)


@pytest.mark.parametrize("changes", [{"distinct": True}, {"person": "who"}, {"max_contributions": 2}])
def test_a_job_that_was_altered_is_not_run(areas, changes):
    """One that was planned for less noise than its altered terms need."""
    given = {"max_contributions": 3, "neighboring": "change_one"} | {"person": "who"}
    if changes == {"person": "who"}:
        given |= {"person": None, "max_contributions": 1}
    job = planned(areas, **given)
    altered = replace(job, arguments=replace(job.arguments, **changes))
    with pytest.raises(tt.BudgetExceeded, match="the release was changed after its noise was planned"):
        make_release(altered)


# --- What is stated ---


def test_the_statement_says_that_the_bound_was_enforced(areas):
    assumed = tt.release_counts(RECORDS, areas, LOUD, neighboring="add_remove", max_contributions=3).statement
    enforced = released(areas, max_contributions=3).statement
    assert (assumed["max_contributions_enforced"], enforced["max_contributions_enforced"]) == (False, True)
    assert any(note.endswith("is assumed, not enforced.") for note in assumed["notes"])
    assert not any("not enforced" in note for note in enforced["notes"])
    assert any("'who'; that nobody has several is assumed" in note for note in enforced["notes"])
    assert enforced["unit_of_protection"] == "one person, of whose records at most 3 count"
    assert enforced["unit_of_protection"] in enforced["guarantee"]
    assert released(areas).statement["unit_of_protection"] == "one person, of whose records at most one counts"
    assert assumed["unit_of_protection"] == "one person, who has at most 3 records"
    distinct = released(areas, max_contributions=3, distinct=True)
    assert "Every person counts at most once in a leaf." in distinct.statement["notes"]
    assert (distinct.spec["person"], distinct.spec["distinct"]) == ("who", True)


def test_nothing_published_tells_how_many_records_were_left_out(areas, tmp_path):
    """Where the same records count, the same is published, however many more there are (and the same seed given)."""
    cy = pa.table({"who": ["cy"] * 40, "state": ["B"] * 40, "county": ["x"] * 40})
    for name, records in (("few", RECORDS), ("many", pa.concat_tables([RECORDS, cy]))):
        released(areas, records, max_contributions=2, seed=1).save(tmp_path / name)
    files = sorted(path.relative_to(tmp_path / "few") for path in (tmp_path / "few").rglob("*") if path.is_file())
    assert len(files) > 3
    for file in files:
        assert (tmp_path / "few" / file).read_bytes() == (tmp_path / "many" / file).read_bytes()


# --- The key ---


def test_a_seed_gives_the_same_release_whatever_the_order_of_rows(areas):
    shuffled = RECORDS.take(pa.array(np.random.default_rng(1).permutation(RECORDS.num_rows)))
    one, two = (released(areas, records, max_contributions=2, seed=5) for records in (RECORDS, shuffled))
    assert one.table("county") == two.table("county")
    keys = [bound_of(planned(areas, seed=seed)).key for seed in (5, 5, 6)]
    assert keys[0] == keys[1] != keys[2]


def test_the_key_is_fresh_and_is_not_the_noises(areas, monkeypatch):
    job = planned(areas)
    assert bound_of(job).key != bound_of(job).key
    derived = []
    derive = entropy.derive
    monkeypatch.setattr(
        entropy, "derive", lambda key, *address: derived.append((key, address)) or derive(key, *address)
    )
    order = []
    tabulate = tt.engines.Local.tabulate
    monkeypatch.setattr(
        tt.engines.Local,
        "tabulate",
        lambda *args, **options: order.append(len(derived)) or tabulate(*args, **options),
    )
    make_release(job)
    noise = [(key, address) for key, address in derived if address[0] == "noise"]
    (bound,) = [(key, address) for key, address in derived if address[0] == "records that count"]
    assert len(noise) == 1
    assert noise[0][0] != bound[0]
    assert order == [1]  # records are tabulated when the bound's key is derived and the noise's does not exist yet


# --- Bad input ---

BAD = [
    ({"person": 3}, TypeError, "person: int must be the name of a column"),
    ({"person": "state"}, ValueError, "person: 'state' is a column of the hierarchy, whose values are public"),
    ({"person": "n", "count": "n"}, ValueError, "person: 'n' is the column of count too"),
    ({"person": "nobody"}, ValueError, "'nobody'"),
    ({"person": None, "distinct": True}, ValueError, "distinct: True .* needs person"),
    ({"distinct": 1}, TypeError, "distinct: 1 must be True or False"),
    ({"max_contributions": 0}, ValueError, "max_contributions: 0 must be at least 1"),
    ({"person": "weight"}, TypeError, r"column 'weight' \(person\) holds double; ids must be text or integers"),
]


@pytest.mark.parametrize(("changes", "kind", "message"), BAD)
def test_bad_arguments(areas, changes, kind, message):
    records = RECORDS.append_column("n", pa.array([1] * 55)).append_column("weight", pa.array([1.0] * 55))
    with pytest.raises(kind, match=message):
        released(areas, records, **changes)


def test_a_record_without_a_person_is_refused(areas):
    records = pa.table({"who": ["ann", None], "state": ["A", "nowhere"], "county": ["x", "x"]})
    with pytest.raises(ValueError, match=r"records: column 'who' \(person\) has null ids"):
        released(areas, records, on_unknown="drop")


def test_a_person_is_no_group(areas):
    with pytest.raises(ValueError, match="person: 'who' is the column of group too"):
        tt.release_group_sizes(RECORDS, areas, LOUD, neighboring="add_remove", group="who", person="who")


# --- The spec ---

SPEC = """\
statistic: counts
records: records.parquet
hierarchy: {path: areas.parquet, levels: [state, county]}
neighboring: add_remove
budget: {rho: 1000000000}
max_contributions: 3
"""


@pytest.fixture
def folder(areas, tmp_path):
    pa.parquet.write_table(RECORDS, tmp_path / "records.parquet")
    pa.parquet.write_table(areas.leaf_table(), tmp_path / "areas.parquet")
    return tmp_path


def spec(folder, more):
    (folder / "counts.yaml").write_text(SPEC + more)
    return load_spec(folder / "counts.yaml")


def test_the_spec_names_the_person(folder):
    given = spec(folder, "person: who\ndistinct: true\n")
    given.check()
    release = given.release(folder / "out")
    assert counted(release, "county") == [2, 2, 1, 1]
    written = json.loads((folder / "out" / "release.json").read_text())
    assert (written["spec"]["person"], written["spec"]["distinct"]) == ("who", True)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("distinct: true\n", r"line 7, distinct: True .* needs person"),
        ("person: who\ndistinct: often\n", r"line 8, distinct: 'often' must be true or false"),
        ("person: county\n", r"line 7, person: 'county' is a column of the hierarchy"),
        ("person: nobody\n", r"'nobody'"),
    ],
)
def test_a_spec_that_names_it_wrongly(folder, more, message):
    with pytest.raises(ValueError, match=message):
        spec(folder, more).check()


def test_checking_reads_no_row(folder, monkeypatch):
    """A null id shows only in the rows."""
    records = pa.table({"who": pa.array([None], pa.string()), "state": ["A"], "county": ["x"]})
    pa.parquet.write_table(records, folder / "records.parquet")
    given = spec(folder, "person: who\n")
    given.check()
    with pytest.raises(ValueError, match="null ids"):
        given.release(folder / "out")
    assert not (folder / "out").exists()


def test_the_bound_of_a_job_is_that_of_its_terms(areas):
    assert bound_of(planned(areas, person=None)) is None
    bound = bound_of(planned(areas, max_contributions=2, distinct=True))
    assert (bound.person, bound.most, bound.distinct) == ("who", 2, True)
