"""`tools/check_release.py` has nothing to say against a release of any kind that tallytree makes."""

import pytest

from helpers.honest_releases import HONEST
from helpers.tools import check_release

pytestmark = pytest.mark.filterwarnings("ignore:mechanism")


@pytest.mark.parametrize("name", HONEST)
def test_what_is_published_is_consistent(name, tmp_path):
    release = HONEST[name]()
    csv = {} if release.statement["statistic"] == "households" else {"csv": True}
    assert check_release.check(release.save(tmp_path / "release", **csv)).wrong == []


def test_what_no_folder_shows_is_said(tmp_path, capsys):
    folder = HONEST["counts, pure"]().save(tmp_path / "release")
    assert check_release.main([str(folder)]) == 0
    said = capsys.readouterr().out
    for words in ("seed", "contribution bound", "neighboring relation", "counted as stated", "signature"):
        assert any(words in line for line in said.splitlines() if line.startswith("no folder shows: ")), words
    assert said.endswith("consistent with its statement\n")
