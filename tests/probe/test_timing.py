"""How a probe times its last call, answers whoever asks for more, and reads the most memory."""

import socket
from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

from graphdoctor.probe.measure import timing
from graphdoctor.probe.measure.timing import Block, PeakMemory, time_block
from tests.each import for_each


class Clock:
    """Stands for ``time``: stops but where a call takes time."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now


class Program:
    """A call that takes so many seconds, the last for all further ones."""

    def __init__(self, clock, takes):
        self._clock = clock
        self._takes = takes
        self.calls = 0

    def __call__(self):
        self._clock.now += self._takes[min(self.calls, len(self._takes) - 1)]
        self.calls += 1


Make = Callable[..., Program]


@pytest.fixture
def program(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(timing, "time", clock)
    return lambda *takes: Program(clock, list(takes) or [1.0])


def test_calls_are_timed_within_time_with_a_minimum(program):
    assert timing.time_calls(program(0.25), seconds=1.0) == [0.25] * 4
    assert timing.time_calls(program(0.25), seconds=1.0, most=2, least=1) == [0.25] * 2
    assert timing.time_calls(program(9.0), seconds=1.0) == [9.0] * timing._MIN_RUNS
    assert timing.time_calls(program(9.0), seconds=1.0, least=1) == [9.0]


def test_a_calls_time_is_that_of_its_own_gpu_work(program, monkeypatch):
    clock = timing.time
    waits = [7.0, 0.5, 0.0, 0.5]  # before the first call, behind it, and so on

    def synchronize():
        clock.now += waits.pop(0)

    monkeypatch.setattr(timing, "synchronize", synchronize)
    assert timing.time_calls(program(0.25), seconds=0.0, least=2) == [0.75, 0.75]


def test_short_calls_are_timed_together_and_long_ones_alone():
    numbers = {0.0001: 10, 0.5: 1, 0.0: 10_000}
    assert {seconds: Block(seconds=seconds).number for seconds in numbers} == numbers
    made = []
    # One more call warms the caches.
    assert len(time_block(lambda: made.append(1), Block(seconds=0.0001), seconds=0.0)) == 1
    assert len(made) == 10 + 1


def test_arguments_are_restored_outside_the_time(program, monkeypatch):
    clock = timing.time
    call = program(1.0)
    values = [1.0]
    seen = []
    monkeypatch.setattr(clock, "sleep", lambda _seconds: None, raising=False)

    def make():
        call()
        seen.append(values.pop())

    def restore():
        clock.now += 5.0
        values[:] = [1.0]

    block = Block(seconds=0.0001, restore=restore)
    assert block.number == 1
    assert time_block(make, block, seconds=10.0) == [1e6, 1e6]
    assert seen == [1.0] * 3


def test_questions_end_quietly_when_nobody_listens_any_more():
    for is_answered in (False, True):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.sendall(b'{"seconds": 0.0}\n')
            asked = []
            for question in timing.questions(theirs):
                asked.append(question)
                if is_answered:
                    timing.answer(theirs, {"calls": 1})
                ours.close()
            timing.answer(theirs, {"calls": 2})
        assert asked == ['{"seconds": 0.0}\n']


@for_each(
    "held_up, is_own_only, expected",
    [
        ({2, 4}, True, [1.0, 1.0, 1.0, 1.0]),
        ({2, 4}, False, [1.0, 9.0, 1.0, 9.0, 1.0, 1.0]),
        # With fewer than three others, there is nothing better than all of them.
        ({1, 2, 3, 4}, True, [1.0, 9.0, 1.0, 9.0, 1.0, 1.0]),
    ],
)
def test_held_up_calls_do_not_count_where_enough_remain(
    monkeypatch, program, held_up, *, is_own_only, expected
):
    call = program(1.0, 9.0, 1.0, 9.0, 1.0, 1.0)
    monkeypatch.setattr(
        timing, "preemptions", lambda: len([number for number in held_up if number <= call.calls])
    )
    assert timing.time_calls(call, seconds=1000.0, most=6, is_own_only=is_own_only) == expected


def test_what_cuda_graphs_keep_for_themselves_is_in_use(monkeypatch):
    segments = [
        {"segment_pool_id": (0, 0), "total_size": 500, "allocated_size": 70},
        {"segment_pool_id": (0, 1), "total_size": 200, "allocated_size": 30},
        {"segment_pool_id": (0, 1), "total_size": 10, "allocated_size": 0},
    ]
    expected = {
        "is_initialized": True,
        "reset_peak_memory_stats": None,
        "memory_allocated": 90,
        "max_memory_allocated": 100,
        "memory_snapshot": segments,
    }
    for name, value in expected.items():
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    assert PeakMemory().bytes() == 100 + 170 + 10
