"""What noise costs, and how much noise a budget asks for. Every rounding is towards more privacy.

Levels compose, adaptively chosen ones too, such as those whose sizes are clamped to a largest size that was measured
first; the nodes of one level share one bound, because `sensitivity` is that of all nodes together. Adaptive
composition is that of pure ε (Dwork, Rothblum and Vadhan 2010), of ρ (Bun and Steinke 2016, Lemma 2.3), and of
privacy-loss distributions (see `pld`). How levels compose depends on the budget:

* pure ε: discrete Laplace noise, and the levels' ε add up (`scales`);
* ρ: discrete Gaussian noise, and the levels' ρ add up (`scales`);
* (ε, δ): discrete Gaussian noise, and either the privacy-loss distributions of the levels are composed (`pld`, tight),
  or their ρ are added up and converted (`conversions`: `"zcdp"` or `"paper"`).

A release that publishes only the counts above a threshold measures one level, and composes nothing (`stability`).

`noise_plan` combines these. `docs/explanation/accounting.md` compares them.
"""

from tallytree.accounting.conversions import epsilon_from_rho, rho_from_epsilon
from tallytree.accounting.noise_plan import Asked, LevelPlan, NoisePlan, composable_budget, plan_noise
from tallytree.accounting.scales import Grid, gaussian_for, laplace_for, privacy_cost
from tallytree.accounting.stability import StabilityPlan, StableLevel, plan_stability

Plan = NoisePlan | StabilityPlan

__all__ = [
    "Asked",
    "Grid",
    "LevelPlan",
    "NoisePlan",
    "Plan",
    "StabilityPlan",
    "StableLevel",
    "composable_budget",
    "epsilon_from_rho",
    "gaussian_for",
    "laplace_for",
    "plan_noise",
    "plan_stability",
    "privacy_cost",
    "rho_from_epsilon",
]
