"""One guard's text to what it checks, and nothing that raises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoctor.trace.guards.text import parse_guard

GLOBAL = (
    '___check_global_state() against {"allow_bf16_reduce":0,"allow_tf32":false,"autocast_state":{"cached_enabled":true,'
    '"dtype":[15,5],"enabled":[false,false]},"default_dtype":6,"deterministic_algorithms":false,"grad_mode":true,'
    '"num_threads":2,"torch_function":true,"torch_function_all_disabled":false}'
)
TENSOR = "check_tensor({0}, Tensor, DispatchKeySet(CPU, BackendSelect, AutogradCPU), torch.float32, device=None, {1})"
W = "L['self']._modules['h']._modules['0']._parameters['w']"


@pytest.mark.parametrize(
    ("text", "kind", "source", "expected"),
    [
        ("EQUALS_MATCH: L['f'] == 1.5", "EQUALS_MATCH", "L['f']", "1.5"),
        ("L['name'] == 'a  # b == c'", "EQUALS_MATCH", "L['name']", "'a  # b == c'"),
        (
            f"TENSOR_MATCH: {TENSOR.format('L[chr]', 'requires_grad=False, size=[4, 4], stride=[4, 1]')}",
            "TENSOR_MATCH",
            "L[chr]",
            "f32[4, 4]",
        ),
        (
            TENSOR.format(W, "requires_grad=True, size=[None, 4], stride=[4, 1]"),
            "TENSOR_MATCH",
            W,
            "f32[any, 4], requires grad",
        ),
        (
            TENSOR.format("L['x']", "requires_grad=False, size=[4, 4], stride=[1, 4]"),
            "TENSOR_MATCH",
            "L['x']",
            "f32[4, 4], strides [1, 4]",
        ),
        (
            "check_tensor(L['x'], Tensor, DispatchKeySet(CUDA, AutogradCUDA), torch.int64, device=1, "
            "requires_grad=False, size=[], stride=[])",
            "TENSOR_MATCH",
            "L['x']",
            "i64[] cuda:1",
        ),
        (
            "ID_MATCH: ___check_obj_id(L['fn'].__code__, 140091214008592), type=<class 'code'>",
            "ID_MATCH",
            "L['fn'].__code__",
            "the same code object",
        ),
        ("___check_obj_id(G['torch'], 1), type=<class 'module'>", "ID_MATCH", "G['torch']", "the same module"),
        (
            "TYPE_MATCH: ___check_type_id(L['d'], 140091221970592), type=<class 'dict'>",
            "TYPE_MATCH",
            "L['d']",
            "a dict",
        ),
        ("___check_type_id(L['m'], 1), type=<class 'demo.net.Inner'>", "TYPE_MATCH", "L['m']", "an Inner"),
        ("LENGTH_CHECK: len(L['lst']) == 2", "LENGTH_CHECK", "L['lst']", "length 2"),
        ("LENGTH_CHECK: not L['self']._forward_hooks", "LENGTH_CHECK", "L['self']._forward_hooks", "empty"),
        ("NONE_MATCH: L['flag'] is None", "NONE_MATCH", "L['flag']", "None"),
        ("DICT_CONTAINS: not ___dict_contains('z', L['d'])", "DICT_CONTAINS", "L['d']", "no key 'z'"),
        ("___dict_contains('z', L['d'])", "DICT_CONTAINS", "L['d']", "key 'z'"),
        (
            "hasattr(L['x'], '_dynamo_dynamic_indices') == False",
            "DIMENSION_DYNAMIC_MARKING_GUARD",
            "L['x']",
            "no dynamic marking",
        ),
        ("HASATTR: not hasattr(L['x'], 'scale')", "HASATTR", "L['x']", "no attribute scale"),
        (
            f"GLOBAL_STATE: {GLOBAL}",
            "GLOBAL_STATE",
            None,
            "grad mode on, autocast off, default dtype f32, deterministic algorithms off, 2 threads",
        ),
        (
            "TORCH_FUNCTION_MODE_STACK: ___check_torch_function_mode_stack()",
            "TORCH_FUNCTION_MODE_STACK",
            None,
            "the same torch function modes",
        ),
        ("DEFAULT_DEVICE: utils_device.CURRENT_DEVICE == None", "DEFAULT_DEVICE", None, "no default device"),
        ("LAMBDA_GUARD: 2 <= L['x'].size()[0]", "LAMBDA_GUARD", "L['x'].size()[0]", "at least 2"),
        (
            "LAMBDA_GUARD: L['y'].size()[0] == L['x'].size()[0]",
            "LAMBDA_GUARD",
            "L['y'].size()[0]",
            "equal to L['x'].size()[0]",
        ),
        ("LAMBDA_GUARD: not math.isnan(L['f'])", "LAMBDA_GUARD", "L['f']", "not NaN"),
        (
            "OBJECT_ALIASING: G['a'].F is G['torch'].nn",
            "OBJECT_ALIASING",
            "G['a'].F",
            "the same object as G['torch'].nn",
        ),
        ("DICT_KEYS_MATCH: list(dict.keys(L['d'])) == ['a', 'b']", "DICT_KEYS_MATCH", "L['d']", "the keys ['a', 'b']"),
        ("EQUALS_MATCH: list(dict.keys(L['d']))[0] == 'a'", "EQUALS_MATCH", "list(dict.keys(L['d']))[0]", "'a'"),
        ("tensor 'x' size mismatch at index 0. expected 4, actual 5", "TENSOR_MATCH", "x", "size 4 in dim 0"),
        ("0/0: tensor 'x' dtype mismatch. expected Float, actual Double", "TENSOR_MATCH", "x", "dtype Float"),
        ("0/0: x == 3", "EQUALS_MATCH", "x", "3"),
    ],
)
def test_a_guard_is_read(text: str, kind: str, source: str | None, expected: str) -> None:
    found = parse_guard(text)
    assert (found.kind, found.source, found.expected) == (kind, source, expected)


def test_the_line_that_made_the_guard() -> None:
    found = parse_guard(
        "TYPE_MATCH: ___check_type_id(L['d'], 14), type=<class 'dict'>  # if 'z' not in d:  # why  # p/my net.py:16 in "
        "forward (HINT: type dict)"
    )
    assert (found.code, found.file, found.line, found.function) == (
        "if 'z' not in d:  # why",
        "p/my net.py",
        16,
        "forward",
    )
    assert found.hint == "type dict"
    assert found.guard == "___check_type_id(L['d'], 14), type=<class 'dict'>"


def test_a_note_behind_the_place_is_the_hint() -> None:
    found = parse_guard("2 <= L['x'].size()[0]  # y = f(x)  # nn/linear.py:134 in <lambda> (user code shown (here))")
    assert (found.file, found.line, found.function, found.hint) == (
        "nn/linear.py",
        134,
        "<lambda>",
        "user code shown (here)",
    )


def test_a_comment_without_a_place_is_a_hint() -> None:
    found = parse_guard("not math.isnan(L['f'])  # implicit guard for float input")
    assert (found.code, found.line, found.hint) == (None, None, "implicit guard for float input")


def test_a_recompile_reason_with_its_stack() -> None:
    found = parse_guard(
        "0/1: self.scale == 3  # x * s  # l.py:9 in forward\nUser stack trace:\n"
        '  File "/p/model.py", line 9, in forward\n    return x * self.scale\n'
    )
    assert (found.source, found.expected, found.file, found.line) == ("self.scale", "3", "/p/model.py", 9)
    assert found.code == "return x * self.scale"


def test_an_address_is_never_shown() -> None:
    assert "1397" not in str(parse_guard("___check_obj_id(L['m'], 1397123), type=<class 'a.B'>").expected)


def test_other_text_is_kept() -> None:
    found = parse_guard("SOMETHING_NEW: it is as it was")
    assert (found.kind, found.guard, found.expected) == ("SOMETHING_NEW", "it is as it was", None)


_PIECES = st.sampled_from(
    [
        "L['x']",
        "check_tensor(",
        "___check_obj_id(",
        ")",
        "(",
        "'",
        '"',
        " == ",
        "  # ",
        ":3 in f",
        "[",
        "]",
        ", ",
        "is ",
        "not ",
        "HINT: ",
        "size=[4, ",
        "EQUALS_MATCH: ",
        "\n",
        "\\",
        "list(",
        "hasattr(",
        "___check_global_state() against {",
    ]
)


@given(st.one_of(st.text(), st.lists(_PIECES | st.text(max_size=3)).map("".join)))
def test_no_text_raises_and_none_is_lost(text: str) -> None:
    found = parse_guard(text)
    assert isinstance(found.guard, str)
    assert found.expected is None or len(found.expected) <= 120
