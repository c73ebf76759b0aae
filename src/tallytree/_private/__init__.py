"""The private side of the firewall: everything that touches a record, a true count or a noise key.

Only `pipeline`, `audit` and `postprocess.bootstrap` import it (and `tallytree.engines`, which names the engines that a
user chooses). An import contract in `pyproject.toml` checks this.
"""
