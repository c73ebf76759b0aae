"""Tables where they lie: files, data frames, Arrow, DuckDB relations."""
