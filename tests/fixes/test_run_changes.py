"""Which remedies fit a cause, and what the probe does for each."""

from __future__ import annotations

from graphdoctor.facts.recompiles import GuardChange
from graphdoctor.facts.recording import Recording
from graphdoctor.fixes.run_changes import RecompileFixes, recompile_fixes
from graphdoctor.trials.program import RunChange
from tests.factories import change, compiled, entry, frame, recompiled, recording

SIZE = change()
STEP = change("module_number", "self.step", "1", "2", source="L['self'].step")
SCALE = change("number", "scale", "1.0", "2.0", source="L['scale']")


def found(
    *changes: GuardChange, parameters: tuple[str, ...] = ("x", "scale"), has_limit: bool = False
) -> RecompileFixes:
    over = (recompiled("0/2", *changes, outcome="limit"),) if has_limit else ()
    return of(recording(frames=(frame(),), compiles=(compiled(), recompiled("0/1", *changes), *over)), parameters)


def of(facts: Recording, parameters: tuple[str, ...] | None) -> RecompileFixes:
    target = facts.target.model_copy(update={"parameters": parameters})
    tried = recompile_fixes(facts.model_copy(update={"target": target}))
    assert tried is not None
    return tried


def names(tried: RecompileFixes) -> list[str]:
    return [fix.name for (fix,) in tried.combined(0)[0]]


def test_a_changing_size_is_marked_and_tried_with_dynamic_shapes() -> None:
    other = change(expression="x.shape[1]", old="2", new="3")
    tried = found(SIZE, other)
    assert names(tried) == ["mark_dynamic x 0, x 1", "dynamic=True", "warm-up"]
    assert tried.singles[0].change.marks == (("L['x']", 0), ("L['x']", 1))
    assert tried.singles[0].addresses == ("x.shape[0]", "x.shape[1]")


def test_numbers_become_tensors_and_those_of_modules_dynamic() -> None:
    tried = found(STEP, SCALE)
    assert names(tried) == ["allow_unspec_int_on_nn_module", "tensor scale", "warm-up"]
    assert tried.singles[1].change.tensors == ("L['scale']",)


def test_a_number_read_from_a_tensor_is_kept_in_the_graph() -> None:
    read = change("number", "(value from line 7)", "2.5", "3.5", source="L['___stack1']")
    assert names(found(read))[0] == "capture_scalar_outputs"


def test_what_is_no_argument_is_left_alone_and_said_so() -> None:
    local = change("number", "count", "1", "2", source="L['count']")
    tried = found(local, parameters=("x",))
    assert names(tried) == ["warm-up"]
    assert [(item.expression, "argument" in item.reason) for item in tried.untried] == [("count", True)]


def test_an_argument_of_a_function_that_the_program_calls_itself_cannot_be_replaced() -> None:
    inner = recompiled("0/1", SCALE, stack=(entry(3, "helper(x, scale)"), entry(10)))
    facts = recording(frames=(frame(),), compiles=(compiled(), inner))
    assert names(of(facts, ("scale",))) == ["warm-up"]


def test_no_argument_is_changed_where_the_target_s_parameters_are_not_known() -> None:
    facts = recording(frames=(frame(),), compiles=(compiled(), recompiled("0/1", SCALE)))
    assert names(of(facts, None)) == ["warm-up"]
    assert names(of(facts, ("scale",)))[0] == "tensor scale"


def test_where_nothing_was_compiled_again_there_is_nothing_to_try() -> None:
    assert recompile_fixes(recording()) is None


def test_another_object_with_each_call_has_no_remedy_that_a_replay_can_try() -> None:
    tried = found(change("identity", "fn", "`<lambda>`", "another `<lambda>`", source="L['fn']"))
    assert "the program must keep one" in tried.untried[0].reason


def test_the_limit_is_raised_only_where_it_was_hit() -> None:
    assert names(found(STEP, has_limit=True))[-1] == "recompile_limit"


def test_combinations_are_bounded_all_together_first() -> None:
    scales = [change("number", f"s{n}", "1", "2", source=f"L['s{n}']") for n in range(5)]
    tried = found(*scales, parameters=tuple(f"s{n}" for n in range(5)))
    trials, skipped = tried.combined(12)
    assert len(trials) == 12
    assert [len(trial) for trial in trials] == [1] * 6 + [5] + [2] * 5
    assert skipped == 26 - 6


def test_combinations_of_many_remedies_are_counted_and_not_made() -> None:
    parameters = tuple(f"s{n}" for n in range(64))
    tried = found(
        *(change("number", name, "1", "2", source=f"L['{name}']") for name in parameters), parameters=parameters
    )
    trials, skipped = tried.combined(70)
    assert [len(trial) for trial in trials] == [1] * 65 + [64] + [2] * 4
    assert skipped == 2**64 - 64 - 1 - 5


def test_every_tensor_whose_size_changed_is_marked_wherever_it_is_held() -> None:
    item = change(expression="cache['a'][0].shape[1]", old="6", new="7", source="L['cache']['a'][0]")
    attribute = change(expression="cache.layers[0].keys.shape[2]", old="6", new="7", source="L['cache'].layers[0].keys")
    kept = change(expression="self.keys.shape[1]", old="2", new="3", source="L['self'].keys")
    tried = found(item, attribute, kept, SIZE, parameters=("x", "cache"))
    marks = [*tried.singles[0].change.marks]
    assert marks == [
        ("L['cache']['a'][0]", 1),
        ("L['cache'].layers[0].keys", 2),
        ("L['self'].keys", 1),
        ("L['x']", 0),
    ]
    assert names(tried)[0] == "mark_dynamic cache['a'][0] 1, cache.layers[0].keys 2, self.keys 1 and 1 more"
    assert not tried.untried


def test_a_size_that_only_changed_to_or_from_0_or_1_cannot_be_made_dynamic() -> None:
    token = change(old="6", new="1")
    tried = found(
        token, change(expression="cache.shape[1]", old="6", new="7", source="L['cache']"), parameters=("x", "cache")
    )
    assert names(tried)[0] == "mark_dynamic cache 1"
    assert [(item.expression, "0 and 1" in item.reason) for item in tried.untried] == [("x.shape[0]", True)]
    facts = recording(
        frames=(frame(),), compiles=(compiled(), recompiled("0/1", token), recompiled("0/2", SIZE, call=3))
    )
    assert names(of(facts, ("x",)))[0] == "mark_dynamic x 0"


def test_a_number_that_is_an_attribute_of_an_argument_is_not_replaced() -> None:
    tried = found(change("number", "options.scale", "1.0", "2.0", source="L['options'].scale"), parameters=("options",))
    assert names(tried) == ["warm-up"]
    assert [item.expression for item in tried.untried] == ["options.scale"]


def test_arguments_behind_a_wrapper_are_found_by_their_own_names() -> None:
    keyword = change(expression="kwargs['x'].shape[0]", source="L['kwargs']['x']")
    position = change(expression="args[1].shape[0]", source="L['args'][1]")
    other = change(expression="kwargs['y'].shape[0]", source="L['kwargs']['y']")
    tried = found(keyword, position, other)
    sources = [source for source, _ in tried.singles[0].change.marks]
    assert sources == ["L['x']", "L['scale']"]


def test_of_two_changes_the_second_says_what_it_says_and_keeps_the_rest() -> None:
    first = RunChange(marks=(("L['x']", 0),), dynamic=True, regional=True, alike="sizes")
    assert first.joined(RunChange()) == RunChange().joined(first) == first
    # Nothing left out isn't the same as a compiler left alone, and False isn't None.
    said = RunChange(marks=(("L['x']", 0), ("L['y']", 1)), dynamic=False, without={})
    assert first.joined(said) == RunChange(
        marks=(("L['x']", 0), ("L['y']", 1)), dynamic=False, regional=True, without={}, alike="sizes"
    )
