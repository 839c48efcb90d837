"""What this machine has for pieces: cores, GPUs, memory.

Comes in: what the system reports. Goes out: a ``Machine``. torch isn't imported; what is unknown is None.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

GPU_VARIABLE = "CUDA_VISIBLE_DEVICES"
_TOPOLOGY = Path("/sys/devices/system/cpu")
_CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Machine:
    """What this process may use of a machine.

    Args:
        siblings: Its cores, as the system numbers them, those of one physical core together.
        can_pin: Whether processes can be held to cores.
        gpus: Its GPUs, as ``CUDA_VISIBLE_DEVICES`` lists them; None if unknown.
        total_bytes: The memory that it may use; None if unknown.
        available_bytes: What of it is available now; None if unknown.
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


def gpus(environment: Mapping[str, str] | None = None) -> tuple[str, ...] | None:
    """The GPUs that this process may use, as ``CUDA_VISIBLE_DEVICES`` lists them.

    Args:
        environment: Environment variables; None for those of this process.

    Returns:
        Their numbers, or what the variable names them if it is set; None if unknown.
    """
    named = (os.environ if environment is None else environment).get(GPU_VARIABLE)
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
    """The memory that this process may use, and what of it is available; None for what is unknown.

    Args:
        proc: Where Linux reports on processes.
        cgroups: Where it reports on control groups, whose limits count.
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
    """Cores by physical core, and these by the package that they are in."""
    together: dict[tuple[int, int], list[int]] = {}
    for core in sorted(usable):
        folder = _TOPOLOGY / f"cpu{core}" / "topology"
        package, physical = _number(folder / "physical_package_id"), _number(folder / "core_id")
        # Cores that the system says nothing about are their own.
        key = (-1, core) if package is None or physical is None else (package, physical)
        together.setdefault(key, []).append(core)
    return tuple(tuple(together[key]) for key in sorted(together))


def _gpu_count() -> int | None:
    """How many NVIDIA GPUs there are; None if unknown."""
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
    sizes = {name: int(size.split()[0]) * 1024 for name, _, size in (line.partition(":") for line in lines)}
    return sizes.get("MemTotal"), sizes.get("MemAvailable")


def _limits(proc: Path, cgroups: Path) -> Iterator[tuple[int, int]]:
    """Limit and use of each control group that this process is in; memory that can be taken back isn't in use."""
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if not kinds:
            names, root = ("memory.max", "memory.current", "inactive_file"), cgroups
        elif "memory" in kinds.split(","):
            names, root = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"), cgroups / "memory"
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
    with contextlib.suppress(OSError, ValueError):
        for line in path.read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == name:
                return int(value)
    return 0


def _number(path: Path) -> int | None:
    """What a file of the system's says; None if it says nothing, or ``max``."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
