"""Where the work on the records runs: the same names in each engine."""

from tallytree.private.engines.engine import Engine
from tallytree.private.engines.local import Local
from tallytree.private.engines.remembering import Remembering

__all__ = ["Engine", "Local", "Remembering"]
