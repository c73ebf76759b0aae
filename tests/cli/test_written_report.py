"""The report beside a release never makes the command fail: a retry would be charged again."""

import os
import signal
import time
from contextlib import suppress

import pytest

from helpers.explored import counts
from helpers.inside import drawing, report
from tallytree.cli.commands import report_command
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
    monkeypatch.setattr(report, "write_report", failing)
    report_beside(folder, wanted=True)
    said = caplog.text
    assert f"The report could not be written ({reason}). The release is whole, and paid for once" in said
    assert "a value" not in said


TIMED = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no timer")


@TIMED
def test_a_report_that_takes_too_long_is_a_warning(tmp_path, monkeypatch, caplog):
    def endless(*_, **__):
        while True:
            with suppress(Exception):  # as libraries do
                time.sleep(60)

    folder = counts().save(tmp_path / "release")
    monkeypatch.setattr(report_command, "MOST_SECONDS", 0.2)
    monkeypatch.setattr(report, "write_report", endless)
    before = signal.getsignal(signal.SIGALRM)
    report_beside(folder, wanted=True)
    assert "The report could not be written (it took more than 0.2 seconds). The release is whole" in caplog.text
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) == before


@TIMED
def test_the_process_that_draws_ends_with_a_report_that_takes_too_long(tmp_path, monkeypatch, caplog):
    told, program = tmp_path / "told", tmp_path / "hangs.py"
    program.write_text(
        f"""import os, pathlib, signal, sys, time
sys.stdin.readline()
pathlib.Path({str(told)!r}).write_text(str(os.getpid()))
os.kill(os.getppid(), signal.SIGALRM)  # as the timer would
time.sleep(3600)"""
    )
    folder = counts().save(tmp_path / "release")
    monkeypatch.setattr(drawing, "PROGRAM", program)
    report_beside(folder, wanted=True)
    assert "The report could not be written (it took more than 60 seconds)" in caplog.text
    assert not (folder / "report.html").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(told.read_text()), 0)


def test_an_interruption_says_that_the_release_is_whole(tmp_path, monkeypatch, caplog):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    folder = counts().save(tmp_path / "release")
    monkeypatch.setattr(report, "write_report", interrupted)
    with pytest.raises(KeyboardInterrupt):
        report_beside(folder, wanted=True)
    assert "The report was not written. The release is whole, and paid for once" in caplog.text
