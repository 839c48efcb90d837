"""The self-test of the private names: what is missing is named, and nothing breaks for it."""

from __future__ import annotations

import logging
from collections import OrderedDict

import pytest

torch = pytest.importorskip("torch")

# Loaded before a name is taken away, as in a probe: what its absence breaks in torch's own imports
# is not the question.
pytest.importorskip("torch._dynamo")

from graphdoctor.probe.torch_private import torch_api
from tests.each import for_each


@pytest.fixture
def traced() -> object:
    """A handler on the trace logger, as TORCH_TRACE makes one."""
    handler = logging.NullHandler()
    torch_api.trace_logger().addHandler(handler)
    yield handler
    torch_api.trace_logger().removeHandler(handler)


@pytest.mark.usefixtures("traced")
def test_this_torch_lacks_nothing() -> None:
    assert torch_api.missing() == {}


def test_a_torch_that_writes_no_trace_is_said_so() -> None:
    logger = torch_api.trace_logger()
    kept, logger.handlers = logger.handlers, []
    try:
        assert any("torch.__trace" in name for name in torch_api.missing())
    finally:
        logger.handlers = kept


@pytest.mark.usefixtures("traced")
def test_a_missing_name_is_listed_with_what_is_lost() -> None:
    for dotted in torch_api._REQUIRED:
        parent, _, name = dotted.rpartition(".")
        with pytest.MonkeyPatch.context() as without:
            without.delattr(torch_api.lookup(parent), name)
            assert list(torch_api.missing()) == [dotted]


def test_without_trace_structured_a_record_of_ours_is_dropped_quietly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(torch._logging, "trace_structured")
    torch_api.write_artifact("graphdoctor_call", {"event": "start"})


@pytest.mark.slow
def test_what_torch_compile_made_is_taken_apart() -> None:
    module = torch.nn.Linear(2, 2)
    assert torch_api.original_callable(torch.compile(module)) is module

    def function() -> None: ...

    assert torch_api.original_callable(torch.compile(function)) is function
    assert torch_api.original_callable(function) is function


class _Named(OrderedDict[str, object]):
    """As transformers 4 has its outputs: a node of torch's trees, without names for what it
    holds."""


class _Pair:
    def __init__(self, *items: object) -> None:
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
def test_what_is_in_containers_without_names_has_a_path(
    value: object, paths: dict[str, object]
) -> None:
    leaves = dict(torch_api.tree_leaves_with_path(value))
    assert leaves == paths
    assert list(leaves.values()) == torch_api.tree_leaves(value)
