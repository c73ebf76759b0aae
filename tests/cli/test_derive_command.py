"""`tallytree derive`: numbers derived from releases at the command line."""

import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from helpers import dense_trees as small
from helpers import releases
from tallytree.cli.failures import ExitCode
from tallytree.release.intervals import COVERS
from tallytree.sources.leaf_paths import decoded


@pytest.fixture
def folder(tmp_path, monkeypatch, areas):
    """A working folder with two releases of counts, one of tables and one of group sizes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    for seed in (1, 2):
        small.release(seed).save(f"counts{seed}")
    releases.tables(areas, seed=3).save("tables")
    releases.group_sizes(areas, seed=4).save("homes")
    (tmp_path / "a.csv").write_text("state,county\nA,v\n")
    (tmp_path / "b.csv").write_text("state,county\nA,\n")
    return tmp_path


def test_shares_are_shown(folder, output):
    shown = output("derive", "share", "counts1", "county", "--within", "state").splitlines()
    assert shown[0].split() == ["state", "county", "count", "of", "share", "std_dev", "ci_lower", "ci_upper", "quality"]
    assert shown[2].split()[:2] == ["A", "v"]
    assert shown[-2:] == [COVERS, "Nothing was spent."]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "derived"),
    [
        ("share counts1 county --within state", lambda of: of("counts1").share("county", within="state")),
        ("share tables county,sex --within county", lambda of: of("tables").share("county", "sex", within="county")),
        ("ratio counts1 --numerator a.csv --denominator b.csv", lambda of: of("counts1").ratio("a.csv", "b.csv")),
        (
            "ratio tables --numerator sex=f --denominator all --by state",
            lambda of: of("tables").ratio({"sex": "f"}, {}, by="state"),
        ),
        ("change counts1 counts2 county --alpha 0.2", lambda of: tt.change("counts1", "counts2", "county", alpha=0.2)),
        ("change counts1 counts2", lambda of: tt.change("counts1", "counts2")),
        ("total-of counts1 counts2 --areas b.csv", lambda of: tt.total_of(["counts1", "counts2"], "b.csv")),
        ("total-of tables --by county", lambda of: tt.total_of(["tables"], by="county")),
        ("total-of tables --where sex=f", lambda of: tt.total_of(["tables"], where={"sex": "f"})),
        ("mean homes state --replicates 10 --seed 1", lambda of: of("homes").mean("state", replicates=10, seed=1)),
        ("quantile homes all --q 0.25", lambda of: of("homes").quantile("all", 0.25)),
        (
            "mean tables state --of sex --value f=0:2 --value m=4",
            lambda of: of("tables").mean("state", attribute="sex", values={"f": (0, 2), "m": 4}),
        ),
    ],
)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_what_is_derived_is_written(folder, output, words, derived, suffix):
    shown = output("derive", *words.split(), "--out", f"made.{suffix}")
    assert shown.splitlines()[-1] == f"Nothing was spent. Rows: made.{suffix}"
    wanted = decoded(derived(tt.Release.load))
    if suffix == "parquet":
        assert pq.read_table("made.parquet").equals(wanted)
    else:
        assert csv.read_csv("made.csv").column_names == wanted.column_names
        assert csv.read_csv("made.csv").num_rows == wanted.num_rows


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("share counts1 county --within town", "within: "),
        ("ratio tables --numerator sex --denominator all", "where: 'sex' must be COLUMN=LABEL"),
        ("ratio counts1 --numerator a.csv --numerator b.csv --denominator b.csv", "numerator: 2 are given; of counts"),
        ("mean tables state --of sex --value f=old", "value: 'f=old' must be LABEL=NUMBER or LABEL=FROM:TO"),
        ("quantile homes all --q 2", "q: 2.0 must lie strictly between 0 and 1"),
        ("change counts1 counts1", "later: it is the same release as earlier"),
        ("total-of counts1", "areas: None is given"),
        ("share counts1 county --out made.txt", "out: 'made.txt' must end in .csv or .parquet"),
    ],
)
def test_what_cannot_be_is_one_line(folder, run, words, message):
    done = run("derive", *words.split())
    assert done.exit_code == ExitCode.INPUT
    assert message in " ".join(done.stderr.split())


def test_a_folder_without_a_release_is_said(folder, run):
    assert run("derive", "share", "nothing", "county").exit_code == ExitCode.INPUT


def test_a_difference_and_a_change_are_told_at_the_command_line(tmp_path, monkeypatch, output, run):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    for seed in (1, 2, 3):
        small.release(seed).save(f"y{seed}")
    shown = output("derive", "difference", "y1", "v", "state=A,county=w")
    (row,) = small.release(1).difference("v", "w").to_pylist()
    assert f"v has {row['difference']:,} more than A, w, ± " in shown
    assert shown.splitlines()[0].endswith(": more.")
    (tmp_path / "moves.csv").write_text("old,new,weight\nv,v,0.5\nv,w,0.5\n")
    shown = output("derive", "change", "y1", "y2", "county", "--crosswalk", "moves.csv")
    assert "Estimated by weight, which intervals take as exact: 2 (A, v; A, w)." in " ".join(shown.split())
    words = "derive series y1 y2 y3 --level state --names 2022,2023,2024 --out series.csv"
    assert "Nothing was spent. Rows: series.csv" in output(*words.split())
    assert (tmp_path / "series.csv").read_text().splitlines()[1].startswith('"A","2022",')
    done = run("derive", "difference", "y1", "v", "q")
    assert done.exit_code == ExitCode.INPUT
    assert "second: 'q' is no label" in " ".join(done.stderr.split())


@pytest.mark.needs("altair")
def test_a_report_shows_a_series_as_lines(tmp_path, monkeypatch, output, run):
    monkeypatch.chdir(tmp_path)
    for seed in (1, 2, 3):
        small.release(seed).save(f"y{seed}")
    output("report", "y3", "--earlier", "y1", "--earlier", "y2", "--level", "county", "--out", "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    section = page[page.index('id="series"') :]
    assert "How the numbers changed" in section
    series = tt.series(["y1", "y2", "y3"], "county").to_pylist()
    assert [row["release"] for row in series[:3]] == ["y1", "y2", "y3"]
    for row in series[:6]:
        assert f"<bdi>{row['count']:,}</bdi>" in section
    assert "<svg" in section
    plain = output("report", "y3", "--out", "plain.html")
    assert "Report" in plain
    assert 'id="series"' not in (tmp_path / "plain.html").read_text(encoding="utf-8")
    done = run("report", "y3", "--level", "county")
    assert done.exit_code == ExitCode.INPUT
    assert "earlier: none is given, and --level, --crosswalk and --names are about them" in " ".join(
        done.stderr.split()
    )
