"""All planted faults."""

from mutants import in_accounting, in_choices, in_ledger, in_noise, in_outputs

MUTANTS = [*in_noise.MUTANTS, *in_accounting.MUTANTS, *in_choices.MUTANTS, *in_ledger.MUTANTS, *in_outputs.MUTANTS]
