"""What people read of fixes that were tried, at 80 and at 140 columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.counts import Counts
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.fixes import LeftFinding, PairedTime, Treatment, TriedFix
from graphdoctor.facts.kernels import CudaGraphs, CudaGraphSkip
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.trials import Comparison, Difference, MissingLines
from graphdoctor.views.fixes import fixes_view, outcome
from graphdoctor.views.markdown_text import MAX_CHARACTERS, render_view_markdown
from graphdoctor.views.reasons import left_text
from tests.each import for_each
from tests.factories import (
    LOOP,
    PRINT,
    compiled,
    diagnosed,
    entry,
    frame,
    graph,
    message,
    record,
    recording,
)
from tests.views.outputs import on_terminal

BEFORE = Counts(
    break_sites=3,
    skipped_frames=1,
    graphs=2,
    compiles=2,
    recompiles=1,
    frames_over_limit=0,
    coverage=0.62,
)
AFTER = BEFORE.replace(break_sites=1, skipped_frames=0, recompiles=0, coverage=0.97)
GUARD = """\
--- a/model.py
+++ b/model.py
@@ -11,4 +11,5 @@
         y = self.body(x)
-        print("x", y.shape)
+        if not torch.compiler.is_compiling():
+            print("x", y.shape)
         return y
"""
COMPARED = Comparison(kinds=("outputs", "gradients", "state", "stdout"), differences=())


def facts(*lines: int) -> Recording:
    """A break at each line."""
    return recording(
        breaks=tuple(
            record(
                entry(line, f'print("line {line}", y.shape)', columns=(9, 15)),
                compile_id=f"{number}/0",
            )
            for number, line in enumerate(lines)
        ),
        frames=(
            frame(),
            *(frame(number, resumes_at=line) for number, line in enumerate(lines, start=1)),
        ),
        compiles=tuple(compiled(f"{number}/0") for number in range(len(lines) + 1)),
        graphs=tuple(graph(f"{number}/0", index=number) for number in range(len(lines) + 1)),
    )


def findings(known: Recording) -> dict[int, Any]:
    return {finding.location.line: finding for finding in diagnosed(known).findings}


def tried(known: Recording, line: int, **values: Any) -> TriedFix:
    """A fix for the break at a line; one that no recording knows has a fingerprint of its own."""
    finding = findings(known).get(line)
    told: dict[str, Any] = {
        "title": "Skip `print(…)` while compiling", "kind": "code", "is_safe": True, "code": "GD101",
        "fingerprint": finding.fingerprint if finding else "elsewhere", "finding_place": f"model.py:{line}", "round": 1,
        "is_on_untouched": finding is not None, "verdict": "not tried",
    }  # fmt: skip
    return TriedFix(**{**told, **values})


def times(backend: str, before_us: float, ratio: float) -> PairedTime:
    return PairedTime(
        backend=backend, before_us=before_us, after_us=before_us * ratio, ratio=ratio, ratio_low=ratio - 0.04,
        ratio_high=ratio + 0.05, turns=21,
    )  # fmt: skip


def treated(known: Recording, treatment: Treatment | None) -> Diagnosis:
    return diagnosed(known, treatment=treatment)


def rendered(
    known: Recording,
    treatment: Treatment | None = None,
    *,
    width: int = 80,
    is_verbose: bool = False,
) -> str:
    return on_terminal(
        fixes_view(treated(known, treatment)), width=width, is_verbose=is_verbose
    ).rstrip("\n")


def words(text: str) -> str:
    return " ".join(text.split())


def every_verdict() -> tuple[Recording, Treatment]:
    known = facts(12, 15, 18, 21, 24, 27)
    fixes = (
        tried(known, 12, verdict="verified", diff=GUARD, is_applied=True, reasons=message("drops 4 printed lines ('x (4, 8)') while compiling")),
        tried(known, 15, verdict="no effect", diff=GUARD, reasons=message("the break is still there")),
        tried(known, 18, verdict="changes results", title="Keep the tensor that `x.item()` reads and let gradients flow through it", diff=GUARD, reasons=message("gradient of x in call 1 differs by 0.312"), is_safe=False),
        tried(known, 21, verdict="failed", diff=GUARD, reasons=message("The program failed in call 1: NameError: name 'torch' is not defined")),
        tried(known, 24, verdict="unproven", diff=GUARD, reasons=message("outputs differ from run to run without torch.compile")),
        tried(known, 27, verdict="not tried", diff=GUARD, is_safe=False, untried_cause="unsafe"),
    )  # fmt: skip
    left = tuple(
        LeftFinding(
            code="GD101", place=fix.finding_place, message="`print` cannot be traced",
            title=fix.title, verdict=fix.verdict, reasons=fix.reasons, untried_cause=fix.untried_cause,
        )
        for fix in fixes[1:]
    )  # fmt: skip
    differences = (
        Difference(
            kind="stdout",
            where="printed text",
            largest=None,
            lines=MissingLines(count=3, reference_count=4, first="'x'"),
            change="fewer",
        ),
        Difference(kind="state", where="took after the calls", value="0.2", reference="0.1"),
        Difference(kind="state", where="took after the calls", largest=0.12345),
    )
    compared = COMPARED.replace(differences=differences)
    return known, Treatment(
        tried=fixes, before=BEFORE, after=AFTER, diff=GUARD, compared=compared, gone=(fixes[0].fingerprint,), left=left,
        trial_count=8,
    )  # fmt: skip


def test_verbose_shows_whole_diffs(snapshot: SnapshotAssertion) -> None:
    assert rendered(*every_verdict(), width=100, is_verbose=True) == snapshot


def peeled() -> tuple[Recording, Treatment]:
    known = facts(12)
    fixes = (
        tried(known, 12, verdict="verified", diff=GUARD, is_applied=True),
        tried(known, 19, verdict="no effect", round=2, title="Check in the graph", reasons=message("the break is still there")),
        tried(known, 19, verdict="verified", round=2, code="GD102", title="Choose `x` with `torch.where`", diff=GUARD.replace("print", "where"), is_applied=True),
        tried(known, 33, verdict="verified", round=3, code="GD103", kind="config", title="Let torch keep numbers read from tensors", snippet="torch._dynamo.config.capture_scalar_outputs = True", is_applied=True, reasons=message("the break stays, but coverage goes from 71% to 97%")),
    )  # fmt: skip
    return known, Treatment(
        tried=fixes, before=BEFORE, after=AFTER, diff=GUARD, compared=COMPARED, gone=(fixes[0].fingerprint,),
        settings=("torch._dynamo.config.capture_scalar_outputs = True",),
        calls=("torch._dynamo.mark_dynamic(x, 0)\ntorch._dynamo.mark_dynamic(y, 1)",),
        times=(times("eager", 310, 0.66), times("inductor", 2410.0, 0.9)),
        left=(LeftFinding(code="GD103", place="model.py:33", message="`.item()` breaks the graph", declined="its result is used", title="Let torch keep numbers read from tensors", verdict="verified", reasons=message("the break stays, but coverage goes from 71% to 97%")),),
        trial_count=9, notes=message("only the first 6 fixes are timed by themselves"),
    )  # fmt: skip


def suggested() -> tuple[Recording, Treatment]:
    known = facts(12, 15)
    fixes = (
        tried(known, 12, diff=GUARD, untried_cause="not_requested"),
        tried(known, 15, diff=GUARD, untried_cause="not_requested"),
        tried(known, 15, kind="config", title="Let torch call `print` after the graph has run", snippet="torch._dynamo.config.reorderable_logging_functions.add(print)", untried_cause="not_requested"),
    )  # fmt: skip
    return known, Treatment(tried=fixes, before=BEFORE, diff=GUARD)


def skipping() -> tuple[Recording, Treatment]:
    """A break and the function that it makes torch skip, with one fix for both."""
    known = recording(
        breaks=(record(entry(14), effect="frame_skipped", chain=(PRINT, LOOP)),),
        compiles=(compiled(outcome="skipped"),), graphs=(),
    )  # fmt: skip
    first, second = sorted(diagnosed(known).findings, key=lambda finding: finding.code)
    fixes = (
        tried(
            known,
            14,
            verdict="verified",
            diff=GUARD,
            is_applied=True,
            fingerprint=first.fingerprint,
        ),
    )
    treatment = Treatment(
        tried=fixes, before=BEFORE, after=AFTER, diff=GUARD, compared=COMPARED,
        gone=(first.fingerprint, second.fingerprint), trial_count=4,
    )  # fmt: skip
    return known, treatment


def following() -> tuple[Recording, Treatment]:
    """Two breaks, of which the second went with the first."""
    known = facts(12, 15)
    found = findings(known)
    fixes = (
        tried(
            known,
            12,
            verdict="verified",
            diff=GUARD,
            is_applied=True,
            sites_gone=(found[12].site, found[15].site),
        ),
    )
    gone = (found[12].fingerprint, found[15].fingerprint)
    return known, Treatment(
        tried=fixes, before=BEFORE, after=AFTER, diff=GUARD, compared=COMPARED, gone=gone
    )


def shared() -> tuple[Recording, Treatment]:
    """One setting for two lines, and an edit for the line between them."""
    known = facts(12, 15, 18)
    setting: dict[str, Any] = {
        "kind": "config",
        "title": "Let torch call `print` after the graph has run",
    }
    setting |= {
        "snippet": "torch.compiler.config.reorderable_logging_functions.add(print)",
        "verdict": "verified",
    }
    fixes = (
        tried(known, 12, **setting, is_applied=True),
        tried(known, 15, verdict="verified", diff=GUARD, is_applied=True),
        tried(known, 18, **setting, is_applied=True),
    )
    gone = tuple(found.fingerprint for found in findings(known).values())
    return known, Treatment(
        tried=fixes, before=BEFORE, after=AFTER, diff=GUARD, compared=COMPARED, gone=gone
    )


FORMS: dict[str, Callable[[], tuple[Recording, Treatment | None]]] = {
    **{
        made.__name__: made
        for made in (every_verdict, peeled, suggested, skipping, following, shared)
    },
    "nothing": lambda: (recording(), None),
}


def test_ended_run_does_not_show_nothing_to_fix() -> None:
    told = rendered(recording().replace(is_partial=True))
    assert "Nothing to fix" not in told
    assert "No fixes were tried: the run ended before torch broke or recompiled." in words(told)


def test_untried_fix_is_not_reported_as_missing() -> None:
    skipped = CudaGraphSkip(kind="no_device", reason="no CUDA device")
    told = words(
        rendered(recording().replace(cuda_graphs=CudaGraphs(captured=0, skipped=(skipped,))))
    )
    assert (
        "Nothing to fix: no graph breaks and no recompiles; nothing can be tried for 1 other finding."
        in told
    )


@pytest.mark.parametrize("name", FORMS)
def test_fixes_read_as_they_should(snapshot: SnapshotAssertion, name: str) -> None:
    assert rendered(*FORMS[name]()) == snapshot


def markdown(known: Recording, treatment: Treatment | None) -> str:
    return render_view_markdown(fixes_view(treated(known, treatment)))


def test_markdown_without_trials_and_with_too_many() -> None:
    known, treatment = peeled()
    assert markdown(known, None).endswith(
        "\n\n**No fixes were tried.**\n\nNext: `graphdoctor fix model.py`\n"
    )
    text = markdown(known, treatment.replace(left=treatment.left * 2000))
    assert len(text) <= MAX_CHARACTERS
    assert "left out to keep the comment short enough" in text


def test_nobody_is_told_how_to_write_what_is_being_written() -> None:
    known, treatment = peeled()
    shown = on_terminal(fixes_view(treated(known, treatment), is_written=True), width=200)
    assert "--apply" not in shown
    *_, said, _, then = shown.splitlines()
    assert (said, then) == (outcome(treatment, known.target), "Next: graphdoctor bench model.py")


SETTING = "torch._dynamo.config.nested_graph_breaks = True"
APPLIED = {"verdict": "verified", "is_applied": True}
ONE_SETTING = [{"line": line, "title": "Nest", "snippet": SETTING, **APPLIED} for line in (12, 15)]
IN_TWO_ROUNDS = (
    {"line": 12, "diff": GUARD.replace("-11", "-8"), **APPLIED},
    {"line": 15, "diff": GUARD, "verdict": "verified"},
    {"line": 15, "diff": GUARD, "round": 2, "is_on_untouched": False, **APPLIED},
)
NO_EDIT = LeftFinding(
    code="GD101", place="model.py:12", message="broken", declined="its result is used"
)


@for_each(
    "fixes, left, says",
    [
        # One setting for several findings, and a fix that was tried in two rounds, are one fix
        # each.
        (ONE_SETTING, (), "1 fix tried (1 worked)."),
        (IN_TWO_ROUNDS, (), "2 fixes tried (2 worked)."),
        # Nothing that could be tried isn't called a suggestion, nor are unsafe ones alone, without
        # a reason.
        ((), (NO_EDIT,), "No fix is known."),
        (
            [{"line": 12, "is_safe": False, "diff": GUARD, "untried_cause": "unsafe"}],
            (),
            "1 fix changes behavior in ways you should check: add --unsafe-fixes.",
        ),
    ],
)
def test_the_headline_counts_each_fix_once(
    fixes: Any, left: tuple[LeftFinding, ...], says: str
) -> None:
    known = facts(12, 15)
    tries = tuple(tried(known, **{"kind": "config", **fix}) for fix in fixes)
    after = AFTER if any(fix.is_applied for fix in tries) else None
    text = words(rendered(known, Treatment(tried=tries, before=BEFORE, after=after, left=left)))
    assert says in text
    assert "Suggested" not in text


def test_what_has_no_edit_names_what_to_do_by_hand():
    left = LeftFinding(code="GD218", place="model.py:3", message="it grows")
    assert left_text(left) == "no fix is known"
    suggested = left.replace(suggestions=("Return the value", "Keep the last few"))
    assert left_text(suggested).endswith("By hand: Return the value")
    assert "By hand" not in left_text(suggested.replace(declined="the result is used"))
