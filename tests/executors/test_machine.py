"""A machine divided into slots: nothing is given twice, and as much as possible is given."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoctor.errors import GraphDoctorError
from graphdoctor.executors import machine
from graphdoctor.executors.executor import Share
from graphdoctor.executors.machine import Machine, Slot, core_groups, gpus, memory, slots_for
from tests.each import for_each

GIB = 2**30
EIGHT = Machine(((0, 4), (1, 5), (2, 6), (3, 7)), True, ("0", "1", "2"), 64 * GIB, 40 * GIB)


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    numbers = draw(st.lists(st.integers(0, 300), min_size=1, max_size=40, unique=True))
    width = draw(st.integers(1, 3))
    siblings = tuple(
        tuple(numbers[start : start + width]) for start in range(0, len(numbers), width)
    )
    gpu_count = draw(st.none() | st.integers(0, 9))
    names = None if gpu_count is None else tuple(map(str, range(gpu_count)))
    total = draw(st.none() | st.integers(1, 1000))
    available = draw(st.none() | st.integers(0, total or 1000))
    return Machine(siblings, draw(st.booleans()), names, total, available)


shares = st.builds(
    Share, st.none() | st.integers(1, 20), st.integers(0, 4), st.none() | st.integers(1, 500)
)


@given(machines(), shares, st.integers(1, 50))
def test_slots_have_what_was_asked_for_and_nothing_in_common(
    there: Machine, share: Share, most: int
) -> None:
    cores = list(chain.from_iterable(there.siblings))
    can_be_given = (
        (share.cpus or 0) <= len(cores)
        and share.gpus <= len(there.gpus or ())
        and (
            share.memory_bytes is None
            or there.total_bytes is None
            or share.memory_bytes <= there.total_bytes
        )
    )
    if not can_be_given:
        with pytest.raises(GraphDoctorError):
            slots_for(share, there, most=most)
        return
    slots = slots_for(share, there, most=most)
    assert [slot.number for slot in slots] == list(range(1, len(slots) + 1))
    for slot in slots:
        assert len(slot.gpus) == share.gpus
        if share.cpus is None or not there.can_pin:
            assert slot.cores is None
        else:
            assert len(slot.cores) == share.cpus
    for one, other in combinations(slots, 2):
        assert not set(one.gpus) & set(other.gpus)
        assert not set(one.cores or ()) & set(other.cores or ())
    # One more is too many.
    room = most
    if share.cpus:
        room = min(room, len(cores) // share.cpus)
    if share.gpus:
        room = min(room, len(there.gpus) // share.gpus)
    if share.memory_bytes and there.available_bytes is not None:
        room = min(room, max(1, there.available_bytes // share.memory_bytes))
    assert len(slots) == room
    assert len({slot.name for slot in slots}) == len(slots)


@given(machines(), st.integers(1, 8))
def test_groups_that_share_no_physical_core_come_first(there: Machine, size: int) -> None:
    groups = core_groups(there.siblings, size)
    physical = {core: number for number, together in enumerate(there.siblings) for core in together}
    used: set[int] = set()
    is_apart = []
    for group in groups:
        numbers = {physical[core] for core in group}
        is_apart.append(not numbers & used)
        used |= numbers
    assert is_apart == sorted(is_apart, reverse=True)


def test_a_slot_is_called_what_it_has() -> None:
    assert core_groups(EIGHT.siblings, 1) == [(0,), (1,), (2,), (3,), (4,), (5,), (6,), (7,)]
    assert core_groups(EIGHT.siblings, 2) == [(0, 4), (1, 5), (2, 6), (3, 7)]
    named = {
        Share(4): ["cores 0-1,4-5", "cores 2-3,6-7"],
        Share(1, gpus=1): ["core 0, GPU 0", "core 1, GPU 1", "core 2, GPU 2"],
        Share(1, gpus=2): ["core 0, GPUs 0, 1"],
        Share(None, memory_bytes=15 * GIB): ["slot 1", "slot 2"],
        Share(8, memory_bytes=50 * GIB): ["cores 0-7"],
    }
    assert {
        share: [slot.name for slot in slots_for(share, EIGHT, most=8)] for share in named
    } == named
    # One that has none of its own sees all, unless it may not.
    assert [slots_for(Share(None, gpus=count), EIGHT, most=1)[0].gpus for count in (None, 0)] == [
        None,
        (),
    ]
    # Where processes can't be held to cores, their number still counts.
    assert slots_for(Share(4), replace(EIGHT, can_pin=False), most=8) == [
        Slot(1, None, ()),
        Slot(2, None, ()),
    ]


@for_each(
    "share, there, words",
    [
        (Share(9), EIGHT, "Each piece needs 9 cores, but only 8 can be used here."),
        (Share(1, gpus=4), EIGHT, "Each piece needs 4 GPUs, but only 3 can be used here."),
        (
            Share(1, gpus=1),
            replace(EIGHT, gpus=()),
            "Each piece needs 1 GPU, but none can be used here.",
        ),
        (
            Share(1, gpus=1),
            replace(EIGHT, gpus=None),
            "The number of GPUs on this machine is unknown",
        ),
        (
            Share(1, 0, 65 * GIB),
            EIGHT,
            "Each piece needs 65 GiB of memory, but only 64 GiB can be used here.",
        ),
    ],
)
def test_a_share_that_cannot_be_given_is_one_sentence(
    share: Share, there: Machine, words: str
) -> None:
    with pytest.raises(GraphDoctorError) as raised:
        slots_for(share, there, most=2)
    assert raised.value.message.startswith(words)


@for_each(
    "count, named, found",
    [
        (2, None, ("0", "1")),
        (0, None, ()),
        (None, None, None),
        (4, "2,0", ("2", "0")),
        (4, "", ()),
        (4, "-1", ()),
        (4, "1,-1,2", ("1",)),
        (2, "0,5,1", ("0",)),
        (2, "0,0,1", ("0",)),
        (2, "GPU-8932f937, MIG-1a2b", ("GPU-8932f937", "MIG-1a2b")),
        (0, "0,GPU-8932f937", ()),
        (None, "0,1", ("0", "1")),
    ],
)
def test_gpus_are_those_that_may_be_used(
    monkeypatch: pytest.MonkeyPatch,
    count: int | None,
    named: str | None,
    found: tuple[str, ...] | None,
) -> None:
    monkeypatch.setattr(machine, "_gpu_count", lambda: count)
    assert gpus({} if named is None else {"CUDA_VISIBLE_DEVICES": named}) == found


def system(root: Path, cgroup: str, files: dict[str, str]) -> tuple[Path, Path]:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text("MemTotal: 1000 kB\nMemFree: 10 kB\nMemAvailable: 800 kB\n")
    (root / "proc/self/cgroup").write_text(cgroup)
    for name, text in files.items():
        (root / "cgroup" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "cgroup" / name).write_text(text)
    return root / "proc", root / "cgroup"


@pytest.mark.parametrize(
    ("cgroup", "files", "total", "available"),
    [
        ("0::/\n", {}, 1000, 800),
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/b/memory.current": "0\n"}, 1000, 800),
        ("0::/a/b\n", {"a/memory.max": "409600\n", "a/memory.current": "102400\n"}, 400, 300),
        (
            "0::/a\n",
            {
                "a/memory.max": "409600\n",
                "a/memory.current": "204800\n",
                "a/memory.stat": "anon 1\ninactive_file 102400\n",
            },
            400,
            300,
        ),
        ("0::/not/seen\n", {"memory.max": "512000\n", "memory.current": "614400\n"}, 500, 0),
        (
            "9:name=systemd:/\n4:cpu,memory:/job\n0::/\n",
            {
                "memory/job/memory.limit_in_bytes": "204800\n",
                "memory/job/memory.usage_in_bytes": "102400\n",
            },
            200,
            100,
        ),
        (
            "4:memory:/job\n",
            {
                "memory/job/memory.limit_in_bytes": "9223372036854771712\n",
                "memory/job/memory.usage_in_bytes": "1\n",
            },
            1000,
            800,
        ),
    ],
)
def test_limits_of_control_groups_count(
    tmp_path: Path, cgroup: str, files: dict[str, str], total: int, available: int
) -> None:
    assert memory(*system(tmp_path, cgroup, files)) == (total * 1024, available * 1024)
