"""Which remedies fit a cause, and what the probe does for each."""

from __future__ import annotations

from graphdoctor.facts.guards import GuardChange
from graphdoctor.facts.recording import Recording
from graphdoctor.fixes.run_changes import RecompileFixes, recompile_fixes
from graphdoctor.trials.program import RunChange
from tests.factories import change, compiled, entry, frame, recompiled, recording, said_of

SIZE = change()
STEP = change("module_number", "self.step", "1", "2", source="L['self'].step")
SCALE = change("number", "scale", "1.0", "2.0", source="L['scale']")


def found(
    *changes: GuardChange, parameters: tuple[str, ...] = ("x", "scale"), has_limit: bool = False
) -> RecompileFixes:
    over = (recompiled("0/2", *changes, outcome="limit"),) if has_limit else ()
    return of(
        recording(frames=(frame(),), compiles=(compiled(), recompiled("0/1", *changes), *over)),
        parameters,
    )


def of(facts: Recording, parameters: tuple[str, ...] | None) -> RecompileFixes:
    tried = recompile_fixes(facts.replace(target=facts.target.replace(parameters=parameters)))
    assert tried is not None
    return tried


def sized(expression: str, source: str, old: str = "6", new: str = "7") -> GuardChange:
    return change(expression=expression, source=source, old=old, new=new)


def called_by_itself() -> Recording:
    inner = recompiled("0/1", SCALE, stack=(entry(3, "helper(x, scale)"), entry(10)))
    return recording(frames=(frame(),), compiles=(compiled(), inner))


def twice(first: GuardChange, second: GuardChange) -> Recording:
    again = (recompiled("0/1", first), recompiled("0/2", second, call=3))
    return recording(frames=(frame(),), compiles=(compiled(), *again))


TOKEN = change(old="6", new="1")
RECOMPILES: dict[str, RecompileFixes] = {
    "a changing size": found(SIZE, change(expression="x.shape[1]", old="2", new="3")),
    "a number of a module, and one that is an argument": found(STEP, SCALE),
    "a number that was read from a tensor": found(
        change("number", "(value from line 7)", "2.5", "3.5", source="L['___stack1']")
    ),
    "no argument": found(change("number", "count", "1", "2", source="L['count']"), parameters=("x",)),
    "an argument of a function that the program calls itself": of(called_by_itself(), ("scale",)),
    "unknown parameters": of(recording(frames=(frame(),), compiles=(compiled(), recompiled("0/1", SCALE))), None),
    "another object with each call": found(
        change("identity", "fn", "`<lambda>`", "another `<lambda>`", source="L['fn']")
    ),
    "the limit": found(STEP, has_limit=True),
    "tensors wherever they are held": found(
        sized("cache['a'][0].shape[1]", "L['cache']['a'][0]"),
        sized("cache.layers[0].keys.shape[2]", "L['cache'].layers[0].keys"),
        sized("self.keys.shape[1]", "L['self'].keys", "2", "3"), SIZE, parameters=("x", "cache"),
    ),
    "a size that changed to 1": found(TOKEN, sized("cache.shape[1]", "L['cache']"), parameters=("x", "cache")),
    "a size that changed to 1 and to another": of(twice(TOKEN, SIZE), ("x",)),
    "a size that is 1 between two others": of(
        twice(change(old="6", new="1"), change(old="1", new="7")), ("x",)
    ),
    "an attribute of an argument": found(
        change("number", "options.scale", "1.0", "2.0", source="L['options'].scale"), parameters=("options",)
    ),
    "arguments behind a wrapper": found(
        change(expression="kwargs['x'].shape[0]", source="L['kwargs']['x']"),
        change(expression="args[1].shape[0]", source="L['args'][1]"),
        change(expression="kwargs['y'].shape[0]", source="L['kwargs']['y']"),
    ),
}  # fmt: skip


def test_which_remedies_fit_a_cause_and_what_has_none(snapshot):
    lines = []
    for name, tried in RECOMPILES.items():
        lines += [f"{name}:"]
        for fix in (fixes[0] for fixes in tried.combined()[0] if not fixes[1:]):
            lines.append(f"  {fix.name} for {', '.join(fix.addresses)}: {said_of(fix.change)}")
        lines += [f"  not {item.expression}: {item.reason}" for item in tried.untried]
    assert lines == snapshot


def test_second_change_applies_and_keeps_the_rest():
    first = RunChange(marks=(("L['x']", 0),), dynamic=True, fullgraph=True, alike="sizes")
    assert first.joined(RunChange()) == RunChange().joined(first) == first
    # Nothing left out isn't the same as a compiler left alone, and False isn't None.
    said = RunChange(marks=(("L['x']", 0), ("L['y']", 1)), dynamic=False, without={})
    assert first.joined(said) == RunChange(
        marks=(("L['x']", 0), ("L['y']", 1)),
        dynamic=False,
        fullgraph=True,
        without={},
        alike="sizes",
    )
