"""The commands: one function each, which `tallytree.cli.app` adds to the program."""
