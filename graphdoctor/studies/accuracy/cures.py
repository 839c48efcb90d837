"""Tries what makes results agree again: the part of the compiler that ``stages.py`` found, the
operation kept out of graphs, the torch of another environment. What helps is timed beside the
program as it was, the first cure alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from graphdoctor.facts.accuracy import Cure, CureKind
from graphdoctor.facts.bench import Speedup, Stages
from graphdoctor.facts.located import Located
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
    is_timed: bool = False
    """What a cure costs is measured of the first one."""

    def tried(
        self, stages: Stages | None, located: Located | None, others: Sequence[str], deadline: float
    ) -> Iterator[Cure]:
        """Yield what was tried: what is known to help, the operation outside of graphs, the torch
        of other environments.
        """
        if stages is not None and stages.part is not None and stages.workaround is not None:
            lines, arguments = stages.workaround.lines, stages.workaround.arguments
            change = _Change(stages.part, "part" if lines else "argument", lines, arguments)
            yield self._cure(change, deadline)
        # A method of a tensor can't be kept out by its name.
        if located is not None and located.operation.startswith("torch."):
            lines = (
                "import torch._dynamo",
                f"torch._dynamo.disallow_in_graph({located.operation})",
            )
            change = _Change(f"`{located.operation}` in graphs", "line", lines)
            if time.monotonic() < deadline and self._is_right(change):
                yield self._cure(change, deadline)
        for number, interpreter in enumerate(others):
            yield self._elsewhere(interpreter, number)

    def _cure(self, change: _Change, deadline: float) -> Cure:
        has_time = time.monotonic() < deadline and not self.is_timed
        cost, self.is_timed = self._cost(change) if has_time else None, True
        return Cure(
            name=change.name,
            kind=change.kind,
            lines=change.lines,
            arguments=dict(change.spec),
            is_right=True,
            cost=cost,
            judgement=judged(cost, None),
        )

    def _changed(self, change: _Change) -> Program:
        return self.program.changed(RunChange(setup=change.lines))

    def _is_right(self, change: _Change) -> bool:
        self.setup.on_phase(f"running without {change.name}")
        program, name = self._changed(change), f"without-{change.kind}"
        recording = self.reference.replay(program, name)
        return self.reference.accuracy(recording, program, name).is_right

    def _cost(self, change: _Change) -> Speedup | None:
        """Time a call with a change beside one without; None if one can't be timed."""
        self.setup.on_phase(f"timing {change.name}")
        before = Way(VariantSpec(_OWN), self.program)
        cured = Way(VariantSpec(_CURED, change.spec), self._changed(change))
        caches = self.folder / "caches"
        with SideBySide(
            self.replays, self.request.spec, self.program, caches, self.setup.on_phase
        ) as ways:
            ways.start_eager()
            ways.start([before, cured])
            ways.time([before, cured])
        if before.turns is None or cured.turns is None:
            return None
        return speedup(cured.turns, before.turns)

    def _elsewhere(self, interpreter: str, number: int) -> Cure:
        """Compare the program in another environment."""
        setup = replace(self.setup, python=interpreter, warm=None)
        with Replays(self.request, self.folder / f"other-{number}", setup) as replays:
            reference = Reference(
                replays,
                self.program,
                on_phase=setup.on_phase,
                has_forms=True,
                counts_strides=self.reference.counts_strides,
            )
            recording = reference.replay(self.program, _CURED)
            accuracy = reference.accuracy(recording, self.program, _CURED)
        version = recording.environment.torch
        return Cure(
            name=f"torch {version}" if version else interpreter,
            kind="torch",
            is_right=accuracy.is_right,
            reason=reasons_text(accuracy.reasons),
        )
