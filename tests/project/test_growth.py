"""Twice as much to read takes about twice the time: nothing grows with the square of what a log
holds.

Time is this process's CPU time, the least of several tries of each size in turns, or the median of
the turns' ratios. What a machine does beside it can only make a try longer, so a test is over as
soon as the ratio is small enough; what grows with the square never gets there. Garbage is collected
between tries: how much of that falls into one depends on what else the process holds.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.large_log import write_log
from benchmarks.report_page import made_up
from graphdoctor.executors.local import Local
from graphdoctor.facts.expressions import expression, is_own_state
from graphdoctor.facts.recording import Frame, Recording
from graphdoctor.facts.stack import StackEntry
from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.diagnosed import Needs, diagnose_recording
from graphdoctor.rules.diagnosis.diagnose import diagnose
from graphdoctor.studies.ranks.job import job_report
from graphdoctor.trace.breaks import exception_words, parse_break
from graphdoctor.trace.causes import cause_of_reasons
from graphdoctor.trace.folder import open_folder
from graphdoctor.trace.guards.trees import parse_tree
from graphdoctor.trace.printed_graph import parse_graph
from tests.conftest import RECORDED_LOGS
from tests.factories import change, compiled, entry, frame, graph, recompiled, record, recording
from tests.recorded import kept_log
from tests.trace.guards.test_sets import guards_in
from tests.views.html.made import render_page

pytestmark = pytest.mark.nightly

RECORDINGS = RECORDED_LOGS / "2.13.0"
MOST = 2.3
TRIES = 24
LEAST_TRIES = 5
LEAST_S = 4.0
"""What disturbs a machine can last longer than tries of a millisecond."""

Work = Callable[[], object]


@pytest.fixture(autouse=True, scope="module")
def _what_the_process_holds_is_looked_at_no_more() -> None:
    """Looking for garbage in what earlier tests left takes long, for each try."""
    gc.collect()
    gc.freeze()


def growth(work: Callable[[int], Work], size: int) -> float:
    """How many times as long twice the size takes.

    Args:
        work: Prepares a size; what it returns is timed.
        size: The smaller one.
    """
    works = work(size), work(2 * size)
    tries: list[tuple[float, float]] = []
    started = time.monotonic()
    while len(tries) < TRIES or time.monotonic() - started < LEAST_S:
        tries.append((taken(works[0]), taken(works[1])))
        found = min(seconds[1] for seconds in tries) / min(seconds[0] for seconds in tries)
        if len(tries) >= LEAST_TRIES:
            # The least of one size can have been luck.
            found = min(found, statistics.median(larger / smaller for smaller, larger in tries))
        if found <= MOST:
            break
    return found


def taken(work: Work) -> float:
    """The CPU seconds of some work."""
    gc.collect()
    gc.disable()
    started = time.process_time()
    work()
    seconds = time.process_time() - started
    gc.enable()
    return seconds


def test_what_grows_with_the_square_is_found() -> None:
    assert (
        growth(lambda size: lambda: [a for a in range(size) for b in range(size) if a == b], 400)
        > MOST
    )
    assert growth(lambda size: lambda: [a for a in range(size) if a == -1], 200_000) <= MOST


# Compiles.


def many(count: int) -> Recording:
    """A script's compiles: functions that recompile, break at a line of their own, resume, and go
    over the limit."""
    frames: list[Frame] = []
    compiles, breaks = [], []
    for number in range(0, count // 4, 2):
        name, line = f"f{number}", 10 * number
        outer: StackEntry = entry(1, f"{name}(x)", function="main", qualname="main")
        own = entry(line, "def", function=name, qualname=name)
        frames += [
            frame(number, function=name, line=line),
            frame(number + 1, function=name, line=line + 2, resumes_at=line + 2),
        ]
        for each in (number, number + 1):
            compiles.append(compiled(f"{each}/0", stack=(outer, own)).replace(call_index=None))
            for again in range(1, 4):
                size = change(old=str(again), new=str(again + 1), line=line + 1)
                outcome = "limit" if again == 3 else "compiled"
                ids = f"{each}/{again}"
                compiles.append(
                    recompiled(ids, size, call=None, outcome=outcome, stack=(outer, own))
                )
        breaks.append(
            record(
                entry(line + 2, "print(x)", function=name, qualname=name), compile_id=f"{number}/0"
            )
        )
    return recording(
        compiles=tuple(compiles),
        frames=tuple(frames),
        breaks=tuple(breaks),
        graphs=tuple(graph(found.compile_id, index=index) for index, found in enumerate(compiles)),
    )


def of_ranks(count: int) -> Recording:
    """As ``many``, on four ranks."""
    found = many(count)
    ranks = ("rank1", "rank2", "rank3", None)
    return found.replace(
        compiles=tuple(
            compile_.replace(process=ranks[index % 4])
            for index, compile_ in enumerate(found.compiles)
        )
    )


@pytest.mark.parametrize("made", [many, of_ranks])
def test_compiles_are_diagnosed_one_by_one(made: Callable[[int], Recording]) -> None:
    def work(count: int) -> Work:
        found = made(count)
        return lambda: diagnose(found, RULES, root=Path("/project"), version="1")

    assert growth(work, 2_000) <= MOST


@pytest.mark.parametrize("name", ["lowered_again.bare", "print_in_helper.bare"])
def test_a_log_is_read_in_proportion_to_its_compiles(tmp_path: Path, name: str) -> None:
    original = kept_log(f"2.13.0/{name}")

    def work(copies: int) -> Work:
        log = tmp_path / f"{copies}.log"
        write_log(original, log, size_bytes=copies * original.stat().st_size)
        return lambda: diagnose_recording(log, needs=Needs(guards=True))

    assert growth(work, 40) <= MOST


def test_a_page_is_written_in_proportion_to_its_compiles() -> None:
    def work(count: int) -> Work:
        diagnosis, picture = made_up(count, 100)
        return lambda: render_page(diagnosis, picture, root=Path("/project"))

    assert growth(work, 60) <= MOST


# Guards, and the length of a line.


def test_guards_are_read_one_by_one() -> None:
    def work(count: int) -> Work:
        lines = (
            f"| +- DictGuardManager: source=L['d'][{n}], accessed_by=Dict, type=<class 'dict'>\n"
            f"| | +- EQUALS_MATCH: L['d'][{n}]['key {n}'] == {n}  # y = d[{n}]  # model.py:{n} in forward"
            for n in range(count)
        )
        text = "TREE_GUARD_MANAGER:\n+- RootGuardManager\n" + "\n".join(lines)
        one = recording(compiles=(compiled(),))
        return lambda: guards_in(one, {"0/0": parse_tree(text)}, ("/p/model.py",))

    assert growth(work, 500) <= MOST


def in_guard(text: str) -> object:
    tree = f"+- RootGuardManager\n| +- EQUALS_MATCH: L['d']['{text}'] == 1.5  # a.py:1 in f"
    return guards_in(recording(), {"0/0": parse_tree(tree)})


def in_call(text: str) -> object:
    head = 'class GraphModule(torch.nn.Module):\n    def forward(self, x: "f32[8, 8][8, 1]cpu"):\n'
    return parse_graph(
        f'{head}        a: "f32[8]" = torch.ops.aten.add.Tensor(x, {text})\n        return (a,)\n'
    )


@pytest.mark.parametrize("unit", ["a", "a ", "a, ", "._modules['a']", "(", "\\", "#", '"', "\n"])
@pytest.mark.parametrize(
    ("read", "length"),
    [
        (lambda text: expression(f"L['d']['{text}']"), 20_000),
        (lambda text: expression(f"L['d']['{text}'].__closure__[0].cell_contents"), 20_000),
        (lambda text: is_own_state(f"L['self']{text}-"), 200),
        (in_guard, 10_000),
        (
            lambda text: cause_of_reasons((f"0/0: L['d']['{text}'] == 1",), lambda *_place: None),
            10_000,
        ),
        (parse_break, 20_000),
        (exception_words, 10_000),
        (in_call, 10_000),
    ],
    ids=["expression", "closure", "own state", "guard", "reason", "break", "error", "graph"],
)
def test_a_long_line_is_read_once(read: Callable[[str], object], length: int, unit: str) -> None:
    def work(count: int) -> Work:
        text = unit * (count // len(unit))
        return lambda: [read(text) for _ in range(3)]

    assert growth(work, length) <= MOST


# Ranks.


def test_ranks_are_read_one_by_one(tmp_path: Path) -> None:
    original = kept_log("2.13.0/break_in_try.bare")

    def work(count: int) -> Work:
        folder = tmp_path / str(count)
        folder.mkdir()
        for rank in range(count):
            (folder / f"dedicated_log_torch_trace_rank_{rank}_x.log").write_bytes(
                original.read_bytes()
            )
        return lambda: job_report(folder, open_folder(folder).ranks, Local(1))

    assert growth(work, 8) <= MOST
