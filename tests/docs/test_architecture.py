"""The page about the architecture and CONTRIBUTING name what is there: places, names and floors as in the code."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "tallytree"
ARCHITECTURE = ROOT / "docs" / "reference" / "architecture.md"
PAGES = [ARCHITECTURE, ROOT / "CONTRIBUTING.md"]
PLACE = re.compile(r"`((?:[a-z_0-9]+/)*[a-z_0-9]+(?:\.py|/))`")
NAMED = re.compile(r"`((?:[a-z_0-9]+/)*[a-z_0-9]+\.py)`, `((?!\w+\.py)[A-Za-z_][\w.]*)`")


def defined_in(file):
    """The names that a file defines, and those of the members of its classes."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
        if isinstance(node, ast.AnnAssign | ast.Assign):
            targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
            names |= {each.id for each in targets if isinstance(each, ast.Name)}
    return names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_place_that_a_page_names_is_there(page):
    places = set(PLACE.findall(page.read_text(encoding="utf-8")))
    assert len(places) > 10
    roots = (SOURCE, ROOT, ROOT / "tests", *(each for each in SOURCE.rglob("*") if each.is_dir()))
    assert {place for place in places if not any((root / place).exists() for root in roots)} == set()


def test_a_name_beside_a_file_is_defined_in_it():
    pairs = NAMED.findall(ARCHITECTURE.read_text(encoding="utf-8"))
    assert len(pairs) > 5
    assert [pair for pair in pairs if pair[1] not in defined_in(SOURCE / pair[0])] == []


def test_the_floors_are_those_of_the_contract():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    floors = next(each for each in settings["contracts"] if each["type"] == "layers")["layers"]
    text = ARCHITECTURE.read_text(encoding="utf-8").split("| floor |")[1].split("\n\n")[0]
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    stated = [{name.removesuffix("/").removesuffix(".py") for name in re.findall(r"`([^`]+)`", row)} for row in rows]
    assert stated == [set(re.split(r" [|:] ", floor)) for floor in floors]
