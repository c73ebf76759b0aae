"""`tallytree demo`."""

from tallytree.demo.make import make_demo

__all__ = ["make_demo"]
