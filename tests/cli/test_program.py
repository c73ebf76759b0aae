"""The program `tallytree` in a process of its own, its help, and shell completion."""

import contextlib
import os
import pty
import signal
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from tallytree.release import Release

SPEC = """\
statistic: counts
records: people.parquet
hierarchy: {path: areas.parquet, levels: [state, county]}
budget: {epsilon: 1}
neighboring: change_one
"""
COMMANDS = (
    "release", "check", "lint", "plan", "contributions", "reconcile", "error", "total", "derive", "report", "explore",
    "export", "registry", "ledger", "limit", "secret", "demo", "audit", "reproduce", "warm",
)  # fmt: skip
MAIN = "from tallytree.cli import main; main()"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with a spec of counts and its tables."""
    areas = {"state": ["A", "A", "B"], "county": ["x", "y", "x"]}
    pq.write_table(pa.table(areas), tmp_path / "areas.parquet")
    pq.write_table(pa.table({name: values * 100 for name, values in areas.items()}), tmp_path / "people.parquet")
    (tmp_path / "counts.yaml").write_text(SPEC)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def tallytree(*arguments, **options):
    command = [sys.executable, "-c", MAIN, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, **options)


@pytest.mark.slow
def test_the_program_works_without_a_terminal(folder):
    result = tallytree("release", "counts.yaml", "--out", "out")
    assert (result.returncode, result.stderr) == (0, "")
    assert "\x1b" not in result.stdout
    assert tallytree("check", "nowhere.yaml").returncode == 2
    assert Release.load("out").levels == ("all", "state", "county")


DRAW_EACH_STAGE = """
from rich.progress import Progress
update = Progress.update
Progress.update = lambda *given, **facts: update(*given, **facts, refresh="description" in facts)
"""
"""A line is drawn four times a second. On a busy machine a stage can be shorter, and would not be seen."""


@pytest.mark.slow
def test_progress_is_shown_on_standard_error_when_that_is_a_terminal(folder):
    command = [sys.executable, "-c", DRAW_EACH_STAGE + MAIN, "release", "counts.yaml", "--out", "out"]
    ours, theirs = pty.openpty()
    shown = b""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, text=True) as process:
        os.close(theirs)
        with contextlib.suppress(OSError):  # EIO: the program has ended
            while chunk := os.read(ours, 100_000):  # as a terminal does: what is not read blocks the program
                shown += chunk
        os.close(ours)
        printed = process.communicate(timeout=600)[0]
    assert process.returncode == 0
    for text in (b"loading", b"planning", b"measuring", b"saving"):
        assert text in shown
        assert text.decode() not in printed


def test_usage_errors_exit_with_2_and_help_with_0(folder, run):
    for arguments in (["release", "counts.yaml"], ["check"], ["release", "--frobnicate"], ["frobnicate"]):
        result = run(*arguments)
        assert result.exit_code == 2
        assert "Error: " in result.stderr


@pytest.mark.parametrize(
    "command", [(), *((name,) for name in COMMANDS)], ids=lambda command: "".join(command) or "all"
)
def test_help_is_shown_for_each_of_its_two_options_and_fits_80_columns(folder, run, command):
    long, short = (run(*command, option) for option in ("--help", "-h"))
    assert (long.exit_code, short.exit_code) == (0, 0)
    assert long.stdout == short.stdout
    assert long.stdout.startswith("Usage: tallytree")
    assert "  -h, --help " in long.stdout
    assert "--debug" not in long.stdout
    assert max(map(len, long.stdout.splitlines())) <= 80


def test_the_list_of_commands_has_a_complete_sentence_for_each(folder, run):
    listed = run("--help").stdout.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in listed] == list(COMMANDS)
    for command in ((), ("derive",), ("ledger",), ("secret",)):
        listed = run(*command, "--help").stdout.partition("Commands:\n")[2].splitlines()
        assert listed
        assert all(line.endswith(".") and not line.endswith("...") for line in listed)


def test_the_module_is_the_program():
    command = [sys.executable, "-m", "tallytree", "check", "-h"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    assert result.stdout.startswith("Usage: tallytree check ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed(shell):
    scripts = [
        tallytree("--show-completion", shell, env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}),
        tallytree(env={**os.environ, "_TALLYTREE_COMPLETE": f"source_{shell}"}),
    ]
    for script in scripts:
        assert (script.returncode, script.stderr) == (0, "")
        assert f"complete_{shell}" in script.stdout
        assert "tallytree" in script.stdout


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("tallytree re", "release\nreconcile\nreport\nregistry\nreproduce\n"),
        ("tallytree release --le", "--ledger\n"),
        ("tallytree release --out", "--out\n"),
    ],
)
def test_commands_and_options_are_completed(words, completed):
    given = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")), "_TALLYTREE_COMPLETE": "complete_bash"}
    result = tallytree(env={**os.environ, **given})
    assert (result.returncode, result.stdout, result.stderr) == (0, completed, "")


def test_the_version_is_shown(run):
    assert run("--version").stdout == f"tallytree {tt.__version__}\n"


HEAVY = {"numpy", "numba", "pyarrow", "duckdb", "rich", "yaml"}


def test_the_command_line_imports_nothing_heavy():
    code = f"import sys, tallytree.cli; print({HEAVY | {'pydantic'}} & {{*sys.modules}})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    assert result.stdout == "set()\n"


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["-h"], {}),
        (["release", "-h"], {}),
        ([], {"_TALLYTREE_COMPLETE": "source_bash"}),
        ([], {"_TALLYTREE_COMPLETE": "complete_bash", "COMP_WORDS": "tallytree release --", "COMP_CWORD": "2"}),
    ],
    ids=["help", "help of a command", "completion script", "completion"],
)
def test_help_and_completion_import_nothing_heavy(arguments, environment):
    # Typer itself converts values with pydantic, so pydantic is not among these.
    code = f"import atexit, sys; atexit.register(lambda: print({HEAVY} & {{*sys.modules}}, file=sys.stderr)); {MAIN}"
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    assert result.stdout
    assert result.stderr == "set()\n"


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "terminated"])
def test_a_signal_leaves_nothing_half_made(folder, sent, code):
    program = (
        "import time\n"
        "from pathlib import Path\n"
        "from tallytree import cli\n"
        "from tallytree.release import release\n"
        "def wait(path):\n"
        "    Path('saving').touch()\n"
        "    time.sleep(600)\n"
        "release.sha256 = wait\n"
        "cli.main()\n"
    )
    before = {path.name for path in folder.iterdir()}
    command = [sys.executable, "-c", program, "release", "counts.yaml", "--out", "out"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while not (folder / "saving").exists() and process.poll() is None:
            time.sleep(0.02)
        os.kill(process.pid, sent)
        _, errors = process.communicate(timeout=600)
    assert process.returncode == code
    assert "Traceback" not in errors
    assert {path.name for path in folder.iterdir()} - {"saving"} == before
