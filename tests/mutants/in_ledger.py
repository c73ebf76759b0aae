"""Releases that are not charged, or too little; a changed ledger that is believed; refusals after the payment."""

from mutants.mutant import fault

RELEASES = "tests/ledger/test_recorded_releases.py"
SUMS = "tests/ledger/test_sums.py"
NAMED = "tests/run/test_named_runs.py"
PRIOR = "tests/run/test_prior.py"

MUTANTS = [
    # --- Charged too little ---
    fault(
        "a release that is not recorded",
        f"{RELEASES}::test_each_release_is_recorded_and_says_so",
        "recorded, events = recorded_posting(books, posting, self.path, statistics, on_changed, inputs)\n"
        "                books.write(events)",
        "recorded, events = recorded_posting(books, posting, self.path, statistics, on_changed, inputs)",
    ),
    fault(
        "releases of equal loss charged once",
        f"{SUMS}::test_sums_are_exact",
        "of_period[amounts] = loss, times + 1",
        "of_period[amounts] = loss, times or 1",
        "self.sums += more",
        "self.sums = more",
        "LossSums()) + more\n        self.new.clear()",
        "LossSums()) + more",
    ),
    fault(
        "a release that ends on the first day of a window left out of it",
        "tests/accounting/test_periods.py::test_no_window_has_more_than_the_candidates",
        "before = self._ended[bisect_left(self._lasts, window.first)]",
        "before = self._ended[bisect_right(self._lasts, window.first)]",
    ),
    fault(
        "releases without a period counted in no window",
        "tests/ledger/test_periods.py::test_a_release_without_a_period_counts_in_every_window",
        "self._all = added(dated.values())",
        "self._all = added(sums for period, sums in dated.items() if period is not None)",
    ),
    fault(
        "a release charged a tenth of what it spends",
        f"{SUMS}::test_sums_are_exact",
        'amounts = (facts["epsilon"], facts["delta"], facts["rho"])\n        of_period',
        'amounts = (facts["epsilon"] and f"{facts[\'epsilon\']}0", facts["delta"], facts["rho"])\n        of_period',
    ),
    fault(
        "ρ of a pure release halved",
        f"{SUMS}::test_a_loss_is_what_the_plan_spends_and_never_more_than_the_budget",
        "return tuple(cost**2 / 2 for cost in costs) if pure else costs",
        "return tuple(cost**2 / 4 for cost in costs) if pure else costs",
    ),
    fault(
        "a limit compared with the wrong sign",
        f"{RELEASES}::test_a_release_over_the_limit_draws_and_records_nothing",
        "if any(amount > remaining[name] for name, amount in asked.items()):",
        "if any(amount < remaining[name] for name, amount in asked.items()):",
    ),
    fault(
        "a limit of which one amount alone counts",
        f"{SUMS}::test_the_delta_of_a_limit_is_a_limit_too",
        "if any(amount > remaining[name] for name, amount in asked.items()):",
        "if all(amount > remaining[name] for name, amount in asked.items()):",
    ),
    fault(
        "the room looked for before the records are read alone",
        f"{RELEASES}::test_a_limit_that_is_used_up_while_the_records_are_read_still_holds",
        "check_run_is_new(earlier, posting, secret=statistics is not None, on_changed=on_changed)\n"
        "    _, new = _admitted(books, posting, path)",
        "check_run_is_new(earlier, posting, secret=statistics is not None, on_changed=on_changed)\n    new = []",
    ),
    fault(
        "two relations added up",
        "tests/ledger/test_terms_and_limits.py::test_another_relation_or_unit_is_never_mixed_in",
        "if ours[name] is not None and kept is not None and ours[name] != kept:",
        'if name != "neighboring" and ours[name] is not None and kept is not None and ours[name] != kept:',
    ),
    fault(
        "a release for a part of a person admitted",
        "tests/ledger/test_person_unit.py::test_a_stated_bound_protects_the_whole_person",
        "if self.max_contributions is not None and posting.max_contributions < self.max_contributions:",
        "if self.max_contributions is not None and posting.max_contributions < 1:",
    ),
    # --- Believed although it was changed ---
    fault(
        "a chain that is not verified",
        "tests/ledger/test_damage.py::test_an_edit_is_refused_at_every_reading_and_writing",
        "if number != place or kept != digest.encode():",
        "if number != place:",
    ),
    fault(
        "the text of an earlier entry that is not compared with its digest",
        "tests/ledger/test_verified.py::"
        "test_the_text_of_an_earlier_entry_is_compared_with_the_digest_that_was_verified",
        "if before is None or not isinstance(text, bytes) or digest_after(before, number, text) != digest:",
        "if before is None or not isinstance(text, bytes):",
    ),
    fault(
        "an older copy that is counted as it is",
        "tests/ledger/test_verified.py::"
        "test_an_older_chain_in_the_same_file_is_refused_by_the_process_that_knew_its_end",
        "if number and digest(number) != self.last.digest and digest(1) == self.first:",
        "if number and digest(1) is None:",
    ),
    # --- The order of payment and noise ---
    fault(
        "a key that exists before the payment",
        f"{RELEASES}::test_it_is_on_the_disk_before_the_key_exists_and_after_the_records_were_accepted",
        "known = None if options.secret is None else keys()",
        "known = keys()",
        "account.record(None if known is None else known.keyed_digest, inputs)",
        "account.record(None if options.secret is None else known.keyed_digest, inputs)",
    ),
    fault(
        "a payment before the records are accepted",
        f"{RELEASES}::test_records_that_are_refused_spend_nothing",
        'with _stage(planned, "tabulate"):',
        "if planned.account is not None:\n            planned.account.record()\n"
        '        with _stage(planned, "tabulate"):',
    ),
    fault(
        "a refusal of too many records after the payment",
        "tests/test_api_refusals.py::test_more_records_than_can_be_added_up_are_refused_before_anything_is_paid",
        "if int(leaves.counts.sum()) > MAX_RECORDS:",
        "if int(leaves.counts.sum()) > 16 * MAX_RECORDS:",
    ),
    # --- Named runs ---
    fault(
        "changed records repeated free of charge",
        f"{NAMED}::test_what_changed_is_refused_and_nothing_is_spent",
        "return last if last.statistics == statistics(last.release_id) else None",
        "return last",
    ),
    fault(
        "a finished run shown once more where changes are charged",
        f"{NAMED}::test_where_changes_are_charged_two_outputs_of_a_run_do_not_tell_whether_the_records_changed",
        'return None if on_changed == "charge" and last.state == "finished" else last',
        "return last",
    ),
    fault(
        "a release shown before the ledger has it as finished",
        f"{NAMED}::test_a_release_that_can_be_repeated_is_not_shown_before_the_ledger_has_it_as_finished",
        "planned.account.finish_repeatable()",
        "pass",
    ),
    fault(
        "one key of all data sets of a secret",
        "tests/run/test_release_keys.py::test_each_key_depends_on_what_it_has_to_and_on_nothing_else",
        'entropy.derive(read_secret(secret), "release", dataset, run)',
        'entropy.derive(read_secret(secret), "release", run)',
    ),
    fault(
        "a seeded release in a ledger",
        f"{RELEASES}::test_arguments_that_do_not_go_together_are_refused",
        'if arguments.seed is not None:\n        raise ValueError(\n            f"seed: {arguments.seed} makes',
        'if arguments.seed == -1:\n        raise ValueError(\n            f"seed: {arguments.seed} makes',
    ),
    fault(
        "a secret that others may read",
        "tests/private/noise/test_secret.py::test_a_secret_that_others_may_read_or_change_is_refused",
        "if status.st_mode & 0o077 or",
        "if status.st_mode & 0o002 or",
    ),
    fault(
        "a revision that is repeated in place of the run that it revises",
        "tests/cli/test_corrections.py::test_the_run_that_was_revised_is_not_made_again",
        "if not _of_period(last, posting) or last.revises != posting.revises:",
        "if not _of_period(last, posting):",
        "if last.revises != posting.revises:\n        why",
        "if not last:\n        why",
    ),
    fault(
        "inputs that are looked at after the records were read",
        "tests/run/test_private_inputs.py::test_files_are_looked_at_before_their_records_are_read",
        "paid = paid_noise(planned, planned.sealed_text, true.digest(), inputs)",
        "paid = paid_noise(planned, planned.sealed_text, true.digest(), _inputs(planned))",
    ),
    fault(
        "a digest of inputs that is the same for every release",
        "tests/run/test_private_inputs.py::test_the_digest_of_inputs_has_a_key_and_a_domain_of_its_own",
        'entropy.derive(key, "inputs", release_id, stamps)',
        'entropy.derive(key, "inputs", stamps)',
    ),
    # --- What is not public as a prior ---
    fault(
        "a private table as prior",
        f"{PRIOR}::test_the_records_are_refused_whatever_is_said_of_them",
        'refuse_private(prior, "prior", given.private_table, given.private_argument)',
        "pass",
    ),
    fault(
        "a table as prior that nobody says is public",
        f"{PRIOR}::test_a_table_that_nobody_says_is_public_is_refused",
        'if not given.prior_is_public:\n            raise ValueError(\n                "prior: a table',
        'if given.prior_is_public is None:\n            raise ValueError(\n                "prior: a table',
    ),
    fault(
        "a file of a release with a seed as public prior",
        f"{PRIOR}::test_a_file_of_a_release_is_no_public_table",
        "        _refuse_file_of_release(prior)",
        "        _refuse_file_of_release(None)",
    ),
    fault(
        "a release with a seed as prior of one without",
        f"{PRIOR}::test_a_release_with_a_seed_is_a_prior_only_of_one_with_a_seed",
        'if not release.statement["private"] and given.seed is None:',
        'if not release.statement["private"] and given.seed == -1:',
    ),
    fault(
        "a prior of the data set that the ledger does not have",
        f"{PRIOR}::test_a_release_of_the_data_set_that_the_ledger_lacks_is_refused",
        'if release.statement["release"]["id"] not in known:',
        'if release.statement["release"]["id"] == "":',
    ),
    fault(
        "a digest of the shape of a prior alone",
        f"{PRIOR}::test_a_release_whose_prior_was_changed_after_planning_does_not_run",
        'digest.update(numbers.astype(numbers.dtype.newbyteorder("<")).tobytes())',
        "pass",
    ),
    fault(
        "a plan without the prior",
        f"{PRIOR}::test_a_repeated_run_has_the_same_prior_or_is_refused",
        "own = self.own_statement() | self._prior_facts",
        "own = self.own_statement()",
    ),
    fault(
        "an entry without the prior",
        f"{PRIOR}::test_the_entry_has_the_digest_of_the_prior_and_its_release",
        "prior=None if self.prior is None else self.prior.recorded,",
        "prior=None,",
    ),
]
