"""What the events of a ledger say: the facts of each kind, written as text and read again, with every fact checked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache, lru_cache
from importlib import metadata
from typing import Any, get_args

from tallytree.accounting.periods import ALL_TIME, Period, Window
from tallytree.accounting.spending import Approval, Entry, Loss, Posting
from tallytree.budget import Budget
from tallytree.kinds.terms import Neighboring, ProtectedUnit, Unit
from tallytree.ledger.chain import Facts, encoded
from tallytree.ledger.names import checked_name, checked_run

MOST_DIGITS = 4_300
"""Of the numerator and of the denominator of an amount; Python reads and writes no more by default."""

REMEMBERED = 10_000
"""How many amounts and approvals are kept as they were read, since most events have the same few."""

_RATIONAL = re.compile(r"[0-9]{1,4300}(/[1-9][0-9]{0,4299})?")
_TOO_LONG, _TOO_LARGE = 10**MOST_DIGITS, 10**300
_SHORT = 300
"""Characters with which no amount is too large."""
_HEX = re.compile(r"[0-9a-f]{32}([0-9a-f]{32})?")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")

Check = Callable[[Any], bool]


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _amount(value: Any) -> bool:
    if not isinstance(value, str) or _RATIONAL.fullmatch(value) is None:
        return False
    return len(value) <= _SHORT or Fraction(value) < _TOO_LARGE


def _hex(value: Any) -> bool:
    return isinstance(value, str) and _HEX.fullmatch(value) is not None


def _digests(value: Any) -> bool:
    return isinstance(value, dict) and all(_text(name) and _hex(digest) for name, digest in value.items())


def _time(value: Any) -> bool:
    return isinstance(value, str) and _TIME.fullmatch(value) is not None


def _nothing(_: Any) -> bool:
    """Of a fact that every ledger of this format has, and that is null in each."""
    return False


def _yes_or_no(value: Any) -> bool:
    return isinstance(value, bool)


def _name(value: Any) -> bool:
    return bool(checked_name(value))


def _run(value: Any) -> bool:
    return bool(checked_run(value) == value)


def _period(value: Any) -> bool:
    return isinstance(value, str) and str(Period.parse(value)) == value


def _window(value: Any) -> bool:
    return isinstance(value, str) and value != str(ALL_TIME) and str(Window.parse(value)) == value


def _one_of(known: tuple[str, ...]) -> Check:
    return lambda value: isinstance(value, str) and value in known


Fact = tuple[Check, bool]
"""What a fact may be, and whether it may be absent."""


def _must(check: Check) -> Fact:
    return check, False


def _may(check: Check) -> Fact:
    return check, True


_AMOUNTS = dict.fromkeys(("epsilon", "delta", "rho"), _may(_amount))
_APPROVAL = dict.fromkeys(("approved_by", "reason", "ticket"), _may(_text))
_RECORDED = {"at": _must(_time), "version": _must(_text)}

FACTS: dict[str, dict[str, Fact]] = {
    "ledger": {**_RECORDED, "strict": _must(_yes_or_no), "made_from_format": _may(_nothing)},
    "strict": {**_RECORDED, "strict": _must(_yes_or_no), **_APPROVAL},
    "dataset": {
        **_RECORDED,
        "dataset": _must(_name),
        "neighboring": _must(_one_of(get_args(Neighboring))),
        "max_contributions": _may(_count),
        "unit": _may(_one_of(get_args(ProtectedUnit))),
    },
    "terms": {
        **_RECORDED,
        "dataset": _must(_name),
        "max_contributions": _may(_count),
        "unit": _may(_one_of(get_args(ProtectedUnit))),
    },
    "limit": {**_RECORDED, "dataset": _must(_name), **_AMOUNTS, **_APPROVAL, "window": _may(_window)},
    "release": {
        **_RECORDED,
        "dataset": _must(_name),
        "number": _must(_count),
        "release_id": _must(_hex),
        "run": _may(_run),
        "plan": _may(_hex),
        "statistics": _may(_hex),
        "statistic": _must(_text),
        "mechanism": _must(_text),
        "max_contributions": _must(_count),
        "unit": _must(_one_of(get_args(Unit))),
        **_AMOUNTS,
        **_APPROVAL,
        "period": _may(_period),
        "revises": _may(_hex),
        "parts": _may(_digests),
        "prior": _may(_digests),
        "inputs": _may(_hex),
    },
    "inputs": {"at": _must(_time), "number": _must(_count), "inputs": _must(_hex)},
    "finish": {"at": _must(_time), "number": _must(_count)},
}
"""Of every kind of event, its facts and what each of them may be."""

LATER = frozenset({"period", "window", "revises", "parts", "prior", "inputs"})
"""Facts that are written only where they are known."""


def event_text(kind: str, **facts: Any) -> bytes:
    """The text of an event that happens now.

    Raises:
        ValueError: a fact that no event may have.
    """
    known = {"event": kind, "at": utc_now(), **facts}
    if "version" in FACTS[kind]:
        known.setdefault("version", _version())
    text = encoded({name: fact for name, fact in known.items() if fact is not None or name not in LATER})
    read_event(text)
    return text


def release_text(
    posting: Posting, number: int, release_id: str, statistics: str | None, inputs: str | None = None
) -> bytes:
    """The text of a release that is recorded now."""
    return event_text(
        "release",
        dataset=posting.dataset,
        number=number,
        release_id=release_id,
        run=posting.run,
        plan=posting.plan,
        statistics=statistics,
        statistic=posting.statistic,
        mechanism=posting.mechanism,
        max_contributions=posting.max_contributions,
        unit=posting.unit,
        **amounts(posting.loss),
        **approval_facts(posting.approval),
        period=None if posting.period is None else str(posting.period),
        revises=posting.revises,
        parts=None if posting.parts is None else dict(posting.parts),
        prior=None if posting.prior is None else dict(posting.prior),
        inputs=inputs,
    )


def amounts(given: Loss | Budget) -> dict[str, str | None]:
    """Amounts as text.

    Raises:
        ValueError: one of them has more digits than a ledger holds, or is larger than any loss that means something.
    """
    exact = {name: getattr(given, name) for name in _AMOUNTS}
    for name, amount in exact.items():
        if amount is None:
            continue
        if max(amount.numerator, amount.denominator) >= _TOO_LONG or amount >= _TOO_LARGE:
            raise ValueError(
                f"budget: a ledger holds an {name} of at most {MOST_DIGITS} digits, below 1e300, and this one "
                "has more; give an amount with fewer digits"
            )
    return {name: None if amount is None else str(amount) for name, amount in exact.items()}


def approval_facts(approval: Approval) -> dict[str, str | None]:
    """An approval as facts of an event."""
    return {name: getattr(approval, name) for name in _APPROVAL}


def approval_of(facts: Facts) -> Approval:
    """The approval that an event states."""
    return _approval(*(facts[name] for name in _APPROVAL))


@lru_cache(maxsize=REMEMBERED)
def _approval(*texts: str | None) -> Approval:
    return Approval(**dict(zip(_APPROVAL, texts, strict=True)))


def budget_of(facts: Facts) -> Budget:
    """The budget that an event states."""
    return Budget(**{name: None if facts[name] is None else Fraction(facts[name]) for name in _AMOUNTS})


@cache
def _version() -> str:
    return metadata.version("tallytree")


def read_event(text: bytes) -> Facts:
    """The facts of an event.

    Raises:
        ValueError: it is no event, or has a fact that no event may have.
    """
    facts = json.loads(text.decode())
    kind = facts.get("event") if isinstance(facts, dict) else None
    if not isinstance(kind, str) or kind not in FACTS:
        raise ValueError("this is no event of a ledger")
    checks = FACTS[kind]
    if any(facts.get(name, name) is None for name in LATER):
        raise ValueError(f"an event {kind!r} has a fact that is written only where it is known")
    facts = dict.fromkeys(LATER & checks.keys()) | facts
    if facts.keys() != checks.keys() | {"event"}:
        raise ValueError(f"an event {kind!r} has other facts")
    for name, (check, optional) in checks.items():
        value = facts[name]
        if not (optional if value is None else check(value)):
            raise ValueError(f"an event {kind!r} has a {name} that none may have")
    known: Facts = facts
    return known


def read_entry(
    text: bytes, position: int, neighboring: Neighboring, finished: bool, inputs: str | None = None
) -> Entry:
    """The entry of a release, from the text of its event.

    Args:
        text: the text of the event.
        position: its place among all events.
        neighboring: the relation of its data set.
        finished: whether it was handed over.
        inputs: the keyed digest of its inputs when it was last made again, if they were other files then.

    Raises:
        ValueError: it has amounts that no release can have.
    """
    facts = read_event(text)
    return Entry(
        dataset=facts["dataset"],
        statistic=facts["statistic"],
        mechanism=facts["mechanism"],
        neighboring=neighboring,
        max_contributions=facts["max_contributions"],
        unit=facts["unit"],
        loss=loss_of(facts["epsilon"], facts["delta"], facts["rho"]),
        run=facts["run"],
        plan=facts["plan"],
        approval=approval_of(facts),
        period=period_of(facts),
        revises=facts["revises"],
        parts=facts["parts"],
        prior=facts["prior"],
        number=facts["number"],
        recorded_at=facts["at"],
        state="finished" if finished else "started",
        release_id=facts["release_id"],
        statistics=facts["statistics"],
        position=position,
        version=facts["version"],
        inputs=facts["inputs"] if inputs is None else inputs,
    )


def period_of(facts: Facts) -> Period | None:
    """The period that an event of a release states; None without one."""
    return None if facts["period"] is None else _period_named(facts["period"])


_period_named = lru_cache(maxsize=REMEMBERED)(Period.parse)


@lru_cache(maxsize=REMEMBERED)
def loss_of(*texts: str | None) -> Loss:
    """The loss with these amounts: ε, δ and ρ as text.

    Raises:
        ValueError: no release can have it.
    """
    return Loss(*(None if text is None else Fraction(text) for text in texts))


def utc_now() -> str:
    """The time, as events have it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
