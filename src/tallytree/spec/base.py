"""What the specs of all statistics share, and what is done with one: check it, release it."""

from __future__ import annotations

import dataclasses
import glob
import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, PrivateAttr

from tallytree import counts
from tallytree.budget import Budget
from tallytree.hierarchy import Hierarchy
from tallytree.pipeline import CountsJob, GroupSizesJob, Options
from tallytree.private.engines import Local
from tallytree.release import Release, refuse_existing, require_writable
from tallytree.spec.document import Document, KeyPath
from tallytree.spec.error_lines import naming_lines
from tallytree.spec.scalars import Split, Text, Whole
from tallytree.spec.sections import BudgetSpec, EngineSpec, HierarchySpec, MechanismSpec, Section
from tallytree.spec.wording import unknown


class Spec(Section, ABC):
    """What every kind of release shares; see `tallytree.release_counts` for the meaning of the keys."""

    statistic: str
    budget: BudgetSpec = Field(description="give epsilon (with or without delta) or rho: budget: {epsilon: 1.0}")
    neighboring: Text = Field(description="choose what is protected: add_remove or change_one")
    max_contributions: Whole = Field(1, description="the most records of one person")
    mechanism: MechanismSpec | None = Field(
        None, description="give its name, and options if any: mechanism: {name: ...}"
    )
    budget_split: Split | None = Field(None, description="even, auto, or weights by level")
    accounting: Text | None = Field(None, description="pld, zcdp or paper; for a budget with delta")
    on_unknown: Text = Field("error", description="error, or drop records outside the hierarchy")
    seed: Whole | None = Field(None, description="for experiments: reproducible noise, a release that is not private")
    noise: Text = Field("keyed", description="keyed or opendp")
    engine: EngineSpec | None = Field(
        None, description="give memory_limit, threads or temp_directory: engine: {threads: 2}"
    )
    ledger: Text | None = Field(None, description="give the path of the ledger that keeps what is spent")
    dataset: Text | None = Field(None, description="give the data set's name in the ledger")

    tables: ClassVar[tuple[str, ...]]
    """The keys whose values are tables' paths."""
    mechanisms: ClassVar[tuple[Any, type]] = (counts, counts.CountsMechanism)
    """The package of the mechanisms, and what they are."""

    _document: Document = PrivateAttr()

    @classmethod
    def from_document(cls, document: Document) -> Self:
        """The spec in a document, as far as it can be validated without opening a table.

        Raises:
            pydantic.ValidationError: keys or values are wrong.
            SpecError: an argument is wrong, or a mechanism or one of its options is not known.
        """
        spec = cls.model_validate(document.data)
        spec._document = document
        with naming_lines(document):
            spec._options().terms()
        return spec

    def recorded_in(self, ledger: str | os.PathLike[str] | None = None, dataset: str | None = None) -> Self:
        """The spec with another ledger or data set; what is None stays.

        Args:
            ledger: a path, relative to the working directory.
            dataset: the data set's name.
        """
        given = {"ledger": None if ledger is None else str(Path(ledger).absolute()), "dataset": dataset}
        changes = {key: value for key, value in given.items() if value is not None}
        spec = self.model_copy(update=changes)
        lines = {path: line for path, line in self._document.lines.items() if path[0] not in changes}
        spec._document = dataclasses.replace(self._document, lines=lines)
        return spec

    @property
    def ledger_path(self) -> Path | None:
        """Where the ledger is."""
        return None if self.ledger is None else self._folder / self.ledger

    @abstractmethod
    def job(self, *, progress: bool = False) -> CountsJob | GroupSizesJob:
        """Plan the release: all arguments are validated and the public hierarchy is read, no private table is opened.

        Raises:
            SpecError: something in the spec is wrong.
            BudgetExceeded: more than the budget would be spent.
            OSError: a public table cannot be read.
        """

    def check(self) -> CountsJob | GroupSizesJob:
        """Plan the release, check the private tables' schemas and the ledger's room, reading no private row.

        Nothing is spent or recorded.

        Raises:
            SpecError, BudgetExceeded, OSError: as for `job`, and where a schema does not fit.
        """
        job = self.job()
        with naming_lines(self._document):
            job.check()
        return job

    def release(self, folder: str | os.PathLike[str], *, csv: bool = False, progress: bool = False) -> Release:
        """Release and save; this spends the budget.

        The saved spec names tables as this spec does where that is below the spec's folder, and others without their
        folder, so a release does not tell where its publisher keeps them.

        Args:
            folder: where to; it must not exist yet, which is checked before anything is drawn.
            csv: write every published table as CSV too.
            progress: show a progress bar on standard error.

        Raises:
            SpecError, BudgetExceeded: see `job`; also where the records do not fit, or the ledger has no room. Nothing
                was published.
            FileExistsError: the folder exists; nothing was drawn.
            OSError: the place or the ledger cannot be written to (found out before anything is drawn), or the disk is
                full.
        """
        require_writable(refuse_existing(folder))
        job = self.job(progress=progress)
        with naming_lines(self._document):
            release = job.run()
        named = {key: _public_name(getattr(self, key)) for key in self.tables}
        release = dataclasses.replace(release, spec={**release.spec, **named})
        release.save(folder, csv=csv)
        job.finish()
        return release

    def reconcile(self, release: Release, folder: str | os.PathLike[str], *, csv: bool = False) -> Release:
        """Make the tables of a release of group sizes again, by this spec's mechanism, and save them.

        Args:
            release: the earlier release.
            folder: where to; it must not exist yet.
            csv: write every published table as CSV too.

        Raises:
            SpecError: the spec is one of another statistic.
        """
        raise self._document.error(("statistic",), f"{self.statistic} cannot be reconciled again; give group_sizes")

    def _options(self, progress: bool = False) -> Options:
        return Options(
            neighboring=self.neighboring,
            max_contributions=self.max_contributions,
            mechanism=None if self.mechanism is None else self._build_mechanism(self.mechanism),
            budget_split=self.budget_split,
            accounting=self.accounting,
            on_unknown=self.on_unknown,
            seed=self.seed,
            noise=self.noise,
            engine=None if self.engine is None else self._build_engine(self.engine),
            progress=progress,
            ledger=self.ledger_path,
            dataset=self.dataset,
        )

    def _budget(self) -> Budget:
        return Budget(epsilon=self.budget.epsilon, delta=self.budget.delta, rho=self.budget.rho)

    def _build_hierarchy(self, wanted: HierarchySpec, at: KeyPath) -> Hierarchy:
        """The hierarchy whose mapping is at a key."""
        with naming_lines(self._document, hierarchy=(*at, "path"), levels=(*at, "levels")):
            return Hierarchy.from_table(self._path(wanted.path), levels=wanted.levels)

    def _build_mechanism(self, wanted: MechanismSpec) -> Any:
        known = known_mechanisms(*self.mechanisms)
        if wanted.name not in known:
            raise self._document.error(
                ("mechanism", "name"), unknown(wanted.name, known, f"mechanism for {self.statistic}")
            )
        options = [field.name for field in dataclasses.fields(known[wanted.name]) if field.init]
        for option in wanted.options:
            if option not in options:
                message = unknown(option, options, f"option of {wanted.name}")
                raise self._document.error(("mechanism", "options", option), message)
        return known[wanted.name](**wanted.options)

    def _build_engine(self, wanted: EngineSpec) -> Local:
        folder = None if wanted.temp_directory is None else self._folder / wanted.temp_directory
        return Local(memory_limit=wanted.memory_limit, threads=wanted.threads, temp_directory=folder)

    @property
    def _folder(self) -> Path:
        return Path(self._document.name).parent

    def _path(self, written: str) -> str:
        """A table's path or glob, relative to the spec's folder."""
        path = self._folder / written
        if path.exists() or not glob.has_magic(written):
            return str(path)
        return str(Path(glob.escape(str(self._folder))) / written)  # the folder's own name is no pattern


def known_mechanisms(package: Any, protocol: type) -> dict[str, type]:
    """The mechanisms that a package exports: its dataclasses that meet the package's protocol."""
    exported = {name: getattr(package, name) for name in package.__all__}
    return {
        name: value
        for name, value in exported.items()
        if isinstance(value, type) and dataclasses.is_dataclass(value) and issubclass(value, protocol)
    }


def _public_name(written: str | None) -> str | None:
    """A table's path as it may be published."""
    if written is None:
        return None
    path = Path(written)
    return path.name if path.is_absolute() or ".." in path.parts else written
