"""How the numbers of a release and of earlier ones are compared on its page."""

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from tallytree.views.report import series
from tallytree.views.report.series import ComparedReleases

pytestmark = pytest.mark.needs("altair")


def made(codes, names, seed, **options):
    areas = pa.table({"town": codes, "name": names})
    tree = tt.Hierarchy.from_table(areas, ["town"], labels={"town": "name"})
    records = pa.table({"town": np.repeat(codes, 50)})
    return tt.release_counts(records, tree, tt.Budget(epsilon=1), neighboring="add_remove", seed=seed, **options)


def test_areas_that_changed_come_first_and_have_their_names(monkeypatch):
    monkeypatch.setattr(series, "MOST_AREAS", 3)
    earlier = made(["1", "2", "3", "4", "5"], ["Ay", "Be", "Ce", "De", "Ef"], 1)
    later = made(["1", "2", "3", "4"], ["Ay", "Ce", "Ce", "De"], 2)
    walk = pa.table({"old": ["5"], "new": ["4"]})
    found = ComparedReleases([earlier, later], ["town"], walk).section(later)
    (picture,) = found.pictures
    areas = list(dict.fromkeys(row[0] for row in picture.grid.rows))
    assert set(areas) == {"De", "Ay", "Ce (2)"}  # with the code where two have one name
    assert {row[-1] for row in picture.grid.rows if row[0] == "De"} == {"merged", "same"}
    (paragraph,) = found.paragraphs
    assert "Some areas changed (merged), and come first. 3 of 4 areas are shown." in paragraph
