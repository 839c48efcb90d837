"""A forked command and a forked probe give what new processes give."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import COMMAND, REPOSITORY, Imported, clean_environment, run_command, run_script
from tests.each import for_each
from tests.forking.server import Forking

VARYING = re.compile(r"(_s|_us|_bytes|^share)$")
"""Keys of what is measured."""


def facts(value: Any) -> Any:
    """A document without what is measured."""
    if isinstance(value, dict):
        return {key: facts(item) for key, item in value.items() if not VARYING.search(key)}
    if isinstance(value, str):
        return re.sub(r"\d+(\.\d+)? (s|ms|µs)\b", "", value)
    return [facts(item) for item in value] if isinstance(value, list) else value


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "imported"),
    [
        ("hidden_second_break", "torch"),
        ("batch_sizes", "torch"),
        ("hidden_second_break", "packages"),
    ],
)
def test_the_document_is_the_same(name: str, imported: Imported, tmp_path: Path) -> None:
    program = REPOSITORY / "sample_models" / f"{name}.py"
    forked, anew = (
        run_command(
            "explain",
            program,
            "--format",
            "json",
            cwd=tmp_path,
            is_forked=is_forked,
            imported=imported,
        )
        for is_forked in (True, False)
    )
    assert facts(json.loads(forked.stdout)) == facts(json.loads(anew.stdout))
    assert (forked.returncode, forked.stderr.count("\n")) == (
        anew.returncode,
        anew.stderr.count("\n"),
    )


@pytest.mark.slow
def test_a_script_is_recorded_as_one_that_is_started(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "script.py").write_text(
        "import atexit, os, sys, torch\natexit.register(print, 'bye')\n"
        "def f(x):\n    print(sys.argv, __name__, __file__, sys.path[:2], __spec__, os.getcwd())\n    return x + 1\n"
        "torch.compile(f, backend='eager')(torch.ones(2))\nraise ValueError('boom')\n"
    )
    ends, documents = [], []
    for is_forked in (True, False):
        arguments = ("run", "--force", "--report", "out.json", "below/script.py", "a")
        done = run_command(*arguments, cwd=tmp_path, is_forked=is_forked)
        ends.append((done.returncode, done.stdout, facts(done.stderr)))
        documents.append(facts(json.loads((tmp_path / "out.json").read_text())))
    assert ends[0] == ends[1]
    assert documents[0] == documents[1]


@pytest.mark.slow
def test_a_probe_that_kills_itself_is_killed(tmp_path: Path) -> None:
    lines = "import os\nprint('here')\ndef f(x):\n    os.kill(os.getpid(), 9)\ndef example_inputs(): return (1,)\n"
    (tmp_path / "model.py").write_text(lines)
    done = run_command("explain", "model.py:f", cwd=tmp_path)
    assert "here" in done.stderr
    assert "killed by SIGKILL in call 1" in done.stderr


@pytest.fixture(scope="module")
def forking() -> Any:
    """A server with a command of its own."""
    code = "import os, sys; print(sys.argv, os.getcwd(), sys.stdin.read(), os.environ.get('WORD')); exec(sys.argv[1])"
    server = Forking(["-c", code], load="graphdoctor", environment=clean_environment())
    server.start()
    yield [str(server.python), "-c", code]
    server.close()


@pytest.mark.slow
def test_a_child_has_the_clients_place(forking: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [*forking, "import graphdoctor.commands; sys.exit(graphdoctor.commands.__spec__ is None)", "b"],
        cwd=tmp_path, env=clean_environment(WORD="x"), input="typed", capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == f"{['-c', *done.args[3:]]} {tmp_path} typed x\n"


@for_each("how", ["sys.exit(7)", "os._exit(8)", "os.kill(os.getpid(), 15)", "os.kill(0, 15)"])
def test_its_end_is_the_clients(forking: list[str], how: str) -> None:
    done = subprocess.run(
        [*forking, how], env=clean_environment(), input="", check=False, text=True, process_group=0
    )
    assert done.returncode == {"sys.exit(7)": 7, "os._exit(8)": 8}.get(how, -signal.SIGTERM)


def test_in_another_session_it_starts_anew(forking: list[str]) -> None:
    command = [*forking, "sys.exit(os.getsid(0) == os.getpid())"]
    options: dict[str, Any] = {"env": clean_environment(), "input": "", "text": True}
    ends = [
        subprocess.run(command, check=False, start_new_session=is_new, **options)
        for is_new in (False, True)
    ]
    assert [end.returncode for end in ends] == [0, 1]


def test_what_is_read_at_the_start_starts_anew(forking: list[str]) -> None:
    command = [*forking, "sys.exit(sys.flags.no_user_site)"]
    assert [
        subprocess.run(command, env=environment, input="", check=False, text=True).returncode
        for environment in (clean_environment(), clean_environment(PYTHONNOUSERSITE="1"))
    ] == [0, 1]


def test_a_client_that_is_killed_takes_its_child_along(forking: list[str], tmp_path: Path) -> None:
    sleep = "print(os.getpid(), flush=True); import time; time.sleep(600)"
    with subprocess.Popen(
        [*forking, sleep],
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        child = int(process.stdout.readline())
        process.kill()
        assert process.stdout.read() == "", "the child held the pipe"
    assert not Path(f"/proc/{child}/exe").exists()


def test_without_a_server_it_is_the_interpreter() -> None:
    forking = Forking(COMMAND, load="graphdoctor", environment=clean_environment())
    done = subprocess.run(
        [forking.python, "-c", "print(1)"], capture_output=True, text=True, check=True
    )
    forking.close()
    assert done.stdout == "1\n"


@pytest.mark.slow
def test_a_script_is_run_as_python_runs_it(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("WORD = 'of a neighbour'\n")
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, torch, other\nprint(sys.argv[1:], __name__, other.WORD)\nsys.exit('over')\n"
    )
    with pytest.raises(subprocess.CalledProcessError) as failed:
        run_script(script, "a", cwd=tmp_path.parent, env=clean_environment())
    assert (failed.value.stdout, failed.value.stderr) == (
        "['a'] __main__ of a neighbour\n",
        "over\n",
    )


@pytest.mark.slow
def test_whoever_led_its_group_may_have_ended(forking: list[str], tmp_path: Path) -> None:
    # A shell leads the group of what it starts in the background, and ends before it. The forked
    # child has the server for its parent; a Python that started anew would have nobody's.
    asks = "import os; print('forked', os.getppid() != 1)"
    said = tmp_path / "said"
    command = (
        f"(sleep 0.5; {shlex.join([*forking, asks])} >{said}.new 2>&1; mv {said}.new {said}) &"
    )
    subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, env=clean_environment(), process_group=0, check=True
    )
    for _ in range(300):
        if said.exists():
            break
        time.sleep(0.1)
    assert "forked True" in said.read_text()
