"""Follows a variant that fails or is wrong down the stages of the compiler, to the first that does.

Comes in: the variant, and the program without torch.compile. Goes out: ``Stages``. Each stage is a
replay of the same calls, judged by its results. Then parts of that stage are left out: all of them
first, then halves of them, until it is known which ones it takes; that one alone is tried once
more, in the words of a setting if there is one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from graphdoctor.facts.bench import StageOutcome, StageResult, Stages, Workaround
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.spec import RunSpec
from graphdoctor.facts.trials import CompilerPart, CompilerPartKind
from graphdoctor.trials.judge import Reference, clause
from graphdoctor.trials.program import Program, RunChange
from graphdoctor.views.reasons import reasons_text
from graphdoctor.wording import counted, listed

# Parts of the compiler that can be left out of a run.

INDUCTOR = "inductor"
DECOMPOSED = "aot_eager_decomp_partition"


@dataclass(frozen=True)
class Switch:
    """One part that can be left out.

    Args:
        name: The part, after "without": ``fusion``.
        spec: Fields of the run's ``spec`` that turn it off.
        kind: Kind of parts that have names; None for others.
        part: The one with this name; None for all of the kind.
    """

    name: str
    lines: tuple[str, ...] = ()
    spec: Mapping[str, Any] = field(default_factory=dict, hash=False)
    kind: CompilerPartKind | None = None
    part: str | None = None

    @property
    def is_kind(self) -> bool:
        """It leaves out a whole kind of parts."""
        return self.kind is not None and self.part is None


def _config(name: str, *settings: str) -> Switch:
    return Switch(
        name,
        ("import torch._inductor.config", *(f"torch._inductor.config.{line}" for line in settings)),
    )


RANDOM = _config("random numbers of its own", "fallback_random = True")
"""Inductor's kernels draw random numbers of their own; eager mode's kernels can do it, too."""

FUSION = _config("fusion", "max_fusion_size = 1", "epilogue_fusion = False")

_OF_KERNELS = (
    _config("vectorization", "cpp.simdlen = 1"),
    _config("reuse of memory", "allow_buffer_reuse = False", "inplace_buffers = False"),
    _config(
        "its choice of layouts", "layout_optimization = False", "comprehensive_padding = False"
    ),
    _config("higher precision between operations", "emulate_precision_casts = True"),
    _config("splitting of reductions", "split_reductions = False"),
)
_OF_STAGE: Mapping[str, tuple[Switch, ...]] = {
    DECOMPOSED: (
        RANDOM,
        Switch(
            "common subexpression elimination",
            ("import torch._functorch.config", "torch._functorch.config.cse = False"),
        ),
    ),
    # What concerns kernels concerns those of ATen, too: some reuse memory.
    INDUCTOR: (
        *_OF_KERNELS,
        FUSION,
        _config("its pattern matcher", "pattern_matcher = False"),
        RANDOM,
    ),
}
"""Settings of ``torch/_inductor/config.py`` and ``torch/_functorch/config.py``, 2.11 to 2.15."""

_KINDS: Mapping[CompilerPartKind, tuple[str, str]] = {
    "pass": ("passes over its graphs", "the pass {}"),
    "decomposition": ("decompositions", "the decomposition of {}"),
    "lowering": ("lowerings", "the lowering of {}"),
}
"""All parts of a kind, and one of them, in words."""


_WITHOUT: Mapping[CompilerPartKind, tuple[str, str]] = {
    "decomposition": (
        "import torch._inductor.decomposition",
        "torch._inductor.decomposition.decompositions.pop(torch.ops.{}, None)",
    ),
    "lowering": (
        "import torch._inductor.lowering",
        "torch._inductor.lowering.make_fallback(torch.ops.{}, override_decomp=True)",
    ),
}
"""Lines that leave out one of them."""


def part_of(kind: CompilerPartKind, part: str | None = None) -> Switch:
    """Return one part with a name, or all parts of a kind."""
    all_of_kind, words = _KINDS[kind]
    return Switch(all_of_kind if part is None else words.format(part), kind=kind, part=part)


def switches_of(stage: str, spec: RunSpec) -> tuple[Switch, ...]:
    """Return the parts that can be left out of a stage, apart from lowerings."""
    if stage not in _OF_STAGE:
        return _of_arguments(stage, spec)
    passes = (part_of("pass"),) if stage == INDUCTOR else ()
    return (*_OF_STAGE[stage], *_of_arguments(stage, spec), *passes, part_of("decomposition"))


def _of_arguments(stage: str, spec: RunSpec) -> tuple[Switch, ...]:
    is_own = stage == spec.backend
    is_used = {
        Switch(f"mode {spec.mode!r}", spec={"mode": None}): is_own
        and spec.mode not in (None, "default"),
        Switch("its options", spec={"options": {}}): is_own and bool(spec.options),
        Switch("dynamic shapes", spec={"dynamic": False}): spec.dynamic is not False,
        Switch("fullgraph", spec={"fullgraph": False}): spec.fullgraph,
    }
    return tuple(switch for switch, is_given in is_used.items() if is_given)


def change_of(switches: Iterable[Switch]) -> RunChange:
    """Return the change of a run that leaves parts out; torch reports which parts it uses."""
    chosen = tuple(switches)
    without: dict[CompilerPartKind, tuple[str, ...] | None] = {}
    for switch in chosen:
        if switch.kind is not None:
            names = without.get(switch.kind, ())
            is_whole = switch.is_kind or names is None
            without[switch.kind] = None if is_whole else (*(names or ()), str(switch.part))
    return RunChange(
        setup=tuple(dict.fromkeys(line for switch in chosen for line in switch.lines)),
        without=without,
    )


def spec_of(switches: Iterable[Switch]) -> dict[str, Any]:
    """Return the fields of the run's ``spec`` that leave parts out."""
    return {name: value for switch in switches for name, value in switch.spec.items()}


def lines_of(switches: Iterable[Switch]) -> tuple[str, ...] | None:
    """Return lines that a person can write to do without parts; None if one of them has none."""
    chosen = tuple(switches)
    if any(switch.is_kind for switch in chosen):
        return None
    written = dict.fromkeys(line for switch in chosen for line in switch.lines)
    for kind, lines in _WITHOUT.items():
        written |= dict.fromkeys(
            line.format(switch.part) for switch in chosen if switch.kind == kind for line in lines
        )
    if passes := [str(switch.part) for switch in chosen if switch.kind == "pass"]:
        setting = f"torch._inductor.config.disabled_passes = {','.join(passes)!r}"
        written |= dict.fromkeys(("import torch._inductor.config", setting))
    return tuple(written)


# Following a variant.

CROSSREF = "aot_eager_decomp_partition_crossref"
"""Compares what fake kernels of the program's own operators say with what the kernels give."""

_MISMATCH = "MetadataMismatchError"
"""The error of that stage if they differ (``torch/_subclasses/fake_tensor.py``, 2.13)."""

_STAGES = ("eager", "aot_eager", DECOMPOSED)


@dataclass(frozen=True)
class Subject:
    """The variant."""

    reference: Reference
    program: Program
    spec: RunSpec
    changes: Mapping[str, Any]
    name: str

    def variant(
        self, stage: str, switches: Sequence[Switch], change: RunChange
    ) -> tuple[Program, dict[str, Any]]:
        """Return the run at a stage: the program, and fields of its ``spec``."""
        # Mode and options belong to the variant's own backend.
        none: dict[str, Any] = {} if stage == self.spec.backend else {"mode": None, "options": {}}
        spec = {**self.changes, "backend": stage, **spec_of(switches), **none}
        return self.program.changed(change).changed(change_of(switches)), spec

    def replay(
        self, stage: str, switches: Sequence[Switch], name: str, change: RunChange
    ) -> Recording:
        """Run it at a stage."""
        program, spec = self.variant(stage, switches, change)
        return self.reference.replay(program, name, spec=spec)


def follow(subject: Subject, *, limit_s: float, on_phase: Callable[[str], None]) -> Stages:
    """Find the first stage of the compiler that fails, and what of it."""
    following = Following(subject, time.monotonic() + limit_s, on_phase)
    following.find_stage()
    following.find_parts()
    return following.stages


def stages_of(backend: str) -> tuple[str, ...]:
    """Return the stages that lead to a backend, which is the last."""
    if backend in _STAGES:
        return _STAGES[: _STAGES.index(backend) + 1]
    return (*(_STAGES if backend == INDUCTOR else _STAGES[:2]), backend)


class _OutOfTimeError(Exception):
    """No more replays can be made."""


@dataclass(frozen=True)
class _Tried:
    result: StageResult
    parts: tuple[CompilerPart, ...]
    error_type: str | None

    @property
    def is_right(self) -> bool:
        return self.result.outcome == "ok"


@dataclass
class Following:
    """The state of a search. ``stage``: the first that fails; ``chosen``: the fewest parts without
    which it is right so far.
    """

    subject: Subject
    deadline: float
    on_phase: Callable[[str], None]
    results: list[StageResult] = field(default_factory=list)
    tried: dict[tuple[str, frozenset[Switch]], _Tried] = field(default_factory=dict)
    numbers: RunChange = field(default_factory=RunChange)
    stage: str = ""
    chosen: tuple[Switch, ...] = ()
    workaround: Workaround | None = None
    note: str | None = None

    def find_stage(self) -> str | None:
        """Find the first stage that fails; None if none does, or the time was up."""
        with self._within_time():
            names = stages_of(self.subject.spec.backend)
            self.stage = next((name for name in names if not self._try(name).is_right), "")
            if not self.stage:
                self.note = "run once more, with torch's caches off, it was right"
        return self.stage or None

    def find_parts(self) -> None:
        """Find the parts of that stage without which it is right."""
        with self._within_time():
            if self.stage:
                self._find_parts()

    @property
    def stages(self) -> Stages:
        """What was found so far."""
        order = [*stages_of(self.subject.spec.backend), CROSSREF]
        return Stages(
            results=tuple(sorted(self.results, key=lambda result: order.index(result.name))),
            first=self.stage or None,
            part=_text(self.chosen),
            workaround=self.workaround,
            note=self.note,
        )

    @contextmanager
    def _within_time(self) -> Iterator[None]:
        try:
            yield
        except _OutOfTimeError:
            runs = counted(len(self.results), "run")
            self.note = f"stopped after {runs}: the time was up"

    def _choose(self, switches: tuple[Switch, ...]) -> None:
        """Choose parts, and find lines to write by hand to do without them; tried, unless the run
        without them was made just so.
        """
        lines, spec, workaround = lines_of(switches), spec_of(switches), None
        if lines is not None:
            written = Switch(f"{_text(switches)}, by settings", lines=lines, spec=spec)
            if all(switch.kind is None for switch in switches) or self._is_right(written):
                workaround = Workaround(lines=lines, arguments=spec)
        self.chosen, self.workaround = switches, workaround

    def _find_parts(self) -> None:
        lowerings = part_of("lowering")
        if self.stage == INDUCTOR and self._is_right(lowerings):
            self._find_in_kernels(lowerings)
            return
        # Without lowerings nothing is compiled by another compiler, so the rest takes little time.
        beside = (lowerings,) if self.stage == INDUCTOR else ()
        switches = switches_of(self.stage, self.subject.spec)
        if not switches or not self._is_right(*beside, *switches):
            # It may be an operator of the program's own whose fake kernel says something else than
            # its kernel gives.
            if (self._try(CROSSREF).error_type or "").rpartition(".")[2] == _MISMATCH:
                self.note = "an operator's fake kernel says something else than its kernel"
            elif switches:
                self.note = "it stays so without every part that can be left out"
            return
        chosen = self._smallest(switches, beside=beside)
        for kind in [switch.kind for switch in chosen if switch.kind is not None]:
            chosen = self._names_of(kind, chosen, beside=beside)
        if beside and not self._is_right(*chosen):
            chosen = self._names_of("lowering", (*chosen, lowerings))
        self._choose(chosen)

    def _find_in_kernels(self, lowerings: Switch) -> None:
        operators = self._names_of("lowering", (lowerings,))
        self._choose(operators)
        # Not fusion at first, which takes longest to do without.
        settings = (*_OF_KERNELS, *_of_arguments(self.stage, self.subject.spec))
        if self._is_right(*settings):
            settings = self._smallest(settings)
        elif self._is_right(FUSION):
            settings = (FUSION,)
        else:
            return
        self._choose(settings)
        self.note = f"leaving out {_text(operators)} helps, too"

    def _names_of(
        self, kind: CompilerPartKind, chosen: tuple[Switch, ...], *, beside: tuple[Switch, ...] = ()
    ) -> tuple[Switch, ...]:
        """Return the same parts, with those of a kind that it takes instead of all of the kind."""
        others = tuple(switch for switch in chosen if switch.kind != kind)
        parts = self._try(self.stage, (*beside, *chosen)).parts
        used = tuple(part_of(kind, part.name) for part in parts if part.kind == kind)
        smallest = self._smallest(used, beside=(*beside, *others))
        return (*others, *smallest) if smallest else chosen

    def _smallest(
        self, switches: tuple[Switch, ...], *, beside: tuple[Switch, ...] = ()
    ) -> tuple[Switch, ...]:
        """Find a smallest set of parts without which a stage is right, as it is without all of
        them.
        """
        left = switches
        while len(left) > 1:
            half = left[: len(left) // 2]
            left = half if self._is_right(*beside, *half) else left[len(half) :]
        if not left or self._is_right(*beside, *left):
            return left
        return self._together(switches, beside)

    def _together(
        self, switches: tuple[Switch, ...], beside: tuple[Switch, ...]
    ) -> tuple[Switch, ...]:
        """Find it where it takes more than one part: the parts of each half, with the other half
        left out.
        """
        if len(switches) <= 1:
            return switches
        middle = len(switches) // 2
        first, second = switches[:middle], switches[middle:]
        for half in (first, second):
            if self._is_right(*beside, *half):
                return self._together(half, beside)
        of_first = self._together(first, (*beside, *second))
        return (*of_first, *self._together(second, (*beside, *of_first)))

    def _is_right(self, *switches: Switch) -> bool:
        """Return whether the stage that fails is right without parts."""
        return self._try(self.stage, switches).is_right

    def _try(self, stage: str, switches: tuple[Switch, ...] = ()) -> _Tried:
        key = stage, frozenset(switches)
        if key not in self.tried:
            self.tried[key] = self._run(stage, switches)
            self.results.append(self.tried[key].result)
            is_right = switches and self.tried[key].is_right and self.workaround is None

            def size(switches: tuple[Switch, ...]) -> tuple[int, int]:
                # Kinds of parts that are left out as a whole, then all parts.
                return sum(switch.is_kind for switch in switches), len(switches)

            if is_right and (not self.chosen or size(switches) < size(self.chosen)):
                self.chosen = switches
        return self.tried[key]

    def _run(self, stage: str, switches: tuple[Switch, ...]) -> _Tried:
        if time.monotonic() > self.deadline:
            raise _OutOfTimeError
        subject, without = self.subject, tuple(switch.name for switch in switches)
        self.on_phase(f"{stage} without {listed(without)}" if without else stage)
        name = f"{subject.name}-stage-{len(self.results) + 1}"
        recording = subject.replay(stage, switches, name, self.numbers)
        outcome: StageOutcome = "failed"
        reason: str | None = clause(recording.exit.message)
        if recording.exit.reason == "finished":
            program, spec = subject.variant(stage, switches, self.numbers)
            verdict = subject.reference.judge(recording, program, name, spec=spec)
            # From now on, every run draws its random numbers so.
            self.numbers = self.numbers.joined(verdict.change)
            outcome = "wrong" if verdict.correct is False else "ok"
            reason = reasons_text(verdict.reasons)
        parts = recording.replay.parts if recording.replay else ()
        result = StageResult(name=stage, without=without, outcome=outcome, reason=reason)
        return _Tried(result, parts, recording.exit.error_type)


def _text(switches: Sequence[Switch]) -> str | None:
    return listed([switch.name for switch in switches], most=len(switches)) or None
