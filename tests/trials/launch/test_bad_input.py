"""Hostile targets: each ends with a clear message, the right exit code, and what was recorded until
then."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import CLEAN_TARGET, clean_environment, command_line, probe_python
from tests.sections import texts_beside

pytestmark = pytest.mark.slow

NET = CLEAN_TARGET.partition("def example_inputs")[0]
INPUTS = "def example_inputs():\n    return (torch.randn(4),)\n"
PROBE = str(Path("graphdoctor", "probe"))
FIRST_CALL = "def example_inputs():\n    yield (torch.randn(4),)\n"


def function(body: str) -> str:
    return f"import torch\ndef f(x):\n    {body}\n{INPUTS}"


class Case(NamedTuple):
    """A program, parts of what must be said about it, how many calls the report knows of, and a
    name in the file."""

    program: str | bytes
    says: tuple[str, ...]
    calls: int = 0
    target: str = ""


FAILING = {
    "a missing name": Case(NET, ("has no Nett", "Did you mean Net?"), target=":Nett"),
    "no inputs": Case(
        NET,
        (
            "There are no inputs for Net(x)",
            "example_inputs(), get_inputs(), example_input_array, dummy_inputs",
            "def example_inputs():\n        return (torch.randn(",
        ),
    ),
    "a generator of inputs that raises": Case(
        NET + FIRST_CALL + "    raise ValueError('half way')\n",
        ("Traceback", "while making the inputs of call 2: ValueError: half way"),
        calls=1,
    ),
    # The program's own errors: its own traceback.
    "a wrong number of inputs": Case(
        NET + "def example_inputs(): return (torch.randn(4), 3, 5)\n",
        (
            "failed in call 1: TypeError: Net.forward() takes 2 positional arguments but 4 were given",
        ),
        calls=1,
    ),
    "an import error": Case(
        "import torch\nimport does_not_exist_xyz\ndef f(x): ...\n",
        (
            'Traceback (most recent call last):\n  File "{file}", line 2, in <module>\n    import does_not_exist_xyz\n',
            "while importing the target: ModuleNotFoundError",
        ),
    ),
    "an exception whose text raises": Case(
        "import torch\nclass E(Exception):\n    def __str__(self): raise RuntimeError\ndef f(x): raise E\n"
        + INPUTS,
        ("<E whose str() failed>",),
        calls=1,
    ),
    "an exception that is none": Case(
        "import torch\nclass E(BaseException): pass\ndef f(x): raise E('base')\n" + INPUTS,
        ("failed in call 1, at {file}:3: file.E: base",),
        calls=1,
    ),
    # The process ends.
    "sys.exit at import": Case(
        NET + "import sys\nsys.exit('bye')\n",
        (
            "bye\n",
            "called sys.exit(1) while importing the target at {file}:",
            'if __name__ == "__main__":',
        ),
    ),
    "sys.exit in a call": Case(
        function("torch._dynamo.graph_break(); raise SystemExit(7)"),
        ("called sys.exit(7) in call 1 at {file}:3",),
        calls=1,
    ),
    "os._exit with status 0": Case(
        NET + "import os; os._exit(0)\n", ("ended the process while importing the target",)
    ),
    "a segmentation fault": Case(
        NET + FIRST_CALL + "    import ctypes; ctypes.string_at(0)\n",
        ("Segmentation fault", 'File "{file}", line 11 in example_inputs', "killed by SIGSEGV"),
        calls=1,
    ),
}


@pytest.mark.parametrize("case", FAILING)
def test_a_failing_program_is_reported_as_far_as_it_came(tmp_path, run_cli, case):
    expected = FAILING[case]
    file = tmp_path / "file.py"
    program = expected.program
    file.write_bytes(program if isinstance(program, bytes) else program.encode())

    process = run_cli("explain", f"file.py{expected.target}", "--format", "json")

    assert process.returncode == 2, process.stderr
    for part in expected.says:
        assert part.replace("{file}", str(file)) in process.stderr
    assert "graphdoctor failed" not in process.stderr
    assert PROBE not in process.stderr
    document = json.loads(process.stdout)
    assert document["recording"]["is_partial"]
    assert document["summary"]["calls"] == expected.calls
    assert document["recording"]["exit"]["message"]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_an_error_of_the_graphs_code_is_at_the_programs_line(tmp_path, run_cli, backend):
    (tmp_path / "file.py").write_text(function("y = x * 2\n    return y.repeat(10**15)"))
    process = run_cli("explain", "file.py", "--backend", backend)
    assert process.stdout.count("allocate") == process.stderr.count("allocate") > 0
    assert "raised RuntimeError, as it does without torch.compile" in process.stdout
    assert "--> file.py:4 in f" in process.stdout


def test_torchs_refusal_is_an_answer_unless_calls_fail_anyway(tmp_path, run_cli):
    (tmp_path / "file.py").write_text(function("torch._dynamo.graph_break(); return x + 1"))
    process = run_cli("explain", "file.py", "--fullgraph")
    assert process.returncode == 0
    assert "torch.compile refused call 1" in process.stderr
    assert "graph_break" in process.stdout
    (tmp_path / "file.py").write_text(
        function("torch._dynamo.graph_break(); raise ValueError('own')")
    )
    assert run_cli("explain", "file.py", "--fullgraph").returncode == 2


WRONG = {
    "clean.py --backend inductr": ("no backend 'inductr'", "Did you mean inductor?"),
    "clean.py --config capture_scalar_output=True": (
        "torch._dynamo.config.capture_scalar_outputs",
    ),
    "clean.py --input f32[4] --backward": ("no floating-point output requires a gradient",),
    "clean.py --python /bin/true": ("/bin/true couldn't run the probe",),
    "clean.py --python no-such-python": ("The interpreter no-such-python can't be started",),
    "clean.py --python /": ("The interpreter / can't be started",),
    "README.md": ("There is no file README.md, and no module README.",),
    "claen:Net": ("There is no module claen", "Did you mean clean?"),
}


def test_what_is_wrong_is_named(clean_target, run_cli):
    for arguments, says in WRONG.items():
        process = run_cli("explain", *arguments.split())
        assert process.returncode == 2, arguments
        assert [part for part in says if part not in process.stderr] == [], process.stderr
        assert "Traceback" not in process.stderr


def test_what_torch_cannot_do_is_refused_in_words():
    from graphdoctor.probe.record.errors import RequestError
    from graphdoctor.probe.target.options import (
        check_compile_arguments,
        device_named,
        make_input,
        set_config,
    )
    from graphdoctor.views.exit_words import COMMAND_LINE, words

    huge = {"kind": "tensor", "dtype": "f32", "shape": [999999999999999]}
    refused = [
        (
            lambda: check_compile_arguments("nothing", None, {}),
            ("Known ones: aot_eager, cudagraphs, eager, inductor, openxla, tvm.",),
        ),
        (
            lambda: check_compile_arguments("eager", "max-autotun", {}),
            ("no mode 'max-autotun'", "max-autotune"),
        ),
        (
            lambda: check_compile_arguments("eager", "reduce-overhead", {}),
            ("The backend eager ignores --mode and --option.", "Leave out --backend"),
        ),
        (
            lambda: check_compile_arguments("inductor", None, {"max_autotun": 1}),
            ("no option 'max_autotun'", "max_autotune"),
        ),
        (
            lambda: check_compile_arguments("inductor", "default", {"a": 1}),
            ("either --mode or --option",),
        ),
        (
            lambda: set_config("torch._dynamo.config.capture_scalar_output", True),
            ("capture_scalar_outputs",),
        ),
        (
            lambda: set_config("nested_graph_break", True),
            ("torch._dynamo.config.nested_graph_breaks",),
        ),
        (lambda: set_config("os.environ", 3), ("torch has no 'os.environ'",)),
        (
            lambda: set_config("torch._dynamo.config.verbose", "maybe"),
            ("it takes bool", "verbose=False"),
        ),
        (lambda: set_config("...", 3), ("torch has no '...'",)),
        (lambda: device_named("cud"), ("--device cud can't be used here", "Try --device cpu")),
        (lambda: make_input(huge), ("--input f32[999999999999999] can't be made",)),
    ]
    for ask, parts in refused:
        with pytest.raises(RequestError) as raised:
            ask()
        said = "\n".join(map(str, words(raised.value.code, raised.value.values, COMMAND_LINE)))
        assert [part for part in parts if part not in said] == [], said


def test_a_config_by_its_name_alone_is_one_of_dynamo():
    import torch

    from graphdoctor.probe.target.options import set_config

    before = torch._dynamo.config.nested_graph_breaks
    try:
        set_config("nested_graph_breaks", not before)
        assert torch._dynamo.config.nested_graph_breaks is not before
    finally:
        torch._dynamo.config.nested_graph_breaks = before


def test_numbers_of_any_size_can_be_passed(tmp_path, run_cli):
    (tmp_path / "file.py").write_text("def f(x, n): return x * 2\n")
    process = run_cli(
        "explain",
        "file.py",
        "--input",
        "f32[4]",
        "--input",
        f"int:{10**30}",
        "--format",
        "json",
        "--no-coverage",
    )
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout)["summary"]["calls"] == 1


# Programs that behave badly and yet work.

WORKING = {
    "it writes, reads, goes elsewhere and exits by itself": """\
print('{"hello": 1}'); print('no newline', end='')
import os, sys, atexit
os.write(1, b'\\xff\\xfe\\n')
assert sys.stdin.read() == ''
assert sys.argv == [__file__]
if __name__ == '__main__': raise SystemExit('script')
os.chdir('/')
torch._dynamo.reset()
atexit.register(os._exit, 9)
""",
    "it closes its streams' descriptors": "import os; os.closerange(1, 3)",
    "it removes its streams": "import sys; sys.stdout = sys.stderr = None",
    "it leaves a thread running": "import threading; threading.Thread(target=threading.Event().wait).start()",
    "it leaves a process running": "import os, time\nif os.fork() == 0: time.sleep(20); os._exit(0)",
    "it disables logging": "import logging; logging.disable(logging.CRITICAL)",
    "it sets torch's logs": "import torch._logging; torch._logging.set_logs(recompiles=True)",
}


@pytest.mark.parametrize("case", WORKING)
def test_a_program_may_behave_badly_at_import_and_between_calls(tmp_path, run_cli, case):
    statements = WORKING[case]
    inputs = f"def example_inputs():\n{textwrap.indent(statements, '    ')}\n    yield (torch.randn(4),)\n"
    text = f"{NET}\n{statements}\n\n{inputs}"
    (tmp_path / "file.py").write_text(
        text.replace("return torch", "print('a')\n        return torch")
    )

    process = run_cli("explain", "file.py", "--format", "json")

    assert process.returncode == 0, process.stderr
    document = json.loads(process.stdout)
    assert not document["recording"]["is_partial"]
    summary = document["summary"]
    assert (summary["calls"], summary["graphs"], summary["break_sites"], summary["coverage"]) == (
        1,
        1,
        1,
        1.0,
    )


(ODD_ARGUMENTS,) = texts_beside(__file__)


def test_an_argument_may_be_of_any_class(tmp_path, explain_json):
    (tmp_path / "file.py").write_text(ODD_ARGUMENTS)
    document = explain_json("file.py", "--no-coverage")
    assert [call["outcome"] for call in document["recording"]["calls"]] == ["ok"] * 3
    assert (
        document["recording"]["calls"][0]["inputs"]
        == "f32[4], <NoText>, <Number>, <Table>, {<NoText>: <NoText>}"
    )
    assert all(len(call["inputs"]) < 1000 for call in document["recording"]["calls"])


def test_standard_error_may_be_closed_early(tmp_path):
    (tmp_path / "file.py").write_text(f"{NET}\nfor i in range(10): print('y' * 99_999)\n{INPUTS}")
    process = subprocess.Popen(
        command_line("explain", "file.py", "--no-coverage", "--python", probe_python()),
        cwd=tmp_path,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    process.stderr.close()
    assert process.stdout is not None
    assert b"No graph break" in process.stdout.read()
    process.wait()


@pytest.mark.parametrize(
    ("line", "stream"),
    [
        ("torch._dynamo.graph_break('\\x1b]0;title\\x07\\x9b31m [bold]')", "stdout"),
        # Eager mode fails, too: the error alone is told, and no report.
        ("raise ValueError('\\x1b]0;title\\x07\\x9b31m [bold]')", "stderr"),
        # Only when compiled: Python's own traceback is shown, too.
        ("assert not torch.compiler.is_compiling(), '\\x1b]0;title\\x07\\x9b31m [bold]'", "stdout"),
    ],
    ids=["report", "error", "compiled"],
)
def test_escapes_and_markup_never_reach_the_terminal(tmp_path, run_cli, line, stream):
    (tmp_path / "[red]x.py").write_text(function(line))
    process = run_cli("explain", "[red]x.py", "--color", "always")
    shown = getattr(process, stream)
    assert "[bold]" in shown
    for text in (process.stdout, process.stderr):
        assert "\x1b]0" not in text
        assert "\x9b" not in text
    if stream == "stdout":
        assert "[red]x.py" in shown
    else:
        assert not process.stdout


def test_unfitting_inputs_are_one_error_with_a_place(tmp_path, run_cli):
    (tmp_path / "model.py").write_text(
        "import torch\nclass Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.linear = torch.nn.Linear(4, 8)\n    def forward(self, x): return self.linear(x)\n"
        "model = Net()\nexample_inputs = (torch.randn(1, 5),)\n"
    )
    process = run_cli("explain", "model.py")
    assert process.stdout == ""
    error, hint = process.stderr.splitlines()
    assert error.startswith("error: The program failed in call 1, at ")
    assert error.endswith(
        "model.py:6: RuntimeError: mat1 and mat2 shapes cannot be multiplied (1x5 and 4x8)"
    )
    assert "example_inputs" in hint


def test_the_users_environment_changes_no_result(clean_target, run_cli, explain_json):
    # All at once: each has a Python started anew.
    variables = {
        "TORCH_LOGS": "+dynamo,graph_breaks",
        "TORCH_TRACE": "elsewhere",
        "PYTHONSAFEPATH": "1",
    }
    environment = clean_environment(**variables, PYTHONIOENCODING="ascii", LC_ALL="C")
    process = run_cli("explain", clean_target, "--no-coverage", env=environment)
    assert process.returncode == 0, process.stderr
    assert "No graph break" in process.stdout
    document = explain_json(clean_target, env=clean_environment(TORCH_COMPILE_DISABLE="1"))
    assert document["summary"]["graphs"] == 0
    assert any("TORCH_COMPILE_DISABLE" in gap["message"] for gap in document["recording"]["gaps"])


# The run is stopped from outside.

ENDLESS = (
    NET
    + FIRST_CALL
    + "    print('waiting', flush=True)\n    while True: time.sleep(0.1)\nimport time\n"
)
STUBBORN = (
    ENDLESS
    + "import signal\nfor n in (signal.SIGINT, signal.SIGTERM): signal.signal(n, signal.SIG_IGN)\n"
)


STOOD = [
    """
import threading
import torch

lock = threading.Lock()

def f(x):
    lock.acquire()
    lock.acquire()

def example_inputs():
    return torch.ones(2)
""",
    """
import torch

def f(x):
    return x


def example_inputs():
    while True: torch.ones(2).sum()
""",
    """
import time
import torch


class F(torch.nn.Module):
    def __init__(self):
        super().__init__()
        time.sleep(60)

    def forward(self, x):
        return x
""",
]
"""Programs that stand in line 9, or in what it calls."""


def started(folder: Path, program: str, *options: str) -> subprocess.Popen[bytes]:
    folder.mkdir()
    (folder / "file.py").write_text(program)
    command = command_line(
        "explain", "file.py", "--format", "json", "--python", probe_python(), *options
    )
    return subprocess.Popen(
        command, cwd=folder, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def assert_reported(output: bytes, reason: str) -> None:
    document = json.loads(output)
    assert document["recording"]["is_partial"]
    assert (document["recording"]["exit"]["reason"], document["summary"]["graphs"]) == (reason, 1)


def test_a_timeout_reports_what_was_recorded(tmp_path):
    # Long enough for the first call on a slow machine; it never ends by itself.
    running = [
        started(tmp_path / str(n), text, "--timeout", "6")
        for n, text in enumerate((ENDLESS, STUBBORN))
    ]
    for process in running:
        output, errors = process.communicate()
        assert process.returncode == 2
        assert b"Stopped after 6 s while making the inputs of call 2" in errors
        assert b"Raise --timeout" in errors
        assert_reported(output, "timeout")


def test_a_timeout_names_the_line(tmp_path):
    # An interpreter of its own: the signal that asks for the line reaches no forked one.
    python = ("--python", sys.executable, "--timeout", "20")
    for process in [started(tmp_path / str(n), text, *python) for n, text in enumerate(STOOD)]:
        _, errors = process.communicate()
        assert b", at file.py:9." in errors, errors


@pytest.mark.parametrize("program", [ENDLESS, STUBBORN], ids=["endless", "stubborn"])
def test_an_interrupt_reports_what_was_recorded(tmp_path, program):
    # Side by side: a stubborn program is waited for.
    text = program + "import os; open('pid', 'w').write(str(os.getpid()))\n"
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    running = {number: started(tmp_path / number.name, text) for number in numbers}
    for number, process in running.items():
        assert process.stderr is not None
        for line in process.stderr:
            if line == b"waiting\n":
                break
        process.send_signal(number)
    for number, process in running.items():
        output, errors = process.communicate()
        assert process.returncode == 128 + number, number
        assert b"Interrupted while making the inputs of call 2" in errors, number
        assert b"Traceback" not in errors, number
        assert_reported(output, "interrupted")
        probe = int((tmp_path / number.name / "pid").read_text())
        with pytest.raises(ProcessLookupError):
            os.kill(probe, 0)


# Another interpreter.

TORCH_NEEDS = "torch torchgen functorch typing_extensions.py sympy mpmath networkx filelock fsspec jinja2 markupsafe setuptools"


def make_venv(folder: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder / "bin" / "python"


def test_the_probe_needs_torch_and_nothing_else(tmp_path, clean_target, explain_json):
    import torch

    python = make_venv(tmp_path / "venv")
    packages = tmp_path / "packages"
    packages.mkdir()
    site = Path(torch.__file__).resolve().parent.parent
    for name in TORCH_NEEDS.split():
        if (site / name).exists():
            (packages / name).symlink_to(site / name)
    for library in site.glob("nvidia*"):
        (packages / library.name).symlink_to(library)
    (
        next((tmp_path / "venv" / "lib").glob("python*")) / "site-packages" / "torch_only.pth"
    ).write_text(f"{packages}\n")
    environment = clean_environment(PYTHONPATH=None)
    # -P: this repository, if it is the working directory, must not be found.
    tried = subprocess.run(
        [python, "-P", "-c", "import torch"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode:
        pytest.skip(f"torch does not work through links: {tried.stderr.splitlines()[-1]}")
    lacking = "import importlib.util as u; print([n for n in ('graphdoctor', 'pydantic', 'rich') if u.find_spec(n)])"
    done = subprocess.run(
        [python, "-P", "-c", lacking], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"

    document = explain_json(clean_target, "--python", python)

    assert document["recording"]["environment"]["executable"] == str(python)
    assert (document["summary"]["graphs"], document["summary"]["coverage"]) == (1, 1.0)


def test_an_interpreter_without_torch_is_named(tmp_path, clean_target, run_cli):
    python = make_venv(tmp_path / "venv")
    process = run_cli(
        "explain", clean_target, "--python", python, env=clean_environment(PYTHONPATH=None)
    )
    assert process.returncode == 2
    assert f"{python} can't import torch: No module named 'torch'." in process.stderr
    assert "torch>=2.11" in process.stderr
