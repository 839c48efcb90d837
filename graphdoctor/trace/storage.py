"""Finds files on this machine or wherever fsspec reads, and opens logs, decompressed.

Knows nothing of what is in them. Doesn't follow links inside a folder, which can lead anywhere.
fsspec and zstandard are imported here alone, and only once they are needed.
"""

from __future__ import annotations

import io
import lzma
import os
import re
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypeVar

from graphdoctor.errors import GraphDoctorError, missing_package, os_errors

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")

_URL = re.compile(r"(?:[A-Za-z][A-Za-z0-9_+-]*::)*[A-Za-z][A-Za-z0-9+.-]+://")
"""Such as ``s3://…``, and ``simplecache::s3://…``."""
_LOCAL_URL = re.compile(r"(?:file|local)://(?:localhost(?=/))?(?!.*::)(.+)")
_PASSWORD = re.compile(r"(://[^/@:\s]*:)[^/@\s]+@")
_SIGNATURE = re.compile(r"(https?://[^?\s]*)\?.*?(?=::|[\s'\")]|$)")
_THREADS = 16
_SKIPPED_BYTES = 2**20
_PART_BYTES = 2**12


class Url(str):
    """An address that fsspec reads, such as ``s3://bucket/job``; as text, it hides its secrets."""

    __slots__ = ()

    @property
    def whole(self) -> str:
        """The address with its secrets, to open it."""
        return str.__str__(self)

    def __str__(self) -> str:
        """The address to show: ``***`` in place of a password or a signature."""
        return _without_secrets(self.whole)

    def __format__(self, specification: str) -> str:
        return format(str(self), specification)

    def below(self, name: str) -> Url:
        """The address of something in a folder."""
        first, chain, rest = self.whole.partition("::")
        joint = "" if first.endswith("/") else "/" if "://" in first else "://"
        return Url(f"{first}{joint}{name}{chain}{rest}")


Location = Path | Url


def location_of(text: str) -> Location:
    """Read a path or an address."""
    if local := _LOCAL_URL.fullmatch(text):
        return Path(local[1])
    return Url(text) if _URL.match(text) else Path(text)


def _without_secrets(text: str) -> str:
    return _SIGNATURE.sub(r"\1?***", _PASSWORD.sub(r"\1***@", text))


class CutStreamError(Exception):
    """A log that can't be read to its end; ``reason`` is a clause that says why."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason


@dataclass(frozen=True)
class LogFile:
    """One log.

    Args:
        name: Its path below the folder that was asked for.
        size_bytes: None if a store doesn't say.
    """

    location: str
    name: str
    size_bytes: int | None
    compression: Compression | None = None

    @property
    def path(self) -> PurePath:
        """Its location as a path, for its names; in an archive, the path there."""
        return PurePath(self.location.partition("::")[0] if self.is_remote else self.location)

    @property
    def is_remote(self) -> bool:
        """Return whether it isn't a file of this machine."""
        return "://" in self.location

    @property
    def is_seekable(self) -> bool:
        """Return whether ``open`` goes to a position without reading what comes before it."""
        return self.compression is None and self.size_bytes is not None

    def seen(self) -> LogFile:
        """Return the log with its compression, which its first bytes show."""
        with suppress(CutStreamError), self._stored(0) as stream:
            start = stream.read(max(map(len, _MAGIC)))
            matching = (name for magic, name in _MAGIC.items() if start.startswith(magic))
            return replace(self, compression=next(matching, None))
        return self

    def open(self, start: int = 0) -> BinaryIO:
        """Open the log's bytes, decompressed; reading raises ``CutStreamError`` where they end
        early.
        """
        if self.is_seekable:
            return self._stored(start)
        stream = self._stored(0)
        if self.compression is not None:
            stream = _decompressed(stream, self.compression, self.name)
        while start > 0 and (skipped := stream.read(min(start, _SKIPPED_BYTES))):
            start -= len(skipped)
        return stream

    def _stored(self, start: int) -> BinaryIO:
        if self.is_remote:
            ranges = _ranges(self, start)
            return _stream_of(ranges, ranges.close)
        with os_errors(self.location, "read"):
            stream = Path(self.location).open("rb")  # noqa: SIM115 - whoever reads it closes it
        stream.seek(start)
        return stream

    def part(self, start: int, count: int) -> bytes:
        """Read some of the log's bytes; fewer where it ends or can't be read further."""
        content = bytearray()
        with suppress(CutStreamError), self.open(start) as stream:
            while read := stream.read(min(count - len(content), _PART_BYTES)):
                content += read
        return bytes(content)


def local_log(path: Path, name: str | None = None) -> LogFile:
    """The log in a file of this machine."""
    with os_errors(path, "read"):
        size = path.stat().st_size
    return LogFile(str(path.absolute()), path.name if name is None else name, size).seen()


class Folder:
    """A folder; ``name`` is its path below the folder that was asked for, empty for that one."""

    def __init__(self, location: Location, name: str = "") -> None:
        self.location = location
        self.name = name

    def read(self, name: str) -> bytes:
        """Read a small file; empty if there is none, or if it's a link."""
        place = self._below(name)
        if isinstance(place, Url):
            return _ask(place, lambda system, path: system.cat_file(path)) or b""
        try:
            return place.read_bytes() if is_own_file(place) else b""
        except OSError:
            return b""

    def files(self) -> list[LogFile]:
        """The files in it, by name."""
        files = []
        for name, is_folder, size in sorted(self._entries()):
            place = self._below(name)
            path = self._path_below(name)
            if is_folder:
                continue
            if isinstance(place, Url):
                files.append(LogFile(place, path, size))
            elif place.exists():  # not gone by now
                files.append(local_log(place, path))
        return files

    def folder(self, name: str) -> Folder:
        """A folder in it; one without anything if there is none, or if it's a link."""
        return Folder(self._below(name), self._path_below(name))

    def folders(self) -> list[Folder]:
        """The folders in it, by name, without hidden ones, which belong to other programs."""
        return [
            self.folder(name)
            for name, is_folder, _ in sorted(self._entries())
            if is_folder and not name.startswith(".") and name != "__pycache__"
        ]

    def _path_below(self, name: str) -> str:
        return f"{self.name}/{name}" if self.name else name

    def _below(self, name: str) -> Location:
        location = self.location
        return location.below(name) if isinstance(location, Url) else location / name

    def _entries(self) -> list[_Entry]:
        location = self.location
        if isinstance(location, Url):
            return _ask(location, _entries) or []
        if self.name and location.is_symlink():
            return []
        try:
            with os.scandir(location) as entries:
                return [
                    (entry.name, is_folder, None)
                    for entry in entries
                    if (is_folder := entry.is_dir(follow_symlinks=False))
                    or entry.is_file(follow_symlinks=False)
                ]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise GraphDoctorError(f"{location} can't be read: {error.strerror}.") from error


def is_own_file(path: Path) -> bool:
    """Return whether a path is a regular file: a recording can contain links to anything, and
    pipes.
    """
    return path.is_file() and not path.is_symlink()


def place_at(location: Location) -> LogFile | Folder | None:
    """Look at a location; None if there is nothing."""
    if isinstance(location, Url):
        entry = _ask(location, _entry)
        if entry is None:
            return None
        name, is_folder, size = entry
        return Folder(location) if is_folder else LogFile(location, name, size).seen()
    if location.is_file():
        return local_log(location)
    return Folder(location) if location.exists() else None


def for_each(
    function: Callable[[_Item], _Answer], items: Iterable[_Item], logs: Sequence[LogFile]
) -> list[_Answer]:
    """Map a function over items; in threads if the logs aren't on this machine."""
    if len(logs) < 2 or not any(log.is_remote for log in logs):
        return [function(item) for item in items]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_THREADS) as threads:
        return list(threads.map(function, items))


# What lies elsewhere. The packages of stores try again themselves, and know how long to wait.

_Entry = tuple[str, bool, int | None]
"""Name, whether it's a folder, size."""

_FIRST_BYTES = 2**16
_MOST_BYTES = 2**23
"""Ranges grow up to this, since often only a log's beginning is wanted."""
_GROWTH = 4
_UNREACHABLE = {
    "ConnectionError",
    "TimeoutError",
    "gaierror",
    "ConnectTimeoutError",
    "EndpointConnectionError",
    "ClientConnectorError",
}
"""Names of exceptions, since each store has its own."""
_CREDENTIALS = (
    "Credentials are found as the store's own tools find them, or in fsspec's configuration."
)


def _entry(system: Any, path: str) -> _Entry:  # noqa: ANN401 - fsspec's
    system.invalidate_cache()
    info = system.info(path)
    return _last(path), info["type"] == "directory", info.get("size")


def _entries(system: Any, path: str) -> list[_Entry]:  # noqa: ANN401 - fsspec's
    by_path = {str(entry["name"]).rstrip("/"): entry for entry in system.ls(path, detail=True)}
    # Some tools put a placeholder with the folder's own name into an empty folder.
    by_path.pop(path.rstrip("/"), None)
    return [
        (_last(whole), entry["type"] == "directory", entry.get("size"))
        for whole, entry in by_path.items()
        if entry["type"] in ("file", "directory")
    ]


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2].partition("?")[0] or path


def _ask(url: Url, question: Callable[[Any, str], _Answer]) -> _Answer | None:
    """Ask a store; None if there is nothing at the address."""
    try:
        return question(*_system_of(url))
    except GraphDoctorError:
        raise
    except Exception as error:
        names = _names(error)
        # Some packages say that there is nothing of a store that can't be reached.
        is_nothing = isinstance(error, FileNotFoundError | IsADirectoryError | NotADirectoryError)
        if is_nothing and not names & _UNREACHABLE:
            return None
        lacks_key = any("Credential" in name for name in names)
        is_denied = lacks_key or isinstance(error, PermissionError)
        raise GraphDoctorError(
            f"{url} can't be read: {_reason(error)}.", hint=_CREDENTIALS if is_denied else None
        ) from error


def _system_of(url: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise missing_package(f"Reading {url}", "fsspec", "remote") from error
    try:
        found: tuple[Any, str] = url_to_fs(url.whole if isinstance(url, Url) else url)
    except ImportError as error:
        causes = (error, error.__cause__, error.__context__)
        names = (cause.name for cause in causes if isinstance(cause, ImportError) and cause.name)
        package = next(names, "").partition(".")[0]
        raise GraphDoctorError(
            f"Reading {url.partition(':')[0]}:// needs the package {package or error}.",
            hint=f"pip install {package}" if package else None,
        ) from error
    return found


def _ranges(log: LogFile, start: int) -> Generator[bytes]:
    """Yield a remote log's bytes as they are stored; nothing is asked for before they are read."""
    count = _FIRST_BYTES
    position = start
    size = log.size_bytes
    try:
        # An archive is closed when nobody holds its file system.
        system, path = _system_of(log.location)
        with system.open(path, "rb", cache_type="none") as file:
            if start:
                file.seek(start)
            while content := file.read(count):
                position += len(content)
                count = min(count * _GROWTH, _MOST_BYTES)
                yield content
    except Exception as error:
        raise CutStreamError(log.name, _reason(error)) from error
    if size is not None and position < size:
        raise CutStreamError(log.name, f"it ends after {position:,} of {size:,} bytes")


def _names(error: BaseException) -> set[str]:
    names = {kind.__name__ for kind in type(error).__mro__}
    cause = error.__cause__ or error.__context__
    return names if cause is None else names | _names(cause)


def _reason(error: BaseException) -> str:
    if _names(error) & _UNREACHABLE:
        return "the address can't be reached"
    if isinstance(error, FileNotFoundError):
        return "there is nothing there"
    text = _without_secrets(str(error).strip().partition("\n")[0].rstrip("."))
    return text or type(error).__name__


# What is compressed.

Compression = Literal["gzip", "xz", "zstd"]

_MAGIC: dict[bytes, Compression] = {
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}
_BUFFER_BYTES = 2**17
_CHUNK_BYTES = 2**10
"""Decompressed at a time: zstd expands up to 32,000 times."""
_WINDOW_BYTES = 2**27
"""The largest window, which is kept in memory (``zstd --long``, twice that of ``xz -9``)."""
_MOST_RATIO = 250
"""Times its size that a log may hold; more is made to harm."""
_LEAST_UNPACKED = 2**22
"""Below this, any ratio is harmless."""
_GZIP_WINDOW = 31
"""zlib's code for a gzip header and its largest window."""


def _decompressed(stored: BinaryIO, compression: Compression, name: str) -> BinaryIO:
    """Decompress a stream; reading raises ``CutStreamError`` where it is damaged or cut off."""
    new, error_kind = _decompressor(compression)

    def chunks() -> Iterator[bytes]:
        current: Any = None
        rest = b""
        taken = unpacked = 0
        while chunk := rest or stored.read(_CHUNK_BYTES):
            taken += 0 if rest else len(chunk)
            rest = b""
            # Files can be joined, and are padded with zeros.
            if current is None and (chunk := chunk.lstrip(b"\0")):
                current = new()
            if current is None:
                continue
            try:
                content = current.decompress(chunk)
            except error_kind as error:
                raise CutStreamError(name, f"its {compression} stream is damaged") from error
            unpacked += len(content)
            if unpacked > max(taken * _MOST_RATIO, _LEAST_UNPACKED):
                reason = f"its {compression} stream holds {_MOST_RATIO} times as much as it takes"
                raise CutStreamError(name, reason)
            yield content
            if current.eof:
                current, rest = None, current.unused_data
        if current is not None:
            raise CutStreamError(name, f"its {compression} stream is cut off")

    return _stream_of(chunks(), stored.close)


def _decompressor(compression: Compression) -> tuple[Callable[[], Any], type[Exception]]:
    if compression == "gzip":
        return lambda: zlib.decompressobj(_GZIP_WINDOW), zlib.error
    if compression == "xz":
        return lambda: lzma.LZMADecompressor(memlimit=_WINDOW_BYTES), lzma.LZMAError
    try:
        import zstandard
    except ImportError as error:
        raise GraphDoctorError(
            "This log is compressed with zstd, which needs the package zstandard.",
            hint="pip install zstandard",
        ) from error
    unpacker = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES)
    return unpacker.decompressobj, zstandard.ZstdError


def _stream_of(chunks: Iterator[bytes], close: Callable[[], object]) -> BinaryIO:
    return io.BufferedReader(_Chunked(chunks, close), _BUFFER_BYTES)


class _Chunked(io.RawIOBase):
    def __init__(self, chunks: Iterator[bytes], close: Callable[[], object]) -> None:
        self._chunks = filter(None, chunks)
        self._close = close
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        self._ready = self._ready or memoryview(next(self._chunks, b""))
        target = memoryview(buffer).cast("B")
        count = min(len(target), len(self._ready))
        target[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def close(self) -> None:
        self._close()
        super().close()
