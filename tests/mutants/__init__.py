"""Planted faults, each with the check that must catch it; `make mutants` tries them. `run.py` says how."""
