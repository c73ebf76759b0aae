"""A saved release replaced by another one; the folder is complete at every moment."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import stat
import warnings
from collections.abc import Container
from pathlib import Path
from typing import Any

from tallytree.kinds.households import PARTS
from tallytree.release.files import building_folder, warn_of_leftovers
from tallytree.release.manifest import MANIFEST, REPORT
from tallytree.release.registry_entry import REGISTRY_FILE, registry_entry
from tallytree.release.release import Release
from tallytree.support.whole_files import flush

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
# An old kernel or file system, or a container's filter of system calls. A place that cannot be written to (EPERM too)
# is found out by the renames that are tried instead.
_NOT_HERE = {errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EPERM}


def replace_release(release: Release, folder: str | os.PathLike[str], *, csv: bool = False) -> Path:
    """Save a release in the place of an earlier one.

    It is written to a sibling folder first, which then takes the place of the earlier one: see `replace_folder`. CSV
    files are written if there were any, and files that are not the release's own are kept, as is deployment.yaml where
    `release` is the same one under other tables.

    Args:
        release: what to save; its tables may be read from the folder itself.
        folder: a saved release.
        csv: write every published table as CSV too, also where there was none.

    Returns:
        The folder's path.

    Raises:
        OSError: the disk is full, or the place cannot be written to; the earlier release is as it was.
        ValueError: the release is a part of one of persons and households, which has its checksum.
    """
    if "part_of" in release.statement:
        raise ValueError(
            f"folder: {os.fspath(folder)!r} is a part of a release of persons and households, which has the checksum "
            "of its files, so it stays as it is; write to another folder (--out)"
        )
    target = _real(folder)
    own = _own_files(target)
    warn_of_leftovers(target)
    with building_folder(target) as aside:
        made = release.save(aside / target.name, csv=csv or any(name.endswith(".csv") for name in own))
        replace_folder(made, target)
        shutil.rmtree(aside, ignore_errors=True)
    return target


def replace_folder(new: str | os.PathLike[str], target: str | os.PathLike[str]) -> Path:
    """Let a finished release folder take the place of another one, which is then removed.

    Where the system can, the two folders swap their names in one step, so that a killed process leaves one of the two
    complete at `target`. Elsewhere the earlier folder is renamed to `.NAME.….earlier`, and the new one takes its name:
    a kill between these two renames leaves nothing at `target`, but both folders whole beside it, and `Release.load`
    and the next run name them and say how to put them back. Files in `target` that are not the earlier release's own
    are copied to the new folder first, and it gets the mode of the earlier one. A deployment.yaml that the publisher
    edited is copied as it is, if both folders hold the same release, and else as deployment.earlier.yaml.

    Args:
        new: a release as `Release.save` wrote it, on the file system of `target`; it is gone afterwards.
        target: a saved release, or a link to one; where nothing is there, `new` just takes the name.

    Returns:
        The path of the release.

    Raises:
        ValueError: `target` exists and is no saved release, so it is not removed.
        OSError: the place cannot be written to; the earlier release is as it was.
    """
    new, target = Path(os.path.abspath(new)), _real(target)  # noqa: PTH100
    if not os.path.lexists(target):
        new.rename(target)
        flush(target.parent)
        return target
    _keep_others(target, new, _own_files(target) | {REGISTRY_FILE})
    _keep_entry(target, new)
    new.chmod(target.stat().st_mode)
    flush(new)
    earlier = _earlier_name(target)
    if exchange(new, target):
        flush(target.parent)
        new.rename(earlier)
    else:
        _rename_both(new, target, earlier)
        flush(target.parent)
    shutil.rmtree(earlier, ignore_errors=True)
    return target


def _real(folder: str | os.PathLike[str]) -> Path:
    target = Path(os.path.abspath(folder))  # noqa: PTH100  (resolve() would follow a link, which is to be kept)
    return target.resolve() if target.is_symlink() else target


def _earlier_name(target: Path) -> Path:
    """A free name beside the target, by which messages know an earlier release."""
    while True:
        name = target.with_name(f".{target.name}.{os.urandom(4).hex()}.earlier")
        if not os.path.lexists(name):
            return name


def _rename_both(new: Path, target: Path, earlier: Path) -> None:
    try:
        target.rename(earlier)
        new.rename(target)
    except BaseException:  # Ctrl-C too
        if os.path.lexists(earlier) and not os.path.lexists(target):
            earlier.rename(target)
        raise


def _own_files(target: Path) -> set[str]:
    """The names of the files of a saved release and of its parts, their reports too: these are about earlier tables.

    So are the folders of these files, which may be links; where a name leads to another place in the folder by a link,
    both are its own.

    Raises:
        ValueError: it is none, or a part of it is none.
    """
    own = {MANIFEST, REPORT}
    try:
        own |= {*json.loads((target / MANIFEST).read_text(encoding="utf-8"))["files"]}
        for part in PARTS:
            if f"{part}/{MANIFEST}" in own:  # it lists the part's own files
                own |= {f"{part}/{name}" for name in (*_own_files(target / part), REGISTRY_FILE)}
        whole = Path(os.path.realpath(target))
        places = [Path(os.path.realpath(target / name)) for name in own]
        own |= {place.relative_to(whole).as_posix() for place in places if place.is_relative_to(whole)}
        own |= {folder.as_posix() for name in own for folder in Path(name).parents}
    except (OSError, ValueError, KeyError, TypeError):
        raise ValueError(
            f"folder: {str(target)!r} is no saved release (it has no readable {MANIFEST}), so it is not replaced; "
            "choose another folder or move it away"
        ) from None
    return own


def _keep_others(target: Path, made: Path, own: Container[str]) -> None:
    """Copy what is not the release's own: files, links as links, folders that are empty, too."""
    for place, folders, files in os.walk(target):
        here = Path(place).relative_to(target)
        if not folders and not files:
            (made / here).mkdir(parents=True, exist_ok=True)
        links = [name for name in folders if (target / here / name).is_symlink()]
        for name in (*files, *links):
            path = here / name
            unfinished = name.endswith(".partial") and name.startswith((f".{REPORT}.", f".{REGISTRY_FILE}."))
            if path.as_posix() not in own and not unfinished and not os.path.lexists(made / path):
                (made / here).mkdir(parents=True, exist_ok=True)
                _copy(target / path, made / path)


def _copy(path: Path, copy: Path) -> None:
    """Copy a file or a link; a pipe is made anew, since whoever reads one may wait for ever."""
    kind = path.lstat().st_mode
    if stat.S_ISREG(kind) or stat.S_ISLNK(kind):
        shutil.copy2(path, copy, follow_symlinks=False)
    elif stat.S_ISFIFO(kind):
        os.mkfifo(copy, stat.S_IMODE(kind))
    else:
        warnings.warn(f"folder: {path.name!r} is neither a file, a link nor a pipe; it is not kept", stacklevel=2)


def _keep_entry(target: Path, made: Path) -> None:
    """Copy the publisher's deployment.yaml: under its name beside the same release, else under another name."""
    entry = target / REGISTRY_FILE
    if not entry.is_file():
        return
    earlier, later = _statement(target), _statement(made)
    if earlier.get("release") == later.get("release"):
        shutil.copy2(entry, made / REGISTRY_FILE)
    elif not _is_as_written(entry, earlier):
        names = ("deployment.earlier.yaml", *(f"deployment.earlier-{number}.yaml" for number in range(2, 10_000)))
        free = next(name for name in names if not os.path.lexists(made / name))
        shutil.copy2(entry, made / free)


def _statement(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / MANIFEST).read_text(encoding="utf-8")).get("statement") or {})


def _is_as_written(entry: Path, statement: dict[str, Any]) -> bool:
    """Whether nobody has edited an entry since a release was saved."""
    try:
        return entry.read_bytes() == registry_entry(statement).encode()
    except (KeyError, TypeError, ValueError):  # a statement of which no entry is written
        return False


def exchange(first: Path, second: Path) -> bool:
    """Swap the names of two files or folders on one file system, atomically (Linux: `renameat2`, RENAME_EXCHANGE).

    Returns:
        Whether they were swapped; False where the system or the file system cannot do so, and nothing was changed.

    Raises:
        OSError: one of them is missing, or they may not be renamed; nothing was changed.
    """
    call = _renameat2()
    if call is None:
        return False
    if call(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NOT_HERE:
        return False
    raise OSError(number, os.strerror(number), str(first), None, str(second))


def _renameat2() -> ctypes._NamedFuncPointer | None:
    try:
        found = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):  # glibc before 2.28, other C libraries, other systems
        return None
    found.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    found.restype = ctypes.c_int
    return found
