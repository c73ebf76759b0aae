"""The work on the bands of a tree, wherever it is done.

The work on a band is a pure function of the noise subkeys of the levels below the cut, the plan, the public tree, the
band's true statistics, and what was released or estimated of its nodes at the cut level. `BandWork` is what is public
of it: it may be sent to other machines and written to disks. `BandInputs` is what is private or belongs to single
bands. `OneByOne` does the work here; an engine may have another place for it (`Engine.bands`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, get_args, runtime_checkable

from tallytree.kinds.measurements import Measurement, Measures, Noise, Statistic
from tallytree.private.measurer import Measurer, MeasuringPlan, PlannedStable, PlannedStatistic, TrueStatistics
from tallytree.private.noise.discrete import NoiseSource
from tallytree.trees.bands import Band, Cut


@dataclass(frozen=True)
class PlanBelow:
    """What may be measured below a cut, copied from the plan of a release; a `MeasuringPlan` that can be pickled.

    Attributes:
        cells: by level and statistic.
    """

    cells: Mapping[tuple[str, str], PlannedStatistic]

    @classmethod
    def of(cls, plan: MeasuringPlan, cut: Cut) -> PlanBelow:
        """The part of a plan that is about the levels below a cut."""
        cells = {}
        for level in cut.tree.levels[cut.depth + 1 :]:
            for statistic in get_args(Statistic):
                planned = plan.planned(level, statistic)
                if planned is not None:
                    cells[level, str(statistic)] = planned
        return cls(cells)

    def planned(self, level: str, statistic: str) -> PlannedStatistic | None:
        """See `MeasuringPlan`."""
        return self.cells.get((level, statistic))

    def planned_stable(self, level: str) -> PlannedStable | None:
        """See `MeasuringPlan`; no work on bands measures these."""
        return None

    @property
    def addresses(self) -> list[tuple[Noise, tuple[str | int, ...]]]:
        """The distributions and addresses of all noise that may be drawn: see `Measurer.measure`."""
        return [(each.noise, (each.level, each.statistic)) for each in self.cells.values()]


def as_it_is(measurer: Measures) -> Measures:
    """The measurer: what a mechanism measures with where nothing is to be translated for it."""
    return measurer


@dataclass(frozen=True, eq=False)
class BandWork:
    """What is done with every band of a cut; public, and it can be pickled.

    Attributes:
        cut: the bands.
        plan: what may be measured.
        known: from a band and its part of the true statistics to statistics that a measurer can hold.
        work: from a band, what it is measured with, and what is given of it, to what is made of it.
        kept: the levels whose measurements are recorded; others are not wanted, or were recorded before.
        measures: from a measurer to what the mechanism measures with.
    """

    cut: Cut
    plan: PlanBelow
    known: Callable[[Band, Any], TrueStatistics]
    work: Callable[[Band, Measures, Any], Any]
    kept: frozenset[str]
    measures: Callable[[Measures], Measures] = as_it_is

    def done(self, number: int, inputs: BandInputs) -> Any:
        """Do the work on one band, here."""

        def take(measurement: Measurement) -> None:
            if measurement.level in self.kept:
                inputs.take(measurement)

        band = self.cut.band(number)
        known = self.known(band, inputs.true(number))
        measurer = Measurer(known, self.plan, inputs.source, inputs.on_measure, take)
        return self.work(band, self.measures(measurer), inputs.given(number))


@dataclass(frozen=True, eq=False, repr=False)
class BandInputs:
    """What belongs to single bands, and what is private. Any thread may call the first two, and more than once.

    Attributes:
        true: from the number of a band to its part of the true statistics: flat arrays in tuples and dictionaries.
        given: from the number of a band to what was released or estimated of its nodes at the cut level.
        source: the noise: a function of its key and the cell.
        on_measure: called with a level's name before it is measured.
        take: is given every measurement, in the order of its level's nodes.
    """

    true: Callable[[int], Any]
    given: Callable[[int], Any]
    source: NoiseSource
    on_measure: Callable[[str], None]
    take: Callable[[Measurement], None]


class BandPlace(Protocol):
    """Where the work on bands is done."""

    def check(self, mechanism: object) -> None:
        """Raise now, before anything is read or paid, what would keep the work from being done there."""

    def run(self, work: BandWork, inputs: BandInputs) -> Iterator[Any]:
        """What is made of every band, in order; its measurements are taken before."""


class OneByOne:
    """Here, one band after the other: a `BandPlace`."""

    def check(self, mechanism: object) -> None:
        """Nothing can be missing here."""

    def run(self, work: BandWork, inputs: BandInputs) -> Iterator[Any]:
        """See `BandPlace.run`."""
        for number in range(len(work.cut.parts)):
            yield work.done(number, inputs)


@runtime_checkable
class HasBandPlace(Protocol):
    """An engine with a place of its own for the work on bands."""

    @property
    def largest_band(self) -> int:
        """Bytes that the work on a band may take there, at most."""

    def bands(self, folder: Path) -> AbstractContextManager[BandPlace]:
        """The place, until the run ends.

        Args:
            folder: for temporary files on this machine, mode 0700; who makes it removes it.
        """
