"""Optimisation problems on arrays, one module each; they know nothing of privacy, files or named hierarchies."""
