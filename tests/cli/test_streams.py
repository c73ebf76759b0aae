"""Standard streams that are closed, full or gone do not stop a release."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

import tallytree as tt
from helpers.releases import PEOPLE, PUBLIC
from tallytree.cli import opened_spec
from tallytree.cli.streams import _Unfailing
from tallytree.ledger import Ledger

SPEC = """\
statistic: counts
records: people.parquet
hierarchy: {path: areas.parquet, levels: [state, county]}
budget: {epsilon: 1}
neighboring: change_one
ledger: ledger.db
dataset: people
"""


def test_what_cannot_be_written_to_standard_error_is_lost_without_an_error():
    read, write = os.pipe()
    os.close(read)
    with open(write, "wb", buffering=0) as broken:  # noqa: PTH123 (a descriptor)
        stream = _Unfailing(broken, "utf-8", "backslashreplace", line_buffering=True)
        assert stream.write("lost\n") == 5
        stream.flush()
        stream.detach()


@pytest.fixture
def tallytree(tmp_path):
    """Runs the program through a shell, in a folder with a spec and its tables."""
    pq.write_table(PEOPLE, tmp_path / "people.parquet")
    pq.write_table(PUBLIC, tmp_path / "areas.parquet")
    (tmp_path / "spec.yaml").write_text(SPEC)

    def ran(arguments, *, before=""):
        command = f"{before} {shlex.quote(sys.executable)} -m tallytree {arguments}"
        return subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, check=False, capture_output=True, text=True)

    return ran


@pytest.mark.slow
@pytest.mark.needs("altair", "vl_convert", "jinja2")
def test_a_report_that_cannot_be_drawn_is_one_warning(tallytree, tmp_path):
    ran = tallytree("release spec.yaml --out out --report", before="ulimit -v 8000000;")
    assert ran.returncode == 0, ran
    (warning,) = ran.stderr.splitlines()
    assert warning.startswith("warning: The report could not be written (drawing: the process that draws charts ended")
    assert warning.endswith("The release is whole, and paid for once; `tallytree report` makes its report.")
    assert "Release: out" in ran.stdout
    assert not (tmp_path / "out" / "report.html").exists()
    (entry,) = Ledger(tmp_path / "ledger.db").entries()
    assert entry.state == "finished"
    failed = tallytree("report out", before="ulimit -v 8000000;")
    assert (failed.returncode, failed.stderr.count("\n")) == (5, 1), failed
    assert "remove or raise the limit (ulimit -v)" in failed.stderr


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")  # noqa: PTH110
@pytest.mark.parametrize("streams", ["2>&-", "2>/dev/full", ">&- 2>&- <&-", ">&-", ">/dev/full 2>/dev/full"])
def test_a_release_is_made_and_its_ledger_is_whole(streams, tallytree, tmp_path):
    ran = tallytree(f"release spec.yaml --out out {streams}")
    assert ran.returncode == 0, ran
    assert tt.Release.load(tmp_path / "out").table("all")["count"].to_pylist() == [100]
    assert len(Ledger(tmp_path / "ledger.db").entries()) == 1


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")  # noqa: PTH110
@pytest.mark.parametrize(
    ("command", "to", "reason"),
    [
        ("release", ">/dev/full", "No space left on device"),
        ("contributions", ">/dev/full", "No space left on device"),
        ("release", "| true", "Broken pipe"),
    ],
)
def test_what_cannot_be_shown_does_not_fail_a_command_that_has_paid(command, to, reason, tallytree, tmp_path):
    if command == "contributions":
        pq.write_table(PEOPLE.append_column("who", [[*range(PEOPLE.num_rows)]]), tmp_path / "people.parquet")
        (tmp_path / "spec.yaml").write_text(SPEC + "person: who\nmax_contributions: 2\n")
    program = shlex.quote(sys.executable)
    ran = tallytree(f"--version && {{ {program} -m tallytree {command} spec.yaml --out out; echo $? >code; }} {to}")
    assert ran.stderr == (
        f"warning: The summary could not be shown ({reason}). The release is whole, and paid for once: out, "
        "entry 1 of ledger ledger.db\n"
    )
    assert (tmp_path / "code").read_text() == "0\n"
    assert (tmp_path / "out" / "release.json").exists()


def test_an_error_of_the_summary_of_a_release_is_a_warning(tmp_path, monkeypatch, run):
    def failing(*_):
        raise ValueError("a value")

    monkeypatch.chdir(tmp_path)
    pq.write_table(PEOPLE, tmp_path / "people.parquet")
    pq.write_table(PUBLIC, tmp_path / "areas.parquet")
    (tmp_path / "spec.yaml").write_text(SPEC)
    monkeypatch.setattr(opened_spec, "show_terms", failing)
    ran = run("release", "spec.yaml", "--out", "out")
    assert ran.exit_code == 0
    assert ran.stderr.startswith("warning: The summary could not be shown (ValueError). The release is whole, and paid")
