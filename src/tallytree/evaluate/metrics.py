"""How far released tables are from true ones: measures of error, of `tallytree.lab.compare`."""

from tallytree.lab.compare.metrics import (
    absolute_errors,
    constraint_violations,
    earth_movers_distance,
    false_discovery_rate,
    false_negative_rate,
    l1_error,
    max_absolute_error,
    mean_absolute_error,
)

__all__ = [
    "absolute_errors",
    "constraint_violations",
    "earth_movers_distance",
    "false_discovery_rate",
    "false_negative_rate",
    "l1_error",
    "max_absolute_error",
    "mean_absolute_error",
]
