"""Where the work on the records runs: the same names in each engine."""

from tallytree.engines.engine import Engine
from tallytree.engines.local import Local
from tallytree.engines.remembering import Remembering

__all__ = ["Engine", "Local", "Remembering"]
