"""The arguments that every kind of release shares, checked before any private data is touched."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Literal, cast, get_args

from tallytree.validate import integer

Neighboring = Literal["add_remove", "change_one"]
"""The neighbouring relation."""

NeighboringName = Literal["add_remove", "change_one", "unbounded", "bounded", "replace_one"]
"""The names that a neighbouring relation can be given by."""

ALIASES: dict[str, Neighboring] = {
    "add_remove": "add_remove",
    "unbounded": "add_remove",
    "change_one": "change_one",
    "bounded": "change_one",
    "replace_one": "change_one",
}

OnUnknown = Literal["error", "drop"]
NoiseName = Literal["keyed", "opendp"]
Unit = Literal["record", "trip", "membership"]
Invariants = Literal["groups", "total", "none"]
"""Of the numbers of groups, what is published exactly: that of every leaf, their sum, or nothing."""

UNITS: dict[str, Unit] = {"counts": "record", "flows": "trip", "group_sizes": "membership"}
"""What a person has up to `max_contributions` of, by statistic."""


@dataclass(frozen=True)
class Terms:
    """What is protected, and how a run behaves.

    Attributes:
        neighboring: the neighbouring relation.
        max_contributions: m, the most records of one person.
        on_unknown: what is done with a record outside the hierarchy.
        noise: where the noise comes from.
        seed: makes the noise reproducible, and the release not private; None for a real release.
        person: the column that names the person whom a record belongs to, where m is enforced; None: it is assumed.
        distinct: whether a person counts at most once in a leaf.

    Raises:
        ValueError: distinct without a person.
    """

    neighboring: Neighboring
    max_contributions: int
    on_unknown: OnUnknown
    noise: NoiseName
    seed: int | None
    person: str | None = None
    distinct: bool = False

    def __post_init__(self) -> None:
        """Refuse a smaller sensitivity that nothing enforces."""
        if self.distinct and self.person is None:
            raise ValueError(
                "distinct: True counts every person at most once in a leaf, so it needs person, the column that names "
                "them; give it, or leave distinct out"
            )

    @property
    def total_is_public(self) -> bool:
        """Whether no neighbouring change can alter the number of records counted.

        Replacing one person leaves it as it is only where everyone has exactly one record, all of which count: with up
        to m records, or with records dropped for lying outside the hierarchy or over a bound, a replacement can change
        it. So it is private wherever people are named, also for m = 1: a person may have no record that counts.
        """
        one_each = self.max_contributions == 1 and self.person is None
        return self.neighboring == "change_one" and one_each and self.on_unknown == "error"


def checked_terms(
    neighboring: str,
    max_contributions: int,
    on_unknown: str,
    noise: str,
    seed: int | None,
    person: str | None = None,
    distinct: bool = False,
) -> Terms:
    """The terms, validated.

    Raises:
        ValueError: a value that is out of range or not known.
        TypeError: a value of the wrong kind.
        ModuleNotFoundError: OpenDP is asked for and not installed.
    """
    if on_unknown not in get_args(OnUnknown):
        raise ValueError(f'on_unknown: {on_unknown!r} is not known; choose "error" or "drop"')
    if noise not in get_args(NoiseName):
        raise ValueError(f'noise: {noise!r} is not known; choose "keyed" or "opendp"')
    if noise == "opendp" and importlib.util.find_spec("opendp") is None:  # before anything is recorded as spent
        raise ModuleNotFoundError(
            'noise: "opendp" needs OpenDP, which is not installed: pip install "tallytree[opendp]"'
        )
    if seed is not None and noise == "opendp":
        raise ValueError('seed: OpenDP draws from the operating system and takes no seed; use noise="keyed"')
    if person is not None and not isinstance(person, str):
        raise TypeError(f"person: {person!r} must be the name of a column")
    if not isinstance(distinct, bool):
        raise TypeError(f"distinct: {distinct!r} must be True or False")
    return Terms(
        neighboring_relation(neighboring),
        integer(max_contributions, "max_contributions", least=1, most=10**6),
        cast(OnUnknown, on_unknown),
        cast(NoiseName, noise),
        None if seed is None else integer(seed, "seed"),
        person,
        distinct,
    )


def neighboring_relation(name: str) -> Neighboring:
    """The relation behind a name or its alias.

    Raises:
        ValueError: an unknown name.
    """
    if name not in ALIASES:
        raise ValueError(
            f'neighboring: {name!r} is not known; choose "add_remove" (alias "unbounded") or '
            '"change_one" (aliases "bounded", "replace_one")'
        )
    return ALIASES[name]
