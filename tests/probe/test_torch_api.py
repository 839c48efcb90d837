"""What torch.compile made is taken apart, and trees of values are walked."""

from collections import OrderedDict

import pytest

torch = pytest.importorskip("torch")

from graphdoctor.probe.torch_private import torch_api
from tests.each import for_each


@pytest.mark.slow
def test_what_torch_compile_made_is_taken_apart():
    module = torch.nn.Linear(2, 2)
    assert torch_api.original_callable(torch.compile(module)) is module

    def function(): ...

    assert torch_api.original_callable(torch.compile(function)) is function
    assert torch_api.original_callable(function) is function


class _Named(OrderedDict[str, object]):
    """As transformers 4 has its outputs: a node of torch's trees, without names for what it
    holds."""


class _Pair:
    def __init__(self, *items):
        self.items = items


for _node in (
    (
        _Named,
        lambda leaves: (list(leaves.values()), list(leaves)),
        lambda items, keys: _Named(zip(keys, items, strict=True)),
    ),
    (_Pair, lambda leaves: (leaves.items, None), lambda items, _: _Pair(*items)),
):
    torch.utils._pytree.register_pytree_node(*_node)


@for_each(
    "value, paths",
    [
        (_Named(logits=1, loss=2), {"['logits']": 1, "['loss']": 2}),
        ({"a": [_Named(x=(1, 2))]}, {"['a'][0]['x'][0]": 1, "['a'][0]['x'][1]": 2}),
        (
            _Pair(_Named(x=_Pair(1, {"y": 2})), 3),
            {"[0]['x'][0]": 1, "[0]['x'][1]['y']": 2, "[1]": 3},
        ),
        ([_Named(), 1], {"[1]": 1}),
    ],
)
def test_what_is_in_containers_without_names_has_a_path(value, paths):
    leaves = dict(torch_api.tree_leaves_with_path(value))
    assert leaves == paths
    assert list(leaves.values()) == torch_api.tree_leaves(value)
