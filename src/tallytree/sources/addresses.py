"""Addresses of tables: paths and URLs. No address holds a credential, and no published name tells where a table is."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

CLOUD = {
    "s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "gcs": "gs", "az": "az", "abfs": "az", "abfss": "az",
    "hdfs": "hdfs", "viewfs": "hdfs",
}  # fmt: skip
"""The schemes of files elsewhere, each with the name of its file system."""

DATABASES = ("postgresql", "postgres")
"""The schemes of databases."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_OPTION = re.compile(r"[?&;][A-Za-z0-9_.%-]+=")
_CONNECTION = re.compile(r"(^|\s)password\s*=", re.IGNORECASE)
_OF_A_PATH = re.compile(r"([a-z][a-z0-9]+):/[^/]")
_SECRET = (
    "password",
    "passwd",
    "sslpassword",
    "secret",
    "token",
    "key_id",
    "access_key",
    "sig",
    "oauth_client_secret",
    "scram_client_key",
    "scram_server_key",
)

_REMEDIES = {
    "s3": "take it out; credentials are read from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, "
    "AWS_PROFILE)",
    "gs": "take it out; credentials are read from the environment (GOOGLE_APPLICATION_CREDENTIALS)",
    "az": "take it out; credentials are read from the environment (AZURE_STORAGE_ACCOUNT, AZURE_STORAGE_KEY)",
    "hdfs": "take it out; credentials are those of the Hadoop client (kinit)",
}
_OF_DATABASES = "take it out, and set the environment variable PGPASSWORD or write it in ~/.pgpass"


def scheme_of(address: str) -> str | None:
    """The scheme of a URL in small letters; None for a path."""
    found = _SCHEME.match(address)
    return found[1].lower() if found else None


def is_path(text: str) -> bool:
    """Whether a text is the path of a file: neither a URL nor something like a database's address."""
    return "://" not in text and not _CONNECTION.search(text)


def check_address(address: str, argument: str) -> None:
    """Refuse a URL that holds a credential or is not read at all; nothing of the URL but its scheme is shown.

    Raises:
        ValueError: a password, a key or options in the URL; an unknown scheme; a URL that became a path.
    """
    scheme = scheme_of(address)
    if scheme is None:
        broken = _OF_A_PATH.match(address)
        if broken and broken[1] in (*CLOUD, *DATABASES):
            raise ValueError(f"{argument}: a Path is no URL, it joins slashes; give the {broken[1]}:// URL as text")
        if not is_path(address):
            raise ValueError(
                f"{argument}: the text is no path and no URL that is read, and is not shown, since it may hold a "
                f"password; give a URL as in postgresql://host/database; {_OF_DATABASES}"
            )
        return
    if scheme in DATABASES:
        _check_database(address, argument)
        return
    if scheme not in CLOUD:
        known = ", ".join(f"{each}://" for each in ("s3", "gs", "az", "hdfs"))
        raise ValueError(f"{argument}: {scheme}:// is not read; give the path of a file, or a URL of {known}")
    family = CLOUD[scheme]
    authority = address.partition("://")[2].partition("/")[0]
    user, at, _ = authority.rpartition("@")
    # abfs://container@account... has a container before the @; a name and a password have a colon between them.
    if (at and (family != "az" or ":" in user)) or _OPTION.search(address):
        raise ValueError(
            f"{argument}: the {scheme}:// URL has credentials or options in it, which would be kept with it; "
            f"{_REMEDIES[family]}"
        )


def _check_database(address: str, argument: str) -> None:
    rest = address.partition("://")[2]
    authority, _, _ = rest.partition("/")
    # libpq looks for the @ up to the first slash, so a password may hold a question mark.
    user, at, _ = authority.rpartition("@")
    # A password may hold an @ or a slash of its own; then what seems to be the path has one.
    at_later = "@" in rest[len(authority) :].partition("?")[0]
    names = {name.casefold() for name, _ in parse_qsl(rest.partition("?")[2], keep_blank_values=True)}
    if (at and ":" in unquote(user)) or (at_later and ":" in authority) or any(name in _SECRET for name in names):
        raise ValueError(f"{argument}: the {scheme_of(address)}:// URL has a password in it; {_OF_DATABASES}")


def last_part(address: str) -> str:
    """What is published of a URL: the last part, without host, bucket, folders and options."""
    parts = urlsplit(address) if scheme_of(address) in DATABASES else None
    path = address.partition("://")[2] if parts is None else parts.path
    return path.rstrip("/").rpartition("/")[2]


def published_path(path: str | os.PathLike[str]) -> str:
    """A file's name without the publisher's folders."""
    text = os.fspath(path)
    return last_part(text) if scheme_of(text) else Path(text).name


LIST_OF_FILES = "<list of files>"
"""What is published of a list of private files."""


def published_private_name(table: Any) -> Any:
    """How a published spec names the private table: as `published_name` says, but for a list of files."""
    return without_files(published_name(table))


def without_files(named: Any) -> Any:
    """A published name of the private table, in which a list of files is one text, whatever it holds.

    How many files there are, and their names, may follow from the records (a file for each person).
    """
    if isinstance(named, dict):  # it begins with the address
        key = next(iter(named))
        return {**named, key: without_files(named[key])}
    return LIST_OF_FILES if isinstance(named, list) else named


def published_name(table: Any) -> Any:
    """How a published spec names a public table; JSON-able.

    A file has its name without the publisher's folders, a list those of its files; a kind of `tallytree.sources` is the
    mapping that a spec has, without hosts, and without the text of a query; anything in memory is named by its type.
    """
    if table is None:
        return None
    if isinstance(table, str | os.PathLike):
        return published_path(table)
    if isinstance(table, list | tuple):
        return [published_name(each) for each in table]  # of what is no path, the type: it is refused when it is read
    named = getattr(table, "published", None)
    return named() if named is not None and hasattr(table, "key") else f"<{type(table).__name__}>"
