"""`tallytree reproduce`: what is shown, written and refused."""

import pytest

from tallytree.lab.reproduce import EXPERIMENTS, Experiment, Found, running
from tallytree.lab.reproduce.measured import MeasuredRows

pytestmark = pytest.mark.needs("altair", "vl_convert", "jinja2")


@pytest.fixture
def made_up(monkeypatch):
    """An experiment with 50 figures, which come from the settings."""

    def measure(settings):
        value = 100 * settings.full + 10 * (settings.runs or 0) + settings.seed
        return Found([MeasuredRows("d", "Hc", "error", [value], level=level) for level in range(50)], None)

    experiment = Experiment("kuo-table3", "kuo", "nothing", "none", measure, 1, 1)
    monkeypatch.setattr(running, "experiment_named", lambda name: experiment)


def test_all_experiments_are_listed_with_what_they_need(output, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = output("reproduce", "--list")
    for experiment in EXPERIMENTS:
        assert experiment.name in shown
        assert experiment.shows in shown
    assert "less than a minute" in shown


@pytest.mark.parametrize("width", ["80", "120"])
def test_the_list_is_a_table(output, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", width)
    lines = output("reproduce", "--list").splitlines()
    assert lines[0].split() == ["name", "shows", "data", "minutes", "GiB"]
    assert max(map(len, lines[:-1])) <= int(width)
    assert [line.split()[0] for line in lines if line.startswith("fioretto-figure")] == [
        f"fioretto-figure{number}" for number in (7, 8, 9)
    ]
    assert [line.split()[-2:] for line in lines if line.startswith("kuo-table")] == [["120", "16"], ["60", "6"]]


def test_the_first_figures_and_the_files_are_shown(output, made_up, tmp_path):
    shown = output("reproduce", "kuo-table3", "--out", tmp_path, "--full", "--runs", 2, "--seed", 3)
    assert " 123 " in shown
    assert "10 more rows are in the table." in shown
    assert str(tmp_path / "kuo-table3.csv") in shown
    assert (tmp_path / "kuo-table3.md").is_file()


def test_without_out_a_folder_of_the_working_folder_is_written(output, made_up, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    output("reproduce", "kuo-table3")
    assert (tmp_path / "reproduced" / "kuo-table3.csv").is_file()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "name: none is given; tallytree reproduce --list shows all"),
        (["kuo-tabel3"], "name: 'kuo-tabel3' is no experiment; did you mean 'kuo-table3'?"),
        (["kuo-table3", "--data", "nowhere"], "data: 'nowhere' is no folder; give the folder that has the data sets"),
    ],
)
def test_what_cannot_be_measured_is_refused(refusal, arguments, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refusal("reproduce", *arguments) == sentence
    assert list(tmp_path.iterdir()) == []
