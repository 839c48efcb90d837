"""Lists the records that a report doesn't show, compile by compile, under the names that ``unpack`` gives their files.

Comes in: records in the order of the log. Goes out: ``CompileArtifacts``. No text is kept, and of
no more than 100 compiles.
"""

from __future__ import annotations

from collections import Counter

from graphdoctor.facts.picture import Artifact, CompileArtifacts
from graphdoctor.facts.record_kinds import UNSHOWN_KINDS
from graphdoctor.trace.artifact_names import FileNames, compile_folder, stem_and_suffix
from graphdoctor.trace.details import Details
from graphdoctor.trace.grammar import Record

_MAX_COMPILES = 100
_MAX_FILES = 100
"""Of each."""


class Artifacts:
    """Collects the records of one process until a reset of Dynamo.

    ``details``: the compiles whose records are listed; None for all.
    """

    def __init__(self, details: Details | None = None, reset: int = 0) -> None:
        self._details = details
        self.reset = reset
        self._names: dict[str | None, FileNames] = {}
        self._files: dict[str | None, list[Artifact]] = {}
        self._without_text: dict[str | None, Counter[str]] = {}
        self._unlisted: Counter[str | None] = Counter()
        self._hidden: set[str | None] = set()

    KINDS: frozenset[str] = UNSHOWN_KINDS

    def add(self, record: Record) -> None:
        """Take the next record, one of ``KINDS``."""
        compile_id = record.compile_id
        if compile_id not in self._names:
            is_kept = self._details is None or compile_id is None or self._details.keeps(compile_id)
            if len(self._names) >= _MAX_COMPILES or not is_kept:
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
        folder = compile_folder(compile_id, self.reset if compile_id is not None else 0)
        files.append(Artifact(kind=record.kind, size_bytes=record.payload_bytes, file=f"{folder}/{name}"))

    @property
    def hidden(self) -> int:
        """How many compiles were left out."""
        return len(self._hidden)

    def finish(self, prefix: str) -> tuple[CompileArtifacts, ...]:
        """What was collected."""
        return tuple(
            CompileArtifacts(
                compile_id=None if compile_id is None else prefix + compile_id,
                artifacts=tuple(self._files.get(compile_id, ())),
                hidden_files=self._unlisted[compile_id],
                without_text=dict(self._without_text.get(compile_id, {})),
            )
            for compile_id in self._names
        )
