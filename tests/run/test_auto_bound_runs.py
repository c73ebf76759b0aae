"""`max_contributions="auto"`: keys, the ledger, repeated runs, plans and refusals."""

import copy
import dataclasses
from fractions import Fraction

import pyarrow as pa
import pytest

import tallytree as tt
from helpers.auto_bound import EPSILON, PEOPLE, RECORDS, options_of, planned, planned_sizes, released, table
from helpers.inside import KeyedNoise, NoisePlan
from tallytree.ledger import Ledger
from tallytree.run import CountsArguments, FlowsArguments, make_release, plan_counts, plan_flows
from tallytree.run.auto_bound import first_phase
from tallytree.run.planned_counts import PlannedCounts
from tallytree.run.release_keys import ReleaseKeys

# --- Keys ---


def test_the_phases_have_keys_of_their_own_and_the_second_has_noise_for_the_chosen_bound(areas, drawn):
    release = released(areas, seed=3)
    (first, people, address), *rest = drawn
    assert address == ("all", "contributions")
    assert len({key for key, _, _ in rest}) == 1
    assert first not in {key for key, _, _ in rest}
    assert {address for _, _, address in rest} == {("all", "total"), ("state", "counts"), ("county", "counts")}
    m = release.statement["max_contributions"]
    share = Fraction(9, 10) / 3
    assert {noise.scale for _, noise, _ in rest} == {m / share}
    assert people.scale == 10


def test_keys_differ_wherever_a_digest_or_a_plan_does():
    keys = ReleaseKeys(bytes(32), True, bytes(32), "asked", "plan")
    first = [
        keys.noise("id"),
        keys.noise_after_a_choice("id", bytes(32), "chosen"),
        keys.noise_after_a_choice("id", bytes([1] * 32), "chosen"),
        keys.noise_after_a_choice("id", bytes(32), "another"),
        keys.noise_after_a_choice("other", bytes(32), "chosen"),
        *(
            dataclasses.replace(keys, **changes).noise_after_a_choice("id", bytes(32), "chosen")
            for changes in ({"statistics": bytes([1] * 32)}, {"plan": "another"}, {"key": bytes([1] * 32)})
        ),
    ]
    assert len(set(first)) == len(first)
    assert keys.noise_after_a_choice("id", bytes(32), "chosen") == first[1]


def test_the_second_key_is_bound_to_the_bounded_counts_and_to_people(areas, drawn):
    def second_key(people):
        drawn.clear()
        released(areas, table(people), seed=3, budget=tt.Budget(epsilon=10**5))
        return drawn[0][0], drawn[-1][0]

    same = second_key(PEOPLE)
    assert second_key(PEOPLE) == same
    elsewhere = {who: [3] if who == "p0" else places for who, places in PEOPLE.items()}  # the same numbers of records
    longer = {who: [*places, 0] if who == "p8" else places for who, places in PEOPLE.items()}
    for changed in (elsewhere, longer):
        assert {*second_key(changed)} & {*same} == set()


def test_plans_of_two_bounds_have_two_digests(areas):
    auto = planned(areas)
    digests = {auto.plan_digest, *(auto.with_bound(m).plan_digest for m in auto.candidates)}
    assert len(digests) == 1 + len(auto.candidates)


# --- The ledger, and named runs ---


@pytest.fixture
def named(areas, tmp_path):
    tt.new_secret(tmp_path / "secret")
    where = {"ledger": tmp_path / "ledger", "dataset": "d", "run": "monday", "secret": tmp_path / "secret"}

    def run(people=PEOPLE, **changes):
        return released(areas, table(people), **(where | changes))

    run.entries = lambda: Ledger(tmp_path / "ledger").entries()
    return run


def test_the_whole_budget_is_recorded_before_anything_is_measured(areas, tmp_path, monkeypatch):
    ledger, draw, seen = tmp_path / "ledger", KeyedNoise.draw, []

    def looking(self, noise, address, numbers):
        seen.append([(entry.loss.epsilon, entry.max_contributions, entry.state) for entry in Ledger(ledger).entries()])
        return draw(self, noise, address, numbers)

    monkeypatch.setattr(KeyedNoise, "draw", looking)
    released(areas, ledger=ledger, dataset="d")
    assert seen == [[(1, 20, "started")]] * 4
    (entry,) = Ledger(ledger).entries()
    assert (entry.loss.epsilon, entry.loss.delta) == (1, 0)
    assert entry.loss.rho == Fraction(1, 200) + 3 * Fraction(3, 10) ** 2 / 2
    assert entry.plan is not None


def test_a_data_set_with_a_stated_bound_takes_it_if_the_most_reaches_that_bound(areas, tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    ledger.set_limit("d", tt.Budget(epsilon=9), neighboring="add_remove", max_contributions=20, unit="person")
    assert released(areas, ledger=ledger, dataset="d").statement["max_contributions"] < 20
    with pytest.raises(ValueError, match="max_contributions: 12 protects only a part of a person"):
        released(areas, ledger=ledger, dataset="d", contributions=tt.Contributions(0.1, 12))
    assert len(ledger.entries()) == 1


def test_a_repeated_run_is_the_same_release_and_is_charged_once(named, tmp_path):
    for name in ("one", "two"):
        named().save(tmp_path / name)
    files = [path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file()]
    assert len(files) > 5
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    assert len(named.entries()) == 1


def test_a_crash_between_the_phases_is_repeated_free_of_charge(named, monkeypatch):
    def fail(*arguments, **options):
        raise OSError("disk")

    with monkeypatch.context() as patched:
        patched.setattr(PlannedCounts, "fit", fail)
        with pytest.raises(OSError, match="disk") as caught:
            named()
    assert "repeat the run 'monday' with the same secret" in caught.value.__notes__[0]
    assert [entry.state for entry in named.entries()] == ["started"]
    named()
    assert [entry.state for entry in named.entries()] == ["finished"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"u": [0, 0], "v": [1, 1]}, {"u": [0, 1], "v": [0, 1]}),
        ({"u": [0, 0, 1], "v": [0, 1, 1]}, {"u": [0, 1, 1], "v": [0, 0, 1]}),  # the same cells, other numbers in them
    ],
)
def test_records_that_change_the_counts_under_some_bound_alone_are_another_release(named, one, other):
    """Two people exchange records: the numbers of people, and the counts under the largest bound, stay as they are."""
    named(PEOPLE | one)
    with pytest.raises(ValueError, match="its statistics differ"):
        named(PEOPLE | other)
    assert len(named.entries()) == 1
    named(PEOPLE | other, on_changed="charge")
    assert len(named.entries()) == 2


def test_records_that_change_between_the_phases_are_refused(named, monkeypatch):
    tabulate, times = PlannedCounts.tabulate, []

    def changing(self, work=None, people=None):
        times.append(1)
        if len(times) == 2:
            arguments = copy.copy(self.arguments)
            object.__setattr__(arguments, "records", table(PEOPLE | {"u": [0, 1], "v": [0, 1]}))
            self = dataclasses.replace(self, arguments=arguments)
        return tabulate(self, work, people)

    monkeypatch.setattr(PlannedCounts, "tabulate", changing)
    with pytest.raises(ValueError, match="they are not those that were counted before") as caught:
        named(PEOPLE | {"u": [0, 0], "v": [1, 1]})
    assert "its budget is spent" in caught.value.__notes__[0] or "spent" in caught.value.__notes__[0]


# --- Planning, and refusals ---


def test_a_planned_release_states_no_noise_of_a_level(areas):
    statement = planned(areas).statement
    assert statement["max_contributions"] == "auto"
    assert statement["counted"] == "records, at most m a person"
    assert statement["spent"] == {"epsilon": 1.0}
    assert not any(key in level for level in statement["levels"] for key in ("noise", "sensitivity", "spent"))
    assert "at most m count, with m chosen" in statement["guarantee"]
    assert statement["contributions"]["chosen_among"] == planned(areas).candidates
    assert "20" not in statement["unit_of_protection"]
    assert (
        planned(areas, distinct=True)
        .statement["unit_of_protection"]
        .startswith("one person, who counts at most once in a leaf, and in at most m leaves, with m chosen")
    )


def test_an_altered_plan_does_not_run(areas):
    auto = planned(areas)
    for changes in ({"plan": auto.with_bound(1).plan}, {"bound_is_chosen": False}, {"sealed": None}):
        altered = dataclasses.replace(auto, **{key: value for key, value in changes.items() if value is not None})
        with pytest.raises(tt.BudgetExceeded, match="the release was changed after its noise was planned"):
            make_release(altered)
    with pytest.raises(tt.BudgetExceeded, match="the release was changed after its noise was planned"):
        make_release(auto.with_bound(3))
    assert auto.arguments.bound == auto.candidates[-1]
    assert repr(first_phase(auto, None)) == "FirstPhase(<private>)"


def test_a_plan_that_is_sealed_again_for_something_else_is_refused(areas):
    """Under another statistic, whose ledger asks for another bound; or with a bound that is not the largest one."""
    number = planned(areas, max_contributions=3)
    for changes in ({"statistic": "contributions"}, {"bound_is_chosen": True}):
        with pytest.raises(tt.BudgetExceeded, match="the noise is planned for another release"):
            dataclasses.replace(number, **changes).seal()


def test_flows_are_planned_with_a_bound_that_is_chosen(areas):
    two = RECORDS.rename_columns(["who", "s1", "c1", "home"])
    trips = two.append_column("s2", two["s1"]).append_column("c2", two["c1"])
    columns = {"origins": areas, "destinations": areas, "origin": ["s1", "c1"], "destination": ["s2", "c2"]}
    auto = plan_flows(FlowsArguments(trips, budget=EPSILON, **columns, **options_of()))
    assert auto.bound_is_chosen
    with pytest.raises(ValueError, match=r"^trips: RecordBatchReader is read once, as a stream"):
        plan_flows(FlowsArguments(trips.to_reader(), budget=EPSILON, **columns, **options_of()))


def test_a_plan_that_is_one_of_several_is_not_accounted_for_by_losses(areas):
    plan = plan_counts(CountsArguments(RECORDS, areas, tt.Budget(epsilon=1, delta=1e-6), neighboring="add_remove")).plan
    assert plan.accounting == "pld"
    with pytest.raises(tt.BudgetExceeded, match="is not proven for noise that is chosen"):
        NoisePlan(plan.budget, plan.accounting, plan.levels, chosen=True)


BAD = [
    ({"person": None, "contributions": None}, 'max_contributions: "auto" is chosen by how many .* needs person'),
    ({"contributions": None}, r'max_contributions: "auto" is chosen from what contributions measures; give contri'),
    ({"max_contributions": "most"}, 'max_contributions: str must be an integer, or "auto"'),
    ({"accounting": "pld", "budget": tt.Budget(epsilon=1, delta=1e-6)}, 'accounting: "pld" is not proven where max_'),
    (
        {"mechanism": tt.counts.StabilityHistogram(), "budget": tt.Budget(epsilon=1, delta=1e-6)},
        "contributions: StabilityHistogram publishes counts above a threshold",
    ),
    ({"records": RECORDS.to_reader()}, "records: RecordBatchReader is read once, as a stream, and with max_contri"),
]


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_what_cannot_be_chosen_is_refused_before_anything_is_spent(areas, tmp_path, changes, message):
    with pytest.raises((ValueError, TypeError), match=message):
        released(areas, **({"ledger": tmp_path / "ledger", "dataset": "d"} | changes))
    assert not (tmp_path / "ledger").exists()


def test_sorted_sizes_are_refused(areas):
    groups = areas.leaf_table().append_column("groups", pa.array([9] * areas.n_leaves))
    with pytest.raises(ValueError, match=r'max_contributions: "auto" weighs the noise of cells .* sorted sizes'):
        planned_sizes(areas, mechanism=tt.sizes.Matching(estimator="sorted"), public_groups=groups, invariants="groups")
