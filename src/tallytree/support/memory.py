"""Amounts of memory that users write, such as `"4GB"`, as bytes."""

from __future__ import annotations

import os
import re

_AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*([KMGT]i?)?B", re.IGNORECASE | re.ASCII)

_BYTES = {
    "": 1,
    **{f"{letter}{i}": (1024 if i else 1000) ** power for power, letter in enumerate("KMGT", 1) for i in ("", "I")},
}

LEAST, MOST = 1_000_000, 10**15
"""Bytes that a run may be given: with less it cannot be cut; more DuckDB cannot count."""
LEAST_LIMIT = 8_000_000
"""Bytes of a limit of DuckDB: with 2 MB it does not read a table of 9 rows, with 4 MB it now and then fails."""


def memory_bytes(amount: str, argument: str, least: int = LEAST) -> int:
    """How many bytes an amount of memory is: a number and a unit (B, kB, MB, GB, TB; KiB, …, TiB), such as `"4GB"`.

    Args:
        amount: what the user gave.
        argument: its name in messages.
        least: bytes that are of use there; whole MB.

    Raises:
        ValueError: no number with a unit, less than is of use, or more than 1000TB.
    """
    found = _AMOUNT.fullmatch(amount)
    if found is None:
        raise ValueError(f"{argument}: {amount[:40]!r} must be a number and a unit, such as '4GB'")
    bytes_ = float(found[1]) * _BYTES[(found[2] or "").upper()]
    if not least <= bytes_ <= MOST:
        raise ValueError(f"{argument}: {amount[:40]!r} must be between {least // 10**6}MB and 1000TB, such as '4GB'")
    return int(bytes_)


def enough_memory(needed: int) -> str:
    """The least amount, as users write it with two or three digits, that is not less than so many bytes."""
    unit, name = (10**9, "GB") if needed >= 10**9 else (10**6, "MB")
    tenths = -(-10 * needed // unit)
    return f"{-(-tenths // 10)}{name}" if tenths >= 100 else f"{tenths / 10:g}{name}"


def machine_bytes() -> int:
    """The machine's memory in bytes; where the system does not say, the size of the address space."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**47


def described_bytes(amount: float) -> str:
    """An amount for a message: in GB with one decimal, or in MB where it is less than one."""
    return f"{amount / 1e9:.1f} GB" if amount >= 1e9 else f"{amount / 1e6:.0f} MB"
