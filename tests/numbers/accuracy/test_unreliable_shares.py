"""The predicted share of unreliable numbers, what is advised, and the stand-ins of tables."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tallytree as tt
from helpers.inside import (
    CountsArguments,
    FlowsArguments,
    SizesArguments,
    TablesArguments,
    plan_counts,
    plan_flows,
    plan_group_sizes,
    plan_tables,
)
from tallytree.numbers.accuracy.advice import Advice, advised, least_amount, percent
from tallytree.numbers.accuracy.expected_errors import ExpectedError
from tallytree.numbers.accuracy.simulated_errors import simulated_errors
from tallytree.numbers.accuracy.targets import two_digits
from tallytree.release.intervals import LevelErrors
from tallytree.release.quality import NEAR_ZERO, UNRELIABLE, numbers_by_verdict

BUDGET = tt.Budget(epsilon=1, delta=1e-6)


def seen(release, replicates=None):
    """Of a release, the share of each level's numbers that are not usable."""
    if replicates:
        release = tt.replicate_errors(release, replicates, seed=1)
    found = []
    for table in release.level_tables.values():
        verdicts = numbers_by_verdict([table.read(0, table.num_rows)], LevelErrors(replicates))
        found.append((verdicts[UNRELIABLE] + verdicts[NEAR_ZERO]) / sum(verdicts.values()))
    return found


def towns(counts):
    """A table of 5 counties a state with these counts."""
    numbers = np.arange(len(counts))
    return pa.table({"state": numbers // 5, "county": numbers, "count": counts})


@pytest.mark.parametrize("mechanism", [tt.counts.LeastSquares(), tt.counts.TopDown(), tt.counts.TopDown(sparsity=3)])
def test_the_share_is_that_of_the_releases(mechanism):
    """The counts are 0, far below three standard deviations, near them, or far above; sums of 5 are above or 0.

    Replicates of a release do not leave out what its sparsity left out, so that their verdicts are too good.
    """
    like = towns([0] * 20 + [2] * 10 + [25] * 30 + [900] * 40)
    tree = tt.Hierarchy.from_table(like, ["state", "county"])
    options = {"neighboring": "add_remove", "count": "count", "mechanism": mechanism}
    predicted = simulated_errors(plan_counts(CountsArguments("absent", tree, BUDGET, **options)), like, seed=1)
    replicates = None if isinstance(mechanism, tt.counts.LeastSquares) else 20
    runs = [seen(tt.release_counts(like, tree, BUDGET, seed=seed, **options), replicates) for seed in range(6)]
    for each, shares in zip(predicted, np.transpose(runs), strict=True):
        error = max(shares.std() / np.sqrt(5), 0.3 / each.nodes)
        assert each.unreliable > shares.mean() - 4 * error
        assert each.unreliable < shares.mean() + 4 * error + (0.1 if mechanism.sparsity else 0.0)
    assert 0.3 < predicted[-1].unreliable < 0.7


def test_cells_that_are_not_listed_are_not_counted():
    areas = tt.Hierarchy.from_table(pa.table({"a": list("wxyz")}), ["a"])
    like = pa.table({"o": list("wwxy"), "d": list("wxyz"), "count": [5_000, 4_000, 3_000, 2_000]})
    given_ = {"origins": areas, "destinations": areas, "origin": ["o"], "destination": ["d"]}
    planned = plan_flows(FlowsArguments("absent", budget=BUDGET, neighboring="change_one", **given_))
    last = simulated_errors(planned, like, replicates=10, seed=1)[-1]
    assert last.nodes == 16
    assert last.unreliable < 0.4  # of all 16 pairs, 12 are 0


@pytest.mark.parametrize("mechanism", [tt.sizes.Joint(), tt.sizes.Matching()], ids=repr)
def test_the_share_of_single_group_sizes_is_that_of_releases_with_replicates(mechanism):
    rng = np.random.default_rng(1)
    rows = {"state": np.repeat(np.arange(6), 8), "size": np.tile(np.arange(1, 9), 6), "groups": rng.poisson(40, 48)}
    like = pa.table(rows)
    tree = tt.Hierarchy.from_table(pa.table({"state": np.arange(6)}), ["state"])
    options = {"size": "size", "groups": "groups", "max_group_size": 10, "neighboring": "add_remove"}
    options["mechanism"] = mechanism
    budget = tt.Budget(epsilon=0.5)
    planned = plan_group_sizes(SizesArguments("absent", tree, budget, **options))
    predicted = simulated_errors(planned, like, seed=1)[-1].unreliable
    shares = [seen(tt.release_group_sizes(like, tree, budget, seed=i, **options), 20)[-1] for i in range(6)]
    assert predicted == pytest.approx(np.mean(shares), abs=0.1)


# Tables


@pytest.fixture(scope="module")
def sides():
    """Three areas and two attributes, of which one has few records of a kind."""
    areas = tt.Hierarchy.from_table(pa.table({"region": list("AAB"), "town": list("xyz")}), ["region", "town"])
    return {"area": areas, "sex": tt.Hierarchy.from_values("sex", ["f", "m"]), "age": ages()}


def ages():
    return tt.Hierarchy.from_values("age", ["child", "adult", "old"])


def people(few=4):
    """Counts of all cells; those of old people are small."""
    rows = [
        {
            "region": "AAB"["xyz".index(town)],
            "town": town,
            "sex": sex,
            "age": age,
            "count": few if age == "old" else 400,
        }
        for town in "xyz"
        for sex in "fm"
        for age in ("child", "adult", "old")
    ]
    return pa.Table.from_pylist(rows)


def planned_tables(sides, budget=BUDGET, **options):
    options = {"neighboring": "add_remove", "tables": [("town", "sex", "age"), ("town",)]} | options
    return plan_tables(TablesArguments("absent", tt.Product(sides), budget, **options))


@pytest.mark.slow
@pytest.mark.parametrize("neighboring", ["add_remove", "change_one"])
def test_tables_are_simulated_on_a_public_table_and_on_a_release(sides, neighboring, tmp_path):
    planned = planned_tables(sides, neighboring=neighboring)
    tables = [("town", "sex", "age"), ("town",)]
    options = {"neighboring": neighboring, "tables": tables, "count": "count"}
    shares = []
    for seed in range(6):
        release = tt.release_tables(people(), tt.Product(sides), BUDGET, seed=seed, **options)
        shares.append(dict(zip(release.levels, seen(release), strict=True)))
    found = simulated_errors(planned, people(), seed=1)
    assert [each.basis for each in found] == ["simulation"] * len(found)
    for each in found[:2]:
        assert each.unreliable == pytest.approx(np.mean([run[each.level] for run in shares]), abs=0.1)
    cells, towns_ = found[:2]
    assert cells.unreliable == pytest.approx(1 / 3, abs=0.1)
    assert towns_.unreliable == 0.0
    last_year = tt.release_tables(people(), tt.Product(sides), tt.Budget(rho=50), **options | {"budget_split": "auto"})
    last_year.save(tmp_path / "last")
    if set(planned.layout.levels) <= set(last_year.levels):
        again = simulated_errors(planned, tmp_path / "last", seed=1)
        assert again[0].std_dev == pytest.approx(found[0].std_dev, rel=0.3)


def test_public_totals_of_a_stand_in_are_kept_in_its_simulation(sides):
    totals = pa.table({"region": ["A", "B"], "count": [7, 9]})  # this year's, which are not the stand-in's
    planned = planned_tables(
        sides, neighboring="change_one", public_totals=totals, tables=[("region",), ("town", "sex")]
    )
    regions = next(each for each in simulated_errors(planned, people(), seed=1) if each.level == "region")
    assert (regions.std_dev, regions.expected_maximum, regions.unreliable) == (0.0, 0.0, 0.0)


def test_a_stand_in_of_tables_that_does_not_fit_is_refused(sides):
    other = {"neighboring": "add_remove", "tables": [("town",)], "count": "count"}
    release = tt.release_tables(people(), tt.Product(sides), BUDGET, **other)
    with pytest.raises(ValueError, match=r"like: .*planned table 'town\.sex\.age'; give"):
        simulated_errors(planned_tables(sides), release)
    impossible = pa.table({"sex": ["m"], "age": ["old"]})
    planned = plan_tables(
        TablesArguments(
            "absent",
            tt.Product(sides, impossible=[impossible]),
            BUDGET,
            neighboring="add_remove",
            tables=[("town", "sex", "age")],
        )
    )
    with pytest.raises(ValueError, match="like: it counts records in cells that the spec lists as impossible"):
        simulated_errors(planned, people())
    assert simulated_errors(planned, people(few=0), replicates=2)[0].unreliable is not None


# Advice


def error(level, nodes, share):
    return ExpectedError(level, nodes, 1.0, 1.6, 2.0, "simulation", share)


LEVELS = ("all", "province", "town")


def of_a_tree(level):
    return LEVELS[: LEVELS.index(level)]


@pytest.mark.parametrize(
    ("shares", "amount", "said"),
    [
        ((0.0, 0.05, 0.284), Fraction(21, 10), "28 % of the numbers at town will be unreliable; publish "
         "province instead, or use epsilon 2.1."),
        ((0.0, 0.3, 0.284), None, "30 % of the numbers at province will be unreliable; publish all instead."),
        ((0.2, 0.3, 1.0), Fraction(3), "100 % of the numbers at town will be unreliable; use epsilon 3."),
        ((0.2, 0.3, 1.0), None, "100 % of the numbers at town will be unreliable."),
        ((0.0, None, 0.5), None, "50 % of the numbers at town will be unreliable; publish all instead."),
    ],
)  # fmt: skip
def test_the_advice_names_the_finest_usable_level_and_the_budget(shares, amount, said):
    errors = [error(*each) for each in zip(LEVELS, (1, 5, 80), shares, strict=True)]
    assert str(advised(errors, of_a_tree, "epsilon", lambda level: amount)) == said


@pytest.mark.parametrize("shares", [(0.0, 0.1, 0.1), (None, None, None), (0.0, 0.0, 0.0)])
def test_nothing_is_advised_where_no_level_has_many_unreliable_numbers(shares):
    errors = [error(*each) for each in zip(LEVELS, (1, 5, 80), shares, strict=True)]
    assert advised(errors, of_a_tree, "epsilon", pytest.fail) is None


def test_the_fields_of_advice_are_plain():
    fields = Advice("town", 0.3, None, "rho", Fraction(1, 20)).fields()
    sentence = "30 % of the numbers at town will be unreliable; use rho 0.05."
    assert fields == {"level": "town", "unreliable": 0.3, "instead": None, "rho": 0.05, "sentence": sentence}
    assert [percent(share) for share in (0.004, 0.05, 0.1, 1.0)] == ["0.4 %", "5 %", "10 %", "100 %"]


@pytest.mark.slow
@given(
    threshold=st.integers(1, 4_000),
    planned=st.integers(1, 300),
    beside=st.lists(st.integers(1, 1_200), max_size=4),
    none_above=st.integers(1, 5_000),
)
@settings(max_examples=300, deadline=None)
def test_the_least_amount_is_the_one_that_a_search_of_all_finds(threshold, planned, beside, none_above):
    """Amounts are in hundredths; more than `planned` is needed, and from `none_above` on there is no plan."""
    asked = []

    def share_at(amount):
        asked.append(amount)
        if amount * 100 >= none_above:
            return None
        return 0.1 if amount * 100 >= threshold else 0.11

    threshold = max(threshold, planned + 1)
    above = Fraction(planned, 100)
    known = {Fraction(each, 100): share_at(Fraction(each, 100)) for each in {planned, *beside}}
    asked.clear()
    found = least_amount(share_at, known, above, 10)
    tried = [each for each in two_digits(above, above * 10) if share_at(each) == 0.1]
    if none_above > planned * 10:
        assert found == next(iter(tried), None)
    else:
        assert found is None or found == tried[0]
    assert len(asked) <= 8 + len(two_digits(above, above * 10))


def test_amounts_of_two_digits():
    found = two_digits(Fraction(87, 100), Fraction(121, 100))
    assert [float(each) for each in found] == [0.88, 0.89, 0.9, 0.91, 0.92, 0.93, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99,
                                               1.0, 1.1, 1.2]  # fmt: skip
