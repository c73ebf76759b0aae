"""A release that takes the place of another: whole at every moment, and put back where it was not."""

import errno
import json
import os
import shlex
import shutil
import socket
import stat
import subprocess
import sys
import textwrap

import pyarrow as pa
import pytest

import tallytree as tt
from helpers import releases
from tallytree.release import replacing
from tallytree.release.replacing import exchange, replace_folder

# Kills the replacement at its first, second, … call to the file system, until one gets through. Children are forked
# from a process that has imported everything.
KILLS = textwrap.dedent(
    """
    import itertools, json, os, shlex, shutil, signal, sys, warnings
    from pathlib import Path
    import tallytree as tt
    from tallytree.release import replacing

    warnings.simplefilter("ignore")
    base, able = Path(sys.argv[1]), sys.argv[2] == "exchange"
    new, target = base / "box/.out.ab12_xyz.partial/out", base / "box/out"
    swap = replacing.exchange

    def replaced_unless_killed(at):
        left = itertools.count(at, -1)

        def step(event, arguments):
            if event.startswith(("os.", "open", "shutil.")) and next(left) == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        def exchanged(*paths):
            step("os.exchange", ())
            done = swap(*paths) if able else False
            step("os.exchange", ())
            return done

        replacing.exchange = exchanged
        sys.addaudithook(step)
        replacing.replace_folder(new, target)
        os._exit(0)

    found = {"earlier": 0, "new": 0, "put back": 0}
    for at in itertools.count():
        shutil.rmtree(base / "box", ignore_errors=True)
        shutil.copytree(base / "earlier", target)
        shutil.copytree(base / "new", new)
        child = os.fork()
        if child == 0:
            replaced_unless_killed(at)
        _, status = os.waitpid(child, 0)
        if not target.exists():
            found["put back"] += 1
            try:
                tt.Release.load(target)
            except ValueError as error:
                way = str(error).partition("put it back with ")[2].partition(" or mv ")[0]
            _, whole, place = shlex.split(way)
            os.rename(whole, place)
        found["new" if "errors" in tt.Release.load(target).statement else "earlier"] += 1
        if os.WIFEXITED(status):
            break
    print(json.dumps(found | {"status": status, "left": sorted(path.name for path in (base / "box").iterdir())}))
    """
)


@pytest.fixture
def pair(areas, tmp_path):
    """Two saved releases, of which the second has errors."""
    earlier = releases.counts(areas)
    earlier.save(tmp_path / "earlier")
    tt.replicate_errors(earlier, 10).save(tmp_path / "new")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("way", ["exchange", "renames"])
def test_a_kill_at_any_step_leaves_a_whole_release(pair, way):
    done = subprocess.run(
        [sys.executable, "-c", KILLS, str(pair), way], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["earlier"] > 5  # steps before the swap
    assert found["new"] > 5  # and after it
    assert (found["put back"] > 0) == (way == "renames")
    assert found["status"] == 0
    assert found["left"] == [".out.ab12_xyz.partial", "out"]


def test_two_folders_swap_their_names(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    if not exchange(tmp_path / "one", tmp_path / "two"):
        pytest.skip("this system, or this file system, cannot exchange two names")
    assert (tmp_path / "one/two").exists()
    assert (tmp_path / "two/one").exists()
    with pytest.raises(FileNotFoundError) as caught:
        exchange(tmp_path / "one", tmp_path / "three")
    assert caught.value.filename2 == str(tmp_path / "three")


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EINVAL, errno.EPERM])
def test_a_system_that_cannot_exchange_says_so(tmp_path, monkeypatch, code):
    import ctypes

    monkeypatch.setattr("tallytree.release.replacing._renameat2", lambda: lambda *_: -1)
    monkeypatch.setattr(ctypes, "get_errno", lambda: code)
    assert not exchange(tmp_path / "one", tmp_path / "two")
    monkeypatch.setattr("tallytree.release.replacing._renameat2", lambda: None)
    assert not exchange(tmp_path / "one", tmp_path / "two")


@pytest.mark.parametrize("able", [True, False])
def test_a_finished_folder_takes_the_place_of_another(pair, monkeypatch, able):
    if not able:
        monkeypatch.setattr(replacing, "exchange", lambda *_: False)
    (pair / "earlier/mine.txt").write_text("kept")
    (pair / "earlier").chmod(0o750)
    assert replace_folder(pair / "new", pair / "earlier") == pair / "earlier"
    assert [path.name for path in pair.iterdir()] == ["earlier"]
    assert "errors" in tt.Release.load(pair / "earlier").statement
    assert (pair / "earlier/mine.txt").read_text() == "kept"
    assert (pair / "earlier").stat().st_mode & 0o777 == 0o750


def test_a_finished_folder_takes_a_free_name(pair):
    replace_folder(pair / "new", pair / "free")
    assert "errors" in tt.Release.load(pair / "free").statement


def test_the_place_of_a_link_is_that_of_its_folder(pair):
    (pair / "latest").symlink_to("earlier")
    assert replace_folder(pair / "new", pair / "latest") == pair / "earlier"
    assert (pair / "latest").is_symlink()
    assert "errors" in tt.Release.load(pair / "latest").statement


def test_what_is_no_release_is_not_removed(pair):
    (pair / "thesis").mkdir()
    (pair / "thesis/text").write_text("years of work")
    with pytest.raises(ValueError, match=r"^folder: '.*thesis' is no saved release .* not replaced; choose another"):
        replace_folder(pair / "new", pair / "thesis")
    assert (pair / "thesis/text").read_text() == "years of work"
    assert (pair / "new").exists()


def interrupted(pair, suffix, name):
    """Leave a folder beside `earlier` as a killed run would; its path, and that of the release in it."""
    left = pair / f".earlier.ab12_xyz.{suffix}"
    whole = left / name if name else left
    whole.parent.mkdir(exist_ok=True)
    shutil.copytree(pair / "new", whole)
    return left, whole


@pytest.mark.parametrize(("suffix", "name"), [("partial", "earlier"), ("earlier", ""), ("partial", "")])
def test_what_a_killed_run_left_whole_is_named_with_the_remedy(pair, suffix, name):
    left, whole = interrupted(pair, suffix, name)
    keep, remove = f"mv {shlex.quote(str(whole))} OTHER-NAME", f"rm -r {shlex.quote(str(left))}"
    with pytest.warns(UserWarning, match="was left by a run that was killed") as caught:
        replacing.replace_release(tt.Release.load(pair / "new"), pair / "earlier")
    assert keep in str(caught[0].message)
    assert remove in str(caught[0].message)
    shutil.rmtree(pair / "earlier")
    with pytest.raises(ValueError, match=r"folder: '.*earlier' does not exist, .* put it back with mv ") as refused:
        tt.Release.load(pair / "earlier")
    subprocess.run(["sh", "-c", str(refused.value).partition("put it back with ")[2]], check=True)
    assert "errors" in tt.Release.load(pair / "earlier").statement


def test_what_a_killed_run_left_half_made_is_named_when_the_folder_is_made(areas, tmp_path):
    left = tmp_path / ".out.ab12_xyz.partial"
    (left / "tables").mkdir(parents=True)
    (tmp_path / ".out.x.ab12_xyz.partial").mkdir()  # of a folder `out.x`
    (tmp_path / ".out.ab12_xyz.earlier").symlink_to("/")
    with pytest.warns(UserWarning, match="was left by a run that was killed") as caught:
        releases.counts(areas).save(tmp_path / "out")
    (message,) = [str(each.message) for each in caught]
    assert message.startswith(f"folder: '{left}' ")
    assert message.endswith(f"it holds no whole release; remove it with: rm -r {shlex.quote(str(left))}")
    assert left.exists()  # nothing is removed unasked


def test_what_a_live_run_builds_is_not_called_left(pair):
    left, _ = interrupted(pair, "partial", "earlier")
    code = (
        "import sys, time; from pathlib import Path; from tallytree.support.spill_folders import locked\n"
        "with locked(Path(sys.argv[1])): print('locked', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(left)], stdout=subprocess.PIPE, text=True) as live:
        assert live.stdout.readline() == "locked\n"
        replacing.replace_release(tt.Release.load(pair / "new"), pair / "earlier")  # a warning would be an error
        live.kill()


def everything(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.suffix != ".html"}


def households(**options):
    """Ten households of three persons each."""
    homes = pa.table({"state": ["a"] * 30, "county": ["x"] * 30, "home": [f"h{i // 3}" for i in range(30)]})
    tree = tt.Hierarchy.from_table(pa.table({"state": ["a", "b"], "county": ["x", "y"]}), ["state", "county"])
    options = {"household": "home", "max_household_size": 4, "neighboring": "add_remove", **options}
    return tt.release_households(homes, tree, tt.Budget(epsilon=1), **options)


@pytest.mark.parametrize("later", ["counts", "households"])
@pytest.mark.parametrize("earlier", ["counts", "households"])
def test_nothing_of_the_earlier_release_is_left(areas, tmp_path, earlier, later):
    """A trial with a seed has true numbers for whoever knows the seed: nothing of it may stay in the folder."""
    made = {"counts": lambda **options: releases.counts(areas, **options), "households": households}
    kept = {"keep_detail": True} if earlier == "households" else {}
    target = made[earlier](seed=1, **kept).save(tmp_path / "out", csv=True)
    parts = [part for part in target.iterdir() if (part / "release.json").is_file()]
    for place in (target, *parts):
        (place / "report.html").write_text("of the earlier release")
    for place in parts:
        (place / "deployment.yaml").write_text("of the earlier release")
    (target / "notes.txt").write_text("the publisher's own")
    (target / "empty").mkdir()
    new = made[later]()
    new.save(tmp_path / "fresh")
    replace_folder(new.save(tmp_path / "new"), target)
    assert everything(target) - {"notes.txt", "empty"} == everything(tmp_path / "fresh")
    assert (target / "notes.txt").exists()
    assert not list(target.rglob("*.html"))
    assert tt.Release.load(target).statement["private"]


def test_what_is_left_of_a_report_or_lies_behind_a_link_is_of_the_earlier_release(areas, tmp_path):
    target = releases.counts(areas, seed=1).save(tmp_path / "out")
    (target / "tables").rename(target / "v1")
    (target / "tables").symlink_to("v1")
    for name in (".report.html.ab12_xyz.partial", ".deployment.yaml.ab12_xyz.partial"):
        (target / name).write_text("of the earlier release")
    new = releases.counts(areas)
    replace_folder(new.save(tmp_path / "new"), target)
    new.save(tmp_path / "fresh")
    assert everything(target) == everything(tmp_path / "fresh")


def test_a_link_to_a_part_of_the_earlier_release_is_not_kept(areas, tmp_path):
    target = households().save(tmp_path / "out")
    (target / "persons").rename(tmp_path / "elsewhere")
    (target / "persons").symlink_to(tmp_path / "elsewhere")
    replace_folder(releases.counts(areas).save(tmp_path / "new"), target)
    assert not os.path.lexists(target / "persons")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with names")
def test_a_pipe_in_a_replaced_folder_is_kept_and_not_read(areas, tmp_path):
    target = releases.counts(areas).save(tmp_path / "out")
    os.mkfifo(target / "pipe", 0o640)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(target / "socket"))
        with pytest.warns(UserWarning, match=r"folder: 'socket' is neither a file, a link nor a pipe"):
            replacing.replace_release(releases.counts(areas), target)
    kept = (target / "pipe").stat().st_mode
    assert (stat.S_ISFIFO(kept), stat.S_IMODE(kept)) == (True, 0o640)
    tt.Release.load(target)
