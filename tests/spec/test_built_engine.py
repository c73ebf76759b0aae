"""The engine that a spec asks for."""

import pytest

import tallytree as tt
from tallytree.spec import load_spec

SPEC = {
    "statistic": "counts",
    "records": "warehouse.people",
    "hierarchy": {"path": "areas.csv", "levels": ["a"]},
    "budget": {"epsilon": 1},
    "neighboring": "add_remove",
}


@pytest.mark.parametrize("written", ["spark", {"name": "spark"}])
def test_spark_is_an_engine_and_its_name_is_enough(written):
    assert load_spec(SPEC | {"engine": written}).engine.name == "spark"


def test_an_option_of_another_engine_is_refused(tmp_path):
    (tmp_path / "areas.csv").write_text("a\nx\n")
    (tmp_path / "spec.yaml").write_text(
        "statistic: counts\nrecords: people.csv\nhierarchy: {path: areas.csv, levels: [a]}\nbudget: {epsilon: 1}\n"
        "neighboring: add_remove\nengine: {name: spark, threads: 2}\n"
    )
    with pytest.raises(tt.errors.SpecError, match=r"engine.threads: .*no option of the engine spark"):
        load_spec(tmp_path / "spec.yaml").check()
