"""torch's sources in the user's words."""

from __future__ import annotations

from graphdoctor.facts.expressions import (
    argument_source,
    expression,
    is_attribute,
    is_carried,
    is_module_tensor,
    is_own_state,
    size_dim,
)

READS = {
    "L['x']": "x",
    "L['self']._modules['fc']._parameters['weight']": "self.fc.weight",
    "L['self']._modules['0']._buffers['mean']": "self[0].mean",
    "L['self'].scale": "self.scale",
    "L['kwargs']['input_ids']": "kwargs['input_ids']",
    "G['LIMIT']": "LIMIT",
    "kwargs['input_ids']": "kwargs['input_ids']",
    "___normalize_range_iter(L['it'])": "it",
    "___from_numpy(L['a']).size()[0]": "a.shape[0]",
    "dict(type(L['self']).__mro__[1].__dict__)['depth']": "self.depth",
    "dict(type(L['self']._modules['a']).__dict__)['depth']": "self.a.depth",
    "___from_numpy(L['d']['a'][0])": "d['a'][0]",
    "len(L['f'].__closure__[0].cell_contents)": "len((a variable that f captured))",
    "something else": "something else",
    "___stack1 == 2.5": "(value from an earlier line) == 2.5",
}
ARGUMENTS = {
    "L['x']": "L['x']",
    "L['x']['a'][0]": "L['x']['a'][0]",
    "L['kwargs']['x'][0]": "L['x'][0]",
    "L['args'][1]": "L['scale']",
    "L['x'].scale": "L['x'].scale",
    "L['kwargs']['x'].layers[0].keys": "L['x'].layers[0].keys",
    **dict.fromkeys(("L['args'][2]", "L['kwargs']['y']", "L['self']", "L['x'].size()[0]", "")),
}
KINDS = {
    is_own_state: {
        **{
            "L['self'].keys": True,
            "L['self']._modules['attention'].cache['a'][0]": True,
            "L['self']": False,
        },
        **{"L['self']._modules['attention']._buffers['keys']": False, "L['net'].keys": False},
    },
    is_attribute: {
        "L['options'].scale": True,
        "L['caches'][0].keys": True,
        "L['options']['scale.x'][0]": False,
    },
    is_module_tensor: {
        **{
            "L['self']._modules['fc']._parameters['weight']": True,
            "L['self']._buffers['mean']": True,
        },
        **{"L['self'].scale": False},
    },
    is_carried: {"L['___stack1']": True, "L['stack1']": False},
}


def test_sources_read_like_the_users_code():
    assert {source: expression(source) for source in READS} == READS
    assert expression("L['___stack0'][1]", 30) == "(value from line 30)[1]"


def test_a_size_says_its_dim():
    dims = {"x.shape[1]": 1, "d['x'][0].shape[12]": 12, "x.stride(1)": None, "x.shape": None}
    assert {name: size_dim(name) for name in dims} == dims


def test_an_argument_is_found_by_its_own_name():
    assert {source: argument_source(source, ("x", "scale")) for source in ARGUMENTS} == ARGUMENTS
    assert argument_source("L['args'][0]", ("args",)) == "L['args'][0]"
    found = [
        argument_source(f"L['args'][{at}]", ("x", "scale"), first)
        for first in (1, -1)
        for at in (0, 1)
    ]
    assert found == ["L['scale']", None, None, "L['x']"]


def test_kinds_of_sources_are_told_apart():
    for is_kind, cases in KINDS.items():
        assert {source: is_kind(source) for source in cases} == cases
