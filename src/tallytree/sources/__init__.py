"""Tables that users give: files, data frames, Arrow, DuckDB relations."""
