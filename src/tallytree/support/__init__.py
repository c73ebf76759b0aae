"""What every floor uses: flat arrays, compiled kernels, threads, files, checks of arguments, progress and the log."""
