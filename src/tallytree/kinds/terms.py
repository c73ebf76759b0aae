"""What is protected, and how the noise is chosen: the options that every floor may read, each with its description.

An option is a field of a dataclass here or in `tallytree.run.arguments`: its type, its default and its description
stand there, once. Signatures, help texts, the spec and the audit are made from these fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, TypeAlias, get_args

from tallytree.budget import BudgetSplit
from tallytree.support.validate import choice, integer, require_packages, safe_text, text

Neighboring = Literal["add_remove", "change_one"]
"""The neighboring relation."""

NeighboringName = Literal["add_remove", "change_one", "unbounded", "bounded", "replace_one"]
"""The names that a neighboring relation can be given by."""

ALIASES: dict[str, Neighboring] = {
    "add_remove": "add_remove",
    "unbounded": "add_remove",
    "change_one": "change_one",
    "bounded": "change_one",
    "replace_one": "change_one",
}
Accounting = Literal["pld", "zcdp", "paper"]
"""How a budget with δ is accounted for."""
OnUnknown = Literal["error", "drop"]
UnknownRecords: TypeAlias = Annotated[OnUnknown | Mapping[str, str], "text or texts"]
"""What becomes of a record outside the hierarchy: `OnUnknown`, or by leaf level the label of the leaf it counts in."""
NoiseName = Literal["keyed", "opendp"]
AUTO: Literal["auto"] = "auto"
"""The contribution bound that is chosen when the release is made; see `run.auto_bound`."""
RecordsOfAPerson: TypeAlias = Annotated[int | Literal["auto"], "contribution bound"]
"""A contribution bound, or `AUTO`."""
Unit = Literal["record", "trip", "membership"]
"""What a person has up to `max_contributions` of."""
ProtectedUnit = Literal["person", "record", "trip", "membership"]
"""What the losses of a data set are added up for: a person, in every statistic, or what one statistic counts."""
Invariants = Literal["groups", "total", "none"]
"""Of the numbers of groups, what is published exactly: that of every leaf, their sum, or nothing."""


@dataclass(frozen=True)
class Doc:
    """The description of an option.

    Attributes:
        text: for help texts: what the option means.
        hint: for messages about a spec, and for the command line: what to give; by default the text.
        value: what the command line calls the value of an option that it has too.
    """

    text: str
    hint: str | None = None
    value: str | None = None


OF_A_RUN: dict[str, Doc] = {
    "run": Doc(
        "a name for the release, such as the day that it is about. The ledger admits a run of a data set once; "
        "with a `secret` the same run can be repeated.",
        hint='name the run, such as "2026-11-22"',
        value="NAME",
    ),
    "secret": Doc(
        "a file with the publisher's secret, made by `tallytree secret new`. The keys are then derived from it, "
        "the data set, the run and the plan: the same run on the same records makes the same release and costs "
        "nothing more. It needs `run`, `ledger` and `dataset`.",
        hint="give the path of the secret that `tallytree secret new` made; with it a run is repeated free of charge",
        value="FILE",
    ),
    "on_changed": Doc(
        'where the ledger has the run already, but with another plan or other records: `"error"`, or `"charge"` to '
        "make it a new release and charge it as one.",
        hint="error, or charge a changed run as a new release",
        value="error|charge",
    ),
    "revises": Doc(
        "the folder of an earlier release that this one takes the place of, since records were late or wrong. "
        "This is a new release, with noise of its own, and is charged as one; its statement names the earlier one. "
        "Both are of the same statistic, levels and public tree.",
        hint="give the folder of the earlier release that this one takes the place of; it is charged as a new one",
        value="DIR",
    ),
    "ledger": Doc(
        "a file, or a `tallytree.ledger.Ledger`, in which the release is recorded before its noise is drawn, and "
        "which refuses it where the data set's limit has no room. The file is made where there is none.",
        hint="give the path of the ledger that keeps what is spent",
        value="LEDGER",
    ),
    "dataset": Doc(
        "the data set's name in the ledger; the same for all releases of the same people.",
        hint="give the data set's name in the ledger",
        value="NAME",
    ),
    "approved_by": Doc("for the ledger: who approved the release.", value="NAME"),
    "reason": Doc("for the ledger: why it is made.", value="TEXT"),
    "ticket": Doc("for the ledger: a reference, such as the number of a ticket.", value="TEXT"),
    "memory": Doc(
        'about how much memory the run may take, such as `"4GB"`: what does not fit is worked on part by part, '
        "from and to temporary files. The released numbers do not depend on it. By default all is done in memory.",
        hint='about how much memory the run may take, such as "4GB"',
        value="AMOUNT",
    ),
}
"""The options of a run that the command line has too. They stand here, since help must not import what runs need."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class NoiseTerms:
    """The options that decide how much noise there is, for whom. A release and an audit have them in common."""

    neighboring: Annotated[
        NeighboringName,
        Doc(
            'what one neighboring change is. `"add_remove"` (alias `"unbounded"`): a person is added or removed. '
            '`"change_one"` (aliases `"bounded"`, `"replace_one"`): the content of a person\'s records changes. There '
            "is no default: the publisher must choose.",
            hint="choose what is protected: add_remove or change_one",
        ),
    ]
    max_contributions: Annotated[
        RecordsOfAPerson,
        Doc(
            "the most records of one person. It is assumed, not enforced, unless `person` names the people. With "
            '`person` and `contributions` also `"auto"`: it is chosen from what `contributions` measures.',
            hint="the most records of one person, or auto",
        ),
    ] = 1
    budget_split: Annotated[
        BudgetSplit,
        Doc(
            'the shares of the measured levels. `"even"`, a weight for each measured level, or `"auto"`, which chooses '
            "the weights from public facts (the rules are in `docs/explanation/counts.md` and "
            "`docs/explanation/group-sizes.md`). The default "
            'is `"auto"` for `tallytree.sizes.Joint`, which group sizes have by default, and `"even"` otherwise.',
            hint="even, auto, or weights by level",
        ),
    ] = None
    accounting: Annotated[
        Accounting | None,
        Doc(
            'for a budget with δ: `"pld"` (privacy-loss distributions, the tightest; the default where it is proven), '
            '`"zcdp"` (tight conversion of ρ, the default elsewhere) or `"paper"`.',
            hint="pld, zcdp or paper; for a budget with delta",
        ),
    ] = None
    noise: Annotated[
        NoiseName,
        Doc(
            '`"keyed"`, or `"opendp"` to draw from OpenDP (extra `tallytree[opendp]`).',
            hint="keyed or opendp",
        ),
    ] = "keyed"

    def __post_init__(self) -> None:
        """Check the options; the relation gets its own name.

        Raises:
            ValueError: a value that is out of range or not known.
            TypeError: a value of the wrong kind.
            ModuleNotFoundError: OpenDP is asked for and not installed.
        """
        object.__setattr__(self, "neighboring", neighboring_relation(self.neighboring))
        if isinstance(self.max_contributions, str):
            if self.max_contributions != AUTO:
                raise TypeError(f'max_contributions: {safe_text(self.max_contributions)} must be an integer, or "auto"')
        else:
            m = integer(self.max_contributions, "max_contributions", least=1, most=10**6)
            object.__setattr__(self, "max_contributions", m)
        if not isinstance(self.budget_split, str | Mapping | None):
            raise TypeError(
                f'budget_split: {safe_text(self.budget_split)} must be "even", "auto", or a mapping from level names '
                "to weights"
            )
        if self.accounting is not None:
            text(self.accounting, "accounting", '"pld", "zcdp" or "paper"')
        choice(self.noise, "noise", get_args(NoiseName))
        if self.noise == "opendp":
            require_packages("noise", '"opendp"', {"opendp": "OpenDP"}, "opendp")

    @property
    def bound(self) -> int:
        """The contribution bound m, as a number.

        Raises:
            ValueError: it is not chosen yet, so no noise can be planned for it.
        """
        if isinstance(self.max_contributions, str):
            raise ValueError(
                f"max_contributions: {self.max_contributions!r} is chosen when a release is made, and a number is "
                "needed here; give one"
            )
        return self.max_contributions

    @property
    def relation(self) -> Neighboring:
        """The neighboring relation by its own name."""
        return neighboring_relation(self.neighboring)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Terms(NoiseTerms):
    """What a release protects, and how its run behaves."""

    on_unknown: Annotated[
        UnknownRecords,
        Doc(
            'a record outside the hierarchy, or with text in `period_column` that is no date, is an `"error"`, or is '
            'left out (`"drop"`; the total is private then). Or '
            'a mapping such as `{"county": "other"}`: of hierarchies with these leaf levels, unknown and null codes '
            'count in the leaf that the public table has for them. Or `{"county": "parent"}`: a record with an unknown '
            'or null county counts below its state, in a leaf `"unknown"`, which the tree gets below every parent at '
            "every level from that one down. A county that lies in another state stays an error.",
            hint="error, drop, or by level a leaf for unknown codes, or parent: {county: other}",
        ),
    ] = "error"
    seed: Annotated[
        int | None,
        Doc(
            "makes the noise reproducible, and the release **not private**; for tests and experiments. Other data, "
            "mechanisms or options draw other noise from the same seed.",
            hint="for experiments: reproducible noise, a release that is not private",
        ),
    ] = None

    def __post_init__(self) -> None:
        """Check the options; see `NoiseTerms`."""
        super().__post_init__()
        if isinstance(self.on_unknown, Mapping):
            for level, label in self.on_unknown.items():
                text(level, "on_unknown", "the name of a level")
                text(label, "on_unknown", "the label of a leaf, or parent")
        else:
            choice(self.on_unknown, "on_unknown", get_args(OnUnknown))
        if self.seed is not None:
            if self.noise == "opendp":
                raise ValueError('seed: OpenDP draws from the operating system and takes no seed; use noise="keyed"')
            object.__setattr__(self, "seed", integer(self.seed, "seed"))

    @property
    def person_column(self) -> str | None:
        """The column that names the people, where the contribution bound is enforced; None where it is assumed."""
        return None

    @property
    def distinct_people(self) -> bool:
        """Whether a person counts at most once in a leaf."""
        return False

    @property
    def key_from_secret(self) -> bool:
        """Whether the noise key is derived from a secret of the publisher's."""
        return False

    @property
    def checked_period(self) -> tuple[str, str] | None:
        """The column that says when a record was, and the days of those that are kept; None where all are."""
        return None

    @property
    def total_is_public(self) -> bool:
        """Whether no neighboring change can alter the number of records counted.

        Replacing one person leaves it as it is only where everyone has exactly one record, all of which count: with up
        to m records, or with records dropped for lying outside the hierarchy or the period or over a bound, a
        replacement can change it. So it is private wherever people are named, also for m = 1: a person may have no
        record that counts.
        """
        one_each = self.max_contributions == 1 and self.person_column is None
        all_count = self.on_unknown != "drop" and self.checked_period is None
        return self.relation == "change_one" and one_each and all_count


def neighboring_relation(name: str) -> Neighboring:
    """The relation behind a name or its alias.

    Raises:
        ValueError: an unknown name.
        TypeError: not a name.
    """
    known = '"add_remove" (alias "unbounded") or "change_one" (aliases "bounded", "replace_one")'
    if not isinstance(name, str):
        raise TypeError(f"neighboring: {safe_text(name)} must be {known}")
    if name not in ALIASES:
        raise ValueError(f"neighboring: {name!r} is not known; choose {known}")
    return ALIASES[name]


def options_of(arguments: Any, base: type) -> dict[str, Any]:
    """The options that arguments have from a base, by name: to hand all of them on, whichever there are."""
    return {field.name: getattr(arguments, field.name) for field in fields(base)}
