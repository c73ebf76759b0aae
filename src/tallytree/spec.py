"""The YAML spec of a release: its keys are the arguments' names, and every message names file, line and key.

`load_spec` validates all that can be validated without opening a table; `Spec.check` reads the public tables and the
private ones' schemas; `Spec.release` spends the budget. The keys are documented in `docs/spec.md`.

YAML 1.1 reads `1e-8` as text, `0500` as octal and `no` as false. So scalars are kept here as they are written, with
what YAML takes them for, and each key decides: numbers are read exactly (0.1 is 1/10), names must be text.
"""

from __future__ import annotations

import dataclasses
import difflib
import glob
import os
import re
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, cast

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    PrivateAttr,
    Tag,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from tallytree import counts, sizes
from tallytree.budget import Budget
from tallytree.engines import Local
from tallytree.hierarchy import Hierarchy
from tallytree.jobs import CountsJob, GroupSizesJob
from tallytree.planning import Options, counts_job, flows_job, group_sizes_job
from tallytree.release import Release, refuse_existing

KeyPath: TypeAlias = tuple[str | int, ...]

LARGEST_FILE = 1_000_000
"""Bytes. Whoever passes a data file as the spec should be told at once."""

MOST_ENTRIES = 100_000
"""Keys and list items, aliases followed; bounds what a few nested aliases can grow into."""

_LARGEST_EXPONENT = 400
_ARGUMENT = re.compile(r"[a-z_]+(?=: |\[| \()")
"""How the library's own messages begin: the argument, then its value or its remedy."""


class SpecError(ValueError):
    """A spec that cannot be used; the message names the file, the line, the key, the value and the remedy."""


# --- The document: YAML with the line of every key ------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Plain:
    """A scalar that YAML does not read as text, as it is written.

    Attributes:
        text: as written.
        kind: what YAML takes it for.
    """

    text: str
    kind: Literal["number", "boolean", "date", "empty value"]


@dataclasses.dataclass(frozen=True, eq=False)
class Document:
    """A parsed spec.

    Attributes:
        name: the file's path as it was given.
        data: mappings, lists, strings and `Plain` scalars; keys without a value are left out.
        lines: the line of every key and list item, those without a value included.
    """

    name: str
    data: Mapping[str, Any]
    lines: Mapping[KeyPath, int]

    def error(self, path: KeyPath, message: str) -> SpecError:
        """An error at a key; the line is that of the nearest enclosing key that is there."""
        return SpecError(f"{self.place(path)}: {message}")

    def place(self, path: KeyPath) -> str:
        """File, line and dotted key."""
        near = path
        while near and near not in self.lines:
            near = near[:-1]
        return _place(self.name, self.lines[near] if near else None, path)


def _place(name: str, line: int | None, path: KeyPath) -> str:
    dotted = ".".join(part for part in path if isinstance(part, str))
    return ", ".join([name, *([] if line is None else [f"line {line}"]), *([dotted] if dotted else [])])


def read_document(path: str | os.PathLike[str]) -> Document:
    """Read a YAML file and find the line of every key.

    Raises:
        SpecError: no such file, not UTF-8, not YAML, a key given twice, or no mapping at the top.
    """
    name = os.fspath(path)
    text = _read_text(name)
    try:
        node = _compose(text)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(name, text, error) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise SpecError(f"{name}, line {line}: character U+{error.character:04X} is not allowed in YAML") from None
    except RecursionError:
        raise SpecError(f"{name}: lists and mappings are nested too deeply for a spec") from None
    if node is None:
        raise SpecError(f"{name}: is empty; it needs at least statistic, a table, its hierarchy and a budget")
    if not isinstance(node, yaml.MappingNode):
        kind = "a list" if isinstance(node, yaml.SequenceNode) else "a single value"
        raise SpecError(f"{name}, line {_line(node)}: is {kind}; a spec is a mapping, with lines such as budget: ...")
    reader = _Reader(name)
    return Document(name, reader.value(node, ()), reader.lines)


def _read_text(name: str) -> str:
    path = Path(name)
    if not path.exists():
        raise SpecError(f"{name}: no such file; give the path of a YAML spec")
    if not path.is_file() or path.stat().st_size > LARGEST_FILE:
        raise SpecError(f"{name}: is not a spec; give the path of a YAML file")
    raw = path.read_bytes()
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        byte = raw[error.start]
    raise SpecError(f"{name}, line {line}: byte 0x{byte:02x} is not UTF-8; save the file as UTF-8")


def _compose(text: str) -> yaml.Node | None:
    loader = yaml.SafeLoader(text)
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()


def _syntax_error(name: str, text: str, error: yaml.MarkedYAMLError) -> SpecError:
    mark = error.problem_mark or error.context_mark
    line = 0 if mark is None else mark.line
    lines = text.splitlines() or [""]
    written = lines[min(line, len(lines) - 1)]
    if "\t" in written[: len(written) - len(written.lstrip())] or "'\\t'" in str(error.problem):
        remedy = "indent with spaces, not with tabs"
    elif "mapping values are not allowed" in str(error.problem):
        remedy = "check the indentation, and quote text that has a colon in it"
    elif "single document" in str(error.context):
        remedy = "one file is one spec; take the second document (after ---) out"
    else:
        remedy = "check brackets, quotes and indentation"
    return SpecError(f"{name}, line {line + 1}: not valid YAML ({error.problem}); {remedy}")


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


class _Reader:
    """Turns YAML nodes into plain data, and notes the lines of keys on the way."""

    def __init__(self, name: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._name = name

    def value(self, node: yaml.Node, path: KeyPath) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._entry(item, item, (*path, i)) for i, item in enumerate(node.value)]
        return self._scalar(cast(yaml.ScalarNode, node), path)

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node, path)
            here = (*path, key)
            if here in self.lines:
                raise self._error(key_node, here, f"is given twice (first in line {self.lines[here]}); keep one")
            value = self._entry(key_node, value_node, here)
            if not (isinstance(value, Plain) and value.kind == "empty value"):
                data[key] = value
        return data

    def _entry(self, place: yaml.Node, node: yaml.Node, path: KeyPath) -> Any:
        self.lines[path] = _line(place)
        if len(self.lines) > MOST_ENTRIES or len(path) > 20:
            raise self._error(place, path, "too many entries for a spec; does an alias repeat itself?")
        return self.value(node, path)

    def _key(self, node: yaml.Node, path: KeyPath) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self._error(node, path, "a key must be text, not a list or a mapping")
        if node.tag == "tag:yaml.org,2002:merge":
            raise self._error(node, path, "<< is not supported; write the keys out, or use an alias for the whole")
        key = self._scalar(node, path)
        if isinstance(key, Plain):
            raise self._error(node, path, f"the key {key.text} is read as {_article(key.kind)}; {_quote(key.text)}")
        return str(key)

    def _scalar(self, node: yaml.ScalarNode, path: KeyPath) -> str | Plain:
        tag = node.tag.removeprefix("tag:yaml.org,2002:")
        if tag in ("bool", "timestamp", "null"):
            kinds: dict[str, Any] = {"bool": "boolean", "timestamp": "date", "null": "empty value"}
            return Plain(node.value, kinds[tag])
        if tag in ("int", "float") or (tag == "str" and node.style is None and _NUMBER.fullmatch(node.value)):
            return Plain(node.value, "number")
        if tag not in ("str", "value"):
            raise self._error(node, path, f"the tag {node.tag} is not supported; leave it out")
        return str(node.value)

    def _error(self, node: yaml.Node, path: KeyPath, message: str) -> SpecError:
        return SpecError(f"{_place(self._name, _line(node), path)}: {message}")


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _quote(text: str) -> str:
    return f'put it in quotes: "{text}"'


# --- Scalars --------------------------------------------------------------------------------------------------------

_NUMBER = re.compile(r"[-+]?(\d[\d_]*(\.[\d_]*)?|\.\d[\d_]*)([eE][-+]?\d+)?")


def _shown(value: object) -> str:
    """A value as a message shows it."""
    if isinstance(value, Plain):
        return value.text
    if isinstance(value, list):
        return "a list"
    return "a mapping" if isinstance(value, dict) else repr(value)


def _text(value: object) -> str:
    if isinstance(value, str):
        if value == "":
            raise ValueError("'' is empty; give some text or leave the key out")
        return value
    if isinstance(value, Plain) and value.text == "":
        raise ValueError("an item of the list is empty; fill it in or take it out")
    if isinstance(value, Plain):
        raise ValueError(f"{_shown(value)} is read as {_article(value.kind)}; {_quote(value.text)}")
    raise ValueError(f"{_shown(value)} is given where text is wanted")


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise ValueError(f"{_shown(value)} must be a list, such as [{value if isinstance(value, str) else 'name'}]")
    return value


def _number(value: object) -> Fraction:
    """A number exactly as written, quoted or not."""
    text = value.text if isinstance(value, Plain) else value
    if not isinstance(text, str) or not _NUMBER.fullmatch(text.strip()):
        raise ValueError(f"{_shown(value)} must be a number")
    number = Decimal(text.strip().replace("_", ""))
    if len(text) > _LARGEST_EXPONENT or abs(number.adjusted()) > _LARGEST_EXPONENT:
        raise ValueError(f"{text[:40]} is out of range")
    return Fraction(number)


def _positive(value: object) -> Fraction:
    number = _number(value)
    if number <= 0:
        raise ValueError(f"{_shown(value)} must be greater than 0")
    return number


def _probability(value: object) -> Fraction:
    number = _positive(value)
    if number >= 1:
        raise ValueError(f"{_shown(value)} must lie strictly between 0 and 1 (for instance 1e-8)")
    return number


def _whole(value: object) -> int:
    number = _number(value)
    if number.denominator != 1:
        raise ValueError(f"{_shown(value)} must be an integer")
    return int(number)


def _option(value: object) -> Any:
    """A mechanism's option; its own type decides what is right."""
    if isinstance(value, dict):
        return {key: _option(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_option(item) for item in value]
    if isinstance(value, Plain) and value.kind == "number":
        number = _number(value)
        return int(number) if number.denominator == 1 else float(number)
    if isinstance(value, Plain) and value.kind == "boolean":
        return value.text.lower() in ("yes", "true", "on")
    return _text(value)


def _split_kind(value: object) -> str:
    return "weights" if isinstance(value, dict) else "name"


def _split_name(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f'{_shown(value)} must be "even", or a mapping from level names to weights')
    return value


Text = Annotated[str, PlainValidator(_text)]
Texts = Annotated[tuple[Text, ...], BeforeValidator(_list)]
Whole = Annotated[int, PlainValidator(_whole)]
Positive = Annotated[Fraction, PlainValidator(_positive)]
Probability = Annotated[Fraction, PlainValidator(_probability)]
Option = Annotated[Any, PlainValidator(_option)]
Split = Annotated[
    Annotated[str, PlainValidator(_split_name), Tag("name")] | Annotated[dict[str, Positive], Tag("weights")],
    Discriminator(_split_kind),
]


# --- The spec -------------------------------------------------------------------------------------------------------


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class HierarchySpec(_Model):
    """A public hierarchy."""

    path: Text = Field(description="give the path or glob of the table of leaves (Parquet, CSV)")
    levels: Texts = Field(description="list its columns, top level first: levels: [state, county]")


class BudgetSpec(_Model):
    """What may be spent."""

    epsilon: Positive | None = Field(None, description="ε > 0")
    delta: Probability | None = Field(None, description="δ between 0 and 1, beside epsilon")
    rho: Positive | None = Field(None, description="ρ > 0, alone")

    @model_validator(mode="after")
    def _one_kind(self) -> BudgetSpec:
        if (self.epsilon is None) == (self.rho is None):
            raise ValueError("give either epsilon (with or without delta) or rho")
        if self.rho is not None and self.delta is not None:
            raise ValueError("delta has no place beside rho; a zCDP budget is rho alone")
        return self


class MechanismSpec(_Model):
    """How measurements become published numbers."""

    name: Text = Field(description="name one, such as TopDown for counts or Matching for group sizes")
    options: dict[str, Option] = Field({}, description="give its options by name: options: {projection: euclidean}")


class EngineSpec(_Model):
    """What the tabulation may use of this machine."""

    memory_limit: Text | None = Field(None, description='memory for grouping the records, such as "4GB"')
    threads: Whole | None = Field(None, description="how many threads")
    temp_directory: Text | None = Field(None, description="an existing folder to spill to")


class Spec(_Model, ABC):
    """What every kind of release shares; see `tallytree.release_counts` for the meaning of the keys."""

    statistic: str
    budget: BudgetSpec = Field(description="give epsilon (with or without delta) or rho: budget: {epsilon: 1.0}")
    neighboring: Text = Field(description="choose what is protected: add_remove or change_one")
    max_contributions: Whole = Field(1, description="the most records of one person")
    mechanism: MechanismSpec | None = Field(
        None, description="give its name, and options if any: mechanism: {name: TopDown}"
    )
    budget_split: Split | None = Field(None, description="even, or a weight for each measured level")
    accounting: Text | None = Field(None, description="zcdp or paper; for a budget with delta")
    on_unknown: Text = Field("error", description="error, or drop records outside the hierarchy")
    seed: Whole | None = Field(None, description="for experiments: reproducible noise, a release that is not private")
    noise: Text = Field("keyed", description="keyed or opendp")
    engine: EngineSpec | None = Field(
        None, description="give memory_limit, threads or temp_directory: engine: {threads: 2}"
    )

    tables: ClassVar[tuple[str, ...]]
    """The keys whose values are tables' paths."""
    mechanisms: ClassVar[tuple[Any, type]] = (counts, counts.CountsMechanism)
    """The package of the mechanisms, and what they are."""

    _document: Document = PrivateAttr()

    @abstractmethod
    def job(self, *, progress: bool = False) -> CountsJob | GroupSizesJob:
        """Plan the release: all arguments are validated and the public hierarchy is read, no private table is opened.

        Raises:
            SpecError: something in the spec is wrong.
            BudgetExceeded: more than the budget would be spent.
            OSError: a public table cannot be read.
        """

    def check(self) -> CountsJob | GroupSizesJob:
        """Plan the release and check the private tables' schemas, reading no private row; nothing is spent.

        Raises:
            SpecError, BudgetExceeded, OSError: as for `job`, and where a schema does not fit.
        """
        job = self.job()
        with self._naming_lines():
            job.check()
        return job

    def release(self, folder: str | os.PathLike[str], *, csv: bool = False, progress: bool = False) -> Release:
        """Release and save; this spends the budget.

        The saved spec names tables as this spec does, so a release does not tell where its publisher keeps them.

        Args:
            folder: where to; it must not exist yet, which is checked before anything is drawn.
            csv: write every published table as CSV too.
            progress: show a progress bar on standard error.

        Raises:
            SpecError, BudgetExceeded: see `job`; also where the records do not fit. Nothing was published.
            FileExistsError: the folder exists; nothing was drawn.
            OSError: the place cannot be written to (found out before anything is drawn), or the disk is full.
        """
        require_writable(refuse_existing(folder))
        job = self.job(progress=progress)
        with self._naming_lines():
            release = job.run()
        named = {key: getattr(self, key) for key in self.tables}
        release = dataclasses.replace(release, spec={**release.spec, **named})
        release.save(folder, csv=csv)
        return release

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
        )

    def _budget(self) -> Budget:
        given = {name: value for name, value in self.budget if value is not None}
        return Budget(**given)

    def _build_hierarchy(self, key: str) -> Hierarchy:
        wanted: HierarchySpec = getattr(self, key)
        with self._naming_lines(hierarchy=(key, "path"), levels=(key, "levels")):
            return Hierarchy.from_table(self._path(wanted.path), levels=wanted.levels)

    def _build_mechanism(self, wanted: MechanismSpec) -> Any:
        known = known_mechanisms(*self.mechanisms)
        if wanted.name not in known:
            raise self._document.error(
                ("mechanism", "name"), _unknown(wanted.name, known, f"mechanism for {self.statistic}")
            )
        options = [field.name for field in dataclasses.fields(known[wanted.name]) if field.init]
        for option in wanted.options:
            if option not in options:
                message = _unknown(option, options, f"option of {wanted.name}")
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

    @contextmanager
    def _naming_lines(self, **keys: KeyPath) -> Iterator[None]:
        """Errors that begin with an argument's name also name the spec and the line of its key.

        Args:
            **keys: where arguments that are not keys of the top level are written.
        """
        try:
            yield
        except (ValueError, TypeError) as error:
            argument = _ARGUMENT.match(str(error))
            # Only the library's own errors begin so; what others say may quote a record, and is left alone.
            if type(error) not in (ValueError, TypeError) or argument is None:
                raise
            path = keys.get(argument[0]) or self._key_of(argument[0])
            rest = str(error)[argument.end() :]
            located = f"{self._document.name}: {error}" if path is None else f"{self._document.place(path)}{rest}"
            raise SpecError(located) from error

    def _key_of(self, argument: str) -> KeyPath | None:
        """Where an argument of the library is written in this spec."""
        homes: list[KeyPath] = [(), ("budget",), ("mechanism", "options"), ("engine",)]
        return next(((*home, argument) for home in homes if (*home, argument) in self._document.lines), None)


class CountsSpec(Spec):
    """The spec of `tallytree.release_counts`."""

    statistic: Literal["counts"]
    records: Text = Field(description="give the path or glob of the private table (Parquet, CSV)")
    hierarchy: HierarchySpec = Field(
        description="give the public tree: hierarchy: {path: areas.parquet, levels: [state]}"
    )
    count: Text | None = Field(None, description="the column with the number of records of a row")

    tables = ("records",)

    def job(self, *, progress: bool = False) -> CountsJob:
        """See `Spec.job`."""
        hierarchy = self._build_hierarchy("hierarchy")
        with self._naming_lines():
            records = self._path(self.records)
            return counts_job(records, hierarchy, self._budget(), self._options(progress), count=self.count)


class FlowsSpec(Spec):
    """The spec of `tallytree.release_flows`."""

    statistic: Literal["flows"]
    trips: Text = Field(description="give the path or glob of the private table (Parquet, CSV)")
    origins: HierarchySpec = Field(description="give the public tree: origins: {path: areas.parquet, levels: [state]}")
    destinations: HierarchySpec = Field(
        description="give the public tree: destinations: {path: areas.parquet, levels: [state]}"
    )
    origin: Texts = Field(description="list the columns of trips with the origin, top first: origin: [home_state]")
    destination: Texts = Field(
        description="list the columns of trips with the destination, top first: destination: [work_state]"
    )
    tree: Text = Field("destination", description="destination or origin, whichever is refined first")
    count: Text | None = Field(None, description="the column with the number of trips of a row")

    tables = ("trips",)

    def job(self, *, progress: bool = False) -> CountsJob:
        """See `Spec.job`."""
        origins, destinations = self._build_hierarchy("origins"), self._build_hierarchy("destinations")
        with self._naming_lines():
            return flows_job(
                self._path(self.trips),
                self._budget(),
                self._options(progress),
                origins=origins,
                destinations=destinations,
                origin=self.origin,
                destination=self.destination,
                tree=self.tree,
                count=self.count,
            )


class GroupSizesSpec(Spec):
    """The spec of `tallytree.release_group_sizes`."""

    statistic: Literal["group_sizes"]
    records: Text = Field(description="give the path or glob of the private table (Parquet, CSV)")
    hierarchy: HierarchySpec = Field(
        description="give the public tree: hierarchy: {path: areas.parquet, levels: [state]}"
    )
    group: Text | None = Field(None, description="for entity rows: the column that names an entity's group")
    size: Text | None = Field(None, description="for (leaf, size, groups) rows: the column with the size")
    groups: Text | None = Field(None, description="for (leaf, size, groups) rows: the column with the number of groups")
    public_groups: Text | None = Field(None, description="for entity rows: the public table of groups per leaf")
    max_group_size: Whole = Field(10_000, description="larger groups are set to it")
    min_group_size: Whole = Field(0, description="smaller groups are set to it")

    tables = ("records", "public_groups")
    mechanisms = (sizes, sizes.SizesMechanism)

    def job(self, *, progress: bool = False) -> GroupSizesJob:
        """See `Spec.job`."""
        hierarchy = self._build_hierarchy("hierarchy")
        with self._naming_lines():
            return group_sizes_job(
                self._path(self.records),
                hierarchy,
                self._budget(),
                self._options(progress),
                group=self.group,
                size=self.size,
                groups=self.groups,
                public_groups=None if self.public_groups is None else self._path(self.public_groups),
                max_group_size=self.max_group_size,
                min_group_size=self.min_group_size,
            )


SPECS: dict[str, type[Spec]] = {"counts": CountsSpec, "flows": FlowsSpec, "group_sizes": GroupSizesSpec}


def load_spec(path: str | os.PathLike[str]) -> Spec:
    """Read and validate a spec; tables are not opened yet, and paths are relative to the spec's folder.

    Raises:
        SpecError: the file is not a spec, or a key or value is wrong.
        OSError: the file cannot be read.

    Example:
        >>> from tallytree.spec import load_spec
        >>> load_spec("examples/counts.yaml").statistic
        'counts'
    """
    document = read_document(path)
    statistic = document.data.get("statistic")
    if statistic is None:
        raise document.error(("statistic",), f"is missing; choose {_alternatives(SPECS)}")
    if not isinstance(statistic, str) or statistic not in SPECS:
        raise document.error(("statistic",), f"{_shown(statistic)} is not known; choose {_alternatives(SPECS)}")
    model = SPECS[statistic]
    try:
        spec = model.model_validate(document.data)
    except ValidationError as error:
        raise _explained(document, model, error.errors()) from None
    spec._document = document
    with spec._naming_lines():
        spec._options().terms()
    return spec


def known_mechanisms(package: Any, protocol: type) -> dict[str, type]:
    """The mechanisms that a package exports: its dataclasses that meet the package's protocol."""
    exported = {name: getattr(package, name) for name in package.__all__}
    return {
        name: value
        for name, value in exported.items()
        if isinstance(value, type) and dataclasses.is_dataclass(value) and issubclass(value, protocol)
    }


def require_writable(target: Path) -> None:
    """Try whether a folder could be made, without leaving a trace.

    Args:
        target: the folder, an absolute path; the folders above it need not exist yet.

    Raises:
        OSError: it could not.
    """
    above = next(folder for folder in target.parents if os.path.lexists(folder))
    try:
        tempfile.TemporaryDirectory(prefix=f".{target.name}.", suffix=".partial", dir=above).cleanup()
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}; {target.name!r} cannot be made there", str(above)) from None


# --- From pydantic's findings to messages ---------------------------------------------------------------------------

_WANTED = {
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
}


def _explained(document: Document, model: type[Spec], errors: Sequence[ErrorDetails]) -> SpecError:
    """One error for all findings: the first one whole, unknown keys before what may be missing because of them."""
    found: list[tuple[int, int, str, str]] = []
    for error in errors:
        kind = error["type"]
        path = _path_in(document, error["loc"], missing=kind == "missing")
        rank = {"extra_forbidden": 0, "missing": 2}.get(kind, 1)
        message = _finding(model, path, error, given=path in document.lines)
        found.append((rank, document.lines.get(path, 0), str(document.error(path, message)), str(path[-1])))
    (_, _, first, _), *others = sorted(found)
    more = sum(not first.endswith(f"did you mean {key}?") for _, _, _, key in others)
    return SpecError(f"{first} (and {more} more)" if more else first)


def _path_in(document: Document, loc: Sequence[str | int], *, missing: bool) -> KeyPath:
    """The key path of a finding, without what pydantic adds (the branch of a union)."""
    path: KeyPath = ()
    for i, part in enumerate(loc):
        if (*path, part) in document.lines or (missing and i == len(loc) - 1):
            path = (*path, part)
    return path


def _finding(model: type[Spec], path: KeyPath, error: ErrorDetails, *, given: bool) -> str:
    kind = error["type"]
    if kind == "extra_forbidden":
        return _unknown_key(model, path)
    if kind == "missing":
        return f"{'has no value' if given else 'is missing'}; {_description(model, path)}"
    if kind == "value_error":
        return str(error["ctx"]["error"])
    if kind in _WANTED:
        return f"{_shown(error['input'])} {_WANTED[kind]}; {_description(model, path)}"
    return error["msg"]


def _model_at(model: type[BaseModel], path: KeyPath) -> type[BaseModel] | None:
    """The model of the mapping at a path; None where any key may be."""
    here: type[BaseModel] | None = model
    for part in path:
        here = None if here is None else _model_of(here, str(part))
    return here


def _model_of(model: type[BaseModel], key: str) -> type[BaseModel] | None:
    field = model.model_fields.get(key)
    kinds = [] if field is None else [field.annotation, *getattr(field.annotation, "__args__", ())]
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


def _description(model: type[BaseModel], path: KeyPath) -> str:
    above = _model_at(model, path[:-1])
    field = None if above is None else above.model_fields.get(str(path[-1]))
    return (field.description if field else None) or "see docs/spec.md"


def _unknown_key(model: type[Spec], path: KeyPath) -> str:
    key = str(path[-1])
    above = _model_at(model, path[:-1])
    known = [] if above is None else list(above.model_fields)
    near = difflib.get_close_matches(key, known, n=1)
    if near:
        return f"unknown key; did you mean {near[0]}?"
    if len(path) == 1:
        inner = [f"{name}.{key}" for name in known if key in getattr(_model_of(model, name), "model_fields", {})]
        if inner:
            return f"unknown key; did you mean {inner[0]}?"
        statistic = next((name for name, other in SPECS.items() if key in other.model_fields), None)
        if statistic:
            return f"is a key for {statistic}, not for {_statistic(model)}"
    return f"unknown key; the keys here are {', '.join(known)}"


def _statistic(model: type[Spec]) -> str:
    return next(name for name, known in SPECS.items() if known is model)


def _unknown(name: str, known: Sequence[str] | Mapping[str, Any], what: str) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    guess = f"did you mean {near[0]}? " if near else ""
    return f"{name!r} is not {_article(what)}; {guess}known: {', '.join(known) or 'none'}"


def _alternatives(names: Mapping[str, Any]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}"
