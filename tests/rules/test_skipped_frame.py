"""GD111: advice for a function that torch skips because of a break in a package."""

from __future__ import annotations

from pathlib import Path

from graphdoctor.facts.recording import BreakReason, Enclosing, SourceContext
from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.diagnosis.diagnose import diagnose
from tests.factories import FILE, entry, record, recording

IN_PACKAGE = entry(
    11,
    "open(p)",
    file="/site-packages/slowlib/core.py",
    function="forward",
    qualname="Smoother.forward",
    origin="third_party",
    package="slowlib",
)
LOOP = Enclosing(kind="for", line=15, text="for block in self.blocks:")
CALL = "Call `Smoother.forward` of slowlib outside the compiled function, or under torch.compiler.disable"


def titles(*blocks: Enclosing) -> list[str]:
    reason = BreakReason(gb_type="graph break in loop", torch_id="GB7000", explanation="Why.")
    broken = record(entry(16, "x = block(x)"), IN_PACKAGE, effect="frame_skipped", chain=(reason,))
    source = SourceContext(
        file=FILE, line=16, qualname="Net.forward", function_line=13, statement="x = block(x)", enclosing=blocks
    )
    facts = recording(breaks=(broken,), sources=(source,))
    found = diagnose(facts, RULES, root=Path("/project"), version="0").findings
    return [fix.title for finding in found if finding.code == "GD111" for fix in finding.fixes]


def test_advice_names_the_function_of_the_package() -> None:
    assert titles() == [CALL]


def test_a_loop_of_the_users_own_can_be_moved() -> None:
    assert titles(LOOP) == ["Move the `for` on line 15 into a function, so that torch skips only that", CALL]
