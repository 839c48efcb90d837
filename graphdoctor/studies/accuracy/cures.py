"""Tries what makes results agree again: settings one by one, the operation kept out of the graph,
the torch of another environment. What helps is timed beside the program as it was.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from graphdoctor.facts.accuracy import Cure, CureKind
from graphdoctor.facts.bench import Speedup, Stages
from graphdoctor.facts.located import Located
from graphdoctor.studies.accuracy.stages import Switch, switches_of
from graphdoctor.studies.bench.rounds import judged, speedup
from graphdoctor.studies.bench.side_by_side import SideBySide, Way
from graphdoctor.studies.bench.variants import VariantSpec
from graphdoctor.trials.judge import Reference
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.launch.request import Request
from graphdoctor.trials.program import Program, RunChange
from graphdoctor.trials.replays import Replays
from graphdoctor.views.reasons import reasons_text

_OWN = "as it was"
_CURED = "cured"


@dataclass(frozen=True)
class _Change:
    """A change to try; ``spec``: fields of the run's ``spec``."""

    name: str
    kind: CureKind
    lines: tuple[str, ...] = ()
    spec: Mapping[str, object] = field(default_factory=dict)


@dataclass
class Cures:
    """The changes of one program whose results are wrong."""

    reference: Reference
    replays: Replays
    program: Program
    request: Request
    setup: Setup
    folder: Path

    def tried(
        self, stages: Stages | None, located: Located | None, others: Sequence[str], deadline: float
    ) -> Iterator[Cure]:
        """Yield what was tried: what helps with its cost, the smallest first."""
        helping = self._helping(stages, located, deadline)
        for change in helping:
            cost = self._cost(change) if time.monotonic() < deadline else None
            yield Cure(
                name=change.name,
                kind=change.kind,
                lines=change.lines,
                arguments=dict(change.spec),
                is_right=True,
                cost=cost,
                judgement=judged(cost, None),
            )
        for number, interpreter in enumerate(others):
            yield self._elsewhere(interpreter, number)

    def _helping(
        self, stages: Stages | None, located: Located | None, deadline: float
    ) -> list[_Change]:
        known = {} if stages is None else _outcomes(stages)
        helping = []
        for number, change in enumerate(self._changes(stages, located)):
            if change.name not in known:
                if time.monotonic() > deadline:
                    break
                self.setup.on_phase(f"trying {change.name}")
                known[change.name] = self._is_right(change, f"cure-{number}")
            helping += [change] if known[change.name] else []
        workaround = stages and stages.workaround
        if not helping and stages is not None and workaround:
            # Several parts together, each of which alone doesn't help.
            name, lines = stages.part or "", workaround.lines
            helping.append(_Change(name, "part", lines, workaround.arguments))
        return helping

    def _changes(self, stages: Stages | None, located: Located | None) -> Iterator[_Change]:
        if stages is not None and stages.first is not None:
            for switch in switches_of(stages.first, self.request.spec):
                if not switch.is_kind:
                    yield _change_of(switch)
            if stages.workaround is not None and stages.part is not None:
                yield _Change(
                    stages.part, "part", stages.workaround.lines, stages.workaround.arguments
                )
        if located is not None and located.operation.startswith("torch."):
            line = f"torch._dynamo.disallow_in_graph({located.operation})"
            yield _Change(
                f"with `{located.operation}` outside of graphs",
                "line",
                ("import torch._dynamo", line),
            )

    def _changed(self, change: _Change) -> Program:
        return self.program.changed(RunChange(setup=change.lines))

    def _is_right(self, change: _Change, name: str) -> bool:
        program = self._changed(change)
        recording = self.reference.replay(program, name, spec=change.spec)
        if recording.exit.reason != "finished":
            return False
        verdict = self.reference.judge(recording, program, name, spec=change.spec)
        return verdict.correct is True

    def _cost(self, change: _Change) -> Speedup | None:
        """Time a call with a change beside one without; None if one can't be timed."""
        self.setup.on_phase(f"timing {change.name}")
        own = Way(VariantSpec(_OWN), self.program)
        cured = Way(VariantSpec(_CURED, change.spec), self._changed(change))
        caches = self.folder / "caches"
        with SideBySide(
            self.replays, self.request.spec, self.program, caches, self.setup.on_phase
        ) as ways:
            ways.start_eager()
            ways.start([own, cured])
            ways.time([own, cured])
        if own.turns is None or cured.turns is None:
            return None
        return speedup(cured.turns, own.turns)

    def _elsewhere(self, interpreter: str, number: int) -> Cure:
        """Compare the program in another environment."""
        setup = replace(self.setup, interpreter=interpreter, warm=None)
        with Replays(self.request, self.folder / f"other-{number}", setup) as replays:
            reference = Reference(replays, self.program, on_phase=setup.on_phase)
            recording = reference.replay(self.program, _CURED)
            verdict = reference.judge(recording, self.program, _CURED)
        environment = recording.environment
        version = environment.torch if environment is not None else None
        reasons = verdict.reasons
        return Cure(
            name=f"torch {version}" if version else interpreter,
            kind="torch",
            is_right=verdict.correct is True,
            reason=None if verdict.correct else reasons_text(reasons),
        )


def _change_of(switch: Switch) -> _Change:
    return _Change(
        switch.name, "setting" if switch.lines else "argument", switch.lines, switch.spec
    )


def _outcomes(stages: Stages) -> dict[str, bool]:
    """Whether the first wrong stage was right without one part, by its name."""
    outcomes = {
        result.without[0]: result.outcome == "ok"
        for result in stages.results
        if result.name == stages.first and len(result.without) == 1
    }
    if stages.part is not None and stages.workaround is not None:
        outcomes[stages.part] = True
    return outcomes
