"""GD501's message holds what the backend raised, however torch and the exception lay out their text."""

from __future__ import annotations

from pathlib import Path

from graphdoctor.facts.recording import FailedCompile
from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.diagnosis.diagnose import diagnose
from tests.each import for_each
from tests.factories import compiled, entry, graph, recording

HINT = (
    "\n\nSet TORCHDYNAMO_VERBOSE=1 for the internal stack trace (please do this especially if you're reporting a bug)"
)
LOWERING = "InductorError: LoweringException: KeyError: 'x'\n  target: aten.foo.default"
BELOW = "InductorError: LoweringException: AssertionError: \n  target: aten.foo.default\n  args[0]: TensorBox()"
LONG = f"ValueError: {'no ' * 500}\nsecond line"


@for_each(
    "seen, failure, said",
    [
        ("ValueError: no\nmore", "unused", "the backend `eager` raised on graph 0/0: ValueError: no"),
        ("RuntimeError: \n\nno room\n  at all", "unused", "raised on graph 0/0: RuntimeError: no room"),
        ("AssertionError: ", "unused", "raised on graph 0/0: AssertionError"),
        (LONG, "unused", f"raised on graph 0/0: ValueError: {'no ' * 40}"),
        # A log that graphdoctor didn't record.
        (None, f"backend='inductor' raised:\n{LOWERING}{HINT}", "0/0: InductorError: LoweringException: KeyError: 'x'"),
        (None, f"backend='inductor' raised:\n{BELOW}{HINT}", "LoweringException: AssertionError: target: aten.foo"),
        (None, f"backend='bad' raised:\nAssertionError: {HINT}", "raised on graph 0/0: AssertionError"),
        (None, "", "raised on graph 0/0"),
    ],
)
def test_the_exception_is_in_the_message(seen: str | None, failure: str, said: str) -> None:
    failed = FailedCompile(type="BackendCompilerFailed", message=failure)
    stack = (entry(10, "def forward(self, x):"),)
    facts = recording(
        compiles=(compiled(outcome="failed", stack=stack).model_copy(update={"failure": failed}),),
        graphs=() if seen is None else (graph(error=seen),),
    )
    (found,) = (
        finding
        for finding in diagnose(facts, RULES, root=Path("/project"), version="0").findings
        if finding.code == "GD501"
    )
    assert said in found.message
    assert "TORCHDYNAMO_VERBOSE" not in found.message
    assert "\n" not in found.message
    assert len(found.message) < 300
