"""Probes that are forked end, print and record as those that are started."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from graphdoctor.facts.recording import Recording
from graphdoctor.facts.run import ProbeExit
from graphdoctor.facts.spec import RunSpec
from graphdoctor.trace.reader import read_recording
from graphdoctor.trials.launch.child import Setup, probe_command, record
from graphdoctor.trials.launch.request import Measured, Request, parse_target
from graphdoctor.trials.launch.warm import WarmProbes
from tests.conftest import probe_python
from tests.processes import is_group_running, wait_until
from tests.sections import texts_beside

(PROGRAM,) = texts_beside(__file__)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="probes are forked on Linux only")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


@pytest.fixture(scope="module")
def warm() -> Iterator[WarmProbes]:
    probes = WarmProbes(probe_command(probe_python()))
    yield probes
    probes.close()


def run(
    program: Path,
    name: str,
    folder: Path,
    warm: WarmProbes | None,
    timeout_s: float | None = None,
    *,
    python: str | None = None,
    backend: str = "eager",
) -> tuple[ProbeExit, str]:
    """How a function's probe ends, and what it prints."""
    folder.mkdir()
    target = f"{program}:{name}"
    output: list[bytes] = []
    request = Request(spec=RunSpec(target=target, backend=backend), target=parse_target(target))
    found = record(
        request,
        folder,
        Setup(python or probe_python(), timeout_s, on_output=output.append, warm=warm),
    )
    return found, b"".join(output).decode()


def counts(found: Recording) -> list[object]:
    """What a recording counts, without times."""
    compiles = [
        (made.compile_id, made.outcome, made.op_count, made.guard_count) for made in found.compiles
    ]
    breaks = [
        (made.compile_id, made.chain[0].torch_id, made.stack[-1].line) for made in found.breaks
    ]
    return [
        compiles,
        breaks,
        [graph.code for graph in found.graphs],
        found.coverage,
        found.environment,
    ]


@pytest.mark.slow
def test_a_forked_probe_records_what_a_started_one_does(program, tmp_path, warm):
    started, printed = run(program, "plain", tmp_path / "started", None, python=sys.executable)
    forked, printed_too = run(program, "plain", tmp_path / "forked", warm)
    again, _ = run(program, "plain", tmp_path / "again", warm)
    assert started.reason == forked.reason == again.reason == "finished"
    assert printed == printed_too == "imported trace\ncalled\ncalled\n"
    recordings = [read_recording(tmp_path / name) for name in ("started", "forked", "again")]
    assert counts(recordings[0]) == counts(recordings[1]) == counts(recordings[2])


@pytest.mark.slow
def test_a_probe_with_inductor_records_what_a_started_one_does(program, tmp_path, warm):
    started, _ = run(
        program, "plain", tmp_path / "started", None, python=sys.executable, backend="inductor"
    )
    run(program, "plain", tmp_path / "eager", warm)
    warm.prepare(tmp_path / "eager" / "reads.json", "inductor")
    forked, printed = run(program, "plain", tmp_path / "forked", warm, backend="inductor")
    assert started.reason == forked.reason == "finished"
    assert printed == "imported trace\ncalled\ncalled\n"
    before, after, eager = (
        read_recording(tmp_path / name) for name in ("started", "forked", "eager")
    )
    assert counts(before) == counts(after)
    assert [graph.code for graph in after.graphs] == [graph.code for graph in eager.graphs]


@pytest.mark.slow
def test_what_is_still_importing_ends_with_the_rest(program, tmp_path):
    probes = WarmProbes(probe_command(probe_python()))
    run(program, "plain", tmp_path / "eager", probes)
    probes.prepare(tmp_path / "eager" / "reads.json", "inductor")
    assert probes._server is not None
    probes.close()
    group = probes._server.pid
    # Killed, they are listed until someone has taken note of it.
    wait_until(lambda: not is_group_running(group))


@pytest.mark.slow
@pytest.mark.parametrize("has_thread", [False, True])
def test_program_imports_are_shared_unless_threads_start(
    program, tmp_path, monkeypatch, has_thread
):
    folder = tmp_path / "packages"
    folder.mkdir()
    text = "import os, threading, time\nPROCESS = os.getpid()\n"
    if has_thread:
        text += "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
    (folder / "package.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    probes = WarmProbes(probe_command(probe_python()))
    try:
        assert "imported here" in run(program, "imports", tmp_path / "0", probes)[1]
        reads = tmp_path / "reads.json"
        reads.write_text(
            json.dumps(
                {"modules": {"package": str(folder / "package.py"), "missing": "missing.py"}}
            )
        )
        probes.prepare(reads, "eager")
        for number in (1, 2):
            ended, printed = run(program, "imports", tmp_path / str(number), probes)
            assert ended.reason == "finished"
            assert ("imported here" if has_thread else "imported before") in printed
        assert bool(probes._broken) is has_thread
        edited = tmp_path / "request.json"
        for file, expected in ((folder / "package.py", True), (program, False)):
            edited.write_text(json.dumps({"trial": {"patches": {str(file): "other.py"}}}))
            assert probes._is_edited(edited) is expected
        reads.write_text(json.dumps({"modules": {}}))
        probes.prepare(reads, "eager")
        assert "imported here" in run(program, "imports", tmp_path / "3", probes)[1]
    finally:
        probes.close()


@pytest.mark.slow
def test_program_imports_may_depend_on_its_environment(tmp_path):
    found = []
    for number, line in enumerate(
        ("pass", "import os; os.environ['TRANSFORMERS_VERBOSITY'] = 'error'")
    ):
        path = tmp_path / f"model_{number}.py"
        path.write_text(
            f"{line}\nimport torch\nimport yaml\n\n\ndef f(x=1.0):\n    return torch.ones(1) * x\n"
        )
        target = f"{path}:f"
        request = Request(
            RunSpec(target=target), parse_target(target), measured=Measured(reads=True)
        )
        (tmp_path / str(number)).mkdir()
        assert (
            record(request, tmp_path / str(number), Setup(str(probe_python()))).reason == "finished"
        )
        found.append(
            "yaml" in json.loads((tmp_path / str(number) / "reads.json").read_text())["modules"]
        )
    assert found == [True, False]


@pytest.mark.slow
def test_a_forked_probe_ends_as_a_started_one_does(program, tmp_path, warm):
    for name in ("raises", "exits", "aborts", "leaves_a_thread"):
        ends = [
            run(program, name, tmp_path / f"{name}-{probes is None}", probes)
            for probes in (None, warm)
        ]
        (started, printed), (forked, printed_too) = ends
        assert (started.reason, started.status) == (forked.reason, forked.status), name
        assert started.message == forked.message
        assert ("Fatal Python error: Aborted" in printed) == (
            "Fatal Python error: Aborted" in printed_too
        ), name
    assert run(program, "hangs", tmp_path / "hanging", warm, timeout_s=5)[0].reason == "timeout"


@pytest.mark.slow
def test_what_still_runs_ends_with_what_forked_it(program, tmp_path):
    probes = WarmProbes(probe_command(probe_python()))
    with ThreadPoolExecutor(max_workers=1) as pool:
        end = pool.submit(run, program, "hangs", tmp_path / "hanging", probes, 60)
        events = tmp_path / "hanging" / "probe.jsonl"
        while not events.exists() or "call 1" not in events.read_text():
            time.sleep(0.05)
        probes.close()
        found, _ = end.result()
    assert found.reason == "killed"
    assert found.status == -signal.SIGKILL


def started_by(command: list[str], folder: Path, **more: float) -> list[object]:
    """What comes of asking twice."""
    probes, request = WarmProbes(command), folder / "request.json"
    given = {
        "backend": "eager",
        "environment": dict(os.environ),
        "descriptors": (),
        "held": 0,
        **more,
    }
    try:
        return [probes.start(request, **given) for _ in range(2)]
    finally:
        probes.close()


@pytest.mark.slow
def test_nothing_is_forked_beside_a_thread(tmp_path, monkeypatch):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "usercustomize.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    code = "import usercustomize, runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"
    assert started_by([sys.executable, "-c", code, probe_command("")[-1]], tmp_path) == [None, None]


def test_where_none_can_be_forked_it_is_started(tmp_path):
    WarmProbes([sys.executable, "-c", "raise SystemExit(1)"]).close()
    for command in ([sys.executable, "-c", "raise SystemExit(1)"], ["/no/such/interpreter"]):
        assert started_by(command, tmp_path) == [None, None]
    # One that doesn't get ready is given up.
    assert started_by(
        [sys.executable, "-c", "import time; time.sleep(600)"], tmp_path, timeout_s=0.2
    ) == [None, None]
