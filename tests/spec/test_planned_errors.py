"""`tt.plan`: expected errors and risk of a spec, targets, and that nothing private is opened."""

from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from helpers.inside import LEAST, amount_at, discrete
from tallytree.engines import Local
from tallytree.spec import SpecError, load_spec
from tallytree.spec.budget_changes import decimal_text, rewritten
from tallytree.spec.planned_errors import parsed_target, wanted_numbers

COUNTS = """\
statistic: counts
records: private/absent.parquet   # not there
hierarchy: {path: areas.parquet, levels: [state, county]}
budget:
  epsilon: 1   # to be chosen
neighboring: add_remove
"""
DELTA = COUNTS.replace("chosen\n", "chosen\n  delta: 1e-8\n")
SIZES = """\
statistic: group_sizes
records: absent.parquet
size: size
groups: groups
hierarchy: {path: areas.parquet, levels: [state, county]}
max_group_size: 20
budget: {epsilon: 1}
neighboring: add_remove
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with the public tree and specs whose records do not exist."""
    states = [f"s{i // 5}" for i in range(20)]
    pq.write_table(pa.table({"state": states, "county": [f"c{i}" for i in range(20)]}), tmp_path / "areas.parquet")
    like = {"state": states, "county": [f"c{i}" for i in range(20)], "count": [500] * 20}
    pq.write_table(pa.table(like), tmp_path / "last.parquet")
    (tmp_path / "counts.yaml").write_text(COUNTS)
    (tmp_path / "delta.yaml").write_text(DELTA)
    (tmp_path / "sizes.yaml").write_text(SIZES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def nothing_private(monkeypatch):
    """Fails the test if an engine reads a table, or a noise source is made."""

    def refuse(*arguments, **options):
        raise AssertionError("private data were opened, or noise was made")

    for name in ("tabulate", "check"):
        monkeypatch.setattr(Local, name, refuse)
    for source in (discrete.KeyedNoise, discrete.OpenDPNoise):
        monkeypatch.setattr(source, "__init__", refuse)


def std_devs(plan):
    return {each["level"]: each["std_dev"] for each in plan.levels}


@pytest.mark.parametrize("spec", ["counts.yaml", pytest.param("delta.yaml", marks=pytest.mark.slow), "sizes.yaml"])
def test_nothing_private_is_opened(folder, nothing_private, spec):
    assert not list(folder.glob("**/absent*"))
    planned = tt.plan(spec, epsilons=(), mechanisms=())
    assert [each["level"] for each in planned.levels] == ["all", "state", "county"]
    with pytest.raises(AssertionError):
        load_spec(spec).check()


@pytest.mark.slow
def test_the_table_is_tidy(folder):
    planned = tt.plan("delta.yaml")
    assert planned.table.column_names == [
        "epsilon", "delta", "rho", "mechanism", "level", "nodes", "std_dev", "half_width", "expected_maximum", "basis",
        "least_usable", "unreliable", "moved",
    ]  # fmt: skip
    rows = planned.table.to_pylist()
    own = [row for row in rows if row["mechanism"] == "LeastSquares"]
    assert sorted({row["epsilon"] for row in own}) == [0.25, 0.5, 1, 2, 4]
    assert {row["mechanism"] for row in rows if row["epsilon"] == 1} == {
        "LeastSquares",
        "TopDown",
        "StabilityHistogram",
    }
    assert {row["delta"] for row in rows} == {1e-8}
    assert {row["rho"] for row in rows} == {None}
    for level in ("all", "state", "county"):
        falling = [row["std_dev"] for row in own if row["level"] == level]
        assert falling == sorted(falling, reverse=True)
    assert repr(planned).startswith("ErrorPlan(LeastSquares, Budget(epsilon=1.0, delta=1e-08), std_dev: all ")
    assert any("noisy counts below" in note for note in planned.notes)
    assert len(planned.risk) == 10
    assert planned.statement["rates"][0]["true_positive_rate"] == pytest.approx(0.016573, abs=2e-5)


def test_budgets_and_mechanisms_can_be_chosen(folder):
    planned = tt.plan("counts.yaml", epsilons=(Decimal("0.3"), 2), mechanisms=["TopDown"])
    rows = planned.table.to_pylist()
    assert [(row["epsilon"], row["mechanism"]) for row in rows[::3]] == [
        (0.3, "LeastSquares"),
        (1.0, "LeastSquares"),
        (2.0, "LeastSquares"),
        (1.0, "TopDown"),
    ]
    changed = tt.plan("counts.yaml", epsilons=(), mechanisms=(), changes={"budget.epsilon": 2})
    assert changed.table.num_rows == 3
    assert std_devs(changed)["county"] < std_devs(planned)["county"]


def test_a_mechanism_that_does_not_fit_is_left_out_with_the_reason(folder):
    planned = tt.plan("counts.yaml")
    assert "StabilityHistogram" not in planned.table["mechanism"].to_pylist()
    assert any(note.startswith("StabilityHistogram does not fit this spec: ") for note in planned.notes)
    with pytest.raises(ValueError, match="budget: "):
        tt.plan("counts.yaml", mechanisms=["StabilityHistogram"])


def test_a_spec_in_rho_is_compared_in_rho(folder):
    mapping = {**tt.plan("counts.yaml", epsilons=(), mechanisms=()).spec, "budget": {"rho": 0.1}}
    planned = tt.plan(mapping, mechanisms=())
    assert sorted(set(planned.table["rho"].to_pylist())) == pytest.approx([0.025, 0.05, 0.1, 0.2, 0.4])
    assert tt.plan(mapping, target={"county": 4}).budget.rho < Fraction(1, 10)
    with pytest.raises(ValueError, match=r"epsilons: Budget\(rho=0\.1\) is in rho"):
        tt.plan(mapping, epsilons=[1])


def test_options_of_a_run_have_no_part_in_it(folder):
    changes = {"ledger": "ledger.db", "dataset": "x", "run": "1", "secret": "no-such-secret"}
    assert tt.plan("counts.yaml", changes=changes).table == tt.plan("counts.yaml").table
    assert tt.plan("counts.yaml", changes={"seed": 1}).statement == tt.plan("counts.yaml").statement
    assert not (folder / "ledger.db").exists()


def test_the_least_budget_that_gives_a_target(folder):
    planned = tt.plan("counts.yaml", target={"county": 5, "all": 6}, mechanisms=())
    found = std_devs(planned)
    assert found["county"] <= 5
    assert found["all"] <= 6
    assert max(found["county"] / 5, found["all"] / 6) > 0.985
    epsilon = planned.budget.epsilon
    below = tt.plan("counts.yaml", changes={"budget.epsilon": Decimal(decimal_text(epsilon * Fraction(99, 100)))})
    assert std_devs(below)["county"] > 5 or std_devs(below)["all"] > 6
    assert load_spec(planned.spec).plan().plan.budget == planned.budget


@pytest.mark.slow
def test_delta_stays_where_epsilon_is_searched(folder):
    planned = tt.plan("delta.yaml", target={"county": 5}, epsilons=(), mechanisms=())
    assert planned.budget.delta == Fraction(1, 10**8)
    assert 4.9 < std_devs(planned)["county"] <= 5


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({"town": 5}, "target: 'town' is not a level of this release; its levels are all, state, county"),
        ({"state,county": 5}, "target: 'state,county' is not a level"),
        ({("state", "county"): 5}, "target: 'state,county' is not a level"),
        ({"county": 0}, r"target: 'county' is to have a std_dev of 0\.0, which must be more than 0"),
        ({"county": -1}, r"target: 'county' is to have a std_dev of -1\.0"),
        ({"all": 5}, "target: 'all' is public, so it has no error at any budget; leave it out"),
        ({"county": 1e-30}, "target: no epsilon up to 1,000,000 reaches it; ask for a larger std_dev"),
        ({}, "target: nothing is wanted"),
    ],
)
def test_targets_that_no_budget_meets_are_refused(folder, target, message):
    with pytest.raises(ValueError, match=message):
        tt.plan("counts.yaml", target=target, changes={"neighboring": "change_one"})


@pytest.mark.parametrize("target", ["county=5", {5: 5}, {"county": "five"}, {"county": True}])
def test_targets_of_another_kind_are_refused(folder, target):
    with pytest.raises(TypeError, match="target"):
        tt.plan("counts.yaml", target=target)


def test_a_target_needs_a_closed_form(folder):
    with pytest.raises(ValueError, match="target: the error of 'county' by Joint has no closed form"):
        tt.plan("sizes.yaml", target={"county": 5})
    changes = {"mechanism.name": "StabilityHistogram"}
    with pytest.raises(ValueError, match="target: the error of 'state' by StabilityHistogram has no closed form"):
        tt.plan("delta.yaml", target={"state": 5}, changes=changes)


def test_without_a_stand_in_group_sizes_have_no_numbers_and_it_is_said_how_to_get_them(folder):
    planned = tt.plan("sizes.yaml")
    assert planned.notes[0].startswith("Joint has no closed form")
    assert set(planned.table["mechanism"].to_pylist()) == {"Joint"}
    assert "--like PATH" in planned.notes[0]
    assert set(planned.table["basis"].to_pylist()) == {"not known"}
    assert planned.table["std_dev"].null_count == planned.table.num_rows


def test_a_stand_in_is_simulated(folder):
    planned = tt.plan("counts.yaml", epsilons=(), mechanisms=["TopDown"], like="last.parquet", replicates=3, seed=1)
    assert set(planned.table["basis"].to_pylist()) == {"simulation"}
    assert std_devs(planned)["county"] == pytest.approx(std_devs(tt.plan("counts.yaml"))["county"], rel=0.3)
    assert planned.notes[0].startswith("Simulated on a stand-in, 3 replicates")
    assert any(each.startswith("Numbers below these will be unreliable") for each in planned.notes)
    assert [each["unreliable"] for each in planned.levels] == [0.0, 0.0, 0.0]
    assert planned.advice is None


@pytest.mark.slow
def test_where_many_numbers_will_be_unreliable_a_level_and_a_budget_are_advised(folder):
    rows = pq.read_table("last.parquet").drop_columns(["count"])
    pq.write_table(rows.append_column("count", pa.array([30] * 5 + [3_000] * 15)), "few.parquet")
    options = {"mechanisms": (), "like": "few.parquet", "seed": 1, "replicates": 10}
    planned = tt.plan("counts.yaml", changes={"budget.epsilon": 0.2}, **options)
    advice = planned.advice
    assert (advice.level, advice.unreliable) == ("county", pytest.approx(0.25, abs=0.03))
    assert advice.instead == "state"
    assert 0.2 < advice.amount < 1
    assert str(advice) == (
        f"{advice.unreliable * 100:.0f} % of the numbers at county will be unreliable; publish state instead, or use "
        f"epsilon {float(advice.amount):g}."
    )
    shares = {
        amount: tt.plan("counts.yaml", changes={"budget.epsilon": float(amount)}, epsilons=(), **options).levels[-1]
        for amount in (advice.amount, advice.amount - Fraction(5, 100))
    }
    enough, too_few = (each["unreliable"] for each in shares.values())
    assert enough <= 0.1 < too_few
    assert tt.plan("counts.yaml", mechanisms=()).advice is None


def test_the_advice_is_in_rho_where_the_budget_is(folder):
    rows = pq.read_table("last.parquet").drop_columns(["count"])
    pq.write_table(rows.append_column("count", pa.array([30] * 20)), "few.parquet")
    mapping = {**tt.plan("counts.yaml", epsilons=(), mechanisms=()).spec, "budget": {"rho": 0.01}}
    advice = tt.plan(mapping, mechanisms=(), like="few.parquet", seed=1, replicates=5).advice
    assert advice.fields()["rho"] == float(advice.amount)
    assert "use rho 0.0" in str(advice)


def test_the_private_table_is_no_stand_in(folder, nothing_private):
    for like in ("private/absent.parquet", folder / "private" / ".." / "private" / "absent.parquet"):
        with pytest.raises(ValueError, match="like: it is the private table that the spec names as records"):
            tt.plan("counts.yaml", like=like)
    (folder / "private").mkdir()
    (folder / "private" / "part1.parquet").touch()
    with pytest.raises(ValueError, match="like: it is the private table"):
        tt.plan("counts.yaml", changes={"records": "private/*.parquet"}, like="private/part1.parquet")
    (folder / "private" / "a" / "b").mkdir(parents=True)
    (folder / "private" / "a" / "b" / "deep.parquet").touch()
    (folder / "other_name.parquet").hardlink_to(folder / "private" / "a" / "b" / "deep.parquet")
    for like in ("**/deep.parquet", "other_name.parquet", "other*.parquet"):
        with pytest.raises(ValueError, match="like: it is the private table"):
            tt.plan("counts.yaml", changes={"records": "private/a/b/deep.parquet"}, like=like)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"epsilons": "0.5"}, TypeError, "epsilons: str must be a list of numbers"),
        ({"epsilons": [0]}, ValueError, "epsilon: 0 must be greater than 0"),
        ({"mechanisms": "TopDown"}, TypeError, "mechanisms: str must be a list of names"),
        ({"mechanisms": ["Joint"]}, ValueError, "mechanisms: 'Joint' is not known; choose among "),
        ({"mechanisms": [1]}, TypeError, "mechanisms: int must be the name of a mechanism"),
        ({"like": "nowhere.parquet"}, (ValueError, OSError), "like: "),
        ({"changes": {"budget.epsilon": 0}}, SpecError, "budget.epsilon"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(folder, options, error, message):
    with pytest.raises(error, match=message):
        tt.plan("counts.yaml", **options)


def test_the_spec_as_a_mapping_does_not_depend_on_the_folder(folder, monkeypatch):
    planned = tt.plan("counts.yaml", changes={"ledger": "ledger.db", "dataset": "d"}, epsilons=(), mechanisms=())
    monkeypatch.chdir("/")
    assert load_spec(planned.spec).plan().tree.levels == ("all", "state", "county")
    assert planned.spec["ledger"] == str(folder / "ledger.db")


def test_a_written_budget_leaves_all_else_as_it_is(folder):
    text = rewritten("counts.yaml", ("budget", "epsilon"), "0.37")
    assert text == COUNTS.replace("epsilon: 1 ", "epsilon: 0.37 ")
    with pytest.raises(SpecError, match=r"counts\.yaml: it has no key budget\.rho of its own"):
        rewritten("counts.yaml", ("budget", "rho"), "1")


def test_amounts_have_three_digits_and_ascend():
    amounts = [amount_at(place) for place in range(0, 2_000)]
    assert amounts[0] == Fraction(10) ** LEAST
    assert amounts == sorted(amounts)
    assert [decimal_text(amount_at(place)) for place in (6 * 900, 6 * 900 + 1, 7 * 900)] == ["1", "1.01", "10"]
    assert decimal_text(Fraction(1, 10**9)) == "1E-9"
    with pytest.raises(ValueError, match="budget: 1/3 has no finite decimal form"):
        decimal_text(Fraction(1, 3))


def test_targets_and_numbers_as_text():
    assert parsed_target("county=50") == ("county", 50)
    assert parsed_target(" county,sex = 1e1") == ("county,sex", 10)
    assert parsed_target("a=b=5") == ("a=b", 5)
    assert wanted_numbers(["0.5", "1_0"], "epsilon") == [Decimal("0.5"), 10]
    for text in ("county", "county=", "=5", "county=five"):
        with pytest.raises(ValueError, match=r"target: .* must be LEVEL=STD_DEV"):
            parsed_target(text)
    with pytest.raises(ValueError, match=r"epsilon: 'x' must be a number, such as 0\.5"):
        wanted_numbers(["x"], "epsilon")
