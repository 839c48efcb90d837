"""``graphdoctor run``: a program behaves as under ``python``, and what torch.compile did in it is
recorded."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import CLEAN_TARGET, clean_environment, command_line, run_command

pytestmark = pytest.mark.slow
PYTHON = sys.executable

SCRIPTS = {
    "arguments": "import sys, os\nprint(sys.argv, __name__, __file__, __spec__, sys.path, os.getcwd())\n",
    "main module": "import sys\nclass K: pass\nprint(sys.modules['__main__'].K is K, K.__module__)\n"
    "import pickle\nprint(type(pickle.loads(pickle.dumps(K()))))\n",
    "stdin": "import sys\nfor line in sys.stdin: print('got', line)\nprint(sys.stdin.isatty(), file=sys.stderr)\n",
    "sys.exit with a status": "import sys\nsys.exit(3)\n",
    "sys.exit with a message": "import sys\nsys.exit('bye')\n",
    "exit in a thread": "import threading\nt = threading.Thread(target=exit)\nt.start(); t.join()\nprint('after')\n",
    "an exception": "def f(): raise ValueError('boom')\nf()\n",
    "an exception group": "raise ExceptionGroup('several', [ValueError(1), KeyError('x')])\n",
    "a syntax error": "print('never'\n",
    "a missing module": "import no_such_module_at_all\n",
    "os._exit": "import os\nprint('lost'); os._exit(4)\n",
    "a closed stdout": "import sys\nprint('before'); sys.stdout.close()\n",
    "no streams": "import sys\nsys.stdout = sys.stderr = None\n",
    "exit functions": "import atexit\natexit.register(print, 'at exit')\nprint('body')\n",
    "an excepthook": "import sys\nsys.excepthook = lambda *error: print('hooked', error[0])\n1 / 0\n",
    "signal handlers": "import os, signal\nfor number in (signal.SIGINT, signal.SIGTERM):\n"
    "    signal.signal(number, lambda n, frame: print('got', n)); os.kill(os.getpid(), number)\n"
    "print(signal.getsignal(signal.SIGUSR1), signal.getsignal(signal.SIGPIPE))\n",
    "spawned children": "import multiprocessing\ndef work(n): return n * 2\n"
    "if __name__ == '__main__':\n    print(multiprocessing.get_context('spawn').Pool(1).map(work, [1, 2]))\n",
    "forked children": "import os\nif os.fork() == 0: exit(5)\nprint(os.waitstatus_to_exitcode(os.wait()[1]))\n",
    "another program in its place": "import os, sys\n"
    "if len(sys.argv) < 2: os.execv(sys.executable, [sys.executable, __file__, 'again'])\nprint(sys.argv[1:])\n",
    "what is imported": "import sys\nprint(sorted({'torch', 'typing', 'json', 're'} & set(sys.modules)))\n",
}
"""Programs that behave alike, whoever runs them."""

TORCH_SCRIPTS = {
    "exceptions": "import importlib.util\nprint(importlib.util.find_spec('torch').name)\nimport traceback, torch\n"
    "print(vars(torch.__loader__), torch.__spec__.loader is torch.__loader__, torch.__file__)\n"
    "def g(x): return x + 1\n@torch.compile(backend='eager')\ndef f(x):\n"
    "    return torch.compile(g, backend='eager')(x) * 2\n"
    "print(f(torch.ones(2)), torch.compile.__code__.co_filename)\n"
    "def bad(gm, inputs): raise RuntimeError('no')\n"
    "for backend in ('nope', bad):\n    try:\n"
    "        torch.compile(lambda x: x + 1, backend=backend)(torch.ones(2))\n"
    "    except Exception:\n        traceback.print_exc()\n"
    "def f(x):\n    print(x)\n    return x + 1\n"
    "torch.compile(f, backend='eager', fullgraph=True)(torch.ones(2))\n",
    "verbose exceptions": "import os\nos.environ['TORCHDYNAMO_VERBOSE'] = '1'\nimport traceback, torch\n"
    "def bad(gm, inputs): raise RuntimeError('no')\ntry:\n"
    "    torch.compile(lambda x: x + 1, backend=bad)(torch.ones(2))\nexcept Exception:\n    traceback.print_exc()\n"
    "torch._dynamo.config.error_on_recompile = True\nf = torch.compile(lambda x: x + 1, backend='eager')\n"
    "f(torch.ones(2))\nf(torch.ones(3))\n",
    "an import of torch that fails": "import sys\nclass Block:\n    def find_spec(self, name, path, target=None):\n"
    "        if name == 'torch._tensor': raise ImportError('blocked')\n"
    "sys.meta_path.insert(0, Block())\nimport torch\n",
}

TRAIN = """\
import argparse

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x):
        y = self.linear(x)
        print("in forward")
        return torch.relu(y)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int)
    net = Net()
    model = torch.compile(net, backend="eager")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(parser.parse_args().epochs):
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
"""
CHILDREN = """\
import sys

import torch
import torch.multiprocessing


def f(x):
    y = x.sin()
    print("in f", flush=True)
    return y.cos()


def work(rank):
    torch.compile(f, backend="eager")(torch.ones(2 + rank))


if __name__ == "__main__":
    torch.compile(f, backend="eager")(torch.ones(7))
    torch.multiprocessing.start_processes(work, nprocs=2, start_method=sys.argv[1])
"""
LOADER = """\
import sys

import torch


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.full((4,), float(index))


def f(x):
    return torch.relu(x) + 1


model = torch.compile(f, backend="eager")
if __name__ == "__main__":
    for batch in torch.utils.data.DataLoader(Numbers(), 2, num_workers=2, multiprocessing_context=sys.argv[1]):
        model(batch)
    print(batch.shape)
"""


def start(folder: Path, *args: object, **options: Any) -> subprocess.Popen[str]:
    environment = options.pop("env", None) or clean_environment()
    return subprocess.Popen(
        list(map(str, args)),
        cwd=folder,
        env=environment,
        stdin=options.pop("stdin", subprocess.PIPE),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        **options,
    )


def finish(process: subprocess.Popen[str], text: str = "") -> subprocess.CompletedProcess[str]:
    output, errors = process.communicate(text, timeout=300)
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def run(
    folder: Path, *args: object, text: str = "", **options: Any
) -> subprocess.CompletedProcess[str]:
    """Everything starts anew, for how a program begins, ends and gets its signals."""
    return finish(start(folder, *command_line("run", *args), **options), text)


def run_forked(folder: Path, *args: object) -> subprocess.CompletedProcess[str]:
    """The program is forked with torch in it, for what is recorded of it."""
    return run_command("run", *args, cwd=folder)


def column(number: int) -> int | None:
    """A break's column; torch 2.11 tells none."""
    return None if version("torch").startswith("2.11.") else number


def report(folder: Path, *args: object, is_forked: bool = True) -> dict[str, Any]:
    process = (run_forked if is_forked else run)(folder, "-q", "--report", "report.json", *args)
    assert (folder / "report.json").exists(), process.stderr
    return json.loads((folder / "report.json").read_text())


def logs(folder: Path) -> list[Path]:
    last = (folder / ".graphdoctor" / "last").read_text().strip()
    return sorted((folder / ".graphdoctor" / last / "trace").glob("*.log"))


def said(document: dict[str, Any]) -> str:
    return " ".join(gap["message"] for gap in document["recording"]["gaps"])


# As under python.


def assert_alike(folder: Path, *args: object) -> None:
    text = "one\ntwo\n"
    # The prelude of the test: python would find graphdoctor's checkout too.
    plain = finish(start(folder, PYTHON, *args), text)
    ours = run(folder, "-q", *args, text=text)
    assert (ours.stdout, ours.stderr, ours.returncode) == (
        plain.stdout,
        plain.stderr,
        plain.returncode,
    )


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_behaves_as_under_python(tmp_path, name):
    (tmp_path / "script.py").write_text(SCRIPTS[name])
    assert_alike(tmp_path, "script.py")


@pytest.mark.parametrize("name", TORCH_SCRIPTS)
def test_a_script_with_torch_behaves_as_under_python(tmp_path, name):
    (tmp_path / "script.py").write_text(TORCH_SCRIPTS[name])
    assert_alike(tmp_path, "script.py")


def test_every_kind_of_script_runs_as_python_runs_it(tmp_path):
    show = "import sys\nprint(sys.argv, __name__, __file__, getattr(__spec__, 'name', None), sys.path[0])\n"
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "other.py").write_text("VALUE = 1\n")
    (package / "module.py").write_text(f"from .other import VALUE\n{show}")
    (package / "__main__.py").write_text(f"import other\n{show}")
    (tmp_path / "a script.py").write_text(show)

    assert_alike(tmp_path, "-m", "package.module", "--epochs", 2)
    assert_alike(tmp_path, "package", "x")
    assert_alike(tmp_path, "a script.py")
    assert_alike(tmp_path, package / "module.py")
    assert_alike(tmp_path, "-m", "package.nothing")
    assert (
        run(tmp_path, "-q", "-", "x", text="import sys; print(sys.argv)").stdout == "['-', 'x']\n"
    )


def test_everything_behind_the_script_is_the_scripts(tmp_path):
    (tmp_path / "script.py").write_text("import sys\nprint(sys.argv[1:])\n")
    process = run(tmp_path, "-q", "--", "script.py", "-q", "--", "--report", "--help", "-m")
    assert process.stdout == "['-q', '--', '--report', '--help', '-m']\n"


def test_a_signal_that_kills_the_script_is_its_exit_status(tmp_path):
    (tmp_path / "script.py").write_text("import os\nos.kill(os.getpid(), 9)\n")
    process = run(tmp_path, "script.py")

    assert process.returncode == 128 + 9
    assert "The program was killed by SIGKILL." in process.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP])
def test_a_signal_reaches_the_script_which_decides_what_it_means(tmp_path, number):
    (tmp_path / "script.py").write_text(
        "import signal, sys, time\n"
        f"signal.signal({int(number)}, lambda n, frame: sys.exit(40 + n))\nprint('ready', flush=True)\ntime.sleep(60)\n"
    )
    process = start(tmp_path, *command_line("run", "-q", "script.py"), start_new_session=True)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    assert finish(process).returncode == 40 + number


def test_ctrl_c_on_a_terminal_reaches_the_script_once(tmp_path):
    (tmp_path / "script.py").write_text(
        "import signal, time\ncount = 0\n"
        "def on_interrupt(number, frame):\n    global count\n    count += 1\n"
        "signal.signal(signal.SIGINT, on_interrupt)\nprint('ready', flush=True)\n"
        "time.sleep(1)\nprint('interrupts', count)\n"
    )
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        os.execve(PYTHON, command_line("run", "script.py"), clean_environment())
    seen = b""
    try:
        while chunk := os.read(terminal, 4096):
            if b"ready" in chunk:
                os.write(terminal, b"\x03")
            seen += chunk
    except OSError:  # how a terminal says that the other side is gone
        pass
    assert b"interrupts 1" in seen
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_script_that_takes_too_long_is_told_to_terminate(tmp_path):
    # Another thread stands elsewhere.
    (tmp_path / "script.py").write_text(
        "import threading, time\nthreading.Thread(target=lambda: time.sleep(60), daemon=True).start()\n"
        "time.sleep(60)\n"
    )
    process = run(tmp_path, "--timeout", "1", "script.py")

    assert process.returncode == 128 + signal.SIGTERM
    assert "PARTIAL  Stopped after 1 s, at script.py:3." in process.stderr


def test_open_files_and_the_environments_own_sitecustomize_are_kept(tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import sys\nsys.own = 'theirs'\n")
    (tmp_path / "script.py").write_text(
        "import os, sys\nimport sitecustomize\nprint(sys.own, sitecustomize.__file__, sys.path[1:3])\n"
        "print(os.read(int(sys.argv[1]), 9))\n"
    )
    environment = clean_environment()
    environment["PYTHONPATH"] = f"{own}{os.pathsep}{environment['PYTHONPATH']}"
    results = []
    for command in ([PYTHON, "script.py"], command_line("run", "-q", "script.py")):
        reading, writing = os.pipe()
        os.write(writing, b"inherited")
        results.append(
            finish(start(tmp_path, *command, reading, env=environment, pass_fds=(reading,))).stdout
        )
        os.close(reading)
        os.close(writing)
    assert "theirs" in results[0]
    assert results[0].replace(str(reading), "") == results[1].replace(str(reading), "")


def test_failing_sitecustomize_is_reported_and_the_script_runs(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("raise RuntimeError('theirs')\n")
    (tmp_path / "script.py").write_text("print('ran')\n")
    environment = clean_environment()
    environment["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{environment['PYTHONPATH']}"
    # Without -P graphdoctor's own Python would fail the same way, which is not what is tested here.
    process = run(tmp_path, "-q", "script.py", env=environment)

    assert process.stdout == "ran\n"
    assert "Error in sitecustomize" in process.stderr
    assert "RuntimeError: theirs" in process.stderr


# Usage.


def test_missing_interpreter_is_refused_before_anything_runs(tmp_path, run_here):
    (tmp_path / "script.py").write_text("open('ran', 'w')\n")
    process = run_here("run", "--python", "./nothing", "script.py")
    assert (process.returncode, "can't be started" in process.stderr) == (2, True)
    assert not (tmp_path / "ran").exists()
    assert not list(tmp_path.glob(".graphdoctor/*-script"))


def test_script_without_torch_is_reported_and_recorded_last(tmp_path, run_cli):
    (tmp_path / "script.py").write_text("print('own')\n")
    process = run(tmp_path, "script.py")

    assert process.stdout == "own\n"
    assert "Nothing was compiled: torch was never imported." in process.stderr
    assert "torch was never imported" in run_cli("report").stdout


def test_trouble_with_the_report_leaves_the_scripts_exit_status(tmp_path):
    (tmp_path / "script.py").write_text(
        "import shutil, sys\nshutil.rmtree('.graphdoctor')\nsys.exit(9)\n"
    )
    process = run(tmp_path, "script.py")

    assert process.returncode == 9
    assert "error:" in process.stderr


# What is recorded.


def test_a_training_script_is_recorded_with_its_own_arguments(tmp_path, run_cli):
    (tmp_path / "train.py").write_text(TRAIN)
    process = run(tmp_path, "--report", "report.json", "train.py", "--epochs", "2")
    document = json.loads((tmp_path / "report.json").read_text())

    line = TRAIN.partition("torch.compile(")[0].count("\n") + 1
    assert process.returncode == 0
    assert process.stdout == "in forward\n" * 2
    assert "GD101" in process.stderr
    assert f"torch.compile(Net, backend='eager') at train.py:{line}" in process.stderr
    assert "Wrote report.json" in process.stderr
    assert document["recording"]["target"]["text"] == "train.py --epochs 2"
    (call,) = document["recording"]["compile_calls"]
    assert (call["file"], call["line"], call["function"]) == ("train.py", line, "main")
    assert (call["compiled"], call["arguments"]) == ("Net", {"backend": "'eager'"})
    assert document["recording"]["calls"] == []
    assert document["summary"]["coverage"] == 1
    assert [graph["op_count"] for graph in document["recording"]["graphs"]] == [1, 1]
    assert {graph["backend"] for graph in document["recording"]["graphs"]} == {"eager"}
    (finding,) = document["findings"]
    assert (finding["location"]["line"], finding["location"]["column"]) == (13, column(9))
    assert [entry["function"] for entry in finding["user_stack"] if entry["origin"] == "user"] == [
        "<module>",
        "main",
        "forward",
    ]
    assert "GD101" in run_cli("report").stdout


def test_other_ways_to_compile_are_recorded(tmp_path):
    (tmp_path / "script.py").write_text(
        "import torch\nfrom torch import compile as shorter\n"
        "class Net(torch.nn.Module):\n    def forward(self, x): return x.sin()\n"
        "net = Net()\nnet.compile(backend='eager', dynamic=True)\nnet(torch.ones(2))\n"
        "@shorter(backend=lambda gm, inputs: gm.forward, mode='max-autotune')\n"
        "def f(x): return x + 1\n"
        "torch.compiler.compile(net, options={'max_autotune': False})\n"
    )
    document = report(tmp_path, "script.py")
    assert [
        (call["line"], call["compiled"], call["arguments"])
        for call in document["recording"]["compile_calls"]
    ] == [
        (6, "Net", {"dynamic": "True", "backend": "'eager'"}),
        (8, "f", {"backend": "<lambda>", "mode": "'max-autotune'"}),
        (10, "Net", {"options": "{max_autotune: False}"}),
    ]


def test_script_logging_setup_loses_no_records(tmp_path):
    (tmp_path / "script.py").write_text(
        "import logging, logging.config, os\nos.environ['TORCH_TRACE'] = os.path.abspath('theirs')\nimport torch\n"
        "torch._logging.set_logs(graph_breaks=True)\n"
        "logging.config.dictConfig({'version': 1})\nlogging.disable(50)\n"
        "def f(x):\n    try:\n        print('in a try')\n        return x.cos()\n    finally:\n        pass\n"
        "torch.compile(f, backend='eager')(torch.ones(2))\n"
    )
    document = report(tmp_path, "script.py", is_forked=False)

    places = [
        (finding["location"]["line"], finding["location"]["column"])
        for finding in document["findings"]
    ]
    assert places == [(9, column(9)), (9, column(9))]
    assert document["summary"]["skipped_frames"] == 1
    assert len(list((tmp_path / "theirs").glob("*.log"))) == 1


def test_a_reset_begins_new_ids(tmp_path):
    (tmp_path / "script.py").write_text(
        "import torch\ndef f(x): return x.sin()\nfor n in (2, 3, 4):\n"
        "    torch.compile(f, backend='eager')(torch.ones(n))\n    torch._dynamo.reset()\n"
        "torch._dynamo.config.recompile_limit = 5\n"
    )
    document = report(tmp_path, "script.py")

    assert document["recording"]["config"] == {"torch._dynamo.config.recompile_limit": "5"}
    assert [compile_["compile_id"] for compile_ in document["recording"]["compiles"]] == [
        "0/0",
        "reset1:0/0",
        "reset2:0/0",
    ]
    assert document["summary"]["recompiles"] == 0


def test_a_killed_script_leaves_what_it_compiled_and_where(tmp_path):
    (tmp_path / "script.py").write_text(
        "import os, torch\nclass Net(torch.nn.Module):\n    def forward(self, x):\n"
        "        print('x')\n        return x + 1\n"
        "torch.compile(Net(), backend='eager')(torch.ones(2))\nos.kill(os.getpid(), 9)\n"
    )
    document = report(tmp_path, "script.py")

    assert document["recording"]["config"] is None
    assert document["recording"]["is_partial"]
    assert document["findings"][0]["location"]["function"] == "Net.forward"
    assert document["recording"]["exit"]["reason"] == "killed"


def test_unwatched_compiled_calls_run_none_of_our_code(tmp_path):
    (tmp_path / "script.py").write_text(
        "import sys, torch\nf = torch.compile(lambda x: x.sin() + 1, backend='aot_eager')\nx = torch.ones(2)\n"
        "for _ in range(36): f(x)\n"
        "files = set()\nsys.setprofile(lambda frame, event, arg: files.add(frame.f_code.co_filename))\n"
        "f(x)\nsys.setprofile(None)\nprint([file for file in files if '/probe/' in file], len(files) > 1)\n"
    )
    assert run_forked(tmp_path, "-q", "script.py").stdout == "[] True\n"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("", "the script did not call torch.compile"),
        ("torch.compile(lambda x: x)\n", "its result was not called"),
        (
            "torch._dynamo.config.disable = True\ntorch.compile(lambda x: x + 1)(torch.ones(2))\n",
            "was disabled",
        ),
    ],
)
def test_a_script_that_compiles_nothing_is_told_why(tmp_path, body, says):
    (tmp_path / "script.py").write_text(f"import torch\n{body}")
    assert says in " ".join(run_forked(tmp_path, "script.py").stderr.split())


# Several processes.


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_each_compiling_child_has_its_own_log_and_name(tmp_path, method):
    (tmp_path / "script.py").write_text(CHILDREN)
    document = report(tmp_path, "script.py", method)

    assert len(logs(tmp_path)) == 3
    assert {compile_["process"] for compile_ in document["recording"]["compiles"]} == {
        None,
        "p2",
        "p3",
    }
    assert (
        len({compile_["compile_id"] for compile_ in document["recording"]["compiles"]})
        == len(document["recording"]["compiles"])
        == 6
    )
    # A forked child has its parent's compiled code: there the same compiles are recompiles.
    assert document["summary"]["recompiles"] == (4 if method == "fork" else 0)
    (site,) = [finding for finding in document["findings"] if finding["code"] == "GD101"]
    assert (site["location"]["line"], site["location"]["column"], site["count"]) == (
        9,
        column(5),
        3,
    )
    assert {graph["op_count"] for graph in document["recording"]["graphs"]} == {1}
    assert {frame["file"] for frame in document["recording"]["frames"]} == {
        str(tmp_path / "script.py")
    }
    assert sorted(call["process"] or "" for call in document["recording"]["compile_calls"]) == [
        "",
        "p2",
        "p3",
    ]
    assert "3 processes compiled" in said(document)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_data_loader_workers_leave_no_log(tmp_path, method):
    (tmp_path / "script.py").write_text(LOADER)
    process = run_forked(tmp_path, "--report", "report.json", "script.py", method)
    document = json.loads((tmp_path / "report.json").read_text())

    assert process.stdout == "torch.Size([2, 4])\n"
    assert len(logs(tmp_path)) == 1
    assert [compile_["compile_id"] for compile_ in document["recording"]["compiles"]] == ["0/0"]
    assert "processes compiled" not in said(document)


def test_threads_compile_into_one_log(tmp_path):
    (tmp_path / "script.py").write_text(
        "import threading, torch\nfrom net import a, b\n"
        "def work(f):\n    for n in (2, 2, 2): torch.compile(f, backend='eager')(torch.ones(n))\n"
        "threads = [threading.Thread(target=work, args=(f,)) for f in (a, b)]\n"
        "[thread.start() for thread in threads]; [thread.join() for thread in threads]\n"
    )
    (tmp_path / "net.py").write_text("def a(x): return x.sin()\n\ndef b(x): return x.cos()\n")
    document = report(tmp_path, "script.py")

    assert len(logs(tmp_path)) == 1
    assert sorted(frame["function"] for frame in document["recording"]["frames"]) == ["a", "b"]
    assert document["summary"]["compiles"] == 2


def test_nested_graphdoctor_makes_its_own_recording(tmp_path):
    (tmp_path / "model.py").write_text(CLEAN_TARGET)
    command = command_line("explain", "model.py", "--no-coverage")
    (tmp_path / "script.py").write_text(
        f"import subprocess\nprint(subprocess.run({command!r}, capture_output=True).returncode)\n"
    )
    process = run(tmp_path, "script.py")

    assert process.stdout == "0\n"
    assert "torch was never imported" in process.stderr
    assert len(list(tmp_path.glob(".graphdoctor/*/recording.json"))) == 2
