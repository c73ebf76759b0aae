"""The demo: a synthetic data set, two specs, their releases, and how far the published numbers are from the true ones.

The data's seed is fixed, the noise is fresh at every run. The errors can be shown because the data are
synthetic.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from tallytree.cli.demo.error_table import commute_errors, household_errors
from tallytree.cli.demo.folder import MARKER, marker_text, replaceable, swap
from tallytree.cli.demo.specs import SPECS
from tallytree.cli.rendering.terminal import show_command, show_line
from tallytree.lab.datasets.commutes import commutes
from tallytree.lab.datasets.households import households
from tallytree.release import Release, require_writable
from tallytree.release.manifest import REPORT
from tallytree.spec import load_spec


def make_demo(
    folder: str | os.PathLike[str], console: Console, *, progress: bool = False, report: bool = False
) -> None:
    """Make the data, release it, and show the errors.

    The folder is built beside its place and moved there once it is complete, so an interrupted demo leaves an earlier
    one unchanged.

    Args:
        folder: the folder to make; it must not exist yet, or be an earlier demo without files of the user.
        console: where messages and errors are shown.
        progress: show progress bars on standard error.
        report: write the report of both releases; the extra `report` is needed.

    Raises:
        FileExistsError: the folder exists and is something else.
        OSError: the place cannot be written to.
    """
    target = replaceable(folder)
    require_writable(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent))
    try:
        show_line(console, "Making 20,000 households and 50,000 commutes (synthetic, always the same) ...")
        people, trips = _write_data(building / "data")
        for name, text in SPECS.items():
            (building / name).write_text(text, encoding="utf-8")
        (building / MARKER).write_text(marker_text(), encoding="utf-8")
        show_line(console, "Releasing both, with fresh noise (the first time, this compiles code for some seconds) ...")
        households_release = _release(building, "households", progress)
        commutes_release = _release(building, "commutes", progress)
        tables = [
            household_errors(people, households_release, console),
            commute_errors(trips, commutes_release, console),
        ]
        if report:
            from tallytree.views.charts import one_drawing_process

            with one_drawing_process():
                _write_report(building, "households", households_release, {})
                _write_report(building, "commutes", commutes_release, {"municipality": "data/municipalities.geojson"})
        building.chmod(0o755)
        swap(building, target)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise
    for table in tables:
        console.print(table)
    _show_what_next(console, Path(folder), reported=report)


def _release(folder: Path, name: str, progress: bool) -> Release:
    return load_spec(folder / f"{name}.yaml").release(folder / f"{name}-release", progress=progress)


def _write_report(folder: Path, name: str, release: Release, boundaries: dict[str, str]) -> None:
    """The report of one of the releases, with maps where boundaries are given."""
    from tallytree.views.boundaries import boundaries_of, keep_boundaries
    from tallytree.views.report import FILE, hierarchies_by_level, write_report

    place = folder / f"{name}-release"
    given = [f"{level}={folder / file}" for level, file in boundaries.items() if find_spec("geopandas") is not None]
    shapes = boundaries_of(given, hierarchies_by_level(release.tree))
    write_report(Release.load(place), place / FILE, title=f"{name}-release", boundaries=shapes)
    keep_boundaries(place, shapes)


def _write_data(folder: Path) -> tuple[pa.Table, pa.Table]:
    """Write all tables and return the private ones."""
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
    (folder / "municipalities.geojson").write_text(json.dumps(movement.boundaries), encoding="utf-8")
    return population.people, movement.commutes


def _show_what_next(console: Console, folder: Path, *, reported: bool) -> None:
    spec, release = folder / "households.yaml", folder / "households-release"
    code = f"import tallytree as tt; print(tt.Release.load({json.dumps(str(release))}))"
    lines = (
        "",
        "These errors can be shown because the data are synthetic. Those of real data only their owner can compute.",
        "",
        f"Specs:     {spec}  {folder / 'commutes.yaml'}",
        f"Releases:  {release}  {folder / 'commutes-release'}",
        *([f"Reports:   {release / REPORT}  {folder / 'commutes-release' / REPORT}"] if reported else []),
        "",
        "Try next:",
    )
    for line in lines:
        show_line(console, line)
    for command in (
        f"tallytree check {shlex.quote(str(spec))}",
        f"tallytree release {shlex.quote(str(spec))} --out my-release --csv",
        f"python -c {shlex.quote(code)}",
    ):
        show_command(console, f"  {command}")
