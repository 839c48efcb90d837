"""What the probe writes is declared in ``wire``; what is declared there, the probe writes and a reader reads."""

from __future__ import annotations

import ast
import json
import types
import typing
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import graphdoctor
from graphdoctor.facts.recording import GapKind
from graphdoctor.facts.spec import RunSpec
from graphdoctor.probe import wire
from graphdoctor.trace.grammar import LogDamage, read_records
from graphdoctor.trace.logs import find_logs
from graphdoctor.trials.launch.child import RECORDING_VARIABLE
from graphdoctor.trials.launch.request import Request

PACKAGE = Path(graphdoctor.__file__).parent
PROBE = PACKAGE / "probe"
RECORDINGS = Path(__file__).parent.parent / "recordings"
RECORDED = sorted(path.parent for path in RECORDINGS.rglob(wire.META_FILE))


def hints_of(declared: type) -> dict[str, object]:
    return typing.get_type_hints(declared, include_extras=True)


def kind_of(event: type) -> str:
    return typing.get_args(hints_of(event)["event"])[0]


EVENTS = {kind_of(event): event for event in typing.get_args(wire.Event)}
ARTIFACTS = dict(
    zip(
        (
            "graphdoctor_call",
            "graphdoctor_compile_call",
            "graphdoctor_root",
            "graphdoctor_caller",
            "graphdoctor_recompile",
            "graphdoctor_stack",
            "graphdoctor_graph",
            "graphdoctor_sources",
            "graphdoctor_file",
            "graphdoctor_generated",
            "graphdoctor_called",
            "graphdoctor_watched_call",
            "graphdoctor_inductor_graph",
            "graphdoctor_steps",
        ),
        typing.get_args(wire.Artifact),
        strict=True,
    )
)


def problems(value: object, declared: object, where: str) -> Iterator[str]:
    """Where a value of JSON is not as a type of ``wire`` declares it."""
    origin, arguments = typing.get_origin(declared), typing.get_args(declared)
    if typing.is_typeddict(declared):
        if not isinstance(value, dict):
            yield f"{where} is a {type(value).__name__}"
            return
        hints = hints_of(declared)
        yield from (f"{where}.{key} is not declared" for key in value if key not in hints)
        for key, hint in hints.items():
            if typing.get_origin(hint) is typing.NotRequired:
                hint = typing.get_args(hint)[0]  # noqa: PLW2901
            elif key not in value and declared.__total__:
                yield f"{where}.{key} is missing"
            if key in value:
                yield from problems(value[key], hint, f"{where}.{key}")
    elif origin in (typing.Union, types.UnionType):
        if all(list(problems(value, option, where)) for option in arguments):
            yield f"{where} is none of {declared}: {value!r}"
    elif origin is typing.Literal:
        if value not in arguments:
            yield f"{where} is {value!r}"
    elif origin is list:
        for number, item in enumerate(value if isinstance(value, list) else [None]):
            yield from problems(item, arguments[0], f"{where}[{number}]")
    elif origin is tuple:
        for number, (item, hint) in enumerate(zip(value, arguments, strict=True)):
            yield from problems(item, hint, f"{where}[{number}]")
    elif origin is dict:
        for key, item in value.items() if isinstance(value, dict) else ((None, None),):
            yield from problems(key, arguments[0], f"{where} key")
            yield from problems(item, arguments[1], f"{where}[{key!r}]")
    elif declared is float:
        if not isinstance(value, (int, float)):
            yield f"{where} is {value!r}"
    elif declared is not typing.Any and type(value) is not declared:
        yield f"{where} is {value!r}"


def events_of(recording: Path) -> list[dict]:
    return [json.loads(line) for line in (recording / wire.EVENTS_FILE).read_text().splitlines()]


def artifacts_of(recording: Path) -> Iterator[tuple[str, object]]:
    for log in find_logs(recording / wire.TRACE_FOLDER):
        with log.open() as lines:
            for record in read_records(lines, lambda kind: kind.startswith(wire.ARTIFACT_PREFIX), LogDamage()):
                yield record.kind, json.loads(record.payload or "null")


def problems_in(recording: Path) -> Iterator[str]:
    for event in events_of(recording):
        yield from problems(event, EVENTS[event["event"]], event["event"])
    for name, value in artifacts_of(recording):
        yield from problems(value, ARTIFACTS[name], name)


def assert_as_declared(recording: Path) -> tuple[set[str], set[str]]:
    """The kinds of events and the names of artifacts in a recording; all are as declared."""
    assert list(problems_in(recording)) == []
    return {event["event"] for event in events_of(recording)}, {name for name, _ in artifacts_of(recording)}


@cache
def nodes_of(file: Path) -> tuple[ast.AST, ...]:
    """The constants and calls in a file."""
    return tuple(node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, (ast.Constant, ast.Call)))


@cache
def nodes(folder: Path) -> tuple[ast.AST, ...]:
    files = [file for file in folder.rglob("*.py") if file.name not in ("wire.py", "file_names.py")]
    return tuple(node for file in files for node in nodes_of(file))


@cache
def texts(folder: Path) -> frozenset[str]:
    return frozenset(
        node.value for node in nodes(folder) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def artifacts_written() -> set[str]:
    return {
        node.args[0].value
        for node in nodes(PROBE)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "write_artifact"
        and isinstance(node.args[0], ast.Constant)
    }


def test_each_name_of_an_artifact_has_a_type():
    assert set(ARTIFACTS) == set(typing.get_args(wire.ArtifactName))
    assert all(name.startswith(wire.ARTIFACT_PREFIX) for name in ARTIFACTS)


@pytest.mark.parametrize("kind", EVENTS)
def test_the_probe_writes_each_event_and_somebody_reads_it(kind):
    made = {node.func.id for node in nodes(PROBE) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert EVENTS[kind].__name__ in made or kind in texts(PROBE)
    assert kind in texts(PACKAGE / "trace") | texts(PACKAGE / "trials" / "launch")


@pytest.mark.parametrize("name", ARTIFACTS)
def test_the_probe_writes_each_artifact_and_the_reader_reads_it(name):
    assert name in artifacts_written()
    assert name in texts(PACKAGE / "trace")


def test_the_probe_writes_nothing_else():
    # mypy checks what EventFile.write is given; these lines go past it.
    raw = {
        json.loads(node.value.replace(b"%d", b"1"))["event"]
        for node in nodes(PROBE)
        if isinstance(node, ast.Constant) and isinstance(node.value, bytes) and b'"event"' in node.value
    }
    assert raw <= set(EVENTS)
    assert artifacts_written() <= set(ARTIFACTS)


@pytest.mark.parametrize("kind", typing.get_args(GapKind))
def test_each_kind_of_gap_can_occur(kind):
    assert kind in texts(PROBE) | texts(PACKAGE / "trace") | texts(PACKAGE / "studies" / "ranks")


def test_a_request_is_as_declared():
    request = Request.of(RunSpec(target="os:path", inputs=("f32[2]",), options={"a": 1}, device="cpu"))
    assert list(problems(request.for_probe(), wire.ProbeRequest, "request")) == []


@pytest.mark.slow
def test_file_names_stand_in_one_place():
    names = {getattr(wire, name) for name in vars(wire) if name.endswith("_FILE")}
    for file in PACKAGE.rglob("*.py"):
        if file.name == "file_names.py":
            continue
        constants = [node.value for node in nodes_of(file) if isinstance(node, ast.Constant)]
        assert not names.intersection(value for value in constants if isinstance(value, str)), file


def test_a_programs_start_finds_the_recording_where_capture_puts_it():
    # sitecustomize.py runs before anything of ours can be imported, so it has a copy of the name.
    assert RECORDING_VARIABLE in {
        node.value for node in nodes_of(PROBE / "startup" / "sitecustomize.py") if isinstance(node, ast.Constant)
    }


@pytest.mark.parametrize("recording", RECORDED, ids=lambda path: "-".join(path.parts[-2:]))
def test_recordings_of_each_torch_hold_nothing_that_is_not_declared(recording):
    # Those of earlier versions may lack what was added since.
    assert [problem for problem in problems_in(recording) if not problem.endswith("is missing")] == []


@pytest.mark.slow
def test_a_full_run_is_as_declared(tmp_path, run_cli):
    (tmp_path / "model.py").write_text(
        "import torch\n"
        "def f(x, n):\n    x = x + n\n    print('a')\n    return x * 2\n"
        "def example_inputs():\n    yield torch.ones(4), 1.5\n    yield torch.ones(4), 2.5\n"
    )
    process = run_cli("explain", "model.py", "-o", "report.html")
    assert process.returncode == 0, process.stderr
    folder = tmp_path / ".graphdoctor"
    events, artifacts = assert_as_declared(folder / (folder / "last").read_text().strip())
    assert events >= {"process", "phase", "environment", "target", "coverage", "steady_call", "guard_cost", "lane"}
    assert events >= {"config", "finished"}
    of_others = {
        "graphdoctor_compile_call",
        "graphdoctor_root",
        "graphdoctor_generated",
        "graphdoctor_inductor_graph",
    } | {"graphdoctor_steps"}
    assert artifacts == set(ARTIFACTS) - of_others - {"graphdoctor_called", "graphdoctor_watched_call"}

    assert run_cli("recompiles", "model.py", "--vary").returncode == 0
    events, _ = assert_as_declared(folder / (folder / "last").read_text().strip())
    assert events >= {"vary_plan", "variation", "vary_end"}


@pytest.mark.slow
def test_a_scripts_run_is_as_declared(tmp_path, run_cli):
    (tmp_path / "script.py").write_text(
        "import torch\nnet = torch.compile(torch.nn.Sequential(torch.nn.ReLU()), backend='eager')\n"
        "net(torch.ones(2)), net(torch.ones(2))\n"
    )
    assert run_cli("run", "script.py").returncode == 0
    folder = tmp_path / ".graphdoctor"
    events, artifacts = assert_as_declared(folder / (folder / "last").read_text().strip())
    assert events >= {"process", "environment", "config", "ended"}
    assert artifacts >= {"graphdoctor_compile_call", "graphdoctor_graph", "graphdoctor_caller", "graphdoctor_file"}
    assert artifacts >= {"graphdoctor_root", "graphdoctor_called", "graphdoctor_watched_call"}
