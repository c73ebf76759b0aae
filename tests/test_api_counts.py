"""Releases of counts, flows and group sizes end to end: what is released, and what the statement says."""

import json
import logging
import tempfile
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import tallytree as tt
from helpers.inside import CountsArguments, plan_counts
from helpers.releases import EXACT, PEOPLE, PUBLIC, counts, flows, group_sizes, numbers, without_tails


def test_counts_at_every_level_with_next_to_no_noise(areas):
    release = counts(areas, budget=EXACT)
    assert release.levels == ("all", "state", "county")
    assert numbers(release, "all").to_pydict() == {"count": [100]}
    assert numbers(release, "state").to_pydict() == {"state": ["A", "B"], "count": [60, 40]}
    assert numbers(release, "county").to_pydict() == {
        "state": ["A", "A", "A", "B"],
        "county": ["x", "y", "z", "x"],
        "count": [50, 10, 0, 40],
    }
    text = pa.large_string()
    assert release.table("county").schema.types == [text, text, pa.int64(), pa.float64(), pa.float64(), text]
    assert release.table("county").column_names[-3:] == ["std_dev", "typical_error", "quality"]
    assert release.to_pandas("state")["count"].tolist() == [60, 40]


def test_flows_list_non_zero_cells_with_one_column_per_level(areas):
    release = flows(areas, budget=EXACT)
    assert release.levels == ("all", "d_state", "o_state", "d_county", "o_county")
    assert numbers(release, "o_state").to_pydict() == {
        "o_state": ["A", "B", "A"],
        "d_state": ["A", "A", "B"],
        "count": [20, 20, 20],
    }
    leaves = {tuple(row.values()) for row in numbers(release, "o_county").to_pylist()}
    assert leaves == {("A", "x", "B", "x", 20), ("A", "y", "A", "z", 20), ("B", "x", "A", "x", 20)}
    assert flows(areas, tree="origin").levels == ("all", "o_state", "d_state", "o_county", "d_county")


def test_origins_and_destinations_may_be_of_different_depth(areas):
    towns = tt.Hierarchy.from_table(pa.table({"town": ["x", "z", "q"]}), ["town"])
    release = flows(areas, destinations=towns, destination=["d_county"], budget=EXACT)
    assert release.levels == ("all", "d_county", "o_state", "o_county")
    assert release.table("o_county")["count"].to_pylist() == [20, 20, 20]


@pytest.mark.parametrize("neighboring", ["change_one", "add_remove"])
def test_an_origin_tree_of_unequal_depths_is_the_product_refined_from_the_origins(areas, neighboring):
    """Origins of two levels, destinations of one, and the other way round: the longer side is refined alone at last."""
    towns = tt.Hierarchy.from_table(pa.table({"town": ["x", "z", "q"]}), ["town"])
    deep = {"destinations": towns, "destination": ["d_county"]}
    flat = {"origins": towns, "origin": ["o_town"], "destinations": areas, "destination": ["d_state", "d_county"]}
    trips = pa.table(
        {"o_town": ["x", "q", "x"] * 20, "d_state": ["B", "A", "A"] * 20, "d_county": ["x", "z", "x"] * 20}
    )
    expected = {
        "deep": ("all", "o_state", "d_county", "o_county"),
        "flat": ("all", "o_town", "d_state", "d_county"),
    }
    for name, arguments in {"deep": deep, "flat": flat | {"trips": trips}}.items():
        exact = flows(areas, tree="origin", budget=EXACT, neighboring=neighboring, **arguments)
        assert exact.levels == expected[name]
        noisy = flows(areas, tree="origin", neighboring=neighboring, **arguments)
        other = flows(areas, tree="destination", budget=EXACT, neighboring=neighboring, **arguments)
        for release in (exact, noisy):
            totals = {int(np.sum(release.table(level)["count"].to_numpy())) for level in release.levels}
            assert len(totals) == 1
        leaves = [
            {tuple(sorted(row.items())) for row in numbers(release, release.levels[-1]).to_pylist()}
            for release in (exact, other)
        ]
        assert leaves[0] == leaves[1]
        assert len(leaves[0]) == 3


def test_group_sizes_count_empty_groups_too(areas):
    release = group_sizes(areas, budget=EXACT)
    assert without_tails(release.table("county")) == {
        "state": ["A", "A", "A", "A", "B", "B"],
        "county": ["x", "x", "x", "y", "x", "x"],
        "size": [0, 2, 3, 1, 1, 2],
        "groups": [2, 1, 1, 1, 1, 1],
    }
    assert without_tails(release.table("all")) == {"size": [0, 1, 2, 3], "groups": [2, 2, 2, 1]}


def test_sizes_are_clamped_into_the_stated_range(areas):
    release = group_sizes(areas, budget=EXACT, max_group_size=2, min_group_size=1)
    assert without_tails(release.table("all")) == {"size": [1, 2], "groups": [4, 3]}
    assert any("only member is not protected" in note for note in release.statement["notes"])


def test_group_rows_state_every_group(areas):
    rows = pa.table({"state": ["A", "B"], "county": ["x", "x"], "n": [0, 30], "households": [5, 7]})
    release = group_sizes(
        areas, records=rows, group=None, public_groups=None, size="n", groups="households", budget=EXACT
    )
    assert without_tails(release.table("all")) == {"size": [0, 20], "groups": [5, 7]}
    assert without_tails(release.table("state")) == {"state": ["A", "B"], "size": [0, 20], "groups": [5, 7]}


def test_measurements_are_the_noisy_values_with_their_standard_deviation(areas):
    release = counts(areas, budget=tt.Budget(epsilon=2))
    measured = release.measurements("county").to_pydict()
    assert list(measured) == ["state", "county", "value", "std_dev"]
    # Half of epsilon 2 on L1 sensitivity 2: scale 2, variance 2q/(1-q)² with q = exp(-1/2).
    q = np.exp(-0.5)
    assert measured["std_dev"] == pytest.approx([np.sqrt(2 * q) / (1 - q)] * len(measured["value"]))
    assert release.measurements("all").num_rows == 0
    sizes = group_sizes(areas).measurements("state")
    assert sizes.schema.field("values").type == pa.list_(pa.int64())
    assert [len(values) for values in sizes["values"].to_pylist()] == [20, 20]


def test_the_statement_says_what_is_protected_and_what_it_cost(areas):
    statement = counts(areas, budget=tt.Budget(epsilon=1)).statement
    assert statement["private"] is True
    assert statement["neighboring"] == "change_one"
    assert statement["unit_of_protection"] == "one person, who has one record"
    assert statement["invariants"] == ["the hierarchy", "the total number of records"]
    assert statement["budget"] == statement["spent"] == {"epsilon": 1.0}
    assert [level["measured"] for level in statement["levels"]] == [False, True, True]
    noise = statement["levels"][1]["noise"]
    assert (noise["distribution"], noise["scale_exact"]) == ("discrete_laplace", "4")
    assert statement["levels"][1]["sensitivity"]["l1"] == 2
    assert json.loads(json.dumps(statement, allow_nan=False)) == statement
    assert {"tallytree", "python", "numpy"} <= set(statement["software"])


@pytest.mark.parametrize(
    ("changes", "total_is_public"),
    [
        ({}, True),
        ({"neighboring": "bounded"}, True),
        ({"neighboring": "add_remove"}, False),
        ({"max_contributions": 2}, False),
        ({"on_unknown": "drop"}, False),
    ],
)
def test_the_total_is_published_only_where_no_change_can_alter_it(areas, changes, total_is_public):
    statement = counts(areas, **changes).statement
    assert statement["levels"][0]["measured"] is not total_is_public
    assert ("the total number of records" in statement["invariants"]) is total_is_public


def exact_scale(release, level):
    (entry,) = [entry for entry in release.statement["levels"] if entry["level"] == level]
    return Fraction(entry["noise"]["scale_exact"])


def test_scales_follow_the_sensitivity_table_and_the_split(areas):
    # change_one, m = 3: counts have L1 6, the total 3; epsilon 1 over three levels.
    release = counts(areas, max_contributions=3)
    assert [exact_scale(release, level) for level in release.levels] == [9, 18, 18]
    split = counts(areas, budget_split={"state": 1, "county": 3})
    assert [exact_scale(split, level) for level in ("state", "county")] == [8, Fraction(8, 3)]
    # add_remove: tail counts 1, sorted sizes 1, histogram 2; epsilon 1 over three levels.
    mechanism = tt.sizes.Matching(estimator={"all": "cumulative", "state": "sorted", "county": "naive"})
    sizes = group_sizes(areas, mechanism=mechanism)
    assert [exact_scale(sizes, level) for level in sizes.levels] == [3, 3, 6]
    # A zCDP budget: sigma² = L2²/(2 rho) = 2/(2 · 1/4) = 4.
    gaussian = counts(areas, budget=tt.Budget(rho=0.5))
    assert exact_scale(gaussian, "state") == 2


def test_no_release_repeats_the_noise_of_another(areas):
    values = [
        tuple(counts(areas, budget=tt.Budget(epsilon=0.01)).measurements("county")["value"].to_pylist())
        for _ in range(3)
    ]
    assert len(set(values)) == 3


def test_a_seed_repeats_the_release_and_says_that_it_is_not_private(areas):
    first, second, other = (counts(areas, seed=seed, budget=tt.Budget(epsilon=0.1)) for seed in (5, 5, 6))
    assert first.measurements("county").equals(second.measurements("county"))
    assert not first.measurements("county").equals(other.measurements("county"))
    assert first.statement["private"] is False
    assert first.statement["guarantee"].startswith("NOT PRIVATE")
    assert first.statement["spent"] == {"epsilon": "infinity"}


def test_seeded_noise_changes_with_the_data_and_with_the_scale(areas):
    def noise(records, epsilon):
        release = counts(areas, records=records, seed=5, budget=tt.Budget(epsilon=epsilon))
        true = tt.release_counts(records, areas, EXACT, neighboring="change_one").to_pandas("state")["count"]
        return (release.measurements("state").to_pandas()["value"] - true).tolist()

    assert noise(PEOPLE, 0.1) == noise(PEOPLE, 0.1)
    assert noise(PEOPLE, 0.1) != noise(PEOPLE.slice(1), 0.1)
    assert noise(PEOPLE, 0.1) != noise(PEOPLE, 0.11)


@dataclass(frozen=True)
class TotalEverywhere(tt.counts.TopDown):
    """A mechanism that would have a level of many nodes measured with the sensitivity of one cell."""

    def statistics(self, tree, *, total_is_public):
        return {"county": "total"}


@dataclass(frozen=True)
class Elsewhere(tt.sizes.Matching):
    """A mechanism that wants a statistic, or a level, that its kind of release does not have."""

    wanted: tuple = ("county", "counts")

    def statistics(self, hierarchy, *, invariants):
        return dict([self.wanted])


def test_a_mechanism_is_given_only_what_its_sensitivity_holds_for(areas):
    with pytest.raises(ValueError, match=r"TotalEverywhere wants 'total' measured at 'county'; .* there is counts"):
        counts(areas, mechanism=TotalEverywhere())
    with pytest.raises(
        ValueError, match=r"Elsewhere wants 'counts' measured at 'county'; .* histogram or sorted_sizes"
    ):
        group_sizes(areas, mechanism=Elsewhere())
    with pytest.raises(ValueError, match=r"Elsewhere wants 'histogram' measured at 'town'; .* there is nothing"):
        group_sizes(areas, mechanism=Elsewhere(wanted=("town", "histogram")))


def test_amounts_are_shown_rounded_up(areas):
    third = counts(areas, budget=tt.Budget(epsilon=Fraction(1, 3))).statement
    assert third["guarantee"].startswith("epsilon = 0.333334 ")
    assert Fraction(repr(third["spent"]["epsilon"])) >= Fraction(1, 3)
    assert counts(areas, budget=tt.Budget(epsilon=0.3)).statement["spent"] == {"epsilon": 0.3}
    assert counts(areas, budget=tt.Budget(epsilon=1.0000004)).statement["guarantee"].startswith("epsilon = 1.00001 ")


def test_sentences_fit_the_release(areas):
    keyed, seeded = counts(areas).statement, counts(areas, seed=1).statement
    assert any("secret key" in note for note in keyed["notes"])
    assert not any("secret key" in note for note in seeded["notes"])
    assert {level["spent"]["epsilon"] for level in seeded["levels"] if level["measured"]} == {"infinity"}
    assert "one person, who has one trip" in flows(areas).statement["guarantee"]
    many = group_sizes(areas, max_contributions=4).statement
    assert many["unit_of_protection"] == "one person, who has at most 4 memberships of groups"
    floor = group_sizes(areas, min_group_size=2).statement["invariants"]
    assert "no group has fewer than 2 members (smaller ones are set to that)" in floor
    counted = counts(areas, records=PEOPLE.append_column("n", pa.array([2] * 100)), count="n").statement
    assert "Each row stands for as many records as its column 'n' says." in counted["notes"]


def test_a_spec_names_a_file_without_the_publishers_folders(areas, tmp_path):
    pa.parquet.write_table(PEOPLE, tmp_path / "people.parquet")
    assert counts(areas, records=tmp_path / "people.parquet").spec["records"] == "people.parquet"
    assert counts(areas).spec["records"] == "<Table>"


def test_no_file_of_a_release_says_how_many_files_private_records_were_in_or_how_they_were_named(areas, tmp_path):
    specs = []
    for names in (["anna"], ["anna", "bob"]):
        files = [tmp_path / f"{name}.parquet" for name in names]
        for place, file in enumerate(files):
            pa.parquet.write_table(PEOPLE.slice(place, 1), file)
        out = tmp_path / f"of-{len(files)}"
        counts(areas, records=files).save(out)
        for file in filter(Path.is_file, out.rglob("*")):
            assert not [name for name in names if name.encode() in file.read_bytes()]
        specs.append(json.loads((out / "release.json").read_text())["spec"])
    assert specs[0]["records"] == "<list of files>"
    assert specs[0] == specs[1]


def test_a_file_that_several_paths_lead_to_is_counted_once(areas, tmp_path):
    folder = tmp_path / "people"
    (folder / "_temporary").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    for place in (folder, folder / "_temporary", folder / ".hidden"):
        pa.parquet.write_table(PEOPLE, place / "part.parquet")
    (folder / "again.parquet").symlink_to(folder / "part.parquet")
    for path in (folder, folder / "*.parquet", folder / "**" / "**" / "part.parquet"):
        exact = counts(areas, records=str(path), budget=EXACT)
        assert exact.table("all")["count"].to_pylist() == [100 if "**" not in str(path) else 200]


def test_a_job_shows_nothing_of_its_records(areas):
    job = plan_counts(CountsArguments(PEOPLE, areas, tt.Budget(epsilon=1), neighboring="change_one"))
    assert '"x"' not in repr(job)
    assert len(repr(job)) < 200


def test_noise_can_come_from_opendp(areas):
    pytest.importorskip("opendp")
    release = counts(areas, noise="opendp", budget=tt.Budget(epsilon=0.1))
    assert release.statement["noise_source"] == "opendp"
    assert "opendp" in release.statement["software"]
    assert any("drawn by OpenDP" in note for note in release.statement["notes"])
    tenth = counts(areas, noise="opendp", budget=tt.Budget(epsilon=0.7))
    scale = exact_scale(tenth, "state")
    assert Fraction(float(scale)) == scale >= Fraction(40, 7)
    assert release.measurements("state")["value"].to_pylist() != [60, 40]
    gaussian = group_sizes(areas, noise="opendp", budget=tt.Budget(rho=0.1))
    assert gaussian.statement["levels"][0]["noise"]["distribution"] == "discrete_gaussian"


def test_a_single_valued_top_column_may_be_missing_in_the_records():
    table = pa.table({"country": ["N"] * 2, "state": ["A", "B"]})
    areas = tt.Hierarchy.from_table(table, ["country", "state"])
    release = counts(areas, records=pa.table({"state": ["A", "A", "B"]}), budget=EXACT)
    assert numbers(release, "state").to_pydict() == {"country": ["N", "N"], "state": ["A", "B"], "count": [2, 1]}


def test_records_outside_the_hierarchy_are_an_error_or_dropped(areas):
    records = pa.concat_tables([PEOPLE, pa.table({"state": ["C"], "county": ["x"]})])
    with pytest.raises(ValueError, match=r"records: .*by its label of 'state'"):
        counts(areas, records=records)
    assert counts(areas, records=records, on_unknown="drop", budget=EXACT).table("all")["count"].to_pylist() == [100]


def test_no_records_at_all_is_a_release_like_any_other(areas):
    release = counts(areas, records=PEOPLE.slice(0, 0), neighboring="add_remove")
    assert release.table("county").num_rows == 4


def test_numbers_and_names_of_numpy_and_pandas_are_taken(areas):
    first, second = (counts(areas, seed=seed).measurements("county") for seed in (7, np.int64(7)))
    assert first.equals(second)
    release = group_sizes(areas, mechanism=tt.sizes.Matching(norm=np.int64(2)))
    assert json.loads(json.dumps(release.statement))["mechanism"]["options"]["norm"] == 2
    table = PUBLIC.to_pandas()
    assert tt.Hierarchy.from_table(table, levels=table.columns[:2]).levels == ("all", "state", "county")


def test_planted_counts_are_in_no_output_log_or_file(areas, tmp_path, monkeypatch, caplog, capfd):
    planted = {"x": 7_654_321_987, "y": 8_765_432_198, "z": 9_876_543_219}
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", None)
    records = pa.table({"state": ["A"] * 3, "county": list(planted), "n": list(planted.values())})
    with caplog.at_level(logging.DEBUG):
        tiny = tt.Budget(epsilon=1e-6)  # noise so large that no noisy number is a planted one by chance
        release = counts(areas, records=records, count="n", neighboring="add_remove", budget=tiny)
        release.save(tmp_path / "out", csv=True)
        sized = group_sizes(
            areas, records=records.append_column("size", pa.array([1, 2, 3])), group=None, public_groups=None,
            size="n", groups="size", max_group_size=10_000,
        )  # fmt: skip
        sized.save(tmp_path / "sizes", csv=True)
    secrets = [*planted.values(), sum(planted.values())]
    attributes = "\n".join(str(vars(record)) for record in caplog.records)
    texts = [
        caplog.text,
        attributes,
        repr(release),
        json.dumps(release.statement),
        json.dumps(release.spec),
        *capfd.readouterr(),
    ]
    for path in [*tmp_path.rglob("*")]:
        if path.is_file():
            content = path.read_bytes()
            texts.append(content.decode("latin-1"))
            if path.suffix == ".parquet":
                texts.append(pd.read_parquet(path).to_csv())
            for secret in secrets:
                assert secret.to_bytes(8, "little") not in content
    assert len(texts) > 20
    for secret in secrets:
        assert not any(str(secret) in text for text in texts)
    assert list((tmp_path / "temporary").iterdir()) == []
