"""Parts of public trees: bands of one that does not fit in memory, leaves by codes, combinations that cannot be."""
