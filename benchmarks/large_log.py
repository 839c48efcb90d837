"""Large trace logs, made by repeating a real one.

Each repetition compiles as the recorded program did, as new frames, at a later time: frame ids,
compile ids in payloads, calls, times of events and checksums are new. Interned strings keep their
numbers, because it is the same code. Nothing of it is kept in the repository.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_HEADER = re.compile(rb"[VDIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ \d+ ")
_FRAME = re.compile(rb'"frame_id": (\d+)')
_SUM = re.compile(rb'"has_payload": "[0-9a-f]{32}"')
_COMPILE = re.compile(rb'("compile_id": "|^"?)(\d+)(?=/\d+(?:"|: ))', re.MULTILINE)
_EVENT = re.compile(rb'"ts": (\d+(?:\.\d+)?)')
_CALL = re.compile(rb'^(\{"event": "\w+", "index": )(\d+)')
_ONCE = (b'] {"str": [', b'"torch_version"', b'"graphdoctor_file"')


@dataclass(frozen=True)
class _Record:
    """One record of the original.

    Args:
        header: Its first line.
        payload: Its payload without tabs; None if it has none.
        is_once: It is only in the first repetition.
        is_moved: Its payload has an id or a time.
    """

    header: bytes
    payload: bytes | None
    is_once: bool
    is_moved: bool


def write_log(original: Path, log: Path, *, size_bytes: int) -> int:
    """Repeat a trace log until it is as large as asked.

    Args:
        original: A log that torch wrote.
        log: Where to write.
        size_bytes: Its least size.

    Returns:
        How often it was repeated.
    """
    records = list(_records(original.read_bytes()))
    frames = 1 + max(
        int(found[1]) for record in records for found in _FRAME.finditer(record.header)
    )
    calls = max(
        (int(found[2]) for record in records if (found := _CALL.match(record.payload or b""))),
        default=0,
    )
    times = [
        float(found[1]) for record in records for found in _EVENT.finditer(record.payload or b"")
    ]
    span = int(max(times) - min(times)) + 1 if times else 0
    written = copies = 0
    with log.open("wb") as stream:
        while written < size_bytes:
            for record in records:
                if copies == 0 or not record.is_once:
                    written += stream.write(
                        _moved(record, frames * copies, calls * copies, span * copies)
                    )
            copies += 1
    return copies


def _records(content: bytes) -> Iterator[_Record]:
    header, payload = b"", list[bytes]()
    for line in [*content.splitlines(), None]:
        if line is not None and line.startswith(b"\t"):
            payload.append(line[1:])
            continue
        if header:
            whole = b"\n".join(payload) if payload else None
            is_moved = any(found.search(whole or b"") for found in (_COMPILE, _EVENT, _CALL))
            yield _Record(header, whole, any(kind in header for kind in _ONCE), is_moved)
        header, payload = line if line is not None and _HEADER.match(line) else b"", []


def _moved(record: _Record, frames: int, calls: int, us: int) -> bytes:
    header = _FRAME.sub(lambda found: b'"frame_id": %d' % (int(found[1]) + frames), record.header)
    payload = record.payload
    if payload is None:
        return header + b"\n"
    if record.is_moved:
        payload = _COMPILE.sub(lambda found: found[1] + b"%d" % (int(found[2]) + frames), payload)
        payload = _EVENT.sub(lambda found: b'"ts": %.3f' % (float(found[1]) + us), payload)
        payload = _CALL.sub(lambda found: found[1] + b"%d" % (int(found[2]) + calls), payload)
        checksum = hashlib.md5(payload, usedforsecurity=False).hexdigest().encode()
        header = _SUM.sub(b'"has_payload": "%s"' % checksum, header)
    return b"%s\n\t%s\n" % (header, payload.replace(b"\n", b"\n\t"))
