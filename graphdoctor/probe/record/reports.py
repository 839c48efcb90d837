"""What every way in reports around the calls: where it runs, torch's config and switches, and what
its hooks on torch can't record.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import re
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import chain

import torch

from ...facts.recording import Environment, GapKind
from ...wording import near_names
from ..events import EventFile
from ..torch_private import torch_api
from ..torch_private.torch_api import Undo
from ..torch_private.torch_config import changed_config, float32_precision
from ..torch_private.torch_hooks import watch_ignored_caches
from ..torch_private.torch_kernels import SHOWN_BY
from ..torch_private.torch_trace import TraceKeeper
from .errors import RequestError, type_name
from .graphs import GraphRecorder
from .guards import RecompileRecorder
from .listener import TraceListener
from .tracing_branches import BranchRecorder

_PACKAGES = [
    "accelerate",
    "deepspeed",
    "diffusers",
    "flash-attn",
    "lightning",
    "numpy",
    "optree",
    "peft",
    "pytorch-lightning",
    "pytorch-triton",
    "timm",
    "torch-geometric",
    "torchao",
    "torchaudio",
    "torchrec",
    "torchvision",
    "transformers",
    "triton",
    "vllm",
    "xformers",
]
"""Packages whose version an issue for torch should name, by the names that they are installed
under."""

Gap = tuple[GapKind, str]
"""Something that the recording lacks: its kind and a message, as ``EventFile.gap`` takes them."""


def describe_environment(device_name: str | None, own_names: tuple[str, ...] = ()) -> Environment:
    """Describe where the target runs.

    ``device_name`` is passed, since asking for it starts CUDA, after which a process can't fork.
    """
    paths = sysconfig.get_paths()
    builds = {"CUDA": torch.version.cuda, "ROCm": torch.version.hip}
    build = (f"{name} {version}" for name, version in builds.items() if version is not None)
    packages = {}
    for name in _PACKAGES:
        with suppress(Exception):  # not installed, or half of it is missing
            packages[name] = importlib.metadata.version(name)
    return Environment(
        python=platform.python_version(),
        torch=str(torch.__version__),
        torch_build=next(build, "CPU"),
        platform=platform.platform(terse=True) + f" {platform.machine()}",
        executable=sys.executable,
        device_name=device_name,
        threads=torch.get_num_threads(),
        torch_root=str(torch_api.torch_root()),
        stdlib_root=paths["stdlib"],
        site_roots=tuple(sorted({paths["purelib"], paths["platlib"]})),
        own_packages=own_names,
        # A package whose metadata lacks the version gives None.
        packages={name: version for name, version in packages.items() if isinstance(version, str)},
    )


def report_environment(
    events: EventFile, device_name: str | None, own_names: Iterable[str] = ()
) -> None:
    """Report where the target runs, and whether this torch writes a trace."""
    events.write("environment", describe_environment(device_name, imported_names(own_names)))
    if not torch_api.trace_logger().handlers:
        message = "This torch has no handler on the logger torch.__trace: there is no trace log."
        events.gap("missing_torch_name", message)


def device_name(*, may_start: bool = False) -> str | None:
    """Name the first CUDA device, where the process uses CUDA already or ``may_start`` it."""
    with suppress(Exception):  # a lost device has no name, and a broken driver has none either
        if torch.cuda.is_available() if may_start else torch.cuda.is_initialized():
            return str(torch.cuda.get_device_name(0))
    return None


def imported_names(packages: Iterable[str]) -> tuple[str, ...]:
    """Find the names that installed packages, listed by any of their names, are imported under.

    Raises:
        RequestError: None has one of the names.
    """
    imported = set()
    for package in packages:
        distributions = importlib.metadata.packages_distributions()
        provided = {
            name
            for name, owners in distributions.items()
            if _normal(package) in map(_normal, (name, *owners))
        }
        if not provided and not (package.isidentifier() and importlib.util.find_spec(package)):
            names = sorted({name for owners in distributions.values() for name in owners})
            near = near_names(package, names, most=1)
            raise RequestError("unknown_package", own=package, near=near)
        imported |= provided or {package}
    return tuple(sorted(imported))


def _normal(name: str) -> str:
    """As package indexes compare names (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


class CompileSwitches:
    """Reports each switch once."""

    def __init__(self, events: EventFile) -> None:
        self._events = events
        self.seen: set[tuple[str, str]] = set()

    def look(self, call: int | None = None) -> None:
        """Report those that are in effect now, in this call or outside any, and weren't before."""
        for kind, value in torch_api.compile_switches():
            if (kind, value) not in self.seen:
                self.seen.add((kind, value))
                self._events.write("compile_switch", kind=kind, value=value, call=call)


def report_config(
    events: EventFile, reported: dict[str, str] | None = None, *, has_kernels: bool = False
) -> dict[str, str]:
    """Report which of torch's config values differ from their defaults, unless they did before as
    ``reported``.

    Before the calls, since they may never end, and after them. ``has_kernels``: ours, to see
    Inductor's kernels, don't count.
    """
    try:
        values = changed_config()
    except Exception as error:  # noqa: BLE001 - an extra; its failure must not lose the report
        events.gap("config", f"torch's config could not be read ({type_name(error)}).")
        return {}
    for name in SHOWN_BY if has_kernels else ():
        values.pop(name, None)
    if values != reported:
        events.write("config", values=values)
    return values


def report_float32_precision(events: EventFile) -> None:
    """Report what float32 computes with on CUDA. Called after the calls, since they may set it."""
    precision = float32_precision()
    if precision is not None:
        events.write("float32_precision", precision)


def unrecorded_gap(reasons: Sequence[str]) -> Gap:
    """Say that torch left a function to eager mode without a record of it."""
    what = "torch.compile left a function to eager mode and wrote no record of it."
    return "unrecorded_compile", f"{what} {'; '.join(reasons)}"


@contextmanager
def hooking(events: EventFile, what: str) -> Iterator[None]:
    """Make a gap of a hook that can't be installed in this torch; no error of ours may reach the
    program.
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001 - see the docstring
        reason = f"{type(error).__name__}: {error}"
        message = f"graphdoctor can't record {what} with this torch ({reason})."
        events.gap("missing_torch_name", message)


Install = tuple[str, Callable[[], object]]
"""What a hook records, and what installs it."""


class Hooks:
    """What listens to torch in every recording: a handler of its trace, which is written to
    ``folder`` or to where it is written first, what keeps it there, recompiles and graphs.
    """

    def __init__(
        self, events: EventFile, listener: TraceListener, folder: str | None = None
    ) -> None:
        self._events = events
        self._listener = listener
        self.keeper = TraceKeeper(listener, folder)
        self._recompiles = RecompileRecorder(
            listener, lambda cause: torch_api.write_artifact("graphdoctor_recompile", cause)
        )
        self.graphs = GraphRecorder(listener.want_file)
        caches = partial(watch_ignored_caches, listener.write_ignored_cache)
        branches = BranchRecorder(listener)
        self.by_module: dict[str, list[tuple[str, Callable[[], Undo]]]] = {
            "torch._dynamo.convert_frame": [
                ("compiles after a change of torch's trace logger", self.keeper.install),
                ("the causes of recompiles", self._recompiles.install),
            ],
            "torch._dynamo.output_graph": [
                ("the operations and inputs of graphs", self.graphs.install)
            ],
            "torch._dynamo.variables.functions": [("calls of functions with a cache", caches)],
            "torch._dynamo.variables.torch": [
                ("lines that ask whether torch.compile is at work", branches.install)
            ],
        }
        """Hooks that need a module of torch's."""
        self._ends = ExitStack()

    def install(self) -> None:
        """Listen until ``close``."""
        for what, install in chain.from_iterable(self.by_module.values()):
            with hooking(self._events, what):
                self._ends.callback(install())

    def report_failures(self) -> None:
        """Report errors in our handlers, and records they never received."""
        gap = self._events.gap
        keeper = self.keeper
        if (error := keeper.write_error) is not None:
            reason = error.strerror or str(error)
            lost = "What torch did afterwards is missing."
            gap("log_removed", f"The trace log could not be written: {reason}. {lost}")
        elif count := keeper.lost_count(self._listener.finished_compiles):
            compiles = "1 compile" if count == 1 else f"{count} compiles"
            what = "The program changed torch's trace logger (torch.__trace) while torch compiled"
            gap("log_removed", f"{what}: records of {compiles} are missing.")
        for name, count in self._listener.failures.items():
            gap("stacks", f"{count} of torch's records could not be read during the run ({name}).")
        for name, count in self._recompiles.failures.items():
            lost = f"{count} of the sets of guards could not be read during the run ({name})."
            gap("recompile_causes", lost)

    def begin_in_fork(self) -> None:
        """Begin with nothing seen in a forked process."""
        self.graphs.count = 0
        self._listener.begin_anew()
        self.keeper.begin_anew()
        self.keeper.restore()

    def close(self) -> None:
        """Stop listening."""
        self._ends.close()
        torch_api.trace_logger().removeHandler(self._listener)
