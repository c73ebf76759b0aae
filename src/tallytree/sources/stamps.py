"""What tells that the files of a table were replaced since: their sizes, their times, and the tags of servers.

It is private: the size of a file tells how many records it has. So it leaves a run only as a keyed digest.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tallytree.sources.kinds import CSV, Parquet
from tallytree.sources.locate import Files, locate


def stamps_of(table: Any, argument: str) -> str | None:
    """The stamps of all files of a table, as one text that does not depend on their order, names and folders.

    Of each file: its size in bytes; when it was written (ns); the server's tag of its content, where it has one; and
    the columns in the names of its folders, which are a part of its content.

    Args:
        table: any table; see `tallytree.sources.locate.locate`. No row is read.
        argument: its name in messages.

    Returns:
        None of a database, a query, or a table in memory: nothing tells whether these have changed. Also where a file
        is not there any more, or its server does not answer.
    """
    if not isinstance(table, str | os.PathLike | list | tuple | Parquet | CSV):
        return None
    try:
        found = locate(table, argument)
        if not isinstance(found, Files):
            return None
        return json.dumps(sorted(json.dumps(_stamp(found, path, argument)) for path in found.paths))
    except (ValueError, OSError, ModuleNotFoundError):  # what cannot be read is refused where it is read
        return None


def _stamp(files: Files, path: str, argument: str) -> list[Any]:
    """The stamp of one file."""
    place = files.place
    if place is None:
        about = Path(path).stat()
        return [about.st_size, about.st_mtime_ns, None, files.partition_values(path)]
    with place.run(lambda: place.system.open_input_file(path), path, argument) as file:
        tag = place.tag(file)
    stamp = place.stamps[path]
    return [stamp.size, stamp.written, None if tag is None else tag.decode("latin-1"), files.partition_values(path)]
