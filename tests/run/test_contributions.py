"""`contributions`: people counted by their number of records, from the arguments to the folder."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from helpers.inside import KeyedNoise, Loss, Measurer
from tallytree.ledger import Ledger
from tallytree.release.contributions_table import METADATA_KEY
from tallytree.release.replacing import replace_release
from tallytree.run import CountsArguments, SizesArguments, auto_bound, make_release, plan_counts, plan_group_sizes
from tallytree.run.order import measured_people
from tallytree.sizes import PrivateMaximum

LOUD = tt.Budget(rho=10**9)
"""Next to no noise: what is released is what counts."""
ASKED = tt.Contributions(share=0.5, at_most=20)

RECORDS = pa.table(
    {
        "who": ["ann"] * 50 + ["bob"] * 3 + ["cy"] * 2,
        "state": ["A"] * 53 + ["B"] * 2,
        "county": ["x", "y"] * 25 + ["x", "y", "z"] + ["x"] * 2,
        "home": [f"h{number % 7}" for number in range(53)] + ["b"] * 2,
    }
)
HOMES = RECORDS.set_column(2, "county", pa.array(["x"] * 55))


def released(areas, records=RECORDS, **changes):
    arguments = {
        "budget": LOUD, "neighboring": "add_remove", "person": "who", "max_contributions": 2, "contributions": ASKED,
    } | changes  # fmt: skip
    return tt.release_counts(records, areas, arguments.pop("budget"), **arguments)


def sizes(areas, records=HOMES, **changes):
    arguments = {
        "budget": LOUD, "neighboring": "add_remove", "person": "who", "max_contributions": 2, "group": "home",
        "max_group_size": 9,
    } | changes  # fmt: skip
    return tt.release_group_sizes(records, areas, arguments.pop("budget"), **arguments)


def planned(areas, **changes):
    options = {"neighboring": "add_remove", "person": "who", "max_contributions": 2, "contributions": ASKED} | changes
    return plan_counts(CountsArguments(RECORDS, areas, options.pop("budget", tt.Budget(epsilon=1)), **options))


def people(release):
    """The bins that have people."""
    return [
        (row["records_from"], row["records_to"], row["people"])
        for row in release.contributions.to_pylist()
        if row["people"]
    ]


@pytest.mark.parametrize("neighboring", ["add_remove", "change_one"])
def test_people_are_counted_by_all_their_records(areas, neighboring):
    release = released(areas, neighboring=neighboring)
    assert release.table("all")["count"].to_pylist() == [6]
    assert people(release) == [(2, 2, 1), (3, 3, 1), (20, 20, 1)]
    assert release.contributions.column_names == ["records_from", "records_to", "people", "std_dev"]
    assert people(released(areas, distinct=True)) == [(1, 1, 1), (2, 2, 1), (3, 3, 1)]
    assert released(areas, contributions=None).contributions is None


def test_flows_count_trips(areas):
    trips = pa.table({"who": [1] * 9 + [2], "a": ["A"] * 10, "b": ["x"] * 10, "c": ["B"] * 10, "d": ["x"] * 10})
    release = tt.release_flows(
        trips, origins=areas, destinations=areas, origin=["a", "b"], destination=["c", "d"], budget=LOUD,
        neighboring="change_one", person="who", max_contributions=4, contributions=ASKED,
    )  # fmt: skip
    assert people(release) == [(1, 1, 1), (9, 9, 1)]
    assert "of the trips" in release.statement["contributions"]["summary"]


def test_group_sizes_count_memberships(areas):
    release = sizes(areas, contributions=ASKED)
    assert people(release) == [(2, 2, 1), (3, 3, 1), (20, 20, 1)]
    assert "of the memberships" in release.statement["contributions"]["summary"]
    both = sizes(areas, contributions=ASKED, max_group_size=PrivateMaximum(0.1, 9))
    assert people(both) == people(release)
    assert both.statement["maximum"]["max_group_size"] <= 9
    shares = [both.statement[key]["share"] for key in ("maximum", "contributions")]
    assert sum(shares) + sum(level["share"] for level in both.statement["levels"]) == pytest.approx(1)


def test_the_statement_says_what_the_bound_leaves_out(areas):
    statement = released(areas).statement
    facts = statement["contributions"]
    assert facts["statistic"] == "contributions"
    assert facts["sensitivity"] == {"l1": 1, "l2": 1.0}
    assert facts["share"] == 0.5
    assert facts["at_most"] == 20
    # 18 of ann's, who counts as one with 20 records, and 1 of bob's, of 25.
    assert facts["records_left_out"]["ci_lower"] <= 19 <= facts["records_left_out"]["ci_upper"]
    assert facts["share_left_out"]["ci_lower"] <= 19 / 25 <= facts["share_left_out"]["ci_upper"]
    assert facts["share_left_out"]["estimate"] == 19 / 25
    assert facts["summary"].startswith("Counts are of records, at most 2 a person. The bound leaves out")
    assert facts["summary"].endswith("counts are short by about so much.")
    assert any("estimated under contributions" in note for note in statement["notes"])
    without = released(areas, contributions=None).statement
    assert any("whether any were left out is not published" in note for note in without["notes"])
    assert "contributions" not in without


def test_the_sensitivity_is_that_of_the_relation_and_not_of_the_bound(areas):
    for m, relation, l1 in [(1, "add_remove", 1), (9, "add_remove", 1), (1, "change_one", 2), (9, "change_one", 2)]:
        plan = planned(areas, max_contributions=m, neighboring=relation).plan
        assert plan.contributions.sensitivity.l1 == plan.contributions.sensitivity.l2_squared == l1
        assert plan.contributions.noise.scale == 2 * l1
        assert Loss.of(plan).epsilon == plan.spent["epsilon"] == 1


# --- Noise ---


def test_the_noise_is_no_levels_and_is_bound_to_all_statistics(areas, monkeypatch):
    drawn, draw = [], KeyedNoise.draw

    def remembering(self, noise, address, numbers):
        drawn.append((self, address, len(numbers)))
        return draw(self, noise, address, numbers)

    monkeypatch.setattr(KeyedNoise, "draw", remembering)
    release = released(areas, budget=tt.Budget(epsilon=1), seed=3)
    addresses = [address for _, address, _ in drawn]
    assert addresses[0] == ("all", "contributions")
    assert len(set(addresses)) == len(addresses) == 4
    assert drawn[0][2] == release.contributions.num_rows
    # One more record of ann's, of whom the same two count: the counts stay, the numbers of people change.
    more = pa.concat_tables([RECORDS, RECORDS.slice(50, 1)])
    other = released(areas, more, budget=tt.Budget(epsilon=1), seed=3)
    assert planned(areas, seed=3).tabulate().digest() != replace_records(areas, more).tabulate().digest()
    assert not release.contributions.equals(other.contributions)


def replace_records(areas, records):
    options = {"neighboring": "add_remove", "person": "who", "max_contributions": 2, "contributions": ASKED, "seed": 3}
    return plan_counts(CountsArguments(records, areas, tt.Budget(epsilon=1), **options))


def test_a_mechanism_cannot_measure_it(areas):
    job = planned(areas)
    measurer = Measurer(job.tabulate(), job.plan, KeyedNoise(bytes(32)))
    with pytest.raises(ValueError, match="is not the count of the level"):
        measurer.measure("all", np.zeros(1, dtype=np.int64), "contributions")


def measured(job, true, runs):
    """What is published of one table, so many times."""
    for run in range(runs):
        yield measured_people(job, true, KeyedNoise(run.to_bytes(32, "big")))


@pytest.mark.slow
@pytest.mark.parametrize("budget", [tt.Budget(epsilon=1), tt.Budget(rho=0.5)])
def test_the_noise_has_the_law_that_is_stated(areas, budget):
    job = planned(areas, budget=budget)
    true = {2: 1, 3: 1, 20: 1}
    spread = [
        row["people"] - true.get(row["records_from"], 0)
        for each in measured(job, job.tabulate(), 100)
        for row in each.table.read(0, 50).to_pylist()
    ]
    std_dev = job.plan.contributions.noise.std_dev
    assert len(spread) == 1_400
    assert np.std(spread) == pytest.approx(std_dev, rel=0.1)  # 3 standard errors of Laplace noise, 5 of Gaussian noise
    assert abs(np.mean(spread)) < 4 * std_dev / np.sqrt(len(spread))


@pytest.mark.slow
def test_the_intervals_cover_what_the_bound_leaves_out(areas):
    """400 releases of 200 people, noise of standard deviation 14: 0.95 of them, less 3 standard errors."""
    numbers = np.minimum(np.random.default_rng(2).geometric(0.25, 200), 20)
    who = np.repeat(np.arange(200), numbers)
    records = pa.table({"who": who, "state": ["A"] * len(who), "county": ["x"] * len(who)})
    over = np.maximum(numbers - 2, 0).sum()
    options = {"neighboring": "add_remove", "person": "who", "max_contributions": 2}
    asked = tt.Contributions(0.1, 20)
    job = plan_counts(CountsArguments(records, areas, tt.Budget(epsilon=1), contributions=asked, **options))
    true, covered = {"records_left_out": over, "share_left_out": over / numbers.sum()}, np.zeros(2)
    for each in measured(job, job.tabulate(), 400):
        facts = each.facts["contributions"]
        covered += [facts[key]["ci_lower"] <= right <= facts[key]["ci_upper"] for key, right in true.items()]
    assert (covered / 400 >= 0.95 - 3 * np.sqrt(0.05 * 0.95 / 400)).all()


@pytest.mark.needs("opendp")
def test_opendp_draws_it_too(areas):
    release = released(areas, budget=tt.Budget(epsilon=1), noise="opendp")
    assert release.contributions.num_rows == 14
    assert release.statement["noise_source"] == "opendp"


# --- A plan that was altered ---


def test_a_job_that_was_altered_does_not_run(areas):
    job, plain = planned(areas), planned(areas, contributions=None)
    one = job.plan.contributions
    cheap = replace(one, sensitivity=replace(one.sensitivity, l1=0))
    elsewhere = replace(one, level="state")
    changed = replace(job.arguments, neighboring="change_one")
    for altered in (
        replace(job, plan=plain.plan),
        replace(plain, plan=job.plan),
        replace(job, plan=replace(job.plan, beside=(cheap,))),
        replace(job, plan=replace(job.plan, beside=(elsewhere,))),
        replace(job, arguments=changed),
        replace(plain, arguments=job.arguments),
    ):
        with pytest.raises(tt.BudgetExceeded, match="the release was changed after its noise was planned"):
            make_release(altered)
        with pytest.raises(tt.BudgetExceeded, match="the noise is planned for another release"):
            altered.seal()


def test_the_ledger_is_charged_for_it(areas, tmp_path):
    job = planned(areas, ledger=tmp_path / "l", dataset="d")
    assert job.account.posting.loss.epsilon == 1
    levels_alone = replace(job, plan=replace(job.plan, beside=()))
    with pytest.raises(tt.BudgetExceeded):
        make_release(levels_alone)


# --- The folder ---


def test_the_table_is_saved_and_loaded(areas, tmp_path):
    release = released(areas)
    release.save(tmp_path / "out", csv=True)
    loaded = tt.Release.load(tmp_path / "out")
    assert loaded.contributions.equals(release.contributions)
    assert (tmp_path / "out" / "contributions.csv").read_text().startswith('"records_from","records_to","people"')
    with (tmp_path / "out" / "contributions.parquet").open("ab") as file:
        file.write(b" ")
    with pytest.raises(ValueError, match=r"contributions\.parquet' is missing or was changed"):
        tt.Release.load(tmp_path / "out")


def said(folder, level):
    metadata = pq.read_schema(folder / "tables" / f"{level}.parquet").metadata or {}
    return json.loads(metadata[METADATA_KEY]) if METADATA_KEY in metadata else None


def test_the_tables_files_say_what_is_left_out_of_them(areas, tmp_path):
    release = released(areas)
    release.save(tmp_path / "out")
    for level in areas.levels:
        facts = said(tmp_path / "out", level)
        assert facts["summary"] == release.statement["contributions"]["summary"]
        assert facts["max_contributions"] == 2
        assert facts["share_left_out"] == release.statement["contributions"]["share_left_out"]
    released(areas, contributions=None).save(tmp_path / "without")
    assert said(tmp_path / "without", "all") == {
        "max_contributions": 2,
        "unit": "records, at most 2 a person",
        "summary": "Counts are of records, at most 2 a person. How many others the bound leaves out is not known; the "
        "option contributions estimates it.",
    }
    # Where errors are added, and where the folder is copied.
    with_errors = tt.replicate_errors(tmp_path / "out", 10, seed=1)
    replace_release(with_errors, tmp_path / "out")
    again = tt.Release.load(tmp_path / "out")
    again.save(tmp_path / "copy")
    for folder in ("out", "copy"):
        assert said(tmp_path / folder, "county") == facts
        assert tt.Release.load(tmp_path / folder).contributions.equals(release.contributions)


# --- Determinism ---


def test_a_seed_gives_the_same_release_whatever_the_order_threads_and_chunks(areas):
    shuffled = RECORDS.take(pa.array(np.random.default_rng(1).permutation(RECORDS.num_rows)))
    chunked = pa.concat_tables([shuffled.slice(start, 5) for start in range(0, 55, 5)])
    budget = tt.Budget(epsilon=1)
    one = released(areas, budget=budget, seed=5, engine=tt.engines.Local(threads=1))
    for records, threads in [(shuffled, 2), (chunked, 3)]:
        two = released(areas, records, budget=budget, seed=5, engine=tt.engines.Local(threads=threads))
        assert two.contributions.equals(one.contributions)
        assert two.table("county").equals(one.table("county"))
        assert two.statement == one.statement


# --- Refusals ---

BAD = [
    (
        {"person": None},
        ValueError,
        r"contributions: Contributions\(share=0\.5, at_most=20\) counts people .* needs person",
    ),
    (
        {"max_contributions": 20},
        ValueError,
        "contributions: at_most=20 must be more than max_contributions, which is 20",
    ),
    ({"contributions": 1.0}, ValueError, r"contributions: share: 1\.0 must lie strictly between 0 and 1"),
    ({"contributions": "0.1"}, TypeError, "contributions: str must be a share of the budget"),
    (
        {"mechanism": tt.counts.StabilityHistogram(), "budget": tt.Budget(epsilon=1, delta=1e-6)},
        ValueError,
        "contributions: StabilityHistogram publishes counts above a threshold and measures nothing beside them",
    ),
]


@pytest.mark.parametrize(("changes", "kind", "message"), BAD)
def test_bad_arguments(areas, changes, kind, message):
    with pytest.raises(kind, match=message):
        released(areas, **changes)


def test_shares_that_leave_nothing_to_the_levels_are_refused(areas):
    with pytest.raises(ValueError, match=r"contributions: .*0\.5, .*max_group_size, 0\.5, leave"):
        sizes(areas, contributions=ASKED, max_group_size=PrivateMaximum(0.5, 9))


def test_the_published_spec_says_how(areas):
    assert released(areas).spec["contributions"] == {"share": 0.5, "at_most": 20}
    assert "contributions" not in released(areas, contributions=None).spec
    arguments = SizesArguments(HOMES, areas, LOUD, neighboring="add_remove", group="home")
    assert set(plan_group_sizes(arguments).spec) & {"person", "contributions"} == set()
    assert planned(areas).plan.contributions.share == Fraction(1, 2)


@pytest.mark.parametrize(
    "budget", [tt.Budget(epsilon=0.001), pytest.param(tt.Budget(rho=1e-7), marks=pytest.mark.slow)]
)
def test_a_bound_that_asks_for_more_noise_than_is_drawn_is_not_recommended(budget, tmp_path):
    """It failed after the payment, where people with very many records are told apart."""
    ledger = Ledger(tmp_path / "ledger.db")
    places = tt.Hierarchy.from_values("place", ["a", "b"])
    release = tt.release_contributions(
        pa.table({"place": ["a", "a", "b"], "who": ["p", "p", "q"]}), places, budget, neighboring="add_remove",
        person="who", at_most=10**6, ledger=ledger, dataset="people",
    )  # fmt: skip
    recommended = release.statement["contributions"]["recommended"]
    assert 1 < recommended["choices"][-1]["max_contributions"] < 10**6
    assert ledger.entries()[0].state == "finished"


def test_where_no_noise_is_drawn_for_any_bound_none_is_recommended(monkeypatch):
    monkeypatch.setattr(auto_bound, "_noise_of_levels", lambda *given: None)
    places = tt.Hierarchy.from_values("place", ["a", "b"])
    release = tt.release_contributions(
        pa.table({"place": ["a"], "who": ["p"]}), places, tt.Budget(epsilon=1), neighboring="add_remove", person="who"
    )
    assert release.statement["contributions"]["recommended"] is None


@pytest.mark.slow
def test_intervals_hold_the_true_numbers(areas):
    """Nine in ten: of 60 releases with 5 numbers each, in at least 250 of 300 (270 less 3.8 standard deviations)."""
    terms = {"neighboring": "add_remove", "person": "who", "at_most": 5, "distinct": False}
    rows = pa.table({"who": [*range(100), *range(40), *range(9)], "state": ["A"] * 149, "county": ["x"] * 149})
    true = [60, 31, 9, 0, 0]
    hits = 0
    for seed in range(60):
        made = tt.release_contributions(rows, areas, tt.Budget(epsilon=1), seed=seed, **terms)
        shown = made.table("contributions", alpha=0.1)
        assert shown.column_names[3:] == ["std_dev", "ci_lower", "ci_upper", "quality"]
        ends = zip(true, shown["ci_lower"].to_pylist(), shown["ci_upper"].to_pylist(), strict=True)
        hits += sum(lower <= each <= upper for each, lower, upper in ends)
    assert hits >= 250
