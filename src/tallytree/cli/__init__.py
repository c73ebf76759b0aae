"""The command line."""

from tallytree.cli.app import app, main

__all__ = ["app", "main"]
