"""Guarded values that misbehave: a report all the same, and the program none the wiser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RunCli, clean_environment, run_script

pytestmark = pytest.mark.slow

HEAD = "import gc, threading, time, torch\n\n"
OPTIONS = """
class Options:
    def __init__(self, scale): self.scale = scale
    {}
f = torch.compile(lambda x, o: x * o.scale, backend="eager")
for scale in (2.5, 3.5): print(float(f(torch.ones(2), Options(scale)).sum()))
"""
PROGRAMS: dict[str, tuple[str, str]] = {
    "an object whose repr raises": (
        OPTIONS.format('def __repr__(self): raise RuntimeError("no repr")'),
        "o.scale",
    ),
    "an object whose repr prints and sleeps": (
        OPTIONS.format(
            'def __repr__(self): print("x" * 10_000_000); time.sleep(600); return "o"\n    __str__ = __repr__'
        ),
        "o.scale",
    ),
    "an object that cannot be compared or hashed": (
        OPTIONS.format(
            'def __eq__(self, other): raise RuntimeError("no eq")\n'
            '    def __hash__(self): raise RuntimeError("no hash")'
        ),
        "o.scale",
    ),
    "a tensor of two gigabytes": (
        """
f = torch.compile(lambda x: x[:1] + 1, backend="eager")
for size in (2**29, 2**29 + 1): print(tuple(f(torch.empty(1).expand(size)).shape))
""",
        "x.shape[0]",
    ),
    "a dict of ten thousand keys": (
        """
f = torch.compile(lambda x, d: x * len(d), backend="eager")
for size in (10_000, 10_001): print(float(f(torch.ones(1), {f"k{n}": n for n in range(size)}).sum()))
""",
        "len(d)",
    ),
    "a module that is gone": (
        """
def f(x, net): return net(x)
g = torch.compile(f, backend="eager")
for size in (4, 5):
    net = torch.nn.Linear(size, 2)
    print(tuple(g(torch.ones(1, size), net).shape))
    del net; gc.collect()
""",
        "shape",
    ),
    "locals that are deleted": (
        """
def f(x, n):
    y = x * n
    del x
    torch._dynamo.graph_break()
    z = y + n
    del y
    return z
g = torch.compile(f, backend="eager")
for n in (2.5, 3.5): print(float(g(torch.ones(2), n).sum()))
""",
        "n",
    ),
    "several threads": (
        """
f = torch.compile(lambda x, mode: x + len(mode), backend="eager")
def work(n):
    for k in range(4): f(torch.ones(2), "m" * (4 * n + k))
threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("done")
""",
        "mode",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_cause_is_told_and_the_program_prints_the_same(
    run_cli: RunCli, tmp_path: Path, name: str
) -> None:
    code, expression = PROGRAMS[name]
    # The same program in eager mode says what must be printed.
    eager = "compile_ = lambda f, **_: f\n" + code.replace("torch.compile", "compile_")
    (tmp_path / "program.py").write_text(HEAD + eager)
    expected = run_script(tmp_path / "program.py", cwd=tmp_path, env=clean_environment()).stdout
    (tmp_path / "program.py").write_text(HEAD + code)
    assert (
        run_cli("run", "-q", "--report", "out.json", "program.py", timeout=300, status=0).stdout
        == expected
    )
    document: dict[str, Any] = json.loads((tmp_path / "out.json").read_text())
    assert document["recompiles"]
    said = [change["expression"] for report in document["recompiles"] for change in report["cause"]]
    assert any(expression in text for text in said), said
    assert len(json.dumps(document["recompiles"])) < 200_000
    assert not any(
        "could not be looked at" in gap["message"] for gap in document["recording"]["gaps"]
    )
