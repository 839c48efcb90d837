"""The tensors in calls in another dtype, or with another batch size."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch

from graphdoctor.probe.record.errors import RequestError
from graphdoctor.probe.replay.arguments import InDtype, WithBatch, batch_size_of
from graphdoctor.probe.target.options import dtype_named
from graphdoctor.probe.target.targets import items_in, lacks_batch
from tests.each import for_each

Pair = namedtuple("Pair", "left right")


@dataclass(frozen=True)
class Frozen:
    image: torch.Tensor
    name: str = "n"


class Callable(SimpleNamespace):
    """As torch-geometric's ``Data``, which can be called."""

    def __call__(self): ...


def function(x, y=None, **kwargs):
    return x


def in_bfloat16(*args, **kwargs):
    return InDtype(torch.bfloat16, function)((args, kwargs))


def with_batch(size, *args, **kwargs):
    return WithBatch(size, function, lambda _: None)((args, kwargs))


def test_only_floating_point_tensors_are_converted():
    args, kwargs = in_bfloat16(
        torch.ones(2), torch.ones(2, dtype=torch.int64), z=torch.ones(2, dtype=torch.complex64)
    )
    assert [value.dtype for value in (*args, *kwargs.values())] == [
        torch.bfloat16,
        torch.int64,
        torch.complex64,
    ]


@for_each(
    "make",
    [
        lambda x: [x],
        lambda x: (1, x),
        lambda x: {"a": {"b": [x]}},
        lambda x: Pair(1, x),
        Frozen,
        lambda x: SimpleNamespace(deep=SimpleNamespace(x=x)),
        lambda x: Callable(x=x),
    ],
)
def test_tensors_are_found_in_containers_and_objects(make):
    (value,), _ = in_bfloat16(make(torch.ones(2)))
    expected = make(torch.ones(2, dtype=torch.bfloat16))
    assert type(value) is type(expected)
    assert str(value) == str(expected)


def test_containers_and_objects_stay_the_same_objects():
    held = SimpleNamespace(x=torch.ones(2))
    inner = [torch.ones(2)]
    args, _ = in_bfloat16(held, (inner,))
    assert args[0] is held
    assert args[1][0] is inner
    assert held.x.dtype is inner[0].dtype is torch.bfloat16


def test_a_tensor_in_several_places_or_calls_stays_one():
    change = InDtype(torch.bfloat16, function)
    x = torch.ones(2)
    (first, (inner,)), kwargs = change(((x, [x]), {"z": {"x": x}}))
    assert first is inner is kwargs["z"]["x"]
    first.add_(1)
    (second,), _ = change(((x,), {}))
    assert second is first


def test_what_is_ours_stays_even_if_a_replay_converts_it():
    change = InDtype(torch.bfloat16, function)
    held = [torch.ones(2)]
    change(((held,), {}))
    ours = held[0]
    ours.data = ours.data.double()
    change(((held,), {}))
    assert held[0] is ours
    assert ours.dtype is torch.float64


def test_a_leaf_that_requires_a_gradient_stays_one():
    parameter = torch.nn.Parameter(torch.ones(2))
    marked = torch.ones(2, requires_grad=True) * 2
    marked.mark = "kept"
    (kept, other), _ = in_bfloat16(parameter, marked)
    assert isinstance(kept, torch.nn.Parameter)
    assert kept.is_leaf and other.is_leaf and kept.requires_grad and other.requires_grad
    assert other.mark == "kept"


def test_memory_formats_stay():
    image = torch.ones(2, 3, 4, 4).to(memory_format=torch.channels_last)
    for changed, size in ((in_bfloat16(image), 2), (with_batch(5, image), 5)):
        ((value,), _) = changed
        assert value.shape == (size, 3, 4, 4)
        assert value.is_contiguous(memory_format=torch.channels_last)


def test_a_module_is_converted_but_for_complex_and_integer_tensors():
    module = torch.nn.BatchNorm1d(2)
    module.register_buffer("angles", torch.ones(2, dtype=torch.complex64))
    in_bfloat16(torch.ones(2), module)
    dtypes = {name: value.dtype for name, value in module.state_dict().items()}
    assert dtypes["weight"] is dtypes["running_mean"] is torch.bfloat16
    assert dtypes["num_batches_tracked"] is torch.int64
    assert dtypes["angles"] is torch.complex64


def test_a_dtype_that_the_device_lacks_is_refused(monkeypatch):
    def refuse(*_, **__):
        raise TypeError("Cannot convert a MPS Tensor to float64 dtype.\nUse float32.")

    assert dtype_named("float64", torch.device("cpu")) is torch.float64
    assert dtype_named(None, None) is None
    monkeypatch.setattr(torch, "ones", refuse)
    with pytest.raises(RequestError) as caught:
        dtype_named("float64", torch.device("meta"))
    assert caught.value.code == "unusable_dtype"
    expected = {
        "dtype": "float64",
        "device": "meta",
        "error": "Cannot convert a MPS Tensor to float64 dtype.",
    }
    assert caught.value.values == expected


# The batch size.


@for_each(
    "shapes, size",
    [
        ([(4, 8)], 4),
        ([(4, 8), (4,), (4, 3, 2)], 4),
        ([(4, 8), (1, 8)], 4),
        ([(1, 8), (1, 3)], 1),
        # A causal mask beside queries, keys and values.
        ([(2, 16, 8), (2, 16, 8), (2, 16, 8), (16, 16)], 2),
        # A weight: its rows are the columns of the batch.
        ([(4, 8), (8, 16)], 4),
        ([(8, 16), (4, 8)], 4),
        # Positions of what is in the second dim.
        ([(1, 64, 32), (1, 12, 32), (1,), (64, 3), (12, 3)], 1),
        # Nodes and edges.
        ([(34, 16), (2, 156)], None),
        ([(34, 16), (2, 156), (34,)], None),
        # A table and indices.
        ([(100, 8), (4, 7)], None),
        ([(4, 8), (8, 4)], None),
        ([(1, 3, 8, 8), (5,)], None),
    ],
)
def test_the_batch_is_the_size_that_explains_all_others(shapes, size):
    assert batch_size_of(shapes) == size


def test_rows_are_repeated_and_cut():
    x = torch.arange(3.0)[:, None]
    for size, rows in ((5, [0, 1, 2, 0, 1]), (2, [0, 1])):
        assert with_batch(size, x)[0][0].flatten().tolist() == rows


def test_tensors_without_the_batch_stay():
    x = torch.ones(2, 16, 8)
    mask = torch.ones(16, 16)
    scalar = torch.tensor(1.0)
    args, kwargs = with_batch(7, x, mask, scalar=scalar, mask=torch.ones(2, 16, dtype=torch.bool))
    assert args[0].shape == (7, 16, 8)
    assert args[1] is mask
    assert kwargs["scalar"] is scalar
    assert (kwargs["mask"].shape, kwargs["mask"].dtype) == ((7, 16), torch.bool)


def test_later_calls_change_the_tensors_of_the_first():
    changed = []
    change = WithBatch(
        3, function, lambda leaves: changed.extend(leaf.expression for leaf in leaves)
    )
    change(((torch.ones(2, 16), torch.ones(16, 16)), {}))
    (x, mask), _ = change(((torch.ones(16, 16), torch.ones(16, 16)), {}))
    assert (x.shape[0], mask.shape[0]) == (3, 16)
    assert changed == ["x"]
    # One that the first call lacks is judged by its size.
    change = WithBatch(3, function, lambda changed: None)
    change(((torch.ones(2, 5),), {}))
    (x, y), _ = change(((torch.ones(4, 5), [torch.ones(4), torch.ones(5)]), {}))
    assert (x.shape[0], y[0].shape[0], y[1].shape[0]) == (3, 3, 5)


def test_views_of_other_rows_are_made_alone():
    x = torch.arange(8.0).reshape(4, 2)
    (left, right), _ = with_batch(3, x[:2], x[2:])
    assert (left.tolist(), right.tolist()) == ([[0, 1], [2, 3], [0, 1]], [[4, 5], [6, 7], [4, 5]])
    assert with_batch(3, torch.ones(1, 2).expand(2, 2))[0][0].shape == (3, 2)
    assert with_batch(4, x)[0][0] is x


@for_each(
    "size, args, code, values",
    [
        *(
            (4, args, "no_batch", {"tensors": []})
            for args in ((), (3, "x"), (torch.tensor(1.0),), (torch.empty(0, 3),))
        ),
        (
            4,
            (torch.ones(34, 16), torch.ones(2, 9)),
            "no_batch",
            {"tensors": ["x [34, 16]", "y [2, 9]"]},
        ),
        (2**61, (torch.ones(2, 3),), "unusable_batch", {"tensor": "x"}),
    ],
)
def test_a_call_without_a_clear_batch_is_refused(size, args, code, values):
    with pytest.raises(RequestError) as caught:
        with_batch(size, *args)
    assert caught.value.code == code
    assert caught.value.values.items() >= values.items()


@for_each(
    "output, is_lacking",
    [
        (torch.ones(5, 2), False),
        ({"a": [torch.ones(1), torch.ones(7, 5)]}, False),
        # Rows of all samples, one after the other.
        (torch.ones(65, 2), False),
        # A loss doesn't tell.
        (torch.tensor(1.0), False),
        (None, False),
        (torch.ones(1, 16), True),
        ((torch.tensor(1.0), torch.ones(4, 16)), True),
        (torch.ones(0, 16), True),
    ],
)
def test_what_is_returned_can_speak_against_a_batch(output, is_lacking):
    assert lacks_batch(output, 5) is is_lacking


@for_each(
    "passed, returned, items",
    [
        ([(32, 8)], (32, 4), 32),
        ([(32, 8), (32,)], (32,), 32),
        # Any of the dims could be the batch.
        ([(100, 100), (100, 100)], (100, 100), None),
        ([(8, 8)], (8, 8), None),
        ([(100, 50), (50, 100)], (100, 100), None),
    ],
)
def test_samples_are_counted_only_where_one_dim_is_the_batch(passed, returned, items):
    found = items_in((tuple(map(torch.zeros, passed)), {}), torch.zeros(returned))
    assert (found and found["count"]) == items
