"""Exit codes: one for each kind of failure, whatever the command."""

import os
import subprocess
import sys

import pyarrow as pa
import pytest
import typer

import tallytree as tt
from tallytree.cli.failures import ExitCode, errors_in_one_line, exit_code
from tallytree.errors import SpecError


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SpecError("a.yaml: is empty"), ExitCode.INPUT),
        (ValueError("alpha: 2 must lie strictly between 0 and 1"), ExitCode.INPUT),
        (TypeError("records: int is no table"), ExitCode.INPUT),
        (FileNotFoundError("ledger: no file at 'x'"), ExitCode.INPUT),
        (NotADirectoryError(20, "Not a directory"), ExitCode.INPUT),
        (tt.BudgetExceeded("budget: the levels would spend 2 of 1"), ExitCode.BUDGET),
        (FileExistsError("folder: 'out' exists"), ExitCode.EXISTS),
        (OSError(28, "No space left on device"), ExitCode.SYSTEM),
        (PermissionError(13, "Permission denied"), ExitCode.SYSTEM),
        (TimeoutError("ledger: 'l' is locked by another process"), ExitCode.SYSTEM),
        (MemoryError("records: memory ran out"), ExitCode.SYSTEM),
        (MemoryError(), ExitCode.SYSTEM),
        (pa.ArrowMemoryError("malloc of size 7 failed"), ExitCode.SYSTEM),
        (SystemError("error return without exception set"), ExitCode.SYSTEM),
        (ModuleNotFoundError("OpenDP is not installed"), ExitCode.SYSTEM),
        (ValueError("could not convert 'Ann' to a number"), ExitCode.INTERNAL),
        (pa.ArrowInvalid("records: Ann"), ExitCode.INTERNAL),
        (RuntimeError("records: Ann"), ExitCode.INTERNAL),
        (ZeroDivisionError(), ExitCode.INTERNAL),
    ],
    ids=lambda value: value.name if isinstance(value, ExitCode) else type(value).__name__,
)
def test_each_kind_of_error_has_its_exit_code(error, code):
    assert exit_code(error) is code


def test_the_exit_codes_are_what_the_documentation_says():
    from pathlib import Path

    page = (Path(__file__).parents[2] / "docs/how-to/operations.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:3] for line in page.splitlines() if line.startswith("| ") and line[2].isdigit()]
    documented = {int(code): name.strip() for code, name in rows}
    assert documented == {**{code.value: code.name.lower() for code in ExitCode}, **SIGNALS}


SIGNALS = {129: "hangup", 130: "interrupted", 143: "terminated"}


@pytest.mark.parametrize("error", [MemoryError("Unable to allocate 7 GiB"), SystemError("Ann")])
def test_short_memory_is_said_in_one_line_without_the_message_of_a_library(error, caplog):
    with pytest.raises(typer.Exit) as ended, errors_in_one_line(debug=False):
        raise error
    assert ended.value.exit_code == ExitCode.SYSTEM
    (said,) = caplog.messages
    assert said == (
        f"error: memory: this machine had too little of it ({type(error).__name__}); end other programs, raise the "
        "limit (ulimit -v, the container's), or release in parts (--memory)"
    )


def test_a_long_message_is_shown_without_its_middle(run, tmp_path):
    (tmp_path / "s.yaml").write_text(f"statistic: {'x' * 100_000}\n")
    ran = run("check", tmp_path / "s.yaml")
    assert ran.exit_code == ExitCode.INPUT
    assert len(ran.stderr) < 5_000
    assert "s.yaml" in ran.stderr


@pytest.mark.slow
def test_no_thread_for_compiled_code_is_refused_with_the_variable(tmp_path):
    program = [sys.executable, "-c", "import tallytree.support.kernels"]
    ran = subprocess.run(
        program, env={**os.environ, "NUMBA_NUM_THREADS": "0"}, check=False, capture_output=True, text=True
    )
    last = ran.stderr.splitlines()[-1]
    assert last.startswith("ValueError: threads: the environment variable NUMBA_NUM_THREADS is '0'; set it to 1")
