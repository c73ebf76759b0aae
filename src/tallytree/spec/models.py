"""The specs: one model for each statistic, made from the arguments of its public function."""

from __future__ import annotations

import dataclasses
import glob
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, get_args, get_origin

from pydantic import Field, PrivateAttr, create_model

from tallytree import counts, sizes
from tallytree.budget import Budget
from tallytree.counts import CountsMechanism
from tallytree.engines import ENGINES, Engine
from tallytree.hierarchy import Hierarchy
from tallytree.ledger import Ledger
from tallytree.mechanism import Mechanism
from tallytree.pipeline import (
    CountsArguments,
    FlowsArguments,
    Planned,
    SizesArguments,
    plan_counts,
    plan_flows,
    plan_group_sizes,
)
from tallytree.pipeline.arguments import RecordOptions, SharedArguments
from tallytree.pipeline.signature import option_docs
from tallytree.postprocess.reconcile_sizes import reconcile_group_sizes
from tallytree.product import Product
from tallytree.release import Release, refuse_existing, require_writable
from tallytree.sizes import PrivateMaximum, SizesMechanism
from tallytree.spec.document import Document, KeyPath
from tallytree.spec.error_lines import naming_lines
from tallytree.spec.scalars import Flag, Integer, Split, Text, Texts
from tallytree.spec.sections import (
    BudgetSpec,
    EngineSpec,
    HierarchySpec,
    LargestSize,
    MechanismSpec,
    PrivateMaximumSpec,
    ProductSpec,
    Section,
    TreeSpec,
)
from tallytree.spec.wording import unknown
from tallytree.stages import stage

NOT_IN_A_SPEC = ("progress",)
"""Arguments that the command line decides."""

READ_AS: tuple[tuple[Any, Any], ...] = (
    ("table", Text),
    (Product, TreeSpec),
    (Hierarchy, HierarchySpec),
    (Budget, BudgetSpec),
    (CountsMechanism, MechanismSpec),
    (SizesMechanism, MechanismSpec),
    (Engine, EngineSpec),
    (Ledger, Text),
    (PrivateMaximum, LargestSize),
    (Mapping, Split),
    (Sequence, Texts),
    (bool, Flag),
    (int, Integer),
    (str, Text),
    (Literal, Text),
)
"""How a spec reads an argument, by its type: of a union, the first of these that is in it."""


class Spec(Section):
    """What every kind of release shares; its keys are made from the arguments (see `SPECS`)."""

    statistic: str

    arguments_class: ClassVar[type[SharedArguments]]
    plan_release: ClassVar[Callable[[Any], Planned[Any, Any]]]
    mechanisms: ClassVar[tuple[ModuleType, type[Mechanism]]]
    """The package of the mechanisms, and their base."""
    tables: ClassVar[tuple[str, ...]]
    """The keys whose values are tables' paths."""

    _document: Document = PrivateAttr()

    if TYPE_CHECKING:  # some of the keys that every model has
        budget: BudgetSpec
        seed: int | None
        ledger: str | None
        dataset: str | None
        mechanism: MechanismSpec | None

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
            base = RecordOptions if issubclass(cls.arguments_class, RecordOptions) else SharedArguments
            base(**{key: spec._value(key) for key in _keys(base)})
            spec._value("mechanism")
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

    def plan(self, *, progress: bool = False) -> Planned[Any, Any]:
        """Plan the release: all arguments are validated and the public hierarchy is read, no private table is opened.

        Raises:
            SpecError: something in the spec is wrong.
            BudgetExceeded: more than the budget would be spent.
            OSError: a public table cannot be read.
        """
        with stage("plan", dataset=self.dataset):
            values = {key: self._value(key) for key in _keys(self.arguments_class)}
            with naming_lines(self._document):
                return type(self).plan_release(self.arguments_class(**values, progress=progress))

    def check(self) -> Planned[Any, Any]:
        """Plan the release, check the private tables' schemas and the ledger's room, reading no private row.

        Nothing is spent or recorded.

        Raises:
            SpecError, BudgetExceeded, OSError: as for `plan`, and where a schema does not fit.
        """
        planned = self.plan()
        with naming_lines(self._document):
            planned.check()
        return planned

    def release(self, folder: str | os.PathLike[str], *, csv: bool = False, progress: bool = False) -> Release:
        """Release and save; this spends the budget.

        The saved spec names tables as this spec does where that is below the spec's folder, and others without their
        folder, so a release does not tell where its publisher keeps them.

        Args:
            folder: where to; it must not exist yet, which is checked before anything is drawn.
            csv: write every published table as CSV too.
            progress: show a progress bar on standard error.

        Raises:
            SpecError, BudgetExceeded: see `plan`; also where the records do not fit, or the ledger has no room. Nothing
                was published.
            FileExistsError: the folder exists; nothing was drawn.
            OSError: the place or the ledger cannot be written to (found out before anything is drawn), or the disk is
                full.
        """
        require_writable(refuse_existing(folder))
        planned = self.plan(progress=progress)
        with naming_lines(self._document):
            release = planned.run()
        written = self._document.written  # a value of the environment is not published
        named = {key: _public_name(written.get((key,), getattr(self, key))) for key in self.tables}
        release = dataclasses.replace(release, spec={**release.spec, **named})
        release.save(folder, csv=csv)
        planned.finish()
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

    def _value(self, key: str) -> Any:
        """The argument that a key gives."""
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
                    return self._build_engine(given)
            case PrivateMaximumSpec() as given:
                with naming_lines(self._document):
                    return PrivateMaximum(given.share, given.at_most)
            case str() as given if key in self.tables:
                return self._path(given)
            case str() if key == "ledger":
                return self.ledger_path
            case given:
                return given

    def _build_hierarchy(self, wanted: HierarchySpec, at: KeyPath) -> Hierarchy:
        """The hierarchy whose mapping is at a key."""
        with naming_lines(self._document, hierarchy=(*at, "path"), levels=(*at, "levels")):
            return Hierarchy.from_table(self._path(wanted.path), levels=wanted.levels)

    def _build_product(self, wanted: ProductSpec, at: KeyPath) -> Product:
        """The product whose mapping is at a key."""
        here = (*at, "attributes")
        hierarchies = {name: self._build_hierarchy(tree, (*here, name)) for name, tree in wanted.attributes.items()}
        with naming_lines(self._document, hierarchies=here, order=(*at, "order"), columns=(*at, "columns")):
            return Product(hierarchies, order=wanted.order, columns=wanted.columns)

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

    def _build_engine(self, wanted: EngineSpec) -> Engine:
        if wanted.name not in ENGINES:
            raise self._document.error(("engine", "name"), unknown(wanted.name, ENGINES, "engine"))
        options = {key: value for key, value in wanted if key in wanted.model_fields_set and key != "name"}
        if wanted.temp_directory is not None:
            options["temp_directory"] = self._folder / wanted.temp_directory
        engine: Engine = ENGINES[wanted.name](**options)
        return engine

    @property
    def _folder(self) -> Path:
        return Path(self._document.name).parent

    def _path(self, written: str) -> str:
        """A table's path or glob, relative to the spec's folder."""
        path = self._folder / written
        if path.exists() or not glob.has_magic(written):
            return str(path)
        return str(Path(glob.escape(str(self._folder))) / written)  # the folder's own name is no pattern


def known_mechanisms(package: ModuleType, base: type[Mechanism]) -> dict[str, type]:
    """The mechanisms that a package exports: its dataclasses that have the package's base."""
    exported = {name: getattr(package, name) for name in package.__all__}
    return {
        name: value
        for name, value in exported.items()
        if isinstance(value, type) and dataclasses.is_dataclass(value) and issubclass(value, base)
    }


def _public_name(written: str | None) -> str | None:
    """A table's path as it may be published."""
    if written is None:
        return None
    path = Path(written)
    return path.name if path.is_absolute() or ".." in path.parts else written


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
        hierarchy = self._value("hierarchy")
        mechanism = self._value("mechanism")
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
    plan_release: Callable[[Any], Planned[Any, Any]],
    mechanisms: tuple[ModuleType, type[Mechanism]],
    base: type[Spec] = Spec,
) -> type[Spec]:
    """The model of a statistic: a key for each argument, with its default and its description.

    Args:
        statistic: its name.
        arguments: the arguments of its public function.
        plan_release: plans a release of these.
        mechanisms: the package of its mechanisms, and their base.
        base: what the model can do.
    """
    docs, keys = option_docs(arguments), _keys(arguments)
    defaults = {field.name: field.default for field in dataclasses.fields(arguments)}
    fields: dict[str, Any] = {"statistic": (Literal[statistic], ...)}
    for key in keys:
        kind, doc = docs[key]
        required = defaults[key] is dataclasses.MISSING
        read = _read_as(kind)
        default = ... if required else defaults[key]
        fields[key] = (read if default is not None else read | None, Field(default, description=doc.hint or doc.text))
    model = create_model(f"{arguments.__name__.removesuffix('Arguments')}Spec", __base__=base, **fields)
    model.arguments_class, model.plan_release, model.mechanisms = arguments, staticmethod(plan_release), mechanisms
    model.tables = tuple(key for key in keys if _read_by(docs[key][0]) == "table")
    return model


def _read_as(kind: Any) -> Any:
    """How a spec reads an argument of this type."""
    return dict(READ_AS)[_read_by(kind)]


def _read_by(kind: Any) -> Any:
    """The entry of `READ_AS` for an argument of this type."""
    if get_origin(kind) is Annotated:
        return get_args(kind)[1]
    found = {get_origin(part) or part for part in (kind, *get_args(kind))}
    return next(entry for entry, _ in READ_AS if entry in found)


SPECS: dict[str, type[Spec]] = {
    "counts": _spec("counts", CountsArguments, plan_counts, (counts, CountsMechanism)),
    "flows": _spec("flows", FlowsArguments, plan_flows, (counts, CountsMechanism)),
    "group_sizes": _spec("group_sizes", SizesArguments, plan_group_sizes, (sizes, SizesMechanism), SizesSpec),
}
"""The spec of each statistic."""
