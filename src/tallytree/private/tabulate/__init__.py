"""From private tables to true statistics."""
