"""Optimisation problems on plain arrays. They know nothing of privacy.

`isotonic`, `simplex`, `tree` and `matching` are for other programs, a problem each; all else is private.
"""
