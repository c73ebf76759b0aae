"""deployment.yaml in the folder of a release: completed, checked and written."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tallytree._validate import path_text
from tallytree.release.files import write_whole
from tallytree.release.registry_editing import given_values, with_values
from tallytree.release.registry_entry import REGISTRY_FILE, registry_entry, stated_facts
from tallytree.release.registry_schema import CheckedEntry, checked_entry, schema_of
from tallytree.release.release import Release


@dataclass(frozen=True)
class CompletedEntry:
    """A valid entry, and what there is to say about it.

    Attributes:
        path: of the file that holds it.
        checked: what is filled, and what is still to be.
        disagreements: sentences about values that differ from those of the privacy statement.
        choices: dotted keys that may be added and take fixed values, with these.
    """

    path: Path
    checked: CheckedEntry
    disagreements: list[str]
    choices: dict[str, list[str]]


def completed_entry(
    release: Release,
    folder: str | os.PathLike[str],
    changes: Sequence[str] = (),
    *,
    out: str | os.PathLike[str] | None = None,
    require_complete: bool = False,
) -> CompletedEntry:
    """Change the entry of a saved release as asked, check it, and write it where it has changed.

    Args:
        release: as loaded from the folder.
        folder: of the release; without a deployment.yaml, one is made.
        changes: `KEY=VALUE` each, see `given_values`.
        out: the file to make in place of changing the folder's.
        require_complete: refuse an entry of which something is still to be filled.

    Raises:
        ValueError: the release is not private; a change names no key; or the schema refuses the entry. Nothing is then
            written.
        FileExistsError: `out` exists.
    """
    fresh = registry_entry(release.statement)
    values = given_values(changes)
    target = Path(os.path.abspath(folder)) / REGISTRY_FILE  # noqa: PTH100
    there = os.path.lexists(target)
    earlier = _read(target) if there else fresh
    path = target if out is None else _free_file(out)
    text = with_values(earlier, values)
    checked = checked_entry(text)
    if checked.wrong:
        more = f"; and {len(checked.wrong) - 8} others" if len(checked.wrong) > 8 else ""
        raise ValueError(f"entry: {str(target)!r} is not valid: {'; '.join(checked.wrong[:8])}{more}")
    if require_complete and checked.unfilled:
        raise ValueError(
            f"entry: {len(checked.unfilled)} keys are still to be filled: {', '.join(checked.unfilled)}; edit "
            f"{str(target)!r} or give them by --set"
        )
    if text != earlier or path != target or not there:
        write_whole(path, text)
    stated = stated_facts(release.statement)
    disagreements = [
        f"entry: {key} is {checked.values[key]}, but the release's privacy statement says {value}"
        for key, value in stated.items()
        if key in checked.values and not _same(checked.values[key], value)
    ]
    choices = {key: (schema_of(key) or {}).get("enum", []) for key in checked.absent}
    return CompletedEntry(path, checked, disagreements, {key: known for key, known in choices.items() if known})


def _read(path: Path) -> str:
    if not path.is_file():  # a named pipe would be waited for
        raise ValueError(f"entry: {str(path)!r} is no file; move it away")
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"entry: {str(path)!r} is not UTF-8 text; save it as UTF-8") from None


def _free_file(out: str | os.PathLike[str]) -> Path:
    path = Path(os.path.abspath(path_text(out, "out", "the path of a file to be made")))  # noqa: PTH100
    if os.path.lexists(path):
        raise FileExistsError(f"out: {str(path)!r} exists; choose another file, or move it away")
    if not path.parent.is_dir():
        raise ValueError(f"out: the folder {str(path.parent)!r} does not exist; make it first")
    return path


def _same(shown: str, value: object) -> bool:
    if isinstance(value, str):
        return shown == value
    try:
        return float(shown) == value
    except ValueError:
        return False
