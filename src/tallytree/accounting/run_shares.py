"""What one of several equal runs may spend, so that all of them fit into what a data set's limit leaves.

What is left is divided by the number of runs, exactly, and then rounded down to six digits, so that what is shown can
be asked for as it is written. Asked for in other terms than the limit's, a run fits where its loss counts for no more:

* **against ρ, as ε**: levels of ε_1, …, ε_k with Σ ε_i = ε count Σ ε_i²/2 ≤ ε²/2, so ε = √(2ρ) fits, whatever the
  split (with k equal levels √k times as much does);
* **against ρ, as (ε, δ)**: the noise is that of ρ(ε, δ) by the conversion that is used (`accounting.conversions`), so
  an ε with ρ(ε, δ) ≤ ρ fits with `accounting="zcdp"`. Accounting by privacy-loss distributions needs less noise for the
  same (ε, δ), which counts more ρ: such a run has to be checked;
* **against (ε, δ), as ε**: it counts (ε, 0). As ρ it does not count, since it promises no δ of its own;
* **against ε** only ε counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction

from tallytree.accounting.conversions import epsilon_from_rho, rho_from_epsilon
from tallytree.accounting.spending import Standing

DELTA = Fraction(1, 10**8)
"""The δ of a run that asks for ε and δ against a limit in ρ, unless another is given."""

_DIGITS = 6


@dataclass(frozen=True)
class Asking:
    """Terms that a run could ask for.

    Attributes:
        amounts: what it would ask for, by name; six digits each.
        fits: whether as many such runs fit.
        note: what else to know.
    """

    amounts: dict[str, Fraction]
    fits: bool
    note: str = ""


@dataclass(frozen=True)
class RunShares:
    """What one of several equal runs may spend.

    Attributes:
        runs: how many runs there are.
        exact: what each may spend, in the limit's terms, exactly.
        asking: what each may ask for, in every kind of terms.
    """

    runs: int
    exact: dict[str, Fraction]
    asking: tuple[Asking, ...]


def run_shares(dataset: Standing, runs: int, delta: Fraction = DELTA) -> RunShares:
    """Divide what a data set's limit leaves among equal runs.

    Args:
        dataset: the data set.
        runs: how many runs, at least 1.
        delta: the δ of a run that asks for (ε, δ) against a limit in ρ.

    Raises:
        ValueError: the data set has no limit, or nothing is left of it.
    """
    left = dataset.remaining
    if dataset.limit is None or left is None:
        raise ValueError(
            f"dataset: {dataset.name!r} has no limit{' of all time' if dataset.limits else ''} in the ledger, so there "
            "is nothing to divide; set one with `tallytree limit`"
        )
    exact = {name: amount / runs for name, amount in left.items()}
    main = "rho" if dataset.limit.kind == "zcdp" else "epsilon"
    if exact[main] <= 0:
        raise ValueError(
            f"dataset: nothing is left of the limit of {dataset.name!r}; raise it with `tallytree limit` before runs "
            "are planned"
        )
    divided = {"pure": _of_epsilon, "approximate": _of_both, "zcdp": _of_rho}[dataset.limit.kind]
    return RunShares(runs, exact, divided(exact, delta))


def _of_epsilon(exact: dict[str, Fraction], delta: Fraction) -> tuple[Asking, ...]:
    epsilon = _down(exact["epsilon"])
    rho = _down(epsilon**2 / 2)
    return (
        Asking({"epsilon": epsilon}, fits=True),
        Asking({"epsilon": epsilon, "delta": delta}, fits=False, note="a limit in epsilon alone counts no delta"),
        Asking({"rho": rho}, fits=False, note="a limit in epsilon counts no rho; this is what epsilon implies"),
    )


def _of_both(exact: dict[str, Fraction], delta: Fraction) -> tuple[Asking, ...]:
    epsilon, share = _down(exact["epsilon"]), exact["delta"]
    pure = Asking({"epsilon": epsilon}, fits=True)
    if share <= 0:
        return pure, Asking({"epsilon": epsilon, "delta": delta}, fits=False, note="no delta is left")
    both = {"epsilon": epsilon, "delta": _down(share)}
    note = "a limit in epsilon and delta does not count rho; by conversion this is about as private"
    rho = _down(_rho_of(both["epsilon"], both["delta"]))
    return pure, Asking(both, fits=True), Asking({"rho": rho}, fits=False, note=note)


def _of_rho(exact: dict[str, Fraction], delta: Fraction) -> tuple[Asking, ...]:
    rho = exact["rho"]
    pure = _largest(_root(2 * rho), lambda epsilon: epsilon**2 / 2 <= rho)
    both = _largest(epsilon_from_rho(rho, delta, "zcdp"), lambda epsilon: _rho_of(epsilon, delta) <= rho)
    note = "with accounting zcdp alone; pld has less noise, which counts more rho than the share of a run"
    return (
        Asking({"rho": _down(rho)}, fits=True),
        Asking({"epsilon": pure}, fits=True, note="whatever its budget split"),
        Asking({"epsilon": both, "delta": delta}, fits=True, note=note),
    )


def _rho_of(epsilon: Fraction, delta: Fraction) -> Fraction:
    return rho_from_epsilon(epsilon, delta, "zcdp")


def _largest(near: Fraction, fits: Callable[[Fraction], bool]) -> Fraction:
    """The largest amount in six digits that fits, from one near it that was rounded either way."""
    amount = _down(near)
    while not fits(amount):
        amount = _down(amount * (1 - Fraction(1, 10**_DIGITS)))
    return amount


def _down(amount: Fraction) -> Fraction:
    """The amount in six digits, rounded down."""
    with localcontext(Context(prec=_DIGITS, rounding=ROUND_FLOOR)):
        return Fraction(Decimal(amount.numerator) / Decimal(amount.denominator))


def _root(amount: Fraction) -> Fraction:
    with localcontext(Context(prec=60)):
        return Fraction((Decimal(amount.numerator) / Decimal(amount.denominator)).sqrt())
