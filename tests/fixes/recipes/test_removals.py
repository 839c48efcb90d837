"""What the recipes of ``removals`` leave alone, and how they write what they edit."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.recompiles import GuardChange
from graphdoctor.fixes.recipes.removals import no_grad_for_inference_mode, remove_disable, remove_graph_break
from graphdoctor.fixes.source.tree import DeclinedError
from tests.each import for_each
from tests.fixes.recipes.places import outcomes, place_in

# no-grad-for-inference-mode


FLIP = (GuardChange(kind="inference_mode", expression="x"),)


def unflipped(text: str) -> str:
    """The file where a mode flip in its first line is to go."""
    code = no_grad_for_inference_mode.edit(place_in(text, "GD212", 1, changes=FLIP)).content.decode()
    ast.parse(code)
    return code


def body(text: str) -> str:
    """What becomes of a function's body where torch points to the line of its only question."""
    whole = "def f(x, y):\n" + indent(text, "    ") + "\n"
    line = next(number for number, line in enumerate(whole.split("\n"), 1) if "is_inference" in line)
    code = no_grad_for_inference_mode.edit(place_in(whole, "GD118", line)).content.decode()
    ast.parse(code)
    return "\n".join(line.removeprefix("    ") for line in code.removeprefix("def f(x, y):\n").splitlines())


def test_every_use_of_the_mode_in_the_file_goes(snapshot: SnapshotAssertion) -> None:
    cases = [
        "with torch.inference_mode(): pass",
        "with torch.inference_mode( True ) as a, b: pass",
        "@torch.inference_mode(mode=True)\ndef f(): pass",
        "@torch.inference_mode\ndef f(): pass",
        "with a, torch.inference_mode(): f(torch.inference_mode())",
    ]
    assert outcomes(lambda before: unflipped(f"import torch\n{before}\n"), cases) == snapshot


def test_a_mode_imported_by_its_own_name_goes() -> None:
    head = "from torch import inference_mode\n"
    assert unflipped(f"{head}with inference_mode(): pass\n") == f"{head}import torch\nwith torch.no_grad(): pass\n"


def test_the_question_goes(snapshot: SnapshotAssertion) -> None:
    cases = [
        "y = 1\nif x.is_inference(): y = 2\nreturn y",
        "if x.is_inference():\n    y = 2",
        "# a\nif not x.is_inference(): y = 2  # b\nreturn y",
        "if torch.is_inference(x): y = 1\nelse:\n    # a\n    with y: pass",
        "if y: y = 1\nelif x.is_inference(): y = 2",
        "if x.is_inference(): y = 2\nelif x: y = 1",
        "return (x + 1 if not x.is_inference() else y)",
        "return (lambda a: a if a.is_inference() else y)(x)",
        "a = 1; b = (x.is_inference()); c = 2",
        "return not torch.is_inference_mode_enabled()",
    ]
    assert outcomes(body, cases) == snapshot


def test_modes_that_are_declined(snapshot: SnapshotAssertion) -> None:
    cases = [
        "import torch\n",
        "import torch\nwith torch.inference_mode(a): pass\n",
        "import torch\nwith torch.inference_mode(mode=False): pass\n",
        "import torch\na = torch.inference_mode if b else torch.no_grad\n",
    ]
    assert outcomes(unflipped, cases) == snapshot


def test_other_flips_are_declined() -> None:
    place = place_in("import torch\nwith torch.inference_mode(): pass\n", "GD212", 1)
    with pytest.raises(DeclinedError, match="isn't what changed"):
        no_grad_for_inference_mode.edit(place)


def test_questions_that_are_declined(snapshot: SnapshotAssertion) -> None:
    cases = [
        "y = x.is_inference",
        "y = x.is_inference() or y.is_inference()",
        "if x.is_inference():\n    with torch.inference_mode(): y = x",
    ]
    assert outcomes(body, cases) == snapshot


TENSOR = """\
import torch


@torch.compile(backend="eager")
def step(x):
    return x.sin()


with torch.inference_mode():
    made = torch.ones(4)
with torch.no_grad():
    step(torch.ones(4))
    step(made)
"""
CALL_OF_NO_GRAD_FOR_INFERENCE_MODE = """\
import torch


@torch.compile(backend="eager")
def step(x):
    return x.sin()


with torch.no_grad():
    step(torch.ones(4))
with torch.inference_mode():
    step(torch.ones(4))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", [TENSOR, CALL_OF_NO_GRAD_FOR_INFERENCE_MODE], ids=["a-tensor-made-in-the-mode", "a-call-in-the-mode"]
)
def test_the_recompile_is_there_before_and_gone_after(text: str, tmp_path: Path, run_cli: Any) -> None:
    (tmp_path / "before.py").write_text(text)
    (tmp_path / "after.py").write_text(unflipped(text))
    for name, expected in (("before", ["GD212"]), ("after", [])):
        process = run_cli("run", "-q", "--report", f"{name}.json", f"{name}.py")
        assert process.returncode == 0, process.stderr
        document = json.loads((tmp_path / f"{name}.json").read_text())
        assert [found["code"] for found in document["findings"]] == expected


# remove-disable


def written_remove_disable(text: str, call: str = "g(x)", *, has_columns: bool = True) -> str:
    """The file where torch points to the last such call."""
    lines = text.split("\n")
    number = max(number for number, line in enumerate(lines, 1) if call in line)
    start = lines[number - 1].index(call) + 1
    columns = (start, start + len(call)) if has_columns else None
    code = remove_disable.edit(place_in(text, "GD106", number, columns)).content.decode()
    ast.parse(code)
    return code


CALLER = "def f(x):\n    y = x + g(x)\n"


@for_each("has_columns", [True, False])
@for_each(
    "decorator",
    [
        "@torch.compiler.disable",
        "@torch.compiler.disable()",
        "@torch.compiler.disable(reason='slow', recursive=False)",
        "@torch._dynamo.disable",
        "@disable",
    ],
)
def test_a_decorator_goes_whatever_it_says(decorator: str, has_columns: bool) -> None:
    text = f"# above\n{decorator}  # why\n# below\ndef g(x): return x\n{CALLER}"
    assert written_remove_disable(text, has_columns=has_columns) == f"# above\n# below\ndef g(x): return x\n{CALLER}"


def test_other_decorators_and_their_comments_stay() -> None:
    above = "@a  # a\n# of it\n@torch.compiler.disable\n# of b\n@b\n@torch._dynamo.disable()\n"
    text = f"{above}def g(x): return x\n{CALLER}"
    assert written_remove_disable(text) == f"@a  # a\n# of it\n# of b\n@b\ndef g(x): return x\n{CALLER}"


def test_the_function_of_the_innermost_scope_is_meant() -> None:
    outer = "@disable\ndef g(x): return x\n"
    inner = "def f(x):\n    @disable\n    def g(x): return -x\n    return g(x)\n"
    assert written_remove_disable(outer + inner) == outer + "def f(x):\n    def g(x): return -x\n    return g(x)\n"


def test_a_lambda_that_is_disabled_keeps_working() -> None:
    assert written_remove_disable("def f(x):\n    return disable(lambda a: a)(x)\n", "disable(lambda a: a)(x)") == (
        "def f(x):\n    return (lambda a: a)(x)\n"
    )
    assert written_remove_disable(f"g = disable(fn=lambda a: a)\n{CALLER}") == f"g = (lambda a: a)\n{CALLER}"


def test_a_call_in_a_lambda_and_several_in_a_line() -> None:
    text = "@disable\ndef g(x): return x\ndef f(x):\n    h = lambda x: g(x); return h(x) + other(x)\n"
    for has_columns in (True, False):
        assert written_remove_disable(text, has_columns=has_columns) == text.removeprefix("@disable\n")


def test_remove_disable_declined(snapshot: SnapshotAssertion) -> None:
    cases = [
        (CALLER, "g(x)"),
        (f"from m import g\n{CALLER}", "g(x)"),
        (f"def g(x): return x\n{CALLER}", "g(x)"),
        (f"g = h\n{CALLER}", "g(x)"),
        (f"g = other(h)\n{CALLER}", "g(x)"),
        (f"g = disable(reason='why')\n{CALLER}", "g(x)"),
        (f"@disable\ndef g(x): return x\ng = cached(g)\n{CALLER}", "g(x)"),
        (f"if a:\n    @disable\n    def g(x): return x\nelse:\n    g = 1\n{CALLER}", "g(x)"),
        ("@disable\ndef g(x): return x\ndef f(x, g):\n    return g(x)\n", "g(x)"),
        ("@disable\ndef g(x): return x\ndef f(x):\n    for g in x: g(x)\n", "g(x)"),
        ("def f(x):\n    return m.g(x)\n", "m.g(x)"),
        ("def f(x):\n    return self.g(x)\n", "self.g(x)"),
        ("class A(B):\n    def f(self, x): return self.g(x)\n", "self.g(x)"),
        ("def f(x):\n    return h[0](x)\n", "h[0](x)"),
        ("def f(x):\n    return partial(g)(x)\n", "partial(g)(x)"),
        ("def f(x):\n    return g[x]\n", "g[x]"),
    ]
    assert outcomes(written_remove_disable, cases) == snapshot


def test_two_disabled_calls_in_a_line_need_columns() -> None:
    text = "@disable\ndef g(x): return x\n@disable\ndef h(x): return x\ndef f(x):\n    return g(x) + h(x)\n"
    assert written_remove_disable(text).count("@disable") == 1
    with pytest.raises(DeclinedError, match="which call is meant"):
        written_remove_disable(text, has_columns=False)


# remove-graph-break


CALL_OF_REMOVE_GRAPH_BREAK = "torch._dynamo.graph_break()"


def written_remove_graph_break(text: str, *, has_columns: bool = True) -> str:
    """The file where torch points to the first call."""
    text = dedent(text)
    number, line = next((number, line) for number, line in enumerate(text.split("\n"), 1) if "graph_break" in line)
    start = line.index(CALL_OF_REMOVE_GRAPH_BREAK) + 1 if CALL_OF_REMOVE_GRAPH_BREAK in line else None
    columns = (start, start + len(CALL_OF_REMOVE_GRAPH_BREAK)) if start and has_columns else None
    code = remove_graph_break.edit(place_in(text, "GD107", number, columns)).content.decode()
    ast.parse(code)
    return code


@for_each("has_columns", [True, False])
@for_each(
    "before, after",
    [
        (f"def f(x):\n    {CALL_OF_REMOVE_GRAPH_BREAK}\n    return x\n", "def f(x):\n    return x\n"),
        (
            f"def f(x):\n    if x:\n        {CALL_OF_REMOVE_GRAPH_BREAK}\n    return x\n",
            "def f(x):\n    if x:\n        pass\n    return x\n",
        ),
        (
            f"def f(x):\n    if x: {CALL_OF_REMOVE_GRAPH_BREAK}  # c\n    return x\n",
            "def f(x):\n    if x: pass  # c\n    return x\n",
        ),
        (f"def f(x): {CALL_OF_REMOVE_GRAPH_BREAK}\n", "def f(x): pass\n"),
        (
            f"class A:\n    @d\n    def f(x):\n\n        {CALL_OF_REMOVE_GRAPH_BREAK}\n",
            "class A:\n    @d\n    def f(x):\n\n        pass\n",
        ),
        (
            f"def f(x):\n    x = 1\n    # why\n\n    {CALL_OF_REMOVE_GRAPH_BREAK}  # now\n    # end\ny = 2\n",
            "def f(x):\n    x = 1\n    # why\n    # end\ny = 2\n",
        ),
        (
            f"def f(x):\n    # why\n    {CALL_OF_REMOVE_GRAPH_BREAK}\n\n    # next\n    with x: pass\n",
            "def f(x):\n    # why\n\n    # next\n    with x: pass\n",
        ),
    ],
)
def test_written(before: str, after: str, has_columns: bool) -> None:
    assert written_remove_graph_break(before, has_columns=has_columns) == after


@for_each(
    "before, after",
    [
        (f"a = 1; {CALL_OF_REMOVE_GRAPH_BREAK}", "a = 1"),
        (f"{CALL_OF_REMOVE_GRAPH_BREAK}; a = 1", "a = 1"),
        (f"a = 1; {CALL_OF_REMOVE_GRAPH_BREAK}; b = 2;", "a = 1; b = 2;"),
        (f"a = 1; {CALL_OF_REMOVE_GRAPH_BREAK};  # c", "a = 1;  # c"),
        (f"if x: a = 1; {CALL_OF_REMOVE_GRAPH_BREAK}", "if x: a = 1"),
    ],
)
def test_one_line_with_several_statements(before: str, after: str) -> None:
    assert (
        written_remove_graph_break(f"def f(x):\n    {before}\n    return x\n")
        == f"def f(x):\n    {after}\n    return x\n"
    )
    with pytest.raises(DeclinedError):
        written_remove_graph_break(f"def f(x):\n    {before}\n    return x\n", has_columns=False)


def test_remove_graph_break_declined(snapshot: SnapshotAssertion) -> None:
    cases = [
        "def f(x):\n    y = torch._dynamo.graph_break()\n",
        "def f(x):\n    g(torch._dynamo.graph_break())\n",
        "def f(x):\n    return lambda: torch._dynamo.graph_break()\n",
        "def f(x):\n    library(graph_break=1)\n",
        "def f(x):\n    if torch._dynamo.graph_break():\n        pass\n",
        "torch._dynamo.graph_break()\n",
    ]
    assert outcomes(written_remove_graph_break, cases) == snapshot
