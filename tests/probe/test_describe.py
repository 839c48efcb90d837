"""Values in short."""

from collections import deque
from enum import Enum
from types import SimpleNamespace

import torch
from hypothesis import given
from hypothesis import strategies as st

from graphdoctor.probe.record.describe import (
    arguments_text,
    tensor_text,
    value_description,
    value_text,
)
from tests.each import for_each


class Odd:
    def __repr__(self):
        raise RuntimeError("no repr here")

    __str__ = __repr__


class Mode(Enum):
    greedy = 1

    def __repr__(self):
        raise RuntimeError("no repr here either")


@for_each(
    "value, text",
    [
        (torch.zeros(8, 128), "f32[8, 128]"),
        (torch.zeros(()), "f32[]"),
        (torch.zeros(0, 3, dtype=torch.bfloat16), "bf16[0, 3]"),
        (torch.ones(2, dtype=torch.bool), "b8[2]"),
        (torch.empty(2, device="meta"), "f32[2] meta"),
        (torch.zeros(2, dtype=torch.float8_e5m2), "f8e5m2[2]"),
        (torch.nn.Parameter(torch.zeros(2)), "f32[2]"),
        (None, "None"),
        (True, "True"),
        (3, "3"),
        (1.5, "1.5"),
        ("a", "'a'"),
        ((torch.zeros(1), 2), "(f32[1], 2)"),
        ([], "[]"),
        ({"x": torch.zeros(1), 3: None}, "{x: f32[1], 3: None}"),
        (list(range(20)), "[0, 1, 2, 3, 4, 5, 6, 7, … 12 more]"),
        ([[[[1]]]], "[[[<list>]]]"),
        (Odd(), "<Odd>"),
        (torch.Size([1, 2]), "[1, 2]"),
        (torch.float32, "torch.float32"),
        (Mode.greedy, "Mode.greedy"),
    ],
)
def test_a_value_is_named_by_what_matters(value, text):
    assert value_text(value) == text


def test_arguments_are_written_as_in_a_call():
    assert arguments_text((torch.zeros(2), 1), {"flag": True}) == "f32[2], 1, flag=True"
    assert arguments_text((), {}) == ""
    assert len(value_text("x" * 500)) == 82


def test_a_dynamic_size_is_its_symbol():
    sizes = SimpleNamespace(shape=("s0", 4), dtype=torch.float64, device=torch.device("cpu"))
    assert tensor_text(sizes) == "f64[s0, 4]"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.builds(Odd),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers(), inner)
    ),
    max_leaves=30,
)


@given(VALUES | st.binary())
def test_any_value_has_a_text_and_a_description(value):
    assert value_text(value)
    assert value_description(value)["type"] == type(value).__qualname__


def test_a_tensor_is_described_without_its_values():
    described = value_description(torch.empty(1, device="meta").expand(2**40))
    assert (described["dtype"], described["shape"], described["stride"]) == ("f32", [2**40], [0])
    assert described["requires_grad"] is False


def test_a_function_is_described_by_the_line_that_makes_it():
    made = lambda: None
    described = value_description(made)
    assert described["text"] == "`<lambda>`"
    assert described["place"] == f"{__file__}:{made.__code__.co_firstlineno}"
    assert value_description(made.__code__)["place"] == described["place"]


def test_a_dict_is_described_by_its_first_keys():
    described = value_description({f"k{index}": index for index in range(100)})
    assert (len(described["keys"]), described["keys"][0], described["length"]) == (20, "'k0'", 100)


class Losses(list[float]):
    pass


class Counted(list[float]):
    def __len__(self):
        raise RuntimeError("code of the program")


@for_each(
    "value, length",
    [
        ([1], 1),
        ((), 0),
        ({1, 2}, 2),
        (frozenset(), 0),
        (deque([1]), 1),
        (Losses([1.0]), 1),
        (Counted(), None),
    ],
)
def test_a_containers_length_is_read_without_code_of_the_program(value, length):
    assert value_description(value).get("length") == length
