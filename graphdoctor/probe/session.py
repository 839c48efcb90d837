"""One probe session: import the target, make its calls under ``torch.compile``, measure coverage, say how it went.

Comes in: the request, a JSON file that ``graphdoctor.capture`` wrote. Goes out: torch's trace log with our records in
it, and ``probe.jsonl``. torch is imported inside ``main``, after the event file is open, so that an environment
without it is reported like any other trouble.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import platform
import random
import sys
import sysconfig
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .events import EventFile

if TYPE_CHECKING:
    from .workload import Workload

_EXIT_FINISHED = 0
_EXIT_TARGET_FAILED = 3
"""The target failed; the events say how. Apart from 1 and 2, which a program's own ``sys.exit`` may use."""

_MAX_MESSAGE = 20_000
_HERE = str(Path(__file__).resolve().parent)


def main(request_path: Path) -> int:
    """Run the session that a request file describes.

    Args:
        request_path: The request; the recording's folder is the one it lies in.

    Returns:
        The process's exit status; ``SystemExit`` of the user's code is turned into an event too.
    """
    request = json.loads(request_path.read_text())
    events = EventFile(request_path.parent / "probe.jsonl")
    try:
        return _run(request, events)
    except KeyboardInterrupt:
        events.write("interrupted")
        return 130
    except SystemExit as error:
        events.write("exited", status=_exit_status(error.code), traceback=_print_user_traceback(error))
        return _EXIT_TARGET_FAILED
    except BaseException as error:  # noqa: BLE001 - whatever the program raises is reported, never lost
        _report_failure(error, events)
        return _EXIT_TARGET_FAILED


def _run(request: dict[str, Any], events: EventFile) -> int:
    events.phase("importing torch")
    import torch

    from . import torch_api
    from .workload import Workload

    events.write("environment", **_environment(torch, torch_api))
    for name, purpose in torch_api.missing().items():
        events.write("gap", message=f"This torch has no {name}: {purpose} is not available.")
    events.phase("importing the target")
    workload = Workload(request, events)
    events.write("target", **workload.description)
    is_complete = make_calls(workload, events)
    if is_complete and request["coverage"]:
        measure_coverage(workload, events)
    for name, count in workload.listener.failures.items():
        events.write("gap", message=f"{count} of torch's records could not be looked at while running ({name}).")
    events.write("finished")
    return _EXIT_FINISHED if is_complete else _EXIT_TARGET_FAILED


def make_calls(workload: Workload, events: EventFile) -> bool:
    """Make the user's calls in order; stop at the first that fails.

    Returns:
        Whether every call came back.
    """
    for index, call in enumerate(workload.calls(), start=1):
        events.phase(f"call {index}")
        workload.mark("start", index, inputs=workload.inputs_text(call))
        started = time.perf_counter()
        try:
            workload.call(call)
        except Exception as error:  # noqa: BLE001 - the user's program may raise anything
            duration = time.perf_counter() - started
            workload.mark(
                "end",
                index,
                outcome="error",
                duration_s=duration,
                error={
                    "type": _type_name(error),
                    "message": str(error)[:_MAX_MESSAGE],
                    "traceback": _print_user_traceback(error),
                    "from_compiler": workload.is_compiler_error(error),
                    "eager": workload.eager_outcome(call),
                },
            )
            workload.listener.write_sources()
            return False
        workload.mark("end", index, outcome="ok", duration_s=time.perf_counter() - started)
        workload.listener.write_sources()
    return True


def measure_coverage(workload: Workload, events: EventFile) -> None:
    """Repeat the last call under the profiler until nothing is compiled.

    These calls are ours, not the user's: what the program prints in them is dropped.
    """
    events.phase("measuring coverage")
    workload.mark("start", None)
    try:
        with _silence():
            measured = workload.measure_coverage()
    except Exception as error:  # noqa: BLE001 - coverage is an extra; its failure must not lose the report
        events.write("gap", message=f"Coverage was not measured: repeating the last call raised {_type_name(error)}.")
    else:
        if isinstance(measured, str):
            events.write("gap", message=f"Coverage was not measured: {measured}")
        else:
            events.write("coverage", **measured)
    workload.mark("end", None)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Drop what this process writes to its standard streams, extensions and the profiler's own notices included."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    # A crash must still be able to say where it happened.
    faulthandler.enable(file=kept[1])
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(kept[0], 1)
        os.dup2(kept[1], 2)
        faulthandler.enable()
        for descriptor in (*kept, nowhere):
            os.close(descriptor)


def _environment(torch: Any, torch_api: Any) -> dict[str, Any]:  # noqa: ANN401
    paths = sysconfig.get_paths()
    device = None
    with contextlib.suppress(Exception):  # a broken driver is no reason not to diagnose on the CPU
        if torch.cuda.is_available():
            device = torch.cuda.get_device_name(0)
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "platform": platform.platform(terse=True) + f" {platform.machine()}",
        "executable": sys.executable,
        "device_name": device,
        "torch_root": str(torch_api.torch_root()),
        "stdlib_root": paths["stdlib"],
        "site_roots": sorted({paths["purelib"], paths["platlib"]}),
    }


def seed_everything(seed: int) -> None:
    """Seed Python's, torch's and, when the program has loaded it, NumPy's random numbers."""
    import torch

    random.seed(seed)
    torch.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


def _report_failure(error: BaseException, events: EventFile) -> None:
    # Matched by name: importing targets imports torch, which may be what failed.
    if type(error).__name__ == "TargetError":
        events.write("error", type=None, message=str(error), hint=getattr(error, "hint", None), traceback=None)
        return
    events.write(
        "error",
        type=_type_name(error),
        message=str(error)[:_MAX_MESSAGE],
        hint=None,
        traceback=_print_user_traceback(error),
    )


def _print_user_traceback(error: BaseException) -> str:
    """Print the program's traceback as Python would, less the probe's own lines, and return it."""
    text = "".join(_without_probe(traceback.TracebackException.from_exception(error)).format())
    if not isinstance(error, SystemExit):
        print(text, end="", file=sys.stderr, flush=True)
    return text[-_MAX_MESSAGE:]


def _without_probe(report: traceback.TracebackException) -> traceback.TracebackException:
    for part in _chain(report):
        part.stack = traceback.StackSummary.from_list(
            [
                entry
                for entry in part.stack
                if not entry.filename.startswith(_HERE) and not entry.filename.startswith("<frozen ")
            ]
        )
    return report


def _chain(report: traceback.TracebackException | None) -> Iterator[traceback.TracebackException]:
    while report is not None:
        yield report
        if report.__cause__ is not None:
            yield from _chain(report.__cause__)
        report = report.__context__


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _exit_status(code: object) -> int:
    """What ``sys.exit(code)`` makes of its argument."""
    if code is None:
        return 0
    return code if isinstance(code, int) else 1
