"""What people read of recompiles at 80 and at 140 columns."""

from __future__ import annotations

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.recording import Recording
from graphdoctor.facts.trials import Remedy, TrialResult, UntriedChange, WhatIf
from graphdoctor.views.recompiles import recompiles_view
from tests.factories import change, compiled, diagnosed, entry, frame, recompiled, recording
from tests.views.outputs import on_terminal

STEP = change("value", "mode", "'a'", "'b'", source="L['mode']")
MARK = Remedy(
    name="mark_dynamic x 0",
    title="Mark the dim as dynamic before the call",
    snippet="torch._dynamo.mark_dynamic(x, 0)",
    kind="call",
    addresses=("x.shape[0]",),
    keeps_results=True,
)


def rendered(facts: Recording, width: int = 80, *, is_verbose: bool = False) -> str:
    return on_terminal(
        recompiles_view(diagnosed(facts)), width=width, is_verbose=is_verbose
    ).rstrip("\n")


def changing() -> Recording:
    above = (entry(3, "net(x)", function="main", qualname="main"), entry(10))
    return recording(
        frames=(frame(), frame(1, resumes_at=11)),
        compiles=(
            compiled(),
            recompiled(
                "0/1", STEP, change("value", "other", None, "2", source="L['other']"), stack=above
            ),
            recompiled("1/1", STEP, stack=above),
            recompiled("0/2", STEP, call=4, outcome="limit"),
        ),
    )


def row(remedies: tuple[Remedy, ...], compiles: int, *, limit: int, **more: Any) -> TrialResult:
    return TrialResult(
        **{"outputs": "equal", **more},
        remedies=remedies,
        compiles=compiles,
        frames_over_limit=limit,
    )


def tried() -> Recording:
    """What if: one remedy alone is enough."""
    rows = (
        row((MARK,), 2, limit=0, compile_s=0.5, calls_s=0.75),
        row((), 8, limit=1, compile_s=1.0, calls_s=1.5, steady_us=2345.0),
        row(
            (MARK, MARK),
            1,
            limit=0,
            outputs="different",
            largest_difference=0.25,
            where="call 3, value 1",
        ),
        TrialResult(
            remedies=(MARK,),
            compiles=None,
            outputs="not_compared",
            error="The program failed in call 1.",
        ),
    )
    what_if = WhatIf(
        results=rows,
        binding=("x.shape[0]",),
        frame_count=2,
        untried=(
            UntriedChange(
                expression="fn", reason="each call brings another object; the program must keep one"
            ),
        ),
        skipped_count=3,
    )
    return changing().replace(what_if=what_if)


def of_an_older_call() -> Recording:
    """Values that the entry was compiled for, and not those of the call before."""
    size = change(expression="x.shape[1]", old="6", new="9").replace(previous="1")
    unknown = change(expression="y.shape[0]", old="4", new="2").replace(previous=None)
    flag = change("flag", "is_even", "True", "False", line=None, source="L['is_even']")
    again = recompiled("0/1", size, unknown)
    return recording(
        compiles=(compiled(), again.replace(cause=again.cause.replace(also_changed=(flag, flag))))
    )


FORMS = {made.__name__: made for made in (changing, tried, of_an_older_call, recording)}


def test_of_several_causes_a_replay_is_next() -> None:
    again = (
        recompiled("0/1", STEP),
        recompiled("0/2", change("value", "other", None, "2", source="L['other']"), call=3),
    )
    facts = recording(compiles=(compiled(), *again))
    facts = facts.replace(target=facts.target.replace(text="model.py"))
    for known in (
        facts.replace(what_if=tried().what_if),
        facts.replace(compiles=facts.compiles[:2]),
    ):
        assert "--what-if shows" not in rendered(known)
        assert not rendered(known).endswith("--what-if")
    several = rendered(facts)
    assert "--what-if shows which fixes are enough, alone or together." in several
    assert several.endswith("Next: graphdoctor recompiles model.py --what-if")


@pytest.mark.parametrize("name", FORMS)
def test_recompiles_read_as_they_should(snapshot: SnapshotAssertion, name: str) -> None:
    assert rendered(FORMS[name](), 100) == snapshot


def test_a_long_list_is_cut_and_says_so() -> None:
    many = [
        recompiled(f"0/{n}", change("value", "mode", str(n), str(n + 1)), call=n + 1)
        for n in range(1, 100)
    ]
    facts = recording(frames=(frame(),), compiles=(compiled(), *many))
    assert "39 more recompiles (show with -v)" in rendered(facts)
    assert "0/99" in rendered(facts, is_verbose=True)
