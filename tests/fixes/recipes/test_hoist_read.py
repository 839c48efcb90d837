"""What hoist-read leaves alone, and how it writes what it moves."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from graphdoctor.fixes.recipe import Edit
from graphdoctor.fixes.recipes import hoist_read
from graphdoctor.fixes.source.tree import DeclinedError
from tests.fixes.recipes.places import outcomes, place_in

HEAD = "import os, random, time\nimport torch\nfrom datetime import datetime\n\n\ndef forward(self, x, log):\n"
MATTERS = "the value is used for more than output"
GUARD = "if not torch.compiler.is_compiling():"


def edit(body: str, head: str = HEAD) -> Edit:
    """The edit of the call that a body has between two marks."""
    text = head + body
    line = next(number for number, found in enumerate(text.splitlines(), 1) if "«" in found)
    marked = text.splitlines()[line - 1]
    columns = (marked.index("«") + 1, marked.index("»") if "»" in marked else None)
    return hoist_read.edit(place_in(text.replace("«", "").replace("»", ""), "GD105", line, columns))


def written(body: str) -> str:
    text = edit(body).content.decode()
    assert text.startswith(HEAD)
    return text.removeprefix(HEAD)


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
    assert outcomes(edit, cases) == snapshot


def test_what_is_in_no_function_is_left() -> None:
    with pytest.raises(DeclinedError, match="it isn't in a function of the module"):
        edit("f = lambda x: x * «os.getpid()»\n", head="import os\n")


def test_a_clock_that_only_feeds_output_is_skipped_with_it() -> None:
    found = edit(
        "    started = «time.time()»  # now\n    y = x.sin()\n\n    # Said.\n    took = time.time() - started\n"
        "    took *= 1000\n    log.info('%s', round(took))\n    y = y + 1\n    print(took)\n    return y\n"
    )
    assert found.drops_output
    assert not found.is_safe
    assert found.content.decode().removeprefix(HEAD) == (
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
    assert not edit("    t = «datetime.now()»\n    return x\n").drops_output


def test_random_is_drawn_as_torch_traces_it() -> None:
    found = edit("    return x * «random.random()» + random.random()  # two\n")
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
    assert edit(text, head="").content.decode() == snapshot
