"""`Release`: published tables, the noisy measurements behind them and the privacy statement.

A release on disk is a folder (format version 3; 4 with a detail):

    release.json                 statement, spec, rows and checksum of every file, digest of all this; written last
    tables/LEVEL.parquet         the published numbers (and LEVEL.csv when asked); a table's name has all its levels
    measurements/LEVEL.parquet   the noisy measurements, enough to post-process again
    hierarchies/NAME.parquet     the leaves of the public hierarchies, in order
    contributions.parquet        people by their number of records, where they were counted (and .csv when asked)
    detail.parquet               of tables, the cells that all of them are sums of, where these are published
    deployment.yaml              of a private release: an entry for a registry, to be edited by the publisher

It is written to a temporary sibling folder, which is renamed when it is complete. So a folder of that name is never
half-made. Rows are in the hierarchy's own order, and Parquet files carry no column statistics.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from tallytree.hierarchy import ROOT, TOTAL, Hierarchy, stored_level
from tallytree.kinds.kind import Kind
from tallytree.kinds.registry import kind_of
from tallytree.product import Product
from tallytree.release.contents import check_files
from tallytree.release.contributions_table import (
    described,
    description,
    stored_contributions,
    write_contributions,
)
from tallytree.release.dense import dense_table
from tallytree.release.derived_methods import DerivedNumbers, method_from_above
from tallytree.release.detail import stored_detail, write_detail
from tallytree.release.files import (
    how_to_put_back,
    refuse_existing,
    require_writable,
    sha256,
    warn_of_leftovers,
    whole_folder,
    write_csv,
    write_parquet,
    write_text,
)
from tallytree.release.intervals import stated_errors, with_intervals, without_hidden
from tallytree.release.level_tables import (
    ROWS_AT_ONCE,
    ChangedTable,
    FileTable,
    LevelTable,
    PlainTable,
    read_all,
)
from tallytree.release.manifest import (
    FORMAT_VERSION,
    MANIFEST,
    WITHOUT_DETAIL,
    manifest_text,
    read_manifest,
    table_name,
    table_stem,
)
from tallytree.release.notebook_view import release_html
from tallytree.release.quality import STANDARD, QualityThresholds, with_quality
from tallytree.release.registry_entry import REGISTRY_FILE, has_entry, registry_entry
from tallytree.release.stored_tree import StoredTree, described_tree, write_tree
from tallytree.release.view.sides import with_names
from tallytree.sources.leaf_paths import decoded
from tallytree.support.machine import side_by_side
from tallytree.support.stages import stage
from tallytree.support.validate import path_text, text
from tallytree.support.whole_files import flush


@dataclass(frozen=True, eq=False, repr=False)
class Release(DerivedNumbers):
    """A differentially private release: consistent tables, noisy measurements and the privacy statement.

    Attributes:
        statement: the privacy statement, JSON-able; its keys are documented in `docs/reference/statement.md`.
        spec: what was asked for, JSON-able, without any private table.
    """

    statement: Mapping[str, Any]
    spec: Mapping[str, Any]
    _tables: Mapping[str, LevelTable]
    _measurements: Mapping[str, LevelTable]
    _tree: Hierarchy | Product | StoredTree | None = None
    _contributions: LevelTable | None = None
    _detail: LevelTable | None = None

    def __repr__(self) -> str:
        """The levels with their numbers of published rows."""
        rows = ", ".join(f"{level}: {table.num_rows} rows" for level, table in self._tables.items())
        return f"Release({rows})"

    def _repr_html_(self) -> str:
        """The levels with their rows and verdicts, what is counted, and the guarantee, for notebooks."""
        return release_html(self.statement, self._tables)

    @property
    def _kind(self) -> Kind:
        """What it is of."""
        return kind_of(self.statement)

    @property
    def levels(self) -> tuple[str, ...]:
        """Names of the levels, root first."""
        return tuple(self._tables)

    @property
    def tree(self) -> Hierarchy | Product | None:
        """The public tree; None of people by their number of records, who are not counted by place."""
        return self._tree.load() if isinstance(self._tree, StoredTree) else self._tree

    def table(
        self,
        *level: str | tuple[str, ...],
        alpha: float | None = None,
        dictionaries: bool = False,
        dense: bool = False,
        unbiased: bool = False,
        thresholds: QualityThresholds = STANDARD,
        names: bool = False,
    ) -> pa.Table:
        """The published numbers of a level, or of a table, with their errors where these are known.

        Path columns (strings), then `count`; or, for group sizes, `size` and `groups`, one row per (node, size) with
        groups; int64 (`groups` is float64 where the mechanism releases fractions). Counts list every node of a
        hierarchy, and the non-zero cells of flows and other products. Rows are in the hierarchy's own order.

        Group sizes by `sizes.Joint` also have `tail_count`, the node's number of groups of that size or more, and
        `tail_std_dev`, the standard deviation of its error; with `alpha` also `tail_ci_lower` and `tail_ci_upper`.

        Then, where a fit or `tallytree.replicate_errors` knows them, `std_dev` (float64, of a number's error); of
        tables, and of counts of a hierarchy, `typical_error` (float64): the root mean square error that is expected of
        the published number, given all published noisy numbers; and `ci_lower` and `ci_upper` (int64): an interval for
        the true number, which misses it with probability `alpha`. It covers the privacy noise only;
        `docs/explanation/errors.md` says how well.

        Last comes `quality`, a verdict from typical_error ÷ number, or std_dev ÷ number where no typical error is
        known: `exact`, `reliable`, `with_care`, `unreliable`; or `not_distinguishable_from_0`, where the 90 % interval
        holds 0. It is null where `std_dev` is. Tables without `std_dev` have no verdicts.

        Args:
            level: its name; of a table, the levels that it was asked for by, in any order (none for the total), also as
                one tuple, as `tables` has them.
            alpha: of the intervals; by default they are as they were stored, if they were.
            dictionaries: give the path columns as Arrow dictionaries, which pandas and polars have as categories. They
                are made many times as fast as strings, and need 4 bytes a cell.
            dense: list all cells, also those that are 0 and have no row; of group sizes every size up to K of every
                node. The errors of cells without a row are null.
            unbiased: where it is known, also the column `unbiased` (float64): the least-squares estimate, before
                numbers below 0 were raised and all were rounded. Its error is 0 on average, and `std_dev` is that of
                its error, so it is what means over many cells are made of. It may be negative, and intervals are
                around it. Of flows, also `listed_from`: the least estimate with which a cell that is 0 would have a
                row, which intervals take into account.
            thresholds: of the verdicts; by default those of Statistics Canada.
            names: also the names of nodes, where the hierarchy has any: after `county` the column `county_name`, or
                `county_name_en` and so on by language. Labels stay the keys.

        Raises:
            ValueError: an unknown level; `dense` for more than 10^8 cells, or for a release without a tree; with
                `alpha`, errors that are not known, or an `alpha` not between 0 and 1.
        """
        name = self._name(level)
        published = self._tables[name]
        if dense and alpha is not None:
            rows = published.read(0, published.num_rows).unify_dictionaries()
            published = PlainTable(with_intervals(rows, alpha, stated_errors(self.statement, name)))
        if dense:
            table = dense_table(published, self.tree, self.levels.index(name), self.statement, self.spec)
        else:
            table = read_all(published)
        table = table.unify_dictionaries() if dictionaries else decoded(table)
        if alpha is not None and not dense:
            table = with_intervals(table, alpha, stated_errors(self.statement, name))
        judged = with_quality(table, stated_errors(self.statement, name), thresholds)
        shown = judged if unbiased else without_hidden(judged)
        shown = with_names(shown, self.tree) if names else shown
        return shown if dictionaries else decoded(shown)

    def to_pandas(self, *level: str, **options: Any) -> Any:
        """`table(*level, …)` with the same arguments, as a pandas data frame.

        Raises:
            ModuleNotFoundError: pandas is not installed.
        """
        if importlib.util.find_spec("pandas") is None:
            raise ModuleNotFoundError("to_pandas needs pandas: pip install pandas; table(level) is a pyarrow table")
        return self.table(*level, **options).to_pandas()

    def to_polars(self, *level: str, **options: Any) -> Any:
        """`table(*level, …)` with the same arguments, as a polars data frame.

        Raises:
            ModuleNotFoundError: polars is not installed.
        """
        if importlib.util.find_spec("polars") is None:
            raise ModuleNotFoundError("to_polars needs polars: pip install polars; table(level) is a pyarrow table")
        import polars

        return polars.from_arrow(self.table(*level, **options))

    @property
    def plot(self) -> Any:
        """Charts of the release, by Altair: `tree()`, `errors()`, `sizes(node)`, `flows(level)`, `pyramid(*table)`."""
        return method_from_above("plot")(self)

    def measurements(self, *level: str) -> pa.Table:
        """The noisy measurements of a level, before any post-processing, with the standard deviation of their noise.

        Path columns, then `value` (counts) or `values: list<int64>` (group sizes, one row per node; the statement says
        what they measure), then `std_dev`. A level that was not measured has no rows.

        Raises:
            ValueError: an unknown level; or the release was made without keeping its measurements.
        """
        name = self._name(level)
        if self.statement.get("measurements_kept") is False:
            raise ValueError(
                "measurements: the release was made with keep_measurements=False, so it holds none; with the secret of "
                "its run it can be repeated with them"
            )
        return decoded(read_all(self._measurements[name]))

    def total(
        self,
        areas: Any = None,
        *,
        by: str | None = None,
        where: Mapping[str, Any] | None = None,
        weight: str | None = None,
        alpha: float = 0.1,
        replicates: int | None = None,
        seed: int | None = None,
        progress: bool = False,
        thresholds: QualityThresholds = STANDARD,
    ) -> pa.Table:
        """The published numbers summed over any areas, with the error of each sum.

        The error of a sum does not follow from the errors of its parts, which are correlated. Tables, counts by
        `LeastSquares` (where they have the `std_dev` of the fit) and by `LeafGaussian` have exact errors. Other errors
        come from replicates of the release, as in `tallytree.replicate_errors`. No private data is read, and nothing is
        spent. `docs/how-to/totals.md` explains the errors.

        Where tables say how much is not listed, of cells that an area cuts through `count` has the share of their
        leaves. Of all flows the interval is that of what was measured of the area, and of such cells at the upper end.
        `std_dev` is null where the area has a part of them.

        Args:
            areas: a public table (path, pandas, polars, pyarrow or DuckDB); each row names a node by its path columns.
                Those of lower levels are null, or absent from the table. Of flows and other products a side may be left
                out: the row then is about all of that side. No two rows may overlap.
                Of tables it names nodes of one hierarchy, the first or another one; without it all are meant.
            by: a column of `areas` that gives each row its area, such as a district. One total for each of its values;
                by default all rows are one area. Of tables without `areas` it is a level: one total for each node.
            where: of tables, a condition: labels, or lists of them, by columns of the attributes, such as
                `{"sex": "f", "age": ["0-4", "5-9"]}`.
            weight: a column of `areas` with numbers of 0 or more: how often each row counts, such as the share of a
                municipality that lies in a district. Rows of different areas may then name one node. Of counts, and of
                tables. The totals are then fractions, and so are the ends of their intervals, which take the weights as
                exact.
            alpha: intervals are to miss the true number with this probability.
            replicates: estimate the errors from so many replicates. By default exact errors are used where there are
                any, and else as many replicates as the release's own errors are from, or 50.
            seed: makes the replicates reproducible, for tests.
            progress: show the progress of replicates on standard error.
            thresholds: of the verdicts in `quality`, as in `table`.

        Returns:
            The column `by` (or the path columns of the level); `count` (or `size` and `groups`, a row for each size
            with groups); `std_dev`, `ci_lower`, `ci_upper` and `quality`. With `StabilityHistogram` these are absent:
            nothing published shows what its sums miss. With an enforced contribution bound the metadata of the schema
            say what is counted, as JSON under `tallytree`.

        Raises:
            ValueError: no rows, missing or unknown columns, unknown nodes, nulls above a label, rows that overlap; an
                `alpha` or a number of replicates out of range; a release without a tree, or not of counts, flows,
                tables or group sizes.
            TypeError: an argument of the wrong kind.
        """
        options: dict[str, Any] = {"by": by, "where": where, "weight": weight, "alpha": alpha, "seed": seed}
        options |= {"replicates": replicates, "progress": progress, "thresholds": thresholds}
        made = decoded(method_from_above("total")(self, areas, **options))
        return made.replace_schema_metadata(description(self.statement) or None)

    def scaled(self, *level: str, spread: float | None = None, like: Any = None, alpha: float = 0.1) -> pa.Table:
        """Estimates of all records, where a contribution bound left some out: count ÷ (1 − share left out).

        The release measured the share (`contributions=`) for all areas together. By how much an area's own share
        differs is not in the release, so it has to be stated, or taken from public records. The interval holds the
        noise of the count, the uncertainty of the measured share, and that difference. Only what was published is read,
        and nothing is spent. `docs/how-to/contributions.md` says how well it works.

        Args:
            level: the name of a level, or of a table, as in `table`.
            spread: an assumption: the standard deviation, between the areas of the level, of the number of records left
                out for each one that counts, relative to that of all areas. 0.5 says that most areas have between 0 and
                2 times as many left out as all areas have.
            like: *public* records, such as those of an earlier period, with the columns of the release's records (the
                hierarchy, `person`, `count`): the spread is computed from them. The result is not protected against
                them, so they must not be the private records.
            alpha: intervals are to miss the true number of all records with this probability.

        Returns:
            The path columns; `estimate`, `ci_lower` and `ci_upper` (int64): of all records. The metadata of the schema
            says, as JSON under `tallytree`, which share and spread were used. Estimates of areas add up to those of the
            areas above, up to rounding; their intervals do not.

        Raises:
            ValueError: no measured share, or one that may be nearly all; errors of the counts that are not known; group
                sizes; both or neither of `spread` and `like`; a value out of range; public records that cannot be used.
            TypeError: an argument of the wrong kind.
        """
        name = self._name(level)
        return method_from_above("scaled")(self, [name], spread=spread, like=like, alpha=alpha)[name]

    def with_tables(self, tables: Mapping[str, LevelTable], statement: Mapping[str, Any]) -> Release:
        """The same noisy measurements under other tables; for `reconcile_group_sizes` and `replicate_errors`."""
        return replace(self, statement=statement, _tables=tables)

    @property
    def contributions(self) -> pa.Table | None:
        """People by their number of records, one row for each bin; None where they were not counted.

        `records_from` and `records_to`, `people` (a noisy integer, which may be negative) and the `std_dev` of its
        noise. The last bin also holds people with more records.
        """
        return None if self._contributions is None else read_all(self._contributions)

    @property
    def tables(self) -> tuple[tuple[str, ...], ...]:
        """What was released, each as `table` takes it: the tables that were asked for, or the levels, root first."""
        if not self._kind.has_tables:
            return tuple((level,) for level in self.levels)
        return tuple(tuple(each["table"]) for each in self.statement["levels"] if each["asked"])

    @property
    def detail(self) -> LevelTable | None:
        """Of tables, the cells that all of them are sums of, in slices: path columns and `count`. None if not kept."""
        return self._detail

    @property
    def level_tables(self) -> Mapping[str, LevelTable]:
        """The published tables by level, root first, to be read in slices."""
        return self._tables

    def _name(self, given: tuple[str | tuple[str, ...], ...]) -> str:
        """The level, or the table, that somebody names.

        Raises:
            ValueError: there is none.
            TypeError: not a name.
        """
        parts = given[0] if len(given) == 1 and isinstance(given[0], tuple | list) else given
        names = [part for each in parts if (part := text(each, "level", "the name of a level"))]
        root = ROOT if self._kind.has_tables else self.levels[0]
        if len(names) == 1 and (name := stored_level(names[0], root)) in self._tables:
            return name
        if self._kind.has_tables:
            names = [] if names == [TOTAL] else names
            wanted = sorted(names), sorted(".".join(names).split("."))  # the name of a table, in another order
            found = [each["level"] for each in self.statement["levels"] if sorted(each["table"]) in wanted]
            if found:
                return str(found[0])
            known = "; ".join(f"({', '.join(each) or TOTAL})" for each in self.tables)
            raise ValueError(
                f"level: ({', '.join(names) or TOTAL}) is not one of the release's tables, which are {known}; a "
                "coarser one is the sum of the rows of a finer one"
            )
        shown = repr(names[0]) if len(names) == 1 else f"({', '.join(names)})"
        raise ValueError(f"level: {shown} is not one of the release's levels {', '.join(self.levels)}")

    def save(self, folder: str | os.PathLike[str], *, csv: bool = False) -> Path:
        """Write the release as a folder, all or nothing.

        Args:
            folder: where to; it must not exist yet.
            csv: write every published table as CSV too.

        Returns:
            The folder's path.

        Raises:
            FileExistsError: the folder exists.
            OSError: the disk is full, or the place cannot be written to; nothing is left behind.
        """
        target = refuse_existing(folder)
        require_writable(target)
        warn_of_leftovers(target)
        dataset = (self.statement.get("ledger") or {}).get("dataset")
        with stage("save", dataset=dataset, run=self.statement["release"].get("run")), whole_folder(target) as building:
            self._write(building, csv=csv)
        return target

    def _write(self, folder: Path, *, csv: bool) -> None:
        files: dict[str, dict[str, Any]] = {}
        published = {level: described(table, self.statement) for level, table in self._tables.items()}
        files |= self._write_tables(folder, "tables", published, csv=csv)
        files |= self._write_tables(folder, "measurements", self._measurements, csv=False)
        files |= write_contributions(self._contributions, folder, csv=csv)
        files |= write_detail(self._detail, folder, self.statement)
        tree = self.tree
        if tree is not None:
            files |= write_tree(tree, folder)
        manifest = {
            "format_version": FORMAT_VERSION if self._detail is not None else WITHOUT_DETAIL,
            "levels": list(self.levels),
            "statement": self.statement,
            "spec": self.spec,
            "files": files,
            **({} if tree is None else {"tree": described_tree(tree)[0]}),
        }
        write_manifest(manifest, folder)

    def _write_tables(
        self, folder: Path, name: str, tables: Mapping[str, LevelTable], *, csv: bool
    ) -> dict[str, dict[str, Any]]:
        """Write the tables, or the measurements, of every level into a folder; what the manifest says of their files.

        Large ones are written side by side, the largest first: encoding and compressing keep a processor busy.
        """
        writers = (("parquet", write_parquet), *((("csv", write_csv),) if csv else ()))
        jobs = {
            f"{name}/{table_stem(level, self._kind)}.{suffix}": (level, table, write)
            for level, table in tables.items()
            for suffix, write in writers
        }

        def write_one(file: str) -> tuple[str, dict[str, Any]]:
            level, table, write = jobs[file]
            if write is write_csv:
                table = ChangedTable(table, lambda rows, _: self._as_text_file(level, rows))
            write(table, folder / file)
            return file, {"level": level, "rows": table.num_rows, "sha256": sha256(folder / file)}

        (folder / name).mkdir()
        if sum(table.num_rows for table in tables.values()) <= ROWS_AT_ONCE:
            written = dict(map(write_one, jobs))
        else:
            written = dict(side_by_side(write_one, sorted(jobs, key=lambda file: -jobs[file][1].num_rows)))
        flush(folder / name)
        return {file: written[file] for file in jobs}

    def _as_text_file(self, level: str, rows: pa.Table) -> pa.Table:
        """Rows as a CSV file has them: with verdicts, and of tables with the unbiased estimate."""
        judged = with_quality(rows, stated_errors(self.statement, level))
        return judged if self._kind.shows_unbiased else without_hidden(judged)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Release:
        """Open a saved release, once release.json agrees with its digest, and every file with release.json.

        Neither is a signature: whoever can write to the folder can change both.

        Raises:
            ValueError: not a complete release, of another format version, changed since it was written, with files
                outside the folder, or with a statement that contradicts itself or the files. The message quotes no row.
            TypeError: not a path.
        """
        path_text(folder, "folder", "the path of a saved release")
        place = Path(os.path.abspath(folder))  # noqa: PTH100  (a later change of directory must not matter)
        if not place.is_dir():
            raise ValueError(
                f"folder: {str(place)!r} does not exist, or is no folder; give the folder of a saved release"
                + how_to_put_back(place)
            )
        manifest = read_manifest(place)
        check_files(place, manifest)
        kind = kind_of(manifest["statement"])
        if kind.parts:
            from tallytree.release.households_release import loaded_parts

            return loaded_parts(place, manifest)

        def tables(folder: str) -> dict[str, LevelTable]:
            names = {level: table_name(folder, level, kind) for level in manifest["levels"]}
            return {level: FileTable(place / name, manifest["files"][name]["rows"]) for level, name in names.items()}

        tree = None if "tree" not in manifest else StoredTree(place, manifest["tree"])
        beside = stored_contributions(place, manifest["files"]), stored_detail(place, manifest["files"])
        return cls(manifest["statement"], manifest["spec"], tables("tables"), tables("measurements"), tree, *beside)


def write_manifest(manifest: Mapping[str, Any], folder: Path) -> None:
    """Write the last files of a folder: the entry for the registry, where the statement has one, and the manifest."""
    if has_entry(manifest["statement"]):
        write_text(registry_entry(manifest["statement"]), folder / REGISTRY_FILE)
    write_text(manifest_text(manifest), folder / MANIFEST)
