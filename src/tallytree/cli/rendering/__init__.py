"""Rendering: what the commands show at a terminal, as lines and tables."""
