"""The solvers that the papers used, kept to compare with. Third-party solvers are imported here only."""
