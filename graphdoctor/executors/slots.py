"""Divides a machine into slots, each with what one piece has for itself.

Comes in: a share and what the machine has. Goes out: slots, which have nothing in common. Imports nothing of the
system, so that it can be asked about any machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from graphdoctor.errors import GraphDoctorError
from graphdoctor.executors.machine import Machine
from graphdoctor.executors.work import Share


@dataclass(frozen=True)
class Slot:
    """Where one piece after the other is worked on.

    Args:
        number: From 1.
        cores: Its own, as the system numbers them; None if pieces have none of their own, or can't be held to them.
        gpus: What ``CUDA_VISIBLE_DEVICES`` lists for it; empty for none, and None to leave that as it is.
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
    """As many slots as the machine has room for.

    Args:
        share: What each has.
        machine: What there is.
        most: How many at most, from 1.

    Raises:
        GraphDoctorError: There is no room for one.
    """
    _check(share, machine)
    count = most
    cores = None
    if share.cpus is not None:
        cores = core_groups(machine.siblings, share.cpus)
        count = min(count, len(cores))
    if share.gpus and machine.gpus is not None:
        count = min(count, len(machine.gpus) // share.gpus)
    if share.memory_bytes and machine.available_bytes is not None:
        # One piece may always begin: less may be needed than was asked for, and more may be available by then.
        count = min(count, max(1, machine.available_bytes // share.memory_bytes))
    gpus = machine.gpus or ()
    return [
        Slot(
            number + 1,
            None if cores is None or not machine.can_pin else cores[number],
            gpus[number * share.gpus : (number + 1) * share.gpus],
        )
        for number in range(count)
    ]


def core_groups(siblings: Sequence[Sequence[int]], size: int) -> list[tuple[int, ...]]:
    """Cores in groups, with those of one physical core in one group as far as that goes.

    Args:
        siblings: Cores, those of one physical core together.
        size: How many a group has.

    Returns:
        Groups without a core in common; first those that share no physical core with one before them.
    """
    cores = list(chain.from_iterable(siblings))
    physical = {core: number for number, together in enumerate(siblings) for core in together}
    groups = [tuple(cores[start : start + size]) for start in range(0, len(cores) - size + 1, size)]
    apart: list[tuple[int, ...]] = []
    beside: list[tuple[int, ...]] = []
    used: set[int] = set()
    for group in groups:
        numbers = {physical[core] for core in group}
        (beside if numbers & used else apart).append(group)
        used |= numbers
    return [tuple(sorted(group)) for group in (*apart, *beside)]


def in_ranges(numbers: Sequence[int]) -> str:
    """Numbers in short, such as ``0-2,5``, which is how Linux writes them."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _check(share: Share, machine: Machine) -> None:
    core_count = sum(map(len, machine.siblings))
    if share.cpus is not None and share.cpus > core_count:
        raise _no_room(counted(share.cpus, "core"), f"only {core_count}")
    if share.gpus and machine.gpus is None:
        raise GraphDoctorError(
            "The number of GPUs on this machine is unknown, so none can be reserved.",
            hint="Set CUDA_VISIBLE_DEVICES to those that may be used, such as 0,1.",
        )
    if share.gpus > len(machine.gpus or ()):
        raise _no_room(counted(share.gpus, "GPU"), f"only {len(machine.gpus)}" if machine.gpus else "none")
    if share.memory_bytes and machine.total_bytes is not None and share.memory_bytes > machine.total_bytes:
        raise _no_room(f"{gibibytes(share.memory_bytes)} of memory", f"only {gibibytes(machine.total_bytes)}")


def _no_room(wanted: str, found: str) -> GraphDoctorError:
    return GraphDoctorError(f"Each piece needs {wanted}, but {found} can be used here.")


def counted(count: int, word: str) -> str:
    """Such as ``2 cores``."""
    return f"{count} {word}{'s' * (count != 1)}"


def gibibytes(count: int) -> str:
    """Bytes, such as ``1.5 GiB``."""
    return f"{count / 2**30:.1f} GiB"
