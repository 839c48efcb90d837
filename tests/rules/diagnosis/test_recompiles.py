"""Which compiles follow from one change, and which changes are one and the same over the calls."""

from __future__ import annotations

from typing import get_args

from graphdoctor.facts.guards import ChangeKind
from graphdoctor.facts.recording import CompileOutcome, FailedCompile
from graphdoctor.rules.diagnosis.recompiles import recompile_events
from graphdoctor.rules.toolkit import WITHIN_CALL
from tests.each import for_each
from tests.factories import change, compiled, diagnosed, entry, frame, recompiled, recording
from tests.rules.said import said_in_full

BATCH = change()
STEP = change("module_number", "self.step", "1", "2", source="L['self'].step")


def events_of(*compiles, frames=3):
    facts = facts_of(*compiles, frames=frames)
    return [tuple(item.compile_id for item in event.compiles) for event in recompile_events(facts)]


def facts_of(*compiles, frames=3):
    known = [frame(), *(frame(number, resumes_at=10 + number) for number in range(1, frames))]
    seen = {0, *(item.frame_id for item in compiles)}
    return recording(
        frames=tuple(item for item in known if item.frame_id in seen),
        compiles=(compiled(), *compiles),
    )


def test_what_one_change_caused_in_one_call_is_one_recompile():
    carried = change(expression="(value from line 11).shape[0]", source="L['___stack0']")
    flat = change(expression="y.shape[0]", old="32", new="64", source="L['y']")
    other = change(expression="y.shape[0]", old="32", new="33", source="L['y']")
    number = change("number", "batch_size", "4", "8", source="L['batch_size']")
    here, there = (entry(3, "net(x)"), entry(10)), (entry(4, "net(y)"), entry(10))
    first, unnumbered = recompiled("0/1", BATCH), recompiled("0/1", BATCH, call=None, stack=here)
    follow, apart = [("0/1", "1/1")], [("0/1",), ("1/1",)]
    assert events_of(first, recompiled("1/1", carried), recompiled("2/1", BATCH)) == [
        ("0/1", "1/1", "2/1")
    ]
    cases = {
        "a size computed from it, by its factor": (first, recompiled("1/1", flat), follow),
        "another factor": (first, recompiled("1/1", other), apart),
        "an int of another function": (first, recompiled("1/1", number), follow),
        "a value of its own beside it": (first, recompiled("1/1", BATCH, STEP), apart),
        "another call": (first, recompiled("1/1", BATCH, call=3), apart),
        "the same calling line": (
            unnumbered,
            recompiled("1/1", BATCH, call=None, stack=here),
            follow,
        ),
        "another calling line": (
            unnumbered,
            recompiled("1/1", BATCH, call=None, stack=there),
            apart,
        ),
    }
    wanted = {name: events for name, (*_, events) in cases.items()}
    assert {name: events_of(one, again) for name, (one, again, _) in cases.items()} == wanted


def test_change_from_the_same_last_value_follows():
    outer = change(expression="x.shape[1]", old="6", new="9").replace(previous="1")
    inner = change(expression="y.shape[1]", old="3", new="9", source="L['y']").replace(previous="1")
    assert events_of(recompiled("0/1", outer), recompiled("1/1", inner)) == [("0/1", "1/1")]


WITHIN = {
    "number": change("number", "i", source="L['i']"),
    "value": change("value", "it", source="L['it']"),
    "text": change("text", "pattern", "'i -> 1 i'", "'b i -> i b'", source="L['pattern']"),
    "dims": change("rank", "x.ndim", "3", "1", source="L['x']"),
    "dtype": change("dtype", "x.dtype", "f32", "i64", source="L['x']"),
    "gradient": change("requires_grad", "y.requires_grad", "False", "True", source="L['y']"),
    "length": change("length", "len(sizes)", "2", "0", source="L['sizes']"),
    "type": change("type", "n", "2", "i64[]", source="L['n']"),
    "member": change("identity", "mode", "Mode.FIRST", "Mode.SECOND", source="L['mode']"),
}  # fmt: skip


@for_each("name", WITHIN)
def test_value_changing_within_a_call_may_change_between_calls(name):
    """A warm-up doesn't help either: the first call already has all of the values."""
    titles = [
        [
            fix.title
            for fix in diagnosed(facts_of(recompiled("0/1", WITHIN[name], call=call)))
            .findings[0]
            .fixes
        ]
        for call in (1, 2, None)
    ]
    assert titles[0] == [WITHIN_CALL.title]
    assert titles[1] == titles[2] != titles[0]


def test_value_carried_over_a_break_keeps_its_fingerprint():
    def at(line):
        carried = change(
            "value", f"the value of `x.max()` at model.py:{line}", source="L['___stack0']"
        )
        (finding,) = diagnosed(facts_of(recompiled("0/1", carried))).findings
        return finding.fingerprint

    assert at(7) == at(70)


def test_only_a_number_read_from_a_tensor_is_kept():
    def advised(read):
        carried = change(
            "number", f"the value of `{read}` at model.py:5", "1.5", "2.5", source="L['___stack0']"
        )
        return diagnosed(facts_of(recompiled("0/1", carried))).findings[0].fixes[0].title

    assert advised("x.max().item()").startswith("Let torch keep the number in the graph")
    assert advised("random.random()").startswith(
        "Pass it as a tensor if only tensor arithmetic uses it"
    )


@for_each("kind", get_args(ChangeKind))
def test_computed_value_is_described_and_no_setting_names_it(kind):
    words = "shape[0] of the value of `x.nonzero()` at model.py:5", "(value from line 7).shape[0]"
    for expression in words:
        for new in ("8", "1", "__stack0.size()[0] = 1"):
            carried = change(kind, expression, "4", new, source="L['___stack0']")
            for finding in diagnosed(facts_of(recompiled("0/1", carried))).findings:
                told = [finding.message, *(fix.title for fix in finding.fixes)]
                in_quotes = " ".join(told).split("`")[1::2]
                assert not [text for text in in_quotes if "value of" in text], told
                snippets = [fix.snippet or "" for fix in finding.fixes]
                named = [text for text in (*told[1:], *snippets) if "_sources" in text]
                assert not [text for text in named if "value" in text or "stack" in text]


@for_each("outcome", [name for name in get_args(CompileOutcome) if name != "compiled"])
def test_a_compile_that_made_no_code_is_no_recompile(outcome):
    compiles = (recompiled("0/1", STEP), recompiled("0/2", STEP, call=3, outcome=outcome))
    both, none = diagnosed(facts_of(*compiles)), diagnosed(facts_of(*compiles[1:]))
    assert (both.summary.recompiles, both.summary.recompile_causes) == (1, 1)
    assert (none.summary.recompiles, none.summary.recompile_causes) == (0, 0)
    finding = next(finding for finding in both.findings if " recompiled " in finding.message)
    assert "recompiled once because" in finding.message
    assert finding.count == 1


def advised(*changes):
    facts = called_with("x", "y", "mode", "batch", compiles=recompiled("0/1", *changes))
    return [
        (sorted(change.expression for change in finding.changes), finding.fixes[0].title)
        for finding in diagnosed(facts).findings
        if "because" in finding.message
    ]


UNSET = change("none", "self.cache", "None", "a tensor", source="L['self'].cache")
KEYS = change("keys", "the keys of batch", "'a'", "'a', 'b'", source="L['batch']")
INNER = change("keys", "the keys of self.bank", "'a'", "'b'", source="L['self'].bank")
KIND = change("type", "y", "a list", "a tuple", source="L['y']")
MODE = change("value", "mode", "'a'", "'b'", source="L['mode']")
FLOAT, INT = (
    change("module_number", f"self.{name}", old, new, source=f"L['self'].{name}")
    for name, old, new in (("rate", "0.5", "0.25"), ("step", "1", "2"))
)
LAMBDA = change("identity", "f", "a lambda", "a lambda", source="L['f']")
NAMED = change("identity", "g", "`relu`", "`gelu`", source="L['g']")


@for_each("changes", [(UNSET, MODE), (KEYS, KIND), (KEYS, INNER), (FLOAT, INT), (LAMBDA, NAMED)])
def test_values_that_need_other_advice_are_findings_of_their_own(changes):
    assert [names for names, _ in advised(*changes)] == [[one.expression] for one in changes]
    assert {title for _, title in advised(*changes)} == {
        title for one in changes for _, title in advised(one)
    }


@for_each(
    "changes, names",
    [
        ((MODE, change("value", "x", "1", "2", source="L['x']")), "`mode` and `x`"),
        ([change("stride", f"{n}.stride(0)", "4", "1", source=f"L['{n}']") for n in "xy"],
         "`x` and `y`"),
        ((NAMED, NAMED.replace(expression="h", source="L['h']")), "`g` and `h`"),
    ],
)  # fmt: skip
def test_advice_for_values_that_change_together_names_each(changes, names):
    ((_, title),) = advised(*changes)
    assert names in title


def of_global(expression, kind="number", old="2", new="3", text="y = x * n"):
    name, _, rest = expression.partition(".")
    source = f"G['{name}']" + (f".{rest}" if rest else "")
    made = change(kind, expression, old, new, source=source)
    return made.replace(guard_location=entry(12, text))


@for_each(
    "changed, said",
    [
        (of_global("N"), "Pass `N` as an argument, and change it where"),
        (of_global("CFG.n"), "Pass `CFG.n` as an argument"),
        (of_global("net.step", "module_number"), "Keep `net.step` in a buffer"),
        (of_global("FLAG", "flag", "True", "False"), "Move the compiles to a warm-up"),
        # torch makes a float of a global dynamic, and compiles 0 and 1 on their own.
        (of_global("F", old="0.5", new="0.25"), "Pass it as a tensor"),
        (of_global("N", old="0", new="1"), "Pass it as a tensor"),
    ],
)
def test_an_int_of_a_global_is_advised_to_be_passed_in(changed, said):
    ((_, title),) = advised(changed)
    assert title.startswith(said)


@for_each(
    "changed, is_global",
    [
        (of_global("FLAG", "flag", "True", "False"), True),
        (of_global("MODE", "text", "'a'", "'b'"), True),
        (of_global("CFG.mode", "value", "a", "b"), True),
        (of_global("MODE", "none", "None", "'b'"), True),
        (change("flag", "flag", "True", "False", source="L['flag']"), False),
        (change("flag", "self.flag", "True", "False", source="L['self'].flag"), False),
    ],
)
def test_what_depends_on_a_global_is_computed_outside(changed, is_global):
    facts = facts_of(recompiled("0/1", changed))
    (finding,) = [each for each in diagnosed(facts).findings if each.code == "GD216"]
    said = [fix for fix in finding.fixes if fix.title.startswith("Compute what depends on")]
    assert len(said) == is_global


@for_each(
    "small, named",
    [
        ("L['x'].size()[1]", ["L['x']"]),
        ("L['items'][0].size()[1]", ["L['items'][0]"]),
        ("___stack0.size()[1]", []),
        (None, []),
    ],
)
def test_a_size_of_one_is_compiled_by_itself_whatever_a_branch_asks(small, named):
    changed = change("relation", "2 <= x.shape[1] <= 8", "x.shape[1] = 12", "x.shape[1] = 1")
    changed = changed.replace(small_source=small)
    (finding,) = [f for f in diagnosed(facts_of(recompiled("0/1", changed))).findings if f.changes]
    assert ("compiles separate code" in finding.message) == (small is not None)
    assert ("one version holds for all" in finding.fixes[0].title) == (small is None)
    lines = [fix.snippet or "" for fix in finding.fixes]
    assert [source for source in named if any(source in line for line in lines)] == named


def hidden(compile_, count):
    assert compile_.cause is not None
    return compile_.replace(cause=compile_.cause.replace(hidden_change_count=count))


def after(nearest, compile_):
    assert compile_.cause is not None
    return compile_.replace(cause=compile_.cause.replace(nearest=nearest))


def called_with(*parameters, compiles):
    facts = facts_of(compiles)
    return facts.replace(target=facts.target.replace(parameters=parameters))


def numbers(names):
    return [change("number", name, "1", "2", source=f"L['{name}']") for name in names]


MODES = [change("value", "mode", f"m{n}", f"m{n + 1}", source="L['mode']") for n in (1, 2, 3)]
TOKEN, PROMPT = (change(expression="x.shape[1]", old="6", new=new) for new in ("1", "9"))
GROWN = change(expression="cache['k'].shape[1]", old="6", new="7", source="L['cache']['k']")
MASKED = change(expression="mask.shape[0]", old="5", new="6", source="L['mask']")
OVER = recompiled("0/8", STEP, call=9, outcome="limit")
ACCUMULATED = FailedCompile(type="Unsupported", message="", limit="accumulated_recompile_limit")
CASES = {
    "what one change cost in two functions": facts_of(
        recompiled("0/1", BATCH), recompiled("1/1", BATCH)
    ),
    "a value that changes over the calls": facts_of(
        *(recompiled(f"0/{n}", mode, call=n + 1) for n, mode in enumerate(MODES, start=1))
    ),
    **{
        f"values that calls passed, the last one {previous}": facts_of(
            recompiled("0/1", TOKEN), recompiled("0/2", PROMPT.replace(previous=previous), call=5)
        )
        for previous in ("1", None)
    },
    "two values that change together": facts_of(recompiled("0/1", BATCH, STEP)),
    "the limit, and what went eager with it": facts_of(
        *(recompiled(f"0/{n}", STEP, call=n + 1) for n in range(1, 8)),
        OVER,
        OVER.replace(compile_id="1/8", frame_id=1),
    ),
    "the limit of all frames": facts_of(OVER.replace(failure=ACCUMULATED)),
    "without any reason": facts_of(compiled("0/1", call=2).replace(is_recompile=True)),
    "five numbers": facts_of(recompiled("0/1", *numbers("abcde"))),
    "a value that changed in several calls": facts_of(
        recompiled("0/1", BATCH), recompiled("0/2", change(old="8", new="16"), call=3)
    ),
    "changes that were not recorded": facts_of(hidden(recompiled("0/1", BATCH), 3)),
    "a limit that six numbers filled": facts_of(
        recompiled("0/1", *numbers("abcdef")),
        recompiled("0/2", numbers("a")[0], call=3, outcome="limit"),
    ),
    "a size that only changed to 1": called_with(
        "x", "cache", compiles=recompiled("0/1", change(old="6", new="1"))
    ),
    "a tensor that every call has": called_with(
        "x", "cache", compiles=recompiled("0/2", GROWN, call=3)
    ),
    "a tensor that the first call need not have": called_with(
        "x", "cache", compiles=after("0/1", recompiled("0/2", GROWN, call=3))
    ),
    "an argument that can be None in the first call": called_with(
        "x", "mask", compiles=after("0/1", recompiled("0/2", MASKED, call=3))
    ),
}


def test_what_is_found_where_functions_recompile(snapshot):
    assert said_in_full(CASES) == snapshot
