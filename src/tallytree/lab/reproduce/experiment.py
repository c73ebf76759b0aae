"""`Experiment`: a table, a figure or a claim of a paper that can be measured again."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tallytree.lab.reproduce.figure import Plot
from tallytree.lab.reproduce.measured import MeasuredRows


@dataclass(frozen=True)
class Settings:
    """How much is measured.

    Attributes:
        full: the size of the paper; otherwise a small size, which takes less than a minute.
        runs: how many releases each figure is the mean of; None: as many as the experiment says for its size.
        seed: of the noise. Equal settings give equal figures, but for times.
        data: a folder with real data sets under the names that `real_data` has; None: generated ones stand in.
    """

    full: bool = False
    runs: int | None = None
    seed: int = 1
    data: Path | None = None

    def n_runs(self, *, small: int, full: int) -> int:
        """The number of runs: what was asked for, or the experiment's own number for this size."""
        return self.runs or (full if self.full else small)


@dataclass(frozen=True)
class Found:
    """What an experiment measured.

    Attributes:
        measured: in the order of the page.
        plot: what its figure shows; None where there is nothing to draw.
        notes: sentences for the page, above all on which data were used and what differs from the paper.
    """

    measured: Sequence[MeasuredRows]
    plot: Plot | None
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Experiment:
    """A table, a figure or a claim of a paper.

    Attributes:
        name: what the command line calls it.
        paper: whose; one of `published.PAPERS`.
        shows: what it shows, as a phrase without a full stop.
        data: the data sets that it uses, as a phrase.
        measure: runs it.
        minutes: how long its full size takes on two cores, roughly.
        gibibytes: the most memory that its full size takes, roughly.
        published_in: where the published figures stand; empty where the paper has none as numbers.
        needs: modules of the extra `papers` that its full size needs; the small one needs none.
        headings: what the published figure and ours are called.
    """

    name: str
    paper: str
    shows: str
    data: str
    measure: Callable[[Settings], Found]
    minutes: float
    gibibytes: float
    published_in: str = ""
    needs: tuple[str, ...] = ()
    headings: tuple[str, str] = ("published", "ours")

    def found(self, settings: Settings) -> Found:
        """Run it, without the warnings that a mechanism is for comparison only: that is what it is used for here."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"mechanism: .*(comparison only|reproducing the paper only)")
            return self.measure(settings)
