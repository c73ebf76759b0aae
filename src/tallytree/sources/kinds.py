"""What a path alone cannot say of a table: its format and options, or where in a database it is."""

from __future__ import annotations

import codecs
import dataclasses
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from tallytree.sources.addresses import DATABASES, check_address, published_name, published_path, scheme_of

PathText: TypeAlias = str | os.PathLike[str]


class TableSource:
    """A table with options; frozen dataclasses. In a spec each is a mapping that begins with its key.

    Attributes:
        key: the key of the mapping whose value is the address.
        address: the field that holds it.
    """

    key: ClassVar[str]
    address: ClassVar[str] = "path"

    def with_address(self, change: Callable[[str], str]) -> Any:
        """The same with other paths, such as those relative to another folder."""
        given = getattr(self, self.address)
        changed = tuple(map(change, given)) if isinstance(given, tuple) else change(os.fspath(given))
        return dataclasses.replace(self, **{self.address: changed})  # type: ignore[type-var]

    def published(self) -> dict[str, Any]:
        """As a published spec names it: without folders and hosts."""
        options = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)[1:]}  # type: ignore[arg-type]
        defaults = {each.name: each.default for each in dataclasses.fields(self)}  # type: ignore[arg-type]
        shown = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in options.items()
            if value != defaults[name]
        }
        return {self.key: published_name(getattr(self, self.address)), **shown}


@dataclass(frozen=True)
class Parquet(TableSource):
    """Parquet files, whatever their names end with.

    Attributes:
        path: a file, a folder, a glob or a URL, or a list of these.
        partitions: the names of columns that are in the names of folders (`year=2026/`); None: all that are found there
            may be used; (): none.

    Raises:
        ValueError, TypeError: a value that cannot be used.
    """

    path: PathText | Sequence[PathText]
    partitions: Sequence[str] | None = None

    key: ClassVar[str] = "parquet"

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", checked_paths(self.path, self.key))
        object.__setattr__(self, "partitions", _names(self.partitions))


@dataclass(frozen=True)
class CSV(TableSource):
    """CSV files, whatever their names end with; a name that ends with .gz is that of a gzip file.

    Attributes:
        path: a file, a folder (of `.csv` and `.csv.gz` files), a glob or a URL, or a list of these.
        separator: the character between cells.
        encoding: as Python names it, such as "latin-1" or "cp1252".
        partitions: as for `Parquet`.

    Raises:
        ValueError, TypeError: a value that cannot be used.
    """

    path: PathText | Sequence[PathText]
    separator: str = ","
    encoding: str = "utf-8"
    partitions: Sequence[str] | None = None

    key: ClassVar[str] = "csv"

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", checked_paths(self.path, self.key))
        object.__setattr__(self, "partitions", _names(self.partitions))
        one = isinstance(self.separator, str) and len(self.separator) == 1 and self.separator.isascii()
        if not one or self.separator in '"\r\n\0' or self.separator.isalnum():
            raise ValueError(
                'separator: it must be one ASCII character, such as ";", "|" or a tab, and no letter, digit or quote'
            )
        object.__setattr__(self, "encoding", _encoding(self.encoding))


@dataclass(frozen=True)
class PostgreSQL(TableSource):
    """A table, a view or a query of a PostgreSQL database; needs `tallytree[postgres]`.

    Attributes:
        url: such as "postgresql://user@host/database", without the password: that is in the environment variable
            PGPASSWORD or in ~/.pgpass.
        table: its name, "table" or "schema.table"; letter for letter, as the database has it.
        query: in place of `table`, a SELECT; it runs in a read-only transaction.

    Raises:
        ValueError, TypeError: a value that cannot be used; a password in the URL.
    """

    url: str
    table: str | None = None
    query: str | None = None

    key: ClassVar[str] = "postgresql"
    address: ClassVar[str] = "url"

    def __post_init__(self) -> None:
        if not isinstance(self.url, str) or scheme_of(self.url) not in DATABASES:
            raise ValueError('postgresql: it must be a URL, such as "postgresql://user@host/database"')
        check_address(self.url, self.key)
        if (self.table is None) == (self.query is None):
            raise ValueError("postgresql: give either a table or a query, and not both")
        for name in ("table", "query"):
            _text_or_none(getattr(self, name), name)

    def __repr__(self) -> str:
        """Without the text of the query, which may hold a value of a record."""
        about = "query=<query>" if self.table is None else f"table={self.table!r}"
        return f"PostgreSQL(url={self.url!r}, {about})"

    def with_address(self, change: Callable[[str], str]) -> Any:
        """The same: a URL is relative to nothing."""
        return self

    def published(self) -> dict[str, Any]:
        """Without the server, the user and the text of the query."""
        about = {"query": "<query>"} if self.table is None else {"table": self.table}
        return {self.key: published_path(self.url), **about}


@dataclass(frozen=True)
class DuckDB(TableSource):
    """A table or a view of a DuckDB file, which is opened read-only.

    Attributes:
        path: the file.
        table: its name, "table" or "schema.table".
        external_access: let a view read what lies outside the file, such as other files of this machine; only of a file
            whose views you know.

    Raises:
        ValueError, TypeError: a value that cannot be used.
    """

    path: PathText
    table: str
    external_access: bool = False

    key: ClassVar[str] = "duckdb"

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | os.PathLike) or not os.fspath(self.path):
            raise TypeError(f"duckdb: {type(self.path).__name__} must be the path of a DuckDB file")
        _text_or_none(self.table, "table")
        if self.table is None:
            raise ValueError("duckdb: give the name of its table")
        if scheme_of(os.fspath(self.path)):
            raise ValueError("duckdb: a database is read from a local file; copy it, or export the table to Parquet")
        if not isinstance(self.external_access, bool):
            raise TypeError(f"external_access: {type(self.external_access).__name__} must be True or False")


TABLE_SOURCES: dict[str, type[TableSource]] = {each.key: each for each in (CSV, Parquet, PostgreSQL, DuckDB)}
"""By the key with which each begins in a spec."""


def checked_paths(given: Any, argument: str) -> Any:
    """A path as it is, or several as a tuple; none holds a credential.

    Raises:
        ValueError, TypeError: what is given is no path; a credential in a URL.
    """
    if isinstance(given, str | os.PathLike):
        if isinstance(os.fspath(given), str):
            check_address(os.fspath(given), argument)
        return given
    if isinstance(given, list | tuple) and given:
        return tuple(checked_paths(each, argument) for each in given if _is_path(each, argument))
    raise TypeError(f"{argument}: {type(given).__name__} must be a path, a glob or a URL, or a list of these")


def _is_path(given: Any, argument: str) -> bool:
    if not isinstance(given, str | os.PathLike):
        raise TypeError(f"{argument}: the list holds {type(given).__name__}; it must hold paths")
    return True


def _names(given: Any) -> tuple[str, ...] | None:
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, list | tuple) or not all(isinstance(x, str) for x in given):
        raise TypeError(f'partitions: {type(given).__name__} must be a list of column names, such as ["year"]')
    return tuple(given)


def _encoding(given: Any) -> str:
    if not isinstance(given, str):
        raise TypeError(f'encoding: {type(given).__name__} must be the name of an encoding, such as "latin-1"')
    try:
        "".encode(given)  # a codec from bytes to bytes, such as gzip's, is none of text
        found = codecs.lookup(given).name
    except (LookupError, ValueError):
        found = None
    if found is None:
        raise ValueError('encoding: Python knows no text encoding of this name; give one such as "latin-1" or "cp1252"')
    return found


def _text_or_none(given: Any, name: str) -> None:
    if given is not None and not isinstance(given, str):
        raise TypeError(f"{name}: {type(given).__name__} must be text")
    if given is not None and (not given.strip() or "\0" in given):
        raise ValueError(f"{name}: the text is empty or has a NUL in it; give the name or the query")
