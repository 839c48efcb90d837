"""Cores, GPUs and memory of this machine, and its division into slots for one piece each."""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, cycle, groupby, pairwise
from pathlib import Path

from graphdoctor.errors import GraphDoctorError
from graphdoctor.executors.executor import Share
from graphdoctor.wording import bytes_text, counted

GPU_VARIABLE = "CUDA_VISIBLE_DEVICES"
_TOPOLOGY = Path("/sys/devices/system/cpu")
_CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Machine:
    """Resources that this process may use: cores, grouped by physical core, and GPUs; None if
    unknown.
    """

    siblings: tuple[tuple[int, ...], ...]
    can_pin: bool
    gpus: tuple[str, ...] | None
    total_bytes: int | None
    available_bytes: int | None


def this_machine() -> Machine:
    """Return what this process may use of its machine."""
    can_pin = hasattr(os, "sched_setaffinity")
    siblings: dict[tuple[int, int], list[int]] = {}
    for core in sorted(os.sched_getaffinity(0)) if can_pin else range(cores()):
        folder = _TOPOLOGY / f"cpu{core}" / "topology"
        package = _number(folder / "physical_package_id")
        physical = _number(folder / "core_id")
        # Cores that the system says nothing about have no sibling.
        key = (-1, core) if package is None or physical is None else (package, physical)
        siblings.setdefault(key, []).append(core)
    groups = tuple(tuple(siblings[key]) for key in sorted(siblings))
    return Machine(groups, can_pin, gpus(), *memory())


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
    """Yield limit and use of each control group of this process; memory that can be reclaimed
    isn't in use.
    """
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, kinds, path = line.split(":", 2)
        is_v2 = not kinds
        if not is_v2 and "memory" not in kinds.split(","):
            continue
        root = cgroups if is_v2 else cgroups / "memory"
        # In a container, the path may be the host's, and the group is the root of what is seen.
        group = root / path.lstrip("/")
        for folder in (group, *group.parents):
            limit = _number(folder / ("memory.max" if is_v2 else "memory.limit_in_bytes"))
            used = _number(folder / ("memory.current" if is_v2 else "memory.usage_in_bytes"))
            if limit is not None and used is not None:
                name = "inactive_file" if is_v2 else "total_inactive_file"
                yield limit, max(0, used - (_number(folder / "memory.stat", name) or 0))
            if folder == root:
                break


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
        """A name such as ``cores 0-1, GPU 0``."""
        parts = []
        if self.cores is not None:
            parts.append(f"core{'s' * (len(self.cores) > 1)} {in_ranges(self.cores)}")
        if self.gpus:
            parts.append(f"GPU{'s' * (len(self.gpus) > 1)} {', '.join(self.gpus)}")
        return ", ".join(parts) or f"slot {self.number}"

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
    groups = None
    if share.cpus is not None:
        groups = core_groups(machine.siblings, share.cpus)
        count = min(count, len(groups))
    if share.gpus and machine.gpus is not None:
        count = min(count, int(len(machine.gpus) / share.gpus))
    if share.memory_bytes and machine.available_bytes is not None:
        # One piece may always begin: it may need less, and more may be free by then.
        count = min(count, max(1, machine.available_bytes // share.memory_bytes))
    is_pinned = groups is not None and machine.can_pin
    names = cycle(machine.gpus or ())
    return [
        Slot(
            number,
            groups[number - 1] if groups and is_pinned else None,
            None
            if share.gpus is None
            else tuple(next(names) for _ in range(math.ceil(share.gpus))),
        )
        for number in range(1, count + 1)
    ]


def core_groups(siblings: Sequence[Sequence[int]], size: int) -> list[tuple[int, ...]]:
    """Return groups of cores; first those that share no physical core with an earlier group."""
    cores = list(chain.from_iterable(siblings))
    physical = {core: number for number, group in enumerate(siblings) for core in group}
    groups = [tuple(cores[start : start + size]) for start in range(0, len(cores) - size + 1, size)]
    # Siblings are next to each other: a group can share a core with the group before it only.
    shares = {
        group: physical[before[-1]] == physical[group[0]] for before, group in pairwise(groups)
    }
    groups.sort(key=lambda group: shares.get(group, False))
    return [tuple(sorted(group)) for group in groups]


def in_ranges(numbers: Sequence[int]) -> str:
    """Return numbers in short, such as ``0-2,5``, which is how Linux writes them."""
    runs = (list(run) for _, run in groupby(enumerate(sorted(numbers)), lambda at: at[1] - at[0]))
    ends = ((run[0][1], run[-1][1]) for run in runs)
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ends)


def _check(share: Share, machine: Machine) -> None:
    if share.gpus and machine.gpus is None:
        raise GraphDoctorError(
            "The number of GPUs on this machine is unknown, so none can be reserved.",
            hint="Set CUDA_VISIBLE_DEVICES to those that may be used, such as 0,1.",
        )
    core_count = sum(map(len, machine.siblings))
    gpu_count = len(machine.gpus or ())
    needs = (
        (share.cpus, core_count, counted(share.cpus or 0, "core"), str(core_count)),
        (share.gpus, gpu_count, counted(math.ceil(share.gpus or 0), "GPU"), str(gpu_count)),
        (
            share.memory_bytes,
            machine.total_bytes,
            f"{bytes_text(share.memory_bytes or 0)} of memory",
            bytes_text(machine.total_bytes or 0),
        ),
    )
    for needed, available, needed_text, available_text in needs:
        if needed and available is not None and needed > available:
            text = f"only {available_text}" if available else "none"
            raise GraphDoctorError(f"Each piece needs {needed_text}, but {text} can be used here.")
