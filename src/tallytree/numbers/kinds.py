"""What can be derived from a release, by its statistic."""

from __future__ import annotations

KINDS: dict[str, tuple[str, ...]] = {
    "share": ("counts", "flows", "tables"),
    "ratio": ("counts", "flows", "tables"),
    "change": ("counts", "flows", "tables"),
    "total_of": ("counts", "flows", "tables"),
    "mean": ("group_sizes", "tables"),
    "quantile": ("group_sizes", "tables"),
}
"""By the name of what is derived, the statistics that it is derived from."""


def require_statistic(derived: str, statistic: str, argument: str = "release") -> None:
    """Refuse a release from which something cannot be derived.

    Args:
        derived: its name in `KINDS`.
        statistic: of the release.
        argument: what the release was given as, for the message.

    Raises:
        ValueError: it is of another statistic.
    """
    known = KINDS[derived]
    if statistic not in known:
        raise ValueError(
            f"{argument}: its statistic is {statistic!r}, and {derived} is of {', '.join(known)}; give such a release"
        )
