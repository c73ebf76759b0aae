"""The synthetic residents by county, age and sex."""

import numpy as np
import pytest
from tallytree.datasets.residents import LEVELS, residents

import tallytree as tt


def test_equal_arguments_give_equal_tables_and_other_seeds_others():
    assert residents().records().equals(residents().records())
    assert not residents().records().equals(residents(seed=1).records())


def test_every_record_has_its_place_in_the_public_trees():
    data = residents(40, provinces=9, regions=3)
    areas = tt.Hierarchy.from_table(data.areas, levels=list(LEVELS))
    assert [areas.size(depth) for depth in range(4)] == [1, 3, 9, 40]
    release = tt.release_counts(
        data.records(), areas, tt.Budget(epsilon=100_000), neighboring="add_remove", count="count"
    )
    assert release.table("county")["count"].to_pylist() == data.cells.sum(axis=1).tolist()


def test_cells_are_as_the_docstring_says():
    cells = residents(4_000).cells.reshape(4_000, 18, 3).astype(np.int64)
    sizes = cells.sum(axis=(1, 2))
    assert np.log(np.maximum(sizes, 1)).mean() == pytest.approx(7.05, abs=0.1)  # the factors have a mean of e^0.045
    assert np.log(np.maximum(sizes, 1)).std() == pytest.approx(1.2, abs=0.1)
    np.testing.assert_allclose(cells.sum(axis=(0, 1)) / sizes.sum(), (0.51, 0.4894, 0.0006), atol=2e-4)
    by_age = cells.sum(axis=(0, 2))
    assert by_age.argmax() in (6, 7, 8)
    assert by_age[17] < 0.4 * by_age[7]


def test_numbers_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="counties=3, provinces=4, regions=2: give at least one region"):
        residents(3, provinces=4, regions=2)
