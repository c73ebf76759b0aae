"""What is drawn while a run goes on."""

import numba
import pytest

from tallytree.support import stages
from tallytree.support.stages import level_progress, run_progress, step_progress


def test_progress_is_drawn_on_standard_error_only_where_asked_for(capfd):
    for shown in (False, True):
        with level_progress(shown, ["state", "county"]) as begin:
            begin("state")
            begin("county")
            begin("county")
        out, error = capfd.readouterr()
        assert out == ""
        assert bool(error) is shown


def test_steps_are_drawn_on_standard_error_only_where_asked_for(capfd):
    for shown in (False, True):
        with step_progress(shown, 2, "replicates") as done:
            done()
            done()
        out, error = capfd.readouterr()
        assert out == ""
        assert bool(error) is shown


@pytest.fixture
def drawn(monkeypatch):
    """The descriptions that a run's display shows, in order, and what it says of how much is read."""
    from rich.progress import Progress

    from tallytree.support.stages import _RunDisplay

    said = []
    update, begin = Progress.update, Progress.add_task
    read = _RunDisplay.read

    def noted(self, task, **facts):
        said.extend([facts["description"]] if "description" in facts else [])
        return update(self, task, **facts)

    def first(self, description, **facts):
        said.append(description)
        return begin(self, description, **facts)

    monkeypatch.setattr(Progress, "update", noted)
    monkeypatch.setattr(Progress, "add_task", first)
    monkeypatch.setattr(_RunDisplay, "read", lambda self: said.append(read(self)) or "")
    return said


def test_a_run_says_what_it_does_from_the_start(drawn, capfd):
    with run_progress(True), level_progress(True, ["state", "county"]) as begin:
        with stages.stage("tabulate"):
            pass
        with stages.stage("reconcile"), stages.part("measure"):
            begin("county")
    texts = list(dict.fromkeys(text for text in drawn if text))
    assert texts[:4] == ["loading", "reading the records", "fitting", "measuring"]
    assert texts[4] == "measuring county"
    assert capfd.readouterr().err


STAGES = ("plan", "tabulate", "record", "reconcile", "save", "report")


def test_each_stage_has_a_name_and_none_is_shown_twice(drawn, capfd):
    with run_progress(True):
        for name in STAGES:
            with stages.stage(name):
                pass
    texts = [text for i, text in enumerate(drawn) if text and text != (drawn[i - 1] if i else None)]
    assert texts == [
        "loading", "planning", "reading the records", "recording in the ledger", "fitting", "saving",
        "writing the report",
    ]  # fmt: skip


def test_the_bar_moves_before_fitting_and_never_back(monkeypatch, capfd):
    from rich.progress import Progress

    reached, update = [], Progress.update

    def noted(self, task, **facts):
        reached.extend([facts["completed"]] if "completed" in facts else [])
        return update(self, task, **facts)

    monkeypatch.setattr(Progress, "update", noted)
    with run_progress(True), level_progress(True, ["state", "county"]) as begin:
        with stages.stage("plan"):
            pass
        with stages.stage("tabulate"):
            pass
        before = reached[-1]
        with stages.stage("reconcile"):
            for level in ("state", "county"):
                with stages.part("measure"):
                    begin(level)
        with stages.stage("save"), stages.stage("tabulate"):
            pass
    assert 0 < reached[0] < before
    assert reached == sorted(reached)
    assert reached[-1] < 100


def test_the_bar_moves_while_records_are_read(monkeypatch, capfd):
    from rich.progress import Progress

    bars = []
    monkeypatch.setattr(Progress, "start", lambda self: bars.append(self))
    monkeypatch.setattr(Progress, "stop", lambda self: None)
    with run_progress(True), stages.stage("tabulate"):
        begun = bars[0].tasks[0].completed
        with stages.reading(lambda: 50.0):
            assert list(bars[0].get_renderables())
        assert bars[0].tasks[0].completed > begun


@pytest.mark.parametrize(("percent", "shown"), [(45.4, "45 %"), (-1.0, "")])
def test_what_is_read_is_shown_where_the_engine_can_tell(drawn, percent, shown):
    from rich.progress import Progress

    bars = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Progress, "start", lambda self: bars.append(self))
        patch.setattr(Progress, "stop", lambda self: None)
        with run_progress(True), stages.stage("tabulate"):
            with stages.reading(lambda: percent):
                drawn.clear()
                assert list(bars[0].get_renderables())
            assert shown in drawn


def test_compiling_is_said(drawn):
    twice = numba.njit(lambda number: 2 * number)  # not cached, so that it is compiled here
    with run_progress(True), stages.stage("reconcile"):
        assert twice(21) == 42
    assert "compiling <lambda> (only the first time)" in drawn
    assert drawn.index("compiling <lambda> (only the first time)") < len(drawn) - 1
