"""What GD207 suggests for a condition on a size, and on a number that torch made dynamic."""

from __future__ import annotations

from pathlib import Path

from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.diagnosis.diagnose import diagnose
from tests.each import for_each
from tests.factories import change, compiled, frame, recompiled, recording


@for_each("condition, what", [("(x.shape[0] % 2) == 0", "sizes"), ("(1.0 + ((-1)*self.p)) == 0.9", "values")])
def test_one_version_is_for_what_the_condition_is_about(condition: str, what: str) -> None:
    differing = change("relation", condition, None, None)
    facts = recording(compiles=(compiled("0/0"), recompiled("0/1", differing)), frames=(frame(),))
    [finding] = [
        found for found in diagnose(facts, RULES, root=Path("/project"), version="0").findings if found.code == "GD207"
    ]
    assert finding.fixes[0].title == f"Write the code on line 12 so that one version holds for all {what}"
