"""`tools/check_release.py` has nothing to say against a release of any kind that tallytree makes."""

import pytest

from helpers.honest_releases import HONEST
from helpers.tools import check_release

pytestmark = [pytest.mark.filterwarnings("ignore:mechanism"), pytest.mark.planted]
FIRST = ("counts, pld", "counts, threshold", "counts, auto bound", "counts, revision", "flows", "flows, remainder",
         "tables", "tables, detail", "sizes", "sizes, private maximum", "people", "households")  # fmt: skip
"""Of these `make test` looks at one of each kind. All other tests check what they save, too (`tests/conftest.py`)."""


@pytest.mark.parametrize(
    "name", [name if name in FIRST else pytest.param(name, marks=pytest.mark.slow) for name in HONEST]
)
def test_what_is_published_is_consistent(name, honest):
    assert check_release.check(honest(name)).wrong == []


def test_the_first_are_among_them():
    assert {*FIRST} < {*HONEST}


def test_what_no_folder_shows_is_said(tmp_path, capsys):
    folder = HONEST["counts, pure"]().save(tmp_path / "release")
    assert check_release.main([str(folder)]) == 0
    said = capsys.readouterr().out
    for words in ("seed", "contribution bound", "neighboring relation", "counted as stated", "signature"):
        assert any(words in line for line in said.splitlines() if line.startswith("no folder shows: ")), words
    assert said.endswith("consistent with its statement\n")
