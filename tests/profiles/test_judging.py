"""What kernels and calls wait for, from hand-built facts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graphdoctor.facts.bench import CallTimes
from graphdoctor.facts.kernels import CudaGraphs, Float32Precision, KernelShare
from graphdoctor.facts.profile import ProfiledKernel, ProfiledLine, ProfileReport, Regime, TimePart
from graphdoctor.facts.profiled import Calibration
from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.diagnosis.diagnose import diagnose
from graphdoctor.studies.profile.regime import regime_of
from graphdoctor.studies.profile.roofline import judged, with_bounds
from tests import factories
from tests.each import for_each
from tests.profile_reports import kernel, profiled
from tests.profiles import facts

DEVICE = Calibration(
    device_name="a GPU",
    torch="2.13.0",
    precision="highest",
    copy_gb_per_s=1000.0,
    matmul_tflops_per_s={"float32": 50.0, "bfloat16": 500.0, "tf32": 200.0},
)


def seen(us: float, **more: Any) -> ProfiledKernel:
    """A kernel that nobody judged yet."""
    given: dict[str, Any] = {"bytes": None, "gb_per_s": None, "bandwidth_share": None, "bound_by": None}
    return kernel("triton_poi_fused_0", us, 12, **given | more)


def verdict(device: Any = "cuda", **values: Any) -> tuple[str | None, float | None, float | None]:
    (found,) = judged([seen(**values)], DEVICE, device)
    return found.bound_by, found.bandwidth_share, found.compute_share


@for_each(
    "values, expected",
    [
        # 1,000 GB/s are a million bytes in a millisecond.
        ({"us": 100.0, "bytes": 60_000_000}, ("memory", 0.6, None)),
        ({"us": 100.0, "bytes": 260_000_000}, ("memory", 2.6, None)),
        ({"us": 100.0, "bytes": 30_000_000}, ("memory", 0.3, None)),
        ({"us": 100.0, "bytes": 10_000_000}, (None, 0.1, None)),
        ({"us": 4.0, "bytes": 10_000}, ("latency", 0.0025, None)),
        ({"us": 4.0, "bytes": 3_000_000}, ("memory", 0.75, None)),
        ({"us": 90.0, "calls": 10, "bytes": 10_000_000}, ("latency", 1 / 9, None)),
        ({"us": 100.0}, (None, None, None)),
        ({"us": 100.0, "kind": "copy"}, ("memory", None, None)),
        ({"us": 2.0, "kind": "copy"}, ("latency", None, None)),
        ({"us": 4.0}, ("latency", None, None)),
        ({"us": 100.0, "flops": 4_000_000_000, "dtype": "float32"}, ("compute", None, 0.8)),
        ({"us": 100.0, "flops": 4_000_000_000, "dtype": "bfloat16"}, (None, None, 0.08)),
        ({"us": 100.0, "flops": 4_000_000_000, "dtype": "float64"}, (None, None, None)),
        ({"us": 100.0, "flops": 1_500_000_000, "bytes": 70_000_000, "dtype": "float32"}, ("memory", 0.7, 0.3)),
        ({"us": 100.0, "kind": "communication", "bytes": 90_000_000}, ("communication", 0.9, None)),
    ],
)
def test_a_kernel_waits_for_what_it_comes_close_to(values, expected) -> None:
    bound, bandwidth, compute = verdict(**values)
    assert (bound, bandwidth, compute) == (expected[0], pytest.approx(expected[1]), pytest.approx(expected[2]))


def test_threads_of_a_cpu_take_longer_to_start() -> None:
    assert verdict(us=15.0, bytes=10_000)[0] is None
    assert verdict(us=15.0, bytes=10_000, device="cpu")[0] == "latency"
    alone = DEVICE.model_copy(update={"threads": 1})
    found = judged([seen(15.0, bytes=10_000), seen(1.5, bytes=10_000)], alone, "cpu")
    assert [each.bound_by for each in found] == [None, "latency"]


def test_convolutions_may_use_another_precision_than_products() -> None:
    given = {"us": 100.0, "flops": 10_000_000_000, "dtype": "float32"}
    assert verdict(**given, operations=("aten.convolution",))[2] == pytest.approx(0.5)
    assert verdict(**given, operations=("aten.mm",))[2] == pytest.approx(2.0)


def test_rates_need_no_calibration() -> None:
    (found,) = judged([seen(100.0, bytes=1_000_000, flops=2_000_000_000)], None, "cuda")
    assert (found.gb_per_s, found.tflops_per_s) == (pytest.approx(10.0), pytest.approx(20.0))
    assert (found.bandwidth_share, found.compute_share, found.bound_by) == (None, None, None)


def test_a_line_waits_for_what_most_of_its_time_does() -> None:
    line = ProfiledLine(file="m.py", line=1, text=None, forward_us=100.0, backward_us=0.0, share=0.1, kernels=(0, 1))
    stack = (factories.entry(1).model_copy(update={"file": "m.py"}),)
    parts = [
        TimePart(kernel=0, us=60.0, stack=stack, module=None),
        TimePart(kernel=1, us=40.0, stack=stack, module="a"),
    ]
    kernels = [seen(60.0, bound_by="memory"), seen(40.0, bound_by="compute")]
    assert with_bounds([line], parts, kernels)[0].bound_by == "memory"
    assert with_bounds([line], parts, [seen(60.0), kernels[1]])[0].bound_by is None


def call(times: tuple[float, ...] = (1000.0,), **more: Any) -> ProfileReport:
    kernels: tuple[ProfiledKernel, ...] = more.pop("kernels")
    total = sum(each.time_us for each in kernels)
    calls = CallTimes.of(times)
    assert calls is not None
    return profiled(
        **{"call_us": calls, "kernels": kernels, "kernels_us": total, "rest_us": max(0.0, calls.median - total)} | more
    )


def regime(report: ProfileReport, share: KernelShare | None = None, **known: Any) -> Regime:
    recording = factories.recording().model_copy(update={"kernels": share, **known})
    found = regime_of(report, recording, diagnose(recording, RULES, root=Path("/project"), version="0"))
    assert found is not None
    return found


def host(**more: Any) -> KernelShare:
    given: dict[str, Any] = {"device": "cuda", "call_us": 1000.0, "library_us": 200.0, "generated_us": 0.0}
    parts: dict[str, Any] = {"copy_us": 0.0, "launches": 40, "region_runs": 3, "region_us": 500.0, "outside_us": 100.0}
    return KernelShare(**given | parts | more)


def test_a_call_whose_device_waits_is_bound_by_the_host() -> None:
    few = call(kernels=(seen(200.0, bound_by="memory", bandwidth_share=0.6),))
    found = regime(few, host())
    assert found.bound_by == "host"
    assert found.text == (
        "Bound by the host: the device is idle for 80% of the call, 800 µs. 40 kernels of 3 compiled functions "
        "take 5 µs each."
    )
    assert found.evidence["host_share"] == pytest.approx(0.8)
    assert (found.evidence["launches"], found.evidence["rest_per_launch_us"]) == (40, 20.0)
    assert found.advice == (
        'Compile with mode="reduce-overhead": CUDA graphs launch all kernels of a graph at once.',
        "Do more in one call: use a larger batch.",
    )
    # What the host does outside of compiled code can be waiting for the device.
    assert regime(few, host(outside_us=900.0)).text == found.text


def test_on_a_cpu_the_hosts_time_is_whose_it_is() -> None:
    few = call(kernels=(seen(200.0, bound_by="memory", bandwidth_share=0.6),), device="cpu")
    compiled, own = regime(few, host()), regime(few, host(outside_us=900.0))
    assert "80% of the call is outside of kernels, 800 µs, most of it in running compiled code." in compiled.text
    assert "most of it in the program's own Python" in own.text
    assert own.advice[0] == "Move Python out of the call: most of the host's time is in none of the compiled functions."


def test_nothing_is_advised_that_is_on_or_cannot_be() -> None:
    few = call(kernels=(seen(200.0, bound_by="latency"),))
    for other in (
        few.model_copy(update={"device": "cpu"}),
        few.model_copy(update={"cuda_graphs": CudaGraphs(captured=1)}),
    ):
        assert regime(other, host()).advice == ("Do more in one call: use a larger batch.",)
    assert regime(few.model_copy(update={"device": "cpu"})).text == (
        "Bound by the host: 80% of the call is outside of kernels."
    )


def test_a_call_bound_by_memory() -> None:
    kernels = (
        seen(600.0, bound_by="memory", bandwidth_share=0.5),
        seen(200.0, bound_by="memory", bandwidth_share=0.9),
        seen(100.0, bound_by="compute", compute_share=0.9),
    )
    found = regime(call(kernels=kernels))
    assert (found.bound_by, found.text) == (
        "memory",
        "Bound by memory: kernels that wait for memory take 80% of the call, at 60% of the speed of a copy.",
    )
    assert not any("dtype" in each for each in found.advice)


def test_a_close_call_says_both() -> None:
    kernels = (
        seen(450.0, bound_by="compute", compute_share=0.7, dtype="float32"),
        seen(400.0, bound_by="memory", bandwidth_share=0.8),
    )
    found = regime(call(kernels=kernels), profiled=facts.profiled([]))
    assert found.text == (
        "Bound by compute: matrix products and convolutions take 45% of the call, at 70% of what this device reaches. "
        "Nearly as much: kernels that wait for memory take 40% of the call, at 80% of the speed of a copy."
    )
    assert found.advice[:2] == (
        "Use a smaller dtype: torch.autocast with bfloat16.",
        'Compile with mode="max-autotune": Inductor tries more kernels for matrix products.',
    )
    off = Float32Precision(matmul_tf32=False, convolution_tf32=True, capabilities=((8, 0),))
    tf32 = regime(call(kernels=kernels), profiled=facts.profiled([]), float32_precision=off)
    assert tf32.advice[0] == 'Let float32 products use TensorFloat32: torch.set_float32_matmul_precision("high").'


def test_convolutions_that_use_tensor_cores_already() -> None:
    on = Float32Precision(matmul_tf32=False, convolution_tf32=True, capabilities=((8, 0),))
    convolution = seen(800.0, bound_by="compute", compute_share=0.5, dtype="float32", operations=("aten.convolution",))
    found = regime(call(kernels=(convolution,)), profiled=facts.profiled([]), float32_precision=on)
    assert found.advice[0] == "Use a smaller dtype: torch.autocast with bfloat16."
    off = on.model_copy(update={"convolution_tf32": False})
    known = regime(call(kernels=(convolution,)), profiled=facts.profiled([]), float32_precision=off)
    assert known.advice[0] == "Let float32 convolutions use TensorFloat32: torch.backends.cudnn.allow_tf32 = True."


def test_short_kernels_and_communication() -> None:
    found = regime(call(kernels=(seen(700.0, bound_by="latency", calls=200),)))
    assert found.text == "Bound by latency: 200 kernels too short to use the device take 70% of the call, 3.5 µs each."
    waiting = regime(call(kernels=(seen(700.0, bound_by="communication"),)))
    assert waiting.text == "Bound by communication: passing tensors between processes takes 70% of the call."


def test_what_reaches_nothing_leaves_the_verdict_open() -> None:
    found = regime(call(kernels=(seen(600.0), seen(300.0, bound_by="memory", bandwidth_share=0.5))))
    assert found.bound_by is None
    assert found.text == (
        "Kernels that reach neither 25% of this device's bandwidth nor of its arithmetic take 60% of the call, so it "
        "is unknown what binds it. Besides, kernels that wait for memory take 30% of the call, at 50% of the speed of "
        "a copy."
    )
    assert found.advice == ()


def test_an_unsteady_calibration_judges_nothing() -> None:
    unsteady = DEVICE.model_copy(update={"is_steady": False})
    (found,) = judged([seen(100.0, bytes=60_000_000)], unsteady, "cuda")
    assert (found.bandwidth_share, found.bound_by) == (None, None)
    open_ = regime(call(kernels=(seen(700.0),), calibration=unsteady))
    assert (open_.bound_by, open_.text) == (
        None,
        "It is unknown what the call is bound by: 70% of it is in kernels, and what this device reaches couldn't be "
        "measured: other work kept the machine busy.",
    )
    # The host needs none.
    assert regime(call(kernels=(seen(300.0),), calibration=unsteady)).bound_by == "host"


@for_each("times", [(300.0,) * 3, (500.0, 1000.0, 3000.0)])
def test_a_disturbed_measurement_is_no_verdict(times: tuple[float, ...]) -> None:
    found = regime(call(times, kernels=(seen(600.0, bound_by="memory", bandwidth_share=0.5),)))
    assert found.bound_by is None
    assert "disturbed" in found.text


def test_calls_that_are_shorter_under_the_profiler_were_disturbed_without_it() -> None:
    found = regime(call(kernels=(seen(200.0, bound_by="memory", bandwidth_share=0.6),)), host(call_us=300.0))
    assert (found.bound_by, found.text) == (
        None,
        "It is unknown what the call is bound by: other work on the machine disturbed the measurement. Under the "
        "profiler a call took 300 µs, but calls without the profiler took 1 ms to 1 ms.",
    )


def test_without_kernels_nothing_is_known() -> None:
    found = regime(call(kernels=()).model_copy(update={"kernels_us": None, "rest_us": None}))
    assert found.text == "It is unknown what the call is bound by: the profiler saw no kernels."
    assert found.bound_by is None
