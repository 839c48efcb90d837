"""Suggested code: only where it can be pasted, and with its place."""

from __future__ import annotations

import pytest

from graphdoctor.facts.guards import GuardNode, Guards, GuardSet
from graphdoctor.facts.recording import CompileCall
from graphdoctor.facts.run import Setting
from graphdoctor.views.words import place_text
from tests.each import for_each
from tests.factories import compiled, diagnosed, frame, recording


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
