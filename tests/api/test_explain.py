"""``graphdoctor.explain``: what it finds is what the command line finds, and what a sample says."""

from __future__ import annotations

import contextlib
import io
import linecache
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import graphdoctor
from graphdoctor import Explainer, GraphDoctorError
from graphdoctor.facts.reading import plain
from graphdoctor.probe.target.targets import find_calls, find_target, import_target
from tests.conftest import REPOSITORY, clean_environment
from tests.each import for_each

pytestmark = pytest.mark.slow
SINGLE_CALLS = (
    *("break_in_try", "deepcopy_state", "disabled_call", "hidden_second_break"),
    *("numpy_roundtrip", "print_in_helper", "print_in_loop", "user_error"),
)
"""Samples of one call each."""


def f(x, scale: float = 1.0):
    y = x * scale
    print("scaled")
    return torch.relu(y)


def quietly(run: Callable[[], Any]):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return run()


def known(document: dict[str, Any]) -> list[Any]:
    """What doesn't depend on the process in which a program was explained."""

    def each(items, *names: str) -> list[Any]:
        return [[item[name] for name in names] for item in items]

    recording, findings = document["recording"], document["findings"]
    return [
        each([document], "frames", "recompiles", "graphs"),
        each([document["summary"]], "coverage_detail", "break_sites", "skipped_frames", "graphs"),
        each([recording], "gaps", "compile_calls", "is_partial"),
        each([recording["target"]], "file", "compile_arguments"),
        each(recording["calls"], "inputs", "outcome"),
        each(
            findings,
            "code",
            "message",
            "count",
            "fingerprint",
            "user_stack",
            "effects",
            "compile_ids",
            "fixes",
        ),
        each(findings, "torch_id", "location"),
        each(recording["graphs"], "compile_id", "op_count", "inputs", "function", "nodes"),
    ]


@pytest.mark.parametrize("name", SINGLE_CALLS)
def test_the_diagnosis_is_that_of_the_command_line(explain_json, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    sample = REPOSITORY / "sample_models" / f"{name}.py"
    told = explain_json(sample)
    target = find_target(import_target(str(sample), None), None, is_call=False)
    torch.manual_seed(0)
    ((args, kwargs),) = find_calls(target, None).rounds()
    report = quietly(lambda: graphdoctor.explain(target.function, *args, **kwargs))
    assert told["findings"]
    assert known(plain(report.diagnosis)) == known(told)


def test_options_are_torch_compiles():
    report = quietly(
        lambda: Explainer(fullgraph=True, dynamic=True, calls=2, coverage=False).explain(
            f, torch.ones(2)
        )
    )

    assert report.diagnosis.recording.target.compile_arguments["fullgraph"] is True
    assert report.diagnosis.findings[0].break_effects == ("raised",)
    assert "torch.compile refused call 1" in str(report)
    assert report.diagnosis.summary.coverage is None


def test_what_torch_compile_made_is_explained_by_its_original():
    module = torch.nn.Linear(2, 2)
    for compiled in (torch.compile(module, backend="eager"), torch.compile(f, backend="eager")):
        report = quietly(lambda compiled=compiled: graphdoctor.explain(compiled, torch.ones(2, 2)))
        assert report.diagnosis.summary.graphs
        assert report.diagnosis.recording.target.class_name in ("Linear", "f")


def test_an_error_is_reported_and_its_traceback_printed(capsys):
    def breaks(x):
        print("first")
        raise KeyError("what is missing")

    report = graphdoctor.explain(breaks, torch.ones(2))

    printed = capsys.readouterr().err
    assert printed.rstrip().endswith("KeyError: 'what is missing'")
    assert 'raise KeyError("what is missing")' in printed
    assert "graphdoctor" not in printed.replace(str(Path(__file__)), "")
    assert "what is missing" in (report.traceback or "")
    assert "KeyError" in str(report)
    assert report.diagnosis.recording.is_partial
    assert report.diagnosis.recording.calls[0].error is not None


@for_each(
    "options, function, said",
    [
        ({}, torch.nn.Linear, "Linear is a class"),
        ({}, 3, "An object of type int can't be called"),
        ({"backward": True}, f, "no floating-point output requires a gradient"),
        ({"calls": 0}, f, "calls must be at least 1, not 0"),
        ({"backend": f}, f, "backend must be the name of a backend, not a function"),
    ],
)
def test_what_cannot_be_explained_is_refused_as_in_the_api(options, function, said):
    with pytest.raises(GraphDoctorError, match=said) as caught:
        quietly(lambda: Explainer(**options).explain(function, torch.ones(2)))
    assert "--" not in caught.value.message + str(caught.value.hint)


def test_only_one_at_a_time():
    def nested(x):
        graphdoctor.explain(f, x)
        return x

    report = quietly(lambda: graphdoctor.explain(torch.compiler.disable(nested), torch.ones(2)))
    assert "graphdoctor.explain or graphdoctor.record is already running" in (
        report.traceback or ""
    )

    with graphdoctor.record():
        caught: list[BaseException] = []

        def other_thread():
            try:
                graphdoctor.explain(f, torch.ones(2))
            except GraphDoctorError as error:
                caught.append(error)

        thread = threading.Thread(target=other_thread)
        thread.start()
        thread.join()
        assert len(caught) == 1
        with pytest.raises(GraphDoctorError, match="already"), graphdoctor.record():
            pass
    quietly(lambda: graphdoctor.explain(f, torch.ones(2)))


def run_cell(name: str, source: str, namespace: dict[str, Any]):
    """Run a notebook's cell as IPython does: its text is in ``linecache`` and in no file."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec"), namespace)


@pytest.mark.parametrize(
    "name", ["<ipython-input-1-0123456789ab>", "/tmp/ipykernel_4242/1234567890.py"]
)
def test_notebook_cell_has_its_source_in_the_report(name):
    namespace: dict[str, Any] = {"torch": torch, "graphdoctor": graphdoctor, "__name__": "__main__"}
    cell = "def f(x):\n    y = x * 2\n    print('a break')  # seen\n    return torch.relu(y)\n"
    run_cell(name, cell, namespace)
    call = (
        "<ipython-input-2-0123456789ab>"
        if name.startswith("<")
        else "/tmp/ipykernel_4242/9876543210.py"
    )

    quietly(lambda: run_cell(call, "report = graphdoctor.explain(f, torch.ones(3))\n", namespace))

    report = namespace["report"]
    (finding,) = report.diagnosis.findings
    assert (finding.location.file, finding.location.line, finding.location.origin) == (
        name,
        3,
        "user",
    )
    assert finding.location.text == "print('a break')  # seen"
    assert [entry.file for entry in finding.user_stack if entry.file == call] == []
    assert "# seen" in report._repr_html_()


def test_importing_graphdoctor_imports_neither_torch_nor_pydantic(tmp_path):
    code = (
        "import sys, graphdoctor\n"
        "assert 'explain' in dir(graphdoctor) and graphdoctor.__version__\n"
        "assert not {'torch', 'pydantic', 'rich', 'numpy', 'typing'} & set(sys.modules), sorted(sys.modules)\n"
        "assert graphdoctor.GraphDoctorError.__module__ == 'graphdoctor.errors'\n"
        "graphdoctor.explain, graphdoctor.Explainer, graphdoctor.record\n"
        "assert 'torch' not in sys.modules\n"
        "try:\n    graphdoctor.nothing\nexcept AttributeError as error:\n    assert 'nothing' in str(error)\n"
    )
    subprocess.run(
        [sys.executable, "-c", code], env=clean_environment(), cwd=tmp_path, check=True, timeout=60
    )
