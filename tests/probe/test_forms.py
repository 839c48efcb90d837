"""What callers rely on besides the values of outputs."""

import pytest

torch = pytest.importorskip("torch")

from graphdoctor.probe.replay.comparing import compared, spacing
from graphdoctor.probe.replay.results import Results, forms_in, strides_in, tensors_in


def forms(output, **arguments):
    return forms_in(output, arguments, tensors_in(arguments))


def test_tensor_is_described_without_strides_that_have_no_effect():
    output = torch.ones(3, 1, 2).transpose(0, 2)
    assert strides_in(output) == {"strides of output": "(1, -, 2)"}
    assert forms(output) == {
        "dtype of output": "f32",
        "device of output": "cpu",
        "requires_grad of output": False,
        "memory of output": "memory of its own",
    }


def test_output_that_is_or_views_an_argument_or_another_output_is_named():
    x = torch.ones(2, 2)
    y = x + 1
    memory = forms((x, x.t(), y, y[0], y), x=x)
    assert [memory[f"memory of output[{index}]"] for index in range(5)] == [
        "x itself",
        "memory of x",
        "memory of its own",
        "memory of output[2]",
        "output[2] itself",
    ]


def test_container_that_was_passed_is_told_from_an_equal_one():
    cache = {"keys": [1]}
    assert forms(cache, cache=cache)["identity of output"] == "cache itself"
    assert forms({"keys": cache["keys"]}, cache=cache) == {
        "identity of output": "a new one",
        "identity of output['keys']": "cache['keys'] itself",
    }


def results(*outputs):
    result = Results()
    for output in outputs:
        result.add_call(output)
        result.add_forms(forms(output), strides_in(output))
    return result


def test_forms_differ_though_values_do_not():
    x = torch.ones(2, 3)
    [difference] = compared(results(x.t().contiguous()), results(x.t())).differences
    assert (difference.kind, difference.where) == ("strides", "call 1, strides of output")
    assert (difference.value, difference.reference) == ("(2, 1)", "(1, 3)")


def test_first_call_is_that_of_the_first_difference_not_of_the_largest():
    x = torch.ones(3)
    comparison = compared(results(x, x + 1, x + 5), results(x, x, x))
    [difference] = comparison.differences
    assert (difference.call, difference.where) == (2, "call 3, output")
    assert dict(comparison.counts)["outputs"] == 3
    assert difference.spacings == 5 / 2**-23


def test_spacing_is_that_of_the_dtype():
    assert spacing(1.5, torch.float32) == 2**-23
    assert spacing(-4.0, torch.bfloat16) == 2**-5


def test_results_before_the_only_exception_are_compared():
    raising = results(torch.ones(3))
    raising.add_exception("ValueError: no")
    comparison = compared(raising, results(torch.ones(3), torch.ones(3)))
    [difference] = comparison.differences
    assert (difference.kind, difference.call, difference.value) == (
        "exceptions", 2, "ValueError: no",
    )  # fmt: skip
    assert dict(comparison.counts)["outputs"] == 1
