"""Folders with spilled rows: private, removed at the end, and by a later run after a kill; nothing else is removed."""

import copy
import gc
import os
import pickle
import signal
import stat
import subprocess
import sys
import threading

import pytest

from tallytree.support import spill_folders
from tallytree.support.spill_folders import PREFIX, KeptFolder, remove_folders_in_use, remove_leftovers, spill_folder

ROWS = "duckdb_temp_storage-0.tmp"
# A run that spills, says so, and waits.
RUN = f"""
import sys, time
from tallytree.support.spill_folders import spill_folder
with spill_folder(sys.argv[1]) as folder:
    (folder / "{ROWS}").write_text("NAME-1")
    (folder / "below").mkdir()
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def run(tmp_path):
    """Starts runs that spill in `tmp_path`; they are ended with the test."""
    started = []

    def start():
        started.append(subprocess.Popen([sys.executable, "-c", RUN, str(tmp_path)], stdout=subprocess.PIPE, text=True))
        return started[-1], tmp_path / started[-1].stdout.readline().strip()

    yield start
    for process in started:
        process.kill()
        process.communicate()


def dead(process):
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def test_a_folder_is_private_and_removed_also_after_an_error(tmp_path):
    def fail():
        with spill_folder(tmp_path) as folder:
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            (folder / "below").mkdir()
            (folder / "below" / ROWS).touch()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_left_is_removed_and_a_live_run_is_not(tmp_path, run):
    killed, left = run()
    _, lives = run()
    assert (left / ROWS).read_text() == "NAME-1"
    dead(killed)
    with spill_folder(tmp_path) as own:
        assert {*tmp_path.iterdir()} == {lives, own}
        remove_leftovers(tmp_path)  # not even one's own
        assert {*tmp_path.iterdir()} == {lives, own}
    assert (lives / ROWS).read_text() == "NAME-1"


def test_a_run_that_has_just_begun_loses_nothing(tmp_path):
    """Between the making of a folder and its lock, another run takes it for a leftover: a new one is made."""
    made, removed = spill_folders.tempfile.mkdtemp, []

    def made_and_removed(**options):
        path = made(**options)
        if len(removed) < 2:
            removed.append(path)
            remove_leftovers(tmp_path)
        return path

    spill_folders.tempfile.mkdtemp = made_and_removed
    try:
        with spill_folder(tmp_path) as folder:
            assert str(folder) not in removed
            assert [*tmp_path.iterdir()] == [folder]
    finally:
        spill_folders.tempfile.mkdtemp = made
    assert len(removed) == 2


@pytest.mark.slow
def test_runs_that_begin_at_the_same_time_do_not_remove_each_other(tmp_path):
    lost, barrier = [], threading.Barrier(4)

    def work():
        barrier.wait()
        for _ in range(50):
            with spill_folder(tmp_path) as folder:
                (folder / ROWS).touch()
                remove_leftovers(tmp_path)
                if not (folder / ROWS).exists():
                    lost.append(folder)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lost == []
    assert list(tmp_path.iterdir()) == []


def leftover(place, name=PREFIX + "ab12_xyz"):
    folder = place / name
    folder.mkdir(mode=0o700)
    (folder / ROWS).write_text("NAME-1")
    return folder


def test_a_folder_that_others_can_enter_is_left_alone(tmp_path):
    folder = leftover(tmp_path)
    folder.chmod(0o755)
    remove_leftovers(tmp_path)
    assert (folder / ROWS).exists()


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a folder to another user"
)
def test_a_folder_of_another_user_is_left_alone(tmp_path):
    folder = leftover(tmp_path)
    os.chown(folder, 65534, 65534)
    remove_leftovers(tmp_path)
    assert (folder / ROWS).exists()


def test_a_user_is_never_mistaken(tmp_path, monkeypatch):
    folder = leftover(tmp_path)
    with monkeypatch.context() as other:
        other.setattr(os, "geteuid", lambda: 4_000_000)
        remove_leftovers(tmp_path)
    assert (folder / ROWS).exists()
    remove_leftovers(tmp_path)
    assert not folder.exists()


def test_links_are_not_followed(tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir(mode=0o700)
    (kept / ROWS).touch()
    place = tmp_path / "spill"
    place.mkdir()
    (place / f"{PREFIX}ab12_xyz").symlink_to(kept)
    folder = leftover(place, f"{PREFIX}ab12_xyy")
    (folder / "link").symlink_to(kept)
    locked_outside = leftover(place, f"{PREFIX}ab12_xyw")
    (locked_outside / "lock").symlink_to(kept / ROWS)
    remove_leftovers(place)
    assert (kept / ROWS).exists()
    assert (place / f"{PREFIX}ab12_xyz").is_symlink()
    assert not folder.exists()
    assert locked_outside.exists()  # its lock is not ours


def test_other_names_are_left_alone(tmp_path):
    for name in ("tallytree-demo", "tallytree-spill", "my-tallytree-spill-ab12_xyz"):
        leftover(tmp_path, name)
    (tmp_path / f"{PREFIX}file").touch()
    before = sorted(tmp_path.rglob("*"))
    remove_leftovers(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_place_that_does_not_exist_has_no_leftovers(tmp_path):
    remove_leftovers(tmp_path / "nothing")


def test_a_file_system_without_locks_is_spilled_to_and_nothing_removed(tmp_path, monkeypatch):
    folder = leftover(tmp_path)
    monkeypatch.setattr(spill_folders, "try_lock", lambda handle: None)
    with spill_folder(tmp_path) as own:
        assert own.exists()
    assert {*tmp_path.iterdir()} == {folder}


def test_all_folders_in_use_are_removed_at_once(tmp_path):
    with spill_folder(tmp_path) as first, spill_folder(tmp_path) as second:
        remove_folders_in_use()
        assert not first.exists()
        assert not second.exists()


def test_a_kept_folder_lives_as_long_as_its_object(tmp_path):
    kept = KeptFolder(tmp_path)
    (kept.path / ROWS).touch()
    assert stat.S_IMODE(kept.path.stat().st_mode) == 0o700
    remove_leftovers(tmp_path)  # its lock is held
    assert copy.copy(kept) is copy.deepcopy(kept) is kept
    assert kept.path.is_dir()
    del kept
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_a_kept_folder_is_not_pickled(tmp_path):
    with pytest.raises(TypeError, match="save it, and load it in the other process"):
        pickle.dumps(KeptFolder(tmp_path))


def test_a_kept_folder_is_removed_once(tmp_path):
    kept = KeptFolder(tmp_path)
    kept.remove()
    kept.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_kept_folder_is_removed_when_the_process_is_told_to_end(tmp_path):
    kept = KeptFolder(tmp_path)
    remove_folders_in_use()
    assert list(tmp_path.iterdir()) == []
    kept.remove()


def test_a_forked_child_does_not_remove_a_kept_folder(tmp_path):
    kept = KeptFolder(tmp_path)
    child = os.fork()
    if not child:
        kept.remove()
        os._exit(0)
    os.waitpid(child, 0)
    assert kept.path.is_dir()
    kept.remove()


def test_a_folder_whose_lock_cannot_be_made_does_not_stay(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(spill_folders.os, "open", full)
    with pytest.raises(OSError, match="No space left"):
        spill_folders._made_and_locked(tmp_path)
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []
