"""The page on specs: its examples, its tables of keys, its message."""

from pathlib import Path

import pytest
from pydantic import BaseModel

from helpers.specs import refusal, write
from tallytree.spec import (
    SPECS,
    BudgetSpec,
    ContributionsSpec,
    EngineSpec,
    HierarchySpec,
    MechanismSpec,
    ProductSpec,
    load_spec,
)

ROOT = Path(__file__).resolve().parents[2]


EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))


# --- The documentation ---


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_a_spec_and_is_in_the_documentation(path):
    assert load_spec(path).statistic == {"health": "counts"}.get(path.stem, path.stem)
    page = (ROOT / "docs/reference/spec.md").read_text(encoding="utf-8")
    assert f"```yaml\n{path.read_text(encoding='utf-8')}```" in page


def test_there_is_an_example_of_every_statistic():
    assert {load_spec(path).statistic for path in EXAMPLES} == set(SPECS)


def documented(title):
    """Keys and defaults in the table under a heading."""
    text = (ROOT / "docs/reference/spec.md").read_text(encoding="utf-8")
    section = text.partition(f"### {title}\n")[2].partition("\n#")[0]
    rows = [
        [cell.strip(" `") for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("| `")
    ]
    return {key: default for key, _, default, _ in rows}


def test_every_key_is_documented_and_says_what_to_give():
    # `contributions` is documented with them, as a key of every statistic but households.
    shared = set.intersection(*(set(model.model_fields) for model in SPECS.values())) | {"contributions"}
    tables: list[tuple[str, type[BaseModel], set[str]]] = [
        ("Of every statistic", SPECS["counts"], shared - {"records", "hierarchy"}),
        *((f"Of `{name}`", model, set(model.model_fields) - shared) for name, model in SPECS.items()),
        ("Of `hierarchy`, `origins`, `destinations`", HierarchySpec, set(HierarchySpec.model_fields)),
        ("Of `hierarchy` with several attributes", ProductSpec, set(ProductSpec.model_fields)),
        ("Of `budget`", BudgetSpec, set(BudgetSpec.model_fields)),
        ("Of `contributions`", ContributionsSpec, set(ContributionsSpec.model_fields)),
        ("Of `mechanism`", MechanismSpec, set(MechanismSpec.model_fields)),
        ("Of `engine`", EngineSpec, set(EngineSpec.model_fields)),
    ]
    for title, model, keys in tables:
        rows = documented(title)
        assert set(rows) == keys, title
        for key, default in rows.items():
            field = model.model_fields[key]
            assert key == "statistic" or field.description
            assert (default == "required") == field.is_required()
            if isinstance(field.default, str | int):
                assert default == (
                    str(field.default).lower() if isinstance(field.default, bool) else str(field.default)
                )


def test_the_message_in_the_documentation_is_the_one_that_is_shown(tmp_path):
    example = (ROOT / "examples" / "counts.yaml").read_text(encoding="utf-8")
    message = refusal(write(tmp_path, example.replace("rho: 0.05", "rho: -1"), "counts.yaml"))
    assert f"error: counts.yaml{message}\n" in (ROOT / "docs/reference/spec.md").read_text(encoding="utf-8")
