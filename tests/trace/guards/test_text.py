"""One guard's text to its pieces and to what it expects, and nothing that raises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoctor.trace.breaks import PrintedEntry
from graphdoctor.trace.guards.forms import Meaning, changes_of, meaning_of
from graphdoctor.trace.guards.text import take_apart, tokenize

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
    assert meaning_of(take_apart(text)) == Meaning(kind, source, expected)


@pytest.mark.parametrize(
    ("text", "compile_id", "expression"),
    [
        ("0/1: x == 3", "0/1", "x == 3"),
        ("0/0_1: x == 3", "0/0_1", "x == 3"),
        ("!0/1/0: L['f'] == 1.5", "!0/1/0", "L['f'] == 1.5"),
        ("!3/1/0_2: x == 3", "!3/1/0_2", "x == 3"),
        ("!0: x == 3", "!0", "x == 3"),
        ("[1/2]: x == 3", "[1/2]", "x == 3"),
        ("rank1:reset2:0/1: x == 3", "rank1:reset2:0/1", "x == 3"),
        ("x: 0/1: y", None, "x: 0/1: y"),
    ],
)
def test_a_compile_id_of_any_form_is_read(text: str, compile_id: str | None, expression: str) -> None:
    found = take_apart(text)
    assert (found.compile_id, found.expression) == (compile_id, expression)


def test_the_line_that_made_the_guard() -> None:
    found = take_apart(
        "TYPE_MATCH: ___check_type_id(L['d'], 14), type=<class 'dict'>  # if 'z' not in d:  # why  # p/my net.py:16 in "
        "forward (HINT: type dict)"
    )
    assert found.place == PrintedEntry("p/my net.py", 16, "forward", "if 'z' not in d:  # why")
    assert (found.hint, found.kind) == ("type dict", "TYPE_MATCH")
    assert found.expression == "___check_type_id(L['d'], 14), type=<class 'dict'>"


@pytest.mark.parametrize(
    "expression",
    [
        "L['name'] == 'a # b'",
        "L['name'] == 'a  # b.py:3 in f'",
        "L['name'] == \"it's # 1\"",
        "L['name'] == 'it\\'s # 1'",
        "L['names'] == ['a # b', {'c  # d': (1, 2)}]",
        "L['name'] == 'x (HINT: y)'",
        "L['m'] == <Mode.A: '#  # '>",
    ],
)
@pytest.mark.parametrize("tail", ["", "  # f('# ')  # a.py:3 in f", "  # a.py:3 in f (HINT: why)", " (HINT: why)"])
def test_a_string_of_the_guard_is_no_comment(expression: str, tail: str) -> None:
    found = take_apart(expression + tail)
    assert found.expression == expression
    assert (found.place is not None) == ("a.py" in tail)
    assert found.hint == ("why" if "HINT" in tail else None)


@given(st.lists(st.sampled_from([*"'\"# \\\n(a.", "(HINT: ", "# ", "  # ", "L['x']"])).map("".join))
def test_a_comment_or_hint_begins_outside_strings(text: str) -> None:
    body = f"x{text}".strip()
    ends = [
        token.start
        for token in tokenize(body)
        if token.kind == "comment" or (token.text == "(" and body.startswith("(HINT: ", token.start))
    ]
    assert take_apart(body).expression == body[: min(ends, default=len(body))].strip()


def test_a_note_after_the_place() -> None:
    found = take_apart("2 <= L['x'].size()[0]  # y = f(x)  # nn/linear.py:134 in <lambda> (user code shown (here))")
    assert found.place == PrintedEntry("nn/linear.py", 134, "<lambda>", "y = f(x)")
    assert (found.note, found.hint) == ("user code shown (here)", None)


def test_a_comment_without_a_place_is_a_note() -> None:
    found = take_apart("not math.isnan(L['f'])  # implicit guard for float input")
    assert (found.place, found.note) == (None, "implicit guard for float input")


def test_a_line_that_python_has_no_text_of() -> None:
    found = take_apart("NONE_MATCH: L['x'].attentions is None          #   # <string>:6 in __init__")
    assert found.place == PrintedEntry("<string>", 6, "__init__", None)


def test_a_recompile_reason_with_its_stack() -> None:
    found = take_apart(
        "0/1: self.scale == 3  # x * s  # l.py:9 in forward\nUser stack trace:\n"
        '  File "/p/model.py", line 9, in forward\n    return x * self.scale\n'
    )
    assert found.line == PrintedEntry("/p/model.py", 9, "forward", "return x * self.scale")
    assert found.place == PrintedEntry("l.py", 9, "forward", "x * s")
    assert meaning_of(found) == Meaning("EQUALS_MATCH", "self.scale", "3")


def test_an_address_is_never_shown() -> None:
    assert "1397" not in str(meaning_of(take_apart("___check_obj_id(L['m'], 1397123), type=<class 'a.B'>")).expected)


def test_other_text_is_kept() -> None:
    found = take_apart("SOMETHING_NEW: it is as it was")
    assert (found.kind, found.expression) == ("SOMETHING_NEW", "it is as it was")
    assert meaning_of(found) == Meaning("SOMETHING_NEW", None, None)


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
    found = take_apart(text)
    assert found.expression in text
    expected = meaning_of(found).expected
    assert expected is None or len(expected) <= 120
    assert all(change.expression is not None for change in changes_of(found))
