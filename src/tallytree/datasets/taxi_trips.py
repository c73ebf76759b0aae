"""From taxi trips to the groups of Kuo et al. 2018: of `tallytree.lab.datasets`."""

from tallytree.lab.datasets.taxi_trips import read_boundaries, taxis_from_trips

__all__ = ["read_boundaries", "taxis_from_trips"]
