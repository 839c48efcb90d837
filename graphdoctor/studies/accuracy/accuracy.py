"""Compares compiled code with eager mode, and follows a difference to the operation that makes it.

Comes in: a program. Goes out: an ``AccuracyReport``. The program runs without torch.compile, in
float64 and compiled (``trials/judge.py``); results that differ are looked into from the cheapest
question to the dearest: whether a fresh compile agrees, so that a graph was stale; whether the
program asks if it is compiled; which stage of the compiler is wrong (``stages.py``); which
operation of that stage's graph; and what cures it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from graphdoctor.facts.accuracy import AccuracyReport, Cure, StaleValue
from graphdoctor.facts.bench import Stages
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.located import Compared, Located, NotLocated
from graphdoctor.facts.reading import write_fact
from graphdoctor.facts.recording import Recording, TracingBranch
from graphdoctor.facts.stack import StackEntry
from graphdoctor.facts.trials import FORMS, TEXTS
from graphdoctor.probe.wire import ACCURACY_FILE
from graphdoctor.studies.accuracy.reproduction import reproduction
from graphdoctor.studies.accuracy.stages import Following, Subject
from graphdoctor.trials.judge import Accuracy, Reference
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.launch.request import Request
from graphdoctor.trials.program import Program, RunChange
from graphdoctor.trials.replays import Replays
from graphdoctor.trials.stale import stale_value
from graphdoctor.version import __version__
from graphdoctor.views.accuracy import accuracy_text
from graphdoctor.views.reasons import reasons_text

_FOLDER = "accuracy"
_COMPILED = "compiled"
_FRESH = "fresh"
_ASKED = "asked"
_WITHOUT = "without-line"


def compare(
    request: Request,
    recording: Path,
    diagnosis: Diagnosis,
    setup: Setup,
    *,
    budget_s: float,
    others: Sequence[str] = (),
    counts_strides: bool = False,
) -> AccuracyReport:
    """Compare a recorded program, and look into what differs for so many seconds.

    ``others``: interpreters of environments whose torch is tried, too. ``counts_strides``: results
    whose strides alone differ are different.

    Raises:
        KeyboardInterrupt: It was interrupted before there was a verdict.
    """
    with Replays(request, recording / _FOLDER, setup.with_limit) as replays:
        branches = diagnosis.recording.tracing_branches
        search = _Search(replays, request, recording / _FOLDER, setup, budget_s, branches)
        accuracy = search.compare(counts_strides=counts_strides)
        is_interrupted = False
        if accuracy.verdict == "different":
            try:
                search.look_into(accuracy, others)
            except KeyboardInterrupt:
                is_interrupted = True
    recorded = diagnosis.recording
    counts = diagnosis.summary
    is_vacuous = accuracy.verdict == "same bits" and not counts.graphs
    report = AccuracyReport(
        graphdoctor_version=__version__,
        environment=recorded.environment,
        target=recorded.target.replace(compile_arguments=request.spec.compile_arguments()),
        text="",
        verdict="unknown" if is_vacuous else accuracy.verdict,
        reason=reasons_text(accuracy.reasons),
        call_count=len(search.compiled.calls),
        graphs=counts.graphs,
        break_sites=counts.break_sites,
        correctness=accuracy.correctness,
        kinds=accuracy.kinds,
        differences=accuracy.differences,
        strides=accuracy.strides,
        is_drawn_as_eager=accuracy.is_drawn_as_eager,
        first_call=accuracy.first_call,
        stages=search.stages,
        located=search.located,
        not_located=search.not_located,
        not_located_lines=search.among,
        reproduction=search.reproduction,
        stale=search.stale,
        branches=tuple(
            branch.replace(location=branch.location.located(Path.cwd())) for branch in branches
        ),
        is_branch_explained=search.is_branch_explained,
        cures=tuple(search.cures),
        is_interrupted=is_interrupted,
        # The recorded run was to make the calls, no more.
        gaps=tuple(gap for gap in recorded.gaps if gap.kind != "coverage"),
    )
    report = report.replace(text=accuracy_text(report))
    write_fact(report, recording / ACCURACY_FILE)
    return report


@dataclass
class _Search:
    replays: Replays
    request: Request
    folder: Path
    setup: Setup
    budget_s: float
    branches: tuple[TracingBranch, ...]
    stages: Stages | None = None
    located: Located | None = None
    not_located: NotLocated | None = None
    among: tuple[StackEntry, ...] = ()
    reproduction: str | None = None
    stale: StaleValue | None = None
    is_branch_explained: bool | None = None
    cures: list[Cure] = field(default_factory=list)
    _reference: Reference = field(init=False)
    compiled: Recording = field(init=False)
    _program: Program = field(default_factory=Program)

    def compare(self, *, counts_strides: bool) -> Accuracy:
        """Run the program in each way, and judge the compiled one."""
        self._reference = Reference(
            self.replays,
            self._program,
            on_phase=self.setup.on_phase,
            has_forms=True,
            counts_strides=counts_strides,
        )
        self.setup.on_phase("running with torch.compile")
        self.compiled = self._reference.replay(self._program, _COMPILED)
        accuracy = self._reference.accuracy(self.compiled, self._program, _COMPILED)
        # From now on, every run draws its random numbers as the verdict needs it.
        self._program = self._program.changed(accuracy.change)
        return accuracy

    def look_into(self, accuracy: Accuracy, others: Sequence[str]) -> None:
        """Find what makes results differ, and what cures it."""
        deadline = time.monotonic() + self.budget_s
        self._find_stale(accuracy)
        if self.stale is None and any(not item.is_answered_alike for item in self.branches):
            self.is_branch_explained = is_branch_explained(
                self.replays, self._program, on_phase=self.setup.on_phase
            )
        is_computed = any(item.kind not in TEXTS for item in accuracy.differences)
        if self.stale is None and is_computed and not self.is_branch_explained:
            subject = Subject(self._reference, self._program, self.request.spec, {}, _COMPILED)
            following = Following(subject, deadline, self.setup.on_phase)
            stage = following.find_stage()
            self.stages = following.stages
            if stage is not None:
                self.setup.on_phase(f"looking for the operation that {stage} changes")
                self._locate(subject, stage, deadline, accuracy)
                self.setup.on_phase("running it on its own")
                self.reproduction = reproduction(
                    self.located, stage, self.setup.interpreter, self.folder
                )
                following.find_parts()
                self.stages = following.stages
        self._cure(deadline)
        for number, interpreter in enumerate(others):
            self.cures.append(self._elsewhere(interpreter, number))

    def _cure(self, deadline: float) -> None:
        """Keep what is known to help, and try the operation outside of graphs."""
        stages, located = self.stages, self.located
        if stages is not None and stages.part is not None and stages.workaround is not None:
            lines, arguments = stages.workaround.lines, stages.workaround.arguments
            self.cures.append(
                Cure(
                    name=stages.part,
                    kind="part" if lines else "argument",
                    lines=lines,
                    arguments=arguments,
                    is_right=True,
                )
            )
        # A method of a tensor can't be kept out by its name.
        if located is None or not located.operation.startswith("torch."):
            return
        name = f"`{located.operation}` in graphs"
        lines = ("import torch._dynamo", f"torch._dynamo.disallow_in_graph({located.operation})")
        if time.monotonic() < deadline:
            self.setup.on_phase(f"running without {name}")
            program = self._program.changed(RunChange(setup=lines))
            recording = self._reference.replay(program, _WITHOUT)
            if self._reference.accuracy(recording, program, _WITHOUT).is_right:
                self.cures.append(Cure(name=name, kind="line", lines=lines, is_right=True))

    def _elsewhere(self, interpreter: str, number: int) -> Cure:
        """Compare the program in another environment."""
        setup = replace(self.setup, python=interpreter, warm=None)
        with Replays(self.request, self.folder / f"other-{number}", setup) as replays:
            reference = Reference(
                replays,
                self._program,
                on_phase=setup.on_phase,
                has_forms=True,
                counts_strides=self._reference.counts_strides,
            )
            recording = reference.replay(self._program, _COMPILED)
            accuracy = reference.accuracy(recording, self._program, _COMPILED)
        version = recording.environment.torch
        return Cure(
            name=f"torch {version}" if version else interpreter,
            kind="torch",
            is_right=accuracy.is_right,
            reason=reasons_text(accuracy.reasons),
        )

    def _find_stale(self, accuracy: Accuracy) -> None:
        """Compile each call anew; a graph that was reused is stale if that is right."""
        call = accuracy.first_call
        if call is None or call == 1:
            return
        self.setup.on_phase("compiling each call anew")
        fresh = self._reference.replay(self._program, _FRESH, is_fresh_compiled=True)
        anew = self._reference.accuracy(fresh, self._program, _FRESH)
        if anew.is_right:
            self.stale = stale_value(self.compiled, fresh, accuracy.differences[0], call)

    def _locate(self, subject: Subject, stage: str, deadline: float, accuracy: Accuracy) -> None:
        kinds = {item.kind for item in accuracy.differences if item.kind not in TEXTS}
        what: Compared = "forms" if kinds <= FORMS else "values"
        if "exceptions" in kinds:
            what = "exceptions"
        program, spec = subject.variant(stage, (), self._program.change)
        limit_s = max(deadline - time.monotonic(), 0.0)
        run = self.replays.replay(
            program, "located", spec=spec, locate_s=limit_s, located=what, has_forms=True
        )
        if run.replay is not None:
            root, lines = Path.cwd(), run.replay.not_located_lines
            self.located, self.not_located = run.replay.located, run.replay.not_located
            self.among = tuple(line.located(root) for line in lines)
            if self.located is not None and self.located.location is not None:
                place = self.located.location.located(root)
                self.located = self.located.replace(location=place)


def is_branch_explained(
    replays: Replays, program: Program, *, on_phase: Callable[[str], None]
) -> bool | None:
    """Tell whether results agree where eager mode takes the ways of compiled code; None if it
    can't, or nobody knows.
    """
    asked = program.changed(RunChange(asks_as_compiled=True))
    reference = Reference(replays, asked, on_phase=on_phase, prefix="asked-", has_forms=True)
    accuracy = reference.accuracy(reference.replay(asked, _ASKED), asked, _ASKED)
    is_raised = any(item.kind == "exceptions" for item in accuracy.differences)
    return None if is_raised or accuracy.verdict == "unknown" else accuracy.verdict != "different"
