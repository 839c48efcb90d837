"""``graphdoctor run`` watches calls as they happen: coverage, steady time, whether a program
settles, the cost."""

from __future__ import annotations

import json
import textwrap
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from graphdoctor.probe.wire import TRACE_FOLDER
from graphdoctor.trace.grammar import LogDamage, read_records
from tests.commands.test_run import assert_alike, logs, report, run_forked, said

pytestmark = pytest.mark.slow
TORCH = tuple(map(int, version("torch").split(".")[:2]))
MODEL = """\
import torch
from transformers import GPT2Config, GPT2LMHeadModel

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        size = dict(n_layer=1, n_head=2, n_embd=16, vocab_size=50, n_positions=16, bos_token_id=0, eos_token_id=0)
        self.gpt = GPT2LMHeadModel(GPT2Config(**size))

    def forward(self, ids):
        return (scaled(self.gpt(input_ids=ids).logits) ** 2).mean()

@torch.compiler.disable
def scaled(logits):
    return logits * 0.5 + 1

def example_inputs():
    return (torch.zeros(2, 8, dtype=torch.long),)
"""
TRAIN = """\
import torch
from model import Net
net = Net()
adam = torch.optim.Adam(net.parameters())
model = torch.compile(net, backend="eager")

@torch.compile(backend="eager")
def step():
    adam.step()

for _ in range(12):
    model(torch.zeros(2, 8, dtype=torch.long)).backward()
    step()
    adam.zero_grad()
"""
TIMED = """\
import json, time, torch
@torch.compile(backend="eager")
def f(x):
    x = x + 1
    time.sleep(0.02)
    return x * 2
took = []
for _ in range(40):
    began = time.perf_counter()
    f(torch.ones(3))
    took.append((time.perf_counter() - began) * 1e6)
print(json.dumps(took))
"""
SEMANTICS = """\
import random, traceback, torch
@torch.compile(backend="aot_eager")
def f(x, raises=False):
    y = torch.nn.functional.dropout(x, 0.5) * x
    torch._dynamo.graph_break()
    if raises:
        fail()
    return y.sin() + torch.rand(3)
@torch.compiler.disable
def fail():
    raise ValueError("no")
@torch.compile(backend="eager")
def out_of_range(x, n):
    return x[n]
torch.manual_seed(0)
random.seed(0)
for number in range(12):
    x = torch.ones(3, requires_grad=True)
    try:
        y = f(x, number % 4 == 3)
        y.sum().backward()
        print(y.tolist(), x.grad.tolist(), torch.rand(1).item(), random.random(), torch.is_grad_enabled())
    except ValueError:
        traceback.print_exc()
for number in range(6):
    try:
        out_of_range(torch.ones(3), torch.tensor(number))
    except Exception:
        traceback.print_exc()
raise SystemExit(3)
"""
PROFILED = """\
import torch
from torch.profiler import ProfilerActivity, profile, schedule
@torch.compile(backend="eager")
def f(x):
    return x.sin() + 1
@torch.compile(backend="eager")
def g(x):
    x = x.cos()
    with profile(activities=[ProfilerActivity.CPU]) as inner:
        x = x + 1
    g.seen = [event.name for event in inner.events() if event.name == "aten::add"]
    return x
steps = schedule(wait=1, warmup=1, active=3, repeat=1)
with profile(activities=[ProfilerActivity.CPU], schedule=steps) as outer:
    for _ in range(10):
        f(torch.ones(3))
        outer.step()
print(len([event for event in outer.events() if event.name == "aten::sin"]))
for _ in range(4):
    g(torch.ones(3))
    print(g.seen)
"""
THREADS = """\
import threading, torch
functions = [torch.compile(lambda x, n=n: x.sin() + n, backend="eager") for n in range(2)]
for function in functions:
    function(torch.ones(3))
errors = []
def work(function):
    try:
        for _ in range(2000):
            function(torch.ones(3))
    except BaseException as error:
        errors.append(error)
threads = [threading.Thread(target=work, args=(function,)) for function in functions * 2]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(errors)
"""
MANY = """\
import torch
class Layer(torch.nn.Module):
    def forward(self, x):
        return x.sin() + 1
once = torch.compile(lambda x: x.cos(), backend="eager")
inner = torch.compile(lambda x: x.tan(), backend="eager")
@torch.compiler.disable(recursive=False)
def call(x):
    return inner(x)
@torch.compile(backend="eager")
def outer(x):
    return call(x * 2) + 1
@torch.compile(backend="eager")
def items(x):
    yield x
@torch.compile(backend="eager")
def bad(x):
    x = x + 1
    raise ValueError(print("bad"))
layers = [Layer() for _ in range(2)]
for layer in layers:
    layer.compile(backend="eager")
plain = torch.nn.Linear(3, 3)
plain.compile(backend="eager")
x = torch.ones(3)
once(x)
for _ in range(6):
    [layer(x) for layer in layers]
    plain(x), outer(x), list(items(x))
    try:
        bad(x)
    except ValueError:
        pass
"""
FORKS = """\
import os, torch
f = torch.compile(lambda x: x.sin() + 1, backend="eager")
for _ in range(6):
    f(torch.ones(3))
for shape in ((3, 3), (3,)):
    if os.fork() == 0:
        for _ in range(6):
            f(torch.ones(shape))
        os._exit(0)
    os.wait()
"""


def functions(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {found["compiled"]: found for found in document["recording"]["watch"]["functions"]}


def watched(folder: Path) -> list[dict[str, Any]]:
    found = []
    for log in logs(folder):
        with log.open("rb") as lines:
            records = list(
                read_records(lines, lambda kind: kind == "graphdoctor_watched_call", LogDamage())
            )
        found += [json.loads(record.payload or "{}") for record in records]
    return found


def test_coverage_is_that_of_explain_and_of_each_function(tmp_path, run_cli):
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "train.py").write_text(TRAIN)
    run_cli("explain", "model.py:Net", "--backend", "eager", "-o", "explain.json", status=0)
    expected = json.loads((tmp_path / "explain.json").read_text())["summary"]
    process = run_forked(tmp_path, "--report", "report.json", "train.py")
    document = json.loads((tmp_path / "report.json").read_text())

    model, step = functions(document)["Net"], functions(document)["step"]
    for key in ("graph_ops", "eager_ops", "eager_op_names"):
        assert model["coverage"][key] == expected["coverage_detail"][key]
    assert model["graph_runs"] == expected["graphs_per_call"]
    assert 0 < expected["coverage"] < 1
    assert (model["calls"], step["calls"], model["last_compile"]) == (12, 12, 1)
    assert step["coverage"]["graph_ops"] > 0
    detail = document["summary"]["coverage_detail"]
    assert detail["graph_ops"] == model["coverage"]["graph_ops"] + step["coverage"]["graph_ops"]
    assert detail["eager_ops"] == model["coverage"]["eager_ops"] + step["coverage"]["eager_ops"]
    assert document["summary"]["steady_call_us"] == pytest.approx(
        model["steady_us"] + step["steady_us"]
    )
    assert document["summary"]["graphs_per_call"] is None
    assert document["summary"]["steadiness"]["state"] == "settled"
    assert "of operations compiled" in process.stderr
    assert "of 24 calls (+" in " ".join(process.stderr.split())


def test_times_lie_within_those_that_the_script_measures(tmp_path):
    (tmp_path / "script.py").write_text(TIMED)
    took = json.loads(run_forked(tmp_path, "--report", "report.json", "script.py").stdout)
    document = json.loads((tmp_path / "report.json").read_text())

    calls = watched(tmp_path)
    assert [call["call"] for call in calls] == [2, 3, 4, 5, 6, 7, 8, 10, 13, 17, 22, 28, 35]
    assert [call["call"] for call in calls if call["is_profiled"]] == [2, 4, 8, 17, 35]
    for call in calls:
        assert call["duration_us"] >= 20_000
        assert call["duration_us"] + call["cost_us"] <= took[call["call"] - 1]
    (found,) = document["recording"]["watch"]["functions"]
    assert (found["calls"], found["watched_calls"], found["timed_calls"]) == (40, 13, 8)
    assert document["summary"]["steady_call_us"] == found["steady_us"]
    times = sorted(call["duration_us"] for call in calls if not call["is_profiled"])
    assert found["steady_us"] == pytest.approx((times[3] + times[4]) / 2)
    assert document["recording"]["watch"]["cost_s"] >= sum(call["cost_us"] for call in calls) / 1e6


def test_watched_calls_behave_as_under_python(tmp_path):
    (tmp_path / "script.py").write_text(SEMANTICS)
    assert_alike(tmp_path, "script.py")
    assert {call["outcome"] for call in watched(tmp_path)} >= {"steady", "raised"}


def test_the_programs_own_profiler_sees_what_it_would_see(tmp_path):
    (tmp_path / "script.py").write_text(PROFILED)
    process = run_forked(tmp_path, "--report", "report.json", "script.py")
    document = json.loads((tmp_path / "report.json").read_text())

    assert process.returncode == 0, process.stderr
    assert process.stdout.split("\n")[0] == "3"
    assert "aten::add" in process.stdout
    assert functions(document)["f"]["coverage"]["graph_ops"] == 2
    assert functions(document)["g"]["not_covered"] == "profiler"
    assert document["summary"]["coverage"] is None
    assert "only one can run at a time" in said(document)


def test_calls_of_several_threads_are_counted_and_watched(tmp_path):
    (tmp_path / "script.py").write_text(THREADS)
    process = run_forked(tmp_path, "--report", "report.json", "script.py")
    document = json.loads((tmp_path / "report.json").read_text())

    assert process.stdout == "[]\n"
    assert [found["calls"] for found in document["recording"]["watch"]["functions"]] == [4001, 4001]
    assert [
        found["coverage"]["graph_ops"] for found in document["recording"]["watch"]["functions"]
    ] == [2, 2]
    assert (
        sum(found["watched_calls"] for found in document["recording"]["watch"]["functions"])
        <= 2 * 41
    )


def test_each_function_is_covered_or_says_why_not(tmp_path):
    (tmp_path / "script.py").write_text(MANY)
    document = report(tmp_path, "script.py")

    reasons = {
        found["compiled"]: found["not_covered"]
        for found in document["recording"]["watch"]["functions"]
    }
    lambdas = [
        found
        for found in document["recording"]["watch"]["functions"]
        if found["compiled"] == "<lambda>"
    ]
    assert [found["not_covered"] for found in lambdas] == ["once", "nested"]
    assert (reasons["items"], reasons["bad"]) == ("deferred", "raised")
    assert reasons["Layer"] is reasons["outer"] is reasons["Linear"] is None
    assert [found["compiled"] for found in document["recording"]["watch"]["functions"]].count(
        "Layer"
    ) == 2
    # Up to 2.13, torch compiles nothing of one of its own modules that is compiled in place.
    assert functions(document)["Linear"]["coverage"]["graph_ops"] == int(TORCH > (2, 13))
    # The nested function's graph is part of the call of the function that calls it.
    assert functions(document)["outer"]["graph_runs"] == 3
    assert document["summary"]["coverage"] is None
    gaps = [gap["message"] for gap in document["recording"]["gaps"] if gap["kind"] == "coverage"]
    assert [message.partition("`, ")[0] for message in gaps] == [
        "Coverage of `<lambda>",
        "Coverage of `items",
        "Coverage of `bad",
    ]


@pytest.mark.parametrize("limit", [8, 1000])
def test_a_script_that_recompiles_for_ever(tmp_path, limit):
    (tmp_path / "script.py").write_text(
        f"import torch\ntorch._dynamo.config.recompile_limit = {limit}\n"
        "@torch.compile(backend='eager', dynamic=False)\ndef f(x):\n    return x.sin() + 1\n"
        "for n in range(2, 42):\n    f(torch.ones(n))\n"
    )
    document = report(tmp_path, "script.py")

    steadiness, (found,) = (
        document["summary"]["steadiness"],
        document["recording"]["watch"]["functions"],
    )
    if limit == 8:
        assert (steadiness["state"], steadiness["function"]) == ("over_limit", "f")
        assert (steadiness["compiles_to_limit"], steadiness["changing"]) == (8, ["x.shape[0]"])
        assert document["summary"]["coverage"] == 0
        assert found["coverage"]["eager_ops"] == 2
    else:
        assert (steadiness["state"], steadiness["compiling_calls"]) == ("compiling", 40)
        assert found["not_covered"] == "compiling"
        assert document["summary"]["coverage"] is None
        assert found["watched_calls"] <= 32


def test_calls_that_run_eagerly_without_a_record_are_counted(tmp_path):
    """Each function is called in other ways; what it is called says how many calls are eager."""
    script = """\
        import torch
        from torch.compiler import set_stance
        torch._dynamo.config.automatic_dynamic_shapes = False
        def made(name):
            namespace = {}
            exec(compile(f"def {name}(x):\\n return x.sin() + 1", f"{name}.py", "exec"), namespace)
            return torch.compile(namespace[name], backend="eager")
        def call(function, *sizes):
            for size in sizes:
                function(torch.ones(size))
        none, three, four, ten, one, two = map(made, ("none", "three", "four", "ten", "one", "two"))
        call(none, 2, 3, 2)
        call(three, 2)
        with set_stance("eager_on_recompile"):
            call(three, 2, 3, 2, 4, 4)
            call(none, 2, 3)
        call(four, 2)
        with set_stance("force_eager"):
            call(four, 2, 2, 3, 4)
        call(ten, *range(2, 20), 2, 3)
        with set_stance("eager_then_compile"):
            call(one, 2, 2, 2)
        @set_stance("force_eager")
        def evaluate():
            call(two, 2, 2)
        call(two, 2, 3)
        evaluate()
        call(two, 2, 3)
        call(none, 4)
    """
    (tmp_path / "script.py").write_text(textwrap.dedent(script))
    found = report(tmp_path, "script.py")
    counts = {it["compiled"]: it["eager_calls"] for it in found["recording"]["watch"]["functions"]}
    assert counts == {
        "none": {},
        "three": {"eager_on_recompile": 3},
        "four": {"force_eager": 4},
        "ten": {"limit": 10},
        "one": {"eager_then_compile": 1},
        "two": {"force_eager": 2},
    }
    messages = [it["message"] for it in found["findings"] if it["code"] == "GD219"]
    assert len(messages) == 4
    assert "3 of 6 calls of `three` ran code eagerly" in " ".join(messages)


def test_a_script_that_ends_early_is_not_blamed(tmp_path):
    (tmp_path / "script.py").write_text(
        "import torch\nf = torch.compile(lambda x: x + 1, backend='eager', dynamic=False)\n"
        "f(torch.ones(2)), f(torch.ones(3))\n"
    )
    document = report(tmp_path, "script.py")
    assert document["summary"]["steadiness"]["state"] is None
    assert functions(document)["<lambda>"]["not_covered"] == "compiling"


def test_a_killed_script_leaves_what_was_watched(tmp_path):
    (tmp_path / "script.py").write_text(
        "import os, torch\nf = torch.compile(lambda x: x.sin() + 1, backend='eager')\n"
        "for _ in range(6): f(torch.ones(3))\nos.kill(os.getpid(), 9)\n"
    )
    document = report(tmp_path, "script.py")
    found = functions(document)["<lambda>"]
    assert (found["calls"], found["watched_calls"], found["coverage"]["graph_ops"]) == (None, 5, 2)
    assert document["summary"]["steadiness"]["state"] is None


def test_nothing_of_a_watched_call_is_kept(tmp_path):
    (tmp_path / "script.py").write_text(
        "import gc, weakref, torch\n"
        "def made():\n    f = torch.compile(lambda x: x + 1, backend='eager')\n"
        "    for _ in range(4):\n        x = torch.ones(3)\n        f(x)\n"
        "    return weakref.ref(f), weakref.ref(x)\n"
        "found = made()\ngc.collect()\nprint([one() is None for one in found])\n"
    )
    assert run_forked(tmp_path, "-q", "script.py").stdout == "[True, True]\n"
    assert [call["outcome"] for call in watched(tmp_path)] == ["steady"] * 3


def test_compiling_forked_process_has_its_own_calls(tmp_path):
    (tmp_path / "script.py").write_text(FORKS)
    document = report(tmp_path, "script.py")

    own, other = document["recording"]["watch"]["functions"]
    assert (own["process"], own["calls"], other["process"], other["calls"]) == (None, 6, "p2", None)
    assert own["coverage"]["graph_ops"] == other["coverage"]["graph_ops"] == 2
    assert document["summary"]["coverage_detail"]["graph_ops"] == 2
    assert len(logs(tmp_path)) == 2
    assert TRACE_FOLDER in str(logs(tmp_path)[0])
