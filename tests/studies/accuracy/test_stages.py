"""A variant that is wrong is followed to the first stage that is, and to what of it that takes."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from graphdoctor.facts.run import ProbeExit
from graphdoctor.facts.spec import RunSpec
from graphdoctor.facts.trials import CompilerPart, Replay
from graphdoctor.studies.accuracy.stages import (
    CROSSREF,
    DECOMPOSED,
    INDUCTOR,
    Subject,
    Switch,
    change_of,
    follow,
    lines_of,
    part_of,
    stages_of,
)
from graphdoctor.trials.judge import Verdict
from graphdoctor.trials.program import Program
from tests.each import for_each
from tests.factories import message, recording

NAMES = {
    "pass": tuple(f"pass_{number}" for number in range(7)),
    "decomposition": tuple(f"aten.op{number}.default" for number in range(5)),
    "lowering": tuple(f"prims.op{number}.default" for number in range(9)),
}
USED = {DECOMPOSED: ("decomposition",), INDUCTOR: ("decomposition", "pass", "lowering")}
SETTINGS = {
    "fusion": "torch._inductor.config.max_fusion_size = 1",
    "vectorization": "torch._inductor.config.cpp.simdlen = 1",
    "random numbers of its own": "torch._inductor.config.fallback_random = True",
}


class Compiler:
    """A compiler with bugs: each shows if all of its parts, or all stages named in it, are in use.

    Args:
        bugs: Names of parts and stages.
        outcome: What a bug does.
        error_type: What it raises.
    """

    def __init__(self, *bugs, outcome="wrong", error_type=None):
        self.bugs = bugs
        self.outcome = outcome
        self.error_type = error_type
        self.count = 0
        self.is_wrong = False

    def in_use(self, stage, switches):
        """The stages that a run goes through, and the parts that aren't left out."""
        change = change_of(switches)
        without, text = change.without or {}, "\n".join(change.setup)
        found = {stage, *stages_of(stage)}
        for kind in USED.get(stage, ()):
            names = without.get(kind, ())
            found |= {
                name
                for name in NAMES[kind]
                if names is not None and name not in names and name not in text
            }
        if stage in USED:
            found |= {name for name, line in SETTINGS.items() if line not in text}
        return found | (
            {"dynamic"} if not any("dynamic" in switch.spec for switch in switches) else set()
        )

    def run(self, stage, switches):
        """One replay."""
        self.count += 1
        self.is_wrong = any(bug <= self.in_use(stage, switches) for bug in self.bugs)
        parts = [
            CompilerPart(kind=kind, name=name)
            for kind in USED.get(stage, ())
            for name in NAMES[kind]
        ]
        ended = ProbeExit(status=0, reason="finished")
        if self.is_wrong and self.outcome == "failed":
            ended = ProbeExit(
                status=1, reason="error", message="It raised.", error_type=self.error_type
            )
        return recording().replace(exit=ended, replay=Replay(parts=tuple(parts)))


@dataclass(frozen=True)
class Simulated(Subject):
    """A variant that runs on such a compiler."""

    compiler: Compiler = field(default_factory=Compiler)

    def replay(self, stage, switches, _name, _change):
        return self.compiler.run(stage, switches)


class Judge:
    """What ``Reference`` says of such a variant."""

    def __init__(self, compiler):
        self.compiler = compiler

    def judge(self, _recording, _program, _name, **_given):
        is_wrong = self.compiler.is_wrong
        return Verdict(not is_wrong, None, message("output differs by 1")[0] if is_wrong else None)


def variant_on(compiler, **spec):
    return Simulated(
        reference=Judge(compiler),
        program=Program(),
        spec=RunSpec(**{"backend": INDUCTOR, **spec}),
        changes=spec,
        name="default",
        compiler=compiler,
    )


def followed(compiler, *, limit_s=60.0):
    return follow(variant_on(compiler), limit_s=limit_s, on_phase=lambda _phase: None)


@for_each("stage", stages_of(INDUCTOR))
@for_each("outcome", ["wrong", "failed"])
def test_no_stage_after_the_first_failing_one_is_run(stage, outcome):
    found = followed(Compiler({stage}, outcome=outcome))
    assert found.first == stage
    plain = [result for result in found.results if not result.without and result.name != CROSSREF]
    assert [result.name for result in plain] == list(stages_of(stage))
    assert [result.outcome for result in plain] == [*["ok"] * (len(plain) - 1), outcome]
    assert found.part is None
    assert found.workaround is None


def test_nothing_is_blamed_if_every_stage_is_right_by_itself():
    found = followed(Compiler())
    assert (found.first, found.part) == (None, None)
    assert found.note == "run once more, with torch's caches off, it was right"


@for_each(
    "stage, kind, words",
    [
        (DECOMPOSED, "decomposition", "the decomposition of {}"),
        (INDUCTOR, "pass", "the pass {}"),
        (INDUCTOR, "lowering", "the lowering of {}"),
    ],
)
def test_a_named_part_is_found_and_its_workaround_tried(stage, kind, words):
    for name in NAMES[kind]:
        compiler = Compiler({stage, name})
        found = followed(compiler)
        assert (found.first, found.part) == (stage, words.format(name))
        assert found.workaround.lines == lines_of([part_of(kind, name)])
        assert found.results[-1].outcome == "ok" or kind == "lowering"
        assert compiler.count <= 20


@for_each("name", ["vectorization", "fusion"])
def test_a_setting_is_named_rather_than_an_operator(name):
    found = followed(Compiler({INDUCTOR, name, "prims.op4.default"}))
    assert found.part == name
    assert found.note == "leaving out the lowering of prims.op4.default helps, too"
    assert SETTINGS[name] in found.workaround.lines


def test_dynamic_shapes_are_an_argument_to_leave_out():
    found = followed(Compiler({"eager", "dynamic"}))
    assert (found.first, found.part) == ("eager", "dynamic shapes")
    assert found.workaround.arguments == {"dynamic": False}


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.sets(st.sampled_from([*itertools.chain(*NAMES.values()), *SETTINGS]), min_size=1),
        min_size=1,
    )
)
def test_no_bug_is_left_without_the_parts_found(bugs):
    compiler = Compiler(*({INDUCTOR, *bug} for bug in bugs))
    found = followed(compiler)
    if found.first is None:
        return
    assert found.first == INDUCTOR
    compiler.run(
        INDUCTOR, [Switch("found", lines=found.workaround.lines, spec=found.workaround.arguments)]
    )
    assert not compiler.is_wrong


def test_a_fake_kernel_is_blamed_only_for_its_own_error():
    lies = Compiler(
        {INDUCTOR},
        {CROSSREF},
        outcome="failed",
        error_type="torch._subclasses.MetadataMismatchError",
    )
    found = followed(lies)
    note = "an operator's fake kernel says something else than its kernel"
    assert (found.first, found.part, found.note) == (INDUCTOR, None, note)
    early = Compiler(
        {"eager"},
        {CROSSREF},
        outcome="failed",
        error_type="torch._subclasses.MetadataMismatchError",
    )
    assert (followed(early).first, followed(early).note) == ("eager", note)
    other = followed(Compiler({INDUCTOR}, {CROSSREF}, outcome="failed", error_type="RuntimeError"))
    assert (other.first, other.part) == (INDUCTOR, None)
    assert other.note == "it stays so without every part that can be left out"


def test_what_was_found_until_the_time_was_up_is_kept(monkeypatch):
    now = itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    found = followed(Compiler({INDUCTOR, "prims.op1.default"}), limit_s=5)
    assert (found.first, found.part, found.workaround) == (INDUCTOR, "lowerings", None)
    assert found.note == "stopped after 5 runs: the time was up"
    found = followed(Compiler({INDUCTOR, "prims.op1.default"}), limit_s=6)
    first = ", ".join(f"the lowering of prims.op{number}.default" for number in range(3))
    assert found.part == f"{first} and the lowering of prims.op3.default"
