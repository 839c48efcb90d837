"""A child's end as its parent sees it, with a shell script in the probe's place: no torch, so every
case is quick."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.run import ProbeExit
from graphdoctor.facts.spec import RunSpec
from graphdoctor.probe.wire import CRASH_FILE, EVENTS_FILE, META_FILE
from graphdoctor.trials.launch.child import Setup, record
from graphdoctor.trials.launch.request import Request, parse_target
from graphdoctor.trials.launch.script import Script, run_script
from tests.conftest import clean_environment

PHASE = '{"event": "phase", "phase": "call 2", "kind": "call {index}"}'
ERROR = '{"event": "error", "code": "no_gradient", "values": {}}'
FINISHED = '{"event": "finished", "is_complete": true, "peak_memory_bytes": 9}'


@pytest.fixture
def end(tmp_path: Path) -> Callable[..., ProbeExit]:
    """Records with a script that stands in for the probe; its working directory is the recording's
    folder."""

    def make(script: str, **options) -> ProbeExit:
        python = tmp_path / "python"
        # The last argument is the request.
        python.write_text(
            f'#!/bin/sh\nfor request; do :; done\ncd "$(dirname "$request")"\n{script}\n'
        )
        python.chmod(0o755)
        recording = Path(tempfile.mkdtemp(dir=tmp_path))
        request = Request(spec=RunSpec(target="model.py"), target=parse_target("os:path"))
        ended = record(request, recording, Setup(str(python), **options))
        # What is returned is what the recording keeps.
        assert ProbeExit(**json.loads((recording / META_FILE).read_text())["exit"]) == ended
        assert ended.duration_s is not None
        return ended

    return make


def says(*events: str) -> str:
    return "\n".join(f"echo '{event}' >> {EVENTS_FILE}" for event in events)


CASES = {
    "finished": (
        says(PHASE, FINISHED),
        {"status": 0, "reason": "finished", "phase": "call 2", "peak_memory_bytes": 9},
    ),
    "an error": (
        f"{says(ERROR)}\nexit 3",
        {"reason": "error", "hint_code": "no_gradient", "status": 3},
    ),
    "an exit of the program's own": (
        f"{says(PHASE)}\nexit 5",
        {
            "reason": "exited",
            "message": "The program ended the process in call 2, with exit status 5.",
        },
    ),
    "a signal": (f"{says(PHASE)}\nkill -9 $$", {"reason": "killed", "status": -9}),
    "a crash brings its Python lines": (
        f"{says(PHASE)}\necho 'Fatal Python error: Aborted' > {CRASH_FILE}\nkill -6 $$",
        {"reason": "killed", "traceback": "Fatal Python error: Aborted\n"},
    ),
    "half a line is left out": (
        f"""{says(PHASE)}\nprintf '{{"event": "pha' >> {EVENTS_FILE}\nkill -9 $$""",
        {"reason": "killed", "phase": "call 2"},
    ),
    "no interpreter": ("exit 1", {"reason": "error", "hint_code": "unusable_python", "status": 1}),
}


def test_a_probe_ends_by_itself(end):
    for case, (script, expected) in CASES.items():
        ended = end(script)
        assert {name: getattr(ended, name) for name in expected} == expected, case


def test_a_probe_is_stopped(end, monkeypatch):
    ended = end(f"{says(PHASE)}\nexec sleep 30", timeout_s=0.5)
    assert (ended.reason, ended.hint_code) == ("timeout", "timeout")
    assert ended.message == "Stopped after 0.5 s in call 2."
    ended = end(f"{says(PHASE)}\nexec sleep 30", is_cancelled=lambda: True)
    assert ended.reason == "interrupted"
    if Path("/proc/self/statm").exists():
        ended = end(f"{says(PHASE)}\nexec sleep 30", memory_bytes=1)
        assert (ended.reason, ended.status) == ("killed", -9)
        assert "too much memory" in ended.message
    # It has finished, and doesn't end.
    monkeypatch.setattr("graphdoctor.trials.launch.child._GRACE_S", 0.2)
    ended = end(f"{says(FINISHED)}\nexec sleep 30")
    assert (ended.reason, ended.status) == ("finished", None)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_while_a_probe_starts_ends_it_too(end, monkeypatch, number):
    started: list[subprocess.Popen[bytes]] = []

    class Interrupted(subprocess.Popen):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            started.append(self)
            signal.raise_signal(number)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    previous = signal.signal(number, signal.default_int_handler)
    try:
        ended = end(f"{says(PHASE)}\nexec sleep 30")
    finally:
        signal.signal(number, previous)
    assert ended.reason == "interrupted"
    assert started[0].poll() is not None


def test_an_interpreter_that_does_not_exist(tmp_path):
    request = Request(spec=RunSpec(target="os:path"), target=parse_target("os:path"))
    with pytest.raises(GraphDoctorError, match="can't be started"):
        record(request, tmp_path, Setup(python=str(tmp_path / "python")))


SCRIPTS = {
    "pass": (0, "finished"),
    "raise SystemExit(4)": (4, "finished"),
    "raise ValueError('own')": (1, "error"),
    "import os; os._exit(6)": (6, "exited"),
    "import os; os.kill(os.getpid(), 9)": (137, "killed"),
    "raise KeyboardInterrupt": (130, "interrupted"),
    "import code; code.InteractiveInterpreter().runsource('raise KeyboardInterrupt')": (
        0,
        "finished",
    ),
    "import time; time.sleep(30)": (143, "timeout"),
}


@pytest.mark.slow
def test_a_script(tmp_path):
    for number, (program, (status, reason)) in enumerate(SCRIPTS.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "script.py").write_text(program)
        for is_module in (False, True) if reason != "timeout" else (False,):
            recording = folder / f"recording-{is_module}"
            recording.mkdir()
            script = Script(
                "script" if is_module else str(folder / "script.py"),
                is_module=is_module,
                arguments=(),
            )
            timeout_s = 0.5 if reason == "timeout" else None
            ended = run_script(
                script, recording, python=sys.executable, timeout_s=timeout_s, apart=folder
            )
            recorded = ProbeExit(**json.loads((recording / META_FILE).read_text())["exit"])
            assert (ended.status, recorded.reason) == (status, reason), program


def test_no_model_is_imported_before_the_child_runs():
    program = "import sys; from graphdoctor.trials.launch import child, script; print('pydantic' in sys.modules)"
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, env=clean_environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
