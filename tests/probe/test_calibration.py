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
def test_what_other_work_disturbed_is_not_kept():
    first = calibrate(CPU, (), (), [])
    # Far slower than what other tests beside this one make of a second measurement.
    disturbed = {"float32": first.matmul_tflops_per_s["float32"] / 1000}
    again = calibrate(
        CPU, (), (), [first.replace(matmul_tflops_per_s=disturbed, copy_gb_per_s=0.1)]
    )
    assert not again.is_kept
    assert again.copy_gb_per_s > 1.0


@pytest.mark.slow
def test_only_what_is_missing_is_measured(monkeypatch):
    threads = torch.get_num_threads()
    precision = torch.get_float32_matmul_precision()
    first = calibrate(CPU, {"float32", "float8_e4m3fn"}, {"tanh", "log1p", "lgamma"}, [])
    assert (first.threads, first.precision, first.torch) == (threads, precision, torch.__version__)
    assert (first.is_kept, first.launch_us) == (False, None)
    assert first.copy_gb_per_s > 0
    # Not every dtype has ordinary products.
    assert first.matmul_tflops_per_s.keys() == {"float32"}
    # What nobody asks for or knows isn't measured; a function takes longer than a multiplication,
    # on a quiet machine.
    assert first.elementwise_g_per_s.keys() == {"mul", "tanh", "log"}
    assert (
        not first.is_steady or first.elementwise_g_per_s["tanh"] < first.elementwise_g_per_s["mul"]
    )
    # What was measured beside other tests could be slow enough to be measured anew.
    first = first.replace(matmul_tflops_per_s={"float32": 1e9})
    with monkeypatch.context() as patched:
        patched.setattr(calibration, "_copy", None)
        patched.setattr(calibration, "rate", None)
        with torch.autocast("cpu"):
            again = calibrate(CPU, {"float32"}, {"tanh"}, [first])
    assert again == first.replace(is_kept=True, is_steady=True)
    kept = first.replace(copy_gb_per_s=123.0)
    more = calibrate(CPU, {"float64"}, {"erf"}, [kept])
    assert more.elementwise_g_per_s.keys() == {"mul", "tanh", "log", "erf"}
    assert (more.is_kept, more.copy_gb_per_s) == (False, 123.0)
    assert more.matmul_tflops_per_s.keys() == {"float32", "float64"}
    assert calibrate(CPU, (), (), [kept.replace(threads=99)]).copy_gb_per_s != 123.0
