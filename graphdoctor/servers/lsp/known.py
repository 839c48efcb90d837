"""What is known of a project's files: the newest recording of each target, and a project's own
rules.

Comes in: a folder. Goes out: runs with their findings, by file. A recording is read once, and again
if it changed.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.base import InvalidFactError
from graphdoctor.facts.diagnosis import Diagnosis, Finding
from graphdoctor.facts.picture import Picture
from graphdoctor.facts.stack import relative
from graphdoctor.fixes.patch import LineMap
from graphdoctor.rules.diagnosed import Needs, diagnose_recording
from graphdoctor.rules.gate.check import Policy
from graphdoctor.trials.launch.store import Store, made_at
from graphdoctor.views.html.lines import AnnotatedFile, LineState, annotate
from graphdoctor.views.words import about_time

_MOST = 20
"""Recordings that are looked at, the newest first."""


@dataclass(frozen=True)
class Home:
    """A project: its recordings, what its findings are judged by, and its targets as people write
    them.
    """

    root: Path
    store: Store
    policies: Mapping[str, Sequence[Policy]] = field(default_factory=lambda: {"": [Policy()]})
    """By target, as it is configured; of a project without targets one that counts for all."""

    @property
    def every(self) -> Sequence[Policy]:
        """The policies of all targets."""
        return [policy for policies in self.policies.values() for policy in policies]

    def judging(self, target: str) -> Sequence[Policy]:
        """Return what a target's findings must all pass: its own policies, or all where it has
        none.
        """
        return self.policies.get(target) or self.every


@dataclass(frozen=True)
class Run:
    """A recording as it was read; ``texts``: the files that it holds, as they were."""

    diagnosis: Diagnosis
    made_s: float
    texts: Mapping[Path, str] = field(default_factory=dict)
    read: Callable[[], tuple[AnnotatedFile, ...]] = tuple
    is_of_gate: bool = False

    @functools.cached_property
    def annotated(self) -> Mapping[Path, Mapping[int, LineState]]:
        """Where each line of each file runs, by the line's number then."""
        return {
            Path(file.file): {line.number: line.state for line in file.lines}
            for file in self.read()
        }

    def functions_in(self, path: Path) -> set[str]:
        """Name the functions of a file that torch traced."""
        recording = self.diagnosis.recording
        traced = (context.qualname for context in recording.sources if Path(context.file) == path)
        framed = (
            frame.qualname or frame.function
            for frame, _ in self.diagnosis.each_frame()
            if Path(frame.file) == path
        )
        return {name for name in (*traced, *framed) if name}

    @property
    def target(self) -> str:
        """What was run."""
        return self.diagnosis.recording.target.text or ""

    @property
    def age(self) -> str:
        """How long ago it was and what it was, as it is said."""
        recording, age = self.diagnosis.recording, about_time(max(time.time() - self.made_s, 0))
        command = "explain" if recording.treatment is None else "fix"
        if self.is_of_gate:
            command = "check"
        if recording.target.runs_itself:
            command = "run"
        return f"seen {age} ago in `{command} {self.target}`"


@dataclass(frozen=True)
class Seen:
    """A finding of a run, at its line in the text that an editor has now."""

    finding: Finding
    run: Run


def moved(text: str, now: str) -> LineMap:
    """Maps 1-based lines of a text to those of the text that became of it."""
    return LineMap(now.encode(), text.encode())


class Known:
    """What the recordings of one project say."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._read: dict[tuple[Path, int], Run | None] = {}
        self._runs: Sequence[Run] = ()

    def refresh(self) -> None:
        """Look at the recordings again."""
        runs: dict[tuple[Path, int], Run | None] = {}
        for folder in self.home.store.newest("", "@check")[:_MOST]:
            with suppress(OSError):
                files = (file for file in folder.iterdir() if file.is_file())
                key = folder, max(file.stat().st_mtime_ns for file in files)
                runs[key] = self._read[key] if key in self._read else self._run(folder)
        self._read = runs
        # What an older run of the same target said is outdated.
        newest: dict[str, Run] = {}
        for run in filter(None, runs.values()):
            newest.setdefault(run.target, run)
        self._runs = tuple(newest.values())

    def _run(self, folder: Path) -> Run | None:
        from graphdoctor.trace.picture import read_files

        try:
            diagnosis = diagnose_recording(folder, root=self.home.root).diagnosis
            environment = diagnosis.recording.environment
            sources = read_files(folder, environment) if environment else ()
        except (GraphDoctorError, InvalidFactError, OSError, ValueError):
            return None
        texts = {
            Path(source.file): source.text
            for source in sources
            if source.text is not None and source.origin == "user"
        }
        when = made_at(folder)
        made_s = when.timestamp() if when else folder.stat().st_mtime

        def read() -> tuple[AnnotatedFile, ...]:
            result = diagnose_recording(folder, needs=Needs(picture=True), root=self.home.root)
            return annotate(result.diagnosis, result.picture or Picture(), self.home.root)

        is_of_gate = folder in self.home.store.newest("@check")
        return Run(diagnosis, made_s, texts, read, is_of_gate=is_of_gate)

    def runs_of(self, path: Path) -> Iterator[tuple[Run, str]]:
        """Yield the newest runs of targets that touched a file, the newest first, each with the
        file's text as it was.
        """
        for run in self._runs:
            if path in run.texts:
                yield run, run.texts[path]

    def seen_in(self, path: Path, now: str) -> list[Seen]:
        """Return findings in a file, at their lines in a text of it; none at lines that changed
        since, or that don't count.
        """
        sightings: dict[tuple[str, int, str | None], Seen] = {}
        covered: set[str] = set()
        for run, text in self.runs_of(path):
            lines = moved(text, now)
            for finding in run.diagnosis.findings:
                place = finding.location
                if self.home.root / place.file != path or lines.is_changed_after(place.line):
                    continue
                if place.function in covered:
                    continue  # a later run traced it, and says what is so now
                line = lines.to_before(place.line)
                here = finding.replace(location=place.replace(line=line))
                sightings.setdefault((finding.code, line, finding.torch_id), Seen(here, run))
            if not run.diagnosis.recording.is_partial:
                covered |= run.functions_in(path)
        return list(sightings.values())

    def target_of(self, path: Path) -> str:
        """Say what to run for a file: what last touched it, a configured target of it, or the
        file.
        """
        last = next((run.target for run, _ in self.runs_of(path) if run.target), None)
        name = relative(str(path), self.home.root)
        configured = (target for target in self.home.policies if target.split(":")[0] == name)
        return last or next(configured, name)
