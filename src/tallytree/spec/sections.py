"""The sections of a spec: those keys whose values are mappings with keys of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, model_validator

from tallytree.kinds.contributions import DEFAULT_AT_MOST as PEOPLE_UP_TO
from tallytree.kinds.contributions import DEFAULT_SHARE as SHARE_OF_PEOPLE
from tallytree.sizes.private_maximum import DEFAULT_AT_MOST, DEFAULT_SHARE
from tallytree.sources.kinds import TABLE_SOURCES
from tallytree.spec.scalars import NUMBER, Flag, Integer, Option, Positive, Probability, Text, Texts, integer_as_written
from tallytree.spec.table_values import Table
from tallytree.spec.wording import closest


class Section(BaseModel):
    """A mapping with known keys; a field's description says what to give, in messages too."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class HierarchySpec(Section):
    """A public hierarchy."""

    path: Table = Field(description="give the path or glob of the table of leaves (Parquet, CSV)")
    levels: Texts | None = Field(None, description="list its columns, top level first: levels: [state, county]")
    finer: Flag = Field(False, description="true if the table is one of smaller areas, so that its paths repeat")
    child: Text | None = Field(None, description="of a list of areas and parents, name the column of the area's code")
    parent: Text | None = Field(None, description="name the column of the code of the area above, null at the top")
    level: Text | None = Field(None, description="name the column of the name of the area's level")
    labels: Text | dict[str, Text | dict[str, Text]] | None = Field(
        None,
        description=(
            "name the columns of the table that have names beside the codes, by level: labels: {county: name}, or by "
            "language: labels: {county: {en: name_en, de: name_de}}; of a list of areas and their parents one column, "
            "labels: name, or by language: labels: {en: name_en}"
        ),
    )
    words: dict[str, Text | dict[str, Text]] | None = Field(
        None, description="say what people read in place of a level's name: words: {county: counties}"
    )

    @model_validator(mode="before")
    @classmethod
    def _table_beside_levels(cls, given: Any) -> Any:
        # {csv: …, levels: …} is short for {path: {csv: …}, levels: …}
        if not isinstance(given, dict) or "path" in given or not TABLE_SOURCES.keys() & given.keys():
            return given
        table = {key: value for key, value in given.items() if key not in cls.model_fields}
        return {"path": table} | {key: given[key] for key in given.keys() - table.keys()}

    @model_validator(mode="after")
    def _one_kind(self) -> HierarchySpec:
        if (self.levels is None) == (self.parents is None):
            raise ValueError(
                "give levels, the columns of a table of leaves, top level first: levels: [state, county]; or child, "
                "parent and level, the columns of a list of areas and their parents"
            )
        if self.parents is not None and self.finer:
            raise ValueError("finer goes with levels; a list of areas and their parents has every area once")
        return self

    @property
    def parents(self) -> dict[str, Any] | None:
        """The columns of a list of areas and their parents, by the argument of `Hierarchy.from_parents`."""
        named = {"child": self.child, "parent": self.parent, "level": self.level}
        given = {name: column for name, column in named.items() if column is not None}
        if given and len(given) < len(named):
            raise ValueError(f"{' and '.join(given)} need the other ones of child, parent and level; give all three")
        return given or None


class ProductSpec(Section):
    """The cross of several public hierarchies, refined one attribute at a time."""

    attributes: dict[str, HierarchySpec] = Field(
        description="give each attribute its public tree: attributes: {sex: {path: sexes.csv, levels: [sex]}}"
    )
    order: Texts | None = Field(
        None,
        description=(
            "list the attribute that each step refines by one of its columns: order: [disease, disease, sex]; leave it "
            "out for tables"
        ),
    )
    columns: dict[str, Texts] = Field(
        {}, description="name the private table's columns by attribute, top first: columns: {sex: [patient_sex]}"
    )
    impossible: str | Texts | None = Field(
        None,
        description=(
            "name a public table, or several, of combinations that no record can have: impossible: no_such_cells.csv; "
            "its columns are levels of two or more attributes"
        ),
    )
    words: dict[str, Text | dict[str, Text]] | None = Field(
        None,
        description=(
            "say what people read in place of the name of a column or an attribute: words: {patient_sex: patients}"
        ),
    )


TREES: tuple[type[Section], ...] = (HierarchySpec, ProductSpec)


def best_fit(given: Mapping[str, object], models: Iterable[type[BaseModel]]) -> type[BaseModel]:
    """The section that most of the keys, or keys much like them, belong to; the first of several."""
    first = list(islice(given, 50))  # more keys than any section has
    return max(models, key=lambda model: sum(closest(key, model.model_fields) is not None for key in first))


def _tree(value: object) -> Any:
    # A finding in it is found at its key; what is no mapping at all is refused as a hierarchy is.
    return (best_fit(value, TREES) if isinstance(value, dict) else HierarchySpec).model_validate(value)


TreeSpec = Annotated[HierarchySpec | ProductSpec, PlainValidator(_tree)]


class BudgetSpec(Section):
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


class MechanismSpec(Section):
    """How measurements become published numbers."""

    name: Text = Field(description="name one, such as TopDown for counts or Matching for group sizes")
    options: dict[str, Option] = Field({}, description="give its options by name: options: {projection: euclidean}")


class PrivateMaximumSpec(Section):
    """How the largest size is measured where it is private."""

    share: Probability = Field(DEFAULT_SHARE, description="the share of the budget that measures it, between 0 and 1")
    at_most: Integer = Field(DEFAULT_AT_MOST, description="what is public: no group is counted as larger")


def _largest_size(value: object) -> int | str | PrivateMaximumSpec:
    match value:
        case dict() if not value:
            raise ValueError("an empty mapping must name share or at_most; or write private, for their defaults")
        case dict():
            return PrivateMaximumSpec.model_validate(value)  # a finding in it is found at its key
        case "private":
            return value
        case str() if not NUMBER.fullmatch(value.strip()):
            raise ValueError(f"{value!r} must be an integer, private, or a mapping such as {{share: 0.01}}")
    return integer_as_written(value)


LargestSize = Annotated[int | str | PrivateMaximumSpec, PlainValidator(_largest_size)]


class ContributionsSpec(Section):
    """How people are counted by their number of records."""

    share: Probability = Field(SHARE_OF_PEOPLE, description="the share of the budget that measures it, between 0 and 1")
    at_most: Integer = Field(PEOPLE_UP_TO, description="what is public: people with more are counted as with so many")


def _contributions(value: object) -> Any:
    if value == {}:
        raise ValueError("an empty mapping must name share or at_most; or write the share alone, such as 0.05")
    return value if isinstance(value, dict) else {"share": value}


ContributionsOption = Annotated[ContributionsSpec, BeforeValidator(_contributions)]


class EngineSpec(Section):
    """Where the records are tabulated, and what that may use."""

    name: Text = Field("local", description="local: on this machine; spark: on a Spark cluster")
    memory_limit: Text | None = Field(None, description='memory for grouping the records, such as "4GB"')
    threads: Integer | None = Field(None, description="how many threads")
    temp_directory: Text | None = Field(None, description="an existing folder to spill to")
    master: Text | None = Field(None, description='the Spark master, such as "local[4]"')
    conf: dict[str, Text] | None = Field(None, description="settings of Spark: conf: {spark.executor.memory: 8g}")


def _engine(value: object) -> object:
    # `engine: spark` is short for `engine: {name: spark}`.
    return {"name": value} if isinstance(value, str) else value


EngineOption = Annotated[EngineSpec, BeforeValidator(_engine)]
