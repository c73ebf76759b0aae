"""The demo: a synthetic data set, two specs, their releases, and how far the published numbers are from the true ones.

The data's seed is fixed, the noise is fresh at every run. The errors can be shown because the data is made up.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console, Group, RenderableType
from rich.text import Text

from tallytree.cli import fitted_table
from tallytree.datasets.commutes import commutes
from tallytree.datasets.households import households
from tallytree.release import Release
from tallytree.spec import load_spec, require_writable

MARKER = ".tallytree-demo"
MARKER_TITLE = "Made by `tallytree demo`, which may replace this folder. Checksums of the specs as they were made:"

MAX_GROUP_SIZE = 500
LEVELS = ("country", "state", "county")
ORIGIN = ("origin_region", "origin_province", "origin_municipality")
DESTINATION = ("destination_region", "destination_province", "destination_municipality")

HOUSEHOLDS_SPEC = f"""\
# How many households of every country, state and county have 0, 1, 2, ... members.
#   tallytree check households.yaml                      what would be measured; spends nothing
#   tallytree release households.yaml --out my-release   measures and publishes
statistic: group_sizes

# Private: one row per person. Paths are relative to this file.
records: data/people.parquet
group: household_id

# Public: the tree, with one row per leaf ...
hierarchy:
  path: data/households.parquet
  levels: [country, state, county]
# ... and how many households every county has, empty ones included (the column `groups`).
public_groups: data/households.parquet

# Larger households are counted as this size.
max_group_size: {MAX_GROUP_SIZE}

# What is protected: one person's presence, with pure differential privacy ...
neighboring: add_remove
budget:
  epsilon: 1.0
# ... which the levels share. Weights by level would do too: {{country: 1, state: 1, county: 2}}
budget_split: even

mechanism:
  name: Matching
  options: {{estimator: cumulative, norm: 1, merge: weighted}}
"""

COMMUTES_SPEC = """\
# How many people commute between regions, provinces and municipalities.
#   tallytree check commutes.yaml                      what would be measured; spends nothing
#   tallytree release commutes.yaml --out my-release   measures and publishes
statistic: flows

# Private: one row per commuter. Paths are relative to this file.
trips: data/commutes.parquet

# Public: the municipalities; both sides have the same tree here.
origins: &municipalities
  path: data/municipalities.parquet
  levels: [region, province, municipality]
destinations: *municipalities

# The columns of `trips`, one per level of the tree. The levels of the release are named after them.
origin: [origin_region, origin_province, origin_municipality]
destination: [destination_region, destination_province, destination_municipality]
# Which side is refined first: destination_region, origin_region, destination_province, ...
tree: destination

# What is protected: where one commuter lives and works. The number of commuters is published exactly.
neighboring: change_one
budget:
  epsilon: 1.0
  delta: 1e-8

mechanism:
  name: TopDown
  options: {projection: chebyshev}
"""

_SPECS = {"households.yaml": HOUSEHOLDS_SPEC, "commutes.yaml": COMMUTES_SPEC}
_ENTRIES = {MARKER, "data", *_SPECS, "households-release", "commutes-release"}


def make_demo(folder: str | os.PathLike[str], console: Console, *, progress: bool = False) -> None:
    """Make the data, release it, and show the errors.

    The folder is built beside its place and swapped in when whole, so an interrupted demo leaves an older one alone.

    Args:
        folder: where to; nothing may be there yet, or an earlier demo without anything of the user's.
        console: what it says goes here.
        progress: show progress bars on standard error.

    Raises:
        FileExistsError: something else is there.
        OSError: the place cannot be written to.
    """
    target = replaceable(folder)
    require_writable(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent))
    try:
        _say(console, "Making 20,000 households and 50,000 commutes (synthetic, always the same) ...")
        people, trips = _write_data(building / "data")
        for name, text in _SPECS.items():
            (building / name).write_text(text, encoding="utf-8")
        (building / MARKER).write_text(_marker_text(), encoding="utf-8")
        _say(console, "Releasing both, with fresh noise (the first time, numerical code is compiled: some seconds) ...")
        households_release = _release(building, "households", progress)
        commutes_release = _release(building, "commutes", progress)
        tables = [
            household_errors(people, households_release, console),
            commute_errors(trips, commutes_release, console),
        ]
        building.chmod(0o755)
        _swap(building, target)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise
    for table in tables:
        console.print(table)
    _show_what_next(console, Path(folder))


def _release(folder: Path, name: str, progress: bool) -> Release:
    return load_spec(folder / f"{name}.yaml").release(folder / f"{name}-release", progress=progress)


def _write_data(folder: Path) -> tuple[pa.Table, pa.Table]:
    """Write all tables; returns the private ones."""
    folder.mkdir()
    population, movement = households(), commutes()
    tables = {
        "people": population.people,
        "households": population.households,
        "commutes": movement.commutes,
        "municipalities": movement.municipalities,
    }
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet", compression="zstd")
    return population.people, movement.commutes


# --- The folder -----------------------------------------------------------------------------------------------------


def replaceable(folder: str | os.PathLike[str]) -> Path:
    """The folder as an absolute path, if nothing is there, or a demo that holds nothing of the user's.

    Raises:
        FileExistsError: something else is there.
    """
    path = Path(os.path.abspath(folder))  # noqa: PTH100  (resolve() would follow a link)
    if os.path.lexists(path):
        reason = _why_not_ours(path)
        if reason:
            raise FileExistsError(f"{path}: {reason}; choose another folder with --out, or move it away")
    return path


def _why_not_ours(path: Path) -> str | None:
    marker = path / MARKER
    if path.is_symlink() or not path.is_dir():
        return "is not a folder made by an earlier demo"
    if marker.is_symlink() or not marker.is_file():
        return f"exists and was not made by `tallytree demo` (it has no {MARKER})"
    title, _, checksums = marker.read_text(encoding="utf-8", errors="replace").partition("\n")
    if title != MARKER_TITLE:
        return f"exists, and its {MARKER} was not written by `tallytree demo`"
    added = sorted(entry.name for entry in path.iterdir() if entry.name not in _ENTRIES)
    if added:
        return f"is an earlier demo, but {added[0]!r} was added to it"
    for name in _SPECS:
        if (path / name).is_file() and _checksum_line((path / name).read_bytes(), name) not in checksums.splitlines():
            return f"is an earlier demo, but {name} was edited"
    return None


def _marker_text() -> str:
    checksums = [_checksum_line(text.encode(), name) for name, text in _SPECS.items()]
    return "\n".join([MARKER_TITLE, *checksums]) + "\n"


def _checksum_line(content: bytes, name: str) -> str:
    return f"{hashlib.sha256(content).hexdigest()}  {name}"


def _swap(building: Path, target: Path) -> None:
    """Put the new folder in the place of the old one, which is kept until the new one is there."""
    replaceable(target)
    if not os.path.lexists(target):
        building.rename(target)
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".old", dir=target.parent))
    try:
        target.rename(aside / "demo")
        building.rename(target)
    except BaseException:
        if not os.path.lexists(target):
            (aside / "demo").rename(target)
            aside.rmdir()
        raise
    shutil.rmtree(aside, ignore_errors=True)


# --- The errors -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LevelErrors:
    """How a level's published numbers compare with the true ones.

    Attributes:
        level: its name.
        nodes: how many nodes or cells are compared.
        true: the true total.
        published: the published total.
        errors: one error per node or cell.
    """

    level: str
    nodes: int
    true: int
    published: int
    errors: npt.NDArray[np.float64]

    @property
    def row(self) -> tuple[str, ...]:
        """As a row of a printed table."""
        mean, worst = (f"{value:,.1f}" for value in (self.errors.mean(), self.errors.max()))
        return self.level, f"{self.nodes:,}", f"{self.true:,}", f"{self.published:,}", mean, worst.removesuffix(".0")


def household_errors(people: pa.Table, release: Release, console: Console) -> RenderableType:
    """Earth mover's distance per node: how many persons would have to be added to or taken out of households."""
    sizes = people.group_by([*LEVELS, "household_id"], use_threads=False).aggregate([([], "count_all")])
    sizes = sizes.rename_columns([*LEVELS, "household_id", "size"])

    def errors(depth: int) -> LevelErrors:
        path = LEVELS[: depth + 1]
        published = release.table(path[-1])
        true = sizes.append_column("groups", pa.array(np.ones(sizes.num_rows, dtype=np.int64))).select(
            published.column_names
        )
        node, n_nodes = _number_paths([true, published], path)
        histograms = [
            np.bincount(
                numbers * (MAX_GROUP_SIZE + 1) + np.minimum(table["size"].to_numpy(), MAX_GROUP_SIZE),
                weights=table["groups"].to_numpy(),
                minlength=n_nodes * (MAX_GROUP_SIZE + 1),
            ).reshape(n_nodes, -1)
            for table, numbers in zip((true, published), node, strict=True)
        ]
        # Empty households are not among the people; their number is public, so both have the same number of groups.
        histograms[0][:, 0] = histograms[1].sum(axis=1) - histograms[0].sum(axis=1)
        distance = np.abs(np.cumsum(histograms[0] - histograms[1], axis=1)).sum(axis=1)
        persons = pc.sum(pc.multiply(published["size"], published["groups"])).as_py()
        return LevelErrors(path[-1], n_nodes, people.num_rows, persons, distance)

    return _error_table(
        console,
        "Households by size (epsilon = 1; a person's presence is protected)",
        ("nodes", "true persons", "published persons"),
        "EMD* (persons)",
        [errors(depth) for depth in range(len(LEVELS))],
        "* earth mover's distance of a node: persons to add to its households or to take out of them",
    )


def commute_errors(trips: pa.Table, release: Release, console: Console) -> RenderableType:
    """Absolute error per cell that has a true or a published commuter."""

    def errors(level: str) -> LevelErrors:
        published = release.table(level)
        path = published.column_names[: published.column_names.index("count")]
        true = trips.select(path).append_column("count", pa.array(np.ones(trips.num_rows, dtype=np.int64)))
        cell, n_cells = _number_paths([true, published], path)
        counts = [
            np.bincount(numbers, weights=table["count"].to_numpy(), minlength=n_cells)
            for table, numbers in zip((true, published), cell, strict=True)
        ]
        total = pc.sum(published["count"]).as_py() or 0
        return LevelErrors(level, n_cells, trips.num_rows, total, np.abs(counts[0] - counts[1]))

    return _error_table(
        console,
        "Commutes (epsilon = 1, delta = 1e-8; where one commuter lives and works is protected)",
        ("cells*", "true commuters", "published commuters"),
        "error (commuters)",
        [errors(level) for level in release.levels],
        "* cells with a true or a published commuter, over which the absolute error is taken; all others are 0 in both",
    )


def _number_paths(tables: Sequence[pa.Table], path: Sequence[str]) -> tuple[list[npt.NDArray[np.int64]], int]:
    """Number the paths that occur in any of the tables, alike in all; and how many there are."""
    if not path:
        return [np.zeros(table.num_rows, dtype=np.int64) for table in tables], 1
    number = np.zeros(sum(table.num_rows for table in tables), dtype=np.int64)
    for column in path:
        values = pa.concat_arrays([chunk for table in tables for chunk in table[column].cast(pa.string()).chunks])
        labels = values.dictionary_encode()
        _, number = np.unique(number * len(labels.dictionary) + labels.indices.to_numpy(), return_inverse=True)
    return np.split(number, np.cumsum([table.num_rows for table in tables])[:-1]), int(number.max(initial=-1)) + 1


def _error_table(
    console: Console, title: str, headings: Sequence[str], error: str, levels: Sequence[LevelErrors], note: str
) -> RenderableType:
    columns = ("level", *headings, f"mean {error}", f"greatest {error}")
    table = fitted_table(console, columns, [level.row for level in levels])
    return Group(Text(f"\n{title}", style="bold"), table, Text(note))


def _show_what_next(console: Console, folder: Path) -> None:
    spec, release = folder / "households.yaml", folder / "households-release"
    code = f"import tallytree as tt; print(tt.Release.load({json.dumps(str(release))}))"
    lines = (
        "",
        "These errors can be shown because the demo made the data up; of real data nobody can compute them.",
        "",
        f"Specs:     {spec}  {folder / 'commutes.yaml'}",
        f"Releases:  {release}  {folder / 'commutes-release'}",
        "",
        "Try next:",
        f"  tallytree check {shlex.quote(str(spec))}",
        f"  tallytree release {shlex.quote(str(spec))} --out my-release --csv",
        f"  python -c {shlex.quote(code)}",
    )
    for line in lines:
        _say(console, line)


def _say(console: Console, text: str) -> None:
    """Print a line that is not broken at the console's width, so that it can be copied."""
    console.print(text, soft_wrap=True)
