"""Logs that lie where fsspec reads: object stores, other machines, archives. The only module that
imports fsspec.

Bytes come in ranges, first small ones, since often only a log's beginning is wanted. A range that
fails is asked for again a few times; then the log ends there with ``CutStreamError``, and so does
one that is shorter than it should be.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, BinaryIO, TypeVar

from graphdoctor.errors import GraphDoctorError
from graphdoctor.trace.storage.log_file import CutStreamError, LogFile, stream_of
from graphdoctor.trace.storage.places import Folder, Url, without_secrets

_Answer = TypeVar("_Answer")

_FIRST_BYTES = 2**16
_MOST_BYTES = 2**23
_GROWTH = 4
_TRIES = 3
_PAUSE_S = 0.3
_LIMIT_S = 90
"""For one answer, with all that the store's own package tries: some try for many minutes."""
_UNREACHABLE = frozenset(
    {
        "ConnectionError",
        "TimeoutError",
        "gaierror",
        "ConnectTimeoutError",
        "EndpointConnectionError",
    }
    | {"ClientConnectorError", "NoValidConnectionsError"}
)
"""Names of exceptions, since each store has its own; so are those for a connection that ends in an
answer."""
_NO_CREDENTIALS = "no credentials were found"
_CREDENTIALS = (
    "Credentials are found as the store's own tools find them, or in fsspec's configuration."
)
_CUT = frozenset(
    {
        "ClientPayloadError",
        "ConnectionClosedError",
        "ConnectionResetError",
        "ContentLengthError",
        "IncompleteRead",
    }
    | {"ServerDisconnectedError"}
)


def remote_place(url: Url) -> LogFile | Folder | None:
    """What lies at an address; None if there is nothing."""
    with _explained(url):
        system, path = _in_time(lambda: _opened(url))
        system.invalidate_cache()
        try:
            found = _in_time(lambda: system.info(path))
        except FileNotFoundError as error:
            # For some packages, what can't be reached isn't there.
            if _names(error) & _UNREACHABLE:
                raise ConnectionError from error
            return None
    if found["type"] == "directory":
        return _RemoteFolder(url)
    return LogFile(url, _last(path), found.get("size")).seen()


def open_remote(log: LogFile, start: int) -> BinaryIO:
    """The bytes of a log as they are stored; nothing is asked for before they are read."""
    ranges = _ranges(log, start)
    return stream_of(ranges, ranges.close)


def _ranges(log: LogFile, position: int) -> Generator[bytes]:
    size, count, failures, is_streamed = log.size_bytes, _FIRST_BYTES, 0, False
    # An archive is closed when nobody knows its file system any more.
    opened: tuple[Any, BinaryIO] | None = None
    try:
        while size is None or position < size:
            try:
                opened = opened or _in_time(
                    partial(_file_at, log.location, position, is_streamed=is_streamed)
                )
                content = _in_time(partial(_read, opened[1], count, is_streamed=is_streamed))
            except Exception as error:
                _close(opened)
                opened = None
                if isinstance(error, _NoRangesError):
                    is_streamed = True
                    continue
                failures += 1
                if failures == _TRIES or isinstance(
                    error, PermissionError | FileNotFoundError | _TooLateError
                ):
                    raise CutStreamError(log.name, _reason(error)) from error
                time.sleep(_PAUSE_S * failures)
                continue
            if not content:
                break
            failures, position, count = (
                0,
                position + len(content),
                min(count * _GROWTH, _MOST_BYTES),
            )
            yield content
        if size is not None and position < size:
            raise CutStreamError(log.name, f"it ends after {position:,} of {size:,} bytes")
    finally:
        _close(opened)


class _NoRangesError(Exception):
    """A web server knows no ranges."""


def _read(file: BinaryIO, count: int, *, is_streamed: bool) -> bytes:
    try:
        return file.read(count)
    except ValueError as error:
        # So fsspec says it (``fsspec/implementations/http.py``, 2026.9).
        raise error if is_streamed else _NoRangesError from error


def _file_at(url: str, start: int, *, is_streamed: bool) -> tuple[Any, BinaryIO]:
    system, path = _opened(url)
    file: BinaryIO = system.open(
        path, "rb", **{"block_size": 0} if is_streamed else {"cache_type": "none"}
    )
    if start and not is_streamed:
        file.seek(start)
    while is_streamed and start > 0 and (skipped := file.read(min(start, _MOST_BYTES))):
        start -= len(skipped)
    return system, file


def _close(opened: tuple[Any, BinaryIO] | None) -> None:
    with suppress(Exception):
        if opened is not None:
            opened[1].close()


class _TooLateError(Exception):
    """A store didn't answer."""


def _in_time(function: Callable[[], _Answer]) -> _Answer:
    future: Future[_Answer] = Future()

    def answer() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # noqa: BLE001 - raised where it was asked for
            future.set_exception(error)

    threading.Thread(target=answer, daemon=True).start()
    if not wait([future], _LIMIT_S).done:
        raise _TooLateError
    return future.result()


class _RemoteFolder(Folder):
    location: Url

    def read(self, name: str) -> bytes:
        with _explained(self.location):
            system, path = _in_time(lambda: _opened(self._below(name)))
            try:
                content: bytes = _in_time(lambda: system.cat_file(path))
            except (FileNotFoundError, IsADirectoryError):
                return b""
        return content

    def _below(self, name: str) -> Url:
        return _below(self.location, name)

    def _log(self, name: str, size: int | None) -> LogFile:
        return LogFile(self._below(name), self.path_below(name), size)

    def _entries(self) -> list[tuple[str, bool, int | None]]:
        with _explained(self.location):
            system, path = _in_time(lambda: _opened(self.location))
            try:
                entries: list[dict[str, Any]] = _in_time(lambda: system.ls(path, detail=True))
            except (FileNotFoundError, NotADirectoryError):
                return []
        found = {
            str(entry["name"]).rstrip("/"): entry
            for entry in entries
            if entry["type"] in ("file", "directory")
        }
        # The placeholder that some tools put into an empty folder has the folder's own name.
        found.pop(path.rstrip("/"), None)
        return [
            (_last(whole), each["type"] == "directory", each.get("size"))
            for whole, each in found.items()
        ]


def _below(url: Url, name: str) -> Url:
    first, chain, rest = url.whole.partition("::")
    joint = "" if first.endswith("/") else "/" if "://" in first else "://"
    return Url(f"{first}{joint}{name}{chain}{rest}")


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2].partition("?")[0] or path


def _opened(url: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise GraphDoctorError(
            f"Reading {url} needs the package fsspec.", hint="pip install 'graphdoctor[remote]'"
        ) from error
    if url.startswith(("zip://", "tar://")) and "::" not in url:
        kind = url[:3]
        example = f"{kind}://::{url[6:] or 'logs.' + kind}"
        raise GraphDoctorError(
            f"{url} doesn't say which archive.", hint=f"Name it after two colons: {example}"
        )
    try:
        found: tuple[Any, str] = url_to_fs(url.whole if isinstance(url, Url) else url)
    except ImportError as error:
        raise _missing_package(url, error) from error
    return found


def _missing_package(url: str, error: ImportError) -> GraphDoctorError:
    causes = [error, error.__cause__, error.__context__]
    name = next(
        (cause.name for cause in causes if isinstance(cause, ImportError) and cause.name), ""
    )
    needs, package = f"Reading {url.partition(':')[0]}:// needs", name.partition(".")[0]
    if not package:
        return GraphDoctorError(f"{needs} another package: {error}.")
    return GraphDoctorError(f"{needs} the package {package}.", hint=f"pip install {package}")


@contextmanager
def _explained(url: str) -> Iterator[None]:
    try:
        yield
    except GraphDoctorError:
        raise
    except Exception as error:
        reason = _reason(error)
        is_denied = reason == _NO_CREDENTIALS or isinstance(error, PermissionError)
        raise GraphDoctorError(
            f"{url} can't be read: {reason}.", hint=_CREDENTIALS if is_denied else None
        ) from error


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _names(error: BaseException) -> set[str]:
    return {kind.__name__ for cause in _chain(error) for kind in type(cause).__mro__}


def _reason(error: BaseException) -> str:
    names = _names(error)
    if isinstance(error, _TooLateError):
        return f"there was no answer for {_LIMIT_S:g} s"
    if any("Credential" in name for name in names):
        return _NO_CREDENTIALS
    if isinstance(error, PermissionError) or "AuthenticationException" in names:
        return "access denied"
    if isinstance(error, FileNotFoundError):
        return "there is nothing there"
    if names & _CUT:
        return "the connection was cut"
    if names & _UNREACHABLE:
        return "the address can't be reached"
    text = without_secrets(str(error).strip().partition("\n")[0].rstrip("."))
    return text or type(error).__name__
