"""Whether anybody but this user and root can put files into a folder.

numba's cached code is read with pickle, and then run: a file that somebody else has put there is run as this user.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_MOST_LINKS = 40


@cache
def why_untrusted(folder: Path, suffixes: tuple[str, ...]) -> str | None:
    """Who else could have put a file into a folder, or changed one there; None if nobody could.

    The folder, every folder above it and every link on the way to it must belong to this user or to root, and only the
    owner may write there. A folder above may be one where all may write if it is sticky, as /tmp is: there nobody can
    rename what belongs to others. In the folder, the same holds for the files themselves.

    Args:
        folder: the folder.
        suffixes: of the files in it that matter.

    Returns:
        The path that is at fault, and why. On a system without POSIX owners None.
    """
    if not hasattr(os, "geteuid"):
        return None
    trusted = (0, os.geteuid())
    try:
        *_, last = way = [*_way_to(folder)]
        for path in way:
            about = path.lstat()
            if about.st_uid not in trusted:
                return f"{str(path)!r} belongs to another user"
            if stat.S_ISLNK(about.st_mode) or not about.st_mode & _OTHERS_WRITE:
                continue
            if path == last or not about.st_mode & stat.S_ISVTX:
                return f"other users can write to {str(path)!r}"
        return _first_untrusted_file(folder, suffixes, trusted)
    except OSError as error:
        return f"{str(folder)!r} cannot be examined ({error.strerror})"


def _first_untrusted_file(folder: Path, suffixes: tuple[str, ...], trusted: tuple[int, ...]) -> str | None:
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if not entry.name.endswith(suffixes):
            continue
        about = entry.stat(follow_symlinks=False)
        if not stat.S_ISREG(about.st_mode):
            return f"{entry.path!r} is no regular file"
        if about.st_uid not in trusted:
            return f"{entry.path!r} belongs to another user"
        if about.st_mode & _OTHERS_WRITE:
            return f"other users can write to {entry.path!r}"
    return None


def _way_to(folder: Path) -> Iterator[Path]:
    """Every folder and every link that leads to a folder, from the root of the file system on; the folder is last."""
    absolute = folder.absolute()
    here = Path(absolute.anchor)
    ahead = list(reversed(absolute.parts[1:]))
    links = 0
    yield here
    while ahead:
        part = ahead.pop()
        if part == "..":
            here = here.parent
            continue
        step = here / part
        yield step
        if not step.is_symlink():
            here = step
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(0, "too many links", str(folder))
        target = step.readlink()
        here = Path(target.anchor) if target.is_absolute() else here
        ahead += reversed(target.parts[1:] if target.is_absolute() else target.parts)
    yield here
