"""Logs that lie where fsspec reads: object stores, other machines, archives. The only module that imports fsspec.

Bytes come in ranges, first small ones, since often only a log's beginning is wanted. A range that fails is asked for
again a few times; then the log ends there with ``CutStreamError``, and so does one that is shorter than it should be.
"""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, TypeVar

from graphdoctor.errors import GraphDoctorError
from graphdoctor.trace.storage.compression import ChunkedReader, CutStreamError
from graphdoctor.trace.storage.log_file import LogFile
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
    {"ConnectionError", "TimeoutError", "gaierror", "ConnectTimeoutError", "EndpointConnectionError"}
    | {"ClientConnectorError", "NoValidConnectionsError"}
)
"""Names of exceptions, since each store has its own; so are those for a connection that ends in an answer."""
_CUT = frozenset(
    {"ClientPayloadError", "ConnectionClosedError", "ConnectionResetError", "ContentLengthError", "IncompleteRead"}
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
    return io.BufferedReader(_RemoteBytes(log, start), 2**17)


class _RemoteFolder(Folder):
    location: Url

    def read(self, name: str) -> bytes:
        with _explained(self.location):
            system, path = _in_time(lambda: _opened(_below(self.location, name)))
            try:
                content: bytes = _in_time(lambda: system.cat_file(path))
            except (FileNotFoundError, IsADirectoryError):
                return b""
        return content

    def files(self) -> list[LogFile]:
        found = ((name, entry.get("size")) for name, entry in self._entries() if entry["type"] == "file")
        return [LogFile(_below(self.location, name), self.path_below(name), size) for name, size in found]

    def folder(self, name: str) -> _RemoteFolder:
        return _RemoteFolder(_below(self.location, name), self.path_below(name))

    def folder_names(self) -> list[str]:
        return [name for name, entry in self._entries() if entry["type"] == "directory"]

    def _entries(self) -> list[tuple[str, dict[str, Any]]]:
        with _explained(self.location):
            system, path = _in_time(lambda: _opened(self.location))
            try:
                entries: list[dict[str, Any]] = _in_time(lambda: system.ls(path, detail=True))
            except (FileNotFoundError, NotADirectoryError):
                return []
        paths = {str(entry["name"]).rstrip("/"): entry for entry in entries}
        # The placeholder that some tools put into an empty folder has the folder's own name.
        paths.pop(path.rstrip("/"), None)
        return sorted(((_last(whole), entry) for whole, entry in paths.items()), key=lambda found: found[0])


class _RemoteBytes(ChunkedReader):
    def __init__(self, log: LogFile, start: int) -> None:
        super().__init__()
        self._log = log
        self._position = start
        self._next_bytes = _FIRST_BYTES
        self._system: Any = None
        self._is_streamed = False
        self._file: BinaryIO | None = None

    def next_chunk(self) -> bytes:
        size = self._log.size_bytes
        content = b"" if size is not None and self._position >= size else self._tried()
        self._position += len(content)
        if size is not None and not content and self._position < size:
            raise CutStreamError(self._log.name, f"it ends after {self._position:,} of {size:,} bytes")
        self._next_bytes = min(self._next_bytes * _GROWTH, _MOST_BYTES)
        return content

    def _tried(self) -> bytes:
        for number in range(1, _TRIES + 1):
            try:
                content = _in_time(self._read)
            except Exception as error:
                self._forget()
                if number == _TRIES or isinstance(error, PermissionError | FileNotFoundError | _TooLateError):
                    raise CutStreamError(self._log.name, _reason(error)) from error
                time.sleep(_PAUSE_S * number)
            else:
                return content
        raise AssertionError

    def _read(self) -> bytes:
        if self._file is None:
            # An archive is closed when nobody knows it any more.
            self._system, path = _opened(self._log.location)
            open_at = _streamed_at if self._is_streamed else _file_at
            self._file = open_at(self._system, path, self._position)
        try:
            return self._file.read(self._next_bytes)
        except ValueError:
            if self._is_streamed:
                raise
        # So fsspec says that a web server knows no ranges (``fsspec/implementations/http.py``, 2026.9).
        self._is_streamed = True
        self._forget()
        return self._read()

    def _forget(self) -> None:
        if self._file is not None:
            with suppress(Exception):
                self._file.close()
        self._file = None

    def close(self) -> None:
        self._forget()
        super().close()


def _file_at(system: Any, path: str, start: int) -> BinaryIO:  # noqa: ANN401 - a file system of fsspec
    file: BinaryIO = system.open(path, "rb", cache_type="none")
    if start:
        file.seek(start)
    return file


def _streamed_at(system: Any, path: str, start: int) -> BinaryIO:  # noqa: ANN401 - a file system of fsspec
    file: BinaryIO = system.open(path, "rb", block_size=0)
    while start > 0 and (skipped := file.read(min(start, _MOST_BYTES))):
        start -= len(skipped)
    return file


class _TooLateError(Exception):
    """A store didn't answer."""


def _in_time(function: Callable[[], _Answer]) -> _Answer:
    answers: list[_Answer] = []
    errors: list[BaseException] = []

    def answer() -> None:
        try:
            answers.append(function())
        except BaseException as error:  # noqa: BLE001 - raised where it was asked for
            errors.append(error)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    thread.join(_LIMIT_S)
    for error in errors:
        raise error
    if not answers:
        raise _TooLateError
    return answers[0]


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
        raise GraphDoctorError(
            f"{url} doesn't say which archive.",
            hint=f"Name it after two colons: {kind}://::{url[6:] or 'logs.' + kind}",
        )
    try:
        system, path = url_to_fs(url.whole if isinstance(url, Url) else url)
    except ImportError as error:
        raise _missing_package(url, error) from error
    return system, path


def _missing_package(url: str, error: ImportError) -> GraphDoctorError:
    causes = [error, error.__cause__, error.__context__]
    name = next((cause.name for cause in causes if isinstance(cause, ImportError) and cause.name), None)
    scheme = url.partition(":")[0]
    if name is None:
        return GraphDoctorError(f"Reading {scheme}:// needs another package: {error}.")
    package = name.partition(".")[0]
    return GraphDoctorError(f"Reading {scheme}:// needs the package {package}.", hint=f"pip install {package}")


@contextmanager
def _explained(url: str) -> Iterator[None]:
    try:
        yield
    except GraphDoctorError:
        raise
    except Exception as error:
        raise GraphDoctorError(f"{url} can't be read: {_reason(error)}.", hint=_hint(error)) from error


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _names(error: BaseException) -> set[str]:
    return {kind.__name__ for cause in _chain(error) for kind in type(cause).__mro__}


def _has_no_credentials(error: BaseException) -> bool:
    return any("Credential" in name for name in _names(error))


def _reason(error: BaseException) -> str:
    if isinstance(error, _TooLateError):
        return f"there was no answer for {_LIMIT_S:g} s"
    if _has_no_credentials(error):
        return "no credentials were found"
    if isinstance(error, PermissionError) or "AuthenticationException" in _names(error):
        return "access denied"
    if isinstance(error, FileNotFoundError):
        return "there is nothing there"
    if _names(error) & _CUT:
        return "the connection was cut"
    if _names(error) & _UNREACHABLE:
        return "the address can't be reached"
    text = without_secrets(str(error).strip().partition("\n")[0].rstrip("."))
    return text or type(error).__name__


def _hint(error: BaseException) -> str | None:
    if _has_no_credentials(error) or isinstance(error, PermissionError):
        return "Credentials are found as the store's own tools find them, or in fsspec's configuration."
    return None
