"""What the device reaches: measured in a short time, once."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from graphdoctor.probe.measure import calibration
from graphdoctor.probe.measure.calibration import calibrate

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("samples", "budget_s", "expected"),
    [
        # Seconds of a call, and how often a processor was taken from one of its threads.
        ([(0.2, 0), (0.21, 0), (0.3, 0)], 0.0, (0.2, True)),
        ([(0.1, 1), (0.2, 0), (0.21, 0)], 0.0, (0.2, True)),
        ([(0.2, 0), (0.2, 2), (0.2, 1)], 0.0, (0.2, False)),
        ([(0.3, 0), (0.2, 0), (0.4, 0)], 0.0, (0.2, False)),
        ([(0.3, 1), (0.3, 1), (0.3, 1)], 0.0, (0.3, False)),
        # What doesn't agree is repeated for longer.
        ([(0.1 * 2 ** -min(number, 5), 0) for number in range(15)], 0.1, (0.003125, True)),
    ],
)
def test_a_call_that_other_programs_held_up_says_nothing(monkeypatch, samples, budget_s, expected):
    # The first call may compile, and isn't looked at.
    left = iter([(9.0, 0), *samples])
    clock = SimpleNamespace(now=0.0, taken=0)

    def timed(call):
        seconds, count = next(left)
        clock.now += seconds
        clock.taken += count
        return seconds

    monkeypatch.setattr(calibration, "_time", timed)
    monkeypatch.setattr(calibration, "preemptions", lambda: clock.taken)
    monkeypatch.setattr(calibration, "perf_counter", lambda: clock.now)
    monkeypatch.setattr(calibration, "_BUDGET_S", {"cpu": budget_s})
    assert calibration._best(lambda: None, CPU) == expected


@pytest.mark.slow
def test_only_what_is_asked_for_is_measured():
    threads = torch.get_num_threads()
    precision = torch.get_float32_matmul_precision()
    first = calibrate(CPU, {"float32", "float8_e4m3fn"}, {"tanh", "log1p", "lgamma"})
    assert (first.threads, first.precision, first.torch) == (threads, precision, torch.__version__)
    assert first.launch_us is None
    assert first.copy_gb_per_s > 0
    # Not every dtype has ordinary products.
    assert first.matmul_tflops_per_s.keys() == {"float32"}
    # What nobody asks for or knows isn't measured; a function takes longer than a multiplication,
    # on a quiet machine.
    assert first.elementwise_g_per_s.keys() == {"mul", "tanh", "log"}
    assert (
        not first.is_steady or first.elementwise_g_per_s["tanh"] < first.elementwise_g_per_s["mul"]
    )
