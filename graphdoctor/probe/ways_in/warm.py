"""Makes probes from one process that has imported torch: it forks one for each request.

Importing torch takes longer than compiling most models, and a fix is tried in a dozen probes. Comes
in: requests of ``graphdoctor/trials/launch/warm.py`` on a socket. Goes out: in each fork, the
request to run; the process itself never returns. It compiles nothing and runs nothing of the
user's, so what it forks is as fresh as a new process, but for Python's hash seed, which all of them
share. It also forks others like itself, which import more meanwhile: the packages that the program
imports, and Inductor.

It makes none if it couldn't fork a sound one: with a Python thread running, or a GPU's files open.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from ..torch_private.torch_api import trace_logger
from ..torch_private.torch_config import warm_up
from ..torch_private.torch_trace import write_trace_to
from ..wire import LIBRARIES, TRACE_FOLDER, WarmRequest

_MAX_REQUEST_BYTES = 2**20
_MAX_DESCRIPTORS = 4
_MODULES = (
    "sympy.combinatorics",
    "sympy.tensor.tensor",
    "torch._dynamo.backends.registry",
    "torch._dynamo.backends.debugging",
    "torch._dynamo.convert_frame",
    "torch._dynamo.repro.after_dynamo",
    "torch._functorch.aot_autograd",
    "torch._inductor.compiler_bisector",
    "torch._inductor.sizevars",
    "torch.distributed.tensor.experimental",
    "torch.export._trace",
    "torch.profiler",
)

_OURS = ("..steps.calls", "..steps.preparation", ".session")

_INDUCTOR_MODULE = "torch._inductor.compile_fx"
_GPU_FILES = ("/dev/nvidia", "/dev/kfd", "/dev/dri", "/dev/accel")

_Children = dict[int, tuple[int, socket.socket]]
"""Process ids, and the sockets that are told how they end."""


def serve(descriptor: int) -> Path:
    """Fork a probe for each request; returns in each the path of its request."""
    load()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests = socket.socket(fileno=descriptor)
    children: _Children = {}
    loaded = set()
    branches: list[int] = []
    while True:
        ready, _, _ = select.select([requests.fileno(), *children], [], [])
        for end in set(ready) & set(children):
            child, answer = children.pop(end)
            os.close(end)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            with suppress(OSError):
                answer.sendall(f"{status}\n".encode())
            answer.close()
        if requests.fileno() not in ready:
            continue
        content, descriptors, _, _ = socket.recv_fds(requests, _MAX_REQUEST_BYTES, _MAX_DESCRIPTORS)
        if not content:
            _end(children, branches)
        request = json.loads(content)
        if (library := request["library"]) is not None and library not in loaded:
            loaded.add(library)
            _load(LIBRARIES[library])
        pid = os.fork() if _can_fork() else None
        if pid == 0:
            requests.close()
            for end, (_, answer) in children.items():
                os.close(end)
                answer.close()
            if request["path"] is not None:
                signal.signal(signal.SIGINT, signal.default_int_handler)
                return _become(request, descriptors, Path(request["path"]))
            requests, children, branches = socket.socket(fileno=descriptors[0]), {}, []
            _load(*request["modules"])
            if request["has_inductor"]:
                _load_inductor()
            continue
        if request["path"] is None:
            os.close(descriptors[0])
            branches += [] if pid is None else [pid]
            continue
        answer = socket.socket(fileno=descriptors[0])
        for other in descriptors[1:]:
            os.close(other)
        if pid is None:
            answer.close()
            continue
        with suppress(OSError):  # it has done so itself, or has ended
            os.setpgid(pid, pid)
        with suppress(OSError):  # whoever asked has given up, and so will the probe
            answer.sendall(f"{pid}\n".encode())
        children[os.pidfd_open(pid)] = pid, answer


def load() -> None:
    """Import what all probes do."""
    _load(*_MODULES, *_OURS)


def _load(*names: str) -> None:
    for name in names:
        # What can't be imported is reported by the probe that needs it.
        with suppress(Exception):
            importlib.import_module(name, __package__)
    # A probe's garbage collector needn't look at it, which would also copy the pages that it is on.
    gc.collect()
    gc.freeze()


def _load_inductor() -> None:
    _load(_INDUCTOR_MODULE)
    # What torch records of that is no part of the recording that this process was started for,
    # which is signed.
    trace = trace_logger()
    trace.disabled = True
    with suppress(Exception):  # a probe that needs it reports what is wrong
        # A program on a GPU has no kernels with vector instructions.
        warm_up(has_vectors=not _are_gpu_files(Path("/dev")))
    trace.disabled = False
    _load()


def _are_gpu_files(folder: Path) -> bool:
    return any(str(file.resolve()).startswith(_GPU_FILES) for file in folder.iterdir())


def _can_fork() -> bool:
    """Return whether a fork is safe: other Python threads and a GPU's context don't survive it."""
    return threading.active_count() == 1 and not _are_gpu_files(Path("/proc/self/fd"))


def _become(request: WarmRequest, descriptors: list[int], path: Path) -> Path:
    # As for a new process: a group of its own, that can be stopped as a whole.
    os.setpgid(0, 0)
    if request["folder"] is not None:
        os.chdir(request["folder"])
    answer, output, held, *inherited = descriptors
    # Out of the way of the numbers that others are to have.
    fcntl.fcntl(held, fcntl.F_DUPFD_CLOEXEC, max(request["inherited"], default=2) + 1)
    os.close(held)
    os.close(answer)
    for standard in (sys.stdout.fileno(), sys.stderr.fileno()):
        os.dup2(output, standard)
    os.close(output)
    for descriptor, number in zip(inherited, request["inherited"], strict=True):
        if descriptor != number:
            os.dup2(descriptor, number)
            os.close(descriptor)
    folder = str(path.parent / TRACE_FOLDER)
    os.environ["TORCH_TRACE"] = folder
    write_trace_to(folder)
    return path


def _end(children: _Children, branches: list[int]) -> NoReturn:
    for pid, _ in children.values():
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    for pid in branches:
        os.waitpid(pid, 0)
    os._exit(0)
