"""Expected errors of planned releases: in closed form, from the noise alone, and by simulation on a stand-in."""

from contextlib import nullcontext

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tallytree as tt
from helpers.inside import (
    CountsArguments,
    FlowsArguments,
    SizesArguments,
    contributions_of,
    plan_counts,
    plan_flows,
    plan_group_sizes,
)
from tallytree.numbers.accuracy.expected_errors import (
    ExpectedError,
    expected_errors,
    has_closed_form,
    shown,
    unreliable_below,
)
from tallytree.numbers.accuracy.simulated_errors import simulated_errors, stand_in_of

ABSENT = "/nowhere/records.parquet"


@pytest.fixture(scope="module")
def towns():
    """40 states of 5 to 14 counties."""
    states = np.repeat(np.arange(40), 5 + np.arange(40) % 10)
    return tt.Hierarchy.from_table(pa.table({"state": states, "county": np.arange(len(states))}), ["state", "county"])


@pytest.fixture(scope="module")
def last_year(towns):
    """Counts that are large compared to all noise here."""
    leaves = towns.leaf_table()
    return leaves.append_column("count", pa.array(1_000 + np.arange(leaves.num_rows) % 7 * 500))


def counts(tree, mechanism=None, budget=None, **options):
    options = {"neighboring": "add_remove"} | options
    return plan_counts(CountsArguments(ABSENT, tree, budget or tt.Budget(rho=0.02), mechanism=mechanism, **options))


def sizes(tree, mechanism=None, budget=None, **options):
    options = {"neighboring": "add_remove", "size": "size", "groups": "groups", "max_group_size": 8} | options
    return plan_group_sizes(SizesArguments(ABSENT, tree, budget or tt.Budget(rho=0.02), mechanism=mechanism, **options))


@pytest.mark.parametrize("budget", [tt.Budget(rho=0.02), tt.Budget(epsilon=0.5)], ids=["gaussian", "laplace"])
@pytest.mark.parametrize("neighboring", ["add_remove", "change_one"])
@pytest.mark.parametrize("mechanism", [tt.counts.LeastSquares(), tt.counts.TopDown(), tt.counts.LeafGaussian()])
@pytest.mark.slow
def test_the_closed_form_is_what_simulation_finds(towns, last_year, mechanism, neighboring, budget):
    with pytest.warns(UserWarning, match="For comparison") if mechanism.caution else nullcontext():
        planned = counts(towns, mechanism, budget, neighboring=neighboring)
    closed, found = expected_errors(planned), simulated_errors(planned, last_year, replicates=60, seed=1)
    for expected, simulated in zip(closed, found, strict=True):
        if expected.basis == "public":
            assert simulated.std_dev == 0.0
            continue
        assert expected.basis == "closed form"
        cells = 60 * expected.nodes
        # Rounded fractions add up to 1/12 + 1/12 to a variance; a root mean square of n errors is known to 1/√(2n),
        # and to 1.6 times that with Laplace noise.
        assert simulated.std_dev == pytest.approx(expected.std_dev, rel=0.02 + 4 * 1.6 / np.sqrt(2 * cells))
        assert simulated.half_width == pytest.approx(expected.half_width, rel=0.03 + 6 / np.sqrt(cells), abs=1.0)
        assert simulated.expected_maximum == pytest.approx(expected.expected_maximum, rel=0.35 if cells == 60 else 0.15)


def test_simulated_errors_are_near_the_closed_form_in_few_replicates(towns, last_year):
    planned = counts(towns)
    leaf, expected = simulated_errors(planned, last_year, replicates=2, seed=1)[-1], expected_errors(planned)[-1]
    assert leaf.std_dev == pytest.approx(expected.std_dev, rel=0.1)
    assert leaf.basis == "simulation"


def test_a_simulation_has_fresh_noise_and_with_a_seed_the_same(towns, last_year):
    planned = counts(towns)

    def found(seed):
        return [each.std_dev for each in simulated_errors(planned, last_year, replicates=2, seed=seed)]

    assert found(7) == found(7) != found(8)
    assert found(None) != found(None)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [tt.counts.LeastSquares(), tt.counts.TopDown()])
def test_the_few_nodes_below_a_public_total_have_errors_that_add_up_to_0(mechanism):
    halves = np.arange(32)
    leaves = pa.table({f"level{k}": halves >> (5 - k) for k in range(1, 6)} | {"count": np.full(32, 3_000)})
    tree = tt.Hierarchy.from_table(leaves, [f"level{k}" for k in range(1, 6)])
    planned = counts(tree, mechanism, tt.Budget(rho=0.02), neighboring="change_one")
    simulated = simulated_errors(planned, leaves, replicates=800, seed=3)
    first, *expected = expected_errors(planned)
    assert (first.basis, simulated[0].std_dev) == ("public", 0.0)
    for each, found in zip(expected, simulated[1:], strict=True):
        assert found.std_dev == pytest.approx(each.std_dev, rel=0.08)
        assert found.expected_maximum == pytest.approx(each.expected_maximum, rel=0.08)


def test_flows_have_a_closed_form_over_the_product(areas):
    arguments = {"origins": areas, "destinations": areas, "origin": ["a", "b"], "destination": ["c", "d"]}
    given = FlowsArguments(ABSENT, budget=tt.Budget(epsilon=1, delta=1e-6), neighboring="change_one", **arguments)
    first, *below = expected_errors(plan_flows(given))
    assert (first.basis, first.std_dev) == ("public", 0.0)
    assert [each.basis for each in below] == ["closed form"] * 4
    assert below[-1].nodes == 16


def test_what_is_left_out_above_a_threshold_is_not_known(areas):
    planned = counts(areas, tt.counts.StabilityHistogram(), tt.Budget(epsilon=1, delta=1e-6))
    *above, leaf = expected_errors(planned)
    assert [(each.basis, each.std_dev) for each in above] == [("not known", None)] * 2
    assert leaf.std_dev == pytest.approx(planned.plan.stable.noise.std_dev)


@pytest.mark.parametrize("mechanism", [tt.counts.LeastSquares(sparsity=3), tt.counts.TopDown(sparsity=3)])
def test_without_a_closed_form_no_number_is_shown(areas, mechanism):
    found = expected_errors(counts(areas, mechanism))
    assert [(each.basis, each.std_dev, each.half_width, each.expected_maximum) for each in found] == [
        ("not known", None, None, None)
    ] * 3
    assert not has_closed_form(found)


@pytest.mark.parametrize("mechanism", [tt.sizes.Joint(), tt.sizes.HistogramProjection(), tt.sizes.BottomUp()])
def test_of_group_sizes_nothing_is_known_without_a_stand_in(areas, mechanism):
    found = expected_errors(sizes(areas, mechanism))
    assert [(each.basis, each.std_dev) for each in found] == [("not known", None)] * 3


@pytest.mark.parametrize("invariants", ["groups", "total", "none"])
def test_group_sizes_are_simulated_on_a_table_and_on_a_release(areas, invariants, tmp_path):
    table = areas.leaf_table()
    rows = pa.concat_tables([table, table])
    rows = rows.append_column("size", pa.array([1] * 4 + [20] * 4)).append_column("groups", pa.array([50] * 8))
    budget = tt.Budget(rho=0.5)
    options = {"size": "size", "groups": "groups", "max_group_size": 8, "neighboring": "add_remove"}
    release = tt.release_group_sizes(rows, areas, budget, invariants=invariants, **options)
    release.save(tmp_path / "last")
    planned = sizes(areas, budget=budget, invariants=invariants)
    for like in (rows, release, tmp_path / "last"):
        found = simulated_errors(planned, like, replicates=3, seed=1)
        assert [each.basis for each in found] == ["simulation"] * 3
        assert all(0 <= each.std_dev <= 2 * each.expected_maximum < 40 for each in found)


def test_a_private_largest_size_is_simulated_as_it_would_be_measured(areas):
    rows = areas.leaf_table().append_column("size", pa.array([3] * 4)).append_column("groups", pa.array([9] * 4))
    planned = sizes(areas, max_group_size=tt.sizes.PrivateMaximum(share=0.1, at_most=500))
    replicated = stand_in_of(planned, rows)
    margin = int(np.ceil(5 * planned.plan.maximum.noise.std_dev))
    assert replicated.domain.largest == 3 + margin < 500


def test_a_release_of_counts_is_a_stand_in(towns, last_year, tmp_path):
    release = tt.release_counts(last_year, towns, tt.Budget(rho=1), count="count", neighboring="add_remove")
    release.save(tmp_path / "last")
    planned = counts(towns)
    seeded = {"replicates": 2, "seed": 4}
    assert simulated_errors(planned, tmp_path / "last", **seeded) == simulated_errors(planned, release, **seeded)


def test_a_stand_in_that_does_not_fit_is_refused(towns, areas, last_year):
    planned = counts(towns)
    release = tt.release_counts(last_year, towns, tt.Budget(rho=1), count="count", neighboring="add_remove")
    wrong = [
        (planned, last_year.drop_columns(["count"]), "like: column 'count' is missing"),
        (planned, pd.DataFrame({"state": ["no"], "county": ["no"], "count": [1]}), "like: "),
        (sizes(towns), release, "like: it is a release of 'counts'; give one of 'group_sizes', or a public table"),
    ]
    for plan, like, message in wrong:
        with pytest.raises(ValueError, match=message):
            simulated_errors(plan, like, replicates=2)
    other = tt.Hierarchy.from_table(areas.leaf_table().rename_columns(["region", "town"]), ["region", "town"])
    with pytest.raises(ValueError, match=r"like: .*all, state, county, not all, region, town"):
        simulated_errors(counts(other), release, replicates=2)


@pytest.mark.parametrize("replicates", [1, 0, 10_001])
def test_too_few_or_too_many_replicates_are_refused(areas, replicates):
    with pytest.raises(ValueError, match=f"replicates: {replicates} must be at "):
        simulated_errors(counts(areas), areas.leaf_table(), replicates=replicates)


def test_another_kind_of_release_has_no_expected_errors(areas):
    people = contributions_of(counts(areas, person="id"))
    with pytest.raises(TypeError, match="planned: PlannedContributions has no expected errors"):
        expected_errors(people)
    with pytest.raises(TypeError, match="planned: PlannedContributions cannot be simulated"):
        simulated_errors(people, None, replicates=2)


def test_figures_as_text():
    figures = [None, 0.0, 1.2345, 999.4, 12_345.6]
    assert [shown(each) for each in figures] == ["", "0", "1.23", "999", "12,346"]


def test_the_least_usable_number_of_a_level_is_three_standard_deviations():
    levels = [("all", 0.0), ("state", None), ("county", 48.285)]
    errors = [ExpectedError(name, 1, std_dev, None, None, "closed form") for name, std_dev in levels]
    assert [each.least_usable for each in errors] == [0.0, None, pytest.approx(145)]
    said = unreliable_below(errors)
    assert said == "Numbers below these will be unreliable (std dev above a third of the number): 145 at county."
    assert unreliable_below(errors[:2]) == ""
