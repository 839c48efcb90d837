"""The HTML report of a large run: its size, seconds to write it, seconds until a browser has it
ready.

The run is made up, in the proportions of real ones: 2,000 compiles of 500 functions in 20 files, a
call for every two compiles, 40 guards and 12 phases a compile, and beside small graphs one of
20,000 operations in nested modules.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.rows import Row
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.guards import GuardChange, GuardNode, Guards, GuardSet, RecompileCause
from graphdoctor.facts.picture import (
    Lane,
    Phase,
    Picture,
    Segment,
    SourceText,
    StageGraph,
    StageNode,
)
from graphdoctor.facts.recording import (
    BreakReason,
    BreakRecord,
    Call,
    Compile,
    Environment,
    Frame,
    Graph,
    Recording,
    TargetInfo,
)
from graphdoctor.facts.run import ProbeExit
from graphdoctor.facts.stack import StackEntry

_ROOT = Path("/project")
_PER_FRAME = 4
_FRAMES_PER_FILE = 25
_LINES_PER_FRAME = 20
_GUARDS = 40
_PHASES = 12
_NODES = 12
_PRINT = BreakReason(
    gb_type="Failed to trace builtin operator", torch_id="GB0059", explanation="It is `print`."
)


def measure(*, rounds: int, compile_count: int, node_count: int) -> list[Row]:
    """Measure writing the page and, where there is a Chromium, opening it.

    Args:
        rounds: How often.
        compile_count: Compiles of the run.
        node_count: Nodes of its largest graph.
    """
    from graphdoctor.facts.diagnosis import Result
    from graphdoctor.views.formats import DIAGNOSIS, RenderOptions

    diagnosis, picture = made_up(compile_count, node_count)
    seconds, text = [], ""
    for _ in range(rounds):
        started = time.perf_counter()
        text = str(DIAGNOSIS.named("html").render(Result(diagnosis, picture), RenderOptions(_ROOT)))
        seconds.append(time.perf_counter() - started)
    of = f"report of {compile_count:,} compiles and a graph of {node_count:,} nodes"
    rows = [
        Row(f"{of}: size", "", "MB", (), [len(text.encode()) / 1e6]),
        Row(f"{of}: to write it", "", "s", (), seconds),
    ]
    browser = browser_path()
    if browser is None:
        return rows
    ready, drawn = opened(text, browser, rounds)
    return [
        *rows,
        Row(f"{of}: ready in Chromium", "", "s", (), ready),
        Row(f"{of}: its largest graph drawn from then on", "", "s", (), drawn),
    ]


def browser_path() -> str | None:
    """The Chromium to open pages with; None if there is none, which standard error says."""
    browser = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if browser is None:
        print("there is no chromium to open the page with", file=sys.stderr)
    return browser


def opened(text: str, browser: str, rounds: int) -> tuple[list[float], list[float]]:
    """Seconds from the request to a page that answers, and from there until its first graph is
    drawn.

    Args:
        text: The page.
        browser: The path of a Chromium.
        rounds: How often.
    """
    from tempfile import TemporaryDirectory

    from playwright.sync_api import sync_playwright

    ready, drawn = [], []
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = Path(folder) / "report.html"
        page_file.write_text(text, encoding="utf-8")
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for _ in range(rounds):
            page = chromium.new_page(viewport={"width": 1440, "height": 900})
            started = time.perf_counter()
            page.goto(page_file.as_uri(), wait_until="commit")
            page.locator("html[data-ready]").wait_for(state="attached", timeout=120_000)
            loaded = time.perf_counter()
            page.evaluate("location.hash = '#graph-0'")
            page.locator("#graph-view .node").first.wait_for(state="attached", timeout=120_000)
            ready.append(loaded - started)
            drawn.append(time.perf_counter() - loaded)
            page.close()
        chromium.close()
    return ready, drawn


def made_up(compile_count: int, node_count: int) -> tuple[Diagnosis, Picture]:
    """A run of that size and its picture."""
    from graphdoctor.rules.catalog import RULES
    from graphdoctor.rules.diagnosis.diagnose import diagnose

    frames = [_frame(number) for number in range(max(1, compile_count // _PER_FRAME))]
    compiles = [_compile(number, frames) for number in range(compile_count)]
    calls = range(1, max(2, compile_count // 2) + 1)
    ids = [found.compile_id for found in compiles]
    recording = Recording(
        environment=Environment(python="3.11", torch="2.13.0"),
        target=TargetInfo(text="model.py", name="Net", compile_arguments={"backend": "inductor"}),
        exit=ProbeExit(status=0, reason="finished"),
        is_partial=False,
        calls=tuple(
            Call(index=index, inputs=f"f32[{index}, 64]", outcome="ok", duration_s=0.01)
            for index in calls
        ),
        frames=tuple(frames),
        compiles=tuple(compiles),
        graphs=tuple(
            Graph(compile_id=id_, index=index, op_count=_NODES) for index, id_ in enumerate(ids)
        ),
        breaks=tuple(_break(frames[number], f"{number}/0") for number in range(0, len(frames), 3)),
        sources=(),
        coverage=None,
        guards=Guards(sets=tuple(_guard_set(found, frames) for found in compiles)),
        gaps=(),
    )
    names = dict.fromkeys(frame.file for frame in frames)
    picture = Picture(
        files=tuple(SourceText(file=name, text=_source()) for name in names),
        graphs=tuple(_graph(index, id_, node_count, frames) for index, id_ in enumerate(ids)),
        phases=tuple(phase for number, id_ in enumerate(ids) for phase in _phases(number, id_)),
        lanes=tuple(_lane(index, ids[index % len(ids)]) for index in calls),
    )
    return diagnose(recording, RULES, root=_ROOT, version="benchmark"), picture


def _source() -> str:
    body = "".join(
        f"        x{line} = torch.sin(x) * {line}\n" for line in range(_LINES_PER_FRAME - 1)
    )
    return "".join(
        f"    def forward_{number}(self, x):\n{body}" for number in range(_FRAMES_PER_FILE)
    )


def _frame(number: int) -> Frame:
    within = number % _FRAMES_PER_FILE
    return Frame(
        frame_id=number,
        function=f"forward_{within}",
        qualname=f"Net.forward_{within}",
        file=f"{_ROOT}/model_{number // _FRAMES_PER_FILE}.py",
        line=1 + within * _LINES_PER_FRAME,
        origin="user",
        code_name=f"forward_{within}",
    )


def _entry(frame: Frame, offset: int) -> StackEntry:
    return StackEntry(
        file=frame.file,
        line=frame.line + offset,
        function=frame.function,
        qualname=frame.qualname,
        text=f"x{offset - 1} = torch.sin(x) * {offset - 1}",
        origin="user",
    )


def _compile(number: int, frames: list[Frame]) -> Compile:
    frame, again = frames[number % len(frames)], number // len(frames)
    size = GuardChange(
        kind="size",
        source="L['x']",
        expression="x.shape[0]",
        old=str(again),
        new=str(again + 1),
        guard_location=_entry(frame, 2),
    )
    cause = RecompileCause(nearest=f"{frame.frame_id}/0", changes=(size,), is_exact=True)
    return Compile(
        compile_id=f"{frame.frame_id}/{again}",
        frame_id=frame.frame_id,
        call_index=1 + number // 2,
        outcome="compiled",
        is_recompile=again > 0,
        op_count=_NODES,
        guard_count=_GUARDS,
        duration_s=0.1,
        backend_s=0.05,
        stack=(_entry(frame, 0),),
        cause=cause if again else None,
    )


def _break(frame: Frame, compile_id: str) -> BreakRecord:
    return BreakRecord(
        compile_id=compile_id,
        call_index=1,
        effect="resumed",
        chain=(_PRINT,),
        stack=(_entry(frame, 5),),
        is_stack_exact=True,
        words=_PRINT.gb_type,
    )


def _guard_set(found: Compile, frames: list[Frame]) -> GuardSet:
    where = _entry(frames[found.frame_id], 3)
    nodes = tuple(
        GuardNode(
            kind="TENSOR_MATCH",
            source=f"L['self'].layers[{number}].weight",
            expression=f"self.layers[{number}].weight",
            expected="f32[64, 64]",
            path=f"self.layers[{number}]",
            depth=3,
            location=where,
            guard=f"check_tensor(L['self'].layers[{number}].weight, size=[64, 64])",
        )
        for number in range(_GUARDS)
    )
    return GuardSet(
        compile_id=found.compile_id,
        guard_count=_GUARDS,
        kinds={"TENSOR_MATCH": _GUARDS},
        nodes=nodes,
    )


def _graph(index: int, compile_id: str, node_count: int, frames: list[Frame]) -> StageGraph:
    nodes = tuple(_nodes(_NODES if index else node_count, frames[index % len(frames)]))
    return StageGraph(compile_id=compile_id, stage="dynamo", graph_index=index, nodes=nodes)


def _nodes(count: int, frame: Frame) -> Iterator[StageNode]:
    yield StageNode(name="x", opcode="placeholder", target="L_x_", value="f32[8, 64]")
    before = "x"
    for number in range(1, count - 1):
        yield StageNode(
            name=f"sin_{number}",
            opcode="call_function",
            target="torch.sin",
            inputs=(before, "x") if number % 7 == 0 else (before,),
            value="f32[8, 64]",
            file=frame.file,
            line=frame.line + 1 + number % (_LINES_PER_FRAME - 1),
            module=f"self.layers[{number // 40}].block[{number // 10 % 4}]",
        )
        before = f"sin_{number}"
    yield StageNode(name="output", opcode="output", target="", inputs=(before,))


def _phases(number: int, compile_id: str) -> Iterator[Phase]:
    for depth in range(_PHASES):
        yield Phase(
            name=f"phase_{depth}",
            compile_id=compile_id,
            call_index=1 + number // 2,
            start_us=number * 1e5 + depth * 100,
            duration_us=1e5 - depth * 200,
            depth=depth,
        )


def _lane(index: int, compile_id: str) -> Lane:
    segments = tuple(
        Segment(
            kind="graph" if at % 2 else "guards",
            start_us=at * 10,
            end_us=at * 10 + 9,
            compile_id=compile_id,
        )
        for at in range(20)
    )
    return Lane(call_index=index, duration_us=200, is_profiled=True, segments=segments)
