"""How large a picture is follows from the hierarchy, and is known before it is drawn."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tallytree as tt
from tallytree.release.view.release_view import ReleaseView
from tallytree.views.charts.sizes import MOST_POINTS
from tallytree.views.report import numbers
from tallytree.views.report.numbers import number_pictures
from tallytree.views.report.pictures import MOST_CELLS, MOST_SIDE
from tallytree.views.report.size_pictures import cumulative_picture

pytestmark = pytest.mark.needs("altair")
ZONES = pd.DataFrame({"district": [f"d{i // 40}" for i in range(1_200)], "zone": [f"z{i}" for i in range(1_200)]})


@pytest.fixture(scope="module")
def near_empty():
    """300 trips between four pairs of 1,200 zones: few enough labels for a matrix are listed."""
    rng = np.random.default_rng(1)
    sides = [ZONES.iloc[np.repeat(rng.integers(0, 1_200, 4), 75)].add_prefix(side) for side in ("from_", "to_")]
    trips = pd.concat([side.reset_index(drop=True) for side in sides], axis=1)
    tree = tt.Hierarchy.from_table(ZONES, levels=["district", "zone"])
    return tt.release_flows(
        trips, origins=tree, destinations=tree, origin=["from_district", "from_zone"],
        destination=["to_district", "to_zone"], budget=tt.Budget(epsilon=1), neighboring="add_remove", seed=3,
    )  # fmt: skip


def marks(picture):
    """How many rows a picture draws."""
    found = picture.draw(600).to_dict()
    data = [found.get("data"), *(layer.get("data") for layer in found.get("layer", ()))]
    return max(len(each.get("values", ())) for each in data if each)


def test_a_near_empty_day_draws_no_box_for_each_pair_of_zones(near_empty):
    view = ReleaseView(near_empty)
    assert 0 < view.rows("from_zone") <= MOST_SIDE
    assert max(marks(picture) for picture in number_pictures(view, {})) <= MOST_CELLS
    with pytest.raises(ValueError, match=r"level: 'from_zone' has one side only, or too many flows for a picture"):
        near_empty.plot.flows("from_zone")


def test_levels_with_many_areas_have_no_map(monkeypatch):
    class Shapes:
        """Boundaries of three areas, which no picture may read."""

        level, frame = "town", (1, 2, 3)

    tree = tt.Hierarchy.from_values("town", ["x", "y", "z"])
    made = tt.release_counts(pa.table({"town": ["x"]}), tree, tt.Budget(epsilon=1), neighboring="add_remove", seed=1)
    monkeypatch.setattr(numbers, "MOST_AREAS", 2)
    assert not any(
        picture.title.startswith("Map") for picture in number_pictures(ReleaseView(made), {"town": Shapes()})
    )


def test_a_line_of_thousands_of_sizes_is_drawn_through_some_of_them():
    rows = pa.table({"town": ["x"] * 3_000, "size": range(1, 3_001), "groups": [1] * 3_000})
    made = tt.release_group_sizes(
        rows, tt.Hierarchy.from_values("town", ["x"]), tt.Budget(epsilon=100), neighboring="add_remove", size="size",
        groups="groups", max_group_size=3_000, seed=1,
    )  # fmt: skip
    picture = cumulative_picture(
        ReleaseView(made), made.levels[0], ["x"][: len(ReleaseView(made).paths(made.levels[0]))]
    )
    assert 0.5 * MOST_POINTS < marks(picture) <= MOST_POINTS
