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
from tallytree.spec.sections import PrivateMaximumSpec

ROOT = Path(__file__).resolve().parents[2]


EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
SHOWN = "counts"
"""The example that the page shows; the site includes the others from their files."""
COUNTING = {"count", "distinct", "unlisted", "prior", "prior_is_public"}
"""Keys that counts, flows and tables share, as far as they have them; they are documented once."""


# --- The documentation ---


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_a_spec_and_is_in_the_documentation(path):
    assert load_spec(path).statistic == {"health": "counts"}.get(path.stem, path.stem)
    page = (ROOT / "docs/reference/spec.md").read_text(encoding="utf-8")
    if path.stem == SHOWN:
        assert f"```yaml\n{path.read_text(encoding='utf-8')}```" in page
    else:
        assert f":::{{literalinclude}} ../../examples/{path.name}\n" in page
        assert f"[{path.name}](../../examples/{path.name})" in page


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
    return {key.strip("` "): default for keys, _, default, _ in rows for key in keys.split(",")}


def test_every_key_is_documented_and_says_what_to_give():
    # These are documented with them, as keys of every statistic but households (the first) or flows.
    nearly = {"contributions", "records", "hierarchy"}
    shared = set.intersection(*(set(model.model_fields) for model in SPECS.values())) | nearly
    own = {name: set(model.model_fields) - shared - COUNTING for name, model in SPECS.items()}
    assert own["counts"] == set()
    for name, model in SPECS.items():
        counting = {"counts": COUNTING, "flows": COUNTING, "tables": COUNTING - {"unlisted"}}.get(name, set())
        assert set(model.model_fields) & COUNTING == counting
    tables: list[tuple[str, type[BaseModel], set[str]]] = [
        ("Of every statistic", SPECS["counts"], shared),
        ("Of `counts`, `flows` and `tables`", SPECS["counts"], COUNTING),
        *((f"Of `{name}`", model, own[name]) for name, model in SPECS.items() if own[name]),
        ("Of `hierarchy`, `origins`, `destinations`", HierarchySpec, set(HierarchySpec.model_fields)),
        ("Of `hierarchy` with several attributes", ProductSpec, set(ProductSpec.model_fields)),
        ("Of `budget`", BudgetSpec, set(BudgetSpec.model_fields)),
        ("Of `contributions`", ContributionsSpec, set(ContributionsSpec.model_fields)),
        ("Of `max_group_size`", PrivateMaximumSpec, set(PrivateMaximumSpec.model_fields)),
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
