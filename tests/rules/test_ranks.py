"""GD209: ranks that compiled a function unequally often."""

from __future__ import annotations

from pathlib import Path

from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.recording import Compile, Frame
from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.diagnosis.diagnose import diagnose
from tests.factories import change, compiled, frame, recompiled, recording


def of_rank(compile_: Compile, rank: int) -> Compile:
    """The compile as the reader names that of another rank."""
    update = {"compile_id": f"rank{rank}:{compile_.compile_id}", "process": f"rank{rank}", "frame_id": 10 * rank}
    return compile_.model_copy(update=update)


def findings(*compiles: Compile, ranks: int = 2) -> list[Finding]:
    frames: list[Frame] = [frame()]
    frames += [frame(10 * rank).model_copy(update={"process": f"rank{rank}"}) for rank in range(1, ranks)]
    facts = recording(frames=tuple(frames), compiles=compiles)
    found = diagnose(facts, RULES, root=Path("/project"), version="0").findings
    return [finding for finding in found if finding.code == "GD209"]


def test_a_rank_that_compiles_more_often_is_told_with_the_counts() -> None:
    again = of_rank(recompiled("0/1", change()), 1)
    (finding,) = findings(compiled(), of_rank(compiled(), 1), again)
    assert "rank0 1, rank1 2" in finding.message
    assert finding.compile_ids == ("rank1:0/0", "rank1:0/1")
    # A rank that compiles alone would wait for the others in a compiler collective.
    assert finding.fixes[0].snippet == "dynamic=True"
    assert [fix.setting for fix in finding.fixes] == [None, None]


def test_a_rank_that_never_compiled_the_function_counts_as_none() -> None:
    other = of_rank(compiled(), 1).model_copy(update={"frame_id": 11})
    elsewhere = frame(11, function="other").model_copy(update={"process": "rank1", "line": 99})
    facts = recording(frames=(frame(), elsewhere), compiles=(compiled(), other))
    found = diagnose(facts, RULES, root=Path("/project"), version="0").findings
    assert sum(finding.code == "GD209" for finding in found) == 2


def test_ranks_that_agree_are_no_finding() -> None:
    assert findings(compiled(), of_rank(compiled(), 1)) == []


def test_processes_that_are_no_ranks_are_no_finding() -> None:
    child = compiled().model_copy(update={"compile_id": "p2:0/0", "process": "p2", "frame_id": 10})
    assert findings(compiled(), child, child.model_copy(update={"compile_id": "p2:0/1"})) == []
