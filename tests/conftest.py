"""What every test may use: the command line in a process of its own.

Commands and the probes that they start are forked from a Python that has loaded its modules
(``tests/forking``); ``pytest --cold`` starts each anew.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import pytest

from graphdoctor.commands import main
from tests.forking.server import BRIEF, Forking

REPOSITORY = Path(__file__).resolve().parent.parent
RECORDED_LOGS = REPOSITORY / "tests" / "recordings"
CLEAN_TARGET = """\
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) + 1


def example_inputs():
    return (torch.randn(4),)
"""
"""A target without any break: two operations, one graph."""

PROBE = ["-u", "-X", "faulthandler", str(REPOSITORY / "graphdoctor" / "probe" / "__main__.py")]
COMMAND = ["-P", "-m", "graphdoctor"]
"""-P, so that no file of the working directory hides a module of Python."""

PROBING = {
    "accuracy",
    "baseline",
    "bench",
    "check",
    "cure",
    "explain",
    "export",
    "fix",
    "guards",
    "profile",
    "recompiles",
    "try",
}
"""Commands that start probes."""

_servers = contextlib.ExitStack()
_options = Namespace(cold=False, is_slow=True)
_began_with = frozenset(os.environ)

RunCli = Callable[..., "subprocess.CompletedProcess[str]"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cold", action="store_true", help="start each probe and each command anew, none is forked"
    )


def pytest_configure(config: pytest.Config) -> None:
    # Looking for garbage in some thousand tests and in torch takes half a second, each time.
    gc.disable()
    # Each worker would rewrite the assertions of all tests anew, and no probe that a test starts
    # from here be forked.
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # A shell starts a background job deaf to Ctrl-C, and so would be all that tests start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _options.cold = config.getoption("--cold")
    from hypothesis import settings

    # How long an example takes says more about the machine.
    # CI tries the same ones each time: what others find by chance is no reason to refuse a change.
    settings.register_profile(
        "any machine", settings(), deadline=None, derandomize="CI" in os.environ
    )
    settings.load_profile("any machine")
    # Programs side by side share the cores, so their threads don't spin while they wait for work.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # No test writes into the state folder of the person who runs it.
    os.environ["XDG_STATE_HOME"] = _servers.enter_context(tempfile.TemporaryDirectory())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    _options.is_slow = item.get_closest_marker("slow") is not None


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    # What Inductor and Ray put into the environment of this process, such as their folder of caches
    # and their debugger, is read when Python or torch starts: no probe that a later test starts
    # could be forked.
    for name in [
        name
        for name in os.environ
        if name.startswith(("PYTHON", "TORCH")) and name not in _began_with
    ]:
        del os.environ[name]


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker("nightly")
        if item.get_closest_marker("nightly") is not None:
            item.add_marker("slow")
    yield
    # All of its module's: what they share is then made by one worker.
    long = {item.path for item in items if item.get_closest_marker("long") is not None}
    items.sort(key=lambda item: item.path not in long)


def pytest_collection_finish() -> None:
    from graphdoctor.commands import explain, running

    # Commands in this process import nothing in a thread that goes on beside later tests: pytest
    # parses what is imported, and Python before 3.11.8 and 3.12.2 can't parse in two threads
    # (CPython issue 106905).
    for module in (explain, running):
        module.import_meanwhile = lambda *_: None
    gc.freeze()
    gc.enable()


def pytest_sessionfinish() -> None:
    _servers.close()


def clean_environment(**changes: str | None) -> dict[str, str]:
    """This process's environment without what would change torch's or graphdoctor's behaviour.

    Args:
        changes: Variables to set; None removes one.
    """
    ours = (
        "GRAPHDOCTOR_",
        "TORCH",
        "NO_COLOR",
        "FORCE_COLOR",
        "COLUMNS",
        "PYTHONPATH",
        "PYTHONDONTWRITEBYTECODE",
    )
    # pytest names the test in it, and the environment of two commands is compared.
    ours += ("PYTEST_CURRENT_TEST",)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environment["PYTHONPATH"] = str(REPOSITORY)
    for name, value in changes.items():
        environment.pop(name, None)
        if value is not None:
            environment[name] = value
    return environment


def command_line(*args: object) -> list[str]:
    """The command, started anew."""
    return [sys.executable, *COMMAND, *map(str, args)]


def is_forking() -> bool:
    # CUDA can't be used in a process that was forked from one that has looked for a device.
    has_gpu = Path("/dev/nvidiactl").exists()
    return sys.platform.startswith("linux") and not has_gpu and not _options.cold


Imported = Literal["torch", "packages"]
"""What a Python has imported that forks probes: torch, or packages built on it too."""


@functools.cache
def _probes(imported: Imported) -> Forking:
    forking = Forking(PROBE, load=imported, environment=clean_environment(), others=[_scripts()])
    _servers.callback(forking.close)
    return forking


@functools.cache
def _scripts() -> Forking:
    forking = Forking(["-m", "script"], load="scripts", environment=clean_environment())
    _servers.callback(forking.close)
    return forking


@functools.cache
def _commands(imported: Imported) -> Forking:
    probes = _probes(imported).python
    forking = Forking(
        COMMAND, load="graphdoctor", environment=clean_environment(), executable=probes
    )
    _servers.callback(forking.close)
    forking.start()
    return forking


def command_folder() -> Path:
    """A folder for PATH: ``graphdoctor`` in it is forked, and its probes too."""
    if not is_forking():
        return Path(sys.executable).parent
    _get_ready_for_probes("torch")
    return _command_folder()


def _get_ready_for_probes(imported: Imported) -> None:
    # Tests that start one are slow; the others needn't wait for torch.
    if _options.is_slow:
        _probes(imported).start()


@functools.cache
def _command_folder() -> Path:
    folder = Path(_servers.enter_context(tempfile.TemporaryDirectory()))
    command = folder / "graphdoctor"
    command.write_text(f'#!/bin/sh\nexec {_commands("torch").python} {" ".join(COMMAND)} "$@"\n')
    command.chmod(0o755)
    return folder


def interrupted(
    *args: object, cwd: Path, once: str, number: signal.Signals = signal.SIGINT
) -> tuple[str, str]:
    """What a command printed and said that gets Ctrl-C, or another signal twice, as ``timeout``
    sends it, once there is a file like that; its status is right."""
    process = subprocess.Popen(
        command_line(*args),
        cwd=cwd,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not list(cwd.glob(once)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    for _ in range(1 if number == signal.SIGINT else 2):
        os.kill(process.pid, number)
        time.sleep(0.1)
    printed, said = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    return printed, said


def run_command(
    *args: object,
    cwd: Path,
    env: dict[str, str] | None = None,
    timeout: float = 900,
    is_forked: bool = True,
    imported: Imported = "torch",
    is_brief: bool = False,
    status: int | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run ``graphdoctor`` with arguments.

    Args:
        args: Its arguments.
        cwd: The working directory.
        env: The environment; a clean one when None.
        timeout: Seconds after which it is killed; more than any ``--budget`` here.
        is_forked: False where the start of a process is what a test is about.
        imported: What needn't be imported anew in each probe: ``packages`` where many probes import
            a large one.
        is_brief: A bench takes fewer and shorter turns, where it isn't the point of a test how
            close its times are.
        status: What it must exit with; None for anything.
    """
    command = command_line(*args)
    env = clean_environment() if env is None else env
    if is_forked and is_forking():
        command[0] = str(_commands(imported).python)
        if args[:1] and args[0] in PROBING:
            _get_ready_for_probes(imported)
        if args[:1] == ("run",) and _options.is_slow:
            _scripts().start()
        if is_brief:
            env = {**env, BRIEF: "1"}
    process = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=timeout,
        check=False,
    )
    assert status in (None, process.returncode), process.stderr
    return process


def probe_python() -> str:
    """An interpreter for probes: what forks them, or the one that runs the tests."""
    if not is_forking():
        return sys.executable
    _probes("torch").start()
    return str(_probes("torch").python)


def run_script(
    script: Path, *args: object, cwd: Path, env: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a script that uses torch and nothing of graphdoctor's; it must not fail."""
    command = [probe_python(), str(script), *map(str, args)]
    return subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, check=True, timeout=600
    )


@pytest.fixture
def run_cli(tmp_path: Path) -> RunCli:
    """Run ``graphdoctor`` with arguments, by default in ``tmp_path``; returns the completed
    process."""

    def run(
        *args: object, cwd: Path | None = None, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        return run_command(*args, cwd=cwd or tmp_path, **options)

    return run


@pytest.fixture
def run_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> RunCli:
    """As ``run_cli``, but in this process, and ten times as quick where no probe is started."""

    def run(
        *args: object,
        cwd: Path = tmp_path,
        env: dict[str, str] | None = None,
        status: int | None = None,
    ) -> subprocess.CompletedProcess[str]:
        # In place: rich keeps the mapping that it found when it was imported.
        environment = mock.patch.dict(
            os.environ, clean_environment() if env is None else env, clear=True
        )
        with environment, monkeypatch.context() as patch:
            if args[:1] and args[0] in PROBING and _options.is_slow:
                patch.setattr(sys, "executable", probe_python())
            patch.chdir(cwd)
            patch.setattr(sys, "argv", ["graphdoctor", *map(str, args)])
            ended: object = 0
            try:
                main()
            except SystemExit as end:
                ended = end.code or 0
        output, errors = capfd.readouterr()
        assert status in (None, ended), errors
        return subprocess.CompletedProcess(sys.argv, ended, output, errors)  # type: ignore[arg-type]

    return run


@pytest.fixture
def explain_json(run_cli: RunCli) -> Callable[..., dict[str, Any]]:
    """Run ``graphdoctor explain TARGET --format json`` with more arguments; returns the
    document."""

    def explain(target: object, *args: object, **options: Any) -> dict[str, Any]:
        process = run_cli("explain", target, "--format", "json", *args, **options)
        assert process.stdout, f"exit code {process.returncode}, no document:\n{process.stderr}"
        return json.loads(process.stdout)

    return explain


@pytest.fixture
def clean_target(tmp_path: Path) -> Path:
    """A file whose model compiles to one graph without a break."""
    path = tmp_path / "clean.py"
    path.write_text(CLEAN_TARGET)
    return path


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which one clean run was recorded; tests read it and leave it as it is."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "clean.py").write_text(CLEAN_TARGET)
    run_command("explain", "clean.py", cwd=folder, status=0)
    return folder
