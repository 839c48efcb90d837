"""What every way in reports around the calls: where it runs, torch's config and switches, what
isn't recorded.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import platform
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import torch

from ...facts.recording import Environment, GapKind
from ...wording import near_names
from ..events import EventFile
from ..torch_private import torch_api
from ..torch_private.torch_config import changed_config, float32_precision
from ..torch_private.torch_kernels import SHOWN_BY
from .errors import RequestError, type_name

if TYPE_CHECKING:
    from ..torch_private.torch_trace import TraceKeeper
    from .guards import RecompileRecorder
    from .listener import TraceListener

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


def describe_environment(device_name: str | None, own: tuple[str, ...] = ()) -> Environment:
    """Where the target runs.

    ``device_name`` is given, since asking for it starts CUDA, after which a process can't fork.
    """
    paths = sysconfig.get_paths()
    builds = (("CUDA", torch.version.cuda), ("ROCm", torch.version.hip))
    return Environment(
        python=platform.python_version(),
        torch=str(torch.__version__),
        torch_build=next(
            (f"{name} {version}" for name, version in builds if version is not None), "CPU"
        ),
        platform=platform.platform(terse=True) + f" {platform.machine()}",
        executable=sys.executable,
        device_name=device_name,
        threads=torch.get_num_threads(),
        torch_root=str(torch_api.torch_root()),
        stdlib_root=paths["stdlib"],
        site_roots=tuple(sorted({paths["purelib"], paths["platlib"]})),
        own_packages=own,
        packages=_package_versions(),
    )


def _package_versions() -> dict[str, str]:
    versions = {}
    for name in _PACKAGES:
        with contextlib.suppress(Exception):  # not installed, or half of it is missing
            versions[name] = importlib.metadata.version(name)
    # A package whose metadata lacks the version gives None.
    return {name: version for name, version in versions.items() if isinstance(version, str)}


Gap = tuple[GapKind, str]
"""Something that the recording lacks: its kind and a message, as ``EventFile.gap`` takes them."""


def unrecorded_gap(reasons: Sequence[str]) -> Gap:
    """Torch left a function to eager mode without a record of it."""
    message = f"torch.compile left a function to eager mode and wrote no record of it. {'; '.join(reasons)}"
    return "unrecorded_compile", message


def hook_gap(what: str, error: Exception) -> Gap:
    """A hook can't be installed in this torch."""
    return (
        "missing_torch_name",
        f"graphdoctor can't record {what} with this torch ({type(error).__name__}: {error}).",
    )


@contextlib.contextmanager
def hooking(events: EventFile, what: str) -> Iterator[None]:
    """A hook that can't be installed in this torch becomes a gap; no error of ours may reach the
    program.
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001 - see the docstring
        events.gap(*hook_gap(what, error))


def failure_gaps(
    listener: TraceListener, recompiles: RecompileRecorder, keeper: TraceKeeper
) -> Iterator[Gap]:
    """What raised in our own handlers and what never reached them, usually nothing."""
    if keeper.write_error is not None:
        reason = keeper.write_error.strerror or str(keeper.write_error)
        yield (
            "log_removed",
            f"The trace log could not be written: {reason}. What torch did afterwards is missing.",
        )
    elif lost := keeper.lost_count(listener.finished_compiles):
        compiles = "1 compile" if lost == 1 else f"{lost} compiles"
        what = "The program changed torch's trace logger (torch.__trace) while torch compiled"
        yield "log_removed", f"{what}: records of {compiles} are missing."
    for name, count in listener.failures.items():
        yield "stacks", f"{count} of torch's records could not be read during the run ({name})."
    for name, count in recompiles.failures.items():
        yield (
            "recompile_causes",
            f"{count} of the sets of guards could not be read during the run ({name}).",
        )


class CompileSwitches:
    """Reports each switch once."""

    def __init__(self, events: EventFile) -> None:
        self._events = events
        self._seen: set[tuple[str, str]] = set()

    @property
    def are_found(self) -> bool:
        """Whether one was reported."""
        return bool(self._seen)

    def look(self, call: int | None = None) -> None:
        """Report those that are in effect now, in this call or outside any, and weren't before."""
        for kind, value in torch_api.compile_switches():
            if (kind, value) not in self._seen:
                self._seen.add((kind, value))
                self._events.write("compile_switch", kind=kind, value=value, call=call)


def device_name(*, may_start: bool = False) -> str | None:
    """The first CUDA device's name, where the process uses CUDA already or ``may_start`` it."""
    with contextlib.suppress(
        Exception
    ):  # a device that was lost has no name, and a broken driver has none either
        if torch.cuda.is_available() if may_start else torch.cuda.is_initialized():
            return str(torch.cuda.get_device_name(0))
    return None


def imported_names(packages: Iterable[str]) -> tuple[str, ...]:
    """The names that installed packages, given by any of their names, are imported under.

    Raises:
        RequestError: None has one of the names.
    """
    found: set[str] = set()
    for package in packages:
        known = importlib.metadata.packages_distributions()
        provided = {
            name
            for name, owners in known.items()
            if _normal(package) in map(_normal, (name, *owners))
        }
        if not provided and not (package.isidentifier() and importlib.util.find_spec(package)):
            names = sorted({name for owners in known.values() for name in owners})
            raise RequestError(
                "unknown_package", own=package, near=near_names(package, names, most=1)
            )
        found |= provided or {package}
    return tuple(sorted(found))


def _normal(name: str) -> str:
    """As package indexes compare names (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def report_environment(events: EventFile, device_name: str | None, own: Iterable[str] = ()) -> None:
    """Report where the target runs, and what this torch lacks."""
    missing = torch_api.missing()
    events.write("environment", describe_environment(device_name, imported_names(own)))
    for name, purpose in missing.items():
        events.gap("missing_torch_name", f"This torch has no {name}: {purpose} is not available.")


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
    if has_kernels:
        for name in SHOWN_BY:
            values.pop(name, None)
    if values != reported:
        events.write("config", values=values)
    return values


def report_float32_precision(events: EventFile) -> None:
    """Report what float32 computes with on CUDA. Called after the calls, since they may set it."""
    found = float32_precision()
    if found is not None:
        events.write("float32_precision", found)
