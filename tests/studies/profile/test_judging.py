"""What kernels and calls wait for, from hand-built facts."""

import pytest

from graphdoctor.facts.bench import CallTimes
from graphdoctor.facts.kernels import CudaGraphs, Float32Precision, KernelShare
from graphdoctor.facts.profile import ProfiledLine, TimePart
from graphdoctor.facts.profiled import Calibration
from graphdoctor.studies.profile.regime import judged, regime_of, with_bounds
from tests import factories
from tests.each import for_each
from tests.factories import diagnosed
from tests.studies.profile import facts
from tests.studies.profile.reports import kernel, profiled

DEVICE = Calibration(
    device_name="a GPU",
    torch="2.13.0",
    precision="highest",
    copy_gb_per_s=1000.0,
    matmul_tflops_per_s={"float32": 50.0, "bfloat16": 500.0, "tf32": 200.0},
    elementwise_g_per_s={"mul": 10_000.0, "erf": 1_000.0},
    cache_bytes=10_000_000,
)


def seen(us, **more):
    """A kernel that nobody judged yet."""
    given = {"bytes": None, "gb_per_s": None, "bandwidth_share": None, "bound_by": None}
    given["operations"] = ("aten.mul", "aten.add")
    return kernel("triton_poi_fused_0", us, 12, **given | more)


def verdict(device="cuda", **values):
    (found,) = judged([seen(**values)], DEVICE, device)
    return found.bound_by, found.bandwidth_share, found.compute_share


@for_each(
    "values, expected",
    [
        # 1,000 GB/s are a million bytes in a millisecond.
        ({"us": 100.0, "bytes": 70_000_000}, ("memory", 0.7, None)),
        # Nor one that a copy outdoes by half: a GPU's memory is then busy for less than 60% of the
        # time.
        ({"us": 100.0, "bytes": 69_000_000}, (None, 0.69, None)),
        # A kernel that comes close to nothing is bound by nothing.
        ({"us": 100.0, "bytes": 50_000_000}, (None, 0.5, None)),
        ({"us": 100.0, "bytes": 50_000_000, "device": "cpu"}, ("memory", 0.5, None)),
        # A kernel of much arithmetic isn't bound by memory: half a billion are half of a device's
        # time, and more.
        (
            {
                "us": 100.0,
                "bytes": 70_000_000,
                "elementwise": {"erf": 60_000_000, "add": 200_000_000},
            },
            ("arithmetic", 0.7, None),
        ),
        # What isn't measured takes at least as long as what is simple.
        ({"us": 100.0, "elementwise": {"lgamma": 500_000_000}}, (None, None, None)),
        ({"us": 100.0, "elementwise": {"lgamma": 700_000_000}}, ("arithmetic", None, None)),
        # What a GPU's cache can hold needn't come from its memory.
        ({"us": 12.0, "bytes": 10_000_000}, ("memory", 0.833333, None)),
        ({"us": 12.0, "bytes": 7_000_000}, (None, 0.583333, None)),
        ({"us": 7.0, "bytes": 7_000_000}, ("latency", 1.0, None)),
        ({"us": 70.0, "bytes": 70_000_000, "calls": 10}, ("latency", 1.0, None)),
        ({"us": 100.0, "kind": "copy"}, ("memory", None, None)),
        ({"us": 2.0, "kind": "copy"}, ("latency", None, None)),
        ({"us": 100.0, "flops": 4_000_000_000, "dtype": "float32"}, ("compute", None, 0.8)),
        ({"us": 100.0, "flops": 4_000_000_000, "dtype": "bfloat16"}, (None, None, 0.08)),
        (
            {"us": 100.0, "flops": 1_500_000_000, "bytes": 70_000_000, "dtype": "float32"},
            ("memory", 0.7, 0.3),
        ),
        ({"us": 100.0, "kind": "communication", "bytes": 90_000_000}, ("communication", 0.9, None)),
    ],
)
def test_a_kernel_waits_for_what_it_comes_close_to(values, expected):
    bound, bandwidth, compute = verdict(**values)
    assert (bound, bandwidth, compute) == (
        expected[0],
        pytest.approx(expected[1]),
        pytest.approx(expected[2]),
    )


def test_parameters_that_no_cache_holds_come_from_memory():
    # As a language model that makes one token after another: each kernel reads weights of its own.
    layer = {"bytes": 7_000_000, "argument_bytes": 6_500_000}
    few, many = ([seen(9.0, **layer) for _ in range(count)] for count in (1, 3))
    assert [each.bound_by for each in judged(few, DEVICE, "cuda")] == ["latency"]
    assert [each.bound_by for each in judged(many, DEVICE, "cuda")] == ["memory"] * 3
    written = [seen(9.0, **layer | {"argument_bytes": 1_000_000}) for _ in range(12)]
    assert {each.bound_by for each in judged(written, DEVICE, "cuda")} == {"latency"}


def test_threads_of_a_cpu_take_longer_to_start():
    assert verdict(us=15.0, bytes=10_000)[0] is None
    assert verdict(us=15.0, bytes=10_000, device="cpu")[0] == "latency"
    alone = DEVICE.replace(threads=1)
    found = judged([seen(15.0, bytes=10_000), seen(1.5, bytes=10_000)], alone, "cpu")
    assert [each.bound_by for each in found] == [None, "latency"]


def test_a_line_waits_for_what_most_of_its_time_does():
    line = ProfiledLine(
        file="m.py", line=1, text=None, forward_us=100.0, backward_us=0.0, share=0.1, kernels=(0, 1)
    )
    stack = (factories.entry(1).replace(file="m.py"),)
    parts = [
        TimePart(kernel=0, us=60.0, stack=stack, module=None),
        TimePart(kernel=1, us=40.0, stack=stack, module="a"),
    ]
    kernels = [seen(60.0, bound_by="memory"), seen(40.0, bound_by="compute")]
    assert with_bounds([line], parts, kernels)[0].bound_by == "memory"
    assert with_bounds([line], parts, [seen(60.0), kernels[1]])[0].bound_by is None


def call(times=(1000.0,), **more):
    kernels = more.pop("kernels")
    total = sum(each.time_us for each in kernels)
    calls = CallTimes.of(times)
    return profiled(
        **{
            "call_us": calls,
            "kernels": kernels,
            "kernels_us": total,
            "rest_us": max(0.0, calls.median - total),
        }
        | more
    )


def regime(report, share=None, **known):
    recording = factories.recording().replace(
        **({"kernels": share, "profiled": facts.profiled([])} | known)
    )
    found = regime_of(report, recording, diagnosed(recording))
    assert found is not None
    return found


def host(**more):
    given = {"device": "cuda", "call_us": 1000.0, "library_us": 200.0, "generated_us": 0.0}
    parts = {
        "copy_us": 0.0,
        "launches": 40,
        "region_runs": 3,
        "region_us": 500.0,
        "outside_us": 100.0,
    }
    return KernelShare(**given | parts | more)


def few(bound="memory", **more):
    return call(kernels=(seen(200.0, bound_by=bound, bandwidth_share=0.6),), **more)


def precision(**more):
    given = {"matmul_tf32": False, "convolution_tf32": True, "capabilities": ((8, 0),)}
    return {"float32_precision": Float32Precision(**given | more)}


CLOSE = call(
    kernels=(
        seen(450.0, bound_by="compute", compute_share=0.7, dtype="float32"),
        seen(400.0, bound_by="memory", bandwidth_share=0.8),
    )
)
CONVOLUTION = call(
    kernels=(
        seen(
            800.0,
            bound_by="compute",
            compute_share=0.5,
            dtype="float32",
            operations=("aten.convolution",),
        ),
    )
)
MEMORY = (
    seen(600.0, bound_by="memory", bandwidth_share=0.5),
    seen(200.0, bound_by="memory", bandwidth_share=0.9),
    seen(100.0, bound_by="compute", compute_share=0.9),
)
ARITHMETIC = (
    seen(
        500.0,
        bound_by="arithmetic",
        arithmetic_share=0.7,
        elementwise={"erf": 9_000_000, "mul": 10_000_000},
    ),
    seen(200.0, bound_by="arithmetic", arithmetic_share=0.9, elementwise={"mul": 70_000_000}),
    seen(100.0, bound_by="memory", bandwidth_share=0.9),
)
UNSTEADY = DEVICE.replace(is_steady=False)
UNSEEN = {"kernels_us": None, "rest_us": None}


def test_what_a_call_is_bound_by_and_what_helps(snapshot):
    regimes = {
        "the device waits": regime(few(), host()),
        # What the host does outside of compiled code can be waiting for the device.
        "the device waits for all else": regime(few(), host(outside_us=900.0)),
        "on a CPU, running compiled code": regime(few(device="cpu"), host()),
        "on a CPU, the program's own Python": regime(few(device="cpu"), host(outside_us=900.0)),
        "CUDA graphs on already": regime(
            few("latency", cuda_graphs=CudaGraphs(captured=1)), host()
        ),
        "memory": regime(call(kernels=MEMORY)),
        "two nearly as much": regime(CLOSE),
        "products without TF32": regime(CLOSE, **precision()),
        "convolutions without TF32": regime(CONVOLUTION, **precision(convolution_tf32=False)),
        "short kernels": regime(call(kernels=(seen(700.0, bound_by="latency", calls=200),))),
        "communication": regime(call(kernels=(seen(700.0, bound_by="communication"),))),
        "kernels that reach nothing": regime(
            call(kernels=(seen(600.0), seen(300.0, bound_by="memory", bandwidth_share=0.5)))
        ),
        "kernels that reach little": regime(
            call(kernels=(seen(600.0, bandwidth_share=0.35), seen(300.0, compute_share=0.1)))
        ),
        "arithmetic": regime(call(kernels=ARITHMETIC, calibration=DEVICE)),
        "arithmetic beyond what was measured": regime(
            call(kernels=(seen(900.0, bound_by="arithmetic", arithmetic_share=1.7),))
        ),
        "an unsteady calibration": regime(call(kernels=(seen(700.0),), calibration=UNSTEADY)),
        "kernels that take longer than the call": regime(call((300.0,) * 3, kernels=MEMORY[:1])),
        "calls that scatter": regime(call((500.0, 1000.0, 3000.0), kernels=MEMORY[:1])),
        "calls that are shorter under the profiler": regime(few(), host(call_us=300.0)),
        "no kernels": regime(call(kernels=()).replace(**UNSEEN)),
    }
    assert {
        name: (found.bound_by, found.text, list(found.advice)) for name, found in regimes.items()
    } == snapshot
    evidence = regimes["the device waits"].evidence
    assert evidence["host_share"] == pytest.approx(0.8)
    assert (evidence["launches"], evidence["rest_per_launch_us"]) == (40, 20.0)
