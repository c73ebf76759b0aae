"""The sections of a spec: those keys whose values are mappings with keys of their own."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, model_validator

from tallytree.sizes.private_maximum import DEFAULT_AT_MOST, DEFAULT_SHARE
from tallytree.spec.scalars import NUMBER, Option, Positive, Probability, Text, Texts, Whole, whole


class Section(BaseModel):
    """A mapping with known keys; a field's description says what to give, in messages too."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class HierarchySpec(Section):
    """A public hierarchy."""

    path: Text = Field(description="give the path or glob of the table of leaves (Parquet, CSV)")
    levels: Texts = Field(description="list its columns, top level first: levels: [state, county]")


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
    at_most: Whole = Field(DEFAULT_AT_MOST, description="what is public: no group is counted as larger")


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
    return whole(value)


LargestSize = Annotated[int | str | PrivateMaximumSpec, PlainValidator(_largest_size)]


class EngineSpec(Section):
    """What the tabulation may use of this machine."""

    memory_limit: Text | None = Field(None, description='memory for grouping the records, such as "4GB"')
    threads: Whole | None = Field(None, description="how many threads")
    temp_directory: Text | None = Field(None, description="an existing folder to spill to")
