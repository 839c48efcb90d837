"""What a probe makes of programs that do to their process what they like: each is reported to its end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RunCli

pytestmark = pytest.mark.slow

Report = dict[str, Any]

FINE = "def f(x):\n    return x.sin() + 1\n"
INPUTS = "def example_inputs():\n    return (torch.randn(4, 8),)\n"
FORWARD = "class Net(torch.nn.Module):\n    def forward(self, x):\n"


def function(*lines: str, imports: str = "") -> str:
    """A program whose target runs these lines and then computes something."""
    body = "".join(f"    {line}\n" for line in lines)
    return f"import torch{imports}\n\n\ndef f(x):\n{body}    return x.sin() + 1\n\n\n{INPUTS}"


def before(*lines: str, imports: str = "") -> str:
    """A program that runs these lines when it is imported."""
    return f"import torch{imports}\n" + "\n".join(lines) + f"\n\n\n{FINE}\n\n{INPUTS}"


CALLED: dict[str, str] = {
    "a thread in the call": function(
        "t = threading.Thread(target=lambda: print('thread'))", "t.start()", "t.join()", imports=", threading"
    ),
    "another folder": function("os.chdir('/')", imports=", os"),
    "an emptied environment": function("os.environ.clear()", imports=", os"),
    "a low recursion limit": before("sys.setrecursionlimit(400)", imports=", sys"),
    "signal handlers": before(
        "for n in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):",
        "    signal.signal(n, lambda *_: None)",
        imports=", signal",
    ),
    "standard output closed": before("os.close(1)", imports=", os"),
    "standard streams removed": before("sys.stdout = sys.stderr = None", imports=", sys"),
    "a trace function": before("sys.settrace(lambda *_: None)", imports=", sys"),
    "a profile function": before("sys.setprofile(lambda *_: None)", imports=", sys"),
    "warnings as errors": before("warnings.simplefilter('error')", imports=", warnings"),
    "logging switched off": before("logging.disable()", "logging.getLogger().handlers.clear()", imports=", logging"),
    "a clock that stands still": before("time.time = time.perf_counter = lambda: 1.0", imports=", time"),
    "float64 by default": before("torch.set_default_dtype(torch.float64)"),
    "no gradients anywhere": before("torch.set_grad_enabled(False)"),
    "no garbage collection": before("gc.disable()", "gc.freeze()", imports=", gc"),
    "a forked process": function(
        "pid = os.fork()", "if pid == 0:", "    os._exit(3)", "os.waitpid(pid, 0)", imports=", os"
    ),
    "an exit function that raises": before("atexit.register(lambda: 1 / 0)", imports=", atexit"),
    "modules forgotten": before("del sys.modules['json'], sys.modules['linecache']", imports=", sys, json, linecache"),
    "torch's loggers set up again": function("torch._logging.set_logs(dynamo=40)"),
    "random numbers": function(
        "x = x + torch.rand(8) + random.random() + numpy.random.rand()", imports=", random, numpy"
    ),
    "a generator": "import torch\n\n\ndef f(x):\n    return (x.sin() + n for n in range(3))\n\n\n" + INPUTS,
    "hooks": f"""import torch
net = torch.nn.Linear(8, 8)
net.register_forward_pre_hook(lambda m, a: (a[0] * 2,))
net.register_forward_hook(lambda m, a, o: o + 1)
net.register_full_backward_hook(lambda m, i, o: None)
{FORWARD}        return self.net(x)
f = Net()
f.net = net
{INPUTS}""",
    "views of each other": """import torch
def f(x, y, z):
    x.add_(1)
    return x.sum() + y.sum() + z.sum()
def example_inputs():
    base = torch.randn(6, 8)
    return base[:4], base[2:], base.t()
""",
    "inputs that aren't contiguous": f"""import torch
{FINE}
def example_inputs():
    yield (torch.randn(8, 4).t(),)
    yield (torch.randn(4, 1).expand(4, 8),)
    yield (torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),)
    yield (torch.randn(16)[::2],)
""",
    "a subclass of tensors": f"""import torch
class Named(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {{}})
{FINE}
def example_inputs():
    return (torch.randn(4, 8).as_subclass(Named),)
""",
    "inference tensors": f"""import torch
{FINE}
def example_inputs():
    with torch.inference_mode():
        return (torch.randn(4, 8),)
""",
    "an argument with slots": """import torch
class Held:
    __slots__ = ("x",)
    def __init__(self, x):
        self.x = x
def f(held):
    return held.x.sin() + 1
def example_inputs():
    return (Held(torch.randn(4, 8)),)
""",
    "an argument that refuses everything": """import torch
class Closed:
    def __init__(self, x):
        self.x = x
    def _refuse(self, *_):
        raise RuntimeError("no")
    __repr__ = __str__ = __eq__ = __bool__ = __copy__ = __deepcopy__ = __reduce_ex__ = __len__ = _refuse
    __hash__ = object.__hash__
def f(closed):
    return closed.x.sin() + 1
def example_inputs():
    return (Closed(torch.randn(4, 8)),)
""",
    "torch.compile replaced": before("original = torch.compile", "torch.compile = lambda *a, **k: original(*a, **k)"),
    "a module that refuses attributes": before(
        "class Odd(types.ModuleType):",
        "    def __getattr__(self, name):",
        "        raise RuntimeError(name)",
        "sys.modules['odd'] = odd = Odd('odd')",
        imports=", sys, types",
    ),
    "a class whose metaclass refuses": before(
        "class Meta(type):",
        "    def __getattribute__(cls, name):",
        "        raise RuntimeError(name)",
        "class Closed(metaclass=Meta): pass",
    ),
    "a line of several scopes": before("twice = lambda x: [y + z for y in x for z in (lambda: x)()]"),
    "a context that catches": f"""import torch, contextlib
{FORWARD}        with contextlib.suppress(ValueError):
            torch._dynamo.graph_break()
            raise ValueError
        return x.sin() + 1
f = Net()
{INPUTS}""",
    "a lazy module": f"import torch\nf = torch.nn.LazyLinear(3)\n{INPUTS}",
}
"""Programs whose calls come back."""


MEASURED = (
    "a clock that stands still",
    "a forked process",
    "a subclass of tensors",
    "an argument that refuses everything",
    "another folder",
    "hooks",
    "inputs that aren't contiguous",
    "no gradients anywhere",
    "random numbers",
    "views of each other",
    "warnings as errors",
)
"""Of these programs, calls are repeated under profilers too."""

ENDED: dict[str, tuple[str, str]] = {
    "sys.exit in the call": (function("sys.exit(5)", imports=", sys"), "exited"),
    "sys.exit with a message": (before("sys.exit('enough')", imports=", sys"), "exited"),
    "os._exit in the call": (function("os._exit(5)", imports=", os"), "exited"),
    "a signal of its own": (function("os.kill(os.getpid(), 9)", imports=", os"), "killed"),
    "an error without a text": (
        before("class Odd(Exception):", "    def __str__(self):", "        raise Odd", "raise Odd"),
        "error",
    ),
    "endless recursion": (before("def g():", "    g()", "g()"), "error"),
    "an interrupt": (before("raise KeyboardInterrupt"), "interrupted"),
}
"""Programs that end before their call comes back, and how."""


def problems(document: Report) -> list[str]:
    found = [
        f"call {call['index']}: {call['outcome']}" for call in document["recording"]["calls"] if call["outcome"] != "ok"
    ]
    return [*found, *([] if document["recording"]["calls"] else ["no call"])]


@pytest.fixture
def explain(run_cli: RunCli, tmp_path: Path) -> Callable[..., tuple[int, Report | None, str]]:
    def run(name: str, text: str, *command: str) -> tuple[int, Report | None, str]:
        program = tmp_path / f"{name.replace(' ', '_').replace(chr(39), '')}.py"
        program.write_text(text)
        target = f"{program}:f" if "\nf = " in text or "def f(" in text else program
        ask, *options = command or ("explain",)
        done = run_cli(ask, target, "--format", "json", "--backend", "eager", *options)
        try:
            return done.returncode, json.loads(done.stdout), done.stderr
        except ValueError:
            return done.returncode, None, done.stdout + done.stderr

    return run


def test_a_call_that_comes_back_is_reported_whatever_the_program_did(explain):
    failed = {}
    for name, text in CALLED.items():
        status, document, said = explain(name, text)
        if status != 0 or document is None or problems(document):
            failed[name] = (status, said[-600:] if document is None else problems(document))
    assert not failed


def test_a_call_can_be_repeated_and_profiled_whatever_the_program_did(explain):
    failed = {}
    for name in MEASURED:
        for command in (("guards",), ("recompiles", "--vary")):
            status, document, said = explain(name, CALLED[name], *command)
            if status != 0 or document is None or problems(document):
                failed[name, command] = (status, said[-600:] if document is None else problems(document))
    assert not failed


def test_a_program_that_ends_early_is_reported_until_then(explain):
    found = {}
    for name, (text, _) in ENDED.items():
        _, document, said = explain(name, text)
        found[name] = said[-600:] if document is None else document["recording"]["exit"]["reason"]
    assert found == {name: reason for name, (_, reason) in ENDED.items()}
