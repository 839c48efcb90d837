"""When what two replays gave is the same, and how a difference is named."""

from __future__ import annotations

import logging
import os
import warnings
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from graphdoctor.facts.reading import plain, read_fact
from graphdoctor.facts.trials import Difference
from graphdoctor.probe.record.streams import kept_texts
from graphdoctor.probe.replay import comparing
from graphdoctor.probe.replay.comparing import Rounding
from graphdoctor.probe.replay.results import (
    Results,
    copies_of,
    gradients_of,
    modules_of,
    tensors_in,
)
from graphdoctor.views.reasons import detail_text
from tests.each import for_each


def compare(mine, other, rounding=None):
    return plain(comparing.compared(mine, other, rounding))


def of(value):
    result = Results()
    result.add_call(value)
    return result


def written(kind, text):
    result = Results()
    result.add_written({kind: text})
    return result


def state(module, **attributes):
    """What a module keeps after the calls."""
    vars(module).update(attributes)
    result = Results()
    result.add_state({"": module})
    return result


def compared(mine, other):
    """The only difference of two outputs."""
    [difference] = compare(of(mine), of(other))["differences"]
    return difference


def detail_of(difference):
    return detail_text(read_fact(Difference, difference))


def test_results_survive_the_disk_and_are_equal_within_tolerance(tmp_path):
    first = of({"loss": torch.ones(3), "name": "x", "none": None})
    second = of({"loss": torch.ones(3) + 1e-7, "name": "x", "none": None})
    first.save(tmp_path / "first.pt")
    assert compare(second, Results.load(tmp_path / "first.pt")) == {
        "kinds": ["outputs"],
        "differences": [],
        "is_bitwise_equal": False,
        "counts": [["outputs", 3]],
        "rounded": ["outputs"],
        "zero_gradients": [],
        "retyped": None,
        "note": None,
    }


@for_each(
    "mine, largest, detail",
    [
        ({"a": torch.ones(2)}, 1.0, None),
        ({"a": torch.zeros(3)}, None, "f32[3] instead of f32[2]"),
        ({"a": torch.zeros(2, dtype=torch.float64)}, None, "f64[2] instead of f32[2]"),
        ({"a": torch.full((2,), float("nan"))}, None, "NaN or infinity"),
        ({"a": "text"}, None, "text instead of f32[2]"),
        ({"a": 1.5}, None, "1.5 instead of f32[2]"),
        ({}, None, "is missing"),
    ],
)
def test_what_differs_is_named(mine, largest, detail):
    difference = compared(mine, {"a": torch.zeros(2)})
    assert (difference["kind"], difference["where"]) == ("outputs", "call 1, output['a']")
    assert (difference["largest"], detail_of(difference)) == (largest, detail)


def test_containers_must_match_and_the_largest_difference_is_reported():
    assert compared([torch.zeros(2)], (torch.zeros(2),))["where"] == "call 1, structure"
    difference = compared([torch.ones(2), torch.full((2,), 5.0)], [torch.zeros(2), torch.zeros(2)])
    assert (difference["where"], difference["largest"]) == ("call 1, output[1]", 5.0)
    assert compare(Results(), of(torch.ones(1)))["differences"][0]["presence"] == "missing"


@pytest.mark.parametrize("both", [float("nan"), float("inf")])
def test_equal_non_finite_elements_are_no_difference(both):
    difference = compared(torch.tensor([both, 1.0]), torch.tensor([both, 3.0]))
    assert (difference["largest"], detail_of(difference)) == (2.0, None)


def test_tensors_inside_objects_of_the_program_are_compared():
    @dataclass
    class Loss:
        value: Any

    for make in (Loss, lambda value: SimpleNamespace(value=value)):
        difference = compared(make(torch.ones(1)), make(torch.zeros(1)))
        assert difference["where"] == "call 1, output.value"


def test_state_is_parameters_buffers_gradients_and_plain_attributes():
    def changed(change=lambda module: None):
        module = torch.nn.Sequential(torch.nn.BatchNorm1d(2))
        vars(module).update(seen=1, cache=torch.zeros(2), losses=[0.5], _last={"loss": 1.0})
        module[0].weight.grad = torch.ones(2)
        change(module)
        return state(module)

    assert compare(changed(), changed())["differences"] == []
    for change, where in (
        (lambda module: module[0].running_mean.add_(1), "0.running_mean after the calls"),
        (lambda module: module[0].weight.data.add_(1), "0.weight after the calls"),
        (lambda module: setattr(module, "seen", 2), "seen after the calls"),
        (lambda module: module.cache.add_(1), "cache after the calls"),
        (lambda module: module.losses.append(1.0), "losses after the calls"),
        (lambda module: module.__dict__.pop("cache"), "cache after the calls"),
        (
            lambda module: module.losses.__setitem__(0, torch.tensor(0.75)),
            "losses[0] after the calls",
        ),
        (lambda module: module._last.update(loss=2.0), "_last['loss'] after the calls"),
        (lambda module: module[0].weight.grad.add_(1), "gradient of 0.weight after the calls"),
    ):
        assert [
            difference["where"] for difference in compare(changed(change), changed())["differences"]
        ] == [where]


def test_an_argument_that_a_call_mutates_is_kept():
    def run(factor, before=1.0):
        arguments = tensors_in({"x": [torch.full((2,), before)], "n": 3})
        copies = copies_of(arguments)
        arguments["x[0]"].copy_(factor * torch.ones(2))
        result = Results()
        result.add_call(None)
        result.add_arguments(copies, arguments)
        return result

    assert compare(run(1.0), run(1.0))["kinds"] == ["outputs"]
    [difference] = compare(run(2.0), run(3.0))["differences"]
    assert difference["where"] == "call 1, argument x[0] after it"
    assert compare(run(1.0), run(3.0))["differences"][0]["presence"] == "missing"
    # Zeros written over NaN are a change.
    assert list(run(0.0, before=float("nan")).values["state"])
    assert not run(float("nan"), before=float("nan")).values["state"]


def test_gradients_are_weighted_alike_in_every_dtype():
    x = torch.randn(4, requires_grad=True)
    gradients = gradients_of(torch.softmax(x, 0), {}, {"x": x})
    assert gradients["x"] is not None
    assert gradients["x"].abs().max() > 1e-3
    assert x.grad is None
    module = torch.nn.Linear(2, 2)
    gradients = gradients_of(
        module(torch.ones(1, 2)), {"": module, "other": torch.nn.Linear(1, 1)}, {}
    )
    assert set(gradients) == {"weight", "bias", "other.weight", "other.bias"}
    assert gradients["other.weight"] is None

    def weighted(dtype):
        module = torch.nn.Linear(3, 2, bias=False).to(dtype)
        torch.nn.init.ones_(module.weight)
        return gradients_of(module(torch.ones(4, 3, dtype=dtype)), {"": module}, {})["weight"]

    single = weighted(torch.float32)
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.equal(weighted(torch.float64).float(), single)
    finally:
        torch.set_default_dtype(torch.float32)


def test_gradients_are_weighted_alike_whatever_the_default_device():
    x = torch.randn(4, requires_grad=True)
    expected = gradients_of(torch.softmax(x, 0), {}, {"x": x})["x"]
    with torch.device("meta"):
        gradients = gradients_of(torch.softmax(x, 0), {}, {"x": x})
    assert torch.equal(gradients["x"], expected)


def test_modules_are_found_in_closures_and_globals():
    model = torch.nn.Linear(2, 2)

    def step(x):
        return model(x)

    assert modules_of(step) == {"model": model}
    assert modules_of(model) == {"": model}
    assert modules_of(model.forward) == {"self": model}


def test_printed_text_is_compared_by_lines():
    first, *others = [written("stdout", text) for text in ("a\nb\nc\n", "a\nc\n", "a\nb\nd\n")]
    details = [detail_of(compare(result, first)["differences"][0]) for result in others]
    assert details == ["2 of 3 lines; the first missing one: 'b'", "'d' instead of 'c'"]


@for_each(
    "text, change", [
        ("a 1\nc 3\n", "fewer"), ("a 1\nb 9\nc 3.5e-4\n", "numbers"), ("a 7\nc 3\n", "fewer_and_numbers"),
        ("c 3\na 1\n", "other"), ("a 1\nb 2\nc 3\nd\n", "other"), ("", "fewer"),
    ],
)  # fmt: skip
def test_how_a_text_differs_is_said(text, change):
    [difference] = compare(written("logs", text), written("logs", "a 1\nb 2\nc 3\n"))["differences"]
    assert (difference["kind"], difference["change"]) == ("logs", change)


def rounding(precise, eager, *others, judged="changed"):
    return Rounding(of(precise), of(eager), [of(other) for other in others], judged=judged)


@for_each(
    "precise, eager, mine, judged, is_same",
    [
        # A run that diverges says nothing of rounding.
        ([0.2, 5.0], [1.0, 2.0], [1.0, 2.1], "changed", False),
        # The untouched program may lose half the digits.
        ([100.0], [100.001], [100.02], "untouched", True),
        ([100.0], [100.001], [100.09], "untouched", False),
    ],
)
def test_a_float64_run_measures_what_it_computes_alike(precise, eager, mine, judged, is_same):
    eager = torch.tensor(eager)
    measure = rounding(torch.tensor(precise, dtype=torch.float64), eager, judged=judged)
    assert (not compare(of(torch.tensor(mine)), of(eager), measure)["differences"]) is is_same


def test_near_zero_value_is_measured_by_its_kinds_largest():
    large = torch.tensor([1e4])
    precise = large.double(), torch.zeros(1, dtype=torch.float64)
    eager = (large, torch.tensor([3e-4]))
    for value, is_same in ((-5e-4, True), (2e-3, False)):
        mine = (large, torch.tensor([value]))
        differences = compare(of(mine), of(eager), rounding(precise, eager))["differences"]
        assert (not differences) is is_same


def test_attribute_set_only_by_torch_or_edits_is_ignored():
    mine = state(torch.nn.Identity(), seen=1, _is_torch_compile=True, kept=[1])
    assert compare(mine, state(torch.nn.Identity(), seen=1))["differences"] == []


@for_each("number, kept, is_same", (
    (0.1, torch.tensor(0.1), True),
    ([0.1, 2], [torch.tensor(0.1), torch.tensor(2)], True),
    (0.1, torch.tensor(0.2), False),
    (0.1, torch.tensor([0.1]), False),
    (2, torch.tensor(2.0), False),
    (2.0, torch.tensor(2), False),
    (True, torch.tensor(True), True),
    (True, torch.tensor(1), False),
    (1, torch.tensor(True), False),
    (None, torch.tensor(0.0), False),
    ("2", torch.tensor(2), False),
    (2, 2.0, False),
    (1, True, False),
    (0, None, False),
))  # fmt: skip
def test_number_may_be_kept_as_a_tensor_of_it(number, kept, is_same):
    before, after = (state(torch.nn.Identity(), last=[value]) for value in (number, kept))
    comparison = compare(after, before)
    assert (comparison["differences"] == []) is is_same
    # What changed is said all the same.
    assert (comparison["retyped"] is not None) is is_same
    assert compare(before, after)["differences"] != []
    assert compare(of(kept), of(number))["differences"] != []


def test_no_rounding_makes_a_tensor_of_a_number():
    number = 0.1
    tensor = torch.tensor(0.1)
    precise = torch.tensor(0.1, dtype=torch.float64)
    for value, reference in ((tensor, number), (number, tensor)):
        near = rounding(precise, reference, of(reference))
        (difference,) = compare(of(value), of(reference), near)["differences"]
        assert not difference["may_be_rounding"]


def test_logs_and_warnings_are_kept_but_torchs_are_not():
    with kept_texts() as texts:
        logging.getLogger("net").warning("shape %s", (2, 3))
        logging.getLogger("torch._dynamo").warning("of torch, by %s", "the test")
        logging.getLogger("net").info("not shown")
        warnings.warn("slow\nreally", stacklevel=1)
        os.write(2, b"plain\n")
        os.write(1, b"out\n")
    kept = texts()
    assert kept["stdout"] == "out\n"
    assert "plain\n" in kept["stderr"]
    assert kept["logs"].splitlines()[0] == "WARNING net: shape (2, 3)"
    assert kept["warnings"].splitlines() == ["UserWarning: slow", "really"]


def test_changed_files_are_kept_but_the_compilers_are_not(tmp_path):
    code = compile(
        "open(path, 'w').close(); open(path).close(); os.remove(path)", "program.py", "exec"
    )
    with kept_texts() as texts:
        exec(code, {"os": os, "path": f"{tmp_path}/seen.txt"})
        exec(
            compile("open(path, 'w')", f"{os.sep}_inductor{os.sep}x.py", "exec"),
            {"path": tmp_path / "a"},
        )
    lines = texts()["files"].splitlines()
    assert lines == [f"open {tmp_path}/seen.txt", f"os.remove {tmp_path}/seen.txt"]


def test_once_per_process_warning_is_not_kept():
    was = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with kept_texts() as texts, warnings.catch_warnings():
            warnings.simplefilter("always")
            float(torch.ones(1, requires_grad=True))
            warnings.warn("mine", stacklevel=1)
    finally:
        torch.set_warn_always(was)
    assert texts()["warnings"] == "UserWarning: mine"


def test_a_warning_is_written_alike_wherever_an_edit_moves_it(monkeypatch):
    shown = []
    monkeypatch.setattr(warnings, "showwarning", lambda *rest: shown.append(rest))
    with kept_texts() as texts:
        warnings.warn("slow", stacklevel=1)
        warnings.warn_explicit("slow", UserWarning, "other.py", 12)
    assert texts()["warnings"].splitlines() == ["UserWarning: slow"] * 2
    first, second = ([str(part) for part in rest] for rest in shown)
    assert first == second


@for_each(
    "mine, change",
    [
        ({"times": {"a": 2.0}, "all": [1.0]}, "numbers"),
        ({"times": {}, "all": [1.0]}, "fewer"),
        ({"times": {}, "all": [3.0]}, "fewer_and_numbers"),
        ({"times": {"a": 2.0, "b": 1.0}, "all": [1.0]}, "other"),
        ({"times": {"a": True}, "all": [1.0]}, "other"),
        ({"times": [1.0], "all": [1.0]}, "other"),
    ],
)
def test_what_modules_keep_differs_in_numbers_or_by_less(mine, change):
    before = state(torch.nn.Module(), times={"a": 1.0}, all=[1.0])
    [difference] = compare(state(torch.nn.Module(), **mine), before)["differences"]
    assert (difference["kind"], difference["change"]) == ("state", change)
    # A tensor is no number.
    first, other = (
        state(torch.nn.Module(), time=value, total=torch.tensor(value)) for value in (1.0, 2.0)
    )
    assert [item["change"] for item in compare(other, first)["differences"]] == ["other"]


@for_each(
    "mine, is_equal",
    [
        (torch.tensor([1.0, float("nan"), 0.0]), True),
        (-torch.tensor([-1.0, float("nan"), -0.0]), True),  # another NaN
        (torch.tensor([1.0, float("nan"), -0.0]), False),
        (torch.tensor([1.0, 2.0, 0.0]), False),
        (torch.tensor([1.0 + 2**-23, float("nan"), 0.0]), False),
        (torch.tensor([1.0, float("nan"), 0.0], dtype=torch.float64), False),
    ],
)
def test_bits_are_compared(mine, is_equal):
    expected = torch.tensor([1.0, float("nan"), 0.0])
    texts = {"stdout": "said otherwise"}
    result = of((mine, 3, torch.tensor(True), torch.ones(2, 3, dtype=torch.bfloat16).t()))
    result.add_written(texts)
    reference = of((expected, 3, torch.tensor(True), torch.ones(3, 2, dtype=torch.bfloat16)))
    assert compare(result, reference)["is_bitwise_equal"] is is_equal


def test_too_large_outputs_are_not_listed_as_compared(monkeypatch):
    monkeypatch.setattr("graphdoctor.probe.replay.results._MAX_BYTES", 4)
    comparison = compare(of(torch.ones(9)), of(torch.ones(9)))
    assert (comparison["kinds"], comparison["note"]) == (
        [],
        "from call 1 on, values are too large to compare",
    )
