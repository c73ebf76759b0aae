"""Generators of synthetic data sets, each with its distributions in its docstring."""
