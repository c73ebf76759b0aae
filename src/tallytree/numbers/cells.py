"""What derived numbers are made of: the cells of a release, and linear functionals of them with their errors.

A total, a part of it, the members of all groups are linear functionals of released cells. A kind of cells (`TreeCells`,
`TableCells`, `SizeCells`) gives their values and the covariance of their errors: that of the least-squares estimate of
all measurements where the release is a linear fit, and that of replicates elsewhere. A derived number is a formula on
these (`derived.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from tallytree.numbers.accuracy.bootstrap import (
    SETTLING,
    LevelCells,
    Replicates,
    SizeReplicates,
    fresh_sources,
)
from tallytree.numbers.accuracy.replicate_errors import (
    DEFAULT_REPLICATES,
    checked_replicates,
    replicates_of,
    stated_plan,
)
from tallytree.numbers.totals import Totals
from tallytree.release.remainders import NO_REPLICATES, refuse_remainders
from tallytree.release.view.release_view import ReleaseView
from tallytree.support.arrays import FloatArray, IntArray, NumberArray
from tallytree.support.stages import stage, step_progress
from tallytree.support.validate import integer


@dataclass(frozen=True, eq=False)
class Estimates:
    """k linear functionals of released cells, each of n things, and what is known of their errors.

    Attributes:
        names: the columns that say what each thing is.
        published: k times (n,), of published numbers.
        middle: float64 (k, n), unbiased where the release has such estimates, else as published.
        variances: float64 (k, n), of the error of each; NaN or infinite where it is not known.
        covariance: float64 (n,), of the errors of the first two; NaN where it is not known.
        replicates: from how many replicates these are; None where they are known.
        unit: of the first: what one record more or less changes.
    """

    names: Mapping[str, Any]
    published: Sequence[NumberArray] | FloatArray
    middle: FloatArray
    variances: FloatArray
    covariance: FloatArray | float = np.nan
    replicates: int | None = None
    unit: float = 1.0


@dataclass(frozen=True)
class Replication:
    """How errors come from replicates.

    Attributes:
        asked: how many somebody asks for; None for exact errors where there are any.
        seed: makes them reproducible.
        progress: show a progress bar on standard error.
    """

    asked: int | None
    seed: int | None
    progress: bool = False

    @classmethod
    def checked(cls, replicates: Any, seed: Any, *, progress: bool = False) -> Replication:
        """From the arguments of a derived number.

        Raises:
            ValueError, TypeError: a number of replicates, or a seed, that is none.
        """
        asked = None if replicates is None else checked_replicates(replicates)
        return cls(asked, None if seed is None else integer(seed, "seed"), progress)

    def with_seed_of(self, place: int) -> Replication:
        """The same for one of several releases, whose replicates are independent."""
        return replace(self, seed=None if self.seed is None else self.seed + place)

    def second_moments(
        self, view: ReleaseView, numbers: Callable[[list[LevelCells]], FloatArray], *, chained: bool
    ) -> tuple[FloatArray, int]:
        """The mean products of the errors of numbers, bias included, float64 (k, k, n); and from how many replicates.

        These are as many as asked for, or as the release's own errors are from, or 50.

        Args:
            view: the release that is measured and reconciled again.
            numbers: from the cells of all levels, root first: k numbers of n things, float64 (k, n).
            chained: whether replicates of group sizes follow each other; see `SizeReplicates.chained`.

        Raises:
            ValueError: replicates do not show the errors of such a release.
        """
        rounds = int(self.asked or (view.statement.get("errors") or {}).get("replicates") or DEFAULT_REPLICATES)
        replicated = _replicates_for(view)
        truth = numbers(replicated.truths())
        products = np.zeros((len(truth), *truth.shape))
        missed: Iterator[FloatArray]
        if chained and isinstance(replicated, SizeReplicates):
            chain = replicated.chained(fresh_sources(rounds + SETTLING, self.seed))
            missed = (numbers(replicate) - numbers(true) for true, replicate in chain)
        else:
            missed = (numbers(each) - truth for each in replicated.run(fresh_sources(rounds, self.seed)))
        with stage("replicate"), step_progress(self.progress, rounds, "replicates") as done:
            for each in missed:
                products += each[:, None] * each[None]
                done()
        return products / rounds, rounds


def _replicates_for(view: ReleaseView) -> Replicates:
    """What measures and reconciles a release again.

    Raises:
        ValueError: replicates do not show the errors of such a release.
    """
    refuse_remainders(view.statement, "replicates", NO_REPLICATES)
    plan = stated_plan(view)
    if plan.thresholds:
        raise ValueError(
            "release: it is by StabilityHistogram, whose sums miss what is below the threshold, and nothing published "
            "shows how much; no error can be stated"
        )
    return replicates_of(view, plan, view.all_published())


def as_whole(numbers: NumberArray) -> pa.Array:
    """Numbers as integers, where all of them are."""
    whole = np.rint(numbers)
    return pa.array(whole.astype(np.int64) if (whole == numbers).all() else numbers)


class Values(ABC):
    """A number that records have, in every area of a level: a numeric attribute of tables, or the size of a group."""

    @property
    @abstractmethod
    def between(self) -> tuple[float, float]:
        """The least value and the greatest one, less the center."""

    @property
    def center(self) -> float:
        """What values are taken less; it is added to a mean again."""
        return 0.0

    @abstractmethod
    def sums(self) -> Estimates:
        """The sum of the values of every area, less the center each, and the number of its records."""

    @abstractmethod
    def below(self, share: float) -> Estimates:
        """Records below, less that share of all, at the values that a quantile may have."""

    @abstractmethod
    def quantiles(self, below: Estimates, reach: FloatArray) -> dict[str, pa.Array]:
        """Where it reaches 0: the number of records of every area, the quantile, and the ends of its interval.

        Args:
            below: what `below` gave.
            reach: by how much each of these may be off.
        """


@dataclass(frozen=True, eq=False)
class ReleasedCells:
    """The cells of a release, of one kind; what is not derived from them is never asked (see `derives`).

    Attributes:
        view: the release.
        derives: what can be derived from them.
    """

    derives: ClassVar[tuple[str, ...]]
    view: ReleaseView

    def level_of(self, names: Sequence[str]) -> str | None:
        """The level, or the table, that somebody names for `change`, by default the total; None if there is none."""
        raise NotImplementedError

    def lists_all(self, level: str) -> bool:
        """Whether a level, or a table, has a row for each of its cells."""
        raise NotImplementedError

    def parts(self, level: str, within: Sequence[str], replication: Replication) -> Estimates:
        """The numbers of a level, or of a table, and the numbers of a coarser one that hold them.

        Raises:
            ValueError: there is no such level or table, or nothing is known of the errors.
        """
        raise NotImplementedError

    def pair(self, numerator: Any, denominator: Any, areas: Any, by: str | None, replication: Replication) -> Estimates:
        """Two sums of every area; `Release.ratio` documents the arguments.

        Raises:
            ValueError: areas or conditions that cannot be used, or nothing is known of the errors.
        """
        raise NotImplementedError

    def totals(
        self,
        areas: Any,
        by: str | None,
        where: Mapping[str, Any] | None,
        replication: Replication,
        weight: str | None = None,
    ) -> Totals:
        """The sum of every area; `Release.total` documents the arguments.

        Raises:
            ValueError: areas or conditions that cannot be used.
        """
        raise NotImplementedError

    def sums(self, level: str, named: int, nodes: IntArray, of: IntArray, weights: FloatArray | None) -> Totals:
        """Sums of the cells of a level, or of a table, over nodes of the areas: for each sum those of the attributes.

        Args:
            level: of the cells.
            named: how many columns name the nodes.
            nodes: int64 (n,), of the first hierarchy.
            of: int64 (n,), the sum of each.
            weights: float64 (n,), of each; None for 1.

        Raises:
            ValueError: nothing is known of such sums.
        """
        raise NotImplementedError

    def contrast(
        self, nodes: Sequence[tuple[int, int]], where: Sequence[Mapping[str, str]], replication: Replication
    ) -> tuple[float, float, float, int | None]:
        """The difference of two numbers, the one that its error is of, the variance, and from how many replicates.

        Args:
            nodes: of both, how many columns name the area, and the area; (0, 0) for all. They are equal or disjoint.
            where: of both, a condition on attributes; equal where the areas are not.
            replication: how errors come from replicates.

        Raises:
            ValueError: nothing is known of it.
        """
        raise NotImplementedError

    def values(self, level: str, replication: Replication, *, attribute: Any, values: Any, where: Any) -> Values:
        """The values of the records in the areas of a level; `Release.mean` documents the arguments.

        Raises:
            ValueError: an unknown level or attribute, or labels without a number.
        """
        raise NotImplementedError
