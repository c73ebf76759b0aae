"""`tallytree demo`."""

from tallytree.cli.demo.make import make_demo

__all__ = ["make_demo"]
