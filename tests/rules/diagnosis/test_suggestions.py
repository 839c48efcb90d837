"""Suggested code: only where it can be pasted, and with its place."""

from __future__ import annotations

import pytest

from graphdoctor.facts.diagnosis import Effects
from graphdoctor.facts.fixes import SnippetPlace
from graphdoctor.facts.guards import GuardNode, Guards, GuardSet
from graphdoctor.facts.recording import CompileCall
from graphdoctor.facts.run import Setting
from graphdoctor.rules.diagnosis.sites import BreakSite
from graphdoctor.rules.toolkit import rewritten
from graphdoctor.views.words import place_text
from tests.each import for_each
from tests.factories import FILE, compiled, context, diagnosed, entry, frame, record, recording


def site(statement, **changes):
    line = entry(8, statement.splitlines()[0])
    known = context(8, statement).replace(**changes)
    return BreakSite(entry=line, records=(record(line),), effects=Effects(), context=known)


def written(statement, code, **changes):
    return rewritten(site(statement, **changes), code, "Do it", otherwise="Do it in words")


def test_code_has_its_place():
    fix = written("y = f(\n    x)", "y = torch.where(x, y, x)", readable=("f", "x", "y"))
    assert fix.title == "Do it"
    assert fix.snippet == "y = torch.where(x, y, x)"
    assert fix.place == SnippetPlace(
        where="instead", function="Net.forward", file=FILE, line=8, end_line=9
    )


@for_each(
    "statement, code, changes",
    [
        ("y = f(x)", "y = torch.where(…, x)", {}),
        ("y = f(x)", "y = torch.where(", {}),
        ("y = f(x)", "y = true_fn(x)", {}),
        ("y = f(x)", "y = y + x", {"readable": ("f", "x")}),
        ("y = f(x)", "y = torch.relu(x)", {"torch": None}),
        ("y = f(x)", "y = x", {"statement_line": None}),
        ("y = f(x)", "y = x", {"statement_end_line": 20}),
        ("a = 1; y = f(x)", "y = x", {}),
        ("elif f(x):\n    y = x", "y = x", {}),
        ("else: y = f(x)", "y = x", {}),
        ('f("""a\nb""", x)', "x", {}),
    ],
)
def test_what_cannot_be_pasted_is_said_in_words(statement, code, changes):
    fix = written(statement, code, **changes)
    assert (fix.snippet, fix.place) == (None, None)
    assert fix.title == "Do it in words"


def test_torch_has_the_name_of_the_file():
    fix = written(
        "y = f(x)", 'y = torch.where(x, x, x) + torch.relu(x)  # torch "é" torch', torch="th"
    )
    assert fix.snippet == 'y = th.where(x, x, x) + th.relu(x)  # torch "é" torch'


def test_names_that_code_binds_itself_need_no_place():
    assert written("y = f(x)", "y = [z for z in x]").snippet is not None
    assert written("y = f(x)", "y = (lambda z: z)(x)").snippet is not None


@for_each(
    "name, shown",
    [
        (
            "torch._dynamo.config.capture_scalar_outputs",
            "torch.compiler.config.capture_scalar_outputs",
        ),
        ("torch._dynamo.config.nested_graph_breaks", "torch._dynamo.config.nested_graph_breaks"),
        ("torch._inductor.config.recompile_limit", "torch._inductor.config.recompile_limit"),
    ],
)
def test_a_setting_is_shown_by_its_public_name(name, shown):
    assert Setting(name=name, value=True).line == f"{shown} = True"


def test_every_public_name_of_a_setting_is_torch_s():
    pytest.importorskip("torch")
    import torch.compiler.config as public

    from graphdoctor.facts.run import _PUBLIC

    assert [name for name in _PUBLIC if not hasattr(public, name)] == []


def test_torch_compile_argument_names_the_only_call():
    node = GuardNode(
        kind="TYPE_MATCH", source=None, expression="self.fc", expected=None, path="self.fc",
        is_module_internal=True, depth=1, guard="",
    )  # fmt: skip
    checked = GuardSet(compile_id="0/0", guard_count=1, kinds={}, nodes=(node,), share=0.5)
    facts = recording(frames=(frame(),), compiles=(compiled(),))
    facts = facts.replace(guards=Guards(sets=(checked,), share=0.5))
    calls = (CompileCall(file="/project/train.py", line=9, function="main", compiled="Net"),)
    for known, place in (((), None), (calls, ("train.py", 9)), ((*calls, *calls), ("train.py", 9))):
        shown = diagnosed(facts, compile_calls=known)
        fix = next(
            fix for fix in shown.findings[0].fixes if fix.place and fix.place.where == "compile"
        )
        assert fix.place is not None
        assert fix.place.file == (place and place[0])
        assert fix.place.line == (place and place[1])
        assert place_text(fix.place).endswith(
            "`torch.compile`" if place is None else "at train.py:9"
        )
