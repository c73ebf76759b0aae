"""The page as files: one or a folder, nothing from elsewhere, and what a label may not do in it."""

import json
import re

import pyarrow as pa
import pytest

import tallytree as tt
from helpers.explored import counts, data_of, flows, page_of
from tallytree.release.view.release_view import ReleaseView
from tallytree.views.explore import writing
from tallytree.views.explore.opening import write_static

AWKWARD = ["</script><script>alert(2)</script>", "<!--", "@@DATA@@", 'it\'s "quoted" \\', "בְּרֵאשִׁית", "line\u2028break"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return counts().save(tmp_path_factory.mktemp("written") / "counts")


@pytest.fixture(scope="module")
def page(folder, tmp_path_factory):
    return page_of(folder, tmp_path_factory.mktemp("page") / "out").read_text(encoding="utf-8")


@pytest.fixture
def in_parts(folder, tmp_path, monkeypatch):
    """The page in several files."""
    with monkeypatch.context() as smaller:
        smaller.setattr(writing, "ONE_FILE", 5)
        return page_of(folder, tmp_path / "parts").parent


def test_a_small_release_is_one_file_and_a_large_one_has_a_file_for_each_table_and_level(folder, in_parts, tmp_path):
    page_of(folder, tmp_path / "one")
    assert [each.name for each in (tmp_path / "one").iterdir()] == ["index.html"]
    assert sorted(each.name for each in in_parts.iterdir()) == ["data", "explorer.css", "explorer.js", "index.html"]
    assert sorted(each.name for each in (in_parts / "data").iterdir()) == [
        "labels-0-1.js", "labels-0-2.js", "table-0.js", "table-1.js", "table-2.js",
    ]  # fmt: skip


def test_the_parts_of_a_folder_are_those_of_the_one_file(folder, in_parts, tmp_path):
    _, parts = data_of(page_of(folder, tmp_path / "one"))
    _, none = data_of(in_parts / "index.html")
    assert none is None
    for name, part in parts.items():
        text = (in_parts / "data" / f"{name}.js").read_text(encoding="utf-8")
        given, _, rest = text.removeprefix("tallytree_part(").partition(",JSON.parse('")
        written = rest.removesuffix("'))").replace("\\'", "'").replace("\\\\", "\\")
        assert (json.loads(given), json.loads(written)) == (name, part)


def test_nothing_is_loaded_from_elsewhere_and_the_page_is_small(page, in_parts):
    whole = page + "".join(each.read_text(encoding="utf-8") for each in in_parts.iterdir() if each.is_file())
    assert set(re.findall(r"https?://[^\s\"'<]+", whole)) <= {"http://www.w3.org/2000/svg"}  # a name, not a place
    assert not re.search(
        r"\b(?:fetch|XMLHttpRequest|WebSocket|importScripts|eval|innerHTML|insertAdjacentHTML)\b",
        page.split("{'use strict'")[1].replace("`fetch` does not", ""),
    )
    assert not re.search(r"@import|url\(", page)
    assert len(page.encode()) < 100_000


def test_the_policy_lets_only_the_page_s_own_script_and_style_run(page, in_parts):
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)[1].replace("&#x27;", "'")
    rules = dict(each.split(" ", 1) for each in policy.split("; "))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert re.fullmatch(r"'sha256-[\w+/=]+'", rules["script-src"])
    assert re.fullmatch(r"'sha256-[\w+/=]+'", rules["style-src"])
    several = (in_parts / "index.html").read_text(encoding="utf-8")
    assert "script-src &#x27;self&#x27; file:;" in several


def test_no_label_ends_the_data_or_is_taken_for_a_part_of_the_page(tmp_path):
    areas = pa.table({"region": ["N"] * len(AWKWARD), "area": AWKWARD})
    release = tt.release_counts(
        pa.concat_tables([areas] * 9), tt.Hierarchy.from_table(areas, ["region", "area"]), tt.Budget(epsilon=20),
        neighboring="add_remove",
    )  # fmt: skip
    written = page_of(release.save(tmp_path / "out"), tmp_path / "page")
    assert data_of(written)[1]["labels-0-2"]["label"] == AWKWARD
    text = written.read_text(encoding="utf-8")
    assert text.count("<script") == text.count("</script>") == 2
    assert "<!--" not in text


def test_the_report_beside_a_release_is_copied_and_linked(folder, tmp_path):
    assert data_of(page_of(folder, tmp_path / "without"))[0]["links"] == []
    (folder / "report.html").write_text("the report")
    try:
        page = page_of(folder, tmp_path / "with")
    finally:
        (folder / "report.html").unlink()
    assert data_of(page)[0]["links"] == [["Report", "report.html"]]
    assert page.with_name("report.html").read_text() == "the report"


def test_folders_above_the_page_are_made(folder, tmp_path):
    write_static(folder, tmp_path / "new" / "folder" / "page", [], None)
    assert (tmp_path / "new" / "folder" / "page" / "index.html").is_file()


def test_a_folder_that_exists_or_has_no_release_is_refused_and_nothing_is_left(folder, tmp_path):
    with pytest.raises(FileExistsError, match=r"static: '.*' exists; choose another name, or move it away"):
        write_static(folder, tmp_path, [], None)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"is not a complete release"):
        write_static(tmp_path / "empty", tmp_path / "out", [], None)
    assert [each.name for each in tmp_path.iterdir()] == ["empty"]


def test_a_release_that_is_replaced_while_it_is_read_is_refused(tmp_path, monkeypatch):
    folder = counts().save(tmp_path / "shown")
    flows().save(tmp_path / "next")
    rows_of = writing.rows_of

    def replacing(view, table):
        if folder.exists() and not (tmp_path / "old").exists():
            folder.rename(tmp_path / "old")
            (tmp_path / "next").rename(folder)
        return rows_of(view, table)

    monkeypatch.setattr(writing, "rows_of", replacing)
    with pytest.raises(ValueError, match=r"folder: .*replaced while it was read; explore it again"):
        write_static(folder, tmp_path / "out", [], None)
    assert not (tmp_path / "out").exists()


def test_the_title_is_the_publisher_s_where_there_is_one(folder, tmp_path, monkeypatch):
    assert data_of(page_of(folder, tmp_path / "named"))[0]["title"] == "counts"
    release = tt.Release.load(folder)
    said = {"title": "People of <Meridia>", "publisher": "The <office>", "contact": "a@b.example", "status": "final"}
    described = {**release.statement, "description": said}
    described["release"] = {**described["release"], "period": "2025"}
    monkeypatch.setattr(ReleaseView, "statement", described)
    page = page_of(folder, tmp_path / "titled")
    text = page.read_text(encoding="utf-8")
    assert "<title>People of &lt;Meridia&gt;</title>" in text
    assert "The <office>" not in text
    expected = "Published by The <office> · period 2025 · final numbers · contact: a@b.example"
    assert data_of(page)[0]["publisher"] == expected
