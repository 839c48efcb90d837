"""What the annotated source shows of each line, and how that is known."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.guards import GuardNode, Guards, GuardSet
from graphdoctor.facts.picture import Picture, SourceText, StageGraph, StageNode
from graphdoctor.facts.recording import CompileCall
from graphdoctor.facts.stack import StackEntry
from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.diagnosis.diagnose import diagnose
from graphdoctor.trace.reader import read_recording
from graphdoctor.views.html.lines import AnnotatedFile, FrameMark, Line, annotate
from graphdoctor.views.html.page import render_page
from tests.each import for_each
from tests.factories import FILE, LOOP, PRINT, change, compiled, entry, frame, recompiled, record, recording

ROOT = Path("/project")
RECORDINGS = Path(__file__).resolve().parents[2] / "recordings"
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
    return tuple(StageNode(name=f"n{line}", opcode=opcode, target="sin", file=file, line=line) for line in lines)


def captured(*lines: int, compile_id: str = "0/0", index: int | None = 0, file: str = FILE) -> StageGraph:
    return StageGraph(compile_id=compile_id, stage="dynamo", graph_index=index, nodes=nodes(*lines, file=file))


def picture(*graphs: StageGraph, text: str | None = TEXT, more: tuple[SourceText, ...] = ()) -> Picture:
    return Picture(files=(SourceText(file=FILE, text=text), *more), graphs=graphs)


def diagnosed(**facts) -> Diagnosis:
    return diagnose(recording(**facts), RULES, root=ROOT, version="0")


def lines_of(diagnosis: Diagnosis, shown: Picture) -> dict[int, Line]:
    (file,) = annotate(diagnosis, shown, ROOT)
    return {line.number: line for line in file.lines}


def states(diagnosis: Diagnosis, shown: Picture) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for line in lines_of(diagnosis, shown).values():
        if line.state != "none":
            found.setdefault(line.state, []).append(line.number)
    return found


# Where lines run.


def test_a_line_with_a_captured_operation_is_in_its_graphs():
    shown = picture(captured(11, 11, 13, index=0), captured(11, index=1))
    lines = lines_of(diagnosed(), shown)
    assert states(diagnosed(), shown) == {"graph": [11, 13]}
    assert lines[11].graphs == [0, 1]
    assert lines[16].graphs == []


def breaks(*stack: StackEntry, **facts: Any) -> dict[str, Any]:
    return {"breaks": (record(*stack, **facts),)}


IN_SCALED = entry(5, function="scaled", qualname="scaled")
CALL = entry(14, "x = scaled(x)")
SKIPPED = {"compiles": (compiled(outcome="skipped"),), "graphs": ()}
STATES: list[tuple[dict[str, Any], Picture, dict[str, list[int]]]] = [
    # Only calls, of graphs as Dynamo captured them.
    (
        {},
        picture(
            StageGraph(compile_id="0/0", stage="forward", graph_index=0, nodes=nodes(11)),
            StageGraph(compile_id="0/0", stage="dynamo", graph_index=0, nodes=nodes(13, opcode="placeholder")),
        ),
        {},
    ),
    # A break that torch went past, with what was captured of its line; one that was raised ran nowhere.
    (
        {"breaks": (record(entry(12)), record(entry(13, "if x.sum() > 0:")))},
        picture(captured(11, 13), captured(16, index=1)),
        {"graph": [11, 16], "eager": [12], "mixed": [13]},
    ),
    (breaks(entry(12), effect="raised"), picture(), {}),
    # A skipped frame as a whole, without what it calls; a resume function after its line.
    (
        breaks(entry(12), effect="frame_skipped", chain=(PRINT, LOOP)) | SKIPPED,
        picture(),
        {"eager": [11, 12, 13, 14, 16]},
    ),
    (
        {"compiles": (compiled(), compiled("1/0", outcome="skipped")), "frames": (frame(), frame(1, resumes_at=13))},
        picture(captured(11)),
        {"graph": [11], "eager": [14, 16]},
    ),
    # Captured before a limit, and eager since.
    (
        {"compiles": (compiled(), recompiled("0/1", change(), outcome="limit"))},
        picture(captured(11, 16)),
        {"mixed": [11, 16], "eager": [12, 13, 14]},
    ),
    # What lies after a break that torch can't resume from, in a caller from the call that led to it.
    (
        breaks(entry(12), effect="rest_eager"),
        picture(captured(11)),
        {"graph": [11], "eager": [12, 13, 14, 16]},
    ),
    (
        breaks(CALL, IN_SCALED, effect="rest_eager"),
        picture(captured(11)),
        {"graph": [11], "eager": [5, 14, 16]},
    ),
    # Where the path leads through a function twice, nobody knows where its rest begins.
    (
        breaks(entry(12, "again"), CALL, IN_SCALED, effect="rest_eager"),
        picture(captured(11)),
        {"graph": [11], "eager": [5]},
    ),
    # Both breaks are left for good, each in a frame of its own.
    (
        {
            "breaks": (
                record(CALL, compile_id="0/0", effect="rest_eager"),
                record(IN_SCALED, compile_id="1/0", effect="rest_eager"),
            ),
            "compiles": (compiled(), compiled("1/0")),
            "frames": (frame(), frame(1, function="scaled", line=4)),
        },
        picture(),
        {"eager": [5, 6, 14, 16]},
    ),
    # Without syntax only what torch named is known.
    (
        breaks(entry(12), effect="frame_skipped") | {"compiles": (compiled(outcome="skipped"),)},
        picture(captured(11, compile_id="1/0"), text=TEXT.replace("import torch", "%pip install")),
        {"graph": [11], "eager": [12]},
    ),
]


@for_each("facts, shown, expected", STATES)
def test_where_lines_run(facts, shown, expected):
    assert states(diagnosed(**facts), shown) == expected


def test_a_graph_whose_number_is_not_known_still_captures_the_line():
    line = lines_of(diagnosed(), picture(captured(11, index=None)))[11]
    assert (line.state, line.graphs) == ("graph", [])


def test_a_graph_that_the_backend_declined_captured_nothing_that_runs_in_it():
    diagnosis = diagnosed(compiles=(compiled(outcome="skipped"),))
    line = lines_of(diagnosis, picture(captured(11)))[11]
    assert (line.state, line.graphs) == ("eager", [0])


# What else a line shows.


def test_findings_are_at_their_primary_line_and_at_related_ones():
    breaks = (record(entry(12), effect="frame_skipped", chain=(PRINT, LOOP)),)
    diagnosis = diagnosed(breaks=breaks, compiles=(compiled(outcome="skipped"),), graphs=())
    lines = lines_of(diagnosis, picture())
    at_line = tuple(finding.fingerprint for finding in diagnosis.findings if finding.location.line == 12)
    assert len(at_line) > 1
    assert (tuple(lines[12].findings), all(lines[12].findings.values())) == (at_line, True)


def test_a_related_place_names_the_finding():
    call = entry(14, "x = scaled(x)")
    diagnosis = diagnosed(compiles=(compiled(), recompiled("0/1", change(), stack=(call, entry(10)))))
    (finding,) = diagnosis.findings
    assert [place.line for place in finding.related] == [14]
    line = lines_of(diagnosis, picture())[14]
    assert (list(line.related), line.findings) == ([finding.fingerprint], {})


def test_a_changed_value_is_counted_at_the_line_that_made_torch_guard_on_it():
    again = (recompiled("0/1", change(), change("number", "n"), call=2), recompiled("0/2", change(), call=3))
    diagnosis = diagnosed(compiles=(compiled(), *again))
    line = lines_of(diagnosis, picture())[12]
    assert line.recompile_count == 2
    assert set(line.recompiles) == {report.fingerprint for report in diagnosis.recompiles}
    assert not any(line.findings.values())
    assert set(line.findings) == {finding.fingerprint for finding in diagnosis.findings}


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


def test_guards_are_counted_by_line_and_cost_what_their_functions_checks_take_in_a_call():
    facts = recording(compiles=(compiled(), compiled("0/1"))).model_copy(update={"guards": guards((2, 1.5), (0, None))})
    lines = lines_of(diagnose(facts, RULES, root=ROOT, version="0"), picture())
    assert (lines[11].guard_count, lines[11].guard_us) == (4, None)
    assert (lines[10].guard_count, lines[10].guard_us) == (0, 3.0)
    assert lines[1].guard_count == 0


@for_each("unknown", [(None, None), (1, None)])
def test_one_check_that_was_not_measured_leaves_the_cost_open(unknown):
    facts = recording(compiles=(compiled(), compiled("0/1"))).model_copy(update={"guards": guards((2, 1.5), unknown)})
    assert lines_of(diagnose(facts, RULES, root=ROOT, version="0"), picture())[10].guard_us is None


def test_a_def_shows_the_frames_of_its_function():
    decorated = TEXT.replace("    def forward", "    @torch.no_grad()\n    def forward")
    diagnosis = diagnosed(
        compiles=(compiled(), compiled("1/0", outcome="skipped")), frames=(frame(line=10), frame(1, resumes_at=13))
    )
    expected = [FrameMark("compiled", ("0/0",), None), FrameMark("skipped", ("1/0",), 13)]
    assert lines_of(diagnosis, picture())[10].frames == expected
    assert lines_of(diagnosis, picture(text=decorated))[11].frames == expected


def test_the_way_to_a_frame_and_calls_of_torch_compile_are_call_paths():
    main = entry(8, "net(x)", file="/project/main.py", function="<module>", qualname=None, indent=0)
    call = CompileCall(file="/project/main.py", line=7, function="<module>", compiled="Net")
    facts = recording(compiles=(compiled(stack=(main, entry(10, "def forward(self, x):"))),))
    diagnosis = diagnose(facts.model_copy(update={"compile_calls": (call,)}), RULES, root=ROOT, version="0")
    model, file = annotate(diagnosis, picture(captured(11)), ROOT)
    assert (model.file, file.file, file.is_source_missing) == ("model.py", "main.py", True)
    assert [(line.number, line.text, line.is_call_path) for line in file.lines] == [
        (7, None, True),
        (8, "net(x)", True),
    ]


# Files.


def test_without_its_text_a_file_has_the_lines_that_are_known():
    diagnosis = diagnosed(breaks=(record(entry(12)),))
    (file,) = annotate(diagnosis, Picture(graphs=(captured(11),)), ROOT)
    assert (file.is_source_missing, file.hidden_line_count) == (True, 0)
    assert [(line.number, line.text, line.state) for line in file.lines] == [
        (10, "def forward(self, x):", "none"),
        (11, None, "graph"),
        (12, '        print("x")', "eager"),
    ]
    assert annotate(diagnosis, picture(captured(11), text=None), ROOT) == (file,)


def test_a_file_that_nothing_but_nodes_tells_of_is_left_out():
    shown = picture(captured(11), captured(3, file="/usr/lib/python3.11/contextlib.py"))
    assert [file.file for file in annotate(diagnosed(), shown, ROOT)] == ["model.py"]


def test_a_kept_file_of_which_nothing_is_known_is_left_out():
    shown = picture(captured(11), more=(SourceText(file="/project/settings.py", text="x = 1\n"),))
    assert [file.file for file in annotate(diagnosed(), shown, ROOT)] == ["model.py"]


def functions(count: int) -> str:
    return "".join(f"def f{number}(x):\n    y = x\n    return y\n\n\n" for number in range(count))


def package(text: str) -> SourceText:
    return SourceText(file=PACKAGE, text=text, origin="third_party", package="library")


def in_package(text: str, *lines: int) -> AnnotatedFile:
    shown = picture(captured(11), captured(*lines, file=PACKAGE), more=(package(text),))
    return annotate(diagnosed(), shown, ROOT)[-1]


def test_of_a_long_file_of_a_package_whole_functions_with_something_in_them_are_shown():
    text = "class A:\n    limit = 1\n\n    def g(self):\n        x = 1\n        return x\n" + functions(100)
    file = in_package(text, 5, 98)
    # The class, the method, and the function around line 98, which begins at 97.
    assert [line.number for line in file.lines] == [1, 4, 5, 6, 97, 98, 99]
    assert file.hidden_ranges == ((2, 3), (7, 96), (100, 506))
    assert file.hidden_line_count == sum(last - first + 1 for first, last in file.hidden_ranges) == 506 - 7
    assert (file.file, file.package, file.is_source_missing) == (PACKAGE, "library", False)


def test_the_page_marks_every_hidden_line_those_below_the_last_shown_too():
    text = "class A:\n    limit = 1\n\n    def g(self):\n        x = 1\n        return x\n" + functions(100)
    shown = picture(captured(11), captured(5, 98, file=PACKAGE), more=(package(text),))
    page = render_page(diagnosed(), shown, root=ROOT)
    assert re.findall(r'class="skipped"><td></td><td></td><td>(\d+) hidden lines', page) == ["2", "90", "407"]
    assert "499 hidden lines" in page


def test_around_a_line_outside_any_function_there_is_some_context():
    assert [line.number for line in in_package("x = 1\n" * 300, 100).lines] == list(range(95, 106))
    assert [line.number for line in in_package("%magic\n" * 300, 2).lines] == list(range(1, 8))


def test_a_short_file_of_a_package_is_shown_whole():
    file = in_package(functions(40), 1)
    assert (len(file.lines), file.hidden_line_count, file.hidden_ranges) == (200, 0, ())


@for_each("count, shown", [(5_000, 5_000), (5_001, 8)])
def test_a_file_of_the_users_is_shown_whole_up_to_a_limit(count, shown):
    text = TEXT + "x = 1\n" * (count - 16)
    (file,) = annotate(diagnosed(graphs=()), picture(captured(16), text=text), ROOT)
    assert (len(file.lines), file.hidden_line_count) == (shown, count - shown)


def test_lines_are_those_of_python_whatever_else_looks_like_an_end():
    text = "x = '\u2028'\n\f\ny = 1"
    file = in_package(text, 3)
    assert [line.text for line in file.lines] == ["x = '\u2028'", "\f", "y = 1"]


def test_a_place_behind_the_end_of_a_text_is_kept():
    line = lines_of(diagnosed(breaks=(record(entry(40)),)), picture())[40]
    assert (line.text, line.state) == ('        print("x")', "eager")


def test_the_users_files_come_first_and_of_these_those_with_most_findings():
    def place(file: str, line: int, **owner: str):
        return entry(line, file=file, **owner)

    files = ("/project/one.py", "/project/two.py")
    breaks = (
        record(place(PACKAGE, 1, origin="third_party", package="library")),
        record(place(PACKAGE, 2, origin="third_party", package="library")),
        record(place(PACKAGE, 3, origin="third_party", package="library")),
        record(place(files[0], 1)),
        record(entry(1, file="/project/main.py"), place(files[1], 1)),
        record(place(files[1], 2)),
    )
    found = annotate(diagnosed(breaks=breaks), picture(captured(11)), ROOT)
    assert [(file.file, file.finding_count) for file in found] == [
        ("two.py", 2),
        ("one.py", 1),
        ("model.py", 0),
        ("main.py", 0),
        (PACKAGE, 3),
    ]


# Real recordings.


def test_a_log_of_others_shows_the_lines_that_torch_named():
    facts = read_recording(RECORDINGS / "2.13.0" / "break_in_try.bare", picture=True)
    diagnosis = diagnose(facts, RULES, root=Path("/home/user/demo"), version="0")
    files = annotate(diagnosis, facts.picture, Path("/home/user/demo"))
    assert all(file.is_source_missing for file in files)
    file = files[0]
    finding = next(finding for finding in diagnosis.findings if finding.break_effects)
    (line,) = (line for line in file.lines if line.number == finding.location.line)
    assert line.state == "eager"
    assert line.text.strip() == finding.location.text


def test_functions_of_which_nothing_is_known_are_folded_but_no_few_lines():
    unused = "def unused(x):\n    y = x\n    return y\n"
    used = "class A:\n    def g(self, x):\n        return x.sin()\n\n    def h(self): ...\n"
    text = f"import torch\n\n\n{unused}\n\n{used}"
    shown = picture(captured(11, file=PACKAGE), more=(package(text),))
    file = annotate(diagnosed(), shown, ROOT)[-1]
    assert [line.number for line in file.lines if line.is_folded] == [1, 2, 3, 4, 5, 6, 7, 8]
    page = render_page(diagnosed(), shown, root=ROOT)
    assert "8 folded lines</label>" in page
    assert "unused" in page


def test_no_line_of_a_file_that_can_not_be_parsed_is_folded():
    assert not any(line.is_folded for line in in_package("%magic\n" * 30, 2).lines)
