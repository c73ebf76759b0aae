"""What the page holds: the numbers of the release, and nothing else of it."""

import pyarrow as pa
import pytest

import tallytree as tt
from helpers.explored import KINDS, data_of, page_of
from helpers.partly_listed import partly_listed
from tallytree.release.quality import QUALITIES
from tallytree.release.view.release_view import ReleaseView
from tallytree.views.explore.columns import MOST_TOTALS

MADE = {**KINDS, "partly": partly_listed}
NUMBERS = {"count": "number", "groups": "number", "people": "number", "size": "size", "ci_lower": "lower",
           "ci_upper": "upper", "tail_count": "tail", "tail_ci_lower": "tail_lower", "tail_ci_upper": "tail_upper",
           "records_from": "from", "records_to": "to"}  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("columns")
    return {kind: make().save(place / kind) for kind, make in MADE.items()}


@pytest.fixture(scope="module")
def pages(folders, tmp_path_factory):
    place = tmp_path_factory.mktemp("pages")
    return {kind: data_of(page_of(folder, place / kind)) for kind, folder in folders.items()}


def labels_in(about, parts, table, row):
    """The labels of a row as a reader of the page finds them; those that it does not name are None."""
    found = []
    for number, (side, named) in enumerate(zip(about["sides"], table["named"], strict=True)):
        at = f"labels-{number}-"
        node = table["part"]["node"][number][row] if "node" in table["part"] else row
        here = table["part"]["named"][number][row] if "named" in table["part"] else named
        path = []
        for level in range(named, 0, -1):
            path.insert(0, parts[f"{at}{level}"]["label"][node] if level <= here else None)
            node = parts[f"{at}{level}"]["parent"][node] if level > 1 else 0
        assert len(path) <= len(side["columns"])
        found += path
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", MADE)
def test_every_row_has_the_labels_the_numbers_the_interval_and_the_verdict_of_the_table(pages, folders, kind):
    about, parts = pages[kind]
    release = tt.Release.load(folders[kind])
    view = ReleaseView(release)
    published = [table for table in about["tables"] if not table.get("totals")]
    assert len(published) == len(view.tables)
    for number, (table, of) in enumerate(zip(published, view.tables, strict=True)):
        part = parts[f"table-{number}"]
        rows = release.table(of.level, alpha=0.1)
        numbers = [name for name in rows.column_names if name in NUMBERS]
        assert numbers
        for name in numbers:
            assert part[NUMBERS[name]] == rows.column(name).to_pylist(), (of.level, name)
        if "quality" in rows.column_names:
            assert [QUALITIES[code] for code in part["quality"]] == rows.column("quality").to_pylist()
        paths = [name for side, named in zip(view.sides, of.named, strict=True) for name in side.columns[:named]]
        for row, expected in enumerate(rows.to_pylist()):
            assert labels_in(about, parts, {**table, "part": part}, row) == [expected[name] for name in paths]
        shares = {"share", "share_lower", "share_upper"}
        assert {*part} <= {*NUMBERS.values(), "quality", "node", "stop", "named"} | shares


@pytest.mark.parametrize(
    ("kind", "level", "within", "named"),
    [("counts", "region", ("all",), [0]), ("counts", "town", ("region",), [1]),
     ("tables", "town.sex", ("town",), [2, 0]), ("tables", "region", (), [0, 0])],
)  # fmt: skip
def test_shares_are_those_of_the_release(pages, folders, kind, level, within, named):
    about, parts = pages[kind]
    release = tt.Release.load(folders[kind])
    place = [table.level for table in ReleaseView(release).tables].index(level)
    rows = {tuple(row.values())[: len(row) - 7]: row for row in release.share(level, within=within).to_pylist()}
    part, table = parts[f"table-{place}"], about["tables"][place]
    assert table["within"] == named
    for row, share in enumerate(part["share"]):
        expected = rows[tuple(labels_in(about, parts, {**table, "part": part}, row))]
        ends = (part["share_lower"][row], part["share_upper"][row])
        assert share == pytest.approx(expected["share"], abs=1e-5)
        assert ends == pytest.approx((expected["ci_lower"], expected["ci_upper"]), abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["flows", "partly"])
def test_totals_to_and_from_everywhere_are_those_of_the_release(pages, folders, kind):
    about, parts = pages[kind]
    release = tt.Release.load(folders[kind])
    totals = [(number, table) for number, table in enumerate(about["tables"]) if table.get("totals")]
    assert [table["named"] for _, table in totals] == [[1, 0], [2, 0], [0, 2]]  # (0, 1) is published
    for number, table in totals:
        part = parts[f"table-{number}"]
        for row in range(len(part["number"])):
            labels = labels_in(about, parts, {**table, "part": part}, row)
            side = ReleaseView(release).sides[0 if table["named"][0] else 1]
            areas = pa.table({name: [label] for name, label in zip(side.columns, labels, strict=False)})
            total = release.total(areas, alpha=0.1).to_pylist()[0]
            assert part["number"][row] == total["count"]
            assert (part["lower"][row], part["upper"][row]) == (total["ci_lower"], total["ci_upper"])


def test_totals_that_need_replicates_or_are_many_are_left_out(folders, monkeypatch, tmp_path):
    assert MOST_TOTALS >= 2_000
    monkeypatch.setattr("tallytree.views.explore.columns.MOST_TOTALS", 3)
    about, _ = data_of(page_of(folders["flows"], tmp_path / "few"))
    assert [table["named"] for table in about["tables"] if table.get("totals")] == [[1, 0]]
    monkeypatch.setattr("tallytree.views.explore.columns.errors_are_exact", lambda release: False)
    monkeypatch.setattr("tallytree.views.explore.columns.lists_by_measurement", lambda view: False)
    about, _ = data_of(page_of(folders["flows"], tmp_path / "none"))
    assert not any(table.get("totals") for table in about["tables"])


@pytest.mark.parametrize("kind", MADE)
def test_the_statement_is_the_release_s_and_estimates_before_rounding_are_not_there(pages, folders, kind):
    about, parts = pages[kind]
    assert about["statement"] == tt.Release.load(folders[kind]).statement
    assert not {"unbiased", "listed_from", "measurements", "values"} & {
        name for part in parts.values() for name in part
    }


def test_cells_without_a_row_are_not_said_to_be_0(pages):
    for kind in ("flows", "tables", "partly"):
        text = pages[kind][0]["unlisted"]
        assert text
        assert "are 0" not in text.replace("not known to be 0", "")
    assert pages["counts"][0]["unlisted"] == ""


def test_trees_with_the_same_labels_are_known_as_such(pages):
    assert [side["alike"] for side in pages["flows"][0]["sides"]] == [0, 0]
    assert [side["alike"] for side in pages["tables"][0]["sides"]] == [0, 1]


@pytest.mark.parametrize(("invariants", "said"), [("groups", "leaf"), ("total", "total"), ("none", None)])
def test_numbers_of_groups_are_exact_where_they_are_public(tmp_path, invariants, said):
    areas = pa.table({"town": ["a", "b"]})
    rows = pa.table({"town": ["a", "a", "b"], "size": [1, 2, 3], "groups": [4, 2, 1]})
    release = tt.release_group_sizes(
        rows, tt.Hierarchy.from_table(areas, ["town"]), tt.Budget(epsilon=5), neighboring="add_remove", size="size",
        groups="groups", invariants=invariants, max_group_size=5,
    )  # fmt: skip
    about, _ = data_of(page_of(release.save(tmp_path / "out"), tmp_path / "page"))
    assert about["public_groups"] == said
