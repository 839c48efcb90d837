"""Reads what lies where fsspec reads: object stores, other machines, archives. The only module that
imports fsspec, and only once it is needed.

Bytes come in ranges, first small ones, since often only a log's beginning is wanted. A range that
fails is asked for again a few times; then the log ends there with ``CutStreamError``, and so does
one that is shorter than it should be.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from typing import Any, BinaryIO, TypeVar

from graphdoctor.errors import GraphDoctorError
from graphdoctor.trace.storage.streams import CutStreamError, stream_of

_Answer = TypeVar("_Answer")
Entry = tuple[str, bool, int | None]
"""Name, whether it's a folder, size."""

_PASSWORD = re.compile(r"(://[^/@:\s]*:)[^/@\s]+@")
_SIGNATURE = re.compile(r"(https?://[^?\s]*)\?.*?(?=::|[\s'\")]|$)")
_FIRST_BYTES = 2**16
_MOST_BYTES = 2**23
_GROWTH = 4
_TRIES = 3
_PAUSE_S = 0.3
_LIMIT_S = 90
"""For one answer, with all retries of the store's own package: some go on for many minutes."""
_UNREACHABLE = {
    "ConnectionError",
    "TimeoutError",
    "gaierror",
    "ConnectTimeoutError",
    "EndpointConnectionError",
    "ClientConnectorError",
}
"""Names of exceptions, since each store has its own."""
_CUT = {
    "ClientPayloadError",
    "ConnectionClosedError",
    "ConnectionResetError",
    "ContentLengthError",
    "IncompleteRead",
    "ServerDisconnectedError",
}
_NO_CREDENTIALS = "no credentials were found"
_CREDENTIALS = (
    "Credentials are found as the store's own tools find them, or in fsspec's configuration."
)


class Url(str):
    """An address that fsspec reads, such as ``s3://bucket/job``; as text, it hides its secrets."""

    __slots__ = ()

    @property
    def whole(self) -> str:
        """The address with its secrets, to open it."""
        return str.__str__(self)

    def __str__(self) -> str:
        """The address to show: ``***`` in place of a password or a signature."""
        return without_secrets(self.whole)

    def __format__(self, specification: str) -> str:
        return format(str(self), specification)


def without_secrets(text: str) -> str:
    """Replace passwords and signatures in addresses by ``***``."""
    return _SIGNATURE.sub(r"\1?***", _PASSWORD.sub(r"\1***@", text))


def look_at(url: Url) -> Entry | None:
    """Return what lies at an address; None if there is nothing."""

    def info_of(system: Any, path: str) -> Entry:  # noqa: ANN401 - fsspec's
        system.invalidate_cache()
        info = system.info(path)
        return _last(path), info["type"] == "directory", info.get("size")

    return _ask(url, info_of)


def read_file(url: Url) -> bytes:
    """Read a small file; empty if there is none."""
    return _ask(url, lambda system, path: system.cat_file(path)) or b""


def entries_of(url: Url) -> list[Entry]:
    """List a folder; empty if there is none."""

    def entries(system: Any, path: str) -> list[Entry]:  # noqa: ANN401 - fsspec's
        by_path = {str(entry["name"]).rstrip("/"): entry for entry in system.ls(path, detail=True)}
        # Some tools put a placeholder with the folder's own name into an empty folder.
        by_path.pop(path.rstrip("/"), None)
        return [
            (_last(whole), entry["type"] == "directory", entry.get("size"))
            for whole, entry in by_path.items()
            if entry["type"] in ("file", "directory")
        ]

    return _ask(url, entries) or []


def _ask(url: Url, question: Callable[[Any, str], _Answer]) -> _Answer | None:
    """Ask a store; None if there is nothing at the address."""
    try:
        system, path = _in_time(partial(_opened, url))
        return _in_time(partial(question, system, path))
    except GraphDoctorError:
        raise
    except Exception as error:
        # Some packages say that there is nothing of a store that can't be reached.
        is_reached = not _names(error) & _UNREACHABLE
        if is_reached and isinstance(
            error, FileNotFoundError | IsADirectoryError | NotADirectoryError
        ):
            return None
        reason = _reason(error)
        is_denied = reason is _NO_CREDENTIALS or isinstance(error, PermissionError)
        raise GraphDoctorError(
            f"{url} can't be read: {reason}.", hint=_CREDENTIALS if is_denied else None
        ) from error


def below(url: Url, name: str) -> Url:
    """The address of something in a folder."""
    first, chain, rest = url.whole.partition("::")
    joint = "" if first.endswith("/") else "/" if "://" in first else "://"
    return Url(f"{first}{joint}{name}{chain}{rest}")


def open_file(url: str, name: str, size_bytes: int | None, start: int) -> BinaryIO:
    """Open a file's bytes as they are stored; nothing is asked for before they are read."""
    ranges = _ranges(url, name, size_bytes, start)
    return stream_of(ranges, ranges.close)


def _ranges(url: str, name: str, size: int | None, position: int) -> Generator[bytes]:
    count = _FIRST_BYTES
    failures = 0
    is_streamed = False
    # The file with its file system: an archive is closed when nobody holds its file system.
    opened = None
    try:
        while size is None or position < size:
            try:
                opened = opened or _in_time(
                    partial(_file_at, url, position, is_streamed=is_streamed)
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
                    raise CutStreamError(name, _reason(error)) from error
                time.sleep(_PAUSE_S * failures)
                continue
            if not content:
                break
            failures = 0
            position += len(content)
            count = min(count * _GROWTH, _MOST_BYTES)
            yield content
        if size is not None and position < size:
            raise CutStreamError(name, f"it ends after {position:,} of {size:,} bytes")
    finally:
        _close(opened)


class _NoRangesError(Exception):
    """A web server that serves no ranges."""


def _read(file: BinaryIO, count: int, *, is_streamed: bool) -> bytes:
    try:
        return file.read(count)
    except ValueError as error:
        # fsspec reports it so (``fsspec/implementations/http.py``, 2026.9).
        raise error if is_streamed else _NoRangesError from error


def _file_at(url: str, start: int, *, is_streamed: bool) -> tuple[Any, BinaryIO]:
    system, path = _opened(url)
    file = system.open(path, "rb", **{"block_size": 0} if is_streamed else {"cache_type": "none"})
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
    """A store that didn't answer."""


def _in_time(function: Callable[[], _Answer]) -> _Answer:
    from concurrent.futures import Future, wait

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
        opened: tuple[Any, str] = url_to_fs(url.whole if isinstance(url, Url) else url)
    except ImportError as error:
        causes = (error, error.__cause__, error.__context__)
        names = (cause.name for cause in causes if isinstance(cause, ImportError) and cause.name)
        package = next(names, "").partition(".")[0]
        raise GraphDoctorError(
            f"Reading {url.partition(':')[0]}:// needs the package {package or error}.",
            hint=f"pip install {package}" if package else None,
        ) from error
    return opened


def _names(error: BaseException) -> set[str]:
    names = set()
    seen = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        names |= {kind.__name__ for kind in type(cause).__mro__}
        cause = cause.__cause__ or cause.__context__
    return names


def _reason(error: BaseException) -> str:
    names = _names(error)
    if isinstance(error, _TooLateError):
        return f"there was no answer for {_LIMIT_S:g} s"
    if any("Credential" in name for name in names):
        return _NO_CREDENTIALS
    if isinstance(error, PermissionError) or "AuthenticationException" in names:
        return "access denied"
    if names & _CUT:
        return "the connection was cut"
    if names & _UNREACHABLE:
        return "the address can't be reached"
    if isinstance(error, FileNotFoundError):
        return "there is nothing there"
    text = without_secrets(str(error).strip().partition("\n")[0].rstrip("."))
    return text or type(error).__name__
