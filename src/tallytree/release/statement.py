"""The privacy statement: what a release protects, how, and what it spent. See `docs/reference/statement.md`.

A publisher may say more: a title, who publishes it, whom to ask, and what its units are called. That describes a
release and changes nothing of it: it is added to the statement after the noise was drawn, so neither the plan's digest
nor the noise key depends on it.
"""

from __future__ import annotations

import dataclasses
import platform
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from importlib import metadata
from typing import Any, Literal

from tallytree.accounting import LevelPlan, Plan, StableLevel
from tallytree.accounting.losses import float_up, shown_up
from tallytree.budget import Budget
from tallytree.kinds.foreign import code_of, is_foreign
from tallytree.kinds.registry import kind_of
from tallytree.kinds.terms import Terms
from tallytree.release.counted_unit import (
    ONCE_IN_A_CELL,
    ONCE_IN_A_LEAF,
    UNIT_KEYS,
    UNIT_OF,
    counted_unit,
    plural_of,
    worded,
)
from tallytree.support.validate import safe_text, text
from tallytree.trees.leaf_codes import PARENT

TOTAL_IS_PUBLIC = "the total number of records"
TOTALS_ARE_PUBLIC = "the total of every area at the level {!r}"
"""The invariant of counts whose total is published exactly."""

_LIMITS = (
    "The guarantee covers the released tables and measurements; the running time of the program, and whether it "
    "refused its input, are outside it.",
    "Another release about the same people adds to what is spent; the budgets of all of them add up.",
)
_NOT_AUDITED = (
    "The mechanism {} ({}) is code from outside, not audited by tallytree. It was handed noisy measurements and public "
    "facts; the guarantee rests on that it uses nothing else."
)
_ASSUMED = "That nobody has more records than max_contributions is assumed, not enforced."
_SOURCES = {
    "keyed": "Noise is derived from a secret key, fresh for this release, by a cipher; the guarantee is computational.",
    "secret": (
        "Noise is derived by a cipher from a key that is derived from the publisher's secret, for this run alone; who "
        "has the secret can compute it. The guarantee is computational."
    ),
    "opendp": "Noise is drawn by OpenDP from the operating system's entropy.",
}


def privacy_statement(
    *,
    statistic: str,
    levels: Mapping[str, int],
    plan: Plan,
    terms: Terms,
    mechanism: Any,
    invariants: Sequence[str],
    notes: Sequence[str],
    tabulated_by: Sequence[str],
    dataset: str | None = None,
    max_quantity: int = 1,
) -> dict[str, Any]:
    """Everything a reader needs to judge the protection, JSON-able.

    Args:
        statistic: the name of what is released.
        levels: all levels, root first, and their numbers of nodes.
        plan: how the measured levels were measured.
        terms: what one neighbouring change is.
        mechanism: the mechanism, whose dataclass fields are its options.
        invariants: facts that are published exactly.
        notes: sentences about this statistic.
        tabulated_by: the packages of the engine that tabulates the records.
        dataset: the data set's name in the ledger that the release is recorded in, if it is.
        max_quantity: the most that one record adds to the size of its group.
    """
    private = terms.seed is None
    unit = _unit(statistic, terms, max_quantity)
    first = {"maximum": plan.maximum, "contributions": plan.contributions}
    beside = {key: _measured(each, private=private) for key, each in first.items() if each is not None}
    statement = {
        "private": private,
        "guarantee": _guarantee(plan, terms, unit) if private else _NOT_PRIVATE,
        "statistic": statistic,
        "unit_of_protection": unit,
        "neighboring": terms.relation,
        "max_contributions": terms.bound,
        "max_contributions_enforced": terms.person_column is not None,
        "invariants": list(invariants),
        "on_unknown": dict(terms.on_unknown) if isinstance(terms.on_unknown, Mapping) else terms.on_unknown,
        "budget": _amounts(_granted(plan.budget)),
        "spent": _amounts(plan.spent) if private else {"epsilon": "infinity"},
        "accounting": plan.accounting or "exact",
        "mechanism": mechanism_spec(mechanism),
        "noise_source": terms.noise,
        "ledger": None if dataset is None else {"dataset": dataset, "recorded": True},
        "seeded": not private,
        "levels": [_level(level, nodes, plan.levels.get(level), private=private) for level, nodes in levels.items()],
        **beside,
        "notes": [
            *not_audited(mechanism),
            *notes,
            *([] if terms.checked_period is None else [_IN_PERIOD.format(*terms.checked_period)]),
            *(
                (
                    _SOURCES["secret" if terms.key_from_secret else terms.noise],
                    *_LIMITS,
                    _of_people(statistic, terms, plan),
                )
                if private
                else (_NOT_PRIVATE,)
            ),
        ],
        "software": _software(terms, plan, tabulated_by),
    }
    return {**statement, "counted": counted_unit(statement)}


CHECKED = "checked: records outside the period are left out"
ASSUMED = "assumed: that no record lies outside the period is what the publisher says"
"""What is said of the period of a release, and of its records."""

_IN_PERIOD = (
    "Only records whose column {0!r} lies in the period {1} are counted. The others, and those without a date, are "
    "left out; how many these are is private and not published."
)


def unknown_records(statement: Mapping[str, Any]) -> str:
    """What was done with records outside the hierarchy, after "records outside the hierarchy"."""
    found = statement["on_unknown"]
    if isinstance(found, Mapping):
        leaves = ", ".join(f"{label!r} at {level!r}" for level, label in found.items() if label != PARENT)
        levels = ", ".join(repr(level) for level, rule in found.items() if rule == PARENT)
        counted = [f"the leaf {leaves}"] if leaves else []
        if levels:
            counted.append(
                f"the leaf 'unknown' of their parent, where their label at {levels} or below was null or at no place "
                "of the hierarchy (every parent has this leaf)"
            )
        return f"were counted in {', or in '.join(counted)}; others made the run fail"
    return "were dropped" if found == "drop" else "made the run fail"


_NOT_PRIVATE = (
    "NOT PRIVATE: the noise was drawn from a seed, so whoever knows or guesses the seed can remove it (epsilon is "
    "infinite). For tests and experiments only."
)


def mechanism_spec(mechanism: Any) -> dict[str, Any]:
    """A mechanism's name and options, as a spec gives them; of one from outside also where its code is."""
    options = {field.name: getattr(mechanism, field.name) for field in dataclasses.fields(mechanism)}
    plain = {name: dict(value) if isinstance(value, Mapping) else value for name, value in options.items()}
    code = {"code": code_of(type(mechanism))} if is_foreign(mechanism) else {}
    return {"name": type(mechanism).__name__, "options": plain, **code}


def fitted_to_persons(statement: Mapping[str, Any]) -> bool:
    """Whether its households by size were fitted to persons of the same release: replicates of that are not made."""
    return "part_of" in statement and kind_of(statement).by_size


def own_mechanism(statement: Mapping[str, Any]) -> str | None:
    """The name of the mechanism of a release, where it is one of this library's."""
    return None if mechanism_code(statement) else statement["mechanism"]["name"]


def mechanism_code(statement: Mapping[str, Any]) -> str | None:
    """Where the code of the mechanism of a release is, as `module:Class`; None for one of this library's."""
    mechanism: Mapping[str, Any] = statement.get("mechanism", {})  # what is planned of several mechanisms names none
    return mechanism.get("code")


def prior_words(prior: Mapping[str, Any]) -> str:
    """How sentences name the prior of a statement: a release by the start of its id, or a table."""
    return f"the release {prior['release'][:8]}" if prior["release"] else "a table that the publisher says is public"


def prior_note(prior: Mapping[str, Any]) -> str:
    """What the notes of a statement say of its prior."""
    return (
        f"Numbers are also moved towards those of a prior, {prior_words(prior)}, as far as the noisy numbers say that "
        "it is like this one. A change since then that the noise hides may not show in a number."
    )


BROKEN = "broken_promises"
"""The key of a statement that lists what its release does not keep, though its mechanism promised it."""


WARNING = "warning"
"""The first key of a statement of weak protection; see `risk_statement.weak_protection`."""


def marks_of(statement: Mapping[str, Any]) -> list[str]:
    """What nobody may overlook of a release: that it protects weakly; of a mechanism from outside its first notes.

    These say which promises it broke, and that it was not audited.
    """
    weak = [statement[WARNING]] if WARNING in statement else []
    if not mechanism_code(statement):
        return weak
    return [*weak, *statement["notes"][: 2 if BROKEN in statement else 1]]


def not_audited(mechanism: Any) -> list[str]:
    """What has to be said of a mechanism from outside."""
    if not is_foreign(mechanism):
        return []
    return [_NOT_AUDITED.format(type(mechanism).__name__, code_of(type(mechanism)))]


def _guarantee(plan: Plan, terms: Terms, unit: str) -> str:
    change = "adding or removing" if terms.relation == "add_remove" else "replacing"
    spent = {name: shown_up(amount) for name, amount in plan.spent.items()}
    if plan.budget.kind == "pure":
        kind = f"epsilon = {spent['epsilon']} (pure differential privacy)"
    elif plan.budget.kind == "zcdp":
        kind = f"rho = {spent['rho']} (zero-concentrated differential privacy)"
    else:
        kind = f"epsilon = {spent['epsilon']}, delta = {spent['delta']} (approximate differential privacy)"
    return f"{kind} for {change} {unit}, given the invariants."


def _unit(statistic: str, terms: Terms, max_quantity: int) -> str:
    kind = kind_of(statistic)
    what, plural = kind.words.one, kind.words.several
    if kind.protects_all_records:
        return "one person, with all of their records, however many"
    one = terms.bound == 1
    if terms.person_column is not None:
        if terms.distinct_people:
            leaves = "one leaf" if one else f"{terms.bound} leaves"
            return f"one person, who counts at most once in a leaf, and in at most {leaves}"
        return f"one person, of whose {plural} at most {'one counts' if one else f'{terms.bound} count'}"
    has = f"one {what}" if one else f"at most {terms.bound} {plural}"
    quantity = f", each with a quantity of at most {max_quantity}" if max_quantity > 1 else ""
    return f"one person, who has {has}{quantity}"


def _of_people(statistic: str, terms: Terms, plan: Plan) -> str:
    """What is taken on trust of people, and of their records."""
    if terms.person_column is None:
        return _ASSUMED
    who = f"A person is a value of the column {terms.person_column!r}; that nobody has several is assumed."
    if kind_of(statistic).protects_all_records:
        return who
    known = "whether any were left out is not published" if plan.contributions is None else _ESTIMATED
    return (
        f"{who} Of a person's records at most max_contributions count, chosen by a secret key from that person's "
        f"records alone; {known}."
    )


_ESTIMATED = "what was left out is estimated under contributions"


def _granted(budget: Budget) -> dict[str, Fraction]:
    amounts = {"epsilon": budget.epsilon, "delta": budget.delta, "rho": budget.rho}
    return {name: amount for name, amount in amounts.items() if amount is not None}


def _amounts(exact: Mapping[str, Fraction]) -> dict[str, float]:
    return {name: float_up(amount) for name, amount in exact.items()}


def _level(level: str, nodes: int, plan: LevelPlan | StableLevel | None, *, private: bool) -> dict[str, Any]:
    if plan is None:
        return {"level": level, "nodes": nodes, "measured": False}
    return {"level": level, "nodes": nodes, "measured": True} | _measured(plan, private=private)


def _measured(plan: LevelPlan | StableLevel, *, private: bool) -> dict[str, Any]:
    """How something is measured, and what that spends; δ is the release's, and not a level's."""
    threshold = {"threshold": plan.threshold} if isinstance(plan, StableLevel) else {}
    cost = "epsilon" if plan.noise.distribution == "discrete_laplace" else "rho"
    return {
        "statistic": plan.statistic,
        "share": float(plan.share),
        "sensitivity": {"l1": plan.sensitivity.l1, "l2": plan.sensitivity.l2},
        "noise": {
            "distribution": plan.noise.distribution,
            "scale": float(plan.noise.scale),
            "scale_exact": str(plan.noise.scale),
            "std_dev": plan.noise.std_dev,
        },
        **threshold,
        "spent": {cost: float_up(plan.cost) if private else "infinity"},
    }


def _software(terms: Terms, plan: Plan, tabulated_by: Sequence[str]) -> dict[str, str]:
    packages = [*TABLES_MADE_BY, *tabulated_by]
    packages += ["opendp"] if terms.noise == "opendp" else []
    packages += ["dp-accounting"] if plan.accounting == "pld" else []
    return versions(packages)


_version = cache(metadata.version)  # what runs was loaded once

TABLES_MADE_BY = ("tallytree", "numpy", "numba", "pyarrow")
"""The packages that turn noisy measurements into tables."""


def versions(packages: Iterable[str]) -> dict[str, str]:
    """The versions of Python and of some packages."""
    return {"python": platform.python_version()} | {package: _version(package) for package in packages}


Status = Literal["provisional", "revised", "final"]
"""How final the numbers are, as the publisher says."""

DESCRIBED = "description"
"""The key of the statement under which all of it stands."""
MOST_LETTERS, MOST_OF_A_WORD = 200, 40
"""Of a title, a publisher and a contact; and of a word for a unit."""


def checked_line(value: object, argument: str, most: int = MOST_LETTERS) -> str:
    """A line of text as given, without spaces around it.

    Raises:
        TypeError: no text.
        ValueError: it is empty, too long, or has a control character or a line break.
    """
    line = text(value, argument).strip()
    if not line:
        raise ValueError(f"{argument}: {value!r} is empty; write some text, or leave it out")
    if len(line) > most:
        raise ValueError(f"{argument}: {line[:40]!r}… has {len(line):,} characters; {most} is the most, so shorten it")
    if any(unicodedata.category(each) in ("Cc", "Zl", "Zp") for each in line):
        raise ValueError(f"{argument}: {line[:80]!r} has a control character or a line break; take it out")
    return line


def checked_words(value: object) -> dict[str, str]:
    """The publisher's words for units as given: `{"person": "commuter", "group": "child/children"}`.

    Raises:
        TypeError: no mapping of texts.
        ValueError: an unknown unit; a word of another unit; one that is empty, too long, or has more than one slash or
            other characters than letters, spaces, hyphens and apostrophes.
    """
    if not isinstance(value, Mapping):
        raise TypeError(
            f'words: {safe_text(value)} must be a mapping from units to words, such as {{"record": "trip"}}'
        )
    found = {}
    for place, (unit, given) in enumerate(value.items(), 1):
        if unit not in UNIT_KEYS:
            text(unit, "words")
            # Not shown: a column of records may be given in place of words.
            raise ValueError(f"words: key {place} of the mapping is no unit; name {', '.join(UNIT_KEYS)}")
        word = checked_line(given, f"words[{unit}]", MOST_OF_A_WORD)
        parts = [part.strip() for part in word.split("/")]
        if len(parts) > 2 or not all(re.fullmatch(r"[^\W\d_]([^\W\d_]|[ '’-])*", part) for part in parts):
            raise ValueError(
                f"words[{unit}]: {word!r} must be a word, or two with a slash between them, for one and for several, "
                "such as child/children"
            )
        found[unit] = "/".join(parts)
    _require_units_apart(found)
    return found


def _require_units_apart(words: Mapping[str, str]) -> None:
    """Refuse a word that another unit has: a guarantee in such words would say that another unit is protected.

    Raises:
        ValueError: naming both units.
    """
    forms = {unit: {each for part in given.casefold().split("/") for each in (part, plural_of(part))}
             for unit, given in words.items()}  # fmt: skip
    # In a census a record is a person, and both may have one word.
    alike = {"record", "person"} if words.get("record", "").casefold() == words.get("person", "").casefold() else set()
    for unit, own in forms.items():
        ours = {name: other for name, other in UNIT_OF.items() if other != unit}
        theirs = {form: other for other in forms if other != unit and {unit, other} != alike for form in forms[other]}
        for form in sorted(own):
            of = next((ours[part] for part in re.split(r"[ '’-]", form) if part in ours), theirs.get(form))
            if of is not None:
                raise ValueError(
                    f"words[{unit}]: {form!r} is what a {of} is called, and sentences would confuse the two; give the "
                    f"{unit} a word of its own, or leave it out"
                )


def described_statement(statement: Mapping[str, Any], description: Mapping[str, Any]) -> dict[str, Any]:
    """A statement with the publisher's description, and its sentences in the publisher's words.

    Args:
        statement: as it was made.
        description: `title`, `publisher`, `contact`, `status`, `words`, as far as they were given; may be empty.
    """
    made = dict(statement)
    if not description:
        return made
    made[DESCRIBED] = dict(description)
    words = description.get("words") or {}
    for key in made.keys() & {WARNING, "guarantee", "unit_of_protection"}:
        made[key] = worded(made[key], words)
    markers = (ONCE_IN_A_LEAF, ONCE_IN_A_CELL)  # by which a reader knows what is counted
    made["notes"] = [note if note in markers else worded(note, words) for note in made["notes"]]
    for key, sentences in (("risk", ("attack", "summary")), ("contributions", ("summary", "covers"))):
        if key in made:
            part = made[key]
            made[key] = {**part, **{each: worded(part[each], words) for each in sentences if each in part}}
    made["counted"] = counted_unit(made)
    return made


def description_of(statement: Mapping[str, Any]) -> dict[str, Any]:
    """What the publisher says of a release; empty where nothing was said."""
    found = statement.get(DESCRIBED)
    return dict(found) if isinstance(found, Mapping) else {}
