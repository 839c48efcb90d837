"""Cores, GPUs and memory of this machine, and its division into slots for one piece each."""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

from graphdoctor.errors import GraphDoctorError
from graphdoctor.executors.executor import Share

GPU_VARIABLE = "CUDA_VISIBLE_DEVICES"
_TOPOLOGY = Path("/sys/devices/system/cpu")
_CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Machine:
    """Resources that this process may use; ``cores``: those of one physical core next to each
    other; ``gpus``: None if unknown.
    """

    cores: tuple[int, ...]
    can_pin: bool
    gpus: tuple[str, ...] | None
    total_bytes: int | None
    available_bytes: int | None


def this_machine() -> Machine:
    """Return what this process may use of its machine."""
    can_pin = hasattr(os, "sched_setaffinity")
    usable = os.sched_getaffinity(0) if can_pin else range(cores())
    return Machine(tuple(sorted(usable, key=_physical_core)), can_pin, gpus(), *memory())


def _physical_core(core: int) -> tuple[int, int, int]:
    """Return package, physical core and core; -1 for what the system doesn't say."""
    folder = _TOPOLOGY / f"cpu{core}" / "topology"
    package, physical = (_number(folder / name) for name in ("physical_package_id", "core_id"))
    return -1 if package is None else package, -1 if physical is None else physical, core


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def gpus(environment: Mapping[str, str] = os.environ) -> tuple[str, ...] | None:
    """Return the GPUs that this process may use, as ``CUDA_VISIBLE_DEVICES`` names them; None if
    unknown.
    """
    visible = environment.get(GPU_VARIABLE)
    count = _gpu_count()
    if visible is None:
        return None if count is None else tuple(map(str, range(count)))
    names = []
    for name in map(str.strip, visible.split(",")):
        exists = count is None or (int(name) < count if name.isdecimal() else count > 0)
        # CUDA sees those before the first that doesn't exist.
        if not name or name.startswith("-") or name in names or not exists:
            break
        names.append(name)
    return tuple(names)


def memory(proc: Path = Path("/proc"), cgroups: Path = _CGROUPS) -> tuple[int | None, int | None]:
    """Return total and free bytes, within limits of control groups; None if unknown."""
    total = None
    available = None
    try:
        fields = (line.partition(":") for line in (proc / "meminfo").read_text().splitlines())
        sizes = {name: int(size.split()[0]) * 1024 for name, _, size in fields}
        total = sizes.get("MemTotal")
        available = sizes.get("MemAvailable")
    except OSError:
        with contextlib.suppress(OSError, ValueError):
            total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for limit, used in _limits(proc, cgroups):
        total = limit if total is None else min(total, limit)
        room = max(0, limit - used)
        available = room if available is None else min(available, room)
    return total, available


@contextlib.contextmanager
def gpu_turn() -> Iterator[None]:
    """Hold this process's GPUs, after other processes that hold them, too."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    folder = Path(tempfile.gettempdir())
    with contextlib.ExitStack() as stack:
        # In one order everywhere, so that no two processes wait for each other.
        for name in sorted(gpus() or ()):
            path = folder / f"graphdoctor-{os.getuid()}-gpu-{name.replace('/', '-')}.lock"
            with contextlib.suppress(OSError):
                # Others may write to this folder, too, and a link there would lead elsewhere.
                file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
                stack.callback(os.close, file)
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def has_memory(needed_bytes: int | None) -> bool:
    """Return whether so much memory is free; True if that is unknown, or for None."""
    available = None if needed_bytes is None else memory()[1]
    return needed_bytes is None or available is None or available >= needed_bytes


def _gpu_count() -> int | None:
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        if nvml.nvmlInit_v2() == 0:
            count = ctypes.c_uint()
            is_known = nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
            nvml.nvmlShutdown()
            if is_known:
                return count.value
    # A driver that can't be asked, or AMD's.
    return None if Path("/proc/driver/nvidia/version").exists() or Path("/dev/kfd").exists() else 0


def _limits(proc: Path, cgroups: Path) -> Iterator[tuple[int, int]]:
    """Yield limit and use of each control group of this process (version 2); memory that can be
    reclaimed isn't in use.
    """
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    # In a container, the path may be the host's, and the group is the root of what is seen.
    path = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), "")
    group = cgroups / path
    for folder in (group, *group.parents):
        limit, used = _number(folder / "memory.max"), _number(folder / "memory.current")
        if limit is not None and used is not None:
            reclaimable = _number(folder / "memory.stat", "inactive_file") or 0
            yield limit, max(0, used - reclaimable)
        if folder == cgroups:
            return


def _number(path: Path, name: str = "") -> int | None:
    """Return a file's number, or the one behind a name; None if there is none."""
    with contextlib.suppress(OSError, ValueError):
        for line in path.read_text().splitlines():
            if line.startswith(name):
                return int(line.removeprefix(name))
    return None


@dataclass(frozen=True)
class Slot:
    """Room for one piece at a time: ``cores`` and ``gpus`` are None for those of this process."""

    number: int
    cores: tuple[int, ...] | None
    gpus: tuple[str, ...] | None

    @property
    def name(self) -> str:
        """A name such as ``slot 2, GPU 0``."""
        return ", ".join([f"slot {self.number}", *(f"GPU {gpu}" for gpu in self.gpus or ())])

    def enter(self) -> None:
        """Hold this process, and what it starts, to the slot."""
        if self.cores is not None:
            os.sched_setaffinity(0, self.cores)
        if self.gpus is not None:
            os.environ[GPU_VARIABLE] = ",".join(self.gpus)


def slots_for(share: Share, machine: Machine, *, most: int) -> list[Slot]:
    """Return as many slots as the machine has room for, from 1 to ``most``."""
    _check(share, machine)
    count = most
    if share.cpus is not None:
        count = min(count, len(machine.cores) // share.cpus)
    if share.gpus and machine.gpus is not None:
        count = min(count, int(len(machine.gpus) / share.gpus))
    if share.memory_bytes and machine.available_bytes is not None:
        # One piece may always begin: it may need less, and more may be free by then.
        count = min(count, max(1, machine.available_bytes // share.memory_bytes))
    cores, names = iter(machine.cores), cycle(machine.gpus or ())
    is_pinned = share.cpus is not None and machine.can_pin
    return [
        Slot(
            number,
            tuple(islice(cores, share.cpus)) if is_pinned else None,
            None if share.gpus is None else tuple(islice(names, math.ceil(share.gpus))),
        )
        for number in range(1, count + 1)
    ]


def _check(share: Share, machine: Machine) -> None:
    if share.gpus and machine.gpus is None:
        raise GraphDoctorError(
            "The number of GPUs on this machine is unknown, so none can be reserved.",
            hint="Set CUDA_VISIBLE_DEVICES to those that may be used, such as 0,1.",
        )
    needs = (
        (share.cpus, len(machine.cores), "cores"),
        (share.gpus, len(machine.gpus or ()), "GPUs"),
        (share.memory_bytes, machine.total_bytes, "bytes of memory"),
    )
    for needed, available, noun in needs:
        if needed and available is not None and needed > available:
            raise GraphDoctorError(
                f"Each piece needs {needed:,} {noun}, but {available or 'none'} can be used here."
            )
