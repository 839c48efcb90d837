"""Whether a program stops compiling, on hand-built recordings."""

from __future__ import annotations

from pathlib import Path

from graphdoctor.facts.counts import Steadiness
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.recording import Call, Compile, CompileOutcome, Settling
from graphdoctor.facts.watch import CallWatch, WatchedFunction
from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.diagnosis.diagnose import diagnose
from graphdoctor.views.actions import actions
from graphdoctor.views.report import compiles_text
from graphdoctor.views.words import sentence
from tests.each import for_each
from tests.factories import change, compiled, frame, recompiled, recording

FORWARD = frame()


def again(number: int, *values: str, call: int | None = None, outcome: CompileOutcome = "compiled") -> Compile:
    """The frame's recompile of this number, because values differ; of a repetition unless the call is named."""
    changes = (change("module_number", value, "1", "2") for value in values)
    return recompiled(f"0/{number}", *changes, call=call, outcome=outcome)


def called(*counts: int) -> tuple[Call, ...]:
    return tuple(Call(index=index, outcome="ok", compile_count=count) for index, count in enumerate(counts, start=1))


def diagnosed(*compiles: Compile, calls: tuple[Call, ...], settling: Settling | None = None) -> Diagnosis:
    found = recording(compiles=compiles, calls=calls, coverage=None).model_copy(update={"settling": settling})
    return diagnose(found, RULES, root=Path("/project"), version="1")


def steadiness(diagnosis: Diagnosis) -> Steadiness:
    assert diagnosis.summary.steadiness is not None
    return diagnosis.summary.steadiness


NEVER = Settling(
    compiles=(1, 1, 0),
    is_over_limit=True,
    recompiles=(
        again(2, "self.seen", "self.other"),
        again(3, "self.seen"),
        again(4, "self.seen", outcome="limit"),
    ),
    frames=(FORWARD,),
)


def test_a_call_that_is_quiet_when_repeated_has_settled() -> None:
    found = diagnosed(compiled(), calls=called(1), settling=Settling(compiles=(0,)))
    assert steadiness(found).state == "settled"
    assert compiles_text(steadiness(found)) is None


def test_a_call_that_settles_late_shows_its_compiles() -> None:
    found = diagnosed(compiled(), calls=called(1), settling=Settling(compiles=(1, 1, 0)))
    assert steadiness(found).state == "settled"
    assert compiles_text(steadiness(found)) == "compiles per call 1; repeating the last one 1, 1, 0"


def test_one_call_that_was_not_repeated_tells_nothing() -> None:
    assert steadiness(diagnosed(compiled(), calls=called(1))).state is None


def test_the_last_call_compiled_something_but_not_again() -> None:
    compiles = (compiled(), again(1, "self.n", call=2))
    found = diagnosed(*compiles, calls=called(1, 1), settling=Settling(compiles=(0,)))
    assert steadiness(found).state == "compiling"
    assert compiles_text(steadiness(found)) == "compiles per call 1, 1; repeating the last one 0"


def test_what_differs_in_every_recompile_never_settles() -> None:
    compiles = (compiled(), again(1, "self.seen", call=2))
    found = diagnosed(*compiles, calls=called(1, 1), settling=NEVER)
    assert steadiness(found).state == "never"
    assert steadiness(found).changing == ("self.seen",)
    assert steadiness(found).compiles_to_limit == 4
    text, tone = sentence(found)
    assert text == "Never settles: `self.seen` differs in every call, and `Net.forward` runs eagerly after 4 compiles."
    assert tone == "bad"
    (finding,) = [finding for finding in found.findings if finding.code == "GD217"]
    assert finding.count == 3
    assert found.summary.recompiles == 1


def test_a_value_that_is_new_each_time_counts_where_another_alternates_with_it() -> None:
    seen = [change("module_number", "self.seen", str(old), str(old + 1)) for old in range(2)]
    grad = change("requires_grad", "x.requires_grad", "False", "True")
    recompiles = tuple(
        recompiled(f"0/{at}", found, call=None) for at, found in enumerate((seen[0], grad, seen[1], grad))
    )
    settling = Settling(compiles=(2, 2), recompiles=recompiles, frames=(FORWARD,))
    assert steadiness(diagnosed(compiled(), calls=called(1), settling=settling)).changing == ("self.seen",)


def test_a_call_that_keeps_recompiling_short_of_the_limit_never_settles() -> None:
    settling = Settling(compiles=(1, 1), recompiles=(again(1, "self.seen"),), frames=(FORWARD,))
    found = diagnosed(compiled(), calls=called(1), settling=settling)
    text, _ = sentence(found)
    assert text == "Never settles: `self.seen` differs in every call, and `Net.forward` recompiles each time."


def test_torch_may_not_say_what_differs() -> None:
    settling = Settling(compiles=(1, 1, 1))
    found = diagnosed(compiled(), calls=called(1), settling=settling)
    text, _ = sentence(found)
    assert text == "Never settles: a function recompiles each time."
    assert "GD217" not in {finding.code for finding in found.findings}


def test_calls_that_hit_the_limit_say_in_which_call() -> None:
    compiles = (
        compiled(),
        again(1, "self.seen", call=2),
        again(2, "self.seen", call=3, outcome="limit"),
    )
    found = diagnosed(*compiles, calls=called(1, 1, 0), settling=Settling(compiles=(0,)))
    assert steadiness(found).state == "over_limit"
    assert (steadiness(found).limit_call, steadiness(found).compiles_to_limit) == (3, 2)
    text, _ = sentence(found)
    assert text == (
        "Over the recompile limit from call 3 on: `self.seen` differs in every call, and torch stopped compiling "
        "`Net.forward` after 2 compiles."
    )
    assert found.summary.recompiles == 2


@for_each("outcome", ["skipped", "failed", "empty"])
def test_a_recompile_counts_however_it_ends(outcome: CompileOutcome) -> None:
    found = diagnosed(compiled(), again(1, "self.n", call=2, outcome=outcome), calls=called(1, 0))
    assert found.summary.recompiles == 1
    assert [report.compile_ids for report in found.recompiles] == [("0/1",)]


def test_a_program_that_makes_its_own_calls_is_not_judged() -> None:
    assert diagnosed(compiled(), calls=()).summary.steadiness is None


def test_what_has_no_known_fix_comes_last_of_what_to_do() -> None:
    settling = Settling(
        compiles=(1, 1), recompiles=(recompiled("0/1", change("keys", "the keys of d"), call=None),), frames=(FORWARD,)
    )
    found = diagnosed(compiled(), again(1, "self.n", call=2), calls=called(1, 1), settling=settling)
    assert [finding.code for finding in found.findings] == ["GD217", "GD205"]
    assert [action.fix is None for action in actions(found.findings)] == [False, True]


def script_steadiness(*functions: WatchedFunction, limited: bool = False) -> Steadiness:
    compiles = (compiled(), *((again(1, "self.n", outcome="limit"),) if limited else ()))
    found = recording(compiles=compiles, calls=(), coverage=None)
    found = found.model_copy(update={"watch": CallWatch(functions=functions, cost_s=0.0)})
    return steadiness(diagnose(found, RULES, root=Path("/project"), version="1"))


def function(calls: int | None, last_compile: int | None, in_a_row: int = 1) -> WatchedFunction:
    return WatchedFunction(
        compiled="f", calls=calls, watched_calls=0, last_compile=last_compile, compiling_calls=in_a_row
    )


@for_each(
    "functions, state",
    [
        ((function(40, 1), function(2, None)), "settled"),
        ((function(40, 1), function(1, 1)), None),
        ((function(2, 2, 2),), None),
        ((function(40, 40, 2),), None),
        ((function(40, 40, 3),), "compiling"),
        ((function(40, 39, 39),), "settled"),
        ((function(None, 1),), None),
    ],
)
def test_a_script_is_judged_only_by_what_is_certain(functions: tuple[WatchedFunction, ...], state: str | None) -> None:
    found = script_steadiness(*functions)
    assert found.state == state
    assert compiles_text(found) == ("the last 3 calls of `f` all compiled" if state == "compiling" else None)


def test_a_script_with_a_function_over_its_limit_is_over_it() -> None:
    found = script_steadiness(function(40, 9, 9), limited=True)
    assert (found.state, found.function, found.changing) == ("over_limit", "Net.forward", ("self.n",))
