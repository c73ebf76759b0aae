"""`reproduce`: run an experiment and write its table, its figure and its page."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from tallytree.lab._internals import one_drawing_process, png, require_charts, svg, write_whole
from tallytree.lab.reproduce.catalogue import experiment_named
from tallytree.lab.reproduce.experiment import Experiment, Settings
from tallytree.lab.reproduce.figure import drawn
from tallytree.lab.reproduce.measured import tidy
from tallytree.lab.reproduce.page import page
from tallytree.lab.reproduce.published import published
from tallytree.support.validate import integer, require_packages


@dataclass(frozen=True)
class Reproduction:
    """What `reproduce` measured and wrote.

    Attributes:
        experiment: what was run.
        table: its figures, as `measured.tidy` makes them.
        files: what was written; the page is the last.
    """

    experiment: Experiment
    table: pa.Table
    files: tuple[Path, ...]


def reproduce(
    name: str,
    out: str | Path,
    *,
    full: bool = False,
    runs: int | None = None,
    seed: int = 1,
    data: str | Path | None = None,
) -> Reproduction:
    """Measure a table, a figure or a claim of a paper again, and write what was found.

    Args:
        name: of the experiment; `EXPERIMENTS` has them all.
        out: the folder for NAME.csv, NAME.svg, NAME.png and NAME.md; it is made where it does not exist.
        full: in the size of the paper; otherwise in a small size, in less than a minute.
        runs: how many releases each figure is the mean of, ≥ 1; by default as many as the size has.
        seed: of the noise, ≥ 0. Equal arguments give equal figures, but for times.
        data: a folder with real data sets; without it, generated ones stand in.

    Returns:
        The table and the files.

    Raises:
        ValueError: an unknown name, no runs, or a folder of data that is none.
        TypeError: a value of the wrong kind.
        ModuleNotFoundError: the extra `report`, or one that the full size needs, is not installed.
    """
    experiment = experiment_named(name)
    require_charts("reproduce", "the figure")
    settings = _checked(full, runs, seed, data)
    if settings.full:
        require_packages("reproduce", f"{name} --full", experiment.needs, "papers")
    folder = Path(out)
    found = experiment.found(settings)
    table = tidy(name, found.measured, published(name), experiment.published_in)
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{name}.csv"]
    write_whole(files[0], lambda place: pyarrow.csv.write_csv(table, place))
    if found.plot is not None:
        chart = drawn(table, found.plot, f"{name}: {experiment.shows}")
        files += [folder / f"{name}.svg", folder / f"{name}.png"]
        with one_drawing_process():
            write_whole(files[1], svg(chart))
            write_whole(files[2], png(chart))
    files.append(folder / f"{name}.md")
    write_whole(files[-1], page(experiment, settings, found, table, version("tallytree")))
    return Reproduction(experiment, table, tuple(files))


def _checked(full: bool, runs: int | None, seed: int, data: str | Path | None) -> Settings:
    if runs is not None:
        integer(runs, "runs", least=1)
    integer(seed, "seed", least=0)
    folder = None if data is None else Path(data)
    if folder is not None and not folder.is_dir():
        raise ValueError(f"data: {str(folder)!r} is no folder; give the folder that has the data sets")
    return Settings(full, runs, seed, folder)
