"""What the recipes of ``output`` leave alone, and how they write what they edit."""

from __future__ import annotations

import textwrap
from textwrap import dedent, indent

import pytest
from syrupy.assertion import SnapshotAssertion

from graphdoctor.fixes.recipe import Edit
from graphdoctor.fixes.recipes import RECIPES
from graphdoctor.fixes.recipes.output import guard_output, guard_report, hoist_read
from graphdoctor.fixes.source.tree import DeclinedError
from tests.fixes.recipes.places import outcomes, place_in, reason_of

# guard-output


def program_guard_output(line: str) -> str:
    return f"import torch\n\ndef forward(x, it, log):\n    {line}\n    return x\n"


def test_output_whose_arguments_change_something_is_unsafe(snapshot: SnapshotAssertion) -> None:
    cases = [
        "print(tuple(x.shape), len(it))",
        "print(it['a'](x), it()())",
        "print(next(it))",
        "print(f'{it.pop()}')",
        "log.info('%s', [item for item in it.read()])",
    ]
    assert (
        outcomes(lambda line: guard_output.edit(place_in(program_guard_output(line), "GD101", 4)).is_safe, cases)
        == snapshot
    )


def test_another_function_s_call_is_unsafe() -> None:
    assert not guard_output.edit(place_in(program_guard_output("it.save(x)"), "GD105", 4)).is_safe


def test_what_does_more_than_speak_is_declined(snapshot: SnapshotAssertion) -> None:
    cases = ["y = print(x)", "print(y := x)", "log.setLevel(10)", "if x: print(x); x = x + 1"]
    assert outcomes(lambda line: guard_output.edit(place_in(program_guard_output(line), "GD101", 4)), cases) == snapshot


# guard-report


HEAD_OF_GUARD_REPORT = "import torch\nimport warnings\ndef f(x, y):\n    y = x\n"


def body(text: str, line: int = 5) -> str:
    """What becomes of the function's body."""
    whole = HEAD_OF_GUARD_REPORT + indent(dedent(text).strip("\n"), "    ") + "\n"
    edited = guard_report.edit(place_in(whole, "GD102", line)).content.decode()
    return dedent(edited.removeprefix(HEAD_OF_GUARD_REPORT)).strip("\n")


def test_the_condition_is_not_looked_at_while_compiling(snapshot: SnapshotAssertion) -> None:
    def result(test: str) -> object:
        text = f"if {test}:  # why\n    warnings.warn(f'{{x}}')\n    print(y)  # too"
        return body(text)

    cases = ["x.any()", "not x.any()", "x > 0 and y.any()", "x > 0 or y.any()", "(x > 0 or y.any())", "x if y else y"]
    assert outcomes(result, cases) == snapshot


def test_declined(snapshot: SnapshotAssertion) -> None:
    cases = [
        "if x > 0:\n    y = x",
        "if x > 0:\n    print(x)\nelse:\n    print(y)",
        "if x > 0:\n    print(y := x)",
        "if x > 0:\n    self.seen.append(x)",
        "if x > 0: print(x)",
        "if (z := x) > 0:\n    print(z)",
        "assert x > 0",
    ]
    assert outcomes(body, cases) == snapshot


def test_an_elif_is_left() -> None:
    assert (
        reason_of(lambda: body("if y is None:\n    y = x\nelif x > 0:\n    print(x)", line=7))
        == "the condition belongs to an `elif`"
    )


# report-apart


(RECIPE_OF_REPORT_APART,) = (recipe for recipe in RECIPES if recipe.name == "report-apart")


def program_report_apart(body: str) -> str:
    return "import torch\n\n\ndef f(x, c):\n" + textwrap.indent(body, "    ") + "\n"


def edit_report_apart(body: str) -> Edit:
    text = program_report_apart(body)
    number = next(number for number, line in enumerate(text.splitlines(), 1) if line.lstrip().startswith("if c"))
    return RECIPE_OF_REPORT_APART.edit(place_in(text, "GD102", number))


def test_the_rest_is_fixed_as_a_branch_of_its_own() -> None:
    found = edit_report_apart("if c > 1:\n    print('large')\n    x = x / c\nreturn x")
    report = "if not torch.compiler.is_compiling() and c > 1:\n    print('large')\n"
    after = report + "x = torch.where(c > 1, x / c, x)\nreturn x"
    assert found.content.decode() == program_report_apart(after)
    assert found.drops_output
    assert not found.is_safe


def test_the_branch_that_is_meant_is_found_among_equal_ones() -> None:
    before = "if c > 1:\n    print(1)\n    x = x / c\nif c > 1:\n    print(2)\n    x = x * c\nreturn x"
    place = place_in(program_report_apart(before), "GD102", 8)
    after = RECIPE_OF_REPORT_APART.edit(place).content.decode()
    assert after.count("if c > 1:") == 1
    assert "torch.where(c > 1, x * c, x)" in after


def test_report_apart_it_declines(snapshot: SnapshotAssertion) -> None:
    cases = [
        "if c > 1:\n    x = x / c\n    print(x)\nreturn x",
        "if c > 1:\n    print(x)\nreturn x",
        "if c > 1: print(x); x = c\nreturn x",
        "if c > 1:\n    print(x)\n    x = c\nelse:\n    x = 2\nreturn x",
        "if c > (n := 1):\n    print(x)\n    x = n\nreturn x",
        "if c > 1:\n    print(x)\n    x.append(1)\nreturn x",
    ]
    assert outcomes(edit_report_apart, cases) == snapshot


# condition-without-read


(RECIPE_OF_CONDITION_WITHOUT_READ,) = (recipe for recipe in RECIPES if recipe.name == "condition-without-read")


def program_condition_without_read(body: str) -> str:
    return "import torch\n\n\ndef f(x, c, k):\n" + textwrap.indent(body, "    ") + "\n"


def edit_condition_without_read(text: str, pointed: str | None = None) -> Edit:
    lines = text.splitlines()
    number = next(number for number, line in enumerate(lines, 1) if line.lstrip().startswith(("if", "y =")))
    columns = None
    if pointed is not None:
        start = lines[number - 1].index(pointed) + 1
        columns = (start, start + len(pointed))
    return RECIPE_OF_CONDITION_WITHOUT_READ.edit(place_in(text, "GD103", number, columns))


def test_the_tensor_is_what_the_condition_asks_about(snapshot: SnapshotAssertion) -> None:
    def result(before: str) -> object:
        edited = edit_condition_without_read(program_condition_without_read(before))
        return edited.content.decode()

    cases = [
        "if c.item() > 1:\n    x = x * 2",
        "if float(c) > 1:\n    x.mul_(k)",
        "if (c + 1).item() > k:\n    x = x * 2",
        "if (c > 1).any().item():\n    x = x * 2",
        "if c.max().item() > c.min().item():\n    x = x * 2",
        "n = c.norm().item()\nif n > 1:\n    x = x / n",
    ]
    assert outcomes(result, cases) == snapshot


def test_the_title_names_the_read() -> None:
    found = edit_condition_without_read(program_condition_without_read("if c.item() > 1:\n    x = x * 2"), "c.item()")
    assert found.title == "Choose `x` with `torch.where`, without reading `c.item()`"


def test_condition_without_read_it_declines(snapshot: SnapshotAssertion) -> None:
    cases = [
        ("y = c.item()\nif y > 1:\n    x = x * 2", "c.item()"),
        ("y = 1 if c.item() > 1 else 2", "c.item()"),
        ("if c > 1:\n    x = x * 2", None),
        ("if c.add_(1).item() > 1:\n    x = x * 2", None),
        ("if c.item() > 1:\n    k.append(x)", None),
    ]
    assert (
        outcomes(
            lambda body, pointed: edit_condition_without_read(program_condition_without_read(body), pointed), cases
        )
        == snapshot
    )


# hoist-read


HEAD_OF_HOIST_READ = (
    "import os, random, time\nimport torch\nfrom datetime import datetime\n\n\ndef forward(self, x, log):\n"
)
MATTERS = "the value is used for more than output"
GUARD = "if not torch.compiler.is_compiling():"


def edit_hoist_read(body: str, head: str = HEAD_OF_HOIST_READ) -> Edit:
    """The edit of the call that a body has between two marks."""
    text = head + body
    line = next(number for number, found in enumerate(text.splitlines(), 1) if "«" in found)
    marked = text.splitlines()[line - 1]
    columns = (marked.index("«") + 1, marked.index("»") if "»" in marked else None)
    return hoist_read.edit(place_in(text.replace("«", "").replace("»", ""), "GD105", line, columns))


def written(body: str) -> str:
    text = edit_hoist_read(body).content.decode()
    assert text.startswith(HEAD_OF_HOIST_READ)
    return text.removeprefix(HEAD_OF_HOIST_READ)


def test_what_matters_for_results_is_left(snapshot: SnapshotAssertion) -> None:
    cases = [
        "    return x * «time.time()»\n",
        "    t = «time.time()»\n    return x * t\n",
        "    t = «time.time()»\n    if t > 5:\n        x = -x\n    return x\n",
        "    t = «time.time()»\n    if t > 5: x = x + t\n    return x\n",
        "    t = «time.time()»\n    if t > self.last: print(t)\n    return x\n",
        "    self.times.append(«time.time()»)\n    return x\n",
        "    t = «time.time()»\n    d = self.save(t)\n    return x\n",
        "    t = «time.time()»\n    self.save(t)\n    return x\n",
        "    t = «time.time()»\n    catalog.add(t)\n    return x\n",
        "    self.t = «time.time()»\n    return x\n",
        "    a, t = 1, «time.time()»\n    return x\n",
        "    global t\n    t = «time.time()»\n    return x\n",
        "    t = «time.time()»\n    print(u := t)\n    return x * u\n",
        "    t = 1\n    t += «time.time()»\n    return x * t\n",
        "    t = «time.time()»; print(t)\n    return x\n",
        "    t = x = «time.time()»\n    return x\n",
        "    t = «time.time()»\n    def inner():\n        print(t)\n    inner()\n    return x\n",
        "    f = lambda: «time.time()»\n    return x * f()\n",
        "    return x * «random.choice([1, 2])»\n",
        "    return x * «random.gauss(0, 1)»\n",
        "    return x * len(«os.listdir('/')»)\n",
        "    return x * «self.count()»\n",
        "    return x * «os.path.exists(self.path)»\n",
        "    _PID = 2\n    return x * «os.getpid()»\n",
        "    import os\n    return x * «os.getpid()»\n",
        "    return x * «os.path.exists(  # why\n        'a')\n",
    ]
    assert outcomes(edit_hoist_read, cases) == snapshot


def test_what_is_in_no_function_is_left() -> None:
    with pytest.raises(DeclinedError, match="it isn't in a function of the module"):
        edit_hoist_read("f = lambda x: x * «os.getpid()»\n", head="import os\n")


def test_a_clock_that_only_feeds_output_is_skipped_with_it() -> None:
    found = edit_hoist_read(
        "    started = «time.time()»  # now\n    y = x.sin()\n\n    # Said.\n    took = time.time() - started\n"
        "    took *= 1000\n    log.info('%s', round(took))\n    y = y + 1\n    print(took)\n    return y\n"
    )
    assert found.drops_output
    assert not found.is_safe
    assert found.content.decode().removeprefix(HEAD_OF_HOIST_READ) == (
        f"    {GUARD}\n        started = time.time()  # now\n    y = x.sin()\n\n    # Said.\n    {GUARD}\n"
        "        took = time.time() - started\n        took *= 1000\n        log.info('%s', round(took))\n"
        f"    y = y + 1\n    {GUARD}\n        print(took)\n    return y\n"
    )


def test_a_clock_takes_what_else_sets_its_variable_with_it() -> None:
    text = written("    t = time.time()\n    print(«time.time()» - t)\n    return x\n")
    assert text == f"    t = time.time()\n    {GUARD}\n        print(time.time() - t)\n    return x\n"
    text = written("    t = time.time()\n    t = «time.time()» - t\n    print(t)\n    return x\n")
    assert text == (
        f"    {GUARD}\n        t = time.time()\n        t = time.time() - t\n        print(t)\n    return x\n"
    )


def test_a_clock_that_nobody_uses_drops_no_output() -> None:
    assert not edit_hoist_read("    t = «datetime.now()»\n    return x\n").drops_output


def test_random_is_drawn_as_torch_traces_it() -> None:
    found = edit_hoist_read("    return x * «random.random()» + random.random()  # two\n")
    assert found.is_safe
    assert "    return x * random.uniform(0.0, 1.0) + random.random()  # two\n" in found.content.decode()
    text = "from random import random as draw\ndef f(x):\n    return x * draw()\n"
    edited = hoist_read.edit(place_in(text, "GD105", 3)).content.decode()
    assert edited == (
        "from random import random as draw\nimport random\ndef f(x):\n    return x * random.uniform(0.0, 1.0)\n"
    )


def test_a_fact_is_read_above_the_class(snapshot: SnapshotAssertion) -> None:
    text = "import os\n# Kept.\n@final\nclass A:\n    def f(self, x):\n"
    text += "        def g(): return x * «os.getpid()»\n        return g()\n"
    assert edit_hoist_read(text, head="").content.decode() == snapshot
