"""For researchers and auditors, on the public API: what proves the library, and what compares mechanisms.

* `audit`: bounds on the privacy loss from below, from many runs.
* `replay`: neighboring data sets with equal noisy answers, and all that their releases show.
* `compare`: mechanisms side by side, and measures of error (`tallytree.evaluate`).
* `datasets`: synthetic data, and readers of public data (`tallytree.datasets`).
* `reproduce`: the tables and figures of the papers, measured again.

Publishing needs nothing of it. Nothing of the library imports it, but the two public names and the command line.
"""
