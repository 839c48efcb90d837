"""What a fix adds to the source decides its grade, whatever its title says."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphdoctor.fixes.grades import grade_of
from graphdoctor.fixes.patch import Candidate, FileChange
from graphdoctor.fixes.run_changes import dynamo_setting, setting_fix

BEFORE = "import torch\n\ndef step(x):\n    if x.sum() > 0:\n        x = -x\n    return x\n"
ELSE = "    return x\n"


def _grade(after: str, before: str = BEFORE) -> str:
    return grade_of([(before.encode(), after.encode())])


def test_edit_with_one_code_path_is_merged():
    after = "import torch\n\ndef step(x):\n    return torch.where(x.sum() > 0, -x, x)\n"
    assert _grade(after) == "merged"


@pytest.mark.parametrize(
    "line",
    [
        "    if not torch.compiler.is_compiling():\n        print(x)\n",
        "    if torch._dynamo.is_compiling():\n        return x\n",
        "    torch._dynamo.config.capture_scalar_outputs = True\n",
        "    with torch._dynamo.config.patch(trace_autograd_ops=True):\n        x = x + 1\n",
    ],
)
def test_second_code_path_or_a_setting_in_the_source_is_guarded(line):
    assert _grade(BEFORE.replace(ELSE, line + ELSE)) == "guarded"


@pytest.mark.parametrize(
    "head",
    [
        "from torch.compiler import is_compiling as busy\nimport torch",
        "import torch\nfrom torch import compiler as c\nbusy = c.is_compiling",
    ],
)
def test_guard_under_another_name_is_guarded(head):
    after = BEFORE.replace("import torch", head).replace(ELSE, f"    busy()\n{ELSE}")
    assert _grade(after) == "guarded"


@pytest.mark.parametrize(
    "decorator",
    [
        "@torch.compiler.disable",
        "@torch.compiler.disable(recursive=False)",
        "@torch._dynamo.disable",
        "@torch._dynamo.decorators.skip",
    ],
)
def test_function_that_torch_no_longer_compiles_is_contained(decorator):
    assert _grade(BEFORE.replace("def step", f"{decorator}\ndef step")) == "contained"


def test_added_break_is_contained():
    assert _grade(BEFORE.replace(ELSE, f"    torch._dynamo.graph_break()\n{ELSE}")) == "contained"


def test_imported_disable_is_contained():
    before = f"from torch.compiler import disable\n{BEFORE}"
    after = before.replace("def step", "@disable\ndef step")
    assert _grade(after, before) == "contained"


def test_removing_disable_and_guards_is_merged():
    before = BEFORE.replace("def step", "@torch.compiler.disable\ndef step")
    assert _grade(BEFORE, before) == "merged"


def test_disable_that_was_there_is_no_part_of_the_edit():
    other = "\n@torch.compiler.disable\ndef other(x):\n    return x\n"
    assert _grade(BEFORE.replace("-x", "x.neg()") + other, BEFORE + other) == "merged"


@pytest.mark.parametrize(
    ("helper", "grade"),
    [
        ("def _part(self, a, b, c):\n    return a, b, c\n", "merged"),
        ("def _part(a, b, c, d):\n    return a\n", "contained"),
        ("def _part(a):\n    return a, a, a, a\n", "contained"),
        ("def _part(a, b, *, c, d):\n    return a\n", "contained"),
    ],
)
def test_helper_that_passes_more_than_three_values_is_contained(helper, grade):
    assert _grade(f"{BEFORE}\n{helper}") == grade


def test_function_that_gets_a_fourth_argument_is_no_new_helper():
    before = BEFORE.replace("step(x)", "step(x, a, b)")
    assert _grade(before.replace("step(x, a, b)", "step(x, a, b, c)"), before) == "merged"


def test_setting_and_call_are_guarded_and_what_leaves_the_break_contained():
    setting = setting_fix(dynamo_setting("capture_scalar_outputs"), "Set it")
    assert setting.grade == "guarded"
    containing = setting_fix(dynamo_setting("nested_graph_breaks"), "Set it", contains=True)
    assert containing.grade == "contained"


def test_title_decides_nothing():
    edit = FileChange(Path("a.py"), BEFORE.encode(), BEFORE.replace("-x", "x.neg()").encode())
    title = "Keep it in a function under `torch.compiler.disable`, is_compiling"
    assert Candidate(title, "code", is_safe=True, edits=(edit,)).grade == "merged"


def test_what_keeps_output_comes_first_and_then_the_better_grade():
    def candidate(after: str, *, drops_output: bool = False, contains: bool = False) -> Candidate:
        edit = FileChange(Path("a.py"), BEFORE.encode(), after.encode())
        return Candidate(
            after, "code", is_safe=True, edits=(edit,), drops_output=drops_output, contains=contains
        )

    merged, lossy = candidate("a = 1\n"), candidate("b = 1\n", drops_output=True)
    guarded = candidate("import torch\ntorch.compiler.is_compiling()\n")
    contained = candidate("c = 1\n", contains=True)
    ranked = sorted([lossy, contained, guarded, merged], key=lambda fix: fix.rank)
    assert ranked == [merged, guarded, contained, lossy]
