"""`release.plot` gives Altair charts, or says why it cannot."""

import pyarrow as pa
import pytest

import tallytree as tt
from tallytree.views.report import report_page

pytestmark = pytest.mark.needs("altair", "vl_convert", "jinja2")


def drawn(chart):
    import altair
    import vl_convert

    assert isinstance(chart, altair.LayerChart)
    return vl_convert.vegalite_to_svg(chart.to_dict())


@pytest.mark.slow
def test_the_tree_the_errors_and_flows_are_charts(counts_release, flows_release):
    assert "county (4)" in drawn(counts_release.plot.tree(width=900))
    assert "typical error" in drawn(counts_release.plot.errors())
    assert "d_county" in drawn(flows_release.plot.flows())
    assert "d_state" in drawn(flows_release.plot.flows("o_state"))


@pytest.mark.parametrize("node", [None, "lower", ["lower", "p1"], {"half": "lower", "place": "p1"}])
def test_the_sizes_of_a_node_by_its_labels(sizes_release, node):
    assert "size of the group" in drawn(sizes_release.plot.sizes(node))
    assert "groups of that size or more" in drawn(sizes_release.plot.sizes(node, cumulative=True, log=True))


@pytest.mark.slow
@pytest.mark.parametrize("levels", [["state"], ["state", "county"]])
def test_a_release_without_any_group_has_a_report_without_sizes(levels):
    areas = tt.Hierarchy.from_table(pa.table({"state": ["A"], "county": ["x"]}), levels)
    types = dict.fromkeys(levels, pa.string()) | {"s": pa.int64(), "g": pa.int64()}
    none = pa.schema(types.items()).empty_table()
    release = tt.release_group_sizes(
        none, areas, tt.Budget(rho=0.5), neighboring="add_remove", size="s", groups="g", max_group_size=5, seed=1
    )
    assert [release.table(level).num_rows for level in release.levels] == [0] * len(release.levels)
    assert "<html" in report_page(release)
    with pytest.raises(ValueError, match=r"^plot.sizes: no group was released"):
        release.plot.sizes()


def test_what_cannot_be_drawn_is_said(counts_release, flows_release, sizes_release):
    with pytest.raises(ValueError, match=r"plot.sizes: this release is of counts, not group sizes"):
        counts_release.plot.sizes()
    with pytest.raises(ValueError, match=r"plot.flows: this release is of group_sizes, not flows"):
        sizes_release.plot.flows()
    with pytest.raises(ValueError, match="level: 'nowhere' is not one of the release's levels all, "):
        flows_release.plot.flows("nowhere")
    with pytest.raises(ValueError, match=r"plot\.tree: it shows one hierarchy with several levels"):
        flows_release.plot.tree()
    with pytest.raises(ValueError, match="node: 'nowhere' is no node of the level 'half'"):
        sizes_release.plot.sizes("nowhere")
    with pytest.raises(ValueError, match="node: give its labels from the top, of the columns half, place"):
        sizes_release.plot.sizes(["a", "b", "c"])
    with pytest.raises(ValueError, match="level: 'all' has one side only"):
        flows_release.plot.flows("all")
