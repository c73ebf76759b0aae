"""What is kept to compare with the papers: their solvers and models. Third-party solvers are imported here only."""
