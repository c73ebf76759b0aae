"""The audit sees noise that depends on the true value: its runs have true values of about 1, 10^4 and 10^9."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from helpers.inside import KeyedNoise, Measurer, OpenDPNoise
from tallytree.lab.audit import Subject, audit_subject
from tallytree.lab.audit.audited import Audited
from tallytree.lab.audit.library import MAGNITUDES, library_cases
from tallytree.lab.audit.runs import draw_runs

AREAS = tt.Hierarchy.from_table(pa.table({"s": ["A", "A", "B"], "c": ["x", "y", "x"]}), ["s", "c"])
PURE, ZCDP = tt.Budget(epsilon=1), tt.Budget(rho=Fraction(1, 2))


def subject(budget=PURE, **options):
    """Counts of 3, 1 and 1 records, and of one record more in (A, y)."""
    planned, inputs = Audited(tree=AREAS, budget=budget, mechanism=None, neighboring="add_remove", **options).plan()
    before, after = (inputs.tabulate(np.array(records)) for records in ([3, 1, 1], [3, 2, 1]))
    return Subject("counts", "add_remove", planned.plan, before, after, raised=MAGNITUDES)


def halved_above(limit):
    """A measurer whose noise is halved where a true value exceeds a limit, which may depend on the noise."""

    class Halving(Measurer):
        def measure(self, level, nodes, statistic, cells=None):
            measured = super().measure(level, nodes, statistic, cells)
            true = self._statistics.cells(level, nodes, statistic, cells)[0]
            noise = measured.values - true
            return replace(measured, values=true + np.where(true > limit(measured.noise), noise // 2, noise))

    return Halving


FAULTS = {
    "1,000": lambda noise: 1_000,
    "512 scales": lambda noise: 512 * float(noise.scale),
    "10^6": lambda noise: 10**6,
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_noise_halved_above_a_true_value_is_caught(fault, monkeypatch):
    """True loss 2, stated 1. Of 10,000 runs at a magnitude, 1.4 is shown; power above 0.999."""
    monkeypatch.setattr("tallytree.lab.audit.runs.Measurer", halved_above(FAULTS[fault]))
    result = audit_subject(subject(), runs=40_000, seed=1)
    assert not result.passed
    assert 1.3 < result.epsilon_lower <= 2
    assert "more in every cell" in result.event


@pytest.mark.parametrize("budget", [PURE, ZCDP], ids=["pure", "zcdp"])
def test_the_right_noise_passes_at_every_magnitude(budget):
    assert audit_subject(subject(budget), runs=4_000, seed=1).passed


def test_without_magnitudes_such_a_fault_is_not_seen(monkeypatch):
    monkeypatch.setattr("tallytree.lab.audit.runs.Measurer", halved_above(FAULTS["1,000"]))
    assert audit_subject(replace(subject(), raised=()), runs=4_000, seed=1).passed


def test_raised_cells_have_noise_of_further_runs():
    """Equal run numbers have equal noise, whatever is added; the runs of a magnitude are others."""
    given = subject()
    plain, raised, later = (
        draw_runs(given.before, given.plan, KeyedNoise(bytes(32)), 5, first=first, raised=by)
        for first, by in ((0, 0), (0, 10**9), (5, 10**9))
    )
    for level, drawn in plain.items():
        assert (raised[level].true - drawn.true == 10**9).all()
        assert (raised[level].noisy - raised[level].true == drawn.noisy - drawn.true).all()
        assert (later[level].noisy != raised[level].noisy).any()


@pytest.mark.needs("opendp")
def test_noise_of_opendp_is_audited_at_every_magnitude():
    """It refuses to draw a cell twice."""
    assert audit_subject(subject(noise="opendp"), source=lambda key: OpenDPNoise(), runs=400, seed=1).passed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "kind"), [("LeastSquares", "pure"), ("StabilityHistogram", "approximate"), ("Matching", "zcdp")]
)
def test_the_library_is_audited_at_every_magnitude(mechanism, kind):
    """With 40,000 runs, 10,000 at each magnitude, noise halved in `Measurer` or in `KeyedNoise` fails here."""
    case = next(
        case
        for case in library_cases(mechanism=mechanism)
        if (case.neighboring, case.max_contributions, case.budget.kind) == ("add_remove", 1, kind)
    )
    result = case.run(runs=40_000, releases=0, seed=7)
    assert result.passed, str(result)
