"""Audits of counts above a threshold: faults that must be caught, beside the right version, which must pass."""

import math
import re
from decimal import Context, localcontext
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import tallytree as tt
from helpers.inside import KeyedNoise
from tallytree.cli.app import app
from tallytree.lab.audit import Subject, audit, audit_subject
from tallytree.lab.audit import library as library_of_audits
from tallytree.lab.audit.audited import Audited
from tallytree.lab.audit.threshold import _Law as Law
from tallytree.lab.audit.threshold import stable_delta, worst_stable_pair
from tallytree.lab.audit.views import publisher
from tallytree.mechanisms import Noise

AREAS = tt.Hierarchy.from_table(pa.table({"s": ["A", "A", "B"], "c": ["x", "y", "x"]}), ["s", "c"])
SH = tt.counts.StabilityHistogram()
BUDGET = tt.Budget(epsilon=1, delta=1e-6)


class WithHalfTheScale:
    """A source that draws noise of half the scale that is asked for."""

    def __init__(self, key):
        self._source = KeyedNoise(key)

    def draw(self, noise, address, cells):
        return self._source.draw(Noise(noise.distribution, noise.scale / 2), address, cells)


def subject(before, after, neighboring="add_remove", threshold=None):
    """The mechanism on two inputs, as the library plans it, or with a threshold that no plan can have."""
    job, inputs = Audited(tree=AREAS, budget=BUDGET, neighboring=neighboring, mechanism=SH).plan()
    if threshold is not None:
        object.__setattr__(job.plan.stable, "threshold", threshold)
    statistics = [inputs.tabulate(np.array(records)) for records in (before, after)]
    return Subject(repr(SH), neighboring, job.plan, *statistics, publisher(job, AREAS, None))


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 40])
def test_the_chance_of_being_left_out_is_that_of_the_law(count):
    """P(noise < t − count), summed; of a count far above, whose chance no float holds, the logarithm all the same."""
    scale, threshold = Fraction(3), 10
    q = math.exp(-1 / 3)
    masses = [(1 - q) / (1 + q) * q ** abs(noise) for noise in range(-400, threshold - count)]
    expected = 0.0 if count == 0 else math.log(math.fsum(masses))
    with localcontext(Context(prec=60)):
        law = Law(scale, threshold)
        assert law.log_of_nothing(count) == pytest.approx(expected, rel=1e-9, abs=1e-12)
        assert law.log_of_nothing(10**9) == pytest.approx(-(10**9) / 3, rel=1e-6)


@pytest.mark.slow
def test_half_the_scale_is_caught_where_counts_are_far_above_the_threshold():
    """True loss 2, stated 1; more than 1.5 is shown, as without a threshold."""
    pair = [100, 100, 0], [101, 100, 0]
    result = audit_subject(subject(*pair), source=WithHalfTheScale, seed=1)
    assert not result.passed
    assert 1.5 < result.epsilon_lower <= 2
    right = audit_subject(subject(*pair), seed=1)
    assert right.passed
    assert right.epsilon_lower > 0.8


def test_a_threshold_that_is_too_low_is_caught_by_runs_and_by_the_exact_check():
    """A lone record is published with probability e^-2/(1 + e^-1) = 0.1 at t = 3, and never if it is not there."""
    wrong = audit_subject(subject([1, 100, 0], [0, 100, 0], threshold=3), runs=20_000, seed=1)
    assert not wrong.passed
    assert wrong.epsilon_lower > 4
    assert wrong.exact_delta == pytest.approx(np.exp(-2) / (1 + np.exp(-1)))
    assert audit_subject(subject([1, 100, 0], [0, 100, 0]), runs=20_000, seed=1).passed
    # One less than the least threshold: no number of runs shows it, the exact check does.
    least = subject([1, 0, 0], [0, 0, 0]).plan.stable.threshold
    almost = audit_subject(subject([1, 0, 0], [0, 0, 0], threshold=least - 1), runs=1_000, seed=1)
    assert not almost.passed
    assert almost.epsilon_lower == 0


@pytest.mark.parametrize("neighboring", ["add_remove", "change_one"])
def test_delta_counts_in_the_worse_direction(neighboring):
    moved = [0, 1, 5] if neighboring == "change_one" else [0, 0, 5]
    there, back = subject([1, 0, 5], moved, neighboring), subject(moved, [1, 0, 5], neighboring)
    found = stable_delta(there.plan, there.before, there.after)
    assert found == stable_delta(back.plan, back.before, back.after) > 0
    same = subject([1, 0, 5], [1, 0, 5], neighboring)
    assert stable_delta(same.plan, same.before, same.after) == 0


def test_the_worst_pair_is_one_whose_records_vanish():
    _, inputs = Audited(tree=AREAS, budget=BUDGET, neighboring="add_remove", mechanism=SH).plan()
    plan = subject([1, 0, 0], [0, 0, 0]).plan
    before = np.array([[5, 0, 0], [50, 0, 0], [1, 3, 0]])
    after = before - np.array([1, 0, 0])
    assert [side.tolist() for side in worst_stable_pair(plan, inputs.tabulate, before, after)] == [[1, 3, 0], [0, 3, 0]]


def test_flows_with_opendp_noise_are_audited():
    pytest.importorskip("opendp")
    tree = tt.Product({"o": AREAS, "d": AREAS}, order=["o", "d"] * 2)
    trips = np.full(9, 100)
    moved = trips + np.eye(9, dtype=int)[8] - np.eye(9, dtype=int)[0]
    result = audit(SH, tree, trips, moved, BUDGET, neighboring="change_one", noise="opendp", runs=200, releases=100)
    assert result.passed


def test_the_table_of_audits_shows_delta(monkeypatch):
    everything = library_of_audits.library_cases
    monkeypatch.setattr(library_of_audits, "library_cases", lambda *given: everything(*given)[:1])
    monkeypatch.setenv("COLUMNS", "160")
    result = CliRunner().invoke(app, ["audit", "--mechanism", "StabilityHistogram", "--runs", "500"])
    assert result.exit_code == 0, result.output
    row = " ".join(result.stdout.splitlines()[2].split())
    # An audit without a seed draws other noise each time, and so its lower bound on epsilon differs; delta is computed.
    shown = re.fullmatch(
        r"counts StabilityHistogram\(\) add_remove 1 ε 1, δ 1e-06 ε (\d+(?:\.\d+)?) δ 6\.08e-07 passed", row
    )
    assert shown, row
    assert float(shown[1]) <= 1
