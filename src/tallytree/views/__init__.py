"""What people look at, from published files: charts, the report, the explorer, files for other programs, maps."""
