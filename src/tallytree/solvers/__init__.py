"""Optimisation problems on plain arrays, for other programs: a module each. They know nothing of privacy.

How they are solved is in `tallytree.solvers`.
"""
