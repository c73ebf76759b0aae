"""`export`: a release written in another format, all or nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tallytree.numbers.records import records_of
from tallytree.release import HouseholdsRelease, Release
from tallytree.release.files import building_folder, checked_table_file, require_writable
from tallytree.release.quality import STANDARD, QualityThresholds
from tallytree.release.view.sides import hierarchies_by_level
from tallytree.support.validate import choice, path_text, require_packages
from tallytree.support.whole_files import flush
from tallytree.views.boundaries import Boundaries, boundaries_of
from tallytree.views.export.csv_files import write_csv_files
from tallytree.views.export.duckdb_file import write_duckdb_file
from tallytree.views.export.geoparquet_files import with_boundaries, write_geoparquet_files
from tallytree.views.export.parquet_files import write_parquet_files
from tallytree.views.export.records_file import dictionary_name, write_records
from tallytree.views.export.sdmx_files import checked_agency, write_sdmx_files
from tallytree.views.export.tables import exported_tables
from tallytree.views.export.xlsx_file import refuse_what_no_sheet_holds, write_xlsx_file

FORMATS = ("csv", "xlsx", "parquet", "geoparquet", "duckdb", "sdmx", "records")
_FILES = ("xlsx", "duckdb")
"""Formats that are one file; the others are a folder."""
_PACKAGES = {"xlsx": ("xlsxwriter",), "geoparquet": ("geopandas", "shapely"), "sdmx": ("pysdmx",)}


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        path: the file, or the folder.
        tables: by name, how many rows each table has, root first.
        left_out: names of tables that were not asked for by name and have no boundaries.
    """

    path: Path
    tables: Mapping[str, int]
    left_out: tuple[str, ...] = ()


def export(
    release: Release | str | os.PathLike[str],
    to: str,
    out: str | os.PathLike[str],
    *,
    tables: Sequence[Any] | None = None,
    alpha: float | None = None,
    boundaries: Mapping[str, Boundaries | str | os.PathLike[str]] | None = None,
    boundary_code: str | None = None,
    for_spreadsheets: bool = False,
    thresholds: QualityThresholds = STANDARD,
    suppress: str | None = None,
    agency: str = "TALLYTREE",
) -> Exported:
    """Write the published tables of a release in another format, each column described. Spends nothing.

    Args:
        release: a release, or the folder of one.
        to: `"csv"`, `"parquet"`, `"geoparquet"` or `"sdmx"`, each a folder with a file for each table and a data
            dictionary; or `"xlsx"` or `"duckdb"`, one file; or `"records"`, the rows of `Release.records` as one file,
            Parquet or CSV by its ending, with a data dictionary beside it. Of the options below it takes
            `for_spreadsheets` alone.
        out: the folder or file to make; it must not exist.
        tables: the levels to export; of tables, each as its name or as the levels that it was asked for by. By default
            all.
        alpha: intervals are to miss the true number with this probability; by default they are as stored, if they were.
        boundaries: for `"geoparquet"`, by level: a GeoJSON, TopoJSON or GeoParquet file, or `Boundaries`.
        boundary_code: the property of these files that has the labels; see `read_boundaries`.
        for_spreadsheets: in CSV, put an apostrophe before labels that a spreadsheet would take for a formula, a date or
            another number.
        thresholds: of the verdicts in the column `quality`, as in `Release.table`.
        suppress: `"unreliable"` leaves numbers empty that are unreliable or not distinguishable from 0; their verdict
            stays. Sums (coarser levels) are those that were published, of all numbers. This protects nobody: it
            spares readers numbers that are mostly noise.
        agency: for `"sdmx"`: the id of the agency that publishes.

    Returns:
        What was written.

    Raises:
        FileExistsError: `out` exists.
        ValueError: no saved release; an unknown format or table; `alpha` where errors are not known; boundaries that do
            not match; a table that the format cannot hold.
        TypeError: an argument of the wrong kind.
        ModuleNotFoundError: a package of the extra `export`, or of `maps`, is not installed.
        OSError: the place cannot be written to; nothing is left behind.
    """
    choice(to, "to", FORMATS)
    require_packages("to", repr(to), _PACKAGES.get(to, ()), "maps" if to == "geoparquet" else "export")
    if suppress is not None:
        choice(suppress, "suppress", ("unreliable",))
    checked_agency(agency)
    target = _free_place(out)
    opened = release if isinstance(release, Release) else Release.load(release)
    if to == "records":
        of_tables = {"tables": tables, "alpha": alpha, "boundaries": boundaries or None, "suppress": suppress}
        return Exported(target, {"records": _export_records(opened, target, of_tables, for_spreadsheets)})
    if isinstance(opened, HouseholdsRelease):
        if tables is not None:
            raise ValueError(
                "tables: this release has two parts, and each has tables of its own; export DIR/persons or "
                "DIR/households, or leave tables out"
            )
        if to not in _FILES:
            options: dict[str, Any] = {"alpha": alpha, "boundaries": boundaries, "boundary_code": boundary_code}
            options |= {"for_spreadsheets": for_spreadsheets, "thresholds": thresholds}
            return _export_parts(opened, to, target, {**options, "suppress": suppress, "agency": agency})
    parts = opened.parts if isinstance(opened, HouseholdsRelease) else {"": opened}
    chosen = tuple(
        replace(table, part=part, with_names=to != "sdmx")  # SDMX has names in its code lists
        for part, of in parts.items()
        for table in exported_tables(of, tables, alpha, thresholds, suppressed=suppress is not None)
    )
    shapes: dict[str, Boundaries] = {}
    every = chosen
    if to == "geoparquet":
        if not boundaries:
            raise ValueError("boundaries: to='geoparquet' needs them: give LEVEL=FILE for the level of the areas")
        shapes = boundaries_of(boundaries, hierarchies_by_level(opened.tree), code=boundary_code)
        chosen = with_boundaries(chosen, shapes, named=tables is not None)
    elif boundaries:
        raise ValueError(f"boundaries: they are for to='geoparquet', not for {to!r}; leave them out")
    elif to == "xlsx":
        refuse_what_no_sheet_holds(chosen)
    writers: dict[str, Callable[[Path], None]] = {
        "csv": lambda place: write_csv_files(chosen, place, for_spreadsheets=for_spreadsheets),
        "parquet": lambda place: write_parquet_files(chosen, place),
        "geoparquet": lambda place: write_geoparquet_files(chosen, shapes, place),
        "sdmx": lambda place: write_sdmx_files(chosen, place, agency=agency),
        "xlsx": lambda place: write_xlsx_file(chosen, place),
        "duckdb": lambda place: write_duckdb_file(chosen, place),
    }
    _write_whole(target, writers[to], file=to in _FILES)
    left_out = tuple(table.name for table in every if table not in chosen)
    return Exported(target, {table.title: table.num_rows for table in chosen}, left_out)


def _export_records(release: Release, target: Path, of_tables: Mapping[str, Any], for_spreadsheets: bool) -> int:
    """Write the records of a release and their data dictionary, all or nothing; how many there are.

    Args:
        release: the release.
        target: the file.
        of_tables: options that are of tables alone: None where they are not given.
        for_spreadsheets: see `export`.
    """
    given = next((name for name, value in of_tables.items() if value is not None), None)
    if given is not None:
        raise ValueError(f"{given}: it is about published tables, and records have none; leave it out")
    checked_table_file(target)
    dictionary = target.with_name(dictionary_name(target))
    _refuse_existing(dictionary)
    found = records_of(release)
    with building_folder(target) as building:
        write_records(found, building / target.name, for_spreadsheets=for_spreadsheets)
        for place in (dictionary, target):
            (building / place.name).chmod(0o644)
            _refuse_existing(place)
        (building / dictionary.name).rename(dictionary)  # first: where there are records, they are described
        try:
            (building / target.name).rename(target)
        except BaseException:
            dictionary.unlink()
            raise
        flush(target.parent)
        shutil.rmtree(building, ignore_errors=True)
    return found.num_rows


def _export_parts(release: HouseholdsRelease, to: str, target: Path, options: Mapping[str, Any]) -> Exported:
    """Write persons and households, each as a folder of its own in the folder `target`."""
    made: dict[str, Exported] = {}

    def write(place: Path) -> None:
        for name, part in release.parts.items():
            made[name] = export(part, to, place / name, **options)

    _write_whole(target, write, file=False)
    rows = {f"{name}/{table}": rows for name, each in made.items() for table, rows in each.tables.items()}
    return Exported(target, rows, tuple(f"{name}/{table}" for name, each in made.items() for table in each.left_out))


def _write_whole(target: Path, write: Callable[[Path], None], *, file: bool) -> None:
    """Write in a temporary sibling folder, and give what was made its name when it is complete."""
    with building_folder(target) as building:
        made = building / target.name if file else building
        write(made)
        made.chmod(0o644 if file else 0o755)
        _refuse_existing(target)
        flush(made)
        made.rename(target)
        flush(target.parent)
        if file:
            shutil.rmtree(building, ignore_errors=True)


def _free_place(out: str | os.PathLike[str]) -> Path:
    path = Path(os.path.abspath(path_text(out, "out", "the path of a file or folder to be made")))  # noqa: PTH100
    if not os.fspath(out):
        raise ValueError("out: '' is no name; give the path of a file or folder to be made")
    _refuse_existing(path)
    require_writable(path)
    return path


def _refuse_existing(path: Path) -> None:
    if os.path.lexists(path):
        raise FileExistsError(f"out: {str(path)!r} exists; choose another name, or move it away")
