"""Where the work on the records runs: the engines that a user chooses with `engine=`; `ENGINES` has them by name."""

from tallytree.private import ENGINES, Engine, Local, Remembering, Spark, names_no_file

__all__ = ["ENGINES", "Engine", "Local", "Remembering", "Spark", "names_no_file"]


def __dir__() -> list[str]:
    """What tab completion offers."""
    return [name for name in __all__ if name not in ("ENGINES", "names_no_file")]
