"""How ledgers, statements and errors are shown at a terminal."""
