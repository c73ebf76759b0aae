"""The earlier place of `tallytree.noise`, which other programs import as `tallytree.private.noise`."""

import sys

from tallytree import noise

__all__ = ["noise"]

sys.modules[f"{__name__}.noise"] = noise
