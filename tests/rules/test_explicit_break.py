"""GD107 says whose call breaks the graph: the user's own, under any name, or a library's."""

from __future__ import annotations

from graphdoctor.facts.diagnosis import Effects
from graphdoctor.facts.recording import BreakReason
from graphdoctor.facts.stack import StackEntry
from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.diagnosis.rule import BreakSite
from tests.each import for_each
from tests.factories import entry, record

BREAK = BreakReason(gb_type="Call to `torch._dynamo.graph_break()`", torch_id="GB0025", explanation="User-inserted.")
SKIP = BreakReason(gb_type="Call to `torch._dynamo.skip_frame()`", torch_id="GB4297", explanation="User-inserted.")
IN_LIBRARY = {"file": "/lib/site-packages/lib/work.py", "origin": "third_party", "package": "lib"}
IN_TORCH = {"file": "/lib/site-packages/torch/other.py", "origin": "torch", "package": "torch"}


@for_each(
    "stack, reason, said, is_fixed",
    [
        ((entry(8, "torch._dynamo.graph_break()"),), BREAK, "`torch._dynamo.graph_break()` breaks the graph", True),
        ((entry(8, "stop()"),), BREAK, "`stop()` breaks the graph", True),
        ((entry(8, "dyn.skip_frame('why')"),), SKIP, "`dyn.skip_frame()` skips the function", True),
        ((entry(8, ".graph_break())"),), BREAK, "`graph_break()` breaks the graph", True),
        (
            (entry(8, "y = work(x)"), entry(3, "torch._dynamo.graph_break()", **IN_LIBRARY)),
            BREAK,
            "`lib` breaks the graph on purpose, by `torch._dynamo.graph_break()`",
            False,
        ),
        (
            (entry(8, "y = apply(x)"), entry(9, "torch._dynamo.graph_break()", **IN_TORCH)),
            BREAK,
            "`apply()` breaks the graph on purpose, in torch",
            False,
        ),
    ],
)
def test_whose_call_it_is(stack: tuple[StackEntry, ...], reason: BreakReason, said: str, is_fixed: bool) -> None:
    own = [one for one in stack if one.origin in ("user", "third_party")]
    site = BreakSite(entry=own[-1], records=(record(*stack, chain=(reason,)),), effects=Effects())
    rule = next(rule for rule in RULES.breaks if rule.matches(site))
    assert rule.code == "GD107"
    assert rule.message(site).startswith(said)
    assert "on purpose" in rule.message(site)
    assert bool(rule.fixes(site)) is is_fixed
