"""What this machine has for pieces, cores, GPUs and memory, and its division into slots with what
one piece has.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, pairwise
from pathlib import Path

from graphdoctor.errors import GraphDoctorError
from graphdoctor.executors.executor import Share
from graphdoctor.wording import bytes_text, counted

GPU_VARIABLE = "CUDA_VISIBLE_DEVICES"
_TOPOLOGY = Path("/sys/devices/system/cpu")
_CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Machine:
    """What this process may use of a machine: cores, those of one physical core together, GPUs;
    None if unknown.
    """

    siblings: tuple[tuple[int, ...], ...]
    can_pin: bool
    gpus: tuple[str, ...] | None
    total_bytes: int | None
    available_bytes: int | None


def this_machine() -> Machine:
    """What this process may use of the machine that it runs on."""
    can_pin = hasattr(os, "sched_setaffinity")
    total_bytes, available_bytes = memory()
    siblings = _siblings(os.sched_getaffinity(0) if can_pin else set(range(cores())))
    return Machine(siblings, can_pin, gpus(), total_bytes, available_bytes)


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def gpus(environment: Mapping[str, str] = os.environ) -> tuple[str, ...] | None:
    """The GPUs that this process may use: their numbers, or what ``CUDA_VISIBLE_DEVICES`` names;
    None if unknown.
    """
    named = environment.get(GPU_VARIABLE)
    count = _gpu_count()
    if named is None:
        return None if count is None else tuple(map(str, range(count)))
    found: list[str] = []
    for name in map(str.strip, named.split(",")):
        does_exist = count is None or (int(name) < count if name.isdecimal() else count > 0)
        # CUDA sees those before the first that doesn't exist.
        if not name or name.startswith("-") or name in found or not does_exist:
            break
        found.append(name)
    return tuple(found)


def memory(proc: Path = Path("/proc"), cgroups: Path = _CGROUPS) -> tuple[int | None, int | None]:
    """The bytes that this process may use, within limits of control groups, and that are free; None
    if unknown.
    """
    total, available = _system_memory(proc)
    for limit, used in _limits(proc, cgroups):
        total = limit if total is None else min(total, limit)
        room = max(0, limit - used)
        available = room if available is None else min(available, room)
    return total, available


def has_memory(wanted: int | None) -> bool:
    """Whether so many bytes are available now; True if that is unknown, or None are wanted."""
    available = None if wanted is None else memory()[1]
    return wanted is None or available is None or available >= wanted


def _siblings(usable: set[int]) -> tuple[tuple[int, ...], ...]:
    together: dict[tuple[int, int], list[int]] = {}
    for core in sorted(usable):
        folder = _TOPOLOGY / f"cpu{core}" / "topology"
        package, physical = _number(folder / "physical_package_id"), _number(folder / "core_id")
        # Cores that the system says nothing about are their own.
        key = (-1, core) if package is None or physical is None else (package, physical)
        together.setdefault(key, []).append(core)
    return tuple(tuple(together[key]) for key in sorted(together))


def _gpu_count() -> int | None:
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


def _system_memory(proc: Path) -> tuple[int | None, int | None]:
    try:
        lines = (proc / "meminfo").read_text().splitlines()
    except OSError:
        with contextlib.suppress(OSError, ValueError):
            return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), None
        return None, None
    sizes = {
        name: int(size.split()[0]) * 1024
        for name, _, size in (line.partition(":") for line in lines)
    }
    return sizes.get("MemTotal"), sizes.get("MemAvailable")


def _limits(proc: Path, cgroups: Path) -> Iterator[tuple[int, int]]:
    """Limit and use of each control group that this process is in; memory that can be taken back
    isn't in use.
    """
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if not kinds:
            names, root = ("memory.max", "memory.current", "inactive_file"), cgroups
        elif "memory" in kinds.split(","):
            names, root = (
                ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
                cgroups / "memory",
            )
        else:
            continue
        # In a container, the path may be the host's, and the group is the root of what is seen.
        place = root / path.lstrip("/")
        for folder in (place, *place.parents):
            limit, used = _number(folder / names[0]), _number(folder / names[1])
            if limit is not None and used is not None:
                yield limit, max(0, used - _inactive(folder / "memory.stat", names[2]))
            if folder == root:
                break


def _inactive(path: Path, name: str) -> int:
    with contextlib.suppress(OSError, ValueError, KeyError):
        return int(dict(line.split(" ", 1) for line in path.read_text().splitlines())[name])
    return 0


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


@dataclass(frozen=True)
class Slot:
    """Where one piece after the other is worked on; without GPUs of its own, it sees those that
    this process does.
    """

    number: int
    cores: tuple[int, ...] | None
    gpus: tuple[str, ...] | None

    @property
    def name(self) -> str:
        """What to call it, such as ``cores 0-1, GPU 0``."""
        parts = []
        if self.cores is not None:
            parts.append(f"core{'s' * (len(self.cores) > 1)} {in_ranges(self.cores)}")
        if self.gpus:
            parts.append(f"GPU{'s' * (len(self.gpus) > 1)} {', '.join(self.gpus)}")
        return ", ".join(parts) or f"slot {self.number}"


def slots_for(share: Share, machine: Machine, *, most: int) -> list[Slot]:
    """As many slots as the machine has room for, from 1 to ``most``."""
    _check(share, machine)
    count = most
    cores = None
    if share.cpus is not None:
        cores = core_groups(machine.siblings, share.cpus)
        count = min(count, len(cores))
    if share.gpus and machine.gpus is not None:
        count = min(count, len(machine.gpus) // share.gpus)
    if share.memory_bytes and machine.available_bytes is not None:
        # One piece may always begin: less may be needed than was asked for, and more may be
        # available by then.
        count = min(count, max(1, machine.available_bytes // share.memory_bytes))
    gpus = machine.gpus or ()
    return [
        Slot(
            number + 1,
            None if cores is None or not machine.can_pin else cores[number],
            None if share.gpus is None else gpus[number * share.gpus : (number + 1) * share.gpus],
        )
        for number in range(count)
    ]


def core_groups(siblings: Sequence[Sequence[int]], size: int) -> list[tuple[int, ...]]:
    """Cores in groups of a size; first those that share no physical core with a group before
    them.
    """
    cores = list(chain.from_iterable(siblings))
    physical = {core: number for number, together in enumerate(siblings) for core in together}
    groups = [tuple(cores[start : start + size]) for start in range(0, len(cores) - size + 1, size)]
    # Siblings are next to each other: a group can share a core with the group before it only.
    shares = {
        group: physical[before[-1]] == physical[group[0]] for before, group in pairwise(groups)
    }
    return [
        tuple(sorted(group)) for group in sorted(groups, key=lambda group: shares.get(group, False))
    ]


def in_ranges(numbers: Sequence[int]) -> str:
    """Numbers in short, such as ``0-2,5``, which is how Linux writes them."""
    runs = (list(run) for _, run in groupby(enumerate(sorted(numbers)), lambda at: at[1] - at[0]))
    ends = ((run[0][1], run[-1][1]) for run in runs)
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ends)


def _check(share: Share, machine: Machine) -> None:
    core_count = sum(map(len, machine.siblings))
    if share.cpus is not None and share.cpus > core_count:
        raise _no_room(counted(share.cpus, "core"), f"only {core_count}")
    if share.gpus and machine.gpus is None:
        raise GraphDoctorError(
            "The number of GPUs on this machine is unknown, so none can be reserved.",
            hint="Set CUDA_VISIBLE_DEVICES to those that may be used, such as 0,1.",
        )
    if (wanted := share.gpus or 0) > len(machine.gpus or ()):
        raise _no_room(
            counted(wanted, "GPU"), f"only {len(machine.gpus)}" if machine.gpus else "none"
        )
    if (
        share.memory_bytes
        and machine.total_bytes is not None
        and share.memory_bytes > machine.total_bytes
    ):
        raise _no_room(
            f"{bytes_text(share.memory_bytes)} of memory", f"only {bytes_text(machine.total_bytes)}"
        )


def _no_room(wanted: str, found: str) -> GraphDoctorError:
    return GraphDoctorError(f"Each piece needs {wanted}, but {found} can be used here.")
