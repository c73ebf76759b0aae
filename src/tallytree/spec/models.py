"""The specs: one model for each statistic, made from the arguments of its public function."""

from __future__ import annotations

import dataclasses
import glob
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast

from pydantic import Field, PrivateAttr, create_model

from tallytree import counts, sizes, tables
from tallytree.budget import Budget
from tallytree.counts import CountsMechanism
from tallytree.engines import names_no_file
from tallytree.hierarchy import Hierarchy
from tallytree.kinds.contributions import Contributions
from tallytree.kinds.foreign import NOT_ALLOWED, imported_class, installed, installed_class, is_code, made_by
from tallytree.kinds.mechanism import Mechanism
from tallytree.kinds.registry import kind_of
from tallytree.ledger import Ledger
from tallytree.numbers.reconcile import reconcile_counts, reconcile_group_sizes
from tallytree.product import Product
from tallytree.release import Release, refuse_existing, require_writable
from tallytree.run import (
    CountsArguments,
    FlowsArguments,
    HouseholdsArguments,
    Planned,
    PlannedHouseholds,
    SizesArguments,
    TablesArguments,
    contributions_of,
    one_release,
    plan_counts,
    plan_flows,
    plan_group_sizes,
    plan_households,
    plan_tables,
)
from tallytree.run.finished_run import Finished, finished_run
from tallytree.run.options import PersonOptions, RecordOptions, SharedArguments
from tallytree.run.order import check, finish, make_release, telling_what_is_spent
from tallytree.run.output import Output
from tallytree.run.signature import option_docs
from tallytree.sizes import PrivateMaximum, SizesMechanism
from tallytree.sources.same_tables import refuse_private
from tallytree.spec.built_engine import built_engine
from tallytree.spec.document import Document, KeyPath
from tallytree.spec.error_lines import naming_lines
from tallytree.spec.known_mechanisms import known_mechanisms
from tallytree.spec.reading_arguments import read_as, read_by
from tallytree.spec.scalars import shown
from tallytree.spec.sections import (
    BudgetSpec,
    ContributionsSpec,
    EngineSpec,
    HierarchySpec,
    MechanismSpec,
    PrivateMaximumSpec,
    ProductSpec,
    Section,
)
from tallytree.spec.table_values import private_name, public_name, relative_to
from tallytree.spec.wording import unknown
from tallytree.support.stages import stage
from tallytree.tables import TablesMechanism

NOT_IN_A_SPEC = ("progress",)
"""Arguments that the command line decides."""

FILES = ("ledger", "secret", "revises")
"""Keys whose values are paths of files other than tables."""


class Spec(Section):
    """What every kind of release shares; its keys are made from the arguments (see `SPECS`)."""

    statistic: str

    arguments_class: ClassVar[type[SharedArguments]]
    plan_statistic: ClassVar[Callable[[Any], Planned[Any, Any]]]
    mechanisms: ClassVar[tuple[ModuleType, type[Mechanism]]]
    """The package of the mechanisms, and their base."""
    table_keys: ClassVar[tuple[str, ...]]
    """The keys whose values are tables."""

    _document: Document = PrivateAttr()
    _allow_code: bool = PrivateAttr(False)

    if TYPE_CHECKING:  # some of the keys that every model has
        budget: BudgetSpec
        seed: int | None
        ledger: str | None
        dataset: str | None
        run: str | None
        mechanism: MechanismSpec | None

    @classmethod
    def from_document(cls, document: Document, *, allow_code: bool = False) -> Self:
        """The spec in a document, as far as it can be validated without opening a table.

        Args:
            document: what was read.
            allow_code: see `load_spec`.

        Raises:
            pydantic.ValidationError: keys or values are wrong.
            SpecError: an argument is wrong, or a mechanism or one of its options is not known.
        """
        spec = cls.model_validate(document.data)
        spec._document, spec._allow_code = document, allow_code
        spec._check_shared_options()
        with naming_lines(document):
            spec._value("mechanism")
        return spec

    def with_options(self, **options: Any) -> Self:
        """The spec with other values of some keys; what is None stays.

        Args:
            options: text by key; paths (`ledger`, `secret`) are relative to the working directory.

        Raises:
            SpecError: the options do not go together.
        """
        changes = {key: value for key, value in options.items() if value is not None}
        changes |= {key: str(Path(changes[key]).absolute()) for key in FILES if key in changes}
        spec = self.model_copy(update=changes)
        lines = {path: line for path, line in self._document.lines.items() if path[0] not in changes}
        spec._document = dataclasses.replace(self._document, lines=lines)
        spec._check_shared_options()
        return spec

    def _check_shared_options(self) -> None:
        """Refuse options that all releases share, where a value is wrong or they do not go together."""
        with naming_lines(self._document):
            bases = (RecordOptions, PersonOptions, SharedArguments)
            base = next(each for each in bases if issubclass(self.arguments_class, each))
            base(**{key: self._value(key) for key in _keys(base)})

    @property
    def ledger_path(self) -> Path | None:
        """Where the ledger is."""
        return None if self.ledger is None else self._folder / self.ledger

    @property
    def document(self) -> Document:
        """What the spec was read from."""
        return self._document

    @property
    def private_table(self) -> str:
        """The key of the table with the records; others are public."""
        return kind_of(self.statistic).private_table

    def table(self, key: str) -> Any:
        """The table that a key names, as an argument; None where the spec names none."""
        given = getattr(self, key)
        return None if given is None else relative_to(given, self._path)

    def plan(self, *, progress: bool = False) -> Planned[Any, Any]:
        """Plan the release: all arguments are validated and the public hierarchy is read, no private table is opened.

        Raises:
            SpecError: something in the spec is wrong.
            BudgetExceeded: more than the budget would be spent.
            OSError: a public table cannot be read.
        """
        with stage("plan", dataset=self.dataset, run=self.run):
            return self.plan_of(self.arguments(progress=progress))

    def arguments(self, *, progress: bool = False) -> SharedArguments:
        """The arguments that the spec gives; the public hierarchy is read, no private table is opened.

        Raises:
            SpecError, OSError: see `plan`.
        """
        values = {key: self._value(key) for key in _keys(self.arguments_class)}
        with naming_lines(self._document):
            return self.arguments_class(**values, progress=progress)

    def plan_of(self, arguments: SharedArguments) -> Planned[Any, Any]:
        """Plan a release with these arguments, those of the spec or others like them.

        Raises:
            SpecError, BudgetExceeded, OSError: see `plan`.
        """
        with naming_lines(self._document):
            return type(self).plan_statistic(arguments)

    def check(self) -> Planned[Any, Any]:
        """Plan it, check the private tables' schemas and the ledger's room; no private row is read, nothing is spent.

        Raises:
            SpecError, BudgetExceeded, OSError: as for `plan`, and where a schema does not fit.
        """
        planned = self.plan()
        with naming_lines(self._document):
            check(planned)
        return planned

    def release(self, folder: str | os.PathLike[str] | Output, *, csv: bool = False, progress: bool = False) -> Release:
        """Release and save; this spends the budget.

        The saved spec names tables as this spec does where that is below the spec's folder, and others without their
        folder, so a release does not tell where its publisher keeps them.

        Args:
            folder: where to; checked before anything is drawn. An `Output` says what happens if it exists, or fails.
            csv: write every published table as CSV too; an `Output` says so itself.
            progress: show a progress bar on standard error.

        Returns:
            The release; the one in the folder, if the run was finished before and is to be skipped.

        Raises:
            InputMayHaveChanged: it is to be skipped, and the files that it was made from were replaced since.
            SpecError, BudgetExceeded: see `plan`; also where the records do not fit, or the ledger has no room. Nothing
                was published.
            FileExistsError: the folder exists; nothing was drawn.
            OSError: the place or the ledger cannot be written to (found out before anything is drawn), or the disk is
                full. What was released is kept in another folder then, which a note on the error names.
        """
        output = folder if isinstance(folder, Output) else Output(folder, csv=csv)
        if (finished := self.finished(output)) is not None:
            return finished.release
        with one_release():
            return self._saved(self.plan(progress=progress), output)

    def release_contributions(
        self,
        folder: str | os.PathLike[str] | Output,
        *,
        share: float | None = None,
        at_most: int | None = None,
        csv: bool = False,
        progress: bool = False,
    ) -> Release:
        """Release people by their number of records, to choose this spec's `max_contributions`, and save it.

        Args:
            folder: where to; see `release`.
            share: the share of the spec's budget that is spent; by default that of its `contributions`, or all of it.
            at_most: the last number of records; by default that of its `contributions`, or 1,000.
            csv: write the table as CSV too.
            progress: show a progress bar on standard error.

        Raises:
            InputMayHaveChanged, SpecError, BudgetExceeded, FileExistsError, OSError: see `release`.
        """
        output = folder if isinstance(folder, Output) else Output(folder, csv=csv)
        if (finished := self.finished(output, statistic="contributions")) is not None:
            return finished.release
        chosen_for = self.plan(progress=progress)
        if isinstance(chosen_for, PlannedHouseholds):
            raise self._document.error(
                ("statistic",),
                "households have no people by their number of records; give counts of the same records",
            )
        with naming_lines(self._document, elsewhere=("share", "at_most")):
            return self._saved(contributions_of(cast(Any, chosen_for), share, at_most), output)

    def _saved(self, planned: Planned[Any, Any], output: Output) -> Release:
        """Run what is planned, save it and note in the ledger that it is."""
        with naming_lines(self._document):
            release = make_release(planned)
        recorded = None if planned.account is None else planned.account.recorded
        if recorded is not None and recorded.again and output.on_repeated is not None:
            output.on_repeated(recorded.number)
        written = self._document.written  # a value of the environment is not published
        named = {}
        for key in self.table_keys:
            name = private_name if key == self.private_table else public_name
            named[key] = name(getattr(self, key), {path[1:]: text for path, text in written.items() if path[0] == key})
        release = dataclasses.replace(release, spec={**release.spec, **named})
        with telling_what_is_spent(planned):
            output.save(release)
        finish(planned)
        return release

    def finished(self, output: Output, *, statistic: str | None = None) -> Finished | None:
        """The release of a run that is finished and is to be skipped; if there is none, the folder can be made.

        Args:
            output: the folder.
            statistic: `"contributions"`, for people by their number of records; by default the spec's.

        Raises:
            InputMayHaveChanged, SpecError, OSError: see `finished_run` and `Output.check`.
        """
        with naming_lines(self._document, elsewhere=("folder", "if_exists", "fallback")):
            table, plan = self.table(self.private_table), None if statistic else lambda: self.plan().posting
            given = {key: self._value(key) for key in ("run", "dataset", "secret", "revises", "on_changed")}
            of = statistic or self.statistic
            find = partial(finished_run, output, of, ledger=self._opened_ledger, table=table, plan=plan, **given)
            if (found := find()) is None:
                try:
                    output.check(revises=given["revises"])
                except FileExistsError:
                    found = find()  # another process has made it since
                    if found is None:
                        raise
        return found

    @property
    def _opened_ledger(self) -> Ledger | None:
        return None if self.ledger_path is None else Ledger(self.ledger_path)

    def reconcile(self, release: Release, folder: str | os.PathLike[str], *, csv: bool = False) -> Release:
        """Make the tables of a release of group sizes again, by this spec's mechanism, and save them.

        Args:
            release: the earlier release.
            folder: where to; it must not exist yet.
            csv: write every published table as CSV too.

        Raises:
            SpecError: the spec is one of another statistic.
        """
        raise self._document.error(("statistic",), f"{self.statistic} cannot be reconciled again; give another")

    def _value(self, key: str) -> Any:
        """The argument that a key gives."""
        if key in self.table_keys:
            return self.table(key)
        match getattr(self, key):
            case HierarchySpec() as given:
                return self._build_hierarchy(given, (key,))
            case ProductSpec() as given:
                return self._build_product(given, (key,))
            case BudgetSpec() as given:
                with naming_lines(self._document):
                    return Budget(epsilon=given.epsilon, delta=given.delta, rho=given.rho)
            case MechanismSpec() as given:
                with naming_lines(self._document):
                    return self._build_mechanism(given)
            case EngineSpec() as given:
                with naming_lines(self._document):
                    return built_engine(given, self._document)
            case PrivateMaximumSpec() as given:
                with naming_lines(self._document):
                    return PrivateMaximum(given.share, given.at_most)
            case ContributionsSpec() as given:
                with naming_lines(self._document):
                    return Contributions(given.share, given.at_most)
            case str() as given if key in FILES:
                return self._folder / given
            case given:
                return given

    def _build_hierarchy(self, wanted: HierarchySpec, at: KeyPath) -> Hierarchy:
        """The hierarchy whose mapping is at a key."""
        of_columns = ("levels", "child", "parent", "level", "labels", "words")
        keys: dict[str, Any] = {key: (*at, key) for key in of_columns}
        with naming_lines(self._document, hierarchy=(*at, "path"), **keys):
            table = relative_to(wanted.path, self._path)
            refuse_private(table, "hierarchy", self.table(self.private_table), self.private_table)
            names: dict[str, Any] = {"labels": wanted.labels, "words": wanted.words}
            if wanted.parents is not None:
                return Hierarchy.from_parents(table, **wanted.parents, **names)
            return Hierarchy.from_table(table, levels=wanted.levels or (), finer=wanted.finer, **names)

    def _build_product(self, wanted: ProductSpec, at: KeyPath) -> Product:
        """The product whose mapping is at a key."""
        here = (*at, "attributes")
        hierarchies = {name: self._build_hierarchy(tree, (*here, name)) for name, tree in wanted.attributes.items()}
        keys: dict[str, Any] = {key: (*at, key) for key in ("order", "columns", "impossible", "words")}
        with naming_lines(self._document, hierarchies=here, **keys):
            given = [wanted.impossible] if isinstance(wanted.impossible, str) else wanted.impossible
            tables = None if given is None else [relative_to(each, self._path) for each in given]
            for table in tables or ():
                refuse_private(table, "impossible", self.table(self.private_table), self.private_table)
            options: dict[str, Any] = {"columns": wanted.columns, "impossible": tables, "words": wanted.words}
            return Product(hierarchies, order=wanted.order, **options)

    def _build_mechanism(self, wanted: MechanismSpec) -> Any:
        package, base = self.mechanisms
        known = known_mechanisms(package, base)
        kind = known.get(wanted.name) or self._mechanism_from_outside(wanted.name, [*known, *installed()])
        options = [field.name for field in dataclasses.fields(kind) if field.init]
        for option in wanted.options:
            if option not in options:
                message = unknown(option, options, f"option of {wanted.name}")
                raise self._document.error(("mechanism", "options", option), message)
        return kind(**wanted.options) if wanted.name in known else made_by(kind, wanted.options)

    def _mechanism_from_outside(self, name: str, names: Sequence[str]) -> type:
        """The class that an installed entry point, or `module:Class`, is; its module is imported."""
        at, (_, base) = ("mechanism", "name"), self.mechanisms
        if not is_code(name):
            found = installed_class(name, base)
            if found is None:
                raise self._document.error(at, unknown(name, names, f"mechanism for {self.statistic}"))
            return found
        if not self._allow_code:
            raise self._document.error(at, f"{shown(name)} {NOT_ALLOWED}")
        return imported_class(name, base)

    @property
    def _folder(self) -> Path:
        return Path(self._document.name).parent

    def _path(self, written: str) -> str:
        """A table's path or glob, relative to the spec's folder; or a name in the engine's catalog, or an address."""
        path = self._folder / written
        engine = getattr(self, "engine", None)
        if engine is not None and engine.name == "spark" and names_no_file(written) and not path.exists():
            return written
        if path.exists() or not glob.has_magic(written):
            return str(path)
        return str(Path(glob.escape(str(self._folder))) / written)  # the folder's own name is no pattern


class CountsSpec(Spec):
    """What only specs of counts and flows can do."""

    def reconcile(self, release: Release, folder: str | os.PathLike[str], *, csv: bool = False) -> Release:
        """See `Spec.reconcile` and `tallytree.mechanisms.reconcile_counts`; only the mechanism is read.

        Raises:
            SpecError: the mechanism wants what was not measured.
            ValueError: the release cannot be used.
            OSError: the folder exists or cannot be written to.
        """
        require_writable(refuse_existing(folder))
        mechanism = self._value("mechanism")
        with naming_lines(self._document, elsewhere=("release",)):
            again = reconcile_counts(release, mechanism=mechanism)
        again.save(folder, csv=csv)
        return again


class SizesSpec(Spec):
    """What only specs of group sizes can do."""

    def reconcile(self, release: Release, folder: str | os.PathLike[str], *, csv: bool = False) -> Release:
        """See `Spec.reconcile` and `tallytree.reconcile_group_sizes`; of the other keys nothing is read.

        Raises:
            SpecError: the hierarchy is not the release's, or the mechanism wants what was not measured.
            ValueError: the release cannot be used.
            OSError: the folder exists or cannot be written to, or the table of the hierarchy cannot be read.
        """
        require_writable(refuse_existing(folder))
        hierarchy, mechanism = self._value("hierarchy"), self._value("mechanism")
        with naming_lines(self._document, elsewhere=("release",)):
            again = reconcile_group_sizes(release, hierarchy, mechanism=mechanism)
        again.save(folder, csv=csv)
        return again


def _keys(arguments: type) -> list[str]:
    """The keys of a spec for these arguments."""
    return [name for name in option_docs(arguments) if name not in NOT_IN_A_SPEC]


def _spec(
    statistic: str,
    arguments: type[SharedArguments],
    plan_statistic: Callable[[Any], Planned[Any, Any]],
    mechanisms: tuple[ModuleType, type[Mechanism]],
    base: type[Spec] = Spec,
) -> type[Spec]:
    """The model of a statistic: a key for each argument, with its default and its description.

    Args:
        statistic: its name.
        arguments: the arguments of its public function.
        plan_statistic: plans a release of these.
        mechanisms: the package of its mechanisms, and their base.
        base: what the model can do.
    """
    docs, keys = option_docs(arguments), _keys(arguments)
    defaults = {field.name: field.default for field in dataclasses.fields(arguments)}
    fields: dict[str, Any] = {"statistic": (Literal[statistic], ...)}
    for key in keys:
        kind, doc = docs[key]
        required = defaults[key] is dataclasses.MISSING
        read = read_as(kind)
        default = ... if required else defaults[key]
        fields[key] = (read if default is not None else read | None, Field(default, description=doc.hint or doc.text))
    model = create_model(f"{arguments.__name__.removesuffix('Arguments')}Spec", __base__=base, **fields)
    model.arguments_class, model.plan_statistic, model.mechanisms = arguments, staticmethod(plan_statistic), mechanisms
    model.table_keys = tuple(key for key in keys if read_by(docs[key][0]) == "table")
    return model


SPECS: dict[str, type[Spec]] = {
    "counts": _spec("counts", CountsArguments, plan_counts, (counts, CountsMechanism), CountsSpec),
    "flows": _spec("flows", FlowsArguments, plan_flows, (counts, CountsMechanism), CountsSpec),
    "tables": _spec("tables", TablesArguments, plan_tables, (tables, TablesMechanism)),
    "group_sizes": _spec("group_sizes", SizesArguments, plan_group_sizes, (sizes, SizesMechanism), SizesSpec),
    "households": _spec("households", HouseholdsArguments, plan_households, (tables, TablesMechanism)),
}
"""The spec of each statistic."""
