"""What is drawn while a run goes on."""

import numba
import pytest

from tallytree import _stages as stages
from tallytree._progress import level_progress, run_progress, step_progress


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

    from tallytree._progress import _RunDisplay

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
    assert texts[:4] == ["starting", "reading the records", "fitting", "measuring"]
    assert texts[4] == "measuring county"
    assert capfd.readouterr().err


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
