"""``graphdoctor.watch``: what torch compiles in this process, seen while it runs."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import threading
import time

import orjson
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch._dynamo")

import graphdoctor
from graphdoctor import GraphDoctorError, RecompileError
from graphdoctor.facts.watch import WatchEvent
from tests.api.state import process_state

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


class Kept:
    """A sink that keeps what it gets."""

    def __init__(self):
        self.events = []
        self.is_closed = False

    def export(self, event):
        self.events.append(event)

    def close(self):
        self.is_closed = True


def compiled(**how):
    def function(x, n=1.0):
        return x.sin() * n

    return torch.compile(function, backend="eager", **how)


@pytest.fixture
def logged():
    """Records of the watch's logger."""
    records, logger = [], logging.getLogger("graphdoctor.watch")
    handler = logging.Handler()
    handler.emit = records.append
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield records
    logger.removeHandler(handler)
    logger.setLevel(level)


def kinds(seen):
    return [(event.kind, event.step) for event in seen.events]


TRAINING = """
import sys
import torch
import graphdoctor

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.temperature = 1.0

    def forward(self, x):
        return (self.layer(x.float()) * self.temperature).sum()

def tag(x, name):
    return x * len(name)

net = Net()
seen = graphdoctor.watch(to=["jsonl:" + sys.argv[1]], log=False)
step_of = torch.compile(net, backend="eager")
tagged = torch.compile(tag, backend="eager")
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(2000):
    seen.step = step
    rows = 7 if step == 700 else 8
    if step == 1300:
        net.temperature = 0.5
    loss = step_of(torch.ones(rows, 4, dtype=torch.float64 if step == 1000 else torch.float32))
    loss.backward()
    optimizer.step()
    if step >= 1500 and step % 10 == 0 and step < 1600:
        tagged(torch.ones(2), "abcdefghij"[: (step - 1500) // 10 + 1])
print(seen.summary())
"""


def test_a_training_script_names_each_recompile_once_and_as_torch_logs_them(tmp_path):
    script, events = tmp_path / "train.py", tmp_path / "watch.jsonl"
    script.write_text(TRAINING)
    environment = {**os.environ, "TORCH_LOGS": "recompiles"}
    ran = subprocess.run(
        [sys.executable, script, events],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    seen = [WatchEvent(**orjson.loads(line)) for line in events.read_bytes().splitlines()]
    forward = [event for event in seen if event.function == "forward"]
    assert [(event.kind, event.step) for event in forward] == [
        ("compile", 0),
        ("recompile", 700),
        ("recompile", 1000),
        ("recompile", 1300),
    ]
    assert [" ".join(event.causes) for event in forward[1:]] == [
        "x.shape[0]: 8 → 7",
        "x.dtype: f32 → f64",
        "self.temperature: 1.0 → 0.5",
    ]
    tagged = [event for event in seen if event.function == "tag"]
    assert [(event.kind, event.step) for event in tagged] == [
        ("compile", 1500),
        *(("recompile", 1500 + 10 * number) for number in range(1, 8)),
        ("limit", 1580),
    ]
    assert all(event.seconds > 0 and event.file == str(script) for event in seen)
    # A function that reached its limit is logged as a recompile, too.
    logged = re.findall(r"Recompiling function (\w+) in (\S+):(\d+)", ran.stderr)
    told = [event for event in seen if event.kind in ("recompile", "limit")]
    assert logged == [(it.function, it.file, str(it.line)) for it in told]
    assert "12 compiles, 10 recompiles among them, 1 limit hit" in ran.stdout


def test_log_levels_and_causes(logged):
    with graphdoctor.watch() as seen:
        function = compiled(dynamic=False)
        function(torch.ones(3))
        seen.step = 7
        function(torch.ones(4))
        assert (seen.compiles, seen.recompiles) == (2, 1)
    first, second = logged
    assert (first.levelname, second.levelname) == ("INFO", "WARNING")
    assert re.fullmatch(
        r"recompiled function \(test_watch.py:\d+\) at step 7 in [\d.]+ \w+: x.shape\[0\]: 3 → 4",
        second.getMessage(),
    )
    assert second.event is seen.events[1]


def test_graph_breaks_and_a_failed_compile():
    def broken(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    def unsupported(x):
        for _ in range(2):
            x = x + 1
            torch._dynamo.graph_break()
        return x

    with graphdoctor.watch(log=False) as seen:
        torch.compile(broken, backend="eager")(torch.ones(3))
        assert [(it.function, it.graph_breaks) for it in seen.events] == [
            ("broken", 1),
            ("broken", 0),
        ]
        torch.compile(unsupported, backend="eager")(torch.ones(3))
        failed = seen.events[2]
        assert (failed.function, failed.is_ok) == ("unsupported", False)


def test_a_backward_that_is_compiled_when_needed():
    with graphdoctor.watch(log=False) as seen:
        function = torch.compile(lambda x: (x * x).sum(), backend="aot_eager", dynamic=True)
        function(torch.ones(3, requires_grad=True)).backward()
    assert {event.kind for event in seen.events} <= {"compile", "backward"}
    assert all(event.function == "<lambda>" for event in seen.events)


def test_cuda_graphs_that_are_recorded_or_skipped():
    """As torch says them, without a GPU."""
    from torch._dynamo.callback import CallbackTrigger, callback_handler
    from torch._inductor.cudagraph_utils import log_cudagraph_skip_and_bump_counter

    with graphdoctor.watch(log=False) as seen:
        compiled()(torch.ones(2))
        compile_id = seen.events[0].compile_id
        with callback_handler.install_callbacks(CallbackTrigger.CUDAGRAPH_RECORDING, compile_id):
            pass
        log_cudagraph_skip_and_bump_counter("skipping cudagraphs due to mutated inputs")
    recorded, skipped = list(seen.events)[1:]
    assert (recorded.kind, recorded.function) == ("cuda_graph", "function")
    assert recorded.seconds > 0
    assert (skipped.kind, skipped.reason) == (
        "cuda_graph_skipped",
        "skipping cudagraphs due to mutated inputs",
    )
    assert seen.compiles == 1


@pytest.mark.parametrize(
    "clear",
    [
        lambda: torch._dynamo.utils.set_compilation_metrics_limit(3),
        torch._dynamo.reset_recompile_user_contexts,
    ],
)
def test_nothing_is_lost_when_the_program_resets_dynamo(clear):
    with graphdoctor.watch(log=False) as seen:
        function = compiled(dynamic=False)
        for step, size in enumerate((2, 3, 3, 4)):
            seen.step = step
            if step == 2:
                torch._dynamo.reset()
                clear()
            function(torch.ones(size))
        assert kinds(seen) == [("compile", 0), ("recompile", 1), ("compile", 2), ("recompile", 3)]
        assert len(torch._dynamo.callback.callback_handler.start_callbacks) == 1
    torch._dynamo.utils.set_compilation_metrics_limit(64)


def test_300_compiles_in_a_burst():
    kept = Kept()
    with graphdoctor.watch(to=[kept], log=False) as seen:
        for number in range(300):
            scope = {}
            exec(f"def made_{number}(x): return x + {number}", scope)
            torch.compile(scope[f"made_{number}"], backend="eager")(torch.ones(1))
    assert seen.compiles == len(kept.events) == 300
    assert [event.function for event in kept.events] == [f"made_{it}" for it in range(300)]
    assert kept.is_closed


def test_two_threads():
    def work(name):
        scope = {}
        exec(f"def in_{name}(x): return x + 1", scope)
        function = torch.compile(scope[f"in_{name}"], backend="eager", dynamic=False)
        for size in range(2, 6):
            function(torch.ones(size))

    with graphdoctor.watch(log=False) as seen:
        threads = [threading.Thread(target=work, args=(name,)) for name in ("first", "second")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for name in ("in_first", "in_second"):
        events = [event for event in seen.events if event.function == name]
        assert [event.kind for event in events] == ["compile", *["recompile"] * 3]
        assert [event.causes for event in events[1:]] == [
            (f"x.shape[0]: {size} → {size + 1}",) for size in range(2, 5)
        ]


FORKS = """
import os, sys
import torch
import graphdoctor
seen = graphdoctor.watch(to=["jsonl:" + sys.argv[1]], log=False)
function = torch.compile(lambda x: x + 1, backend="eager", dynamic=False)
function(torch.ones(2))
if (child := os.fork()) == 0:
    seen.step = 1
    function(torch.ones(3))
    seen.close()
    os._exit(0)
os.waitpid(child, 0)
seen.step = 2
function(torch.ones(4))
"""


def test_a_forked_process_reports_its_own(tmp_path):
    script, events = tmp_path / "forks.py", tmp_path / "watch.jsonl"
    script.write_text(FORKS)
    subprocess.run([sys.executable, script, events], check=True, timeout=120)
    seen = [orjson.loads(line) for line in events.read_bytes().splitlines()]
    assert [(it["kind"], it["step"], it["causes"]) for it in seen] == [
        ("compile", None, []),
        ("recompile", 1, ["x.shape[0]: 2 → 3"]),
        ("recompile", 2, ["x.shape[0]: 2 → 4"]),
    ]


RANKS = """
import sys
import torch
import torch.distributed as dist
import graphdoctor
dist.init_process_group("gloo")
seen = graphdoctor.watch(to=["jsonl:" + sys.argv[1]], log=False)
function = torch.compile(lambda x: x + 1, backend="eager", dynamic=False)
for step in range(3):
    seen.step = step
    function(torch.ones(2 + (step if dist.get_rank() == 1 else 0)))
dist.destroy_process_group()
"""


def test_two_ranks_that_compile_apart(tmp_path):
    script, events = tmp_path / "ranks.py", tmp_path / "watch.jsonl"
    script.write_text(RANKS)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    subprocess.run([*command, script, events], check=True, timeout=300, capture_output=True)
    seen = [orjson.loads(line) for line in events.read_bytes().splitlines()]
    by_rank = {rank: [it["step"] for it in seen if it["rank"] == rank] for rank in (0, 1)}
    assert by_rank == {0: [0], 1: [0, 1, 2]}


# The lock.


def test_a_locked_watch_raises_at_the_step_and_says_which_value():
    with graphdoctor.watch(lock_after=5, on_recompile="raise", log=False) as seen:
        function = compiled(dynamic=False)
        function(torch.ones(2))
        function(torch.ones(3))
        for step in range(2, 20):
            seen.step = step
            if step < 19:
                function(torch.ones(3))
                assert seen.is_locked == (step >= 5)
        with pytest.raises(RecompileError, match=r"at step 19: x.shape\[0\]: 3 → 4"):
            function(torch.ones(4))
        assert (seen.compiles, seen.recompiles) == (2, 1)
        assert seen.events[-1].is_blocked
        function(torch.ones(2))
        seen.allow(function)
        function(torch.ones(4))
        assert seen.recompiles == 2


def test_a_locked_watch_runs_new_values_eagerly_and_gives_them_back():
    function = compiled(dynamic=False)
    with graphdoctor.watch(on_recompile="eager", log=False) as seen:
        function(torch.ones(2))
        seen.lock()
        for _ in range(3):
            assert torch.equal(function(torch.ones(3)), torch.ones(3).sin())
        assert [(it.kind, it.is_blocked) for it in seen.events] == [
            ("compile", False),
            ("recompile", True),
        ]
    with graphdoctor.watch(log=False) as seen:
        function(torch.ones(3))
        assert seen.recompiles == 1


def test_a_function_with_fullgraph_compiles_with_a_warning_where_it_cannot_run_eagerly():
    with graphdoctor.watch(on_recompile="eager", log=False) as seen:
        function = compiled(dynamic=False, fullgraph=True)
        function(torch.ones(2))
        seen.lock()
        function(torch.ones(3))
        assert (seen.recompiles, seen.events[-1].is_locked) == (1, True)


def test_it_locks_after_seconds():
    with graphdoctor.watch(lock_after="0.05s", on_recompile="raise", log=False) as seen:
        assert not seen.is_locked
        time.sleep(0.1)
        function = compiled(dynamic=False)
        function(torch.ones(2))
        with pytest.raises(RecompileError, match="blocked a recompile of function"):
            function(torch.ones(3))


def test_a_new_function_compiles_though_locked_and_a_new_part_of_a_known_one_does_not():
    def branches(x):
        return x + 1 if x.sum() > 0 else x - 1

    def new(x):
        x = x.sin()
        torch._dynamo.graph_break()
        return x + 1

    with graphdoctor.watch(on_recompile="raise", log=False) as seen:
        known = torch.compile(branches, backend="eager")
        known(torch.ones(2))
        seen.lock()
        torch.compile(new, backend="eager")(torch.ones(2))
        assert [(it.function, it.is_locked) for it in seen.events] == [
            *[("branches", False)] * 2,
            *[("new", True)] * 2,
        ]
        with pytest.raises(RecompileError, match="blocked a compile of branches"):
            known(-torch.ones(2))
        torch.compiler.reset()
        with pytest.raises(RecompileError, match="blocked a compile of branches"):
            known(torch.ones(2))


# Coverage.


class Step(torch.nn.Module):
    """A step of training with a graph break, whose loss is computed in eager mode."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        x = self.layer(x).relu()
        torch._dynamo.graph_break()
        return x.sin()


def test_coverage_of_a_step_is_what_explain_measures():
    step, x = Step(), torch.ones(2, 4)
    with graphdoctor.watch(log=False) as seen:
        function = torch.compile(step, backend="eager")
        assert seen.coverage(function, x) is None  # it compiled
        measured = seen.coverage(function, x)
        assert (measured.share, measured.graph_ops) == (1, 3)
        whole = seen.coverage(lambda: function(x).sum().backward())
        assert (whole.graph_ops, whole.eager_op_names) == (
            3,
            {"aten::sum": 1, "aten::ones_like": 1},
        )
        assert step.layer.weight.grad is not None
    assert graphdoctor.explain(step, x).diagnosis.summary.coverage_detail == measured


def test_coverage_is_unknown_of_what_was_compiled_before_and_while_the_program_profiles():
    def failing():
        raise ValueError("the program's own")

    function = torch.compile(Step(), backend="eager")
    x = torch.ones(2, 4)
    function(x)
    with graphdoctor.watch(log=False) as seen:
        assert seen.coverage(function, x) is None
        assert seen.coverage(torch.sin, x).eager_op_names == {"aten::sin": 1}
        with torch.profiler.profile():
            assert seen.coverage(torch.sin, x) is None
        with pytest.raises(ValueError, match="the program's own"):
            seen.coverage(failing)


# What a sink does never reaches the program.


def test_a_sink_that_raises_is_logged_once(logged):
    class Raises(Kept):
        def export(self, event):
            raise ValueError("full")

    kept = Kept()
    with graphdoctor.watch(to=[Raises(), kept], log=False):
        function = compiled(dynamic=False)
        for size in (2, 3, 4):
            function(torch.ones(size))
    assert len(kept.events) == 3
    assert [record.getMessage().partition(";")[0] for record in logged] == [
        "test_a_sink_that_raises_is_logged_once.<locals>.Raises can't export an event"
    ]


def test_a_sink_that_hangs_holds_up_nothing(monkeypatch):
    monkeypatch.setattr("graphdoctor.api.watching.outbox._CLOSE_S", 0.1)
    hung = threading.Event()

    class Hangs(Kept):
        def export(self, event):
            hung.wait()

    started = time.monotonic()
    with graphdoctor.watch(to=[Hangs()], log=False) as seen:
        compiled()(torch.ones(2))
    assert time.monotonic() - started < 60
    assert seen.compiles == 1
    hung.set()


# The end.


def test_closing_restores_torch():
    compiled()(torch.ones(2))  # what torch itself sets up at the first compile
    with graphdoctor.watch(log=False):
        compiled()(torch.ones(2))
    torch.compiler.reset()
    before = process_state()
    with graphdoctor.watch(log=False, lock_after=1000, on_recompile="eager"):
        pass
    assert process_state() == before
    assert type(torch._dynamo.utils._compilation_metrics).__name__ == "deque"
    assert torch._dynamo.utils.get_hook_for_recompile_user_context() is None
    assert torch._dynamo.callback.callback_handler.start_callbacks == []


def test_two_watches_see_the_same():
    with graphdoctor.watch(log=False) as outer:
        with graphdoctor.watch(log=False) as inner:
            compiled()(torch.ones(2))
        torch.compiler.reset()
        compiled()(torch.ones(2))
        assert (outer.compiles, inner.compiles) == (2, 1)


def test_a_recording_that_report_opens(tmp_path, monkeypatch):
    from graphdoctor.rules.diagnosed import Needs, diagnose_recording
    from graphdoctor.rules.diagnosis.selection import Selection
    from graphdoctor.trace.folder import open_folder

    monkeypatch.chdir(tmp_path)
    with graphdoctor.watch(to=["recording:kept"], log=False) as seen:
        function = compiled(dynamic=False)
        function(torch.ones(2))
        function(torch.ones(3))
        assert seen.recompiles == 1
    (folder,) = (path for path in (tmp_path / "kept").iterdir() if path.is_dir())
    diagnosis = diagnose_recording(open_folder(folder), Selection(), Needs()).diagnosis
    assert (diagnosis.summary.graphs, diagnosis.summary.recompiles) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"lock_after": "soon"}, "lock_after must be a number of calls"),
        ({"on_recompile": "stop"}, "on_recompile must be one of warn, raise, eager"),
        ({"to": ["promethius"]}, "no sink named 'promethius'"),
        ({"to": [3]}, "can't send events to an object of type int"),
    ],
)
def test_an_argument_that_cannot_be_used(arguments, words):
    with pytest.raises(GraphDoctorError, match=re.escape(words)):
        graphdoctor.watch(log=False, **arguments)
