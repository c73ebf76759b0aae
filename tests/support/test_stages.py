"""The stages of a run in the log."""

import logging

import pyarrow as pa
import pytest

import tallytree as tt
from tallytree.support.stages import ATTRIBUTES, observed_by, part, reading, stage

AREAS = pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "x"]})


@pytest.fixture
def lines(caplog):
    """What the log of stages has."""
    caplog.set_level(logging.INFO, logger="tallytree.stages")

    def found():
        return [record for record in caplog.records if record.name == "tallytree.stages"]

    return found


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes on only when it is told to."""
    now = [0.0]
    monkeypatch.setattr("tallytree.support.stages.time.monotonic", lambda: now[0])

    def wait(seconds):
        now[0] += seconds

    return wait


def test_a_library_user_sees_each_stage_of_a_release(lines, tmp_path):
    tree = tt.Hierarchy.from_table(AREAS, ["state", "county"])
    release = tt.release_counts(AREAS, tree, tt.Budget(epsilon=1), neighboring="add_remove")
    release.save(tmp_path / "out")
    assert [record.stage for record in lines()] == ["plan", "tabulate", "record", "measure", "reconcile", "save"]
    for record in lines():
        assert record.getMessage() == f"{record.stage}: {record.seconds:.1f} s"
        assert round(record.seconds, 1) == record.seconds
        assert (record.dataset, record.run) == (None, None)


def test_parts_add_up_and_are_no_part_of_the_rest(lines, clock):
    @part("measure")
    def measure():
        clock(0.26)

    with stage("reconcile", dataset="people", run="monday"):
        clock(1)
        measure()
        measure()
        with stage("save"):
            clock(4)
    assert [(record.stage, record.seconds) for record in lines()] == [("save", 4), ("measure", 0.5), ("reconcile", 1)]
    assert {(record.dataset, record.run) for record in lines()[1:]} == {("people", "monday")}


def test_a_stage_that_fails_says_so(lines, clock):
    def fail():
        clock(2)
        raise ValueError("a private word")

    with pytest.raises(ValueError, match="private"), stage("tabulate"):
        fail()
    assert [record.getMessage() for record in lines()] == ["tabulate: failed after 2.0 s"]
    assert "private" not in str(vars(lines()[0]))


def test_outside_of_a_stage_parts_are_not_noted(lines):
    with part("measure"):
        pass
    assert lines() == []


def test_a_line_has_its_attributes_and_nothing_else(lines):
    with stage("save"):
        pass
    usual = vars(logging.makeLogRecord({}))
    assert set(vars(lines()[0])) - set(usual) - {"message", "asctime"} == set(ATTRIBUTES)


class Told:
    def __init__(self):
        self.said = []

    def begin(self, stage):
        self.said.append(f"+{stage}")

    def end(self, stage):
        self.said.append(f"-{stage}")

    def reading(self, percent):
        self.said.append(None if percent is None else percent())


def test_an_observer_is_told_until_its_block_ends():
    told = Told()
    with observed_by(told), stage("reconcile"):
        with part("measure"):
            pass
        with reading(lambda: 50.0):
            pass
    with stage("save"), reading(lambda: 1.0):
        pass
    assert told.said == ["+reconcile", "+measure", "-measure", 50.0, None, "-reconcile"]
