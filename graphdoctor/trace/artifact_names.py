"""Names the folder of each compile and the file of each record, from words that anybody may have written.

Comes in: what a log says of a record. Goes out: names that stand in their folder on any system: letters, digits and
``._-`` alone, never a path, a device of Windows, an over-long name, or two names that differ in case only.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from graphdoctor.trace.grammar import Record

NO_COMPILE = "no_compile"
"""The folder of records that belong to no compile."""

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))})
"""Names that Windows keeps for devices, whatever comes after their first dot."""
_MAX_NAME = 96
_DIGEST = 8
_SUFFIXES = frozenset({"cpp", "cu", "h", "json", "py", "svg"})
"""Endings that a file can have; any other has ``txt``."""
_PYTHON = frozenset({"fx_graph_runnable", "inductor_output_code"})
_JSON = frozenset({"chromium_event", "dynamo_guards", "compilation_metrics", "bwd_compilation_metrics"})
"""Kinds whose text is Python or JSON, though nothing in the record says so."""


def safe_name(text: str) -> str:
    """A text as the name of a file or folder; one that is cut ends with a digest of the whole."""
    name = _UNSAFE.sub("_", text).strip("._")
    if not name or name.partition(".")[0].casefold() in _DEVICES:
        name = f"_{name}"
    if len(name) <= _MAX_NAME:
        return name
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:_DIGEST]
    return f"{name[: _MAX_NAME - _DIGEST - 1]}-{digest}"


def compile_folder(compile_id: str | None, reset: int = 0) -> str:
    """The folder of a compile's records, such as ``0_1`` for ``0/1`` and ``reset1_0_1`` after a reset of Dynamo.

    ``compile_id``: as torch prints it; None for records that belong to no compile.
    """
    name = NO_COMPILE if compile_id is None else compile_id.replace("!", "autograd").replace("/", "_")
    return safe_name(f"reset{reset}_{name}" if reset else name)


def stem_and_suffix(record: Record) -> tuple[str, str]:
    """A file name for a record's payload, without what tells it from others of its kind, and its ending."""
    value = record.value if isinstance(record.value, dict) else {}
    name = None if record.is_artifact else value.get("name")
    stem = safe_name(f"{record.kind}_{name}" if isinstance(name, str) else record.kind)
    said = (str(value.get("filename", "")).rpartition(".")[2], value.get("encoding"), value.get("type"))
    known = "py" if record.kind in _PYTHON else "json" if record.kind in _JSON else record.kind.rpartition("_")[2]
    return stem, next((f".{ending}" for ending in (*said, known) if ending in _SUFFIXES), ".txt")


class FileNames:
    """The names that are taken in one folder."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = {name.casefold() for name in taken}
        self._counts: dict[str, int] = {}

    def take(self, stem: str, suffix: str) -> str:
        """A name that no other file in the folder has, also where case is ignored: ``a.txt``, ``a_2.txt``."""
        key = f"{stem}{suffix}".casefold()
        number = self._counts.get(key, 0)
        while True:
            number += 1
            name = f"{stem}{suffix}" if number == 1 else f"{stem}_{number}{suffix}"
            if name.casefold() not in self._taken:
                self._counts[key] = number
                self._taken.add(name.casefold())
                return name
