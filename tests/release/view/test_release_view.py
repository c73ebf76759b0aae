"""`ReleaseView`: what it reads is what `Release.table` gives."""

import numpy as np
import pytest

import tallytree as tt
from helpers.explored import KINDS
from tallytree.hierarchy import RESERVED
from tallytree.release.quality import number_column
from tallytree.release.view.release_view import ReleaseView


@pytest.fixture(scope="module")
def views(tmp_path_factory):
    """A saved release of every statistic, and each as it was made."""
    folder = tmp_path_factory.mktemp("views")
    made = {kind: make() for kind, make in KINDS.items()}
    saved = {f"{kind}-saved": tt.Release.load(release.save(folder / kind)) for kind, release in made.items()}
    return {name: ReleaseView(release) for name, release in (made | saved).items()}


NAMES = [f"{kind}{end}" for kind in KINDS for end in ("", "-saved")]


def without_verdicts(table):
    return table.select([name for name in table.column_names if name != "quality"])


@pytest.mark.parametrize("name", NAMES)
def test_slices_columns_and_intervals_are_those_of_the_tables(views, name):
    view = views[name]
    for level in view.levels:
        table = view.release.table(level, unbiased=True)
        assert view.rows(level) == table.num_rows == sum(rows.num_rows for rows in view.slices(level))
        assert view.whole(level).equals(without_verdicts(table))
        assert number_column(table) == view.number
        assert np.array_equal(view.column(level, view.number), table.column(view.number).to_numpy())
        assert view.paths(level) == [column for column in table.column_names if column not in RESERVED]
        if "std_dev" in table.column_names and view.statistic != "contributions":
            with_ends = view.release.table(level, alpha=0.2, unbiased=True)
            assert view.whole(level, 0.2).equals(without_verdicts(with_ends))


@pytest.mark.parametrize("name", [name for name in NAMES if "contributions" not in name])
def test_rows_lead_to_their_nodes_and_back_to_their_labels(views, name):
    view = views[name]
    cells = view.cells
    for depth, (level, published) in enumerate(zip(view.levels, view.all_published(), strict=True)):
        table = view.release.table(level)
        paths = cells.path_table(depth, published.nodes)
        assert paths.to_pydict() == table.select(paths.column_names).to_pydict()
        assert np.array_equal(published.numbers, table.column(view.number).to_numpy())
    for listed in view.tables:
        rows = view.whole(listed.level)
        labels = [
            [label for side, place in zip(view.sides, places, strict=True) for label in side.path(place)]
            for places in view.places(listed, rows)
        ]
        assert labels == [[row[column] for column in view.paths(listed.level)] for row in rows.to_pylist()]


def test_people_by_their_number_of_records_have_no_tree(views):
    people = views["contributions"]
    assert people.sides == ()
    with pytest.raises(ValueError, match=r"^release: .*not counted by place; give"):
        people.published(0)
