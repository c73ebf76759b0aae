"""Where the work on the records runs: the engines that a user chooses with `engine=`."""

from tallytree.private.engines import Engine, Local, Remembering

__all__ = ["Engine", "Local", "Remembering"]


def __dir__() -> list[str]:
    """What tab completion offers."""
    return __all__
