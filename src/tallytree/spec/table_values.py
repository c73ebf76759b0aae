"""Tables in a spec: a path, a list of paths, or a mapping that begins with a key of `tallytree.sources`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import PlainValidator

from tallytree.sources.addresses import is_path, published_path, scheme_of, without_files
from tallytree.sources.kinds import TABLE_SOURCES, TableSource, checked_paths
from tallytree.spec.scalars import Plain, read_flag, read_list, read_text
from tallytree.spec.wording import closest

LISTS = ("partitions",)
"""Options that are lists of text."""
FLAGS = ("external_access",)
"""Options that are true or false; the others are text."""


def _table(value: object) -> Any:
    if isinstance(value, list):
        return checked_paths(tuple(map(read_text, value)), "url") if value else _refuse_nothing("list")
    if isinstance(value, dict):
        return _of_mapping(value)
    return checked_paths(read_text(value), "url")


def _refuse_nothing(what: str) -> Any:
    raise ValueError(f"the {what} is empty; give the paths of Parquet or CSV files")


def _of_mapping(given: Mapping[str, Any]) -> TableSource:
    if not given:
        _refuse_nothing("mapping")
    key = next((each for each in TABLE_SOURCES if each in given), None)
    if key is None:
        near = next((found for each in list(given)[:50] if (found := closest(each, TABLE_SOURCES)) is not None), None)
        guess = f"; did you mean {near}?" if near else ""
        raise ValueError(f"a table's mapping has one of the keys {', '.join(TABLE_SOURCES)}{guess}")
    kind = TABLE_SOURCES[key]
    names = {each.name for each in dataclasses.fields(kind)} - {kind.address}  # type: ignore[arg-type]
    for each in given:
        if each != key and each not in names:
            near = closest(each, names)
            guess = f"did you mean {near}?" if near else f"those of {key} are {', '.join(sorted(names))}"
            raise ValueError(f"unknown option {each!r} of a table; {guess}")
    address = given[key]
    several = tuple(map(read_text, address)) if isinstance(address, list) else read_text(address)
    options = {each: _option(each, value) for each, value in given.items() if each != key}
    if key == "duckdb" and "table" not in options:
        raise ValueError("table is missing; name the table: {duckdb: path, table: …}")
    try:
        return kind(**{kind.address: several}, **options)
    except TypeError as error:
        problem = str(error)
    raise ValueError(problem)


def _option(name: str, value: object) -> Any:
    if name in FLAGS:
        return read_flag(value)
    return tuple(map(read_text, read_list(value))) if name in LISTS else read_text(value)


Table = Annotated[Any, PlainValidator(_table)]


def relative_to(given: Any, path: Callable[[str], str]) -> Any:
    """The table, its paths changed; a URL is relative to nothing."""

    def changed(written: str) -> str:
        return path(written) if is_path(written) else written

    if isinstance(given, TableSource):
        return given.with_address(changed)
    return [changed(each) for each in given] if isinstance(given, tuple) else changed(given)


def private_name(given: Any, written: Mapping[tuple[str | int, ...], str]) -> Any:
    """As `public_name`, of the private table: a list of files is one text."""
    return without_files(public_name(given, written))


def public_name(given: Any, written: Mapping[tuple[str | int, ...], str]) -> Any:
    """A table as it may be published: of a path what is below the spec's folder, of a URL the last part.

    Args:
        given: the table as the spec has it.
        written: the texts in which a variable has a value of the environment, by their keys below the table's.
    """
    if given is None:
        return None
    if isinstance(given, tuple):
        return [_below(written.get((place,), each)) for place, each in enumerate(given)]
    if not isinstance(given, TableSource):
        return _below(written.get((), given))
    named = given.published()
    for option in named.keys() - {"query"}:
        named[option] = written.get((option,), named[option])
    address = getattr(given, given.address)
    if isinstance(address, tuple):
        named[given.key] = [_below(written.get((given.key, place), each)) for place, each in enumerate(address)]
    else:
        named[given.key] = _below(written.get((given.key,), address))
    return named


def _below(written: str) -> str:
    path = published_path(written)
    outside = scheme_of(written) or written.startswith("/") or ".." in written.split("/")
    return path if outside else written


def plain_table(given: Any, path: Callable[[str], str]) -> Any:
    """A table of a document as Python values, its paths changed."""

    def changed(written: Any) -> Any:
        if isinstance(written, list):
            return [changed(each) for each in written]
        text = written.text if isinstance(written, Plain) else written
        return path(text) if is_path(text) else text

    if not isinstance(given, dict):
        return changed(given)
    return {
        name: changed(each) if name in TABLE_SOURCES and name != "postgresql" else _plain(name, each)
        for name, each in given.items()
    }


def _plain(name: str, value: Any) -> Any:
    if name in FLAGS and isinstance(value, Plain):
        return read_flag(value)
    if isinstance(value, list):
        return [_plain(name, each) for each in value]
    return value.text if isinstance(value, Plain) else value
