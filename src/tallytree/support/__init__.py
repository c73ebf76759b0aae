"""Small helpers that every floor uses: flat arrays, compiled kernels, threads."""
