"""Names each compile's folder and each record's file as any system can; lists records that a report doesn't show."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator

from graphdoctor.facts.picture import Artifact, CompileArtifacts
from graphdoctor.facts.record_kinds import UNSHOWN_KINDS
from graphdoctor.trace.grammar import Record
from graphdoctor.trace.sections import Collector, Details

NO_COMPILE = "no_compile"

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
    """The folder of a compile's records, such as ``0_1`` for ``0/1`` and ``reset1_0_1`` after a reset of Dynamo."""
    name = NO_COMPILE if compile_id is None else compile_id.replace("!", "autograd").replace("/", "_")
    return safe_name(f"reset{reset}_{name}" if reset else name)


def stem_and_suffix(record: Record) -> tuple[str, str]:
    """A file name for a record's payload, without what tells it from others of its kind, and its ending."""
    value = record.value if isinstance(record.value, dict) else {}
    name = None if record.is_artifact else value.get("name")
    stem = safe_name(f"{record.kind}_{name}" if isinstance(name, str) else record.kind)
    said = (str(value.get("filename", "")).rpartition(".")[2], str(value.get("encoding")), str(value.get("type")))
    known = "py" if record.kind in _PYTHON else "json" if record.kind in _JSON else record.kind.rpartition("_")[2]
    return stem, next((f".{ending}" for ending in (*said, known) if ending in _SUFFIXES), ".txt")


class FileNames:
    """The names that are taken in one folder."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
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


_MAX_COMPILES = 100
_MAX_FILES = 100


class Artifacts(Collector):
    """Collects the records of one process until a reset of Dynamo."""

    KINDS = UNSHOWN_KINDS

    def __init__(self, details: Details | None = None) -> None:
        super().__init__(details)
        self._reset = 0
        self._names: dict[str | None, FileNames] = {}
        self._files: dict[str | None, list[Artifact]] = {}
        self._without_text: dict[str | None, Counter[str]] = {}
        self._unlisted: Counter[str | None] = Counter()
        self._hidden: set[str | None] = set()

    def after_reset(self) -> Artifacts:
        """See ``Collector``."""
        later = super().after_reset()
        later._reset = self._reset + 1
        return later

    def add(self, record: Record) -> None:
        """See ``Collector``."""
        if record.is_extra:
            return
        compile_id = record.compile_id
        if compile_id not in self._names:
            if len(self._names) >= _MAX_COMPILES or not (compile_id is None or self._keeps(compile_id)):
                self._hidden.add(compile_id)
                return
            self._names[compile_id] = FileNames()
        if record.payload_bytes is None:
            self._without_text.setdefault(compile_id, Counter())[record.kind] += 1
            return
        files = self._files.setdefault(compile_id, [])
        if len(files) >= _MAX_FILES:
            self._unlisted[compile_id] += 1
            return
        name = self._names[compile_id].take(*stem_and_suffix(record))
        folder = compile_folder(compile_id, self._reset if compile_id is not None else 0)
        files.append(Artifact(kind=record.kind, size_bytes=record.payload_bytes, file=f"{folder}/{name}"))

    @property
    def hidden(self) -> int:
        """How many compiles were left out."""
        return len(self._hidden)

    def finish(self) -> Iterator[CompileArtifacts]:
        """What was collected."""
        for compile_id in self._names:
            yield CompileArtifacts(
                compile_id=compile_id,
                artifacts=tuple(self._files.get(compile_id, ())),
                hidden_files=self._unlisted[compile_id],
                without_text=dict(self._without_text.get(compile_id, {})),
            )
