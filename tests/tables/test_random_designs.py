"""Random designs on random sparse data: tables err as least squares does, and their intervals hold."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import tallytree as tt

RUNS = 6


@st.composite
def designs(draw):
    """Sizes, the tables by (area level, attributes), their shares, the budget and the seed of the data."""
    sizes = draw(st.lists(st.integers(2, 5), min_size=2, max_size=4))
    areas = draw(st.integers(2, 5)), draw(st.integers(2, 6))
    subsets = [each for n in range(len(sizes) + 1) for each in itertools.combinations(range(len(sizes)), n)]
    names = [(level, each) for level in (0, 1, 2) for each in subsets]
    tables = draw(st.lists(st.sampled_from(names), min_size=1, max_size=6, unique=True))
    shares = draw(st.lists(st.sampled_from([1, 10, 100]), min_size=len(tables), max_size=len(tables)))
    return areas, sizes, tables, shares, draw(st.sampled_from([0.002, 0.05, 1.0])), draw(st.integers(0, 99))


def sparse(areas, sizes, seed):
    """Counts of which most are 0 and a few are large, by state, town and attributes."""
    rng = np.random.default_rng(seed)
    state = np.repeat(np.arange(areas[0]), areas[1])
    cells = list(itertools.product(range(len(state)), *map(range, sizes)))
    common = rng.gamma(0.3, 1.0, int(np.prod(sizes)))  # what is rare is rare everywhere
    mean = np.outer(rng.gamma(0.7, 60.0, len(state)), common / common.sum()).ravel()
    table = pd.DataFrame(cells, columns=["town", *(f"a{i}" for i in range(len(sizes)))])
    table.insert(0, "state", state[table["town"]])
    table = table.astype(str)
    table["count"] = rng.poisson(mean)
    return table


def measured(design):
    """By table, the ratio of errors to those of least squares, the coverage, and the number of cells."""
    areas, sizes, tables, shares, rho, seed = design
    table = sparse(areas, sizes, seed)
    attributes = [f"a{i}" for i in range(len(sizes))]
    sides = {"area": tt.Hierarchy.from_table(table[["state", "town"]].drop_duplicates(), ["state", "town"])}
    sides |= {name: tt.Hierarchy.from_values(name, sorted(table[name].unique())) for name in attributes}
    named = [(*(("state", "town")[level - 1],) * bool(level), *(attributes[i] for i in each)) for level, each in tables]
    squares, held = {}, {}
    for run in range(RUNS):
        release = tt.release_tables(
            table, tt.Product(sides), tt.Budget(rho=rho), neighboring="add_remove", tables=named, count="count",
            budget_split=dict(zip(named, shares, strict=True)), seed=run,
        )  # fmt: skip
        for name in named:
            rows = release.table(*name, alpha=0.1, unbiased=True).to_pandas()
            paths = [column for column in rows.columns if column in table.columns and column != "count"]
            if paths:
                true = table.groupby(paths)["count"].sum().rename("true").reset_index()
                true = rows.merge(true, on=paths, how="left")["true"].to_numpy()
            else:
                true = np.array([table["count"].sum()])
            own = squares.setdefault(name, [])
            own.append([((rows[column].to_numpy() - true) ** 2).sum() for column in ("count", "unbiased")])
            held.setdefault(name, []).append(((rows["ci_lower"] <= true) & (true <= rows["ci_upper"])).mean())
            assert (rows["count"] >= 0).all()
            assert (rows["ci_lower"] <= rows["count"]).all()
            assert (rows["count"] <= rows["ci_upper"]).all()
    return {
        name: (np.sqrt(np.divide(*np.sum(squares[name], axis=0))), np.mean(held[name]), len(release.table(*name)))
        for name in named
    }


FOUND = []


# The designs that failed before tables were decided from coarse to fine: no joint, uneven shares, the joint alone.
@example(((5, 6), [4, 2, 5, 2], [(2, ()), (2, (0, 2)), (2, (1, 3)), (0, (2,))], [1, 1, 1, 1], 0.05, 1))
@example(((5, 6), [4, 2, 5, 2], [(2, (0,)), (2, (1, 2)), (2, (3,)), (1, (0, 1))], [100, 1, 100, 1], 0.05, 2))
@example(((4, 6), [3, 5, 2], [(2, (0, 1, 2)), (0, (1,)), (1, ()), (0, ())], [1, 100, 1, 1], 0.002, 3))
@given(designs())
@settings(max_examples=40, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
def each_design(design):
    """Six runs: a table of 50 cells has 300 errors, of which those of one run are correlated."""
    for name, (ratio, coverage, cells) in measured(design).items():
        FOUND.append((ratio, coverage, cells))
        if cells >= 50:
            assert ratio < 1.35, name
            assert coverage > 0.8, name


@pytest.mark.slow
def test_random_designs_err_as_least_squares_and_their_intervals_hold():
    """Over all designs: a joint fit has ratios of 1.5 to 7 and coverages of 16 to 50 % in such designs."""
    FOUND.clear()
    each_design()
    ratios, coverages, cells = np.array(FOUND).T
    large = cells >= 50
    assert large.sum() > 20
    assert np.mean(ratios[large]) < 1.02
    assert np.mean(coverages[large]) > 0.89
    assert np.mean(ratios) < 1.06  # rounding counts where few cells have little noise
    assert np.mean(coverages) > 0.88
