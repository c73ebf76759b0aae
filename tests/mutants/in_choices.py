"""Choices made by true data, facts taken as public that are not, bounds that are not enforced."""

from mutants.mutant import KEEPS_THE_TOTAL, SEEN, fault

PERSON = "tests/run/test_person.py"
SIZES = "tests/test_api_group_sizes.py"

MUTANTS = [
    # --- Decided by true data ---
    fault(
        'sparsity="auto" decided by true data',
        "tests/counts/test_auto_sparsity.py::test_equal_measurements_are_released_alike_whatever_the_records_are",
        *KEEPS_THE_TOTAL,
        "return self.occupancy.share <= MAX_SHARE",
        f"return {SEEN} % 2 == 0",
    ),
    fault(
        'max_contributions="auto" decided by true data',
        "tests/run/test_auto_bound.py::test_the_bound_is_the_one_that_is_recommended_of_the_same_noisy_numbers",
        "facts = chosen_bound(planned, measured)",
        "facts = chosen_bound(planned, replace(measured, people=first.contributions._people))",
    ),
    fault(
        "K from the true largest size",
        "tests/run/test_private_maximum.py",
        "largest = int(largest_published(measured.values, measured.noise, domain.smallest, domain.largest)[0])",
        "largest = int(true.largest_size()._size)",
    ),
    fault(
        "a threshold on true counts",
        "tests/counts/test_stability_histogram.py::test_a_lone_record_is_published_as_often_as_the_tail_says",
        "passed = noisy >= planned.threshold",
        "passed = true >= planned.threshold",
    ),
    fault(
        "cells without records measured above a threshold",
        "tests/counts/test_stability_histogram.py::"
        "test_noise_is_drawn_for_cells_with_records_alone_and_only_those_above_the_threshold_come_out",
        "passed = noisy >= planned.threshold",
        "passed = noisy >= 1",
    ),
    # --- Facts that are not public ---
    fault(
        "the total taken as public under add_remove",
        "tests/test_api_counts.py::test_the_total_is_published_only_where_no_change_can_alter_it",
        'return self.relation == "change_one" and one_each and all_count',
        "return one_each and all_count",
    ),
    fault(
        "the total taken as public with several records of a person",
        "tests/test_api_counts.py::test_the_total_is_published_only_where_no_change_can_alter_it",
        "one_each = self.max_contributions == 1 and self.person_column is None",
        "one_each = self.person_column is None",
    ),
    fault(
        "the total taken as public where people are named",
        f"{PERSON}::test_the_total_is_private_where_people_are_named",
        "one_each = self.max_contributions == 1 and self.person_column is None",
        "one_each = self.max_contributions == 1",
    ),
    fault(
        "the total taken as public where records are left out",
        "tests/test_api_counts.py::test_the_total_is_published_only_where_no_change_can_alter_it",
        'return self.relation == "change_one" and one_each and all_count',
        'return self.relation == "change_one" and one_each',
    ),
    fault(
        "private numbers of groups in every domain",
        f"{SIZES}::test_no_private_number_of_groups_reaches_a_mechanism_or_a_plan",
        'here if invariants == "groups" or (invariants == "total" and len(here) == 1) else None',
        'here if invariants != "none" or len(here) == 1 else None',
    ),
    # --- Bounds ---
    fault(
        "one record too many of a person",
        f"{PERSON}::test_of_every_person_at_most_m_records_count",
        "SELECT {columns}, 1 AS amount FROM numbered WHERE number <= $most",
        "SELECT {columns}, 1 AS amount FROM numbered WHERE number <= $most + 1",
    ),
    fault(
        "people with more records than m not bounded",
        f"{PERSON}::test_of_every_person_at_most_m_records_count",
        "FROM matched WHERE {known} GROUP BY {person} HAVING exact_sum({counted}) > $most",
        "FROM matched WHERE {known} GROUP BY {person} HAVING exact_sum({counted}) > 100 * $most",
    ),
    fault(
        "repeated records of a person not bounded",
        "tests/private/tabulate/test_contribution_bound.py::test_of_every_person_min_of_m_and_all_records_are_kept",
        "SELECT {columns}, least(amount, $most - before) AS amount FROM summed WHERE before < $most",
        "SELECT {columns}, amount FROM summed WHERE before < $most",
    ),
    fault(
        "on spread rows, a cell is not cut to what is left of the bound",
        "tests/private/tabulate/test_contribution_bound.py::test_the_statement_for_spread_rows_keeps_the_same",
        "CASE WHEN records > $most THEN least(amount, $most - before) ELSE amount END",
        "amount",
    ),
    fault(
        "people counted by what counts, and not by all their records",
        "tests/run/test_contributions.py::test_people_are_counted_by_all_their_records",
        "SELECT least(exact_sum({counted}), $most) AS records FROM matched",
        "SELECT least(1, exact_sum({counted}), $most) AS records FROM matched",
    ),
    fault(
        "records bounded by at_most once a smaller bound is chosen",
        "tests/run/test_auto_bound.py::test_of_every_person_at_most_the_chosen_number_of_records_is_measured",
        "true = chosen.tabulate(work, people)",
        "true = planned.tabulate(work, people)",
    ),
    fault(
        "which records count without the key",
        "tests/private/tabulate/test_contribution_bound.py::test_the_key_chooses_and_every_leaf_is_as_likely",
        'key=bound.key,\n    )\n    db.drop("matched")',
        'key=bytes(32),\n    )\n    db.drop("matched")',
    ),
    fault(
        "a quantity that is not cut",
        f"{SIZES}::test_sizes_are_sums_of_quantities_that_are_cut",
        '_Statistic("least(v0, $most)", parameters={"most": max_quantity})',
        '_Statistic("v0", parameters={})',
    ),
    fault(
        "sizes that are not cut to K",
        "tests/private/tabulate/test_statements.py::test_stated_groups_by_leaf_and_size",
        'size = "greatest(least(v0, $largest), $smallest)"',
        'size = "greatest(least(v0, $largest + 1), $smallest)"',
    ),
    fault(
        "a cell measured twice with fresh noise",
        "tests/private/test_measurer.py::test_opendp_noise_is_not_drawn_twice_for_a_cell",
        "if len(np.unique(cells)) < len(cells) or any(np.isin(cells, before).any() for before in earlier):",
        "if len(np.unique(cells)) < len(cells):",
    ),
    fault(
        "a mechanism that measures what is not planned",
        "tests/private/test_measurer.py::test_only_what_was_planned_is_measured",
        "if found is not None and (found.level, found.statistic) == (level, statistic) else None",
        "if found is not None else None",
    ),
    fault(
        "a planned release that was changed and runs",
        "tests/run/test_planned.py::test_a_copy_of_a_planned_release_is_not_run_whatever_was_replaced",
        "if not self.sealed_text or not self._is_as_sealed():",
        "if not self.plan:",
    ),
    fault(
        "records outside the period that are counted",
        "tests/private/tabulate/test_in_period.py::test_members_outside_the_period_are_in_no_group",
        'if column.days is not None and column.unreadable != "shown"',
        'if column.days is not None and column.unreadable == "shown"',
    ),
    fault(
        "records left out silently, whose day cannot be read",
        "tests/private/tabulate/test_in_period.py::test_a_text_that_names_no_day_is_refused_and_not_shown",
        'unreadable: Unreadable = "left out" if self.drop_unknown else "refused"',
        'unreadable: Unreadable = "left out"',
    ),
    fault(
        "a refusal for a day that cannot be read, where such records are left out",
        "tests/private/tabulate/test_in_period.py::test_of_texts_those_are_kept_that_name_days_in_the_period",
        'unreadable: Unreadable = "left out" if self.drop_unknown else "refused"',
        'unreadable: Unreadable = "refused"',
    ),
    fault(
        "a public total of the records in a period",
        "tests/run/test_period_column.py::test_the_total_is_private_where_records_are_left_out",
        'all_count = self.on_unknown != "drop" and self.checked_period is None',
        'all_count = self.on_unknown != "drop"',
    ),
    # --- What the public tree has ---
    fault(
        "impossible cells that are measured",
        "tests/trees/test_impossible_nodes.py::test_children_are_the_nodes_with_a_possible_leaf",
        "return children[possible], np.append(0, np.cumsum(possible))[offsets]",
        "return children, offsets",
    ),
    fault(
        "records in impossible cells of flows that count",
        "tests/trees/test_impossible_nodes.py::test_a_trip_within_a_zone_is_an_error_or_dropped",
        "return self.tree.impossible if isinstance(self.tree, Product) else ()",
        "return ()",
    ),
    fault(
        "numbers in cells that one area cannot have",
        "tests/solvers/tables/test_marginal_rounding.py::test_no_unit_goes_where_a_child_cannot_have_one",
        "score[c] = np.inf if never else _cost(place, weight, deviation[c], j)",
        "score[c] = _cost(place, weight, deviation[c], j)",
    ),
    fault(
        "districts that do not have their towns' numbers",
        "tests/tables/test_impossible_areas.py::test_districts_follow_from_towns_also_where_no_table_has_both",
        "for depth in range(len(levels) if whole else 1):",
        "for depth in range(1):",
    ),
    fault(
        "bands of possible nodes that are taken for all nodes",
        "tests/trees/test_impossible_nodes.py::test_bands_change_no_number_where_nodes_are_impossible",
        "number = np.empty(self.tree.size(self.depth), dtype=np.int64)",
        "number = np.empty(len(self.nodes), dtype=np.int64)",
    ),
    fault(
        "a budget whose last digits follow from the processor",
        "tests/accounting/test_pld.py::test_the_same_plan_has_the_same_noise_where_a_processor_computes_other_last_digits",
        "return rounded if rounded >= known and",
        "return rounded if False and",
    ),
    fault(
        "one noise for trees whose branches end elsewhere",
        "tests/test_short_branches.py::test_where_branches_end_is_part_of_the_plan",
        "if hierarchy.reach is not None:  # it decides which records belong to a leaf",
        "if False:",
    ),
    fault(
        "records of another parent in the unknown leaf",
        "tests/run/test_unknown_leaves.py::test_every_record_counts_where_the_rule_says",
        'found.append(f"CASE WHEN {name}.label IS NULL THEN {leaf} END")',
        "found.append(leaf)",
    ),
]
