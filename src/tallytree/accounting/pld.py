"""(ε, δ) of several levels by their privacy-loss distribution: tight, where the shifts of single cells are known.

**What is composed.** One neighboring change shifts a level's cells by one of the patterns in `Sensitivity.shifts`, for
instance one cell by −1 and another by +1. Cells have independent noise, so a level is as private as the composition of
one discrete Gaussian mechanism per shifted cell, each with its shift as sensitivity. Discrete Gaussian noise is
symmetric about 0, so neither the sign of a shift matters, nor which of the two neighbors is observed, nor which cells
are shifted: the pattern alone fixes the pair of distributions. A pattern that is part of another is dominated by it
(cells that are not looked at), so where one pattern holds all others, its pair dominates every neighboring pair of the
level. Where none does (a histogram under `change_one`, several records per person) nothing is claimed here, and
`noise_plan` counts in ρ.

**Adaptive levels.** In top-down pruning, what is measured at one level depends on the noisy values above. Pairs that
dominate every mechanism that may be chosen compose as if they had been fixed beforehand (Zhu, Dong and Wang 2022,
"Optimal Accounting of Differential Privacy via Characteristic Function", Theorem 10). Leaving out pruned cells is to
look at part of a level, which its pair dominates; to clamp sizes to a K that was measured turns a level's pattern into
part of itself, whatever K came out.

**How it is computed.** By `dp-accounting`: every discrete Gaussian is put on a grid of losses by connecting the dots
(Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022), which never makes δ(ε) smaller, and convolved by FFT; mass cut
off at the tails counts as δ. Two allowances make up for float arithmetic. Against the same grid composed by an
exponentially tilted FFT, which keeps relative accuracy at any δ, computed values were too low by at most 4e-15 and by
at most 2e-8 of δ (up to 40 different levels of up to 80 cells, σ from 0.15 to 7,000). The absolute error grows with the
number of cells (2.3e-14 at 1,000), so no more than `MAX_SHIFTED_CELLS` are composed; allowed are `_absolute` and
`_RELATIVE`. That is why δ must be at least `MIN_DELTA`. σ, ε and δ are rounded to floats towards more privacy.

**What is kept for the next process.** Importing `dp-accounting`, with the parts of SciPy that it needs, takes 1.5 to 4
s, and a plan a tenth of that. A number is found again by all that decides it: the composition, the question, and the
versions of everything that computes it. A wrong number could understate a privacy loss. So

* the file of a composition says in full what it is about, and has a digest; where either does not agree it is not used;
* a folder or a file that somebody else can write to is not used (as of compiled code, `support.trusted_folders`);
* no δ is used that is below nine tenths of that of the continuous Gaussian mechanism with the same ρ;
* a release that a ledger is charged for computes the loss of its plan itself (`NoisePlan.check_without_kept`).

The folder is `accounting` in that named by the environment variable `TALLYTREE_CACHE_DIR`; by default `tallytree` in
`XDG_CACHE_HOME`, or in `~/.cache`. If the variable is empty, nothing is kept. What is kept follows from plans, which
are public; it knows nothing of records. See `docs/decisions/0033-seconds.md`.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import platform
from collections import Counter
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from tallytree.accounting.sensitivity import Sensitivity
from tallytree.kinds.measurements import Noise
from tallytree.support.arrays import FloatArray
from tallytree.support.trusted_folders import why_untrusted
from tallytree.support.whole_files import write_whole

logger = logging.getLogger(__name__)

MAX_FILES = 2_000
"""When there are more, the older half is removed."""
_MAX_BYTES = 2**20
_LIBRARIES = ("dp-accounting", "numpy", "scipy")


class KeptValues:
    """The numbers of one composition, by question.

    Args:
        about: the composition, as text that no other composition has.
        source: the file with the code that asks; other code has its own numbers.
    """

    def __init__(self, about: str, source: Path) -> None:
        self._about = json.dumps([about, *_computed_by(source)])
        self._folder = _folder(os.environ.get("TALLYTREE_CACHE_DIR"))
        self._values = {} if self._folder is None else self._read(self._folder)
        self._new = False

    def get(self, question: str) -> float | None:
        """The answer, if it is kept."""
        return self._values.get(question)

    def put(self, question: str, answer: float) -> None:
        """Keep an answer; `save` writes it."""
        if math.isfinite(answer):
            self._values[question] = answer
            self._new = True

    def save(self) -> None:
        """Write what is new, all or nothing; a disk that is full, or a folder that is gone, is no error."""
        if self._folder is None or not self._new:
            return
        self._new = False
        text = self._text({question: answer.hex() for question, answer in self._values.items()})
        try:
            _make_room(self._folder)
            write_whole(self._path(self._folder), text, mode=0o600)
        except OSError as error:
            logger.info("what was computed of a plan is not kept: %s", error.strerror)

    def _path(self, folder: Path) -> Path:
        return folder / f"{hashlib.sha256(self._about.encode()).hexdigest()[:40]}.json"

    def _text(self, answers: dict[str, str]) -> str:
        digest = hashlib.sha256(json.dumps([self._about, answers], sort_keys=True).encode()).hexdigest()
        return json.dumps({"about": self._about, "answers": answers, "sha256": digest})

    def _read(self, folder: Path) -> dict[str, float]:
        """What the file has, if it is this composition's and whole; else nothing."""
        try:
            with self._path(folder).open("rb") as file:
                text = file.read(_MAX_BYTES).decode("ascii")
            answers = json.loads(text)["answers"]
            if self._text(answers) == text:
                return {question: float.fromhex(answer) for question, answer in answers.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if not isinstance(error, FileNotFoundError):
                logger.info("what was computed of a plan before cannot be read, and is computed again")
        return {}


def kept_in() -> str:
    """The folder, as text for a message."""
    folder = _folder(os.environ.get("TALLYTREE_CACHE_DIR"))
    return "in no folder" if folder is None else repr(str(folder))


@cache
def _computed_by(source: Path) -> tuple[str, ...]:
    """All that the last bits of a number may depend on, beside the question."""
    versions = (f"{name} {version(name)}" for name in _LIBRARIES)
    return hashlib.sha256(source.read_bytes()).hexdigest(), platform.machine(), *versions


@cache
def _folder(named: str | None) -> Path | None:
    """Where numbers are kept; None where they cannot be, or where somebody else could change them."""
    if named == "":
        return None
    try:
        above = Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tallytree"
        folder = above.absolute() / "accounting"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # a home that cannot be found is a RuntimeError
        logger.info("there is no folder to keep what is computed of a plan; TALLYTREE_CACHE_DIR names one")
        return None
    fault = why_untrusted(folder, (".json",))
    if fault is not None:
        logger.info("what was computed of plans is neither read nor kept, because %s", fault)
    return folder if fault is None else None


def _make_room(folder: Path) -> None:
    """Remove the older half of the files, once there are too many."""
    files = [*folder.glob("*.json")]
    if len(files) >= MAX_FILES:
        for path in sorted(files, key=lambda path: path.stat().st_mtime)[: MAX_FILES // 2]:
            path.unlink(missing_ok=True)


Curves = tuple[tuple[Fraction, int, int], ...]
"""The discrete Gaussian mechanisms that dominate a plan: (σ, sensitivity, how many of them), sorted."""

MIN_DELTA = Fraction(1, 10**12)
MIN_SIGMA, MAX_SIGMA = Fraction(1, 5), Fraction(10**4)
"""Between which scales (those of `"zcdp"`) the arithmetic is fast and its error measured."""

_POINTS = 2_000
"""Grid points per standard deviation of the composed loss."""
MAX_SHIFTED_CELLS = 200
"""How many discrete Gaussians are composed at most."""

_RELATIVE = 1e-4
"""What is added to a computed δ: a ten-thousandth of it, and `_absolute`."""
_PLAUSIBLE = 0.9
_LEAST_KEPT = 5
"""Standard deviations of noise, over the sensitivity, from which numbers are kept for the next process."""
_ATTEMPTS = 32
_BITS = 17
"""Binary digits of ρ that are kept of a search; noise grows by less than a hundred-thousandth for it."""
_CLOSE = 2e-4
"""How much of δ the search may leave unused; noise grows by less than a hundred-thousandth for it."""


def curves(levels: Iterable[tuple[Sensitivity, Noise]]) -> Curves:
    """The mechanisms whose composition dominates that of the levels.

    Raises:
        ValueError: a level whose shifts are not known, or not covered by one pattern, or noise that is not Gaussian.
    """
    found: Counter[tuple[Fraction, int]] = Counter()
    for bound, noise in levels:
        if len(bound.shifts) != 1 or noise.distribution != "discrete_gaussian":
            raise ValueError(f"no one pattern of discrete Gaussian shifts covers {bound} with {noise}")
        found.update((noise.scale, shift) for shift in bound.shifts[0])
    return tuple((scale, shift, times) for (scale, shift), times in sorted(found.items()))


def implied(mechanisms: Curves, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether the composition is known to be (ε, δ)-differentially private."""
    return not mechanisms or _delta_at(mechanisms, _float_down(epsilon), delta) <= _float_down(delta)


@lru_cache(maxsize=64)
def implied_without_kept(mechanisms: Curves, epsilon: Fraction, delta: Fraction) -> bool:
    """`implied`, by what this process computes itself; no number that was kept for it is used."""
    if not mechanisms:
        return True
    computed = _composition(mechanisms, delta).computed_delta_at(_float_down(epsilon))
    return computed * (1 + _RELATIVE) + _absolute(mechanisms) <= _float_down(delta)


def epsilon_spent(mechanisms: Curves, epsilon: Fraction, delta: Fraction) -> Fraction:
    """About the least ε' ≤ ε for which the composition is known to be (ε', δ)-differentially private.

    Raises:
        ValueError: it is not known to be (ε, δ)-differentially private.
    """
    if not implied(mechanisms, epsilon, delta):
        raise ValueError(f"not known to be ({float(epsilon)}, {float(delta)})-differentially private: {mechanisms}")
    if not mechanisms:
        return Fraction(0)
    computed = (_float_down(delta) - _absolute(mechanisms)) / (1 + _RELATIVE)
    least = _composition(mechanisms, delta).epsilon_at(computed) * (1 + 1e-9)
    return Fraction(least) if least < epsilon and implied(mechanisms, Fraction(least), delta) else epsilon


def profile(mechanisms: Curves, delta: Fraction) -> Callable[[FloatArray], FloatArray]:
    """A function from ε ≥ 0, float64 (n,), to δ(ε) for which the composition is known to be (ε, δ(ε))-private.

    Args:
        mechanisms: at least one.
        delta: tails of about a millionth of it count as δ.
    """
    composition = _composition(mechanisms, delta)

    def deltas(epsilon: FloatArray) -> FloatArray:
        return composition.deltas_at(epsilon) * (1 + _RELATIVE) + _absolute(mechanisms)

    return deltas


def largest_rho(
    mechanisms_at: Callable[[Fraction], Curves], epsilon: Fraction, delta: Fraction, known: Fraction
) -> Fraction:
    """The largest ρ found whose mechanisms, with the scales as they are drawn, are (ε, δ)-differentially private.

    What is returned was evaluated and holds; the search only decides how close to the limit it comes. For large σ a
    composition behaves as one continuous Gaussian with μ² = 2ρ, so each step solves that one for the δ that would make
    up for the difference last seen; bisection takes over where that leads nowhere.

    The last digits of a computed δ differ between processors, and those of the ρ that was found with them. So it is
    rounded down to `_BITS` bits: the same plan has the same scales, and with a seed the same noise, on all of them.

    Args:
        mechanisms_at: the mechanisms for a total of ρ.
        epsilon: ε > 0.
        delta: δ ≥ `MIN_DELTA`.
        known: a ρ that is known to imply (ε, δ); the least that is returned.
    """
    wanted, loss = _float_down(delta), _float_down(epsilon)
    aim = wanted * (1 - _CLOSE / 2)
    best, too_much, target = known, math.inf, (aim - _absolute(mechanisms_at(known))) / (1 + _RELATIVE)
    for attempt in range(_ATTEMPTS):
        guess = _gaussian_rho(loss, target)
        if attempt >= _ATTEMPTS // 4 or not best < guess < too_much:
            guess = math.sqrt(best * min(too_much, 4 * float(best)))
        reached = _delta_at(mechanisms_at(Fraction(guess)), loss, delta)
        if reached <= wanted:
            best = Fraction(guess)
        else:
            too_much = guess
        if wanted * (1 - _CLOSE) <= reached <= wanted or too_much < best * (1 + Fraction(1, 10**5)):
            break
        target = min(_gaussian_delta(loss, guess) * aim / reached, 0.5)
    rounded = _rounded_down(best)
    return rounded if rounded >= known and _delta_at(mechanisms_at(rounded), loss, delta) <= wanted else best


def _rounded_down(number: Fraction) -> Fraction:
    """The largest number of `_BITS` binary digits that is not above a positive one."""
    unit = Fraction(2) ** (math.frexp(number)[1] - _BITS)
    return number // unit * unit


def _delta_at(mechanisms: Curves, epsilon: float, delta: Fraction) -> float:
    """A δ' for which the composition is (ε, δ')-differentially private, meant to be compared with about δ."""
    computed = float(_composition(mechanisms, delta).deltas_at(np.array([epsilon], dtype=np.float64))[0])
    return computed * (1 + _RELATIVE) + _absolute(mechanisms)


def _absolute(mechanisms: Curves) -> float:
    """What float arithmetic may take off a computed δ: a hundredth of `MIN_DELTA` up to 80 cells, then more."""
    return 1e-14 * max(1.0, sum(times for _, _, times in mechanisms) / 80)


class _Composition:
    """The privacy-loss distribution of mechanisms, made when a number of it is asked for that is not kept.

    Args:
        mechanisms: at least one.
        delta: see `_composed`.
    """

    def __init__(self, mechanisms: Curves, delta: Fraction) -> None:
        self._mechanisms, self._delta = mechanisms, delta
        # Of less noise a wrong number could be far off and still pass `_is_plausible`.
        enough = all(float(scale) >= _LEAST_KEPT * shift for scale, shift, _ in mechanisms)
        self._kept = KeptValues(f"{mechanisms} {delta}", Path(__file__)) if enough else None

    @cached_property
    def _distribution(self) -> Any:
        return _composed(self._mechanisms, self._delta)

    @cached_property
    def _rho(self) -> float:
        return sum(times * shift**2 / (2 * float(scale) ** 2) for scale, shift, times in self._mechanisms)

    def deltas_at(self, epsilons: FloatArray) -> FloatArray:
        """δ at every ε, float64 (n,), as `dp-accounting` computes it."""
        found = np.zeros(len(epsilons))
        # One by one: for a list the package adds the losses up in a Python loop, which also cancels.
        for i, epsilon in enumerate(epsilons.tolist()):
            kept = None if self._kept is None else self._kept.get(f"delta at {epsilon.hex()}")
            if kept is None or not self._is_plausible(epsilon, kept):
                kept = self.computed_delta_at(epsilon)
                if self._kept is not None:
                    self._kept.put(f"delta at {epsilon.hex()}", kept)
            found[i] = kept
        if self._kept is not None:
            self._kept.save()
        return found

    def computed_delta_at(self, epsilon: float) -> float:
        """δ at ε, as `dp-accounting` computes it now."""
        return float(self._distribution.get_delta_for_epsilon(epsilon))

    def epsilon_at(self, delta: float) -> float:
        """ε at δ, as `dp-accounting` computes it; one that is kept is used if it still leads back to δ."""
        if self._kept is None:
            return float(self._distribution.get_epsilon_for_delta(delta))
        question = f"epsilon at {delta.hex()}"
        kept = self._kept.get(question)
        if kept is not None and math.isclose(self.deltas_at(np.array([kept]))[0], delta, rel_tol=_CLOSE):
            return kept
        found = float(self._distribution.get_epsilon_for_delta(delta))
        self._kept.put(question, found)
        self.deltas_at(np.array([found]))  # for the next time; keeps both
        return found

    def _is_plausible(self, epsilon: float, kept: float) -> bool:
        """Whether a kept δ is at least nine tenths of that of the continuous Gaussian mechanism with the same ρ.

        Right numbers of σ ≥ 5 are near it, so whatever happened to a file, δ is understated by a fifth at most. Numbers
        of less noise are not kept.
        """
        cancelled = _absolute(self._mechanisms) / 50  # in the closed form
        return _PLAUSIBLE * _gaussian_delta(epsilon, self._rho) - cancelled <= kept <= 1


_composition = lru_cache(maxsize=16)(_Composition)


def _composed(mechanisms: Curves, delta: Fraction) -> Any:
    """The privacy-loss distribution of the composition; tails of about a millionth of δ count as δ."""
    from dp_accounting.pld import privacy_loss_distribution  # 1.5 to 4 s, mostly SciPy: only where it is needed

    variance = sum(times * shift**2 / float(scale) ** 2 for scale, shift, times in mechanisms)
    interval, tail = math.sqrt(variance) / _POINTS, float(delta) * 1e-7
    composed = None
    for scale, shift, times in mechanisms:
        one = privacy_loss_distribution.from_discrete_gaussian_mechanism(
            _float_down(scale), sensitivity=shift, value_discretization_interval=interval, use_connect_dots=True
        )
        several = one.self_compose(times, tail) if times > 1 else one
        composed = several if composed is None else composed.compose(several, tail)
    return composed


def _gaussian_delta(epsilon: float, rho: float) -> float:
    """δ of the continuous Gaussian mechanism (Balle and Wang 2018, Theorem 5) with μ² = 2ρ."""
    mean = math.sqrt(2 * rho)
    upper, lower = (math.erfc((epsilon / mean + sign * mean / 2) / math.sqrt(2)) / 2 for sign in (-1, 1))
    return upper - (math.exp(epsilon + math.log(lower)) if lower > 0 else 0.0)


def _gaussian_rho(epsilon: float, delta: float) -> float:
    """ρ at which the continuous Gaussian mechanism has this δ at ε; a guess, of no consequence for privacy."""
    low, high = -60.0, 30.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _gaussian_delta(epsilon, math.exp(middle)) <= delta else (low, middle)
    return math.exp(low)


def _float_down(number: Fraction) -> float:
    """The largest float that is not above the number."""
    nearest = float(number)
    return nearest if Fraction(nearest) <= number else math.nextafter(nearest, -math.inf)
