"""A child's end as its parent sees it, with a shell script in the probe's place: no torch, so every case is quick."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.run import ProbeExit
from graphdoctor.facts.spec import RunSpec
from graphdoctor.probe.wire import CRASH_FILE, EVENTS_FILE, META_FILE
from graphdoctor.trials.launch.child import Setup, Watching, record
from graphdoctor.trials.launch.request import Request, parse_target
from graphdoctor.trials.launch.script import Script, run_script
from tests.conftest import clean_environment

PHASE = '{"event": "phase", "phase": "call 2", "kind": "call {index}"}'
ERROR = '{"event": "error", "code": "no_gradient", "values": {}}'
FINISHED = '{"event": "finished", "is_complete": true, "peak_memory_bytes": 9}'


@pytest.fixture
def end(tmp_path: Path) -> Callable[..., ProbeExit]:
    """Records with a script that stands in for the probe; its working directory is the recording's folder."""

    def make(script: str, **options) -> ProbeExit:
        python = tmp_path / "python"
        # The last argument is the request.
        python.write_text(f'#!/bin/sh\nfor request; do :; done\ncd "$(dirname "$request")"\n{script}\n')
        python.chmod(0o755)
        recording = tmp_path / "recording"
        recording.mkdir()
        output: list[bytes] = []
        watching = Watching(on_phase=lambda _phase: None, on_output=output.append, **options.pop("watching", {}))
        request = Request(spec=RunSpec(target="model.py"), target=parse_target("os:path"))
        found = record(request, recording, Setup(watching, str(python), **options))
        # What is returned is what the recording keeps.
        assert ProbeExit(**json.loads((recording / META_FILE).read_text())["exit"]) == found
        assert found.duration_s is not None
        return found

    return make


def says(*events: str) -> str:
    return "\n".join(f"echo '{event}' >> {EVENTS_FILE}" for event in events)


def test_a_finished_probe(end):
    found = end(says(PHASE, FINISHED))
    assert (found.status, found.reason, found.phase, found.peak_memory_bytes) == (0, "finished", "call 2", 9)


def test_a_probe_that_does_not_end_after_it_has_finished(end, monkeypatch):
    monkeypatch.setattr("graphdoctor.trials.launch.child._GRACE_S", 0.2)
    found = end(f"{says(FINISHED)}\nexec sleep 30")
    assert (found.reason, found.status) == ("finished", None)


def test_an_error(end):
    found = end(says(ERROR) + "\nexit 3")
    assert (found.reason, found.hint_code, found.status) == ("error", "no_gradient", 3)


def test_an_exit_of_the_programs_own(end):
    found = end(f"{says(PHASE)}\nexit 5")
    assert (found.reason, found.message) == ("exited", "The program ended the process in call 2, with exit status 5.")


def test_a_signal(end):
    found = end(f"{says(PHASE)}\nkill -9 $$")
    assert (found.reason, found.status) == ("killed", -9)


def test_a_crash_brings_its_python_lines(end):
    found = end(f"{says(PHASE)}\necho 'Fatal Python error: Aborted' > {CRASH_FILE}\nkill -6 $$")
    assert (found.reason, found.traceback) == ("killed", "Fatal Python error: Aborted\n")


def test_half_a_line_of_a_killed_probe_is_left_out(end):
    found = end(f"""{says(PHASE)}\nprintf '{{"event": "pha' >> {EVENTS_FILE}\nkill -9 $$""")
    assert (found.reason, found.phase) == ("killed", "call 2")


@pytest.mark.slow
def test_a_timeout(end):
    found = end(f"{says(PHASE)}\nexec sleep 30", timeout_s=0.5)
    assert (found.reason, found.hint_code) == ("timeout", "timeout")
    assert found.message == "Stopped after 0.5 s in call 2."


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is watched on Linux only")
def test_too_much_memory(end):
    found = end(f"{says(PHASE)}\nexec sleep 30", memory_bytes=1)
    assert (found.reason, found.status) == ("killed", -9)
    assert "too much memory" in found.message


def test_a_cancelled_run(end):
    found = end(f"{says(PHASE)}\nexec sleep 30", watching={"is_cancelled": lambda: True})
    assert found.reason == "interrupted"


def test_an_interpreter_that_is_none(end):
    found = end("exit 1")
    assert (found.reason, found.hint_code, found.status) == ("error", "unusable_python", 1)


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
    "import code; code.InteractiveInterpreter().runsource('raise KeyboardInterrupt')": (0, "finished"),
    "import time; time.sleep(30)": (143, "timeout"),
}


@pytest.mark.slow
@pytest.mark.parametrize("is_module", [False, True])
@pytest.mark.parametrize("program", SCRIPTS)
def test_a_script(tmp_path, program, is_module):
    (tmp_path / "script.py").write_text(program)
    recording = tmp_path / "recording"
    recording.mkdir()
    status, reason = SCRIPTS[program]
    script = Script("script" if is_module else str(tmp_path / "script.py"), is_module=is_module, arguments=())
    timeout_s = 0.5 if reason == "timeout" else None

    assert run_script(script, recording, python=sys.executable, timeout_s=timeout_s, apart=tmp_path).status == status

    found = ProbeExit(**json.loads((recording / META_FILE).read_text())["exit"])
    assert found.reason == reason


def test_no_model_is_imported_before_the_child_runs():
    program = "import sys; from graphdoctor.trials.launch import child, script; print('pydantic' in sys.modules)"
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"
