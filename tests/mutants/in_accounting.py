"""Sensitivities that are too small, and budgets that are too large."""

from mutants.mutant import fault

SENSITIVITY = "tests/accounting/test_sensitivity.py"
HAND = f"{SENSITIVITY}::test_the_table_by_hand"
SIZES = f"{SENSITIVITY}::test_group_sizes_move_by_exactly_what_the_table_says"
KEPT = "tests/accounting/test_kept_values.py"
ACCOUNTING = "tests/accounting/test_accounting.py"

MUTANTS = [
    # --- Sensitivities ---
    fault(
        "m ignored",
        f"{SENSITIVITY}::test_counts_of_a_level_move_by_exactly_what_the_table_says",
        "return Sensitivity(l1 * max_contributions, l2_squared * max_contributions**2, known)",
        "return Sensitivity(l1, l2_squared, known)",
    ),
    fault(
        "the root of m in place of m",
        f"{SENSITIVITY}::test_counts_of_a_level_move_by_exactly_what_the_table_says",
        "return Sensitivity(l1 * max_contributions, l2_squared * max_contributions**2, known)",
        "return Sensitivity(l1 * max_contributions, l2_squared * max_contributions, known)",
    ),
    fault(
        "m ignored for the total",
        f"{SENSITIVITY}::test_the_total_moves_by_at_most_m",
        "known = shifts if max_contributions == 1 else ()",
        'known = shifts if max_contributions == 1 else ()\n    max_contributions **= statistic != "total"',
    ),
    fault(
        "counts of a replaced record halved",
        f"{SENSITIVITY}::test_counts_of_a_level_move_by_exactly_what_the_table_says",
        'return people, people, ((1,) * people,)\n    if statistic == "histogram":',
        'return 1, 1, ((1,),)\n    if statistic == "histogram":',
    ),
    fault(
        "distinct counts of a replaced person halved",
        f"{SENSITIVITY}::test_distinct_counts_of_the_leaves_move_by_exactly_what_the_table_says",
        'cells = max_contributions * (2 if neighboring == "change_one" else 1)',
        "cells = max_contributions",
    ),
    fault(
        "distinct counts above the leaves",
        "tests/run/test_person.py::test_only_the_leaves_have_the_smaller_sensitivity",
        "DISTINCT.get(each, each) if level == leaf_level else each",
        "DISTINCT.get(each, each) if leaf_level is not None else each",
    ),
    fault(
        "distinct counts of coarse tables",
        "tests/accounting/test_sensitivity_of_tables.py::test_every_table_moves_by_exactly_what_is_planned_for_it",
        'return "distinct_counts" if arguments.distinct and layout.is_finest(depth) else "counts"',
        'return "distinct_counts" if arguments.distinct else "counts"',
    ),
    fault(
        "people by their number of records, replaced, halved",
        "tests/accounting/test_contributions.py::test_the_sensitivity_is_what_enumeration_finds_whatever_the_bound_is",
        'cells = 2 if neighboring == "change_one" else 1\n        return',
        "cells = 1\n        return",
    ),
    fault(
        "histograms halved",
        SIZES,
        "if replaced else (2, 2, ((1, 1),))",
        "if replaced else (1, 1, ((1,),))",
    ),
    fault(
        "histograms of a replaced record with the root of 4",
        SIZES,
        "return (4, 6, ((2, 1, 1), (1, 1, 1, 1)))",
        "return (4, 4, ((1, 1, 1, 1),))",
    ),
    fault(
        "sorted sizes of a replaced record halved",
        SIZES,
        "return people * z, people * z * z, ((1,) * people,) if z == 1 else ()",
        "return z, z * z, ((1,),) if z == 1 else ()",
    ),
    fault(
        "tail counts with the quantity ignored",
        SIZES,
        'cells = people * z * (nodes if statistic == "chain_tail_counts" else 1)',
        'cells = people * (nodes if statistic == "chain_tail_counts" else 1)',
    ),
    fault(
        "the chain's nodes ignored",
        SIZES,
        'cells = people * z * (nodes if statistic == "chain_tail_counts" else 1)',
        "cells = people * z",
    ),
    fault(
        "the largest size with the quantity ignored",
        f"{SENSITIVITY}::test_the_largest_size_moves_by_exactly_what_the_table_says",
        "return z, z * z, ((1,),) if z == 1 else ()",
        "return 1, 1, ((1,),) if z == 1 else ()",
    ),
    fault(
        "the effect of a quantity bounded one too low",
        "tests/test_api_group_sizes.py::test_a_quantity_beyond_all_sizes_costs_no_more_noise",
        "return min(max_quantity, largest - smallest + 1)",
        "return min(max_quantity, max(1, largest - smallest))",
    ),
    # --- Noise and what it spends ---
    fault(
        "Laplace noise for a budget 5 % too large",
        f"{ACCOUNTING}::test_laplace_noise_spends_at_most_what_it_was_given_and_nearly_all_of_it",
        'return Noise("discrete_laplace", _scale_up(sensitivity.l1 / epsilon, grid))',
        'return Noise("discrete_laplace", _scale_up(sensitivity.l1 / (epsilon * Fraction(21, 20)), grid))',
    ),
    fault(
        "what Gaussian noise spends halved",
        f"{ACCOUNTING}::test_gaussian_noise_spends_at_most_what_it_was_given_and_nearly_all_of_it",
        "return sensitivity.l2_squared / (2 * noise.scale**2)",
        "return sensitivity.l2_squared / (4 * noise.scale**2)",
        "_scale_up(_root_up(sensitivity.l2_squared / (2 * rho)), grid))",
        "_scale_up(_root_up(sensitivity.l2_squared / (4 * rho)), grid))",
    ),
    fault(
        "scales rounded down",
        "tests/accounting/test_scales.py::test_a_thousand_scales_are_rounded_up_a_little",
        "if nearest >= exact:\n        return nearest",
        "if nearest:\n        return nearest",
    ),
    fault(
        "shares of the levels ignored",
        f"{ACCOUNTING}::test_a_larger_share_means_less_noise",
        "noise = noise_for(each.sensitivity, granted * each.share, grid)\n        return LevelPlan",
        "noise = noise_for(each.sensitivity, granted, grid)\n        return LevelPlan",
    ),
    fault(
        "a plan over its budget taken",
        f"{ACCOUNTING}::test_a_plan_over_its_budget_cannot_exist",
        "if self._total_cost > limit:",
        "if self._total_cost > 2 * limit:",
    ),
    fault(
        "the largest size measured free of charge",
        "tests/run/test_private_maximum_plan.py",
        "return self.beside + tuple(self.levels.values())",
        "return tuple(self.levels.values())",
    ),
    fault(
        "a budget by losses (PLD) 5 % too large, seen by the exact δ of the audit",
        "tests/lab/audit/test_audit.py::test_an_approximate_budget_is_used_up_by_the_planned_noise",
        "_float_down(scale), sensitivity=shift, value_discretization_interval",
        "_float_down(scale * Fraction(21, 20)), sensitivity=shift, value_discretization_interval",
    ),
    fault(
        "a budget by losses (PLD) 5 % too large, seen by a sum over all outcomes",
        "tests/accounting/test_pld.py::test_claims_cover_the_loss_summed_over_all_outcomes",
        "_float_down(scale), sensitivity=shift, value_discretization_interval",
        "_float_down(scale * Fraction(21, 20)), sensitivity=shift, value_discretization_interval",
    ),
    fault(
        "a shift of 2 composed as one of 1",
        "tests/accounting/test_pld.py::test_claims_cover_the_loss_summed_over_all_outcomes",
        "_float_down(scale), sensitivity=shift, value_discretization_interval",
        "_float_down(scale), sensitivity=1, value_discretization_interval",
    ),
    fault(
        "a kept number of a privacy-loss distribution that is far too small and used",
        f"{KEPT}::test_a_kept_number_that_is_far_too_small_is_not_used",
        "if kept is None or not self._is_plausible(epsilon, kept):",
        "if kept is None:",
    ),
    fault(
        "a kept number of another plan that is used",
        f"{KEPT}::test_the_file_of_another_plan_is_not_taken_for_this_one",
        "if self._text(answers) == text:",
        "if answers:",
    ),
    fault(
        "a ledger charged by kept numbers",
        f"{KEPT}::test_a_damaged_number_cannot_understate_what_a_ledger_is_charged",
        "planned.plan.check_without_kept()",
        "planned.plan.spent",
    ),
    fault(
        "what a ledger is charged computed of kept numbers",
        f"{KEPT}::test_a_damaged_number_cannot_understate_what_a_ledger_is_charged",
        "computed = _composition(mechanisms, delta).computed_delta_at(_float_down(epsilon))",
        "computed = float(_composition(mechanisms, delta).deltas_at(np.array([_float_down(epsilon)]))[0])",
    ),
    fault(
        "ε by losses understated by a twentieth",
        "tests/accounting/test_pld.py::test_the_epsilon_that_is_said_to_be_spent_holds_and_hardly_less_does",
        "return Fraction(least) if least < epsilon and implied(mechanisms, Fraction(least), delta) else epsilon",
        "return Fraction(least) * Fraction(19, 20)",
    ),
    fault(
        "the tight conversion of ρ 5 % too large",
        f"{ACCOUNTING}::test_the_tight_conversion_meets_delta_and_is_not_looser_than_it_need_be",
        "return (loss - _offset(order, ln_inverse_delta)) / order",
        "return (loss - _offset(order, ln_inverse_delta)) / order * Decimal('1.05')",
    ),
    fault(
        "the paper's conversion of ρ 5 % too large",
        f"{ACCOUNTING}::test_the_papers_conversion_is_lemma_3_solved_for_rho",
        "rho -= abs(rho) * _MARGIN",
        "rho += abs(rho) / 20",
    ),
    fault(
        "δ left out of what a release spends",
        "tests/ledger/test_sums.py::test_a_loss_is_what_the_plan_spends_and_never_more_than_the_budget",
        'return cls(spent["epsilon"], spent.get("delta", Fraction(0)), rho)',
        'return cls(spent["epsilon"], Fraction(0), rho)',
    ),
    fault(
        "a threshold one too low",
        "tests/accounting/test_stability.py::test_it_is_the_least_that_high_precision_confirms",
        "if suffices(middle, scale, most_lost, delta):",
        "if suffices(middle + 1, scale, most_lost, delta):",
    ),
    fault(
        "a threshold for one record where a person has m",
        "tests/accounting/test_stability.py::test_it_is_the_least_that_high_precision_confirms",
        "single, together = shown(1), shown(most_lost)",
        "single, together = shown(1), shown(1)",
    ),
    fault(
        "an epsilon of 500 without a warning",
        "tests/release/test_risk_statement.py::"
        "test_a_release_that_protects_weakly_says_first_what_an_attacker_finds_out",
        "if epsilon > MOST_EPSILON:",
        "if epsilon > 100 * MOST_EPSILON:",
    ),
    fault(
        "a delta above 1 per record without a warning",
        "tests/release/test_risk_statement.py::test_a_delta_above_1_per_record_of_a_public_total_is_too_large",
        "(1 / total, f",
        "(1.0, f",
    ),
    fault(
        "a risk of attacks that is understated",
        "tests/accounting/test_risk.py::test_pure_privacy_has_the_trade_off_of_its_definition",
        "return rounded_up(max(alpha, min(found)))",
        "return rounded_up(max(alpha, 0.9 * min(found)))",
    ),
]
