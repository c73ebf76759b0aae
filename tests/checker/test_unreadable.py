"""Whatever is in a folder, `tools/check_release.py` ends with findings and without a traceback."""

import copy
import json
import shutil

import pytest

from helpers.cases import few
from helpers.forged import Forged, resigned
from helpers.tools import check_release

pytestmark = [pytest.mark.filterwarnings("ignore:mechanism"), pytest.mark.planted]
KINDS = ("counts, auto bound", "sizes, private maximum", "tables, detail", "flows, remainder", "counts, threshold",
         "people", "households", "counts, described", "counts, replicates")  # fmt: skip
VALUES = (None, "text", -1, 10**30, 1.5, [], {}, [None], {"": 1}, True)
"""What a value is replaced by."""
FREE = {"software", "options", "description", "errors", "sparsity", "unlisted", "unmet", "rounding", "order", "spec",
        "contributions", "detail", "notes", "words", "reconciled", "on_unknown", "impossible",
        "broken_promises"}  # fmt: skip
"""Parts that the checker does not compare with anything, but for a few keys in them."""
UNSAID = {
    "asked", "at_most", "columns", "constraint_violations", "dataset", "folder",
    "fractional_numbers", "id", "kind", "ledger", "level", "margin", "max_household_size", "mended", "name",
    "noise_source", "period", "period_is", "plan", "public_groups_kept", "public_total_kept", "recorded",
    "release", "revises", "rows", "run", "share_of_sizes",
}  # fmt: skip
"""Keys that another value of the same kind, or none, contradicts nothing."""


def of(value, way):
    """What is at a place."""
    for key in way:
        value = value[key]
    return value


def places(value, way=()):
    """The way to every value in parsed JSON."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*way, key)
        if isinstance(inner, dict | list):
            yield from places(inner, (*way, key))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_each_key_of_the_manifest_is_deleted_and_retyped(kind, honest, tmp_path):
    """Where it matters there is a finding; nowhere is there a traceback. The manifest is signed again each time."""
    folder = shutil.copytree(honest(kind), tmp_path / "release")
    whole = Forged(folder).manifest
    for number, way in enumerate(places(whole)):
        for value in ("gone", None, VALUES[number % len(VALUES)]):
            manifest = copy.deepcopy(whole)
            place = of(manifest, way[:-1])
            if value == "gone":
                del place[way[-1]]
            else:
                place[way[-1]] = value
            (folder / "release.json").write_text(json.dumps(resigned(manifest)), encoding="utf-8")
            wrong = check_release.check(folder).wrong
            same = resigned(manifest) == whole or (value is True and place[way[-1]] == of(whole, way))  # as good as 1
            free = FREE & {*way} or {*way[-1:]} & UNSAID or same
            assert wrong or free, (way, value)


@pytest.mark.parametrize("kind", few(["counts, contributions", "sizes", "households"], 1))
def test_each_file_is_cut_emptied_and_deleted(kind, honest, tmp_path):
    names = [path.relative_to(honest(kind)) for path in honest(kind).rglob("*") if path.suffix in (".json", ".parquet")]
    for number, name in enumerate(names):
        folder = shutil.copytree(honest(kind), tmp_path / f"release{number}")
        content = (folder / name).read_bytes()
        for left in (content[: len(content) // 2], b"", content[:-8] + bytes(8), b"[]", b'{"a": 1, "a": 1}'):
            (folder / name).write_bytes(left)
            if name.suffix == ".parquet" and kind != "households":
                Forged(folder).sign(rows=False)
            assert check_release.check(folder).wrong, (name, len(left))
        (folder / name).unlink()
        assert check_release.check(folder).wrong, name


@pytest.mark.parametrize("made", [lambda path: None, lambda path: path.mkdir(), lambda path: path.write_text("x")])
def test_what_is_no_folder_of_a_release_is_a_finding(made, tmp_path, capsys):
    made(tmp_path / "release")
    assert check_release.main([str(tmp_path / "release")]) == 1
    assert "release.json cannot be read" in capsys.readouterr().out


def test_a_ledger_that_is_none_is_a_finding(honest, tmp_path):
    (tmp_path / "no.db").write_text("x")
    for path in (tmp_path / "no.db", tmp_path / "nowhere.db"):
        assert any("cannot be read" in each for each in check_release.check(honest("people"), path).wrong)
