"""The functions of our own that the statements call, because engines write them in different ways.

The statements are DuckDB's SQL, in the subset that sqlglot renders for other engines. What it cannot render is one of
these functions. DuckDB has each as a macro with the definition below; another engine puts its own expression in place
of each call.
"""

from __future__ import annotations

DUCKDB_FUNCTIONS = {
    # Whether all of a text matches a pattern (in the syntax that RE2 and Java have in common).
    "full_match(content, pattern)": "regexp_full_match(content, pattern)",
    # The sum of 64-bit integers, exact beyond 64 bits.
    "exact_sum(number)": "sum(number)",
    # The length of a text in bytes of UTF-8.
    "utf8_length(content)": "strlen(content)",
    # The day of a moment (a timestamp with a time zone) in UTC, whatever the session's zone is.
    "utc_day(moment)": "CAST(make_timestamp(epoch_us(CAST(moment AS TIMESTAMPTZ))) AS DATE)",
    # The first 60 bits of sha256(key ‖ content in UTF-8), as BIGINT: see `contribution_bound`.
    "keyed_place(key, content)": "CAST('0x' || left(sha256(key || encode(content)), 15) AS BIGINT)",
}
"""Signature: its definition in DuckDB's dialect."""
