"""What Python imports at its start where this folder is on ``PYTHONPATH``: here a server stops
before its main script.

It loads what it is told to, once, and then forks a child for each request. In the child this import
ends, and Python goes on to the main script as it always does, with the arguments, the directory,
the environment and the files of the
request: nothing of ours is on its stack. ``server.py`` starts it and says why. May import the
    standard library only,
and what it loads.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import gc
import importlib
import importlib.util
import marshal
import operator
import os
import pkgutil
import runpy
import select
import shutil
import signal
import socket
import sys
import traceback
from collections import defaultdict
from importlib.machinery import SourceFileLoader
from typing import Any, NoReturn

_HERE = os.path.dirname(__file__)
_SOCKET = "_TESTS_FORKING_SOCKET"
_LOAD = "_TESTS_FORKING_LOAD"
_EXECUTABLE = "_TESTS_FORKING_EXECUTABLE"
_PROBE = "_TESTS_FORKING_PROBE"
_RECORDING = "_GRAPHDOCTOR_RECORDING"
"""``graphdoctor run`` sets it for a script."""
_BRIEF = "_TESTS_FORKING_BRIEF"
"""In a request's environment: the command takes fewer and shorter turns."""

_READ_AT_START = (
    *("PYTHON", "LD_", "LC_", "LANG"),
    *("TORCH", "OMP_", "MKL_", "KMP_", "GOMP_", "OPENBLAS_", "CUDA_"),
    *("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "TERMINAL_WIDTH", "_TYPER_"),
)
"""Variables with these beginnings are read when Python, torch or typer starts."""

_READ_AGAIN = ("TORCH_TRACE", "TORCH_LOGS")
"""Those of them that a child heeds all the same."""


_WHILE_COMPILING = (
    *(
        "torch._dynamo.dce_extra_outputs",
        "torch._export.db",
        "torch._higher_order_ops.passes.inline_invoke_subgraph",
    ),
    *(
        "torch._inductor.codegen.wrapper_fxir",
        "torch._inductor.compiler_bisector",
        "torch._subclasses.schema_check_mode",
    ),
    *(
        "torch.distributed.tensor.experimental",
        "torch.export._trace",
        "torch.fx.experimental.validator",
    ),
    *("torch.profiler._cupti_monitor", "torch.utils._cpp_embed_headers"),
)
"""What torch imports when it first compiles."""

_WHILE_PARSING = ("typer._adapters",)
"""What typer imports when it first reads a command line, and pydantic with it."""


def _import_each(names: tuple[str, ...]) -> None:
    for name in names:
        with contextlib.suppress(ImportError):  # another version has it elsewhere
            importlib.import_module(name)


def _load_torch() -> None:
    """Import what a probe imports, and check the processor; no graph is compiled and no thread is
    started."""
    import torch
    import torch._dynamo
    import torch._inductor.codegen.cpp
    import torch._inductor.compile_fx
    import torch._inductor.cpu_vec_isa

    _import_each(_WHILE_COMPILING)
    torch._dynamo.list_backends(None)
    torch.overrides.get_overridable_functions()
    warm_up = _load_probe()
    # These take a second, and the answers are the same for every program.
    warm_up(has_vectors=True)
    torch._inductor.cpu_vec_isa.valid_vec_isa_list()
    # For a number in torch's metrics that nobody reads here, it flushes the processor's caches
    # after each compile, which takes 25 ms (torch/_dynamo/guards.py, 2.13).
    torch._dynamo.guards.profile_guard_manager = lambda *_: 0.0


def _load_probe() -> Any:
    """Import the probe's own modules as its main script does; returns what warms Inductor up."""
    script = _from_file("_probe_main", os.path.join(_probe, "__main__.py"))
    script._load_package()
    importlib.import_module(f"{script._PACKAGE}.ways_in.warm").load()
    return importlib.import_module(f"{script._PACKAGE}.torch_private.torch_config").warm_up


def _from_file(name: str, file: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _load_packages() -> None:
    """Import torch, and the packages whose import takes longer than what most programs do with
    them."""
    _load_torch()
    with contextlib.suppress(ImportError):
        import torch_geometric.nn  # noqa: F401
    with contextlib.suppress(ImportError):
        from transformers import BertModel, GPT2LMHeadModel, LongformerModel  # noqa: F401


def _load_graphdoctor() -> None:
    import graphdoctor

    for module in pkgutil.walk_packages(graphdoctor.__path__, "graphdoctor."):
        # The first two run in the child of a command; catalogs and sinks need their libraries.
        is_left_out = module.name.startswith(
            ("graphdoctor.probe.", "graphdoctor.catalog.", "graphdoctor.api.watching.")
        )
        if not is_left_out and not module.name.endswith(("__main__", "_plugin")):
            importlib.import_module(module.name)
    _import_each(_WHILE_PARSING)


def _read_at_start(environment: dict[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(_READ_AT_START) and name not in _READ_AGAIN
    }


def _serve(path: str, ours: dict[str, str]) -> None:
    """Answer requests until whoever started the server is gone; returns in each child, and only
    there."""
    command = sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv) + 1]
    listener = socket.socket(socket.AF_UNIX)
    # Clients wait for the name alone.
    listener.bind(f"{path}.new")
    listener.listen()
    os.rename(f"{path}.new", path)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    children: dict[socket.socket, tuple[int, int]] = {}
    while True:
        ends = {end: connection for connection, (_, end) in children.items()}
        ready, _, _ = select.select([listener, sys.stdin, *children, *ends], [], [])
        if sys.stdin in ready:
            # Whoever was killed has not tidied up.
            shutil.rmtree(os.path.dirname(path), ignore_errors=True)
            os._exit(0)
        # Of these the client was killed.
        for connection in [descriptor for descriptor in ready if descriptor in children]:
            os.kill(children[connection][0], signal.SIGKILL)
        for end in [descriptor for descriptor in ready if descriptor in ends]:
            pid, _ = children.pop(ends[end])
            _answer(ends[end], str(os.waitpid(pid, 0)[1]))
            os.close(end)
        if listener not in ready:
            continue
        connection, _ = listener.accept()
        try:
            request, descriptors = _receive(connection)
        except (OSError, ValueError):  # the client was killed meanwhile: half a request
            connection.close()
            continue
        arguments = request["arguments"]
        is_script = _takes_scripts and arguments[:1] and arguments[0].endswith(".py")
        if is_recorded := _load == "scripts":
            is_script = is_script and _is_recorded(request)
            _leave_out_startup(request["environment"])
        fits = (
            (is_script or arguments[: len(command)] == command)
            # A test that starts probes in its own process needn't have our PYTHONPATH, which hides
            # nothing from them.
            and {"PYTHONPATH": ours["PYTHONPATH"], **_read_at_start(request["environment"])} == ours
            # Its group may be nobody's any more: whoever led it can have ended.
            and request["session"] == os.getsid(0)
        )
        pid = os.fork() if fits else None
        if pid == 0:
            try:
                for descriptor in (listener, connection, *children):
                    descriptor.close()
                for end in ends:
                    os.close(end)
                _become(request, descriptors, arguments[len(command) :])
                if is_recorded:
                    _run_next(arguments)
                elif is_script:
                    _run(arguments)
            except BaseException:  # noqa: BLE001 - the main script must not run as somebody else
                os._exit(70)
            return
        for number in descriptors:
            os.close(number)
        if pid is None:
            _answer(connection, "no")
        else:
            children[connection] = (pid, os.pidfd_open(pid))


def _answer(connection: socket.socket, text: str) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(text.encode())
    connection.close()


def _receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    size = int.from_bytes(connection.recv(4), "big")
    content, descriptors, _, _ = socket.recv_fds(connection, size, 64)
    while len(content) < size and (more := connection.recv(size - len(content))):
        content += more
    try:
        return marshal.loads(content), descriptors
    except (EOFError, TypeError, ValueError):
        for number in descriptors:
            os.close(number)
        raise


def _become(request: dict[str, Any], descriptors: list[int], arguments: list[str]) -> None:
    """Take the client's place."""
    os.setpgid(0, request["group"])
    os.chdir(request["directory"])
    os.umask(request["umask"])
    places = request["descriptors"]
    # Moved out of the way first, so that none is overwritten before it is in its place.
    moved = [fcntl.fcntl(number, fcntl.F_DUPFD, max(places) + 1) for number in descriptors]
    for number in descriptors:
        os.close(number)
    for number, place in zip(moved, places, strict=True):
        os.dup2(number, place)
        os.close(number)
    os.environ.clear()
    os.environ.update(request["environment"])
    if os.environ.pop(_BRIEF, None) is not None:
        _time_briefly()
    sys.orig_argv[-len(sys.argv) + 1 :] = arguments
    sys.argv[1:] = arguments
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if (logs := sys.modules.get("torch._logging._internal")) is not None:
        logs.LOG_TRACE_HANDLER = None
        logs._init_logs()
    sys.executable = _executable or sys.executable


def _is_recorded(request: dict[str, Any]) -> bool:
    """``graphdoctor run`` started it."""
    return _RECORDING in request["environment"]


def _leave_out_startup(environment: dict[str, str]) -> None:
    """Take the folder from PYTHONPATH that ``graphdoctor run`` puts before it."""
    rest = environment.pop("PYTHONPATH", "").split(os.pathsep)
    if rest := [entry for entry in rest if entry != _startup()]:
        environment["PYTHONPATH"] = os.pathsep.join(rest)


def _startup() -> str:
    return os.path.join(_probe, "startup")


def _run_next(arguments: list[str]) -> None:
    """Have Python, which is about to run a module, run a script, with what ``graphdoctor run``
    starts before it."""
    script = os.path.abspath(arguments[0])
    sys.argv[:] = sys.orig_argv[1:] = arguments
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([_startup(), *([before] if before else [])])
    main = vars(sys.modules["__main__"])
    main.update(__file__=script, __cached__=None, __loader__=SourceFileLoader("__main__", script))
    with open(script, "rb") as source:
        code = compile(source.read(), script, "exec", dont_inherit=True)
    # Python is about to put this folder, as that of a module, where it looks for a script's
    # modules.
    back = functools.partial(os.chdir, os.getcwd())
    os.chdir(os.path.dirname(script))
    # Called with a module's name, it calls both. A function in Python would be on the script's
    # stack.
    steps = map(operator.methodcaller("__call__"), [back, functools.partial(exec, code, main)])
    by_name = defaultdict(functools.partial(any, steps))
    runpy._run_module_as_main = property(by_name.__getitem__).__get__
    _from_file("sitecustomize", os.path.join(_startup(), "sitecustomize.py"))


def _time_briefly() -> None:
    import graphdoctor.studies.bench.rounds

    graphdoctor.studies.bench.rounds.TURN_S /= 4
    graphdoctor.studies.bench.rounds.LOOKS = graphdoctor.studies.bench.rounds.LOOKS[:2]


def _run(arguments: list[str]) -> NoReturn:
    """Run a script that does not look at its own stack, which has us at its bottom, nor at how
    Python ends."""
    script, *_ = sys.argv[:] = arguments
    sys.path.insert(0, os.path.dirname(script))
    status = 0
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else end.code is not None
        if status is True:
            print(end.code, file=sys.stderr)
    except BaseException:  # noqa: BLE001 - as Python does
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


sys.path[:] = [entry for entry in sys.path if entry != _HERE]
os.environ["PYTHONPATH"] = os.environ["PYTHONPATH"].removeprefix(_HERE + os.pathsep)
_executable = os.environ.pop(_EXECUTABLE, None)
_load = os.environ.pop(_LOAD, None)
_probe = os.environ.pop(_PROBE, "")
_takes_scripts = _load != "graphdoctor"
if (_socket := os.environ.pop(_SOCKET, None)) is not None:
    _ours = _read_at_start(dict(os.environ))
    loads = {"packages": _load_packages, "graphdoctor": _load_graphdoctor}
    loads.get(_load, _load_torch)()
    # A child's garbage collector needn't look at it, which would also copy the pages that it is on.
    gc.collect()
    gc.freeze()
    _serve(_socket, _ours)
