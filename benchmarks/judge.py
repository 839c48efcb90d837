"""What plain torch says of a program, and of what an edit made of it: ``python judge.py BEFORE.py
AFTER.py`` prints one JSON document. Imports nothing of graphdoctor.

Both files name their target as ``tests/fixes/oracle.py`` takes it, and are loaded anew, from one
seed, for each question.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import linecache
import logging
import math
import random
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch._dynamo

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from torch.utils._pytree import tree_leaves, tree_map_only

from tests.fixes.oracle import target_of

_ROUNDS = 15
_ROUND_S = 0.004


class Sites(logging.Handler):
    """Notes the deepest line of one file in each break that torch logs."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self.lines: set[int] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """See ``logging``."""
        message = record.getMessage()
        if message.startswith("Graph break"):
            places = re.findall(r'File "(.+?)", line (\d+)', message)
            short = re.findall(r"^Graph break.* in user code at (.+):(\d+)", message)
            places = places or short
            own = [int(line) for file, line in places if file == self.path]
            self.lines |= {*own[-1:]}


def load(path: str) -> tuple[Callable[..., Any], list[Any]]:
    """What a program builds and its calls."""
    torch._dynamo.reset()
    random.seed(0)
    torch.manual_seed(0)
    with contextlib.suppress(ImportError):
        importlib.import_module("numpy").random.seed(0)
    spec = importlib.util.spec_from_file_location("judged", path)
    assert spec is not None and spec.loader is not None
    program = sys.modules["judged"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    built, inputs = target_of(program), program.example_inputs()
    return built, [inputs] if isinstance(inputs, (tuple, dict)) else list(inputs)


def make(function: Callable[..., Any], call: Any) -> Any:
    """One call; its inputs are copied, as a program may write them."""
    call = tree_map_only(torch.Tensor, torch.clone, call)
    match call:
        case dict():
            return function(**call)
        case (tuple() as arguments, dict() as named):
            return function(*arguments, **named)
    return function(*call)


def breaks(path: str) -> list[str]:
    """The lines where torch breaks; raises what a compiled call raises."""
    built, calls = load(path)
    sites = Sites(path)
    torch._logging.set_logs(graph_breaks=True)  # type: ignore[attr-defined]
    named: Any = torch._logging
    log = named.getArtifactLogger("torch._dynamo.symbolic_convert", "graph_breaks")
    log.addHandler(sites)
    compiled = torch.compile(built, backend="eager")
    for call in calls:
        make(compiled, call)
    log.removeHandler(sites)
    torch._logging.set_logs()  # type: ignore[attr-defined]
    return [f"{line}: {linecache.getline(path, line).strip()}" for line in sorted(sites.lines)]


def why_not_one_graph(path: str) -> str | None:
    """The first line of what ``fullgraph=True`` raises, or None."""
    built, calls = load(path)
    torch._dynamo.config.recompile_limit = 64
    compiled = torch.compile(built, backend="eager", fullgraph=True)
    try:
        for call in calls:
            make(compiled, call)
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
    return None


def results(path: str) -> tuple[list[Any], str]:
    """What the eager calls give, and what they print, log and warn."""
    built, calls = load(path)
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    root = logging.getLogger()
    root.addHandler(handler)
    with contextlib.redirect_stdout(said), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        given = [tree_leaves(make(built, call)) for call in calls]
    root.removeHandler(handler)
    return given, said.getvalue() + "".join(f"{one.message}\n" for one in warned)


def is_same(before: list[Any], after: list[Any]) -> bool:
    """Whether leaves of results have the same types and, within rounding, values."""
    if len(before) != len(after):
        return False
    for left, right in zip(before, after, strict=True):
        if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
            if left.shape != right.shape or left.dtype != right.dtype:
                return False
            if not torch.allclose(left.double(), right.double(), 1e-4, 1e-5, equal_nan=True):
                return False
        elif type(left) is not type(right):
            return False
        elif isinstance(left, float):
            if not math.isclose(left, right, rel_tol=1e-4, abs_tol=1e-4) and not (
                math.isnan(left) and math.isnan(right)
            ):
                return False
        elif left != right:
            return False
    return True


def eager_ratio(before: str, after: str) -> float:
    """How long the calls take after the edit, as a share of before: the least of both, in turns."""
    sides = [load(path) for path in (before, after)]

    def round_s(side: tuple[Callable[..., Any], list[Any]], count: int) -> float:
        started = time.perf_counter()
        for _ in range(count):
            for call in side[1]:
                make(side[0], call)
        return time.perf_counter() - started

    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        once_s = max(round_s(side, 2) for side in sides) / 2
        count = max(1, int(_ROUND_S / once_s))
        pairs = [[round_s(side, count) for side in sides] for _ in range(_ROUNDS)]
    first_s, second_s = (min(times) for times in zip(*pairs, strict=True))
    return second_s / first_s


def judge(before: str, after: str) -> Iterator[tuple[str, Any]]:
    """Everything that can be said of an edit; a question that fails is answered by the error."""
    for name, path in (("before", before), ("after", after)):
        try:
            yield name, breaks(path)
        except Exception as error:  # noqa: BLE001
            yield f"error_{name}", f"{type(error).__name__}: {error}"[:200]
    # As fullgraph=True does by itself: torch/_dynamo/output_graph.py, 2.13.
    captured: Any = torch._dynamo.config
    with captured.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        for name, path in (("before_captured", before), ("after_captured", after)):
            with contextlib.suppress(Exception):
                yield name, breaks(path)
    yield "why_not_one_graph", why_not_one_graph(after)
    try:
        (given, said), (given_after, said_after) = results(before), results(after)
    except Exception as error:  # noqa: BLE001
        yield "error_eager", f"{type(error).__name__}: {error}"[:200]
        return
    same = [is_same(*pair) for pair in zip(given, given_after, strict=True)]
    yield "is_same", all(same) and Counter(said.splitlines()) == Counter(said_after.splitlines())
    yield "eager_ratio", eager_ratio(before, after)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(dict(judge(*(str(Path(path).resolve()) for path in sys.argv[1:3])))))
