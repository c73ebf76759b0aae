"""Files elsewhere (`s3://`, `gs://`, `az://`, `hdfs://`), through the file systems of pyarrow, or else of fsspec.

Credentials are those of the environment. What a server says when it refuses may hold names of keys, so it is withheld.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.fs

from tallytree.sources import local_files
from tallytree.sources.addresses import CLOUD, scheme_of
from tallytree.sources.failures import NowhereError, SourceError, Withheld
from tallytree.sources.local_files import FileFormat, is_data
from tallytree.sources.partitions import path_in_messages
from tallytree.support.validate import missing

_T = TypeVar("_T")

SECONDS = 300.0
"""The most that one question to a server takes: a list of a folder, or the next rows. Not every client has a limit."""

_MAGIC = re.compile(r"[*?\[]")

_DENIED = (
    "ACCESS_DENIED", "FORBIDDEN", "INVALID_ACCESS_KEY", "INVALID_CLIENT_TOKEN", "SIGNATURE", "HTTP STATUS CODE 401",
    "HTTP STATUS CODE 403", "UNAUTHORIZED", "PERMISSION", "EXPIRED_TOKEN", "CREDENTIAL",
)  # fmt: skip
"""What is in the messages of servers that do not know who asks, or do not let them."""

NO_BUCKET = "is in no bucket that there is; check its name, and AWS_ENDPOINT_URL where it is not Amazon's"

_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_KEY",
    "hdfs": "those of the Hadoop client",
}


@dataclass(frozen=True)
class Stamp:
    """What a list says of a file, by which a changed one is noticed: its size in bytes, and when it was written."""

    size: int | None
    written: int | None


@dataclass(frozen=True, repr=False, eq=False)
class CloudPlace:
    """A file system, and what its list said of each file.

    Attributes:
        family: its name in `CLOUD`.
        system: of pyarrow.
        prefix: before every path, to make a URL again.
        account: of Azure, whose containers are those of an account; "" elsewhere.
        stamps: by path.
        names: paths of private files, each with how messages name it.
    """

    family: str
    system: Any
    prefix: str
    account: str = ""
    stamps: dict[str, Stamp] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def url(self, path: str) -> str:
        """A path as messages name it; see `path_in_messages`."""
        return self.prefix + self.names.get(path, path)

    def run(self, work: Callable[[], _T], path: str, argument: str) -> _T:
        """Do what asks the server.

        Raises:
            SourceError: it refuses, cannot be reached, does not answer in time, or does not have it; nothing of what it
                says is shown.
        """
        try:
            return _within(SECONDS, work)
        except _TooLongError:
            problem = f"cannot be read: the server has not answered within {SECONDS:.0f} s; is there a network?"
        except FileNotFoundError:
            problem = "is not there (any more)"
        except PermissionError:
            problem = self._denied
        except OSError as error:
            text = str(error).upper()
            problem = self._denied if any(each in text for each in _DENIED) else self._unreachable(text)
        kind = NowhereError if problem == NO_BUCKET else SourceError
        raise kind(f"{argument}: {self.url(path)!r} {problem}")

    def tag(self, file: Any) -> bytes | None:
        """The server's tag of the content of an open file, where it has one."""
        return next((value for name, value in (file.metadata() or {}).items() if name.lower() == "etag"), None)

    def require_same(self, path: str, size: int, tag: bytes | None, argument: str) -> None:
        """Refuse a file that is no longer the one that was found and opened.

        Args:
            path: the file's.
            size: bytes, when it was opened.
            tag: the server's tag of its content, when it was opened.
            argument: the table's name in messages.

        Raises:
            SourceError: it is not, or cannot be asked for.
        """
        now = self.run(lambda: self.system.get_file_info(path), path, argument)
        with self.run(lambda: self.system.open_input_file(path), path, argument) as file:
            later = self.tag(file)
        if (
            Stamp(size, now.mtime_ns) != self.stamps[path]
            or Stamp(now.size, now.mtime_ns) != self.stamps[path]
            or later != tag
        ):
            raise SourceError(
                f"{argument}: {self.url(path)!r} was replaced while it was read; run again when nobody writes to it"
            )

    @property
    def _denied(self) -> str:
        return (
            f"cannot be read: access is denied, or there are no valid credentials; they are read from the environment "
            f"({_CREDENTIALS[self.family]})"
        )

    @staticmethod
    def _unreachable(text: str) -> str:
        if "NO_SUCH_BUCKET" in text:
            return NO_BUCKET
        if "NO_SUCH_KEY" in text or "RESOURCE_NOT_FOUND" in text:
            return "is not there (any more)"
        return "cannot be read to its end: the server does not answer, or stopped half-way; try again"


class _TooLongError(Exception):
    """A server that has not answered."""


def _within(seconds: float, work: Callable[[], _T]) -> _T:
    """The result of work, which another thread does; that thread is left alone where it takes too long.

    Raises:
        _TooLongError: it does.
    """
    done: list[_T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(work())
        except BaseException as error:  # noqa: BLE001  (raised below)
            failed.append(error)

    thread = threading.Thread(target=run, name="source", daemon=True)
    thread.start()
    thread.join(seconds)
    if failed:
        raise failed[0]
    if not done:
        raise _TooLongError
    return done[0]


def place_of(url: str, argument: str) -> tuple[CloudPlace, str]:
    """The file system of a URL, and the path in it.

    Raises:
        ValueError: no bucket, or an unknown account.
        ModuleNotFoundError: nothing that is installed reads it.
        SourceError: it cannot be opened.
    """
    scheme = scheme_of(url) or ""
    family = CLOUD[scheme]
    rest = url.partition("://")[2]
    authority, _, path = rest.partition("/")
    if _MAGIC.search(authority) or (not authority and family != "hdfs"):
        raise ValueError(f"{argument}: {url!r} names no bucket; write it as {scheme}://bucket/path")
    if any(part in ("", ".", "..") for part in path.split("/")[:-1]) or path.rpartition("/")[2] in (".", ".."):
        # Servers and clients resolve these in different ways, so one object could be read twice by two names.
        raise ValueError(f"{argument}: {url!r} has an empty part, or one that is . or ..; write the path without it")
    if family == "hdfs":
        host = authority or "default"
        return _opened(family, host, f"{scheme}://{authority}", argument), "/" + path
    if family == "az":
        container, _, host = authority.partition("@")
        account = (host.partition(".")[0] or _azure_account(argument)).lower()  # hosts do not depend on capitals
        place = _opened(family, account, f"{scheme}://", argument)
        return place, "/".join(part for part in (container, *path.split("/")) if part not in ("", "."))
    return _opened(family, authority if family == "s3" else "", f"{scheme}://", argument), f"{authority}/{path}"


def _azure_account(argument: str) -> str:
    account = os.environ.get("AZURE_STORAGE_ACCOUNT_NAME") or os.environ.get("AZURE_STORAGE_ACCOUNT")
    if not account:
        raise ValueError(
            f"{argument}: the storage account is not known; set AZURE_STORAGE_ACCOUNT, or write "
            "abfs://container@account.dfs.core.windows.net/path"
        )
    return account


def _opened(family: str, which: str, prefix: str, argument: str) -> CloudPlace:
    """A place with a file system of the environment as it is now.

    Raises:
        ModuleNotFoundError, SourceError: see `place_of`.
    """
    about = tuple((name, os.environ.get(name, "")) for name in _OF_THE_ENVIRONMENT)
    try:
        with Withheld(OSError, pa.ArrowException, ValueError):
            return CloudPlace(family, _file_system(family, which, about), prefix, which if family == "az" else "")
    except ModuleNotFoundError as error:
        raise missing(argument, prefix, str(error.name), "cloud") from None
    remedy = "install the Hadoop client (libhdfs) and Java" if family == "hdfs" else "check the environment"
    raise SourceError(f"{argument}: the file system of {prefix} cannot be opened; {remedy}")


_OF_THE_ENVIRONMENT = (
    "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_PROFILE",
    "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_STORAGE_KEY", "GOOGLE_APPLICATION_CREDENTIALS",
    "STORAGE_EMULATOR_HOST",
)  # fmt: skip
"""What decides a file system: another value makes another one."""


@lru_cache(maxsize=8)
def _file_system(family: str, which: str, about: tuple[tuple[str, str], ...]) -> Any:
    environment = dict(about)
    makers = {"s3": _s3, "gs": _gs, "az": _azure, "hdfs": _hdfs}
    return makers[family](which, environment)


def _s3(bucket: str, environment: dict[str, str]) -> Any:
    if not hasattr(pa.fs, "S3FileSystem"):
        return _of_fsspec("s3")
    endpoint = environment["AWS_ENDPOINT_URL_S3"] or environment["AWS_ENDPOINT_URL"]
    region = environment["AWS_REGION"] or environment["AWS_DEFAULT_REGION"]
    if not region and not endpoint:
        try:
            region = pa.fs.resolve_s3_region(bucket)
        except OSError:  # what is wrong is said by the first question that matters
            region = "us-east-1"
    return pa.fs.S3FileSystem(
        region=region or "us-east-1", endpoint_override=endpoint or None, connect_timeout=10, request_timeout=60
    )


def _gs(_: str, environment: dict[str, str]) -> Any:
    # Its client tries twice as long as this, and for a quarter of an hour without it.
    return (
        pa.fs.GcsFileSystem(retry_time_limit=timedelta(seconds=30))
        if hasattr(pa.fs, "GcsFileSystem")
        else _of_fsspec("gs")
    )


def _azure(account: str, environment: dict[str, str]) -> Any:
    if not hasattr(pa.fs, "AzureFileSystem"):
        return _of_fsspec("abfs", account_name=account)
    return pa.fs.AzureFileSystem(account_name=account, account_key=environment["AZURE_STORAGE_KEY"] or None)


def _hdfs(authority: str, environment: dict[str, str]) -> Any:
    host, _, port = authority.partition(":")
    return pa.fs.HadoopFileSystem(host, int(port or 0))


def _of_fsspec(name: str, **options: Any) -> Any:
    """The file system of fsspec, where pyarrow was built without its own."""
    import fsspec

    return pa.fs.PyFileSystem(pa.fs.FSSpecHandler(fsspec.filesystem(name, **options)))


def files_at(
    url: str, said: str, file_format: FileFormat | None, argument: str, *, public: bool = False
) -> tuple[CloudPlace, list[str]]:
    """The files at a URL, a glob or in a folder; each once, with its stamp in the place.

    Args:
        url: what is given.
        said: how messages name it.
        file_format: as in `local_files.files_at`.
        argument: the table's name in messages.
        public: whether messages may show the whole path of a file.

    Raises:
        ValueError: there is none.
        ModuleNotFoundError, SourceError: see `place_of`.
    """
    place, path = place_of(url, argument)
    listed = _listed(place, path, file_format or "parquet", argument)
    if not listed:
        raise ValueError(f"{argument}: no file at {said}; give the URL, the folder or a glob of Parquet or CSV files")
    for each in listed:
        place.stamps[each.path] = Stamp(each.size, each.mtime_ns)
        if not public:
            place.names[each.path] = path_in_messages(each.path, path)
    return place, [each.path for each in listed]


def _listed(place: CloudPlace, path: str, file_format: FileFormat, argument: str) -> list[Any]:
    pattern = path.rstrip("/").split("/")
    magic = next((i for i, part in enumerate(pattern) if _MAGIC.search(part)), None)
    if magic is None:
        found = place.run(lambda: place.system.get_file_info(path.rstrip("/")), path, argument)
        if found.type == pa.fs.FileType.File:
            return [found]
        if found.type == pa.fs.FileType.NotFound:
            _check_parent(place, path, argument)
            return []
        endings = (".parquet",) if file_format == "parquet" else (".csv", ".csv.gz")
        inside = _below(place, path.rstrip("/"), argument)
        return [each for each in inside if each.path.lower().endswith(endings)]
    above = "/".join(pattern[:magic])
    everything = _below(place, above, argument, hidden=True)
    return [each for each in everything if _fits(each.path[len(above) :].strip("/").split("/"), pattern[magic:])]


def _check_parent(place: CloudPlace, path: str, argument: str) -> None:
    """Say of what is not there where its bucket is not, either.

    Raises:
        SourceError: it is not.
    """
    bucket = path.strip("/").partition("/")[0]
    if place.family == "hdfs":
        return
    found = place.run(lambda: place.system.get_file_info(bucket), path, argument)
    if found.type == pa.fs.FileType.NotFound:
        raise NowhereError(f"{argument}: {place.url(path)!r} {NO_BUCKET}")


def _below(place: CloudPlace, folder: str, argument: str, *, hidden: bool = False) -> list[Any]:
    """The files below a folder, sorted; without what is no data."""
    selector = pa.fs.FileSelector(folder, recursive=True)
    found = place.run(lambda: place.system.get_file_info(selector), folder, argument)
    if len(found) > local_files.MAX_ENTRIES:
        raise local_files.too_many(place.url(folder), argument)
    names = {each.path[len(folder) :].strip("/") for each in found}
    if not hidden and any(name.startswith(("_delta_log/", ".hoodie/")) or _ICEBERG.fullmatch(name) for name in names):
        raise ValueError(
            f"{argument}: {place.url(folder)!r} is a table with a log, some of whose files may be out of date; export "
            "its current rows to Parquet"
        )
    files = [each for each in found if each.type == pa.fs.FileType.File]
    kept = [each for each in files if hidden or all(map(is_data, each.path[len(folder) :].strip("/").split("/")))]
    return sorted(kept, key=lambda each: each.path)


_ICEBERG = re.compile(r"metadata/[^/]*\.metadata\.json")


def _fits(parts: list[str], pattern: list[str]) -> bool:
    """Whether the parts of a path fit a pattern, as `glob` has it: a wildcard is for no leading point.

    pyarrow has no glob, and fsspec is an optional extra. `glob.translate`, which does this, came with Python 3.13.
    """
    if not pattern or not parts:
        return not parts and not any(each != "**" for each in pattern)
    hidden = parts[0].startswith(".") and not pattern[0].startswith(".")
    if pattern[0] == "**":
        return _fits(parts, pattern[1:]) or (not hidden and _fits(parts[1:], pattern))
    return not hidden and fnmatchcase(parts[0], pattern[0]) and _fits(parts[1:], pattern[1:])
