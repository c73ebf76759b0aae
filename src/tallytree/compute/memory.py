"""Amounts of memory that users write, such as `"4GB"`, as bytes."""

from __future__ import annotations

import re

_AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*([KMGT]i?)?B", re.IGNORECASE | re.ASCII)

_BYTES = {
    "": 1,
    **{f"{letter}{i}": (1024 if i else 1000) ** power for power, letter in enumerate("KMGT", 1) for i in ("", "I")},
}

LEAST, MOST = 1_000_000, 10**15
"""Bytes: with less DuckDB cannot run at all; more it cannot count."""


def memory_bytes(amount: str, argument: str) -> int:
    """How many bytes an amount of memory is: a number and a unit (B, kB, MB, GB, TB; KiB, …, TiB), such as `"4GB"`.

    Args:
        amount: what the user gave.
        argument: its name in messages.

    Raises:
        ValueError: no number with a unit, or not between 1MB and 1000TB.
    """
    found = _AMOUNT.fullmatch(amount)
    if found is None:
        raise ValueError(f"{argument}: {amount[:40]!r} must be a number and a unit, such as '4GB'")
    bytes_ = float(found[1]) * _BYTES[(found[2] or "").upper()]
    if not LEAST <= bytes_ <= MOST:
        raise ValueError(f"{argument}: {amount[:40]!r} must be between 1MB and 1000TB, such as '4GB'")
    return int(bytes_)


def described_bytes(amount: float) -> str:
    """An amount for a message: in GB with one decimal, or in MB where it is less than one."""
    return f"{amount / 1e9:.1f} GB" if amount >= 1e9 else f"{amount / 1e6:.0f} MB"
