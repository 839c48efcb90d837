"""The smallest program that fails as a variant does, made by torch's minifier.

Comes in: the variant and its stages. Goes out: the stages with the path of the program, which was
run and failed the same way, or with a note why there is none. The minifier's scripts run as
programs of their own, in the given folder.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from graphdoctor.facts.bench import StageResult, Stages
from graphdoctor.facts.reading import write_private
from graphdoctor.facts.run import ProbeExit
from graphdoctor.studies.bench.stages import Subject
from graphdoctor.studies.bench.switches import INDUCTOR
from graphdoctor.trace.reader import read_recording
from graphdoctor.trials.judge import clause
from graphdoctor.trials.launch.script import Script, run_script
from graphdoctor.trials.program import MinifierPlan, RunChange
from graphdoctor.wording import join_texts

_LAUNCHER = "minifier_launcher.py"
_REPRODUCER = "repro.py"
"""What torch calls its scripts (``torch/_dynamo/debug_utils.py`` and ``torch/_dynamo/repro``,
2.13)."""

_NO_BACKEND = "backend=None)"
"""What a script says that begins after Dynamo: the backend around the user's has no name. torch
asks to replace it."""

_MINIFY, _RUN = "command='minify'", "command='run'"
"""What a script does when it is run."""

_TRACE = re.compile(r"^os\.environ\['TORCH_TRACE'\] = .*\n", re.MULTILINE)
"""What a script has of our own environment."""


def minified(
    subject: Subject,
    stages: Stages,
    folder: Path,
    *,
    timeout_s: float,
    on_phase: Callable[[str], None],
) -> Stages:
    """Make the smallest program that fails, and run it."""
    failing = next(
        (result for result in stages.results if result.name == stages.first and not result.without),
        None,
    )
    if failing is None:
        return stages
    if failing.name == "eager":
        return _noted(
            stages, "torch's minifier takes graphs apart, and Dynamo fails before it has one"
        )
    minifier = _Minifier(subject, failing, folder.resolve(), time.monotonic() + timeout_s, on_phase)
    found = minifier.run()
    if isinstance(found, Path):
        return replace(stages, reproducer=str(found))
    return _noted(stages, f"no reproducer: {found}")


def _noted(stages: Stages, note: str) -> Stages:
    return replace(stages, note=join_texts("; ", stages.note, note))


@dataclass(frozen=True)
class _Minifier:
    subject: Subject
    failing: StageResult
    folder: Path
    deadline: float
    on_phase: Callable[[str], None]

    def run(self) -> Path | str:
        """The program, or why there is none."""
        self.folder.mkdir(parents=True)
        self.on_phase("looking for the graph that fails")
        after: Literal["dynamo", "aot"] = "aot" if self.failing.name == INDUCTOR else "dynamo"
        plan = MinifierPlan(after, str(self.folder), is_wrong=self.failing.outcome == "wrong")
        name = f"{self.subject.name}-minifier"
        launched = self.subject.replay(self.failing.name, (), name, RunChange(minifier=plan))
        launcher = next(iter(sorted(self.folder.rglob(_LAUNCHER))), None)
        if launcher is None:
            return "torch's minifier runs each graph by itself, and saw none fail"
        text = _TRACE.sub("", launcher.read_text(encoding="utf-8"))
        text = text.replace(_NO_BACKEND, f"backend={self.failing.name!r})")
        reason = ""
        # Operators and settings of the program's own are there once its file has run.
        for beginning in dict.fromkeys(("", _runs(launched.target.file))):
            write_private(launcher, beginning + text)
            found = self._minify(launcher, beginning, launched.exit)
            if isinstance(found, Path):
                return found
            reason = found
        return reason

    def _minify(self, launcher: Path, beginning: str, expected: ProbeExit) -> Path | str:
        reproducer = self.folder / _REPRODUCER
        reproducer.unlink(missing_ok=True)
        self.on_phase("making the program smaller")
        # In one process: every other way imports torch for each of its attempts.
        self._run(launcher, "minify", "--no-isolate")
        # The whole graph, if the minifier fails itself.
        made = reproducer if reproducer.exists() else launcher
        text = made.read_text(encoding="utf-8").replace(_MINIFY, _RUN)
        beginning = beginning if made == reproducer else ""
        write_private(reproducer, beginning + _TRACE.sub("", text))
        self.on_phase("running the smaller program")
        ended = self._run(reproducer)
        if _is_same(ended, expected):
            return reproducer
        return f"what torch's minifier made doesn't fail that way: {clause(ended.message)}"

    def _run(self, script: Path, *arguments: str) -> ProbeExit:
        log = self.folder / "runs" / f"{script.stem}-{time.monotonic_ns()}"
        log.mkdir(parents=True)
        left_s = max(self.deadline - time.monotonic(), 1.0)
        python = self.subject.replays.setup.interpreter
        run_script(
            Script(str(script), False, arguments),
            log,
            python=python,
            timeout_s=left_s,
            apart=self.folder,
        )
        ended = read_recording(log).exit
        if ended.reason == "interrupted":
            raise KeyboardInterrupt
        return ended


def _runs(file: str | None) -> str:
    """Lines that run the program's file, as its import does; empty if it has none."""
    if file is None:
        return ""
    return f"import runpy\nimport sys\nsys.path.insert(0, {str(Path(file).parent)!r})\nrunpy.run_path({file!r})\n"


def _is_same(ended: ProbeExit, expected: ProbeExit) -> bool:
    """Whether a script fails as the program does: torch wraps what a compiler raises in an error of
    its own.
    """
    if ended.reason != "error" or ended.error_type is None:
        return False
    short = ended.error_type.rpartition(".")[2]
    wanted = (expected.error_type or "").rpartition(".")[2]
    return short == wanted or short in (expected.message or "")
