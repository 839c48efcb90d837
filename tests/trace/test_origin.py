"""Who owns a file, and torch's wrapper around a module of its own class in the program's names."""

from __future__ import annotations

from graphdoctor.facts.stack import StackEntry
from graphdoctor.trace.origin import Root, is_probe
from tests.each import for_each

PLACE = StackEntry(file="/work/train.py", line=7, function="main", origin="user")
ROOT = Root("self.net", "Sequential", ("input", "rest[0]"), PLACE)


@for_each(
    "text, named",
    [
        ("fn[1].training", "self.net[1].training"),
        ("fn.scale", "self.net.scale"),
        ("fn", "self.net"),
        ("self.fn.scale", "self.fn.scale"),
        ("fn_1.scale", "fn_1.scale"),
        ("args[0].shape[0]", "input.shape[0]"),
        ("args[1].dtype", "rest[0].dtype"),
        ("args[2].dtype", "args[2].dtype"),
        ("kwargs['mask'].dtype", "mask.dtype"),
        ("self.args[0]", "self.args[0]"),
        ("len(fn[2])", "len(self.net[2])"),
    ],
)
def test_an_expression_is_the_programs_own(text, named):
    assert ROOT.named(text) == named


def test_an_inputs_source_is_that_of_forward():
    assert ROOT.named_source("L['args'][0]") == "L['input']"
    assert ROOT.named_source("L['args'][1].size()[0]") == "L['rest'][0].size()[0]"
    assert ROOT.named_source("L['args'][5]") == "L['args'][5]"
    assert ROOT.named_source("L['fn']._modules['0']") == "L['self'].net._modules['0']"


@for_each(
    "file, expected",
    [
        ("/env/graphdoctor/probe/__main__.py", True),
        ("/env/graphdoctor/probe/steps/workload.py", True),
        ("C:\\env\\graphdoctor\\probe\\record\\backend.py", True),
        ("/home/me/graphdoctor/tools/probe/model.py", False),
        ("/env/graphdoctor/probes/model.py", False),
    ],
)
def test_the_probe_is_known_by_its_path(file: str, *, expected: bool) -> None:
    assert is_probe(file) is expected
