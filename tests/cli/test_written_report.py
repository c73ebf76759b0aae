"""The report beside a release never makes the command fail: a retry would be charged again."""

import pytest

import tallytree._report
from helpers.explored import counts
from tallytree.cli.commands.report_command import report_beside

pytestmark = pytest.mark.needs("altair", "vl_convert")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("a value"), "ValueError"),
        (MemoryError(), "MemoryError"),
        (OSError(28, "No space left"), "No space left"),
    ],
)
def test_a_report_that_fails_is_a_warning(tmp_path, monkeypatch, caplog, error, reason):
    def failing(*_, **__):
        raise error

    folder = counts().save(tmp_path / "release")
    monkeypatch.setattr(tallytree._report, "write_report", failing)
    report_beside(folder, wanted=True)
    said = caplog.text
    assert f"The report could not be written ({reason}). The release is whole, and paid for once" in said
    assert "a value" not in said


def test_an_interruption_says_that_the_release_is_whole(tmp_path, monkeypatch, caplog):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    folder = counts().save(tmp_path / "release")
    monkeypatch.setattr(tallytree._report, "write_report", interrupted)
    with pytest.raises(KeyboardInterrupt):
        report_beside(folder, wanted=True)
    assert "The report was not written. The release is whole, and paid for once" in caplog.text
