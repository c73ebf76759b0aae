"""What is known about errors: of a plan, from the fit of a release, from replicates, on public stand-in data."""
