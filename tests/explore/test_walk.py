"""What the explorer shows is what is published: views against the tables themselves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.explored import KINDS
from tallytree._explore.address import first_address, read_address
from tallytree._explore.found_rows import FoundRows
from tallytree._explore.walk import Walk
from tallytree.release.view.sides import ALL, TreePlace


@pytest.fixture(scope="module")
def walks(tmp_path_factory):
    """A saved release of every statistic, walked."""
    import tallytree as tt

    folder = tmp_path_factory.mktemp("walks")
    return {kind: Walk(tt.Release.load(make().save(folder / kind))) for kind, make in KINDS.items()}


def every_place(walk):
    """All combinations of places of the sides."""
    found = [()]
    for side in walk.sides:
        own = [ALL, *(TreePlace(n, i) for n in range(1, len(side.columns) + 1) for i in range(side.size(n)))]
        found = [(*places, place) for places in found for place in own]
    return found


def inside(row, walk, table, places):
    """Whether a published row lies in the places, by its labels."""
    for side, place, named in zip(walk.sides, places, table.named, strict=True):
        for column, label in zip(side.columns[:named], side.path(place), strict=False):
            if row[column] != label:
                return False
    return True


@pytest.mark.parametrize("kind", ["counts", "flows", "tables"])
@pytest.mark.parametrize("keep", [True, False])
def test_a_page_has_the_rows_that_lie_in_the_places_and_no_others(walks, kind, keep, monkeypatch):
    monkeypatch.setattr("tallytree._explore.found_rows.MAX_KEPT", 10**7 if keep else 0)
    walk = Walk(walks[kind].release)
    for table in walk.view.tables:
        published = walk.release.table(table.level, alpha=0.1).to_pylist()
        for places in every_place(walk):
            wanted = [row for row in published if inside(row, walk, table, places)]
            page = walk.page(table, places, order="hierarchy", length=10**6)
            assert page.rows.to_pylist() == wanted
            assert page.total == len(wanted)
            for row, about in zip(wanted, page.places, strict=True):
                labels = [label for side, place in zip(walk.sides, about, strict=True) for label in side.path(place)]
                assert labels == [row[name] for side, n in zip(walk.sides, table.named, strict=True)
                                  for name in side.columns[:n]]  # fmt: skip


def test_group_sizes_are_summed_by_place_and_listed_of_one(walks):
    walk = walks["group_sizes"]
    for table in walk.view.tables:
        published = walk.release.table(table.level).to_pylist()
        page = walk.page(table, (ALL,), order="hierarchy", length=10**6)
        for row, (place,) in zip(page.rows.to_pylist(), page.places, strict=True):
            own = [each for each in published if inside(each, walk, table, (place,))]
            assert row["groups"] == sum(each["groups"] for each in own)
            assert row["members"] == sum(each["groups"] * each["size"] for each in own)
            listed = walk.sizes(place).to_pylist()
            assert listed == [{name: each[name] for name in listed[0]} for each in own] if own else listed == []
    assert walk.last_size == 5


@pytest.mark.parametrize("kind", ["counts", "flows", "tables", "group_sizes"])
def test_the_largest_come_first_and_pages_follow_each_other(walks, kind):
    walk = walks[kind]
    table = walk.view.tables[0] if kind == "tables" else walk.view.tables[-1]
    places = tuple(ALL for _ in walk.sides)
    name = "groups" if kind == "group_sizes" else "count"
    whole = walk.page(table, places, length=10**6).rows
    numbers = whole.column(name).to_pylist()
    assert numbers == sorted(numbers, reverse=True)
    parts = [walk.page(table, places, first=first, length=2).rows.to_pylist() for first in range(0, len(numbers), 2)]
    assert [row for part in parts for row in part] == whole.to_pylist()
    assert walk.page(table, places, first=10**9).rows.num_rows == 0


@pytest.mark.parametrize("kind", ["counts", "flows", "tables"])
def test_a_headline_is_the_published_row_about_the_places(walks, kind):
    walk = walks[kind]
    for places in every_place(walk):
        table = walk.own_table(places)
        if table is None:
            assert walk.headline(places, 0.1) is None
            continue
        rows = [
            row for row in walk.release.table(table.level, alpha=0.1).to_pylist() if inside(row, walk, table, places)
        ]
        found = walk.headline(places, 0.1)
        assert (found.to_pylist() if found is not None else []) == rows


def test_siblings_are_what_lies_in_the_parent(walks):
    walk = walks["counts"]
    assert walk.siblings((TreePlace(2, 1),)) == (TreePlace(1, 0),)
    assert walk.siblings((TreePlace(1, 1),)) == (ALL,)
    assert walk.siblings((ALL,)) is None


def test_a_search_finds_labels_whatever_their_case_and_names_their_path(walks):
    walk = walks["counts"]
    assert [(place, path) for _, place, path in walk.search("A")] == [
        (TreePlace(2, 0), ("N", "a")),
        (TreePlace(2, 3), ("S", "a")),
    ]
    assert [path for *_, path in walk.search(" É ")] == [("S", "dé")]
    assert walk.search("[") == []
    assert walk.search("") == []
    assert len(walks["flows"].search("dé")) == 2


def test_totals_are_those_of_the_release(walks):
    walk = walks["counts"]
    table = walk.view.tables[-1]
    rows = walk.page(table, (ALL,), order="hierarchy").places
    total = walk.total(table, [rows[0], rows[3]], 0.1).to_pylist()[0]
    published = walk.release.table("town").column("count").to_pylist()
    assert total["count"] == published[0] + published[3]
    assert total["ci_lower"] <= total["count"] <= total["ci_upper"]
    with pytest.raises(ValueError, match="no row is ticked; tick some"):
        walk.total(table, [], 0.1)


def test_totals_of_tables_are_of_blocks(walks):
    walk = walks["tables"]
    table = walk.view.tables[0]
    page = walk.page(table, tuple(ALL for _ in walk.sides), order="hierarchy")
    block = [i for i, (area, _) in enumerate(page.places) if area.node in (0, 4)]
    total = walk.total(table, [page.places[i] for i in block], 0.1).to_pylist()[0]
    assert total["count"] == sum(page.rows.column("count")[i].as_py() for i in block)
    with pytest.raises(ValueError, match="the ticked rows must be a block"):
        walk.total(table, [page.places[i] for i in block[:-1]], 0.1)


@pytest.mark.parametrize("kind", ["counts", "flows", "group_sizes", "tables"])
def test_an_address_comes_back(walks, kind):
    from urllib.parse import parse_qsl

    walk = walks[kind]
    start = first_address(walk)
    for places in every_place(walk):
        for address in (start.into(walk, places), start.to(places=places, alpha=0.05, order="hierarchy", first=50)):
            assert read_address(walk, dict(parse_qsl(address.query(walk)[1:]))) == address


@given(query=st.dictionaries(st.sampled_from(["table", "at", "alpha", "order", "first", "log"]), st.text(max_size=12)))
def test_an_address_that_makes_no_sense_shows_the_start(walks, query):
    address = read_address(walks["flows"], query)
    assert walks["flows"].page(address.table, address.places, alpha=address.alpha).first == 0


def test_rows_of_one_view_are_looked_up_once(walks, monkeypatch):
    walk = Walk(walks["flows"].release)
    walk.page(walk.view.tables[-1], (ALL, ALL))
    monkeypatch.setattr(type(walk.view), "nodes", lambda *_: pytest.fail("looked up again"))
    walk.page(walk.view.tables[-1], (TreePlace(1, 0), ALL))
    assert isinstance(walk.found, FoundRows)
