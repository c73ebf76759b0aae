"""Where the work on the records runs: the engines that a user chooses with `engine=`; `ENGINES` has them by name."""

from tallytree.private.engines import ENGINES, Engine, Local, Remembering, Spark

__all__ = ["ENGINES", "Engine", "Local", "Remembering", "Spark"]


def __dir__() -> list[str]:
    """What tab completion offers."""
    return [name for name in __all__ if name != "ENGINES"]
