"""``graphdoctor recompiles --vary``: its verdicts against a bare script, and programs that make it
hard."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphdoctor.facts.trials import TriedValue
from graphdoctor.trace.events import Events, read_variations, verdict_of
from tests.conftest import RunCli, clean_environment, run_script

Vary = Callable[..., dict[str, Any]]

pytestmark = pytest.mark.slow

BARE = """
import contextlib, json, torch
import target as t

count = 0

def backend(graph, inputs):
    global count
    count += 1
    return graph.forward

def counted(function, calls):
    global count
    torch.compiler.reset()
    compiled = torch.compile(function, backend=backend)
    counts = []
    for around, make in calls:
        before = count
        with around() as _:
            args, kwargs = make()
            compiled(*args, **kwargs)
        counts.append(count - before)
    return counts

plain = contextlib.nullcontext
"""


@pytest.fixture
def vary(run_cli: RunCli, tmp_path: Path) -> Vary:
    """Write a target, vary it, and return the document."""

    def run(source: str, *args: object, **options: Any) -> dict[str, Any]:
        (tmp_path / "target.py").write_text(textwrap.dedent(source))
        process = run_cli("recompiles", "target.py", "--vary", "--format", "json", *args, **options)
        assert process.stdout, process.stderr
        return json.loads(process.stdout)

    return run


def bare(tmp_path: Path, script: str) -> Any:
    """What a script counts that knows nothing of graphdoctor."""
    path = tmp_path / "bare.py"
    path.write_text(BARE + textwrap.dedent(script))
    return json.loads(
        run_script(path, cwd=tmp_path, env=clean_environment()).stdout.splitlines()[-1]
    )


def tried(document: dict[str, Any], expression: str, *, is_tied: bool = False) -> dict[str, int]:
    """Compiles by value."""
    variation = found(document, expression, is_tied=is_tied)
    return {
        value["value"]: value["compiles"]
        for value in variation["tried"]
        if value["compiles"] is not None
    }


def found(document: dict[str, Any], expression: str, *, is_tied: bool = False) -> dict[str, Any]:
    matching = [
        v
        for v in document["recording"]["variations"]
        if v["expression"] == expression and bool(v["tied"]) is is_tied
    ]
    assert len(matching) == 1, [v["expression"] for v in document["recording"]["variations"]]
    return matching[0]


MLP = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 2))
            self.scale = 1.5
            self.power = 2

        def forward(self, x):
            return self.body(x) ** self.power * self.scale

    def example_inputs():
        return (torch.randn(4, 8),)
"""


def test_an_mlp_agrees_with_a_bare_script(vary: Vary, tmp_path: Path) -> None:
    document = vary(MLP)
    counts = bare(
        tmp_path,
        """
        x = t.example_inputs()[0]
        def of(*tensors):
            net = t.Net()
            return counted(net, [(plain, lambda v=v: ((v,), {})) for v in (x, x, *tensors, x)])

        @contextlib.contextmanager
        def having(net, name, value):
            before = getattr(net, name)
            setattr(net, name, value)
            yield
            setattr(net, name, before)

        def attribute(name, *values):
            net = t.Net()
            calls = [(plain, lambda: ((x,), {}))] * 2
            calls += [(lambda v=v: having(net, name, v), lambda: ((x,), {})) for v in values]
            return counted(net, calls + calls[:1])

        @contextlib.contextmanager
        def evaluating(net):
            net.eval()
            yield
            net.train()

        net = t.Net()
        mode = counted(net, [(p, lambda: ((x,), {})) for p in (plain, plain, lambda: evaluating(net), plain)])
        rows = lambda n: torch.randn(n, 8)
        print(json.dumps({
            "rows": of(rows(8), rows(5), rows(2), rows(1)),
            "stride": of(x.t().contiguous().t(), torch.zeros(4, 16)[:, :8]),
            "grad": of(x.clone().requires_grad_()),
            "scale": attribute("scale", 0.75, 1.125, 0.0, 1.0, -1.5),
            "power": attribute("power", 3, 4, 0, 1, -1),
            "mode": mode,
        }))
        """,
    )
    for expression, name in (
        ("x.shape[0]", "rows"),
        ("x.stride()", "stride"),
        ("x.requires_grad", "grad"),
        ("self.scale", "scale"),
        ("self.power", "power"),
        ("train/eval", "mode"),
    ):
        assert list(tried(document, expression).values()) == counts[name][2:-1], expression
        assert found(document, expression)["back_compiles"] == counts[name][-1] == 0
        assert counts[name][:2] == [1, 0]
    assert found(document, "x.shape[0]")["verdict"] == "generalises"
    assert found(document, "self.power")["verdict"] == "recompiles"
    assert found(document, "train/eval")["verdict"] == "recompiles"
    assert found(document, "x.shape[1]")["verdict"] == "not_varied"
    assert "cannot be multiplied" in found(document, "x.shape[1]")["reason"]


ARGUMENTS = """
    import torch
    def f(batch, y, mode="sin", scale=2.5, n=3, flag=False, extra=None):
        z = batch["x"].sin() if mode == "sin" else batch["x"].cos()
        if flag:
            z = z + 1
        if n > 3:
            z = z * 2
        return z * scale + y * n

    def example_inputs():
        return ({"x": torch.randn(4, 8)}, torch.randn(4, 8), "sin"), {"n": 3}
"""


def test_arguments_agree_with_a_bare_script(vary: Vary, tmp_path: Path) -> None:
    document = vary(ARGUMENTS)
    counts = bare(
        tmp_path,
        """
        def call(rows=4, dtype=torch.float32, mode="sin", **kwargs):
            return ({"x": torch.randn(rows, 8)}, torch.randn(rows, 8).to(dtype), mode), {"n": 3, **kwargs}

        def of(*changes):
            return counted(t.f, [(plain, lambda c=c: call(**c)) for c in ({}, {}, *changes, {})])

        around = [plain, plain, torch.no_grad, torch.inference_mode, plain]
        print(json.dumps({
            "rows": of(*({"rows": n} for n in (8, 5, 2, 1))),
            "dtype": of(*({"dtype": d} for d in (torch.bfloat16, torch.float16, torch.float64))),
            "mode": of({"mode": "sin_"}, {"mode": "sin__"}),
            "scale": of(*({"scale": s} for s in (1.25, 1.875, 0.0, 1.0, -2.5))),
            "n": of(*({"n": n} for n in (4, 5, 0, 1, -1))),
            "flag": of({"flag": True}),
            "grad": counted(t.f, [(a, call) for a in around]),
            "autocast": counted(t.f, [(a, call) for a in (plain, plain, lambda: torch.autocast("cpu"), plain)]),
        }))
        """,
    )
    for expression, name in (
        ("y.dtype", "dtype"),
        ("mode", "mode"),
        ("scale", "scale"),
        ("n", "n"),
        ("flag", "flag"),
        ("grad mode", "grad"),
        ("autocast", "autocast"),
    ):
        assert list(tried(document, expression).values()) == counts[name][2:-1], expression
    rows = found(document, "batch['x'].shape[0]", is_tied=True)
    assert rows["tied"] == ["y.shape[0]"]
    assert [value["compiles"] for value in rows["tried"]] == counts["rows"][2:-1]
    assert found(document, "extra")["reason"] == "it is None"


def test_fresh_copies_keep_strides_and_sharing() -> None:
    import torch

    from graphdoctor.probe.target.snapshot import FreshCopies

    x = torch.randn(4, 6)[:, ::2]
    (first, again, view), _ = FreshCopies().call(((x, x, x[0]), {}))
    assert first is again
    assert first is not x
    assert first.stride() == x.stride()
    first.zero_()
    assert not view.any()
    assert x.any()


def test_another_size_keeps_the_values_valid_and_the_memory_order() -> None:
    import torch

    from graphdoctor.probe.replay.arguments import resized

    wide = resized(torch.arange(6).reshape(2, 3).t(), 0, 5)
    assert wide.tolist() == [[0, 3], [1, 4], [2, 5], [0, 3], [1, 4]]
    assert wide.stride() == (1, 5)
    assert resized(torch.empty(0, 2), 0, 3).shape == (3, 2)


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        (["free", "free"], "free"),
        (["compiled", "free"], "generalises"),
        (["compiled", "compiled"], "recompiles"),
        (["fails_compiled", "fails_eager"], "fails"),
        (["compiled", "over_limit"], "recompiles"),
        (["free", "compiled*"], "free"),
        (["fails_eager", "compiled*", "free*"], "generalises"),
        ([], "not_varied"),
    ],
)
def test_verdicts(outcomes: list[str], verdict: str) -> None:
    values = [
        TriedValue(value="1", outcome=o.rstrip("*"), is_special=o.endswith("*")) for o in outcomes
    ]
    assert verdict_of(values) == verdict


def test_a_recording_without_a_plan_has_no_variations() -> None:
    assert read_variations([{"event": "phase", "phase": "call 1"}]) is None


def test_what_was_not_reached_is_named() -> None:
    planned = {"expression": "n", "kind": "number", "base": "3", "tied": []}
    (variation,) = read_variations(Events([{"event": "vary_plan", "properties": [planned]}])) or ()
    assert (variation.verdict, variation.reason) == ("not_varied", "the run ended first")


KEPT = """
    import torch
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.source = (n for n in range(9))
        def forward(self, x):
            return x + 1
    def example_inputs(): return (torch.randn(2),)
"""


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def f(a, b): return a + b\ndef example_inputs(): return (1, 2)\n", "no compiled code"),
        (KEPT, "can't be restored between calls: generator"),
    ],
)
def test_what_stands_in_the_way_is_said(vary: Vary, source: str, said: str) -> None:
    document = vary(source)
    assert any(said in gap["message"] for gap in document["recording"]["gaps"]), document[
        "recording"
    ]["gaps"]


def test_values_that_raise_exit_or_hide_control_characters_lose_nothing(
    run_cli: RunCli, tmp_path: Path
) -> None:
    (tmp_path / "target.py").write_text(
        textwrap.dedent(
            """
            import sys
            import torch

            def f(x, n=3):
                x.add_(1)
                if n == 4:
                    sys.exit(7)
                if n == 5:
                    raise KeyError("five")
                if x.shape[0] != 4:
                    raise ValueError("[red]bad[/red] \\x1b[31m")
                return x * n

            def example_inputs():
                return (torch.zeros(4, 3),)
            """
        )
    )
    process = run_cli("recompiles", "target.py", "--vary", "-v", status=0)
    assert "\x1b" not in process.stdout
    assert "[red]bad[/red]" in process.stdout
    assert "SystemExit: 7" in process.stdout
    assert "KeyError: 'five'" in process.stdout


def test_a_process_that_ends_reports_what_it_has(vary: Vary) -> None:
    document = vary(
        """
        import os
        import torch

        def f(x, n=3):
            if x.shape[0] == 8:
                os._exit(9)
            return x * n

        def example_inputs():
            return (torch.zeros(4, 3),)
        """
    )
    assert document["recording"]["is_partial"]
    assert "in variation" in document["recording"]["exit"]["message"]
    assert found(document, "n")["verdict"] == "generalises"
    assert found(document, "x.shape[0]")["reason"] == "the run ended first"


def test_what_is_left_out_is_listed(vary: Vary) -> None:
    document = vary(
        """
        import torch

        def f(xs):
            return sum(x.sum() for x in xs)

        def example_inputs():
            return ([torch.zeros(2, 3) for _ in range(40)],)
        """,
        env=clean_environment(GRAPHDOCTOR_VARY_COUNT="3"),
    )
    reasons = [variation["reason"] for variation in document["recording"]["variations"]]
    assert sum(reason is None for reason in reasons) == 3
    assert "left out: only 3 properties are varied (vary-count)" in reasons
    assert {"xs[39].dtype", "xs[0].shape[1]"} <= {
        variation["expression"] for variation in document["recording"]["variations"]
    }


def test_values_over_the_recompile_limit_are_not_called_free(vary: Vary) -> None:
    document = vary(MLP, "--config", "torch._dynamo.config.recompile_limit=2")
    assert [value["outcome"] for value in found(document, "self.power")["tried"]][:2] == [
        "compiled",
        "over_limit",
    ]
    assert found(document, "self.power")["verdict"] == "recompiles"


FILLED = """
    import dataclasses
    import torch

    @dataclasses.dataclass
    class Cache:
        layers: list

    def forward(x, cache):
        k = torch.cat([cache.layers[0]["k"], x], 1) if cache.layers else x
        cache.layers[:] = [{"k": k}]
        return k.sin()

    def example_inputs():
        cache = Cache([])
        yield torch.ones(2, 6, 4), cache
        yield torch.ones(2, 3, 4), cache
        raise AssertionError("no third call is made")
"""


def test_sizes_vary_in_a_container_the_first_call_fills(vary: Vary, tmp_path: Path) -> None:
    document = vary(FILLED)
    assert [call["index"] for call in document["recording"]["calls"]] == [1, 2]
    counts = bare(
        tmp_path,
        """
        x = torch.ones(2, 3, 4)
        def of(*sizes):
            cached = lambda size: (x, t.Cache([{"k": torch.ones(2, size, 4)}]))
            return counted(t.forward, [(plain, lambda size=size: (cached(size), {})) for size in sizes])
        print(json.dumps(of(6, 6, 12, 7, 2, 1, 6)))
        """,
    )
    varied = tried(document, "cache.layers[0]['k'].shape[1]")
    assert list(varied) == ["12", "7", "2", "1"]
    assert list(varied.values()) == counts[2:6]
    assert found(document, "cache.layers[0]['k'].shape[1]")["base"] == "6"
