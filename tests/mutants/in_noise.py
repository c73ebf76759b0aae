"""Noise that is too small, shifted, used twice, or not of the key that it should be of."""

from mutants.mutant import fault

NOISE = "tests/private/noise"
MEASURER = "tests/private/test_measurer.py"
WINDOWS = "tests/run/test_repeated_noise.py"
MAGNITUDES = "tests/lab/audit/test_magnitudes.py"

MUTANTS = [
    # --- The scale ---
    fault(
        "keyed noise of half the scale",
        f"{MAGNITUDES}::test_the_library_is_audited_at_every_magnitude",
        "return noise_at(noise, self._key, address, cells)",
        "return noise_at(Noise(noise.distribution, noise.scale / 2), self._key, address, cells)",
    ),
    fault(
        "noise of Spark's tasks of half the scale",
        f"{NOISE}/test_noise_source.py::test_subkeys_draw_the_same_noise",
        "sampler = sampler_of(representable(noise.scale, argument))",
        "sampler = sampler_of(representable(noise.scale / 2, argument))",
    ),
    fault(
        "OpenDP's noise of half the scale",
        f"{NOISE}/test_opendp.py::test_opendps_scale_is_the_next_float_that_is_not_smaller",
        "used = float(next_float(scale, argument))",
        "used = float(next_float(scale, argument)) / 2",
    ),
    fault(
        "Gaussian noise of half the scale above 512",
        f"{NOISE}/test_distribution.py::test_moments_at_large_scales",
        "return gaussian_digits(sigma, int(sigma / _DIGITS_PER_SIGMA).bit_length() - 1)",
        "return gaussian_digits(sigma / 2, int(sigma / _DIGITS_PER_SIGMA).bit_length() - 1)",
    ),
    fault(
        "Laplace noise of half the scale above 128",
        f"{NOISE}/test_distribution.py::test_moments_at_large_scales",
        "return laplace_digits(scale, int(44 * scale).bit_length() // 2)",
        "return laplace_digits(scale / 2, int(44 * scale).bit_length() // 2)",
    ),
    fault(
        "noise halved where a true value exceeds 1,000, seen by the audit",
        f"{MAGNITUDES}::test_the_library_is_audited_at_every_magnitude",
        "noisy = np.add(true, noise, out=noise)",
        "noisy = np.add(true, np.where(true > 1_000, noise // 2, noise), out=noise)",
    ),
    fault(
        "noise halved where a true value exceeds 1,000, seen by the measurer's own test",
        f"{MEASURER}::test_noise_does_not_depend_on_the_true_value",
        "noisy = np.add(true, noise, out=noise)",
        "noisy = np.add(true, np.where(true > 1_000, noise // 2, noise), out=noise)",
    ),
    fault(
        "noise halved where a true value exceeds 512 scales",
        f"{MAGNITUDES}::test_the_library_is_audited_at_every_magnitude",
        "noisy = np.add(true, noise, out=noise)",
        "noisy = np.add(true, np.where(true > 512 * float(planned.noise.scale), noise // 2, noise), out=noise)",
    ),
    fault(
        "noise left out of an empty cell",
        f"{MEASURER}::test_noise_does_not_depend_on_the_true_value",
        "noisy = np.add(true, noise, out=noise)",
        "noisy = np.add(true, np.where(true == 0, 0, noise), out=noise)",
    ),
    fault(
        "noise above a threshold halved where a true value exceeds 1,000",
        f"{MEASURER}::test_noise_above_a_threshold_does_not_depend_on_the_true_value",
        "noisy = true + self._source.draw(planned.noise, (planned.level, planned.statistic), nodes)",
        "noisy = self._source.draw(planned.noise, (planned.level, planned.statistic), nodes)\n"
        "        noisy = true + np.where(true > 1_000, noisy // 2, noisy)",
    ),
    # --- The sampler ---
    fault(
        "a sampler shifted by one",
        f"{NOISE}/test_distribution.py::test_draws_at_small_scales_follow_the_mass_function",
        "left_open = _fill(key, cells, self.table.for_kernels, self.table.first, noise)",
        "left_open = _fill(key, cells, self.table.for_kernels, self.table.first + 1, noise)",
    ),
    fault(
        "a threshold of a sampler one too low",
        f"{NOISE}/test_inverse_cdf.py::test_thresholds_are_the_floors_and_words_beside_them_are_decided_rightly",
        "return max(0, cdf[0] >> dropped_bits), min(ones, cdf[1] >> dropped_bits)",
        "low, high = max(0, cdf[0] >> dropped_bits), min(ones, cdf[1] >> dropped_bits)\n"
        "    return low - (0 < low < ones), high - (0 < high < ones)",
    ),
    fault(
        "a Gaussian proposal of a large scale never rejected",
        f"{NOISE}/test_samplers.py::test_the_kernel_and_exact_arithmetic_decide_alike",
        "verdict = kept_by_line(kept, own_word(key, cell, own), base_bits, excess, line)",
        "verdict = 1",
    ),
    # --- Noise that is used twice ---
    fault(
        "a fresh key that is constant",
        f"{NOISE}/test_entropy.py::test_fresh_keys_are_32_bytes_and_never_repeat",
        "return secrets.token_bytes(KEY_BYTES)",
        "return bytes(KEY_BYTES)",
    ),
    fault(
        "a fresh key of 4 random bytes",
        f"{NOISE}/test_entropy.py::test_a_fresh_key_is_32_bytes_that_the_system_is_asked_for",
        "return secrets.token_bytes(KEY_BYTES)",
        "return secrets.token_bytes(4) * (KEY_BYTES // 4)",
    ),
    fault(
        "a secret of 4 random bytes",
        f"{NOISE}/test_secret.py::test_a_new_secret_is_32_bytes_that_the_system_is_asked_for",
        "key = secrets.token_bytes(KEY_BYTES)",
        "key = secrets.token_bytes(4) * (KEY_BYTES // 4)",
    ),
    fault(
        "the id of an entry of 2 random bytes",
        "tests/ledger/test_recorded_releases.py::test_the_id_of_an_entry_is_16_bytes_that_the_system_is_asked_for",
        "Recorded(books.running.last_number + 1, secrets.token_hex(16), again=False)",
        "Recorded(books.running.last_number + 1, secrets.token_hex(2) * 8, again=False)",
    ),
    fault(
        "the key of a release that is constant",
        "tests/test_api_counts.py::test_no_release_repeats_the_noise_of_another",
        "return entropy.fresh_key() if options.seed is None else entropy.key_from_seed(options.seed)",
        "return entropy.key_from_seed(options.seed or 0)",
    ),
    fault(
        "an address missing in the subkey",
        f"{NOISE}/test_keyed_noise.py::test_noise_of_other_cells_addresses_keys_scales_and_distributions_is_independent",
        'return derive(key, "noise", argument, used.numerator, used.denominator, *address)',
        'return derive(key, "noise", argument, used.numerator, used.denominator)',
    ),
    fault(
        "the scale missing in the subkey",
        f"{NOISE}/test_keyed_noise.py::test_noise_of_other_cells_addresses_keys_scales_and_distributions_is_independent",
        'return derive(key, "noise", argument, used.numerator, used.denominator, *address)',
        'return derive(key, "noise", argument, *address)',
    ),
    fault(
        "the level missing in the address",
        f"{MEASURER}::test_levels_and_keys_have_noise_of_their_own",
        "noise = self._source.draw(planned.noise, (level, statistic), numbers)",
        "noise = self._source.draw(planned.noise, (statistic,), numbers)",
    ),
    fault(
        "Spark's levels with one subkey",
        f"{NOISE}/test_noise_source.py::test_subkeys_draw_the_same_noise",
        "return SubkeyNoise({each: subkey_of(each[0], self._key, each[1]) for each in asked})",
        "return SubkeyNoise({each: subkey_of(each[0], self._key, ()) for each in asked})",
    ),
    fault(
        "cell numbers of tables modulo 2^20",
        f"{WINDOWS}::test_no_window_of_noise_repeats",
        "return table.ravel()[numbers], np.arange(len(nodes) + 1, dtype=np.int64) * (stop - first), numbers",
        "ends = np.arange(len(nodes) + 1, dtype=np.int64) * (stop - first)\n"
        "        return table.ravel()[numbers], ends, numbers % 2**20",
    ),
    fault(
        "cell numbers of tables modulo 2^20, seen by the tables' own test",
        "tests/private/tabulate/test_cell_numbers.py::test_no_two_cells_of_a_level_share_a_number",
        "return table.ravel()[numbers], np.arange(len(nodes) + 1, dtype=np.int64) * (stop - first), numbers",
        "ends = np.arange(len(nodes) + 1, dtype=np.int64) * (stop - first)\n"
        "        return table.ravel()[numbers], ends, numbers % 2**20",
    ),
    fault(
        "cell numbers of counts modulo 2^20",
        f"{WINDOWS}::test_no_window_of_noise_repeats",
        "return counts_of(*known, nodes), np.arange(len(nodes) + 1, dtype=np.int64), nodes\n",
        "return counts_of(*known, nodes), np.arange(len(nodes) + 1, dtype=np.int64), nodes % 2**20\n",
    ),
    fault(
        "cell numbers of group sizes modulo 2^20",
        "tests/private/tabulate/test_cell_numbers.py::test_no_two_cells_of_a_level_share_a_number",
        "return np.ascontiguousarray(table).reshape(-1), np.arange(len(nodes) + 1) * width, numbers.reshape(-1)",
        "numbers %= 2**20\n        return np.ascontiguousarray(table).reshape(-1), "
        "np.arange(len(nodes) + 1) * width, numbers.reshape(-1)",
    ),
    fault(
        "cell numbers of counts in bands that begin anew in every band",
        f"{WINDOWS}::test_no_window_of_noise_repeats_across_bands",
        "return counts_of(*known, nodes), np.arange(len(nodes) + 1, dtype=np.int64), nodes\n",
        "return counts_of(*known, nodes), np.arange(len(nodes) + 1, dtype=np.int64), nodes % 2**18\n",
    ),
    fault(
        "noise that begins anew in every chunk of cells",
        f"{WINDOWS}::test_no_window_of_noise_repeats",
        "part = count[: len(part)] + start if isinstance(part, range) else np.array(part, np.int64)",
        "part = count[: len(part)] + start if isinstance(part, range) else np.array(part, np.int64) % _CHUNK",
    ),
    fault(
        "a block counter of the cipher with 18 bits",
        f"{WINDOWS}::test_no_window_of_noise_repeats",
        "np.uint32(block), np.uint32(block >> _HALF), np.uint32(nonce)",
        "np.uint32(block & np.uint64(2**18 - 1)), np.uint32(block >> _HALF), np.uint32(nonce)",
    ),
    fault(
        "a block counter of the cipher with 32 bits",
        f"{NOISE}/test_chacha.py::test_block_number_and_nonce_use_all_64_bits",
        "np.uint32(block), np.uint32(block >> _HALF), np.uint32(nonce)",
        "np.uint32(block), np.uint32(0), np.uint32(nonce)",
    ),
    # --- What the key is bound to ---
    fault(
        "a noise key that does not depend on the statistics",
        "tests/test_api_counts.py::test_seeded_noise_changes_with_the_data_and_with_the_scale",
        'return entropy.derive(self.key, "noise", self.statistics.hex(), self.asked)',
        'return entropy.derive(self.key, "noise", self.asked)',
    ),
    fault(
        "the noise key of a named run that does not depend on the statistics",
        "tests/run/test_release_keys.py::test_each_key_depends_on_what_it_has_to_and_on_nothing_else",
        'return entropy.derive(self.key, "noise", release_id, self.statistics.hex(), self.plan)',
        'return entropy.derive(self.key, "noise", release_id, self.plan)',
    ),
    fault(
        "the noise key of a named run that does not depend on the entry",
        "tests/run/test_release_keys.py::test_each_key_depends_on_what_it_has_to_and_on_nothing_else",
        'return entropy.derive(self.key, "noise", release_id, self.statistics.hex(), self.plan)',
        'return entropy.derive(self.key, "noise", self.statistics.hex(), self.plan)',
    ),
    fault(
        "a digest of the statistics that leaves the numbers of records out",
        "tests/test_api_counts.py::test_seeded_noise_changes_with_the_data_and_with_the_scale",
        "levels = array_digest(array for level in self._levels.values() for array in level)",
        "levels = array_digest(array for level in self._levels.values() for array in level[:1])",
    ),
    fault(
        "the key of the first phase in the second",
        "tests/run/test_auto_bound_runs.py::"
        "test_the_phases_have_keys_of_their_own_and_the_second_has_noise_for_the_chosen_bound",
        "return KeyedNoise(self.keys.noise_after_a_choice(self.release_id, statistics, plan))",
        "return self.source",
    ),
    fault(
        "a named run that draws fresh noise when it is repeated",
        "tests/run/test_named_runs.py::test_a_repetition_is_the_same_release_and_costs_nothing",
        'source = OpenDPNoise() if options.noise == "opendp" else KeyedNoise(known.noise(release_id))',
        "import secrets\n\n    source = KeyedNoise(secrets.token_bytes(32))",
    ),
    fault(
        "a key that can be carried away",
        f"{MEASURER}::test_a_key_cannot_be_carried_away",
        'raise TypeError("KeyedNoise holds a secret key and cannot be pickled")',
        "return KeyedNoise, (self._key,)  # type: ignore[return-value]",
    ),
]
