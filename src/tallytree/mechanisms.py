"""What a mechanism from outside is made of: its base, what it is handed, and what it returns.

A mechanism is a frozen dataclass, whose fields are its options, with one of three bases: `CountsMechanism` (counts and
flows), `SizesMechanism` (group sizes) or `TablesMechanism` (tables). It says what is to be measured (`statistics`; of
tables the release decides), and computes the released numbers (`reconcile`). It is handed public facts and something
that measures (`Measures`), whose answers (`Measurement`) have the noise that the budget buys; nothing else.

| base | `reconcile` is handed | and returns |
| --- | --- | --- |
| `CountsMechanism` | a `Tree`, the total where it is public, `Measures` | a `ReleasedCounts` per level, root first |
| `SizesMechanism` | a `SizesDomain`, `Measures` | a `ReleasedSizes` per level, root first |
| `TablesMechanism` | a `Layout`, what is measured, `PublicTotals`, `Measures` | `FittedTables` |

Its releases keep the `PROMISES`, but for those in its trait `breaks`. Before a release is paid for, the mechanism is
run on made-up statistics, and refused where it breaks another one. See `docs/how-to/own-mechanism.md`.
"""

from tallytree.counts.expected_variances import ExpectedVariances
from tallytree.counts.mechanism import CountsMechanism, statistics_of_counts
from tallytree.counts.released_counts import ReleasedCounts
from tallytree.counts.released_counts import sum_over_tree as sums_of_counts
from tallytree.hierarchy import Tree
from tallytree.kinds.foreign import GROUP
from tallytree.kinds.measurements import Measurement, Measures, Noise, Statistic
from tallytree.kinds.mechanism import PROMISES, Promise
from tallytree.kinds.terms import Invariants
from tallytree.numbers.reconcile import reconcile_counts
from tallytree.sizes.mechanism import ReleasedSizes, SizesDomain, SizesMechanism
from tallytree.sizes.mechanism import measured_everywhere as statistics_of_sizes
from tallytree.sizes.mechanism import sum_over_tree as sums_of_sizes
from tallytree.tables.mechanism import FittedTables, Layout, PublicTotals, TablesMechanism

VERSION = 1
"""Of what a mechanism is handed and returns. A change by which a mechanism no longer works raises it."""

__all__ = [
    "GROUP",
    "PROMISES",
    "VERSION",
    "CountsMechanism",
    "ExpectedVariances",
    "FittedTables",
    "Invariants",
    "Layout",
    "Measurement",
    "Measures",
    "Noise",
    "Promise",
    "PublicTotals",
    "ReleasedCounts",
    "ReleasedSizes",
    "SizesDomain",
    "SizesMechanism",
    "Statistic",
    "TablesMechanism",
    "Tree",
    "reconcile_counts",
    "statistics_of_counts",
    "statistics_of_sizes",
    "sums_of_counts",
    "sums_of_sizes",
]


def __dir__() -> list[str]:
    """The public names, for tab completion."""
    return __all__
