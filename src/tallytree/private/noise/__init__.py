"""Integer noise, drawn exactly: a pure function of a secret key and an address."""

from tallytree.private.noise.discrete import discrete_gaussian, discrete_laplace

__all__ = ["discrete_gaussian", "discrete_laplace"]
