"""Which tests are run by one process, where several run them."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling


class FilesAndSpark(LoadFileScheduling):  # type: ignore[misc]
    """A file is run by one process, and so is every test with "spark" in its id.

    A process that asks for the Spark session of the tests starts Java, which takes seconds, and more until it is warm.
    """

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if "spark" in nodeid else str(super()._split_scope(nodeid))
