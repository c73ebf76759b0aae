"""Generators of synthetic data sets, and a reader of ISTAT's commutes.

* Flows: `boninsegna`, `italy`, and the reader `istat`. Group sizes: `fioretto`, `kuo`, and `taxi_trips`, which
  counts trips.
* The demo's data: `commutes`, `households`. Several attributes: `health`, `residents`.

The docstring of each generator has its distributions. The other modules are shared by these: `flows` and `group_sizes`
(the results), `italy_areas` and `united_states` (areas), `checked_lines`.
"""
