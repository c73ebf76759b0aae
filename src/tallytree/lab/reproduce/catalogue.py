"""All experiments, by paper and in the papers' order."""

from __future__ import annotations

from difflib import get_close_matches

from tallytree.lab.reproduce import boninsegna, errata, fioretto, fioretto_budget, fioretto_examples, kuo
from tallytree.lab.reproduce.experiment import Experiment
from tallytree.support.validate import text

EXPERIMENTS: tuple[Experiment, ...] = (
    *kuo.EXPERIMENTS,
    *fioretto_examples.EXPERIMENTS,
    *fioretto.EXPERIMENTS,
    *fioretto_budget.EXPERIMENTS,
    *boninsegna.EXPERIMENTS,
    *errata.EXPERIMENTS,
)


def experiment_named(name: str) -> Experiment:
    """The experiment of that name.

    Raises:
        ValueError: there is none.
        TypeError: no text.
    """
    by_name = {one.name: one for one in EXPERIMENTS}
    if text(name, "name") not in by_name:
        near = get_close_matches(name, by_name, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "tallytree reproduce --list shows all"
        raise ValueError(f"name: {name!r} is no experiment; {hint}")
    return by_name[name]
