"""What to do, and what it is worth, on hand-built findings."""

from __future__ import annotations

from typing import Any

from graphdoctor.facts.diagnosis import Cost, Finding
from graphdoctor.facts.fixes import Fix
from graphdoctor.facts.recording import BreakReason
from graphdoctor.rules.diagnosis.diagnose import by_cost
from graphdoctor.rules.toolkit import WITHIN_CALL
from graphdoctor.views.actions import about_text, actions, code_line, per_call_text, todo_section
from graphdoctor.views.parts import Table
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


@for_each(
    "costs, said",
    [
        ([Cost(call_us=us, call_from="gap") for us in (25.0, 23.0)], "gaps of 48 µs"),
        ([Cost(call_us=25.0, call_from="host_gap")], "host gaps of 25 µs"),
        # What recompiles took isn't what a fix of one cause saves.
        ([Cost(compile_s=4.76)], ""),
        # What rounds to nothing isn't shown.
        ([Cost(call_us=0.3, call_from="gap", compile_s=0.004)], ""),
    ],
)
def test_what_an_action_saves_is_said_by_its_source(costs: list[Cost], said: str) -> None:
    [action] = actions(findings(*costs))
    assert per_call_text(action) == said


def test_a_cost_that_rounds_to_nothing_is_left_out() -> None:
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


def test_no_number_of_recompiles_is_promised() -> None:
    """Two values can cause one recompile, a warm-up only moves it, and size 1 stays a constant."""
    [size, number] = sorted((each for each in two_values() if each.changes), key=_count)
    assert [about_text(action) for action in actions([size, number])] == [
        "recompiles for x.shape[0]",
        "recompiles for n",
    ]
    same = [each.replace(fixes=(Fix(title="Fix it", kind="call"),)) for each in (size, number)]
    assert [about_text(action) for action in actions(same)] == ["recompiles for x.shape[0], n"]
    many = size.replace(changes=tuple(change(expression=f"x.shape[{dim}]") for dim in range(4)))
    assert about_text(actions([many])[0]) == "recompiles for x.shape[0], x.shape[1] and 2 more"
    mode = size.replace(changes=(change("grad_mode", "grad mode"),))
    assert about_text(actions([mode])[0]) == "recompiles for grad mode"
    assert about_text(actions([size.replace(changes=())])[0]) == "recompiles"
    beside = findings(None)[0].replace(fixes=same[0].fixes)
    assert about_text(actions([beside, same[0]])[0]) == "1 break, recompiles for x.shape[0]"


def _count(finding: Finding) -> int:
    return -len(finding.compile_ids)


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
    assert [about_text(action) for action in actions([found.replace(fixes=()), skip])] == [
        "1 skipped function"
    ]
    assert [about_text(action) for action in actions([found, skip])] == ["1 break"]
    assert [about_text(action) for action in actions([found.replace(fixes=(fix,)), skip])] == [
        "1 break"
    ]


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
    assert (code_line(action), about_text(action)) == (SETTING, "3 breaks")


def test_a_setting_that_drops_all_output_is_not_preferred() -> None:
    context = "builtin print [<class 'torch._dynamo.variables.lists.SizeVariable'>] False"
    found = actions(prints(PRINT.replace(context=context)))
    assert len(found) == 3
    assert all(action.fix is not None and action.fix.title.startswith("Keep ") for action in found)


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


def values(*fixes: list[str]) -> list[Finding]:
    """Recompiles by values of their own, with these suggestions."""
    changed = [change("number", name, "3", "5", source=f"L['{name}']") for name in "abc"]
    facts = recording(
        compiles=(
            compiled(),
            *(recompiled(f"0/{at}", changed[at], call=at + 2) for at in range(len(fixes))),
        )
    )
    found = [finding for finding in diagnosed(facts).findings if finding.code == "GD203"]
    return [
        finding.replace(fixes=tuple(Fix(title=title, kind="code") for title in titles))
        for finding, titles in zip(found, fixes, strict=True)
    ]


@for_each(
    "fixes, count",
    [
        ((["Keep it"], ["Keep it"]), 1),
        ((["Keep it"], ["Keep it", "Pass it"]), 2),
        ((["Keep it", "Drop it"], ["Keep it", "Pass it"]), 2),
        ((["Keep it", "Pass it"], ["Keep it", "Pass it"]), 1),
        ((["Pass it", "Keep it"], ["Keep it", "Pass it"]), 2),
        ((["Keep it"], ["Keep it"], ["Keep it", "Pass it"]), 2),
    ],
)
def test_findings_share_a_thing_to_do_only_if_all_advice_is_the_same(
    fixes: tuple[list[str], ...], count: int
) -> None:
    assert len(actions(values(*fixes))) == count


@for_each(
    "titles, rows",
    [
        (["Keep `a`", "Keep `b`"], 1),
        (["Keep `a`", "Pass `b`"], 2),
        (["Keep `a`", "Keep `b`", "Pass `c`"], 2),
        (["Keep `a` and `b`", "Keep `c`"], 2),
    ],
)
def test_rows_of_things_to_do_are_folded_only_if_they_ask_the_same(
    titles: list[str], rows: int
) -> None:
    found = values(*([title] for title in titles))
    facts = diagnosed(recording()).replace(findings=tuple(found))
    [table] = [part for part in todo_section(facts).parts if isinstance(part, Table)]
    assert len([*table.rows]) == rows
