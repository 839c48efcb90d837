"""Which compiles follow from one change, and which changes are one and the same over the calls."""

from __future__ import annotations

from graphdoctor.facts.diagnosis import Fix
from graphdoctor.facts.recording import Compile, FailedCompile, Recording
from graphdoctor.rules.diagnosis.recompiles import recompile_events
from tests.factories import change, compiled, diagnosed, entry, frame, recompiled, recording

BATCH = change()
STEP = change("module_number", "self.step", "1", "2", source="L['self'].step")


def events_of(*compiles: Compile, frames: int = 3) -> list[tuple[str, ...]]:
    facts = facts_of(*compiles, frames=frames)
    return [tuple(item.compile_id for item in event.compiles) for event in recompile_events(facts)]


def facts_of(*compiles: Compile, frames: int = 3) -> Recording:
    known = [frame(), *(frame(number, resumes_at=10 + number) for number in range(1, frames))]
    seen = {0, *(item.frame_id for item in compiles)}
    return recording(frames=tuple(item for item in known if item.frame_id in seen), compiles=(compiled(), *compiles))


def test_what_one_change_caused_in_one_call_is_one_recompile() -> None:
    carried = change(expression="(value from line 11).shape[0]", source="L['___stack0']")
    flat = change(expression="y.shape[0]", old="32", new="64", source="L['y']")
    other = change(expression="y.shape[0]", old="32", new="33", source="L['y']")
    number = change("number", "batch_size", "4", "8", source="L['batch_size']")
    here, there = (entry(3, "net(x)"), entry(10)), (entry(4, "net(y)"), entry(10))
    first, unnumbered = recompiled("0/1", BATCH), recompiled("0/1", BATCH, call=None, stack=here)
    follow, apart = [("0/1", "1/1")], [("0/1",), ("1/1",)]
    assert events_of(first, recompiled("1/1", carried), recompiled("2/1", BATCH)) == [("0/1", "1/1", "2/1")]
    cases = {
        "a size computed from it, by its factor": (first, recompiled("1/1", flat), follow),
        "another factor": (first, recompiled("1/1", other), apart),
        "an int of another function": (first, recompiled("1/1", number), follow),
        "a value of its own beside it": (first, recompiled("1/1", BATCH, STEP), apart),
        "another call": (first, recompiled("1/1", BATCH, call=3), apart),
        "the same calling line": (unnumbered, recompiled("1/1", BATCH, call=None, stack=here), follow),
        "another calling line": (unnumbered, recompiled("1/1", BATCH, call=None, stack=there), apart),
    }
    wanted = {name: events for name, (*_, events) in cases.items()}
    assert {name: events_of(one, again) for name, (one, again, _) in cases.items()} == wanted


def test_without_numbered_calls_another_function_at_the_same_depth_is_another_call() -> None:
    here = (entry(3, "net(x)"), entry(10))
    other = frame(1, function="other", line=30)
    compiles = (
        compiled(),
        recompiled("0/1", BATCH, call=None, stack=here),
        recompiled("1/1", BATCH, call=None, stack=here),
    )
    events = recompile_events(recording(frames=(frame(), other), compiles=compiles))
    assert [event.frame.function for event in events] == ["forward", "other"]


def test_a_report_adds_up_what_one_change_cost() -> None:
    (report,) = diagnosed(facts_of(recompiled("0/1", BATCH), recompiled("1/1", BATCH))).recompiles
    assert report.compile_ids == ("0/1", "1/1")
    assert report.cost_s == 0.5
    assert report.followed_in == ("Net.forward from line 11",)
    assert (report.call_index, report.nearest, report.cause) == (2, "0/0", (BATCH,))


def test_values_that_change_over_the_calls_are_one_finding_with_all_their_values() -> None:
    steps = [
        recompiled(f"0/{n}", change("value", "mode", f"m{n}", f"m{n + 1}", source="L['mode']"), call=n + 1)
        for n in (1, 2, 3)
    ]
    diagnosis = diagnosed(facts_of(*steps))
    (finding,) = diagnosis.findings
    assert (finding.count, finding.location.line) == (3, 12)
    assert "m1 → m2 → m3 → m4" in finding.message
    assert diagnosis.summary.recompile_causes == 1
    assert {report.fingerprint for report in diagnosis.recompiles} == {finding.fingerprint}


def test_the_values_of_a_finding_are_those_that_calls_passed() -> None:
    size = change(expression="x.shape[1]", old="6", new="1")
    prompt = change(expression="x.shape[1]", old="6", new="9")
    known = facts_of(recompiled("0/1", size), recompiled("0/2", prompt.replace(previous="1"), call=5))
    unknown = facts_of(recompiled("0/1", size), recompiled("0/2", prompt.replace(previous=None), call=5))
    for facts in (known, unknown):
        (finding,) = diagnosed(facts).findings
        assert "`x.shape[1]` changed: 6 → 1 → 9" in finding.message


def test_a_change_from_the_same_last_value_follows_whatever_the_entries_were_compiled_for() -> None:
    outer = change(expression="x.shape[1]", old="6", new="9").replace(previous="1")
    inner = change(expression="y.shape[1]", old="3", new="9", source="L['y']").replace(previous="1")
    assert events_of(recompiled("0/1", outer), recompiled("1/1", inner)) == [("0/1", "1/1")]


def test_two_values_guarded_on_at_one_line_keep_their_fingerprints_when_one_goes() -> None:
    mask = change("size", "mask.shape[0]", source="L['mask']")
    both = diagnosed(facts_of(recompiled("0/1", BATCH, call=2), recompiled("0/2", mask, call=3)))
    (left,) = diagnosed(facts_of(recompiled("0/1", mask, call=2))).findings
    told = {finding.fingerprint: finding.message for finding in both.findings}
    assert len(told) == 2
    assert "mask.shape[0]" in told[left.fingerprint]


def test_a_value_named_by_the_break_that_it_was_carried_over_keeps_its_fingerprint_when_lines_move() -> None:
    def at(line: int) -> str:
        carried = change("value", f"the value of `x.max()` at model.py:{line}", source="L['___stack0']")
        (finding,) = diagnosed(facts_of(recompiled("0/1", carried))).findings
        return finding.fingerprint

    assert at(7) == at(70)


def test_two_values_that_change_together_are_found_both_and_one_cause() -> None:
    summary = diagnosed(facts_of(recompiled("0/1", BATCH, STEP))).summary
    assert (summary.recompiles, summary.recompile_causes) == (1, 1)


def test_the_limit_says_which_values_filled_the_cache_and_what_went_eager_with_it() -> None:
    fills = [recompiled(f"0/{n}", STEP, call=n + 1) for n in range(1, 8)]
    over = [recompiled("0/8", STEP, call=9, outcome="limit"), recompiled("1/8", STEP, call=9, outcome="limit")]
    diagnosis = diagnosed(facts_of(*fills, *over))
    limit = diagnosis.findings[0]
    assert (limit.code, limit.severity, limit.compile_ids) == ("GD201", "error", ("0/8", "1/8"))
    assert "since call 9" in limit.message
    assert "together with `Net.forward from line 11`" in limit.message
    assert "`self.step` (7)" in limit.message
    assert diagnosis.recompiles[-1].is_over_limit
    assert diagnosis.summary.frames_over_limit == 2
    assert [report.state for report in diagnosis.frames] == ["over_limit", "over_limit"]


def test_the_limit_that_was_hit_is_the_one_to_raise() -> None:
    over = recompiled("0/8", STEP, call=9, outcome="limit")
    failure = FailedCompile(type="Unsupported", message="", limit="accumulated_recompile_limit")
    limit = diagnosed(facts_of(over.replace(failure=failure))).findings[0]
    assert "accumulated_recompile_limit" in limit.message
    assert [fix.setting.name for fix in limit.fixes if fix.setting] == [
        "torch._dynamo.config.accumulated_recompile_limit"
    ]


def test_a_recompile_without_any_reason_is_still_told() -> None:
    bare = compiled("0/1", call=2).replace(is_recompile=True)
    (finding,) = diagnosed(facts_of(bare)).findings
    assert finding.code == "GD200"
    assert "a guard that torch did not name" in finding.message


def test_a_finding_about_five_numbers_has_five_changes() -> None:
    numbers = [change("number", name, "1", "2", source=f"L['{name}']") for name in "abcde"]
    (finding,) = diagnosed(facts_of(recompiled("0/1", *numbers))).findings
    assert finding.code == "GD203"
    assert finding.changes == tuple(numbers)


def test_a_value_that_changed_in_several_calls_is_one_change_of_the_finding() -> None:
    again = change(old="8", new="16")
    (finding,) = diagnosed(facts_of(recompiled("0/1", BATCH), recompiled("0/2", again, call=3))).findings
    assert finding.changes == (BATCH,)


def test_a_finding_counts_the_changes_that_were_not_recorded() -> None:
    compile_ = recompiled("0/1", BATCH)
    assert compile_.cause is not None
    hidden = compile_.replace(cause=compile_.cause.replace(hidden_change_count=3))
    (finding,) = diagnosed(facts_of(hidden)).findings
    assert finding.hidden_change_count == 3


def test_a_function_over_its_limit_names_every_value_that_filled_the_cache() -> None:
    numbers = [change("number", name, "1", "2", source=f"L['{name}']") for name in "abcdef"]
    over = recompiled("0/2", numbers[0], call=3, outcome="limit")
    findings = diagnosed(facts_of(recompiled("0/1", *numbers), over)).findings
    (limit,) = [finding for finding in findings if finding.code == "GD201"]
    assert limit.changes == tuple(numbers)


def fixes_of(*compiles: Compile, parameters: tuple[str, ...] = ("x", "cache")) -> tuple[Fix, ...]:
    facts = facts_of(*compiles)
    target = facts.target.replace(parameters=parameters)
    (finding,) = [found for found in diagnosed(facts.replace(target=target)).findings if found.code == "GD202"]
    return finding.fixes


def test_a_size_that_only_changed_to_1_is_not_to_be_marked() -> None:
    (fix,) = fixes_of(recompiled("0/1", change(old="6", new="1")))
    assert "0 and 1" in fix.title
    assert fix.snippet is None


def test_a_tensor_that_the_first_call_need_not_have_is_marked_in_words() -> None:
    grown = change(expression="cache['k'].shape[1]", old="6", new="7", source="L['cache']['k']")
    again = recompiled("0/2", grown, call=3)
    assert again.cause is not None
    later = again.replace(cause=again.cause.replace(nearest="0/1"))
    assert fixes_of(again)[0].snippet == "torch._dynamo.mark_dynamic(cache['k'], 1)"
    assert "before each call in which the tensor exists" in fixes_of(later)[0].title
    assert fixes_of(later)[0].snippet is None
