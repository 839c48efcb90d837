"""Programs on which torch certainly breaks or compiles again, each beside one on which it does not.

``BAD``: each statement that ends in ``# !`` is a cause. ``GOOD``: nothing is. A program without a ``def`` is the body of
a compiled function between ``y = x.sin()`` and ``return y.cos()``.
"""

# ruff: noqa: E501 - a program is read as one

from __future__ import annotations

import textwrap
from dataclasses import dataclass

_HEAD = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
"""
_CALL = "{name}(torch.linspace(-1, 1, 32).reshape(4, 8))\n"


@dataclass(frozen=True)
class Program:
    """One program.

    Args:
        name: What it shows.
        codes: The rules' codes of its causes; empty for a program without one.
        body: The compiled function's statements, or whole definitions that end in ``step``.
        before: What stands above.
        calls: How often it is called.
    """

    name: str
    codes: frozenset[str]
    body: str
    before: str = ""
    calls: int = 1

    @property
    def text(self) -> str:
        """The whole file."""
        body = textwrap.dedent(self.body).strip("\n")
        if "def step" not in body and "step = " not in body:
            inner = textwrap.indent(body, "    ")
            body = f'@torch.compile(backend="eager")\ndef step(x):\n    y = x.sin()\n{inner}\n    return y.cos()'
        return f"{_HEAD}{textwrap.dedent(self.before).strip()}\n\n{body}\n\n" + _CALL.format(name="step") * self.calls

    @property
    def marked_lines(self) -> set[int]:
        """1-based lines that end in ``# !``."""
        return {number for number, line in enumerate(self.text.splitlines(), 1) if line.endswith("# !")}


def _bad(name: str, codes: str, body: str, before: str = "", calls: int = 1) -> Program:
    return Program(name, frozenset(codes.split()), body, before, calls)


def _good(name: str, body: str, before: str = "", calls: int = 1) -> Program:
    return Program(name, frozenset(), body, before, calls)


def _net(forward: str, init: str = "") -> str:
    """A module that is compiled, by the statements of its ``forward`` and of its ``__init__``."""
    start = f"    def __init__(self):\n        super().__init__()\n{textwrap.indent(init, ' ' * 8)}\n\n" if init else ""
    whole = f"class Net(nn.Module):\n{start}    def forward(self, x):\n{textwrap.indent(forward, ' ' * 8)}\n\n"
    return whole + 'step = torch.compile(Net(), backend="eager")'


BAD = [
    _bad("print", "GD101", 'print("a")  # !\nprint(y.shape)  # !\nprint(f"{x.ndim}", y)  # !\nprint()  # !'),
    _bad("pprint", "GD101", "pprint(1)  # !", "from pprint import pprint"),
    _bad(
        "stream",
        "GD101",
        'sys.stdout.write("")  # !\nsys.stderr.write("")  # !\nsys.stdout.flush()  # !',
        "import sys",
    ),
    _bad("warn", "GD101", 'warnings.warn("a")  # !\nw("b", UserWarning)  # !', "import warnings\nfrom warnings import warn as w"),
    _bad(
        "logger",
        "GD101",
        'log.info("a")  # !\nlog.debug("b")  # !\nlog.warning("c")  # !\nlog.exception("d")  # !',
        'import logging\nlog = logging.getLogger("a")',
    ),
    _bad("root-logger", "GD101", 'logging.info("a")  # !', "import logging"),
    _bad(
        "logger-of-object",
        "GD101",
        _net('self.log.info("a")  # !\nreturn x.sin()', 'self.log = logging.getLogger("net")'),
        "import logging",
    ),
    _bad("if", "GD102", "if y.sum() > 0:  # !\n    y = y + 1\nif not (y > 0).any():  # !\n    y = y - 1"),
    _bad("if-chain", "GD102", "if 0 < y.mean() < 1:  # !\n    y = y + 1\nif y.sum() and x is not None:  # !\n    y = y - 1"),
    _bad("if-raise", "GD102", 'if torch.isnan(y).any():  # !\n    raise ValueError("nan")'),
    _bad("if-number", "GD102", "if torch.tensor(3) > 2:  # !\n    y = y + 1"),
    _bad("while", "GD102", "while y.sum() < 100:  # !\n    y = y + 10"),
    _bad("ternary", "GD102", "y = y + 1 if y.sum() > 0 else y - 1  # !"),
    _bad("assert-text", "GD102", 'assert (y < 1000).all(), f"too much: {y.shape}"  # !'),
    _bad("boolean", "GD102", "both = (y.sum() > 0) and (y.mean() > 0)  # !"),
    _bad("values-of-max", "GD102", "v, i = y.max(dim=0)\nif v[0] > 0:  # !\n    y = y + 1"),
    _bad("annotated", "GD102 GD103", """
        @torch.compile(backend="eager")
        def step(x: torch.Tensor):
            if x.sum() > 0:  # !
                x = x * 2
            return x * x.mean().item()  # !
        """),
    _bad("used-as-tensor", "GD102", """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(8, 8)
                self.register_buffer("mean", torch.zeros(8))

            def forward(self, x):
                x = self.fc(x)
                if x.abs().max() > 1:  # !
                    x = x / 2
                if (x - self.mean).sum() > 0:  # !
                    x = x + 1
                return F.relu(x)

        net = Net()
        step = torch.compile(net, backend="eager")
        """),
    _bad("item", "GD103", "y = y * y.sum().item()  # !\ny = y * torch.tensor(3).item()  # !\ny = y + y[0, 0].item()  # !"),
    _bad("tolist", "GD103", "a = y.tolist()  # !\nb = y.long().tolist()  # !"),
    _bad("casts", "GD103", "a = float(y.sum())  # !\nb = int(y.sum())  # !\nc = bool(y.sum() > 0)  # !\ny = y + a + b + c"),
    _bad("math", "GD103", "a = math.sqrt(y.sum().abs())  # !\nb = math.isnan(y.sum())  # !", "import math"),
    _bad("range", "GD103", "for i in range(y.abs().sum().int()):  # !\n    y = y + i"),
    _bad("equal", "GD103", "a = torch.equal(y, y)  # !\nb = y.allclose(y)  # !"),
    _bad("not", "GD103", "a = not y.sum()  # !"),
    _bad("index-of-list", "GD103", "a = [1, 2, 3][y.long().sum() % 3]  # !"),
    _bad("nonzero", "GD104", "a = y.nonzero()  # !\nb = torch.nonzero(y, as_tuple=True)  # !\nc = torch.argwhere(y)  # !\nd = torch.where(y > 0)  # !"),
    _bad("mask", "GD104", "a = y[y > 0]  # !\nm = ~(y > 0) & (y < 1)\nb = y[m]  # !\nc = y[torch.isnan(y)]  # !\nd = y[:, y[0] > 0]  # !"),
    _bad("mask-grows", "GD104", "y[y > 0] += 1.0  # !"),
    _bad("unique", "GD104", "a = y.unique()  # !\nb = torch.unique(y, return_inverse=True)  # !\nc = y.masked_select(y > 0)  # !"),
    _bad("bincount", "GD104", "a = torch.bincount(y.long().abs().flatten(), minlength=5)  # !\nb = torch.repeat_interleave(y[0], torch.ones(8).long())  # !"),
    _bad("one-hot", "GD104", "a = F.one_hot(y.long().abs())  # !"),
    _bad(
        "clocks",
        "GD105",
        "a = time.time()  # !\nb = perf_counter()  # !\nc = time.monotonic()  # !\nd = time.process_time()  # !\n"
        'e = time.time_ns()  # !\nf = time.perf_counter_ns()  # !\ntime.sleep(0)  # !\ng = time.strftime("%Y")  # !',
        "import time\nfrom time import perf_counter",
    ),
    _bad(
        "system",
        "GD105",
        'a = os.getcwd()  # !\nb = os.getpid()  # !\nc = os.listdir("/")  # !\nd = os.path.exists("/")  # !\n'
        'os.system("true")  # !\ne = os.urandom(2)  # !\nos.makedirs("/", exist_ok=True)  # !',
        "import os",
    ),
    _bad("processes", "GD105", 'subprocess.run(["true"])  # !\nsubprocess.check_output(["true"])  # !\nsubprocess.check_call(["true"])  # !', "import subprocess"),
    _bad(
        "random",
        "GD105",
        "a = random.choice([1, 2])  # !\nb = random.gauss(0, 1)  # !",
        "import random",
    ),
    _bad(
        "library",
        "GD105",
        "a = pickle.dumps([1])  # !\nb = pickle.loads(STORED)  # !\ngc.collect()  # !\nc = uuid.uuid4()  # !\n"
        'd = secrets.token_hex(2)  # !\ne = hashlib.md5(b"a")  # !\nf = hashlib.sha256(b"a")  # !',
        "import gc, hashlib, pickle, secrets, uuid\nSTORED = pickle.dumps([1])",
    ),
    _bad("progress", "GD105", "for i in tqdm(range(2)):  # !\n    y = y + i", "from tqdm import tqdm"),
    _bad("stacks", "GD105", "a = inspect.stack()  # !\ntraceback.print_stack()  # !", "import inspect, traceback"),
    _bad(
        "torch-functions",
        "GD105",
        'torch.save(y, "saved.pt")  # !\na = torch.load("saved.pt")  # !\ntorch.manual_seed(0)  # !\n'
        "b = torch.get_rng_state()  # !\ntorch.set_num_threads(1)  # !",
    ),
    _bad("open", "GD105", 'a = open("/dev/null")  # !'),
    _bad("graph-break", "GD107", "torch._dynamo.graph_break()  # !\ngraph_break()  # !", "from torch._dynamo import graph_break"),
    _bad("skip-frame", "GD107", "torch._dynamo.skip_frame()  # !"),
    _bad("deepcopy", "GD108", "a = copy.deepcopy(y.detach())  # !\nb = copy.copy(y)  # !\nc = copy.deepcopy([y.detach()])  # !\nd = copy.deepcopy(lin)  # !", "import copy\nlin = nn.Linear(8, 8)"),
    _bad("builtins", "GD109", 'exec("1")  # !\na = globals()  # !\nb = compile("1", "a", "eval")  # !\nc = str(y)  # !\nd = repr(y)  # !'),
    _bad("input", "GD109", "a = input()  # !", 'import io, sys\nsys.stdin = io.StringIO("a")'),
    _bad("json", "GD109", 'a = json.dumps([1])  # !\nb = json.loads("[1]")  # !\nc = datetime.now()  # !', "import json\nfrom datetime import datetime"),
    _bad("numpy", "GD109", 'a = np.interp(np.arange(8.0), [0.0, 7.0], [0.0, 1.0])  # !\nnp.save("saved.npy", y.numpy())  # !\nb = np.random.default_rng(0)  # !', "import numpy as np"),
    _bad("lock-calls", "GD109", "lock.acquire()  # !\nlock.release()  # !", "import threading\nlock = threading.Lock()"),
    _bad("lock", "GD110", "with lock:  # !\n    y = y + 1", "import threading\nlock = threading.RLock()"),
    _bad(
        "lock-of-object",
        "GD110",
        _net("with self.lock:  # !\n    return x.sin()", "self.lock = threading.Lock()"),
        "import threading",
    ),
    _bad("semaphore", "GD110", "with threading.Semaphore():  # !\n    y = y + 1", "import threading"),
    _bad("condition", "GD110", "with threading.Condition():  # !\n    y = y + 1", "import threading"),
    _bad("with-open", "GD110", 'with open("/dev/null") as f:  # !\n    y = y + 1'),
    _bad("with-device", "GD110", 'with torch.device("cpu"):  # !\n    y = y + torch.ones(8)'),
    _bad("with-anomaly", "GD110", "with torch.autograd.detect_anomaly():  # !\n    y = y + 1"),
    _bad("with-set-anomaly", "GD110", "with torch.autograd.set_detect_anomaly(True):  # !\n    y = y + 1"),
    _bad("with-fork-rng", "GD110", "with torch.random.fork_rng():  # !\n    y = y + 1"),
    _bad("with-save-on-cpu", "GD110", "with torch.autograd.graph.save_on_cpu():  # !\n    y = y + 1"),
    _bad("with-redirect", "GD110", "with contextlib.redirect_stdout(io.StringIO()):  # !\n    y = y + 1", "import contextlib, io"),
    _bad("with-folder", "GD110", "with tempfile.TemporaryDirectory():  # !\n    y = y + 1", "import tempfile"),
    _bad("backward", "GD112", "(y * W).sum().backward()  # !\ng = torch.autograd.grad((y * W).sum(), W)  # !", "W = nn.Parameter(torch.ones(8))"),
    _bad("backward-function", "GD105", "torch.autograd.backward((y * W).sum())  # !", "W = nn.Parameter(torch.ones(8))"),
    _bad("optimizer", "GD112", "opt.zero_grad()  # !\nopt.step()  # !", "W = nn.Parameter(torch.ones(8))\nopt = torch.optim.SGD([W], lr=0.1)"),
    _bad("train-step", "GD112", """
        @torch.compile(backend="eager")
        def step(x, optimizer: torch.optim.Optimizer = optimizer):
            optimizer.zero_grad()  # !
            loss = criterion(model(x), torch.zeros(4, 8))
            loss.backward()  # !
            optimizer.step()  # !
            return loss.detach()
        """, "model = nn.Linear(8, 8)\ncriterion = nn.MSELoss()\noptimizer = torch.optim.AdamW(model.parameters())"),
    _bad("requires-grad", "GD114", "x.requires_grad_()  # !"),
    _bad("requires-grad-set", "GD114", "x.requires_grad = True  # !\na = torch.ones(8, requires_grad=True)  # !\nb = torch.zeros(8, requires_grad=True)  # !\nc = torch.tensor([1.0], requires_grad=True)  # !\nd = torch.randn(8, requires_grad=True)  # !\ny = y * (a + b + c + d)"),
    _bad("parameter", "GD115", "p = nn.Parameter(torch.ones(8))  # !\ny = y * p\nlayer = nn.Linear(8, 8)  # !\ny = layer(y)\na = nn.Conv1d(1, 1, 1)  # !\nb = nn.Conv2d(1, 1, 1)  # !\nc = nn.Embedding(2, 2)  # !\nd = nn.Bilinear(2, 2, 2)  # !"),
    _bad("recurrent", "GD116", _net("out, _ = self.rnn(x)  # !\nreturn out.cos()", "self.rnn = nn.LSTM(8, 8)")),
    _bad("sparse", "GD117", "a = y.to_sparse()  # !"),
    _bad("sparse-made", "GD117", "a = torch.sparse_coo_tensor([[0], [0]], [1.0], (4, 8))  # !"),
    _bad("inference-mode", "GD118", "a = y.is_inference()  # !\nb = torch.is_inference_mode_enabled()  # !"),
    _bad("sorted", "GD123", "low, high = sorted([y.sum(), y.mean()])  # !"),
    _bad("random-in-place", "GD100", "y.clone().random_()  # !"),
    _bad("class-statement", "GD100", "class A:  # !\n    q = 1"),
    _bad("in-loop", "GD101", 'for i in range(2):\n    y = y + i\n    print("a")  # !'),
    _bad("in-try", "GD101", 'try:\n    print("a")  # !\nexcept ValueError:\n    print("never")'),
    _bad("under-no-grad", "GD101", 'with torch.no_grad():\n    print("a")  # !'),
    _bad("counter", "GD205", _net("self.calls += 1  # !\nreturn x.sin() * self.calls", "self.calls = 0"), calls=3),
    _bad("counter-alone", "GD205", _net("y = x.sin()\nself.calls += 1  # !\nreturn y.cos()", "self.calls = 0"), calls=3),
    _bad("counter-of-seconds", "GD205", _net("self.seconds += 0.5  # !\nreturn x.sin() * self.seconds", "self.seconds = 0.0"), calls=3),
    _bad("counter-not-compiled", "GD110", _net("with LOCK:  # !\n    self.calls += 1\n    return x.sin()", "self.calls = 0"), "import threading\nLOCK = threading.Lock()", calls=2),
    _bad("called", "GD101 GD103", """
        def outer(x):
            return inner(x.sin())

        def inner(x):
            print("inner")  # !
            return Part()(x)

        class Part(nn.Module):
            def forward(self, x):
                return self.scaled(x.cos())

            def scaled(self, x):
                return x * x.sin().sum().item()  # !

        step = torch.compile(outer, backend="eager")
        """),
    _bad("submodules", "GD101 GD102", """
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(8, 8)

            def forward(self, x):
                x = self.fc(x)
                if x.sum() > 0:  # !
                    x = x * 2
                return x

        class Head(nn.Module):
            def forward(self, x):
                print("head")  # !
                return x.cos()

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.blocks = nn.ModuleList([Block() for _ in range(2)])
                self.head = nn.Sequential(nn.ReLU(), Head())

            def forward(self, x):
                for i, block in enumerate(self.blocks):
                    x = block(x)
                return self.head(x)

        net = Net().eval()
        net = torch.compile(net, backend="eager")
        step = net
        """),
    _bad("inherited", "GD101", """
        class Base(nn.Module):
            def forward(self, x):
                return self.part(x).sin()

            def part(self, x):
                return x

        class Net(Base):
            def forward(self, x):
                return super().forward(x)

            def part(self, x):
                print("part")  # !
                return x

        step = Net()
        step.compile(backend="eager")
        """),
    _bad("method", "GD101", """
        class Trainer:
            def __init__(self):
                self.fast = torch.compile(self.slow, backend="eager")

            def slow(self, x):
                print("slow")  # !
                return x.sin()

        def step(x):
            return Trainer().fast(x)
        """),
    _bad("partial", "GD101", """
        @functools.partial(torch.compile, backend="eager")
        def first(x):
            print("first")  # !
            return x.sin()

        fast = functools.partial(torch.compile, backend="eager")

        @fast
        def second(x):
            print("second")  # !
            return x.cos()

        def step(x):
            first(x)
            second(x)
            return third(x)

        third = torch.compile(
            lambda v: print("third") or v.sin(),  # !
            backend="eager",
        )
        """, "import functools"),
    _bad("local", "GD101", """
        from torch import compile as fast

        def step(x):
            def traced(x):
                print("traced")  # !
                return x.sin()

            return fast(backend="eager")(traced)(x)
        """),
    _bad("else-of-is-compiling", "GD101", 'if not torch.compiler.is_compiling():\n    print("a")\nelse:\n    print("b")  # !'),
    _bad("annotated-as-text", "GD103", """
        class Net(nn.Module):
            def forward(self, x: "torch.Tensor") -> "torch.Tensor":
                peak = float(x.max())  # !
                return x / peak

        step = torch.compile(Net(), backend="eager")
        """),
    _bad("several-lines", "GD101", """
        @torch.compile(backend="eager")
        def step(x):
            y = x.sin()
            print(  # !
                "a",
            )
            return y
        """),
    _bad("class-forward", "GD101", """
        class Net(nn.Module):
            def forward(self, x):
                print("net")  # !
                return x.sin()

        Net.forward = torch.compile(Net.forward, backend="eager")
        step = Net()
        """),
    _bad("own-forward", "GD101", """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.forward = torch.compile(self.forward, backend="eager")

            def forward(self, x):
                print("net")  # !
                return x.sin()

        step = Net()
        """),
    _bad("attribute-rebound", "GD101", """
        class Net(nn.Module):
            def forward(self, x):
                print("net")  # !
                return x.sin()

        class Outer:
            def __init__(self):
                self.core = Net()
                self.core = torch.compile(self.core.eval(), backend="eager")

        step = Outer().core
        """),
    _bad("compiles-itself", "GD101", """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.compile(backend="eager")

            def forward(self, x):
                print("net")  # !
                return x.sin()

        step = Net()
        """),
    _bad("factory", "GD101", """
        class Net(nn.Module):
            def forward(self, x):
                print("net")  # !
                return x.sin()

        def build(name="net"):
            net = {"net": Net}[name]()
            return net.eval()

        step = torch.compile(build(), backend="eager")
        """),
    _bad("factory-then-rebound", "GD101", """
        class Net(nn.Module):
            def forward(self, x):
                print("net")  # !
                return x.sin()

        def build():
            return Net(), torch.ones(3)

        def main():
            model, weights = build()
            model = torch.compile(model, backend="eager")
            return model

        step = main()
        """),
    _bad("passed-to-a-function", "GD101", """
        class First(nn.Module):
            def forward(self, x):
                print("first")  # !
                return x.sin()

        class Second(nn.Module):
            def forward(self, x):
                print("second")  # !
                return x.sin()

        def optimized(model, on=True):
            if not on:
                return model
            return torch.compile(model, backend="eager")

        nets = [optimized(First()), optimized(Second())]

        def step(x):
            return [net(x) for net in nets]
        """),
    _bad("containers", "GD101", """
        class First(nn.Module):
            def forward(self, x):
                print("first")  # !
                return x.sin()

        class Second(nn.Module):
            def forward(self, x):
                print("second")  # !
                return x.sin()

        nets = {"first": First(), "second": Second()}
        compiled = {name: torch.compile(net, backend="eager") for name, net in nets.items()}

        def step(x):
            return compiled["first"](compiled["second"](x))
        """),
    _bad("method-of-object", "GD101", """
        class Policy(nn.Module):
            def forward(self, x):
                print("forward")  # !
                return x.sin()

            def act(self, x):
                return self(x).cos()

        policy = Policy()
        policy.act = torch.compile(policy.act, backend="eager")
        step = policy.act
        """),
    _bad("registered", "GD101", """
        def register(name):
            def add(cls):
                REGISTRY[name] = cls
                return cls
            return add

        @register("net")
        class Net(nn.Module):
            def forward(self, x):
                print("net")  # !
                return x.sin()

        step = torch.compile(Net(), backend="eager")
        """, 'REGISTRY = {}'),
    _bad("passed-to-a-constructor", "GD101", """
        class Part(nn.Module):
            def forward(self, x):
                print("part")  # !
                return x.sin()

        class Chain(nn.Module):
            def __init__(self, first, *others):
                super().__init__()
                self.first = first
                self.others = nn.ModuleList(others)

            def forward(self, x):
                x = self.first(x)
                for part in self.others:
                    x = part(x)
                return x

        step = torch.compile(Chain(nn.ReLU(), Part()), backend="eager")
        """),
    _bad("returned", "GD102", """
        def scores(x, weight):
            scaled = x @ weight
            return scaled, (scaled == 1).float()

        def step(x):
            y, mask = scores(x, torch.ones(8, 8))
            if mask.sum() > 3:  # !
                y = y + 1
            return y

        step = torch.compile(step, backend="eager")
        """),
    _bad("hidden-in-a-loop", "GD101", """
        @torch.compile(backend="eager")
        def step(x):
            for i in range(2):
                x = x + i
                print("a")  # !
                print("torch never gets here")
            print("nor here")
            return x
        """),
    _bad("hidden-by-a-call", "GD101", """
        def loud(x):
            print("loud")  # !
            return x.sin()

        @torch.compile(backend="eager")
        def step(x):
            for i in range(2):
                x = loud(x)
            print("never compiled")
            return x
        """),
    _bad("recurrent-read", "GD116", """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.rnn = nn.GRU(8, 8)

            def forward(self, x):
                state = x.new_zeros(self.rnn.num_layers, 8)  # !
                out, state = self.rnn(x, state)
                return out.cos()

        step = torch.compile(Net(), backend="eager")
        """),
    _bad("custom-function", "GD103", """
        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * x.detach().abs().max().item()  # !

            @staticmethod
            def backward(ctx, grad):
                return grad

        @torch.compile(backend="eager")
        def step(x):
            return Scale.apply(x.sin())
        """),
    _bad("lists-of-layers", "GD102 GD104", """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.heads = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))

            def forward(self, x, index=1):
                if self.heads[-1](x).max(-1).values.min() > 0:  # !
                    x = x * 2
                found = (self.heads[index](x) == index).nonzero()  # !
                return x, found

        step = torch.compile(Net(), backend="eager")
        """),
    _bad("factory-of-a-method", "GD101", """
        class Trainer:
            def step(self, x):
                print("step")  # !
                return self.scaled(x.sin())

            def scaled(self, x):
                print("scaled")  # !
                return x * 2

        def build():
            return Trainer().step

        step = torch.compile(build(), backend="eager")
        """),
]  # fmt: skip

GOOD = [
    _good("guarded", 'if not torch.compiler.is_compiling():\n    print("a")\nif torch.compiler.is_compiling():\n    return y\nprint("b")'),
    _good("type-checking", 'if TYPE_CHECKING:\n    print("a")\nif torch.jit.is_scripting():\n    print("b")', "from typing import TYPE_CHECKING"),
    _good("under-a-condition", """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.debug = False

            def forward(self, x):
                if self.debug:
                    print("x")
                if self.debug and x.sum() > 0:
                    print("y")
                self.debug and print("z")
                if not self.debug:
                    return x.sin()
                print("not reached")
                return x

        step = torch.compile(Net(), backend="eager")
        """),
    _good("in-a-handler", 'try:\n    y = y + 1\nexcept ValueError:\n    print("a")'),
    _good("never-called", """
        def unused(x):
            print("unused")
            return x.sum().item()

        class Other(nn.Module):
            def forward(self, x):
                print("other")
                return x

        @torch.compile(backend="eager")
        def step(x):
            def inner():
                print("inner")
            later = lambda: print("later")
            return x.sin()
        """),
    _good("own-names", """
        def print(x):
            return x

        class item:
            def item(self):
                return 3

        @torch.compile(backend="eager")
        def step(x, float=lambda v: v):
            print(x.sum())
            return float(x.sum()) * item().item()
        """),
    _good("sizes", "if y.shape[0] > 2 and y.dim() == 2 and y.numel() > 3 and len(y) > 1:\n    y = y + int(y.shape[0]) + float(y.size(1))\nwhile y.ndim < 2:\n    y = y[None]\nassert y.dtype == torch.float32, f'{y.dtype}'"),
    _good("numbers", "n = 3\nk = float(n) + int(2.5) + max(1, 2)\nif n > 2:\n    y = y + k"),
    _good("assert", 'assert (y < 1000).all()\nassert y.sum() < 1000, "too much"\nassert y.sum() is not None, f"{x}"'),
    _good("none", "if y is None or y.grad is not None:\n    y = y + 1\nif x.sum() is not None:\n    y = y + 1"),
    _good("max-of-tensors", "y = y * max(y.sum(), 1.0) * min(y.sum(), y.mean())"),
    _good("where", "y = torch.where(y > 0, y, 0.0)\ny[y > 0] = 0.0\ny = y.masked_fill(y > 1, 0.0)"),
    _good("fixed-shapes", "a = F.one_hot(y.long().abs().clamp(max=2), 3)\nb = torch.repeat_interleave(y[0], 2)\nc = y[0].repeat_interleave(torch.ones(8).long(), output_size=8)"),
    _good("deepcopy", "a = copy.deepcopy([1, 2])\nb = copy.deepcopy({'a': 1})\nc = y.clone()", "import copy"),
    _good("numpy", "a = y.detach().cpu().numpy()\nb = np.sum(a)\nc = np.asarray(y)\ny = y * torch.from_numpy(np.ones(8, dtype=np.float32))", "import numpy as np"),
    _good("library", 'a = os.path.join("a", "b")\nb = os.environ.get("A")\nc = random.randint(0, 3)\nd = random.uniform(0, 1)\ne = f"{y}"', "import os, random"),
    _good("managers", "with torch.no_grad():\n    y = y + 1\nwith contextlib.nullcontext():\n    y = y + 1\nwith contextlib.suppress(ValueError):\n    y = y + 1\nwith torch.profiler.record_function('a'):\n    y = y + 1", "import contextlib"),
    _good("grad", "a = y.detach().requires_grad_(False)\nb = nn.Buffer(torch.ones(8))\nc = nn.ReLU()(y)"),
    _good("cell", _net("return self.cell(x)[0].cos()", "self.cell = nn.LSTMCell(8, 8)")),
    _good("counter-in-buffer", _net("self.calls += 1\nreturn x.sin() * self.calls", 'self.register_buffer("calls", torch.tensor(0))'), calls=3),
    _good("counter-once", """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.calls = 0

            def forward(self, x):
                return x.sin() * self.calls

            def reset(self):
                self.calls += 1

        step = torch.compile(Net(), backend="eager")
        """, calls=3),
    _good("rebound", """
        @torch.compile(backend="eager")
        def step(x):
            y = x.sin()
            y = 3
            if y > 2:
                x = x + float(y)
            return x
        """),
    _good("tensor-or-none", """
        @torch.compile(backend="eager")
        def step(x: torch.Tensor, y: torch.Tensor = None, *, z: torch.Tensor = None):
            return x.sin() if not y and not z else x.cos()
        """),
    _good("own-methods", """
        class Angle:
            def sin(self):
                return 3

        def step(x):
            return traced(x, Angle())

        @torch.compile(backend="eager")
        def traced(x, angle):
            return x * float(angle.sin()) if angle.sin() > 2 else x
        """),
    _good("norm-without-parameters", "layer = nn.LayerNorm(8, elementwise_affine=False)\ny = layer(y)"),
    _good("list-of-tensors", "z = [y, x]\nif len(z) > 1:\n    y = y + z[0]\nif z:\n    y = y + 1"),
    _good("switched-off", """
        @torch.compile(disable=True)
        def step(x):
            print("a")
            return x.sum().item() * x
        """),
    _good("named-compile", """
        import re

        def step(x):
            re.compile("a")
            print("a")
            return x
        """),
    _good("generator-later", "z = (v for v in [1])\ny = y + 1"),
    _good("replaced-by-a-decorator", """
        def quiet(cls):
            def forward(self, x):
                return x.sin()

            cls.forward = forward
            return cls

        @quiet
        class Net(nn.Module):
            def forward(self, x):
                print("never called")
                return x.sin()

        class Derived(Net):
            pass

        def step(x):
            return first(x) + second(x)

        first = torch.compile(Net(), backend="eager")
        second = torch.compile(Derived(), backend="eager")
        """),
    _good("replaced-by-a-metaclass", """
        class Quiet(type):
            def __call__(cls, *args):
                return super().__call__(*args).eval() and nn.Identity()

        class Net(nn.Module, metaclass=Quiet):
            def forward(self, x):
                print("never called")
                return x.sin()

        step = torch.compile(Net(), backend="eager")
        """),
    _good("replaced-by-assignment", """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.forward = self.quick

            def quick(self, x):
                return x.sin()

            def forward(self, x):
                print("never called")
                return x.sin()

        class Other(nn.Module):
            def forward(self, x):
                print("never called")
                return x.sin()

        Other.forward = lambda self, x: x.cos()
        first = torch.compile(Net(), backend="eager")
        second = torch.compile(Other(), backend="eager")

        def step(x):
            return first(x) + second(x)
        """),
    _good("layer-of-a-subclass", """
        class Base(nn.Module):
            def __init__(self):
                super().__init__()
                self.core = nn.LSTM(8, 8)

            def forward(self, x):
                return self.part(self.core(x))

            def part(self, x):
                print("never called")
                return x

        class Net(Base):
            def __init__(self):
                super().__init__()
                self.core = nn.Linear(8, 8)

            def part(self, x):
                return x.sin()

        step = torch.compile(Net(), backend="eager")
        """),
    _good("assigned-from-outside", """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.core = nn.LSTM(8, 8)

            def forward(self, x):
                return self.core(x).sin()

        step = Net()
        step.core = nn.Linear(8, 8)
        step = torch.compile(step, backend="eager")
        """),
    _good("returns-something-else", """
        def maybe(x):
            if x.ndim > 5:
                return x.sin()

        def two(x):
            return (x.sin(), 3) if x.ndim > 5 else (4, x.sin())

        @torch.compile(backend="eager")
        def step(x):
            found, (first, second) = maybe(x), two(x)
            return x.cos() if found or first == 3 else x
        """),
]  # fmt: skip
