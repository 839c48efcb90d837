"""What to do, and what it is worth, on hand-built findings."""

from __future__ import annotations

from typing import Any

from graphdoctor.facts.diagnosis import Cost, Finding
from graphdoctor.facts.fixes import Fix
from graphdoctor.facts.recording import BreakReason
from graphdoctor.rules.diagnosis.diagnose import by_cost
from graphdoctor.rules.toolkit import WITHIN_CALL
from graphdoctor.views.actions import actions, code_line, mends_text, saves_text
from graphdoctor.views.words import cost_text
from tests.each import for_each
from tests.factories import (
    PRINT,
    change,
    compiled,
    diagnosed,
    entry,
    frame,
    recompiled,
    record,
    recording,
)

SETTING = "torch.compiler.config.reorderable_logging_functions.add(print)"


def findings(*costs: Cost | None, **fix: Any) -> list[Finding]:
    """Breaks on lines of their own, mended by one setting, with what each costs."""
    facts = recording(
        breaks=tuple(record(entry(20 + at), compile_id=f"{at}/0") for at in range(len(costs))),
        compiles=tuple(compiled(f"{at}/0") for at in range(len(costs))),
        frames=tuple(frame(at, line=10 + at) for at in range(len(costs))),
    )
    found = diagnosed(facts).findings
    same = Fix(
        **{"title": "Let torch call print later", "kind": "config", "snippet": SETTING, **fix}
    )
    return [one.replace(cost=cost, fixes=(same,)) for one, cost in zip(found, costs, strict=True)]


def test_what_one_trial_saved_is_not_counted_for_each_finding() -> None:
    saved = Cost(call_us=101.0, call_from="fix", share=0.52)
    [action] = actions(findings(saved, saved, saved, verdict="verified"))
    assert action.call_us == 101.0
    assert mends_text(action) == "3 breaks"
    assert saves_text(action) == "101 µs per call"


@for_each(
    "costs, said",
    [
        ([Cost(call_us=us, call_from="gap") for us in (25.0, 23.0)], "gaps of 48 µs per call"),
        ([Cost(call_us=25.0, call_from="host_gap")], "host gaps of 25 µs per call"),
        # A fix that lengthens the call saves nothing.
        ([Cost(call_us=-12.0, call_from="fix")], "adds 12 µs per call"),
        # Compile time is what can be saved at most.
        ([Cost(compile_s=4.76)], "up to 4.8 s of compiling"),
        # What rounds to nothing isn't shown.
        ([Cost(call_us=-0.3, call_from="fix", compile_s=0.004)], ""),
    ],
)
def test_what_an_action_saves_is_said_by_its_source(costs: list[Cost], said: str) -> None:
    [action] = actions(findings(*costs))
    assert saves_text(action) == said


def test_a_cost_that_rounds_to_nothing_is_left_out() -> None:
    assert cost_text(Cost(call_us=-0.3, call_from="fix", share=-0.001)) == ""
    assert cost_text(Cost(call_us=0.3, call_from="gap", compile_s=0.002)) == ""
    assert cost_text(Cost(call_us=0.3, call_from="gap", compile_s=1.5)) == "1.50 s compiling"


def test_gap_of_one_line_is_counted_once() -> None:
    [first, second] = findings(
        Cost(call_us=17.0, call_from="gap", share=1.0),
        Cost(call_us=17.0, call_from="gap", share=1.0),
    )
    [action] = actions([first, second.replace(code="GD111", location=first.location)])
    assert action.call_us == 17.0


def test_only_standalone_lines_are_shown_as_code() -> None:
    assert code_line(actions(findings(None))[0]) == SETTING
    assert code_line(actions(findings(None, kind="code"))[0]) is None
    assert code_line(actions(findings(None, snippet="a = 1\nb = 2"))[0]) is None


def two_values() -> list[Finding]:
    """Recompiles by a size in three compiles, and by a number in the last of them too."""
    known = recording(
        compiles=(
            compiled(),
            recompiled("0/1", change()),
            recompiled("0/2", change(), call=3),
            recompiled("0/3", change(), change("number", "n", "3", "5", source="L['n']"), call=4),
        ),
    )  # fmt: skip
    return list(diagnosed(known).findings)


def test_a_recompile_that_two_values_caused_is_counted_once() -> None:
    found = [finding for finding in two_values() if finding.compile_ids]
    assert len({finding.code for finding in found}) == 2
    assert set(found[0].compile_ids) & set(found[1].compile_ids) == {"0/3"}
    one, other = (
        finding.replace(fixes=(Fix(title=f"Fix {number}", kind="call"),))
        for number, finding in enumerate(sorted(found, key=lambda each: -len(each.compile_ids)))
    )
    assert [mends_text(action) for action in actions([one, other])] == [
        "3 recompiles",
        "1 recompile, counted above",
    ]
    both = other.replace(compile_ids=("0/3", "0/4"))
    assert [mends_text(action) for action in actions([one, both])] == [
        "3 recompiles",
        "2 recompiles, 1 counted above",
    ]


def test_break_comes_before_advice_to_fix_it_first() -> None:
    """A value that changes in the turns of a loop, up to the limit, and a break that costs little
    by itself."""
    counter = change("number", "i", source="L['i']")
    facts = recording(
        breaks=(record(entry(20)),),
        frames=(frame(), frame(1, line=4)),
        compiles=(
            compiled(),
            compiled("1/0"),
            *(recompiled(f"1/{count}", counter, call=1) for count in range(1, 8)),
            recompiled("1/8", counter, call=1, outcome="limit"),
        ),
    )
    found = diagnosed(facts).findings
    assert {one.code for one in found} >= {"GD101", "GD201", "GD203"}
    assert [one.code for one in found if one.is_consequence] == ["GD203"]
    todo = actions(found)
    assert [{one.code for one in action.findings} for action in todo] == [
        {"GD101"},
        {"GD203", "GD201"},
    ]
    assert todo[1].fix is not None and todo[1].fix.title == WITHIN_CALL.title


def test_what_only_makes_the_skipped_function_smaller_mends_no_break() -> None:
    [found] = findings(None)
    fix = Fix(title="Move the `for` into a function", kind="code")
    skip = found.replace(code="GD111", fixes=(fix,))
    assert [mends_text(action) for action in actions([found.replace(fixes=()), skip])] == [
        "1 skipped function"
    ]
    assert [mends_text(action) for action in actions([found, skip])] == ["1 break"]
    assert [mends_text(action) for action in actions([found.replace(fixes=(fix,)), skip])] == [
        "1 break"
    ]


def test_a_first_compile_is_no_recompile() -> None:
    [one, *_] = [finding for finding in two_values() if finding.code == "GD202"]
    assert mends_text(actions([one.replace(compile_ids=("0/0", "0/1"))])[0]) == "1 recompile"


def prints(reason: BreakReason) -> list[Finding]:
    facts = recording(
        breaks=tuple(
            record(entry(20 + at, f"print({at})"), compile_id=f"{at}/0", chain=(reason,))
            for at in range(3)
        ),
        compiles=tuple(compiled(f"{at}/0") for at in range(3)),
        frames=tuple(frame(at, line=10 + at) for at in range(3)),
    )
    return list(diagnosed(facts).findings)


def test_one_setting_for_several_breaks_is_one_thing_to_do() -> None:
    [action] = actions(prints(PRINT))
    assert (code_line(action), mends_text(action)) == (SETTING, "3 breaks")


def test_a_setting_that_drops_all_output_is_not_preferred() -> None:
    context = "builtin print [<class 'torch._dynamo.variables.lists.SizeVariable'>] False"
    found = actions(prints(PRINT.replace(context=context)))
    assert len(found) == 3
    assert all(action.fix is not None and action.fix.title.startswith("Skip ") for action in found)


def test_what_keeps_the_text_is_suggested_first() -> None:
    [alone] = diagnosed(recording(breaks=(record(entry(20), chain=(PRINT,)),))).findings
    assert [(fix.setting is not None, fix.is_safe) for fix in alone.fixes] == [
        (True, True),
        (False, False),
    ]


def test_what_compiles_without_end_comes_before_what_costs_more() -> None:
    costly, other = findings(Cost(compile_s=9.0), Cost(compile_s=1.0))
    endless = other.replace(is_unsettling=True, fixes=(other.fixes[0].replace(snippet="b"),))
    assert [action.findings for action in actions([costly, endless])] == [[endless], [costly]]
    # What stopped a call is no matter of cost.
    stopping = costly.replace(code="GD901", cost=None, fixes=(other.fixes[0].replace(snippet="c"),))
    assert [action.findings for action in actions([endless, stopping])] == [[stopping], [endless]]
    assert sorted([endless, stopping], key=by_cost) == [stopping, endless]


def test_a_limit_is_left_to_what_reached_it() -> None:
    one, number = sorted(
        (each for each in two_values() if each.changes), key=lambda each: each.code
    )
    fixes = (
        Fix(title="See its finding", kind="call"),
        Fix(title="Raise it", kind="config", snippet="limit = 64"),
    )
    limit = number.replace(
        code="GD201", severity="error", compile_ids=("0/4",), fingerprint="limit", fixes=fixes
    )
    codes = [[each.code for each in action.findings] for action in actions([limit, one, number])]
    assert codes == [["GD203", "GD201"], ["GD202"]]
    assert [action.findings for action in actions([limit])] == [[limit]]
    raised = limit.replace(fixes=(fixes[0], fixes[1].replace(verdict="verified")))
    assert [action.findings for action in actions([raised, number])] == [[raised], [number]]
