"""What ``fix`` says of trials that an earlier command made."""

from __future__ import annotations

from pathlib import Path

from graphdoctor.commands.fix import _said_before
from graphdoctor.facts.counts import Counts
from graphdoctor.facts.fixes import Treatment
from graphdoctor.fixes.kept import EarlierTrials
from graphdoctor.fixes.patch import SearchResult
from graphdoctor.trials.launch.unchanged import Change
from tests.each import for_each

RECORDING = Path("/project/.graphdoctor/20261122-1-model")
COUNTS = Counts(
    break_sites=1, skipped_frames=0, graphs=2, compiles=2, recompiles=0, frames_over_limit=0
)


@for_each(
    "age_s, says",
    [
        (0.2, "0 seconds"),
        (40.4, "40 seconds"),
        (600.0, "10 minutes"),
        (9000.0, "2 hours"),
        (260_000.0, "3 days"),
    ],
)
def test_what_is_taken_again_says_how_old_it_is(age_s: float, says: str) -> None:
    result = SearchResult(Treatment(tried=(), before=COUNTS))
    said = _said_before(EarlierTrials(RECORDING, age_s, result))
    assert (
        said
        == f"Tried {says} ago, and nothing changed since: 20261122-1-model (--again tries anew)."
    )


@for_each("change, why", [
        (Change("file", "{cwd}/pkg/data.csv"), "pkg/data.csv changed"),
        (Change("modules", "/env/lib/packages"), "modules were added to /env/lib/packages or removed from it"),
        (Change("variable", "TORCH_LOGS"), "the environment variable TORCH_LOGS changed"),
        (Change("interpreter", "/usr/bin/python3"), "it was with another interpreter"),
        (Change("folder", "/elsewhere"), "it was in /elsewhere"),
        (Change("options", "is_unsafe_tried,is_timed,inputs,no_grad"),
         "--unsafe-fixes, --no-timing, --input, --no-grad changed"),
        (Change("network"), "the program talks to a network, and may get something else now"),
        (Change("processes"), "the program forks processes, and what they read isn't known"),
        (Change("reads"), "what the program reads isn't known"),
        (None, "its recording changed"),
    ])  # fmt: skip
def test_what_is_tried_anew_says_why(change: Change | None, why: str) -> None:
    if change is not None:
        change = Change(change.kind, change.name.format(cwd=Path.cwd()))
    assert (
        _said_before(EarlierTrials(RECORDING, 40.0, change=change))
        == f"Rerunning the trials of 40 seconds ago: {why}."
    )
