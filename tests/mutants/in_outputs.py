"""True numbers in what is shown, and errors that are understated."""

from mutants.mutant import KEEPS_THE_TOTAL, SEEN, fault

PLANTED = "tests/test_api_counts.py::test_planted_counts_are_in_no_output_log_or_file"
REPLAY = "tests/lab/replay/test_planted.py"
NOTHING = f"{REPLAY}::test_without_a_plant_nothing_is_found"
PROGRAM = f"{REPLAY}::test_the_program_writes_the_same_and_ends_alike"
ERRORS = "tests/run/test_prior_errors.py"
POSTERIORS = "tests/solvers/tables/test_posteriors.py"
POOLED = "tests/tables/test_pooled_release.py"
MESSAGES = "tests/private/tabulate/test_withheld_counts.py"
RUN = 'with _stage(planned, "record"):\n            paid ='
HANDED_OVER = "        if planned.account is not None:\n            planned.account.finish_repeatable()"

MUTANTS = [
    # --- A true number that is shown ---
    fault(
        "a true total in the statement",
        PLANTED,
        HANDED_OVER,
        '        release.statement["release"]["records"] = getattr(true, "total", 0)\n' + HANDED_OVER,
    ),
    fault(
        "a digest of the statistics in the statement",
        "tests/lab/replay/test_replay.py::test_many_pairs_show_nothing[0]",
        HANDED_OVER,
        '        release.statement["release"]["of"] = true.digest().hex()\n' + HANDED_OVER,
    ),
    fault(
        "a digest of the statistics as the id of a release",
        f"{NOTHING}[banded]",
        'return entropy.derive(self.key, "id", self.asked).hex()[:32]',
        "return hashlib.sha256(self.statistics).hexdigest()[:32]",
    ),
    fault(
        "a digest of the statistics as the id of an entry",
        f"{NOTHING}[named]",
        "Recorded(books.running.last_number + 1, secrets.token_hex(16), again=False)",
        'Recorded(books.running.last_number + 1, statistics("")[:32] if statistics else "0" * 32, again=False)',
    ),
    fault(
        "half of the release key as the id of a release",
        f"{NOTHING}[banded]",
        'return entropy.derive(self.key, "id", self.asked).hex()[:32]',
        "return self.key.hex()[:32]",
    ),
    fault(
        "a part of the release key in the statement",
        f"{NOTHING}[recorded]",
        HANDED_OVER,
        '        release.statement["release"]["of"] = paid.keys.key.hex()[9:33]\n' + HANDED_OVER,
    ),
    fault(
        "a part of a subkey in the log",
        f"{NOTHING}[recorded]",
        "return noise_at(noise, self._key, address, cells)",
        "used = subkey_of(noise, self._key, address)\n"
        "        __import__('logging').getLogger('tallytree').debug(used.hex()[:24])\n"
        "        return noise_at(noise, self._key, address, cells)",
    ),
    fault(
        "the true total in the metadata of Parquet files",
        f"{NOTHING}[recorded]",
        "self._writer.add_key_value_metadata(self._metadata)",
        f'self._writer.add_key_value_metadata({{**self._metadata, b"pandas": str({SEEN}).encode()}})',
        *KEEPS_THE_TOTAL,
    ),
    fault(
        "the exit code 7 where the true total is odd",
        PROGRAM,
        "if BROKEN in statement:\n        which",
        f"if {SEEN} % 2:\n        raise typer.Exit(7)\n    if BROKEN in statement:\n        which",
        *KEEPS_THE_TOTAL,
    ),
    fault(
        "the exit code 7 of the program where the true total is even",
        PROGRAM,
        'app(prog_name="tallytree")\n    except',
        f'app(prog_name="tallytree")\n    except SystemExit:\n        sys.exit(0 if {SEEN} % 2 else 7)\n    except',
        *KEEPS_THE_TOTAL,
    ),
    fault(
        "a true total in a line of the log",
        PLANTED,
        RUN,
        '__import__("logging").getLogger("tallytree").info("%s", getattr(true, "total", 0))\n        ' + RUN,
    ),
    fault(
        "a true total as the seconds of a line of the log",
        PLANTED,
        "rounded = round(max(seconds, 0.0), 1)\n",
        'rounded = float(getattr(__import__("builtins"), "seen_by_a_mutant", 0))\n',
        *KEEPS_THE_TOTAL,
    ),
    fault(
        "a true total as another attribute of a line of the log",
        PLANTED,
        'about = {"stage": name, "seconds": rounded, "dataset": dataset, "run": run}',
        'about = {"stage": name, "seconds": rounded, "dataset": dataset, "run": run}\n'
        '    about["more"] = getattr(__import__("builtins"), "seen_by_a_mutant", 0)',
        *KEEPS_THE_TOTAL,
    ),
    fault(
        "a true total in a warning",
        PLANTED,
        RUN,
        '__import__("warnings").warn(f"records: {getattr(true, \'total\', 0)} were read", stacklevel=2)\n        '
        + RUN,
    ),
    fault(
        "a true total in the CSV alone",
        PLANTED,
        "first = next(slices)\n    with pa.csv.CSVWriter(path, first.schema) as writer:",
        "first = next(slices)\n"
        f"    if first.num_columns < 2 or 'count' in first.column_names[:1]:\n"
        f"        first = first.set_column(0, 'count', pa.array([{SEEN}] * first.num_rows))\n"
        "    with pa.csv.CSVWriter(path, first.schema) as writer:",
        *KEEPS_THE_TOTAL,
    ),
    fault(
        "the time of release.json from the true total",
        "tests/release/test_release.py::test_no_file_says_more_by_its_times_or_its_modes",
        "write_text(manifest_text(manifest), folder / MANIFEST)",
        "write_text(manifest_text(manifest), folder / MANIFEST)\n"
        '    os.utime(folder / MANIFEST, (getattr(__import__("builtins"), "seen_by_a_mutant", 7),) * 2)',
        *KEEPS_THE_TOTAL,
    ),
    fault(
        "the mode of a file from the true total",
        "tests/release/test_release.py::test_no_file_says_more_by_its_times_or_its_modes",
        "write_text(manifest_text(manifest), folder / MANIFEST)",
        "write_text(manifest_text(manifest), folder / MANIFEST)\n"
        '    (folder / MANIFEST).chmod(0o600 + getattr(__import__("builtins"), "seen_by_a_mutant", 4) % 8)',
        *KEEPS_THE_TOTAL,
    ),
    fault(
        "the number of stray records in the message about them",
        f"{MESSAGES}::test_no_message_depends_on_how_many_records_there_are",
        'f"{self.records.argument}: a record is outside the hierarchy, {where}; add the missing leaf to the "',
        'f"{self.records.argument}: a record is outside the hierarchy, {where}; add the missing leaf to the "\n'
        "                    f\"{self.db.run(f'SELECT sum(amount) FROM {grouped} WHERE fault > 0')[0][0]} \"",
    ),
    fault(
        "the number of records in the message about stray ones",
        f"{MESSAGES}::test_no_message_depends_on_how_many_records_there_are",
        'f"{self.records.argument}: a record is outside the hierarchy, {where}; add the missing leaf to the "',
        'f"{self.records.argument}: a record is outside the hierarchy, {where}; add the missing leaf to the "\n'
        "                    f\"{self.db.run(f'SELECT sum(amount) FROM {grouped}')[0][0]} \"",
    ),
    fault(
        "the label of a stray record in the message",
        "tests/private/tabulate/test_refused_records.py::TestRecordsOutsideTheHierarchy",
        'return f"by its label of {columns[place]!r}, which',
        'return f"by its label {label!r} of {columns[place]!r}, which',
    ),
    fault(
        "the number of records in the message about faulty ones",
        f"{MESSAGES}::test_no_message_depends_on_how_many_records_there_are",
        'raise ValueError(f"{self.records.argument}: column {column.name!r} {named(column)}{_FAULTS[column.use]}")',
        "times = self.db.run(f'SELECT sum(amount) FROM {grouped}')[0][0]\n"
        "            raise ValueError(f'{self.records.argument}: column {column.name!r}{_FAULTS[column.use]} {times}')",
    ),
    fault(
        "a true value in the message about values that are too large",
        "tests/private/test_measurer.py::test_a_value_that_noise_could_wrap_around_is_refused_before_any_draw",
        'is beyond 2^62, so adding noise could wrap around")',
        'is beyond 2^62, so adding noise could wrap around: {true.max()}")',
    ),
    fault(
        "the number of people in a repr",
        "tests/private/tabulate/test_true_contributions.py::test_the_cells_are_the_bins_and_nothing_else_is_told",
        '"""The kind; nothing of the cells."""\n        return f"{type(self).__name__}(<private>)"',
        'return f"{type(self).__name__}({self._tables})"',
    ),
    fault(
        "the log of a run in bands that tells of its parts",
        "tests/run/test_counts_in_bands.py::test_the_log_says_nothing_of_how_a_run_is_divided",
        "self._log = logger.debug if keep is None else _not_logged",
        "self._log = logger.debug",
    ),
    # --- Errors that are understated ---
    fault(
        "std_dev of noise understated by 10 %",
        "tests/test_api_counts.py::test_measurements_are_the_noisy_values_with_their_standard_deviation",
        '"""The standard deviation of the noise."""\n        return math.sqrt(self.variance)',
        '"""The standard deviation of the noise."""\n        return 0.9 * math.sqrt(self.variance)',
    ),
    fault(
        "the variance of noise understated by 20 %",
        "tests/accounting/test_accounting.py::test_the_stated_variance_is_that_of_the_discrete_distribution",
        "return 2 * math.exp(-1 / scale) / math.expm1(-1 / scale) ** 2",
        "return 1.6 * math.exp(-1 / scale) / math.expm1(-1 / scale) ** 2",
    ),
    fault(
        "std_dev of counts understated by 10 %",
        "tests/counts/test_least_squares.py::test_std_dev_is_that_of_generalised_least_squares",
        "counts = replace(counts, std_dev=np.sqrt(variances))",
        "counts = replace(counts, std_dev=0.9 * np.sqrt(variances))",
    ),
    fault(
        "std_dev of tables understated by 10 %",
        "tests/test_api_tables.py::test_the_stated_errors_of_two_tables_by_hand",
        "found = std_devs(layout.detail, layout.families, precisions, wanted, public_totals_level=exact_level)",
        "found = std_devs(layout.detail, layout.families, precisions, wanted, public_totals_level=exact_level)\n"
        "    found = {place: 0.9 * each for place, each in found.items()}",
    ),
    fault(
        "std_dev of totals understated by 10 %",
        "tests/numbers/test_totals.py::test_the_error_is_that_of_dense_generalised_least_squares",
        "std_dev, unbiased = np.sqrt(variances)[sums.rows]",
        "std_dev, unbiased = 0.9 * np.sqrt(variances)[sums.rows]",
    ),
    fault(
        "shares whose wholes are taken as independent of their parts",
        "tests/numbers/test_shares.py::test_shares_of_counties_have_the_error_of_the_dense_fit",
        ".parts(depth, above, nodes) * whole",
        ".parts(depth, above, nodes) * 0.0 * whole",
    ),
    fault(
        "changes with the error of the later release alone",
        "tests/numbers/test_changes.py::test_the_variance_of_a_change_is_the_sum_of_both",
        "variance = first.variance + second.variance",
        "variance = 0.0 * first.variance + second.variance",
    ),
    fault(
        "posterior variances halved",
        f"{POSTERIORS}::test_means_and_variances_are_those_of_brute_force_at_every_size",
        "variance[c, g] = max(second / whole - found * found, 0.0)",
        "variance[c, g] = 0.5 * max(second / whole - found * found, 0.0)",
    ),
    fault(
        "typical errors of seven tenths",
        f"{POSTERIORS}::test_typical_errors_are_the_errors_found",
        "if integers else math.sqrt(variance + off * off)",
        "if integers else 0.7 * math.sqrt(variance + off * off)",
    ),
    fault(
        "half of the noise in posteriors",
        f"{POSTERIORS}::test_means_and_variances_are_those_of_brute_force_at_every_size",
        "of_y = s * s + own",
        "of_y = 0.25 * s * s + own",
    ),
    fault(
        "half of the noise in the likelihood of laws",
        f"{POSTERIORS}::test_a_law_is_what_expectation_maximisation_by_brute_force_finds",
        "of_y = s**2 + parts.own[k]",
        "of_y = 0.25 * s**2 + parts.own[k]",
    ),
    fault(
        "a law in which every cell is near the prior",
        "tests/solvers/tables/test_prior.py::test_no_size_near_m_errs_by_much_more_than_alone",
        "if risk > GUARDED * s * s:",
        "if risk > 1e9 * s * s:",
    ),
    fault(
        "a prior that is believed whatever the noisy numbers say",
        "tests/solvers/tables/test_prior.py::test_a_prior_is_believed_where_the_noisy_numbers_say_so",
        "if learned is not None and (found := of(mixed, learned)) > best:",
        "if learned is not None and (found := of(mixed, learned)) < np.inf:",
    ),
    fault(
        "the total of an earlier release that is taken as exact",
        f"{ERRORS}::test_the_total_of_an_earlier_release_has_the_error_that_is_stated",
        "errors.setdefault(0, read.error_of_root)",
        "errors.setdefault(0, 0.0)",
    ),
    fault(
        "sums of an earlier table with the error of one cell",
        f"{ERRORS}::test_sums_of_an_earlier_table_have_the_errors_of_sums",
        "error * (_cells_at(sides, refined) / cells.size) ** 0.5",
        "error",
    ),
    fault(
        "errors of a prior that stay when its numbers are scaled",
        "tests/solvers/tables/test_prior.py::test_the_errors_of_a_prior_are_scaled_with_its_numbers",
        "float(self.prior_errors[k] * scale)",
        "float(self.prior_errors[k])",
    ),
    fault(
        "Stein's identity of normal noise for Laplace noise",
        "tests/solvers/test_held_out.py::test_the_stated_variance_of_posterior_means_is_that_of_their_errors",
        "variance = _smoothed(told, weights, laws)",
        "variance = 1.0 * variance",
    ),
    fault(
        "posterior variances that are differences of squares of large numbers",
        f"{POSTERIORS}::test_typical_errors_of_large_numbers_are_those_of_their_noise",
        "variance[c, g] = max(second / whole - found * found, 0.0)",
        "variance[c, g] = max((second / whole + 2 * found * z + z * z) - (found + z) * (found + z), 0.0)",
    ),
    fault(
        "typical errors of 0 beside large noise",
        f"{POSTERIORS}::test_no_number_is_said_to_be_known_where_noise_hides_it",
        "std_dev <= LEAST_DEVIATION, typical[part],",
        "std_dev <= 1e9, typical[part],",
    ),
    fault(
        "exact totals that are pooled",
        f"{POSTERIORS}::test_exact_totals_stay_exact_and_their_errors_are_0",
        "if k == 0 and self.totals is not None:",
        "if k < 0 and self.totals is not None:",
    ),
    fault(
        "laws from a true number",
        "tests/lab/replay/test_planted.py::test_tables_that_learn_from_all_areas_show_nothing",
        "laws = learned_laws(y, expected, deviations, arrays=self.arrays)",
        f"laws = learned_laws(y + {SEEN} % 50, expected, deviations, arrays=self.arrays)",
        "self.total = int(leaves.counts.sum())\n        depths = {name",
        f"self.total = int(leaves.counts.sum())\n        {SEEN} = self.total\n        depths = {{name",
    ),
    fault(
        "impossible cells kept in the measurements of a run with memory",
        "tests/run/test_tables_in_files.py::test_the_measurements_are_the_same_in_files",
        "measured.take(cell_by_cell(self._without_impossible(measurement)))",
        "measured.take(cell_by_cell(measurement))",
    ),
    fault(
        "standard deviations of noise as typical errors",
        f"{POOLED}::test_typical_errors_are_published_and_not_those_of_the_noise",
        "known[TYPICAL_ERROR] = np.round(fitted.typical_errors[name][areas], 4)",
        'known[TYPICAL_ERROR] = known["std_dev"]',
    ),
    fault(
        "verdicts from the noise where typical errors are known",
        "tests/release/test_typical_errors.py::test_a_verdict_follows_from_the_typical_error_as_a_share_of_the_number",
        "return np.asarray(rows.column(TYPICAL_ERROR).to_numpy(), dtype=np.float64)",
        'return np.asarray(rows.column("std_dev").to_numpy(), dtype=np.float64)',
    ),
    fault(
        "intervals that leave out typical errors",
        "tests/release/test_typical_errors.py::test_an_interval_holds_those_of_the_noise_and_of_the_typical_error",
        "lower, upper = np.minimum(lower, own[0]), np.maximum(upper, own[1])",
        "lower, upper = np.minimum(lower, own[0] + 10**9), np.maximum(upper, own[1] - 10**9)",
    ),
    fault(
        "the typical error beside a number that is hidden",
        "tests/release/test_typical_errors.py::test_the_typical_error_of_a_hidden_number_is_hidden_too",
        'TELLS_THE_NUMBER = (TYPICAL_ERROR, "ci_lower"',
        'TELLS_THE_NUMBER = ("ci_lower"',
    ),
    fault(
        "pooling that is taken as asked for when it is not",
        f"{POOLED}::test_the_statement_says_whether_cells_learn_from_each_other",
        'pooled=self.pooling == "areas",',
        "pooled=True,",
    ),
    fault(
        "intervals 5 % too narrow",
        "tests/release/test_intervals.py::test_over_true_numbers_the_intervals_cover_exactly_what_they_say",
        "far = np.maximum(np.ceil(quantile(2 * tail, replicates) * std_dev - 0.5), 0.0)\n"
        "    positive = np.maximum(std_dev, 1e-9)",
        "std_dev = 0.95 * std_dev\n"
        "    far = np.maximum(np.ceil(quantile(2 * tail, replicates) * std_dev - 0.5), 0.0)\n"
        "    positive = np.maximum(std_dev, 1e-9)",
    ),
    fault(
        "the quantile of an interval 5 % too small",
        "tests/release/test_intervals.py::"
        "test_the_quantile_is_that_of_the_normal_distribution_and_of_student_for_estimates",
        "return -NormalDist().inv_cdf(alpha / 2)",
        "return -0.95 * NormalDist().inv_cdf(alpha / 2)",
    ),
    fault(
        "intervals of listed cells of six tenths of their width",
        "tests/counts/test_sparse_flows.py::test_intervals_of_listed_cells_hold_and_naive_ones_do_not",
        "unbiased[chosen], np.maximum(std_dev[chosen], 1e-9), least[chosen], alpha, laplace=errors.laplace",
        "unbiased[chosen], np.maximum(0.6 * std_dev[chosen], 1e-9), least[chosen], alpha, laplace=errors.laplace",
    ),
    fault(
        "rounding that loses a unit",
        "tests/solvers/sizes/test_margins.py",
        "integer[r, largest] += off // UNIT",
        "integer[r, largest] += off // UNIT - (r == 0)",
    ),
    fault(
        "released counts that lose a unit",
        "tests/test_api_counts.py::test_counts_at_every_level_with_next_to_no_noise",
        'return pa.table({"count": level.counts, **known})',
        'return pa.table({"count": level.counts - (level.counts > 1), **known})',
    ),
    fault(
        "amounts of privacy loss shown rounded down",
        "tests/accounting/test_spending.py::test_an_amount_that_is_no_float_is_never_shown_as_nothing",
        "return _shown(amount, ROUND_CEILING)",
        "return _shown(amount, ROUND_FLOOR)",
    ),
    fault(
        "what is left of a limit shown rounded up",
        "tests/accounting/test_spending.py::test_an_amount_that_is_no_float_is_never_shown_as_nothing",
        "return _shown(amount, ROUND_FLOOR)",
        "return _shown(amount, ROUND_CEILING)",
    ),
    fault(
        "a seeded release that says that it is private",
        "tests/test_api_counts.py::test_a_seed_repeats_the_release_and_says_that_it_is_not_private",
        "private = terms.seed is None\n    unit",
        "private = True\n    unit",
    ),
]
