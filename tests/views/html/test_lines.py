"""What the annotated source shows of each line, and how that is known."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.guards import GuardNode, Guards, GuardSet
from graphdoctor.facts.picture import Picture, SourceText, StageGraph, StageNode
from graphdoctor.facts.recording import CompileCall
from graphdoctor.facts.stack import StackEntry
from graphdoctor.trace.reader import read_recording
from graphdoctor.views.html.lines import Line, annotate
from tests.conftest import RECORDED_LOGS
from tests.each import for_each
from tests.factories import (
    FILE,
    LOOP,
    PRINT,
    change,
    compiled,
    diagnosed,
    entry,
    frame,
    recompiled,
    record,
)
from tests.views.html.made import render_page
from tests.views.html.test_statements import ranges

ROOT = Path("/project")
RECORDINGS = RECORDED_LOGS
PACKAGE = "/env/lib/python3.11/site-packages/library/layers.py"
TEXT = """\
import torch


def scaled(x):
    print("scaled")
    return x * 2


class Net(torch.nn.Module):
    def forward(self, x):
        x = x.sin()
        print("x")
        if x.sum() > 0:
            x = scaled(x)

        return x.cos()
"""


def nodes(*lines: int, file: str = FILE, opcode: str = "call_function") -> tuple[StageNode, ...]:
    return tuple(
        StageNode(name=f"n{line}", opcode=opcode, target="sin", file=file, line=line)
        for line in lines
    )


def captured(
    *lines: int, compile_id: str = "0/0", index: int | None = 0, file: str = FILE
) -> StageGraph:
    return StageGraph(
        compile_id=compile_id, stage="dynamo", graph_index=index, nodes=nodes(*lines, file=file)
    )


def picture(
    *graphs: StageGraph, text: str | None = TEXT, more: tuple[SourceText, ...] = ()
) -> Picture:
    return Picture(files=(SourceText(file=FILE, text=text), *more), graphs=graphs)


def breaks(*stack: StackEntry, **facts: Any) -> dict[str, Any]:
    return {"breaks": (record(*stack, **facts),)}


IN_SCALED = entry(5, function="scaled", qualname="scaled")
CALL = entry(14, "x = scaled(x)")
SKIPPED = {"compiles": (compiled(outcome="skipped"),), "graphs": ()}


def guards(*runs_and_us: tuple[int | None, float | None]) -> Guards:
    def node(line: int | None) -> GuardNode:
        location = None if line is None else entry(line, "x = x.sin()")
        return GuardNode(
            kind="TENSOR_MATCH", source="L['x']", expression="x", expected=None, path="x", depth=1, location=location,
            guard="",
        )  # fmt: skip

    return Guards(
        sets=tuple(
            GuardSet(
                compile_id=f"0/{index}",
                guard_count=3,
                kinds={},
                nodes=(node(11), node(11), node(None)),
                runs_per_call=runs,
                check_us=check_us,
            )
            for index, (runs, check_us) in enumerate(runs_and_us)
        )
    )


def functions(count: int) -> str:
    return "".join(f"def f{number}(x):\n    y = x\n    return y\n\n\n" for number in range(count))


def package(text: str) -> SourceText:
    return SourceText(file=PACKAGE, text=text, origin="third_party", package="library")


def in_package(text: str, *lines: int) -> tuple[Diagnosis, Picture]:
    return diagnosed(), picture(captured(11), captured(*lines, file=PACKAGE), more=(package(text),))


def guarded(*runs_and_us: tuple[int | None, float | None]) -> Diagnosis:
    return diagnosed(compiles=(compiled(), compiled("0/1")), guards=guards(*runs_and_us))


def called() -> Diagnosis:
    """A frame that is reached from a file without text, which calls torch.compile."""
    main = entry(8, "net(x)", file="/project/main.py", function="<module>", qualname=None, indent=0)
    call = CompileCall(file="/project/main.py", line=7, function="<module>", compiled="Net")
    entered = compiled(stack=(main, entry(10, "def forward(self, x):")))
    return diagnosed(compiles=(entered,), compile_calls=(call,))


FRAMES = diagnosed(
    compiles=(compiled(), compiled("1/0", outcome="skipped")),
    frames=(frame(line=10), frame(1, resumes_at=13)),
)
DECORATED = TEXT.replace("    def forward", "    @torch.no_grad()\n    def forward")
OWNER: dict[str, Any] = {"file": PACKAGE, "origin": "third_party", "package": "library"}
LONG = "class A:\n    limit = 1\n\n    def g(self):\n        x = 1\n        return x\n" + functions(
    100
)
FOLDED = """\
import torch


def unused(x):
    y = x
    return y


class A:
    def g(self, x):
        return x.sin()

    def h(self): ...
"""
ANNOTATED: dict[str, tuple[Diagnosis, Picture]] = {
    "a line with a captured operation is in its graphs": (
        diagnosed(), picture(captured(11, 11, 13, index=0), captured(11, index=1))
    ),
    "only calls of graphs as Dynamo captured them count": (
        diagnosed(),
        picture(
            StageGraph(compile_id="0/0", stage="forward", graph_index=0, nodes=nodes(11)),
            StageGraph(compile_id="0/0", stage="dynamo", graph_index=0, nodes=nodes(13, opcode="placeholder")),
        ),
    ),
    "a break that torch went past, with what was captured of its line": (
        diagnosed(breaks=(record(entry(12)), record(entry(13, "if x.sum() > 0:")))),
        picture(captured(11, 13), captured(16, index=1)),
    ),
    "a break that was raised ran nowhere": (diagnosed(**breaks(entry(12), effect="raised")), picture()),
    "a skipped frame as a whole, without what it calls": (
        diagnosed(**breaks(entry(12), effect="frame_skipped", chain=(PRINT, LOOP)) | SKIPPED), picture()
    ),
    "a resume function after its line": (
        diagnosed(compiles=(compiled(), compiled("1/0", outcome="skipped")), frames=(frame(), frame(1, resumes_at=13))),
        picture(captured(11)),
    ),
    "captured before a limit, and eager since": (
        diagnosed(compiles=(compiled(), recompiled("0/1", change(), outcome="limit"))), picture(captured(11, 16))
    ),
    "what lies after a break that torch can't resume from": (
        diagnosed(**breaks(entry(12), effect="rest_eager")), picture(captured(11))
    ),
    "in a caller from the call that led to it": (
        diagnosed(**breaks(CALL, IN_SCALED, effect="rest_eager")), picture(captured(11))
    ),
    "where the path leads through a function twice, nobody knows where its rest begins": (
        diagnosed(**breaks(entry(12, "again"), CALL, IN_SCALED, effect="rest_eager")), picture(captured(11))
    ),
    "both breaks are left for good, each in a frame of its own": (
        diagnosed(
            breaks=(record(CALL, effect="rest_eager"), record(IN_SCALED, compile_id="1/0", effect="rest_eager")),
            compiles=(compiled(), compiled("1/0")), frames=(frame(), frame(1, function="scaled", line=4)),
        ),
        picture(),
    ),
    "without syntax only what torch named is known": (
        diagnosed(**breaks(entry(12), effect="frame_skipped") | {"compiles": (compiled(outcome="skipped"),)}),
        picture(captured(11, compile_id="1/0"), text=TEXT.replace("import torch", "%pip install")),
    ),
    "a graph whose number isn't known still captures the line": (diagnosed(), picture(captured(11, index=None))),
    "a graph that the backend declined captured nothing that runs in it": (
        diagnosed(compiles=(compiled(outcome="skipped"),)), picture(captured(11))
    ),
    "a related place names the finding": (
        diagnosed(compiles=(compiled(), recompiled("0/1", change(), stack=(CALL, entry(10))))), picture()
    ),
    "a changed value is counted at the line that made torch guard on it": (
        diagnosed(
            compiles=(
                compiled(), recompiled("0/1", change(), change("number", "n"), call=2),
                recompiled("0/2", change(), call=3),
            )
        ),
        picture(),
    ),
    "guards are counted at the lines that torch guards because of": (guarded((2, 1.5), (0, None)), picture()),
    "a def shows the frames of its function": (FRAMES, picture()),
    "a decorated def shows them below": (FRAMES, picture(text=DECORATED)),
    "the way to a frame and calls of torch.compile are call paths": (called(), picture(captured(11))),
    "a file without its text": (diagnosed(breaks=(record(entry(12)),)), Picture(graphs=(captured(11),))),
    "a file whose text is unknown": (diagnosed(breaks=(record(entry(12)),)), picture(captured(11), text=None)),
    "a file that nothing but nodes tells of is left out": (
        diagnosed(), picture(captured(11), captured(3, file="/usr/lib/python3.11/contextlib.py"))
    ),
    "a kept file of which nothing is known is left out": (
        diagnosed(), picture(captured(11), more=(SourceText(file="/project/settings.py", text="x = 1\n"),))
    ),
    # The class, the method, and the function around line 98, which begins at 97.
    "of a long file of a package whole functions are shown": in_package(LONG, 5, 98),
    "around a line outside any function there is some context": in_package("x = 1\n" * 300, 100),
    "in what can't be parsed, too, and nothing is folded": in_package("%magic\n" * 300, 2),
    "a short file of a package is shown whole": in_package(functions(40), 1),
    "unknown functions are folded except short ones": in_package(FOLDED, 11),
    "lines are those of Python": in_package("x = '\u2028'\n\f\ny = 1", 3),
    "a place behind the end of a text is kept": (diagnosed(breaks=(record(entry(40)),)), picture()),
    "the user's files come first, and of these those with most findings": (
        diagnosed(
            breaks=(
                *(record(entry(line, **OWNER)) for line in (1, 2, 3)), record(entry(1, file="/project/one.py")),
                record(entry(1, file="/project/main.py"), entry(1, file="/project/two.py")),
                record(entry(2, file="/project/two.py")),
            )
        ),
        picture(captured(11)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ANNOTATED)
def test_what_is_known_of_each_line(snapshot: SnapshotAssertion, name: str) -> None:
    diagnosis, shown = ANNOTATED[name]
    codes = {finding.fingerprint: finding.code for finding in diagnosis.findings}
    told = []
    for file in annotate(diagnosis, shown, ROOT):
        source = "without its text" if file.is_source_missing else f"of {len(file.lines)} lines"
        folded = ranges([line.number for line in file.lines if line.is_folded])
        told.append(f"{file.file} {source}, {file.package}, {file.finding_count} findings")
        told.append(f"hidden {file.hidden_ranges}, folded {folded}")
        told += [
            said
            for line in file.lines
            if (said := _line(line, codes, is_whole=file.is_source_missing))
        ]
    assert told == snapshot


def _line(line: Line, codes: dict[str, str], *, is_whole: bool) -> str:
    """What is known of a line; empty where that is nothing but its text."""
    known = {
        "graphs": line.graphs,
        "findings": [codes[found] + "!" * is_break for found, is_break in line.findings.items()],
        "related": [codes[found] for found in line.related],
        "recompiles": (line.recompile_count, len(line.recompiles)) if line.recompiles else None,
        "guards": line.guard_count or None,
        "frames": [
            f"{report.state} {report.compile_ids} {frame.resumes_at}"
            for frame, report in line.frames
        ],
        "call path": line.is_call_path,
    }
    said = [f"{name} {value}" for name, value in known.items() if value]
    return (
        f"{line.number} {line.state} {line.text!r} {said}"
        if said or line.state != "none" or is_whole
        else ""
    )


def test_page_marks_hidden_and_folded_lines_including_the_last():
    assert "8 lines</label>" in render_page(*in_package(FOLDED, 11), root=ROOT)
    page = render_page(*in_package(LONG, 5, 98), root=ROOT)
    assert re.findall(r'class="skipped"><td></td><td></td><td>(\d+) hidden lines', page) == [
        "2",
        "90",
        "407",
    ]
    assert "499 hidden lines" in page


@for_each("count, shown", [(5_000, 5_000), (5_001, 8)])
def test_user_file_is_shown_whole_up_to_a_limit(count, shown):
    text = TEXT + "x = 1\n" * (count - 16)
    (file,) = annotate(diagnosed(graphs=()), picture(captured(16), text=text), ROOT)
    assert (len(file.lines), file.hidden_line_count) == (shown, count - shown)


# Real recordings.


def test_a_log_of_others_shows_the_lines_that_torch_named():
    facts = read_recording(RECORDINGS / "2.13.0" / "break_in_try.bare", picture=True)
    diagnosis = diagnosed(facts, root=Path("/home/user/demo"))
    files = annotate(diagnosis, facts.picture, Path("/home/user/demo"))
    assert all(file.is_source_missing for file in files)
    file = files[0]
    finding = next(finding for finding in diagnosis.findings if finding.break_effects)
    (line,) = (line for line in file.lines if line.number == finding.location.line)
    assert line.state == "eager"
    assert line.text.strip() == finding.location.text
