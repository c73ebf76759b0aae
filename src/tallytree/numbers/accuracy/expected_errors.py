"""The errors that a planned release will have, level by level, before any budget is spent.

They follow from the plan alone where the mechanism has a closed form (`CountsMechanism.expected_variances`). No private
table is opened, and nothing is drawn. To give another statistic its closed form, register its planned release with
`expected_laws`; the commands, the targets and the picture then have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any, Literal, TypeAlias

import numpy as np

from tallytree.hierarchy import nodes_per_level
from tallytree.kinds.foreign import is_foreign
from tallytree.release.quality import STANDARD
from tallytree.run import Planned, PlannedCounts, PlannedHouseholds, PlannedSizes, PlannedTables
from tallytree.solvers.error_law import ErrorLaw
from tallytree.tables.expected import expected_rounding, table_std_devs
from tallytree.tables.layout import shown_tables

Basis: TypeAlias = Literal["closed form", "mean families", "public", "simulation", "not known"]
"""Where figures are from: the variance of every node of the public tree; the same of a tree that is too large, with
families of their mean size; a public number, which has no error; replicates of a stand-in; nowhere, since nothing
public tells."""

CLOSED_FORMS: tuple[Basis, ...] = ("closed form", "mean families")
NO_ERRORS_OF_AUTO = (
    "The bound m, and so the noise and the errors, is known only when the release is made; to plan with a number, give "
    "one (--set max_contributions=5)."
)
"""Said of `max_contributions="auto"`, in place of errors."""

ALPHA = 0.1
"""Half-widths are of intervals that miss with this probability."""


@dataclass(frozen=True)
class ExpectedError:
    """The error that the numbers of one level will have.

    Attributes:
        level: its name.
        nodes: how many nodes it has.
        std_dev: the root mean square error of a number; None where it is not known.
        half_width: what an error exceeds in one of ten cases.
        expected_maximum: the expectation of the largest error of the level.
        basis: where the figures are from.
        unreliable: the share of the level's published numbers that will be unreliable, or not distinguishable from 0;
            None where no public data tell it.
        moved: the share of the level's numbers that differ from those of the stand-in; None without one.
    """

    level: str
    nodes: int
    std_dev: float | None
    half_width: float | None
    expected_maximum: float | None
    basis: Basis
    unreliable: float | None = None
    moved: float | None = None

    @property
    def least_usable(self) -> float | None:
        """From which number on a number of the level is not unreliable; None where its error is not known."""
        return None if self.std_dev is None else STANDARD.least_usable(self.std_dev)


@dataclass(frozen=True, eq=False)
class LevelLaw:
    """The distribution of the errors of one level.

    Attributes:
        level: its name.
        nodes: how many nodes it has.
        law: the distribution; None where it is not known.
        basis: where it is from.
    """

    level: str
    nodes: int
    law: ErrorLaw | None
    basis: Basis

    def figures(self) -> ExpectedError:
        """The figures of the distribution."""
        if self.law is None:
            return ExpectedError(self.level, self.nodes, None, None, None, self.basis)
        law = self.law
        half_width, most = law.half_width(ALPHA), law.expected_maximum
        return ExpectedError(self.level, self.nodes, law.std_dev, half_width, most, self.basis)


def expected_errors(planned: Planned[Any, Any]) -> list[ExpectedError]:
    """The expected errors of a planned release, root first; see `expected_laws`."""
    return [each.figures() for each in shown_laws(planned)]


def shown_laws(planned: Planned[Any, Any]) -> list[LevelLaw]:
    """The same as `expected_laws`; the total of tables has the name by which people are shown it."""
    return [replace(law, level=name) for law, name in zip(expected_laws(planned), shown_levels(planned), strict=True)]


def shown_levels(planned: Planned[Any, Any]) -> Sequence[str]:
    """The names of the levels, or of the tables, as people are shown them, root first."""
    levels = planned.tree.levels
    if isinstance(planned, PlannedHouseholds):
        tables = len(planned.persons.tree.levels)
        return [*shown_tables(levels[:tables]), *levels[tables:]]
    return shown_tables(levels) if isinstance(planned, PlannedTables) else levels


@singledispatch
def expected_laws(planned: Planned[Any, Any]) -> list[LevelLaw]:
    """The distribution of the errors of every level of a planned release, root first.

    Raises:
        TypeError: there is none for this kind of release.
    """
    raise TypeError(
        f"planned: {type(planned).__name__} has no expected errors; give counts, flows, tables or group sizes"
    )


@expected_laws.register
def _of_counts(planned: PlannedCounts) -> list[LevelLaw]:
    noise = {level: each.noise for level, each in planned.plan.levels.items()}
    laplace = any(each.distribution == "discrete_laplace" for each in noise.values())
    variances = planned.mechanism.expected_variances(planned.tree, noise)
    if variances is None:
        return _not_known(planned)
    laws: list[LevelLaw] = []
    public = variances[0] is not None and not variances[0].nodes.any()
    for (level, nodes), each in zip(nodes_per_level(planned.tree).items(), variances, strict=True):
        if each is None:
            laws.append(LevelLaw(level, nodes, None, "not known"))
            continue
        # Below a public total the errors of a level add up to 0, so that one of them is not free to be the largest.
        free = max(nodes - public, 1)
        # Noise that is mostly 0 leaves nothing to round; a root that is measured and not fitted is an integer.
        rounding = planned.mechanism.rounding if laws or planned.mechanism.corrects_upward else 0.0
        variances_of_level = each.nodes + np.minimum(rounding, each.nodes)
        law = ErrorLaw.of(variances_of_level, each.single, free, laplace=laplace)
        basis: Basis = "closed form" if each.exact else "mean families"
        laws.append(LevelLaw(level, nodes, law, basis if each.nodes.any() else "public"))
    return laws


@expected_laws.register
def _of_tables(planned: PlannedTables) -> list[LevelLaw]:
    if is_foreign(planned.mechanism):  # what follows is about the least-squares fit
        return _not_known(planned)
    variances = {name: each.noise.variance for name, each in planned.plan.levels.items()}
    laplace = any(each.noise.distribution == "discrete_laplace" for each in planned.plan.levels.values())
    std_devs = table_std_devs(planned.layout, variances, planned.exact_level)
    rounding = expected_rounding(planned.layout, variances, std_devs)
    laws: list[LevelLaw] = []
    for name, cells in nodes_per_level(planned.layout).items():
        variance = std_devs[name].ravel() ** 2
        # A cell that nothing else tells of has one noise; that of others is of many, and nearly normal.
        single = np.where(variances.get(name, np.inf) <= variance * 1.001, variance, 0.0)
        law = ErrorLaw.of(variance + rounding[name].ravel(), single, cells, laplace=laplace)
        laws.append(LevelLaw(name, cells, law, "closed form" if variance.any() else "public"))
    return laws


@expected_laws.register
def _of_sizes(planned: PlannedSizes) -> list[LevelLaw]:
    """Nothing: the noise of one measurement would tell neither how large an error is nor how it changes with ε."""
    return _not_known(planned)


@expected_laws.register
def _of_households(planned: PlannedHouseholds) -> list[LevelLaw]:
    """Those of the tables of persons; of households by size nothing public tells the errors."""
    known = expected_laws(planned.persons)
    return [*known, *_not_known(planned)[len(known) :]]


def _not_known(planned: Planned[Any, Any]) -> list[LevelLaw]:
    return [LevelLaw(level, nodes, None, "not known") for level, nodes in nodes_per_level(planned.tree).items()]


def has_closed_form(errors: Sequence[ExpectedError]) -> bool:
    """Whether the figures are those of the published numbers, and not of measurements only."""
    return any(each.basis in (*CLOSED_FORMS, "simulation") for each in errors)


LEARNS = (
    "These are of each cell by itself. Tables learn from all areas (unless pooling is none): most numbers will be "
    "nearer, and usable from lower ones on. `tallytree plan --like PUBLIC` simulates that."
)
"""Said beside figures of tables that no public data were given for."""


def unreliable_below(errors: Sequence[ExpectedError]) -> str:
    """From which number on the numbers of each level are usable; empty where no error is known."""
    known = [f"{shown(each.least_usable)} at {each.level}" for each in errors if each.least_usable]
    if not known:
        return ""
    return f"Numbers below these will be unreliable (std dev above a third of the number): {', '.join(known)}."


def shown(figure: float | None) -> str:
    """A figure in three digits; empty where it is not known."""
    if figure is None:
        return ""
    return f"{figure:,.0f}" if figure >= 1_000 else f"{figure:.3g}"
