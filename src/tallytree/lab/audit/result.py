"""What an audit found out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AuditResult:
    """What an audit found out about one mechanism on one pair of neighboring inputs.

    A bound that is above what is stated disproves the statement, at the given confidence. A bound below it proves
    nothing beyond these two inputs and these events.

    Attributes:
        mechanism: what was audited.
        neighboring: the neighboring relation.
        epsilon_stated: the ε that the budget grants.
        delta: the δ that goes with it; 0 for a pure budget.
        epsilon_lower: the loss ε is at least this.
        exact_epsilon: the loss of the planned noise on these inputs, exactly; None where the noise is Gaussian, or
            followed by a threshold.
        rho_stated: what the plan says that it spends in ρ; None where the noise is Laplace.
        rho_lower: the loss ρ is at least this; None where the noise is Laplace.
        exact_rho: the loss of the planned noise on these inputs in ρ, exactly; None where the noise is Laplace.
        exact_delta: the δ that the planned noise needs at ε on these inputs, rounded down; None where it is Laplace
            without a threshold.
        confidence: with at least this probability all lower bounds are right.
        event: the event that showed the largest loss, in words.
        runs: how often everything was measured, under each of the two inputs.
        releases: how many of these runs the mechanism turned into a release.
        passed: whether nothing contradicts what is stated.
    """

    mechanism: str
    neighboring: str
    epsilon_stated: float
    delta: float
    epsilon_lower: float
    exact_epsilon: float | None
    rho_stated: float | None
    rho_lower: float | None
    exact_rho: float | None
    exact_delta: float | None
    confidence: float
    event: str
    runs: int
    releases: int
    passed: bool

    def __str__(self) -> str:
        """The verdict and what it rests on."""
        lines = [f"{self.mechanism}, {self.neighboring}: {'passed' if self.passed else 'FAILED'}"]
        lines.append(_line("ε", self.epsilon_stated, self.epsilon_lower, self.exact_epsilon))
        if self.exact_delta is not None:
            lines.append(
                f"  δ: stated {self.delta:.6g}, exactly {self.exact_delta:.6g} for the planned noise at this ε"
            )
        if self.rho_stated is not None and self.rho_lower is not None:
            lines.append(_line("ρ", self.rho_stated, self.rho_lower, self.exact_rho))
        lines.append(f"  confidence {self.confidence:.6g}, {self.runs:,} runs, {self.releases:,} releases")
        lines.append(f"  best event: {self.event}")
        return "\n".join(lines)


def _line(symbol: str, stated: float, lower: float, exact: float | None) -> str:
    exactly = "" if exact is None else f", exactly {exact:.6g} for the planned noise"
    return f"  {symbol}: stated {stated:.6g}, at least {lower:.6g}{exactly}"
