"""`tallytree release` and `tallytree check`."""

import errno
import logging
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from helpers.inside import KeyedNoise, Measurer, OpenDPNoise
from tallytree.cli.failures import ExitCode
from tallytree.release import Release

STATES = ['North, "upper"', "South\nand low", "Ærø; [red]"]

COUNTS = """\
statistic: counts
records: people.parquet
hierarchy: {path: areas.parquet, levels: [state, county]}
budget: {epsilon: 1}
neighboring: change_one
"""

FLOWS = """\
statistic: flows
trips: people.parquet
origins: &areas {path: areas.parquet, levels: [state, county]}
destinations: *areas
origin: [state, county]
destination: [work_state, work_county]
budget: {epsilon: 1, delta: 1e-8}
neighboring: change_one
"""

GROUP_SIZES = """\
statistic: group_sizes
records: people.parquet
group: home
public_groups: areas.parquet
hierarchy: {path: areas.parquet, levels: [state, county]}
max_group_size: 20
budget: {rho: 0.5}
neighboring: add_remove
"""

SPECS = {"counts": COUNTS, "flows": FLOWS, "group_sizes": GROUP_SIZES}
CANARY = "canary-8473625"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with tables and the three specs; labels have commas, quotes and line breaks."""
    states = [state for state in STATES for _ in range(2)]
    counties = ["x", "y"] * 3
    pq.write_table(pa.table({"state": states, "county": counties, "groups": [300] * 6}), tmp_path / "areas.parquet")
    people = {
        "state": states * 200,
        "county": counties * 200,
        "work_state": states[::-1] * 200,
        "work_county": counties * 200,
        "home": [f"{CANARY}-{i % 450}-{i % 6}" for i in range(1200)],
    }
    pq.write_table(pa.table(people), tmp_path / "people.parquet")
    for name, text in SPECS.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


@pytest.fixture
def nothing_drawn(monkeypatch):
    """Fails the test if noise is made, or private statistics are counted or measured."""

    def refuse(*arguments, **options):
        pytest.fail("the private side was opened")

    for kind in (Measurer, KeyedNoise, OpenDPNoise):
        monkeypatch.setattr(kind, "__init__", refuse)
    original = tt.engines.Local.tabulate

    def public_only(self, table, request):
        return original(self, table, request) if request.argument == "public_groups" else refuse()

    monkeypatch.setattr(tt.engines.Local, "tabulate", public_only)


# --- Releasing ---


@pytest.mark.parametrize("statistic", SPECS)
def test_a_release_is_saved_and_summarised(folder, run, statistic):
    result = run("release", f"{statistic}.yaml", "--out", "out")
    assert result.exit_code == 0, result.output
    release = Release.load("out")
    assert release.statement["statistic"] == statistic
    for level in release.levels:
        assert re.search(rf"^{level} +{release.table(level).num_rows} ", result.stdout, re.MULTILINE)
    assert f"Guarantee: {release.statement['guarantee']}\n" in result.stdout
    assert "Spends " in result.stdout
    assert result.stdout.endswith("Release: out\n")
    assert result.stderr == ""
    assert sorted(path.name for path in folder.iterdir() if path.name.startswith(".")) == []


def test_a_private_largest_size_is_shown_before_and_after_it_is_measured(folder, run):
    private = GROUP_SIZES.replace("max_group_size: 20", "max_group_size: {share: 0.1, at_most: 20}")
    (folder / "private.yaml").write_text(private)
    checked = " ".join(run("check", "private.yaml").stdout.split())
    measured = (
        "Largest size: measured first (share 0.1, sensitivity L2 1, scale 3.16228, std dev 3.16228); "
        "K is the measured size plus"
    )
    assert f"{measured} 16, at most 20." in checked
    released = " ".join(run("release", "private.yaml", "--out", "out").stdout.split())
    found = Release.load("out").statement["maximum"]["max_group_size"]
    assert f"{measured} 16, at most 20, so K is {found}." in released
    assert "Largest size" not in run("check", "group_sizes.yaml").stdout


@pytest.mark.parametrize("statistic", SPECS)
@pytest.mark.parametrize("options", [[], ["--quiet"]], ids=["loud", "quiet"])
def test_invariants_are_always_listed(folder, run, statistic, options):
    result = run("release", f"{statistic}.yaml", "--out", "out", *options)
    invariants = Release.load("out").statement["invariants"]
    listed = result.stderr if options else result.stdout
    assert (
        "PUBLISHED EXACTLY, not protected (invariants):\n" + "".join(f"  * {fact}\n" for fact in invariants) in listed
    )
    if options:
        assert result.stdout == ""


def test_labels_with_commas_quotes_and_line_breaks_survive_in_csv(folder, run):
    assert run("release", "counts.yaml", "--out", "out", "--csv").exit_code == 0
    options = pyarrow.csv.ParseOptions(newlines_in_values=True)
    read = pyarrow.csv.read_csv("out/tables/state.csv", parse_options=options)
    assert read["state"].to_pylist() == STATES
    assert read.to_pydict() == Release.load("out").table("state").to_pydict()
    assert not list((folder / "out" / "measurements").glob("*.csv"))


def test_a_seeded_release_says_not_private(folder, run):
    (folder / "counts.yaml").write_text(COUNTS + "seed: 1\n")
    for command in (["release", "counts.yaml", "--out", "out", "--quiet"], ["check", "counts.yaml"]):
        result = run(*command)
        assert result.exit_code == 0
        assert result.stderr.startswith("WARNING: NOT PRIVATE. The noise is drawn from seed 1, ")
    assert "Guarantee: NOT PRIVATE: " in result.stdout


@pytest.mark.parametrize("place", ["people.parquet", "there", "dangling"])
def test_an_existing_place_is_refused_before_anything_is_drawn(folder, refusal, nothing_drawn, place):
    (folder / "there").mkdir()
    (folder / "dangling").symlink_to(folder / "nowhere")
    message = refusal("release", "counts.yaml", "--out", place, code=ExitCode.EXISTS)
    assert message == (f"folder: '{folder / place}' exists; choose another folder, or move it away")


@pytest.mark.parametrize(
    ("place", "above"),
    [
        ("people.parquet/out", "people.parquet"),
        pytest.param("/proc/out", "/proc", marks=pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc")),
    ],
)
def test_a_place_that_cannot_be_written_to_is_refused_before_anything_is_drawn(
    folder, refusal, nothing_drawn, place, above
):
    message = refusal("release", "counts.yaml", "--out", place)
    assert re.fullmatch(rf"{re.escape(str(folder / above))}: .*; 'out' cannot be made there", message)


def test_folders_above_the_release_are_made(folder, run):
    assert run("release", "counts.yaml", "--out", "some/where/out").exit_code == 0
    assert Release.load("some/where/out").levels == ("all", "state", "county")


@pytest.mark.parametrize(
    ("stop", "code", "said"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device"),
            ExitCode.SYSTEM,
            "error: [Errno 28] No space left on device; fallback: the release could not be saved in another folder "
            "either; give one with fallback (--fallback-out)\n",
        ),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
    ids=["disk full", "ctrl-c"],
)
def test_an_interrupted_save_leaves_nothing(folder, run, monkeypatch, stop, code, said):
    def fail(path):
        raise stop

    before = sorted(folder.iterdir())
    monkeypatch.setattr("tallytree.release.release.sha256", fail)
    result = run("release", "counts.yaml", "--out", "out")
    assert (result.exit_code, result.stderr) == (code, said)
    assert sorted(folder.iterdir()) == before


def test_no_private_value_is_printed_or_logged(folder, run, caplog):
    caplog.set_level(logging.DEBUG)
    for statistic in SPECS:
        for command in (["check", f"{statistic}.yaml"], ["release", f"{statistic}.yaml", "--out", f"out-{statistic}"]):
            result = run("--debug", *command)
            assert result.exit_code == 0
            assert CANARY not in result.output
    assert CANARY not in caplog.text
    assert not any(CANARY.encode() in path.read_bytes() for path in folder.glob("out-*/**/*") if path.is_file())


@pytest.mark.parametrize("statistic", SPECS)
def test_the_check_that_nothing_is_drawn_fails_where_something_is(folder, run, nothing_drawn, statistic):
    with pytest.raises(pytest.fail.Exception, match="the private side was opened"):
        run("release", f"{statistic}.yaml", "--out", "out")


# --- Checking ---


def test_check_shows_how_every_level_would_be_measured(folder, run):
    result = run("check", "counts.yaml")
    assert result.exit_code == 0
    assert result.stdout == (
        "To be published: numbers of records\n"
        "level   numbers  accuracy \n"
        "──────────────────────────\n"
        "all           1  exact    \n"
        "state         3  about ± 6\n"
        "county        6  about ± 7\n"
        "Nine of ten numbers that are not near 0 will be off by less than the accuracy; `tallytree plan counts.yaml` "
        "shows more.\n"
        "Numbers below these will be unreliable (std dev above a third of the number): 11.3 at state, 13.3 at county.\n"
        "Noise: discrete Laplace, std dev 5.64 at every measured level.\n"
        "PUBLISHED EXACTLY, not protected (invariants):\n"
        "  * the hierarchy\n"
        "  * the total number of records\n"
        "Spends epsilon 1 of epsilon 1 (LeastSquares, accounting: exact).\n"
        "Guarantee: epsilon = 1 (pure differential privacy) for replacing one person, who has one record, given "
        "the invariants.\n"
        "Risk: An attacker who knows all other records has at most 2.72 % true positives at 1 % false positives, and "
        "at most 13.6 % at 5 %.\n"
        "Measurements:\n"
        "level   measured  share  sensitivity  scale  std dev\n"
        "────────────────────────────────────────────────────\n"
        "all     no                                          \n"
        "state   counts      0.5  L1 2             4  5.64215\n"
        "county  counts      0.5  L1 2             4  5.64215\n"
        "counts.yaml is ready to be released. No private row was read, nothing was spent.\n"
    )


def test_on_a_narrow_terminal_nothing_is_cut(folder, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    words = " ".join(run("check", "counts.yaml").stdout.split())
    assert "county: measured counts, share 0.5, sensitivity L1 2, scale 4, std dev 5.64215 counts.yaml is" in words
    assert "all: measured no state: measured" in words


def test_check_says_how_to_learn_the_accuracy_that_depends_on_the_data(folder, run):
    lines = run("check", "group_sizes.yaml").stdout.splitlines()
    assert lines[0] == "To be published: of every node, the number of groups of each size"
    assert [line.split() for line in lines[1:2]] == [["level", "nodes"]]
    simulate = "`tallytree plan group_sizes.yaml --like PUBLIC` simulates it on public data."
    assert f"How accurate they will be depends on the data: {simulate}" in lines
    assert not any("±" in line for line in lines)


@pytest.mark.parametrize("statistic", SPECS)
def test_check_opens_no_private_row(folder, run, nothing_drawn, statistic):
    content = bytearray((folder / "people.parquet").read_bytes())
    footer = int.from_bytes(content[-8:-4], "little") + 8
    content[4 : len(content) - footer] = bytes(len(content) - footer - 4)
    (folder / "people.parquet").write_bytes(content)
    with pytest.raises(Exception, match=r".*"):
        pq.read_table(folder / "people.parquet")
    assert run("check", f"{statistic}.yaml").exit_code == 0


@pytest.mark.parametrize("command", [["check"], ["release", "--out", "out"]], ids=["check", "release"])
def test_a_mistake_in_the_spec_is_one_line(folder, refusal, nothing_drawn, command):
    (folder / "counts.yaml").write_text(COUNTS.replace("epsilon: 1", "epsilon: -1"))
    assert refusal(*command, "counts.yaml") == "counts.yaml, line 4, budget.epsilon: -1 must be greater than 0"
    assert refusal(*command, "nowhere.yaml") == "nowhere.yaml: no such file; give the path of a YAML spec"


@pytest.mark.parametrize("command", [["check"], ["release", "--out", "out"]], ids=["check", "release"])
def test_records_that_are_not_there_are_named(folder, refusal, command):
    (folder / "people.parquet").unlink()
    assert refusal(*command, "counts.yaml").startswith("counts.yaml, line 2, records: no file at 'people.parquet'; ")
    assert not (folder / "out").exists()


def test_a_mistake_in_the_records_names_the_line_of_their_key(folder, refusal):
    pq.write_table(pa.table({"state": ["Nowhere"], "county": ["x"]}), folder / "people.parquet")
    assert refusal("release", "counts.yaml", "--out", "out").startswith("counts.yaml, line 2, records: ")
    assert not (folder / "out").exists()


def test_spending_too_much_is_one_line(folder, refusal, monkeypatch):
    def refuse(self, *arguments, **options):
        raise tt.BudgetExceeded("budget: the levels would spend 2 of 1")

    monkeypatch.setattr(tt.engines.Local, "tabulate", refuse)
    message = refusal("release", "counts.yaml", "--out", "out", code=ExitCode.BUDGET)
    assert message == "budget: the levels would spend 2 of 1"


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError(CANARY),
        KeyError(CANARY),
        pa.ArrowInvalid(f"records: {CANARY}"),
        ValueError(f"invalid literal for int() with base 10: '{CANARY}'"),
        UnicodeDecodeError("utf-8", CANARY.encode(), 0, 1, CANARY),
    ],
    ids=lambda error: type(error).__name__,
)
def test_of_an_unexpected_error_only_the_type_is_shown(folder, refusal, monkeypatch, error):
    def fail(self, *arguments, **options):
        local = CANARY  # noqa: F841  (must not be printed either)
        raise error

    monkeypatch.setattr(tt.engines.Local, "tabulate", fail)
    message = refusal("release", "counts.yaml", "--out", "out", code=ExitCode.INTERNAL)
    assert message.startswith(f"{type(error).__name__}, which was not expected; ")
    assert "--debug" in message
    assert CANARY not in message


@pytest.mark.parametrize("switch", ["option", "environment"])
def test_debug_shows_the_traceback_without_local_variables(folder, run, monkeypatch, switch):
    def fail(self, *arguments, **options):
        local = "".join(reversed(CANARY))  # noqa: F841
        raise RuntimeError("told only when asked")

    monkeypatch.setattr(tt.engines.Local, "tabulate", fail)
    if switch == "environment":
        monkeypatch.setenv("TALLYTREE_DEBUG", "1")
    result = run(*(["--debug"] if switch == "option" else []), "release", "counts.yaml", "--out", "out")
    assert result.exit_code == 1
    assert "Traceback" in result.stderr
    assert "told only when asked" in result.stderr
    assert CANARY[::-1] not in result.output


def test_control_characters_in_an_error_are_escaped(folder, refusal):
    assert refusal("check", "a\x1b[31m\nb.yaml") == "a\\x1b[31m\\nb.yaml: no such file; give the path of a YAML spec"


def test_check_calls_units_as_the_publisher_does(folder, run):
    spec = folder / "counts.yaml"
    spec.write_text(spec.read_text() + "words: {record: trip, person: commuter}\n")
    shown = run("check", "counts.yaml").stdout
    assert "To be published: numbers of trips" in shown
    assert "one commuter" in shown
