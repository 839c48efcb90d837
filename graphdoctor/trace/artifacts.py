"""Names each compile's folder and each record's file as any system can; lists records that a report
doesn't show.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from graphdoctor.facts.picture import Artifact, CompileArtifacts
from graphdoctor.facts.record_kinds import UNSHOWN_KINDS
from graphdoctor.trace.grammar import Record
from graphdoctor.trace.sections import Collector

NO_COMPILE = "no_compile"

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))}
)
"""Names that Windows keeps for devices, whatever comes after their first dot."""
_MAX_NAME = 96
_DIGEST = 8
_SUFFIXES = frozenset({"cpp", "cu", "h", "json", "py", "svg"})
"""Endings that a file can have; any other has ``txt``."""
_PYTHON = frozenset({"fx_graph_runnable", "inductor_output_code"})
_JSON = frozenset(
    {"chromium_event", "dynamo_guards", "compilation_metrics", "bwd_compilation_metrics"}
)
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
    """The folder of a compile's records, such as ``0_1`` for ``0/1`` and ``reset1_0_1`` after a
    reset of Dynamo.
    """
    name = (
        NO_COMPILE if compile_id is None else compile_id.replace("!", "autograd").replace("/", "_")
    )
    return safe_name(f"reset{reset}_{name}" if reset else name)


def stem_and_suffix(record: Record) -> tuple[str, str]:
    """A file name for a record's payload, without what tells it from others of its kind, and its
    ending.
    """
    value = record.value if isinstance(record.value, dict) else {}
    name = None if record.is_artifact else value.get("name")
    stem = safe_name(f"{record.kind}_{name}" if isinstance(name, str) else record.kind)
    said = (
        str(value.get("filename", "")).rpartition(".")[2],
        str(value.get("encoding")),
        str(value.get("type")),
    )
    known = (
        "py"
        if record.kind in _PYTHON
        else "json"
        if record.kind in _JSON
        else record.kind.rpartition("_")[2]
    )
    return stem, next((f".{ending}" for ending in (*said, known) if ending in _SUFFIXES), ".txt")


class FileNames:
    """The names that are taken in one folder."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._counts: dict[str, int] = {}

    def take(self, stem: str, suffix: str) -> str:
        """A name that no other file in the folder has, also where case is ignored: ``a.txt``,
        ``a_2.txt``.
        """
        key = f"{stem}{suffix}".casefold()
        number = self._counts.get(key, 0)
        while True:
            number += 1
            name = f"{stem}{suffix}" if number == 1 else f"{stem}_{number}{suffix}"
            if name.casefold() not in self._taken:
                self._counts[key] = number
                self._taken.add(name.casefold())
                return name


_MAX_COMPILES = 100
_MAX_FILES = 100


@dataclass
class _OfCompile:
    names: FileNames = field(default_factory=FileNames)
    artifacts: list[Artifact] = field(default_factory=list)
    hidden_files: int = 0
    without_text: Counter[str] = field(default_factory=Counter)


class Artifacts(Collector):
    """Collects the records of one process until a reset of Dynamo."""

    KINDS = UNSHOWN_KINDS
    _reset = 0

    def _clear(self) -> None:
        self._found: dict[str | None, _OfCompile] = {}
        self._hidden: set[str | None] = set()

    def after_reset(self) -> Artifacts:
        """See ``Collector``."""
        later = super().after_reset()
        later._reset += 1
        return later

    def add(self, record: Record) -> None:
        """See ``Collector``."""
        if record.is_extra:
            return
        compile_id = record.compile_id
        if compile_id not in self._found:
            if len(self._found) >= _MAX_COMPILES or not (
                compile_id is None or self._keeps(compile_id)
            ):
                self._hidden.add(compile_id)
                return
            self._found[compile_id] = _OfCompile()
        found = self._found[compile_id]
        if record.payload_bytes is None:
            found.without_text[record.kind] += 1
        elif len(found.artifacts) >= _MAX_FILES:
            found.hidden_files += 1
        else:
            name = found.names.take(*stem_and_suffix(record))
            folder = compile_folder(compile_id, self._reset if compile_id is not None else 0)
            found.artifacts.append(
                Artifact(kind=record.kind, size_bytes=record.payload_bytes, file=f"{folder}/{name}")
            )

    @property
    def hidden(self) -> int:
        """How many compiles were left out."""
        return len(self._hidden)

    def finish(self) -> Iterator[CompileArtifacts]:
        """What was collected."""
        for compile_id, found in self._found.items():
            yield CompileArtifacts(
                compile_id=compile_id,
                artifacts=tuple(found.artifacts),
                hidden_files=found.hidden_files,
                without_text=dict(found.without_text),
            )
