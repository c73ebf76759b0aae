"""Where a release is saved: a folder that exists, a finished run, a place that cannot be written."""

import errno

import pyarrow as pa
import pytest

import tallytree as tt
from helpers.manifests import rewrite
from tallytree.ledger import Ledger
from tallytree.release import Release
from tallytree.run.finished_run import finished_run
from tallytree.run.output import Output

AREAS = pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "x"]})
TREE = tt.Hierarchy.from_table(AREAS, ["state", "county"])


def made(**options):
    return tt.release_counts(AREAS, TREE, tt.Budget(epsilon=1), neighboring="add_remove", **options)


@pytest.fixture
def book(tmp_path):
    return {"ledger": Ledger(tmp_path / "ledger.db"), "dataset": "people"}


def test_by_default_a_folder_that_exists_is_an_error(tmp_path):
    made().save(tmp_path / "out")
    with pytest.raises(FileExistsError, match=r"exists"):
        Output(tmp_path / "out").check()


def test_a_release_is_kept_where_what_it_replaces_is_no_release_any_more(tmp_path):
    output = Output(made().save(tmp_path / "out"), "replace", fallback=tmp_path / "kept")
    output.check()
    (tmp_path / "out" / "release.json").unlink()
    new = made()
    with pytest.raises(ValueError, match="is no saved release") as caught:
        output.save(new)
    assert "was saved in" in caught.value.__notes__[0]
    (kept,) = (tmp_path / "kept").glob("*/out")
    assert Release.load(kept).statement == new.statement


def test_a_finished_run_is_found_and_noted_in_the_ledger(tmp_path, book):
    first = made(run="Monday", **book)
    output = Output(tmp_path / "out", "skip")
    assert finished_run(output, "counts", "Monday", **book) is None
    output.save(first)
    assert finished_run(output, "counts", "Monday", **book).release.statement == first.statement
    assert [entry.state for entry in book["ledger"].entries()] == ["finished"]


@pytest.mark.parametrize(("run", "dataset"), [("Tuesday", "people"), ("Monday", "homes")])
def test_another_release_in_the_folder_is_not_taken_for_the_run(tmp_path, book, run, dataset):
    made(run="Monday", **book).save(tmp_path / "out")
    with pytest.raises(ValueError, match=rf"^folder: .*out' holds another release than counts of the run '{run}'"):
        finished_run(Output(tmp_path / "out", "skip"), "counts", run, book["ledger"], dataset)


def test_a_release_that_the_ledger_does_not_have_is_not_taken_for_the_run(tmp_path, book):
    made(run="Monday", **book)
    elsewhere = {"ledger": Ledger(tmp_path / "other.db"), "dataset": "people"}
    made(run="Monday", **elsewhere).save(tmp_path / "out")
    with pytest.raises(ValueError, match=r"^folder: the ledger 'ledger.db' does not have the release in"):
        finished_run(Output(tmp_path / "out", "skip"), "counts", "Monday", **book)


def test_a_folder_that_is_not_complete_is_not_skipped(tmp_path, book):
    made(run="Monday", **book).save(tmp_path / "out")
    (tmp_path / "out" / "tables" / "state.parquet").unlink()
    with pytest.raises(ValueError, match=r"^folder: .*missing or was changed"):
        finished_run(Output(tmp_path / "out", "skip"), "counts", "Monday", **book)


@pytest.mark.parametrize("missing", ["run", "ledger", "dataset"])
def test_to_skip_a_run_it_has_to_be_named_and_in_a_ledger(tmp_path, book, missing):
    given = {"run": "Monday", **book} | {missing: None}
    with pytest.raises(ValueError, match=r'^if_exists: "skip" .*name the run'):
        finished_run(Output(tmp_path / "out", "skip"), "counts", **given)


def test_a_run_is_found_in_whatever_form_its_accents_are_written(tmp_path, book):
    made(run="Café", **book).save(tmp_path / "out")
    assert finished_run(Output(tmp_path / "out", "skip"), "counts", "Cafe\u0301", **book) is not None


@pytest.mark.parametrize(
    "forged",
    [
        lambda statement: statement["release"].update(run="Monday"),
        lambda statement: statement["release"].update(plan="0" * 64),
        lambda statement: statement["release"].update(id="0" * 32),
        lambda statement: statement.update(release=None),
    ],
)
def test_a_folder_whose_statement_is_of_another_run_is_not_taken(tmp_path, book, forged):
    made(run="Monday", **book)
    made(run="Tuesday", **book).save(tmp_path / "out")
    rewrite(tmp_path / "out", lambda manifest: forged(manifest["statement"]))
    for run in ("Monday", "Tuesday"):
        with pytest.raises(ValueError, match=r"^folder: "):
            finished_run(Output(tmp_path / "out", "skip"), "counts", run, **book)


def test_another_statistic_of_the_run_is_not_taken_for_it(tmp_path, book):
    made(run="Monday", **book).save(tmp_path / "out")
    with pytest.raises(ValueError, match=r"^folder: .* holds another release than contributions of the run 'Monday'"):
        finished_run(Output(tmp_path / "out", "skip"), "contributions", "Monday", **book)


def test_a_release_that_is_not_private_is_not_taken_for_a_run(tmp_path, book):
    made(seed=3, run="Monday").save(tmp_path / "out")
    with pytest.raises(ValueError, match=r"^folder: .* holds another release than counts of the run 'Monday'"):
        finished_run(Output(tmp_path / "out", "skip"), "counts", "Monday", **book)


def test_a_release_takes_the_place_of_an_earlier_one_and_of_nothing_else(tmp_path):
    output = Output(tmp_path / "out", "replace", csv=True)
    output.check()
    output.save(made(run="Monday"))
    output.check()
    output.save(made(run="Tuesday"))
    assert Release.load(tmp_path / "out").statement["release"]["run"] == "Tuesday"
    assert (tmp_path / "out" / "tables" / "state.csv").exists()
    assert [each.name for each in tmp_path.iterdir()] == ["out"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("mine")
    with pytest.raises(ValueError, match=r"is not a complete release"):
        Output(tmp_path / "mine", "replace").check()


def test_a_replacement_that_fails_leaves_the_earlier_release(tmp_path, monkeypatch):
    earlier = made()
    earlier.save(tmp_path / "out")
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr("tallytree.release.release.write_parquet", lambda *_: (_ for _ in ()).throw(full))
    with pytest.raises(OSError, match=r"No space"):
        Output(tmp_path / "out", "replace", tmp_path / "kept").save(made())
    monkeypatch.undo()
    assert Release.load(tmp_path / "out").statement == earlier.statement
    assert sorted(each.name for each in tmp_path.rglob("*") if "out" not in each.parts) == ["kept"]


def fill_up(monkeypatch, place):
    """Makes every write below a folder fail, as on a full disk."""
    real = Release.save

    def save(self, folder, *, csv=False):
        if str(folder).startswith(str(place)):
            raise OSError(errno.ENOSPC, "No space left on device", str(folder))
        return real(self, folder, csv=csv)

    monkeypatch.setattr(Release, "save", save)


@pytest.mark.parametrize("chosen", [True, False])
def test_what_cannot_be_saved_is_kept_in_another_folder_which_the_error_names(tmp_path, monkeypatch, chosen):
    release = made()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    fill_up(monkeypatch, tmp_path / "full")
    output = Output(tmp_path / "full" / "out", fallback=tmp_path / "kept" if chosen else None)
    for _ in range(2):  # the next night too
        output.check()
        with pytest.raises(OSError, match="No space left on device") as caught:
            output.save(release)
        (note,) = caught.value.__notes__
        place = note.removeprefix("fallback: the release was saved in '").split("' instead; move it to ")[0]
        assert place.startswith(str(tmp_path / "kept" if chosen else tmp_path))
        assert place.endswith("/out")
        assert Release.load(place).statement == release.statement


def test_what_cannot_be_saved_for_want_of_memory_is_kept_too(tmp_path, monkeypatch):
    release, real = made(), Release.save

    def save(self, folder, *, csv=False):
        if folder == tmp_path / "out":
            raise MemoryError
        return real(self, folder, csv=csv)

    monkeypatch.setattr(Release, "save", save)
    with pytest.raises(MemoryError) as caught:
        Output(tmp_path / "out", fallback=tmp_path / "kept").save(release)
    assert caught.value.__notes__[0].startswith("fallback: the release was saved in ")


def test_where_no_folder_can_be_written_the_error_says_so(tmp_path, monkeypatch):
    release = made()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    fill_up(monkeypatch, tmp_path)
    with pytest.raises(OSError, match=r"No space left on device") as caught:
        Output(tmp_path / "out").save(release)
    (note,) = caught.value.__notes__
    assert note == (
        "fallback: the release could not be saved in another folder either; give one with fallback (--fallback-out)"
    )


def test_a_choice_that_is_not_known_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"^if_exists: 'overwrite' is not known"):
        Output(tmp_path / "out", "overwrite").check()
