"""What a data dictionary says: of the release, of each table, and of each column.

Names and labels of the release are untrusted text. They stay as they are here; each format escapes what it must.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tallytree.hierarchy import QUALITY
from tallytree.kinds.columns import NUMBERS, TYPICAL_ERROR
from tallytree.kinds.registry import kind_of
from tallytree.release.counted_unit import bound_sentence, counted_unit
from tallytree.release.intervals import COVERS
from tallytree.release.quality import TELLS_THE_NUMBER
from tallytree.release.remainders import lists_remainders
from tallytree.release.statement import description_of

NO_LICENCE = "The licence of the data is for the publisher to state."
NOTHING_MISSING = "No cell is missing: every row has a value in every column."
NAMES_MISSING = "No cell is missing, but for names: not every node has one."
SUPPRESSED = (
    "Numbers that are unreliable, or not distinguishable from 0, are left empty; quality says which. Sums, such as the "
    "numbers of coarser levels, are of all numbers, also of those that are left empty here."
)

_ERROR = (
    "Every number has noise. std_dev, where a table has it, is the standard deviation of the noise in the number, and "
    "typical_error how large the error of the published number is expected to be. ci_lower and ci_upper are the ends "
    f"of an interval for the true number. {COVERS}"
)

_VERDICT = (
    "Whether the number can be used, from its error (typical_error, or std_dev where there is none) as a share of the "
    "number: exact (it has no error); reliable; with_care; unreliable; not_distinguishable_from_0 (its 90 % interval "
    "holds 0)."
)


@dataclass(frozen=True)
class Column:
    """A column.

    Attributes:
        name: its name.
        kind: `"string"`, `"integer"` or `"number"`.
        role: `"path"` and `"key"` say what a row is about, as does `"path or empty"` in tables with rows that say how
            much is not listed; `"name or empty"` has names beside it; `"value"` (or `"value or empty"`) is the
            published number; `"error"`, `"error or empty"`, `"verdict"`, `"verdict or empty"` and, in SDMX,
            `"attribute"` are about it; `"geometry"`, or `"shape or empty"`, is that of GeoParquet.
        unit: of a number, in the plural; empty for text.
        description: what it means.
    """

    name: str
    kind: str
    role: str
    unit: str
    description: str

    @property
    def may_be_empty(self) -> bool:
        """Whether a cell may be empty."""
        return self.role == "attribute" or self.role.endswith("or empty")

    @property
    def least(self) -> int | None:
        """The least number that it may hold; None of text, and of published numbers, which may be < 0."""
        return 0 if self.kind != "string" and self.role in ("key", "error", "error or empty") else None


def described_columns(
    schema: pa.Schema,
    statement: Mapping[str, Any],
    alpha: float | None,
    *,
    suppressed: bool = False,
    names: Collection[str] = (),
) -> tuple[Column, ...]:
    """The columns of a table.

    Args:
        schema: of the table.
        statement: of the release.
        alpha: of its intervals, where they were computed for the export.
        suppressed: whether unreliable numbers are left empty.
        names: the columns that have names of nodes, each after that of the labels.
    """
    unit = "people" if "people" in schema.names else counted_unit(statement)
    errors = statement.get("errors")
    alpha = (errors or {}).get("alpha") if alpha is None else alpha
    texts = _texts(unit, alpha)
    made, labels = [], ""
    for field in schema:
        if field.name == QUALITY:
            empty = lists_remainders(statement)
            meaning = f"{_VERDICT} Empty: the error is not known." if empty else _VERDICT
            made.append(Column(QUALITY, "string", "verdict or empty" if empty else "verdict", "", meaning))
            continue
        if field.name in names:
            meaning = f"The name of the node whose label is in {labels!r}. Names may repeat. Empty: it has none."
            made.append(Column(field.name, "string", "name or empty", "", meaning))
            continue
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            labels = field.name
            meaning = f"The label of the row's node at the level {field.name!r} of a public hierarchy."
            empty = lists_remainders(statement)
            meaning += " Empty: the row says how much is not listed." if empty else ""
            made.append(Column(field.name, "string", "path or empty" if empty else "path", "", meaning))
            continue
        kind = "integer" if pa.types.is_integer(field.type) else "number"
        role, of, meaning = texts[field.name]
        if field.name == "probability_zero" and lists_remainders(statement):
            role, meaning = "error or empty", f"{meaning} Empty: the row says how much is not listed."
        if suppressed and field.name in (*NUMBERS, *TELLS_THE_NUMBER):
            role, meaning = f"{role.removesuffix(' or empty')} or empty", f"{meaning} Empty: see quality."
        made.append(Column(field.name, kind, role, of, meaning))
    return tuple(made)


def _texts(unit: str, alpha: float | None) -> dict[str, tuple[str, str, str]]:
    missed = "" if alpha is None else f" The interval misses the true number with probability {alpha:g}."
    return {
        "count": ("value", unit, f"The published number of {unit}: the true number with noise."),
        "size": ("key", "members of a group", "The size of the groups that the row is about."),
        "groups": ("value", unit, "The published number of groups of this size: the true number with noise."),
        "people": ("value", unit, "The noisy number of people with so many records; it may be negative."),
        "records_from": ("key", "records of a person", "The least number of records of the people in the row."),
        "records_to": ("key", "records of a person", "The largest number of records; the last row has more, too."),
        "std_dev": ("error", unit, "The standard deviation of the number's error, which is that of the noise."),
        TYPICAL_ERROR: (
            "error",
            unit,
            "The root mean square error that is expected of the published number, given all published noisy numbers.",
        ),
        "unbiased": (
            "error",
            unit,
            "The estimate from the noisy measurements before numbers below 0 were raised and all were rounded. It may "
            "be negative. Intervals are around it.",
        ),
        "probability_zero": (
            "error",
            "probability",
            "How probable it is that the true number is 0; 0.5 stands for 0.5 or more.",
        ),
        "ci_lower": ("error", unit, f"The lower end of an interval for the true number.{missed} {COVERS}"),
        "ci_upper": ("error", unit, f"The upper end of an interval for the true number.{missed} {COVERS}"),
        "tail_count": ("value", unit, "The published number of groups of this size or more."),
        "tail_std_dev": ("error", unit, "The standard deviation of the error of tail_count."),
        "persons": ("value", "persons", "The published number of members of these groups, all together."),
        "persons_std_dev": ("error", "persons", "The standard deviation of the error of persons."),
        "households_std_dev": (
            "error",
            unit,
            "The standard deviation of the error of the number of all groups of the area, of every size.",
        ),
        "tail_ci_lower": ("error", unit, f"The lower end of an interval for the true tail count.{missed}"),
        "tail_ci_upper": ("error", unit, f"The upper end of an interval for the true tail count.{missed}"),
    }


def title_of(statement: Mapping[str, Any]) -> str:
    """A title for the export."""
    protected = "with differential privacy" if statement["private"] else "NOT PRIVATE (seeded noise)"
    title = description_of(statement).get("title") or kind_of(statement).words.title
    return f"{title}, {protected}"


def table_text(
    name: str,
    columns: Sequence[str],
    statement: Mapping[str, Any],
    *,
    zeros_listed: bool,
    suppressed: bool = False,
    names: bool = False,
) -> str:
    """What a table with these columns, and maybe columns of names, holds."""
    missing = SUPPRESSED if suppressed else NAMES_MISSING if names else NOTHING_MISSING
    if "people" in columns:
        return f"People by their number of records, with noise. {missing}"
    kind = kind_of(statement)
    if kind.by_size:
        rows = "One row for each node and each size with groups; a size without a row has 0 groups."
    elif lists_remainders(statement):
        return (
            f"The level {name!r}. One row for each cell that is listed, and rows with empty labels: how much of the "
            "cell that their other labels name is not listed. A cell without a row is not known to be 0."
        )
    elif zeros_listed:
        rows = "One row for each node, zeros too."
    else:
        rows = "One row for each cell that is not 0; a cell without a row is published as 0."
    return f"The {kind.words.level} {name!r}. {rows} {missing}"


def about(statement: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a reader must know of the release: headings, and a sentence or more for each."""
    invariants = "; ".join(statement["invariants"]) or "none"
    release = statement["release"]
    said = description_of(statement) | {"period": release.get("period")}
    told = ("Publisher", "publisher"), ("Contact", "contact"), ("Status of the numbers", "status"), ("Period", "period")
    facts = [
        *((heading, str(said[key])) for heading, key in told if said.get(key)),
        ("Guarantee", str(statement["guarantee"])),
        ("Unit of protection", str(statement["unit_of_protection"])),
        ("Published exactly, and not protected", f"{invariants}."),
        ("Error", _ERROR),
    ]
    bound = bound_sentence(statement)
    if bound:
        facts.append(("Bound on contributions", bound))
    risk = (statement.get("risk") or {}).get("summary")
    if risk:
        facts.append(("Risk", str(risk)))
    facts += [("Note", str(note)) for note in statement["notes"]]
    facts.append(("Release", str(release["id"])))
    mechanism = statement["mechanism"]["name"]
    facts.append(("Made by", f"tallytree {statement['software'].get('tallytree', '')}, mechanism {mechanism}"))
    facts.append(("Licence", NO_LICENCE))
    return facts


def about_all(tables: Iterable[Any]) -> list[tuple[str, str]]:
    """The same of the releases of several tables, nothing twice."""
    return [*dict.fromkeys(fact for table in tables for fact in about(table.statement))]


def about_text(statement: Mapping[str, Any]) -> str:
    """The same as one text, a paragraph each."""
    return "\n\n".join(f"{heading}: {text}" for heading, text in about(statement))
