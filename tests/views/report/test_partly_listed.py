"""Pictures and listings of releases with rows that say how much is not listed."""

import json

import pyarrow as pa
import pytest

import tallytree as tt
from helpers.partly_listed import AREAS, TREE, partly_listed

pytestmark = pytest.mark.needs("altair")


@pytest.fixture(scope="module")
def release():
    return partly_listed(rho=0.02)


def drawn(chart):
    """The rows of a chart."""
    found = json.loads(chart.to_json())
    return (
        found["datasets"][found["data"]["name"]]
        if "datasets" in found
        else (found.get("data") or found["layer"][0]["data"])["values"]
    )


@pytest.mark.parametrize("level", ["to_town", "from_town"])
def test_a_matrix_has_what_is_not_listed_beside_the_nodes_and_no_zeros_that_nobody_published(release, level):
    cells = drawn(release.plot.flows(level))
    table = release.table(level).to_pandas()
    assert sum(cell["value"] for cell in cells) == table["count"].sum()
    assert all(cell["value"] > 0 for cell in cells)
    sides = ("from_state" if level == "to_town" else "from_town", "to_town")
    wanted = table[[*sides, "count"]].fillna("not listed").groupby(list(sides))["count"].sum().to_dict()
    found = {tuple(cell[name].strip("\u2068\u2069") for name in ("row", "column")): cell["value"] for cell in cells}
    assert found == wanted


def test_a_matrix_of_all_pairs_has_the_zeros_of_other_releases():
    cells = drawn(partly_listed(unlisted="zero").plot.flows("from_town"))
    assert len(cells) == len(AREAS) ** 2


def test_one_row_that_is_not_listed_does_not_lengthen_the_labels_of_all():
    from tallytree.views.report.pictures import short_labels

    columns = ["state", "county", "town"]
    table = pa.table(
        {
            "state": ["A", "A", "B", "B", None],
            "county": ["k", "k", "l", None, None],
            "town": ["x", None, "a / y", None, None],
        }
    )
    assert short_labels(table, columns) == ["x", "k / not listed", "a / y", "B / not listed", "not listed"]
    twice = pa.concat_tables([table, pa.table({"state": ["C"], "county": ["k"], "town": ["z"]})])
    assert short_labels(twice, columns)[1] == "k / not listed"
    other = pa.concat_tables([table, pa.table({"state": ["C"], "county": ["k"], "town": ["x"]})])
    assert short_labels(other, columns) == [
        "A / k / x", "A / k / not listed", "B / l / a / y", "B / not listed", "not listed", "C / k / x"
    ]  # fmt: skip


def test_errors_of_listed_cells_and_of_what_is_not_listed_are_drawn(release):
    assert release.plot.errors() is not None


@pytest.mark.needs("jinja2", "vl_convert", "geopandas", "shapely")
def test_a_map_of_flows_has_no_line_of_what_is_not_listed(release, tmp_path):
    import geopandas
    import shapely

    from tallytree.release.view.release_view import ReleaseView
    from tallytree.views.boundaries import read_boundaries
    from tallytree.views.report.numbers import _flow_map

    boxes = [shapely.box(i, 40, i + 1, 41) for i in range(len(AREAS))]
    geopandas.GeoDataFrame({"town": AREAS["town"]}, geometry=boxes, crs="EPSG:4326").to_file(tmp_path / "towns.geojson")
    shapes = read_boundaries(tmp_path / "towns.geojson", release.tree.attributes[0].hierarchy, "town")
    picture = _flow_map(ReleaseView(release), shapes)
    listed = release.table("from_town").to_pandas().dropna()
    apart = listed[listed["from_town"] != listed["to_town"]]
    assert sorted(int(row[2].replace(",", "")) for row in picture.grid.rows) == sorted(apart["count"])[-40:]


@pytest.mark.slow
@pytest.mark.needs("jinja2", "vl_convert")
def test_a_report_says_not_listed_and_never_none(release):
    from tallytree.views.report.page import report_page

    page = report_page(release)
    assert "not listed" in page
    assert "None" not in page
    assert ">nan<" not in page
    assert "None" not in release._repr_html_()


def test_reconciling_is_refused_as_for_other_flows(release):
    with pytest.raises(ValueError, match=r"release: its statistic is .flows.; only releases of group_sizes"):
        tt.reconcile_group_sizes(release, TREE, mechanism=tt.sizes.Matching())
