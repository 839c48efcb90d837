"""Where the time of a steady call goes, kernel by kernel."""

import json
import re
import sys
from dataclasses import replace
from unittest.mock import Mock

import pytest
import torch

from graphdoctor.probe.measure.kernels import (
    CALL_RANGE,
    MeasuredKernels,
    calls_in,
    device_us,
    is_disturbed,
    short_name,
)
from graphdoctor.probe.torch_private.torch_kernels import ProfiledEvent, operator_role
from graphdoctor.probe.wire import TRACE_FOLDER
from graphdoctor.trace.grammar import LogDamage, read_records
from graphdoctor.trace.logs import find_logs
from graphdoctor.trace.reader import read_recording
from graphdoctor.trials.launch.request import Measured
from tests.conftest import clean_environment, run_script
from tests.each import for_each
from tests.recorded import recorded as record_program
from tests.sections import texts_beside

KERNELS = Measured(kernels=True)
REGION = "Torch-Compiled Region: 0/0"


def host(name, start, end, **values):
    """An event on the host, in microseconds."""
    return ProfiledEvent(
        name, values.pop("thread", 1), start * 1000, (end - start) * 1000, **values
    )


def device(name, start, end, launched_by=0, **values):
    return host(name, start, end, thread=7, is_on_device=True, launched_by=launched_by, **values)


def share(*events, has_device=False):
    """Of a call with these events, some of which are texts: name, begin and end."""
    (only,) = calls_in([host(CALL_RANGE, 0, 100), *map(read, events)], has_device=has_device)
    return only.share()


def read(event):
    if not isinstance(event, str):
        return event
    name, begin, end = event.rsplit(" ", 2)
    return host(name, int(begin), int(end))


def times(measured):
    return measured.library_us, measured.generated_us, measured.copy_us, measured.launches


COPY = "aten::copy_ 20 25"
ON_A_CPU = {
    "what an operation calls counts once": (
        [
            "aten::linear 10 50",
            "aten::t 11 13",
            "aten::addmm 15 45",
            COPY,
            "aten::reshape 60 70",
            "aten::clone 61 69",
            "aten::empty_like 62 63",
            "aten::copy_ 64 68",
        ],
        (30.0, 0.0, 4.0, 2),
    ),
    "an operation that computes without calling another is a kernel": (
        ["aten::convolution 10 50", "aten::mkldnn_convolution 12 40"],
        (28.0, 0.0, 0.0, 1),
    ),
    "an operation that calls others only to prepare is a kernel": (
        [
            "aten::convolution_backward 10 90",
            "aten::empty 11 12",
            "aten::to 70 76",
            "aten::_to_copy 71 75",
            "aten::copy_ 72 74",
        ],
        (80.0, 0.0, 0.0, 1),
    ),
    "an operation may take long to call": (["aten::clone 15 30", COPY], (0.0, 0.0, 5.0, 1)),
    "ranges and views are no kernels": (
        ["my::range 10 50", "aten::view 11 12", "step 20 40", "aten::relu 21 30"],
        (9.0, 0.0, 0.0, 1),
    ),
    "what passes tensors between processes is communication": (
        [
            "_c10d_functional::all_reduce_ 10 40",
            "c10d::allreduce_ 12 30",
            "_c10d_functional::wait_tensor 50 60",
            "aten::mm 70 75",
        ],
        (5.0, 0.0, 0.0, 3),
    ),
    "time that threads share counts once": (
        [
            "aten::mm 10 50",
            host("aten::relu", 30, 70, thread=2),
            host("aten::sin", 20, 40, thread=3),
        ],
        (60.0, 0.0, 0.0, 3),
    ),
}


def test_on_a_cpu_the_outermost_operations_that_compute_are_kernels():
    measured = {name: share(*events) for name, (events, _) in ON_A_CPU.items()}
    assert {name: times(kernel) for name, kernel in measured.items()} == {
        name: kernel for name, (_, kernel) in ON_A_CPU.items()
    }
    communication = measured["what passes tensors between processes is communication"]
    assert communication.communication_us == 40.0
    threads = measured["time that threads share counts once"].largest
    assert [(kernel.name, kernel.us) for kernel in threads] == [
        ("aten::mm", 40),
        ("aten::relu", 20),
        ("aten::sin", 0),
    ]


def test_generated_kernels_and_the_overhead_around_them():
    measured = share(
        "TorchDynamo Cache Lookup 10 15",
        f"{REGION} 20 60",
        "graph_0_cpp_fused_add_0 30 40",
        "aten::mm 45 50",
        "aten::relu 70 80",
    )
    assert times(measured) == (15.0, 10.0, 0.0, 3)
    of_regions = measured.region_runs, measured.region_us, measured.outside_us
    assert of_regions == (1, 5.0 + 40.0 - 15.0, 45.0)


RUN = "graphdoctor_inductor 0 forward"
LOOKUP = "TorchDynamo Cache Lookup"
BROKEN = {
    "a print between two graphs": (
        [f"{REGION} 10 90", f"{RUN} 16 30", "aten::abs 40 50", f"{LOOKUP} 60 62", f"{REGION} 63 80"],
        (80 - 30, 20 + 20),
    ),
    "the graph of a training step is in a function of AOTAutograd's": (
        [f"{REGION} 10 90", "CompiledFunction 12 34", f"{RUN} 16 30", f"{LOOKUP} 60 62"],
        (80 - 26, 20 + 26),
    ),
    "two breaks": (
        [
            f"{REGION} 10 90", f"{RUN} 12 20", f"{LOOKUP} 30 31", f"{REGION} 32 40",
            f"{LOOKUP} 60 62", f"{REGION} 63 80",
        ],
        (80 - 10 - 20, 20 + 30),
    ),
    "what a graph's end leads to": ([f"{REGION} 10 90", f"{RUN} 16 30"], (80, 20)),
    "a function without a graph": ([f"{REGION} 10 90", f"{LOOKUP} 60 62"], (80, 20)),
    "a graph of another function": (
        [f"{REGION} 10 30", f"{RUN} 12 20", f"{LOOKUP} 60 62", f"{REGION} 63 80"],
        (20 + 2 + 17, 61),
    ),
}  # fmt: skip


@for_each("events, expected", BROKEN.values())
def test_what_runs_at_a_graph_break_is_the_programs_own(events, expected):
    measured = share(*events)
    assert (measured.region_us, measured.outside_us) == expected


def test_on_a_gpu_what_runs_on_the_device_counts():
    measured = share(
        host("aten::mm", 1, 5, number=1),
        host("aten::copy_", 6, 8, number=2),
        host("cudaGraphLaunch", 9, 10, launched_by=3),
        host(REGION, 6, 11, number=3),
        host("aten::_foreach_copy_", 7, 8, number=4),
        device(REGION, 0, 90, 3, is_range=True),
        device("void gemm<float>(int)", 10, 30, 1),
        device("triton_poi_fused_add_0", 35, 45, 3),
        device("Memcpy HtoD (Pageable -> Device)", 50, 55, 2),
        device("void at::native::elementwise_kernel<128>()", 60, 61, 2),
        device("void at::native::multi_tensor_apply<3>()", 70, 72, 4),
        has_device=True,
    )
    assert times(measured) == (20.0, 10.0, 8.0, 5)
    assert (measured.graph_launches, measured.graph_input_copy_us) == (1, 2.0)
    assert (measured.region_us, measured.outside_us, measured.device) == (5.0, 95.0, "cuda")
    unseen = share("aten::mm 1 5", has_device=True)
    assert times(unseen) == (None, None, None, None)


class Profiler:
    """Stands for torch's, which sees the calls that are made meanwhile on the device."""

    def __init__(self, **_given):
        self.begun = len(MADE)

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        # Two streams share 5 of 25 µs; a range of the program's is no work.
        self.events = [host("cudaLaunchKernel", 0, 90), device("forward", 0, 90, is_range=True)]
        for at in range(self.begun * 100, len(MADE) * 100, 100):
            self.events += [device(name, at + start, at + end) for name, start, end in OF_CALL]


MADE = []
OF_CALL = (("gemm", 10, 25), ("relu", 20, 30), ("sum", 50, 55))


@for_each("restores, is_seen", [(False, True), (True, True), (False, False)])
def test_the_devices_part_is_the_time_with_any_kernel(restores, is_seen, monkeypatch):
    MADE.clear()
    restored = []
    monkeypatch.setattr("graphdoctor.probe.measure.kernels.profile", Profiler)
    events = (lambda profiler: profiler.events) if is_seen else (lambda _profiler: [])
    monkeypatch.setattr("graphdoctor.probe.measure.kernels.profiled_events", events)
    us = device_us(
        lambda: MADE.append(None), (lambda: restored.append(None)) if restores else None, 0.02
    )
    assert us == (25.0 if is_seen else None)
    assert (len(MADE), len(restored)) == ((2, 2) if restores else (6, 0))


def test_a_program_that_profiles_itself_leaves_the_devices_part_unknown(monkeypatch):
    profile = Mock(side_effect=RuntimeError("Profiler is already enabled on this thread"))
    monkeypatch.setattr("graphdoctor.probe.measure.kernels.profile", profile)
    assert device_us(list, None, 0.01) is None


def test_waiting_for_the_device_is_nobodys_python():
    measured = share(
        "graphdoctor_empty_call 200 212",
        "cudaDeviceSynchronize 202 211",
        host(REGION, 6, 16, number=3),
        "cudaStreamSynchronize 8 10",
        "cudaDeviceSynchronize 20 90",
        device("triton_poi_fused_add_0", 15, 85, 3),
        has_device=True,
    )
    assert (measured.region_us, measured.outside_us) == (8.0, 100.0 - 10.0 - 70.0 - 3.0)


def test_communication_is_known_by_name_and_by_its_launcher():
    measured = share(
        host("_c10d_functional::all_gather_into_tensor", 1, 9, number=1),
        host("nccl:all_gather", 2, 8, number=2),
        host("aten::copy_", 11, 12, number=3),
        device("Memcpy DtoD (Device -> Device)", 10, 14, 2),
        device("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 20, 50),
        device("Memcpy DtoD (Device -> Device)", 60, 61, 3),
        has_device=True,
    )
    assert (measured.communication_us, measured.copy_us, measured.library_us) == (34.0, 1.0, 0.0)


def seen(ends, *, was_held_up=False):
    """A call with one kernel, which ends so late."""
    (call,) = calls_in([host(CALL_RANGE, 0, ends + 1), host("aten::mm", 0, ends)], has_device=False)
    return replace(call, was_held_up=was_held_up)


def test_a_kernels_time_is_the_median_of_undisturbed_calls():
    held_up = [seen(90, was_held_up=True), seen(95, was_held_up=True), seen(99, was_held_up=True)]
    measured = MeasuredKernels([seen(10), seen(12), *held_up, seen(14)], [1.0])
    assert [kernel.us for kernel in measured.runs()[1]] == [12.0]
    too_few = MeasuredKernels([seen(10), seen(12), *held_up], [1.0])
    assert [kernel.us for kernel in too_few.runs()[1]] == [90.0]


@for_each("call_us, expected", [(190.0, False), (650.0, False), (750.0, True)])
def test_a_call_that_other_work_made_long_is_known(call_us, expected):
    assert (
        is_disturbed(share("aten::mm 1 5").replace(unprofiled_us=100.0, call_us=call_us))
        == expected
    )


def test_kernels_of_each_call_are_its_own():
    first, second = calls_in(
        [
            host(CALL_RANGE, 0, 10),
            host("aten::mm", 2, 5),
            host(CALL_RANGE, 20, 40),
            host("aten::mm", 22, 32),
        ],
        has_device=False,
    )
    assert (times(first.share())[0], times(second.share())[0]) == (3.0, 10.0)


@for_each(
    "name, shown",
    [
        (
            "void at::native::(anonymous namespace)::softmax<4>(float*)",
            "at::native::(anonymous namespace)::softmax",
        ),
        ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"),
        ("Memcpy DtoD (Device -> Device)", "Memcpy DtoD (Device -> Device)"),
        ("aten::addmm", "aten::addmm"),
    ],
)
def test_names_without_template_arguments(name, shown):
    assert short_name(name) == shown


@for_each(
    "role, names",
    [
        ("kernel", "mul addmm bmm _softmax sum native_layer_norm index cat fill_ all max"),
        ("copy", "copy_ _foreach_copy_"),
        (
            "calls",
            "linear matmul clone _to_copy conv2d convolution mkldnn_convolution embedding zeros softmax",
        ),
        (
            "none",
            "view reshape to expand t transpose empty empty_strided resize_ item detach _unsafe_view as_strided_",
        ),
    ],
)
def test_what_operations_do(role, names):
    assert {name: operator_role(f"aten::{name}") for name in names.split()} == dict.fromkeys(
        names.split(), role
    )
    assert operator_role("graph_0_cpp_fused_add_0") == operator_role("no::such_operation") == "none"


def test_a_custom_operation_is_one_kernel_whatever_it_calls():
    library = torch.library.Library("kernels_of_tests", "FRAGMENT")
    library.define("wait(Tensor x) -> Tensor")
    library.define("together(Tensor x) -> Tensor")
    library.impl("wait", lambda x: x.clone(), "CompositeExplicitAutograd")
    library.impl("together", lambda x: x.clone(), "CompositeImplicitAutograd")
    assert operator_role("kernels_of_tests::wait") == "kernel"
    assert operator_role("kernels_of_tests::together") == "calls"


PROGRAM, INDEPENDENT, DISTRIBUTED = texts_beside(__file__)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels")
    record_program(
        folder, PROGRAM, KERNELS, name="f", backend="inductor", mode="reduce-overhead", no_grad=True
    )
    return folder


@pytest.fixture(scope="module")
def recorded(folder):
    return read_recording(folder / "recording")


@pytest.mark.slow
def test_a_collective_of_a_compiled_function_is_communication(tmp_path):
    kernels = read_recording(
        record_program(tmp_path, DISTRIBUTED, KERNELS, name="f", backend="eager")
    ).kernels
    assert kernels is not None
    kinds = {kernel.name: kernel.kind for kernel in kernels.largest}
    assert (
        kinds["_c10d_functional::all_reduce"]
        == kinds["_c10d_functional::wait_tensor"]
        == "communication"
    )
    assert kinds["aten::sin"] == "library"


def output_code(recording):
    """The function that runs the kernels, as Inductor wrote it."""
    for log in find_logs(recording / TRACE_FOLDER):
        with log.open() as lines:
            for record in read_records(
                lines, lambda kind: kind == "inductor_output_code", LogDamage()
            ):
                return (record.payload or "").partition("def call(")[2].partition("\ndef ")[0]
    raise AssertionError("no output code")


@pytest.mark.slow
def test_kernels_and_the_rest_are_the_call(folder, recorded):
    share = recorded.kernels
    assert share is not None
    assert share.kernels_us is not None
    assert share.rest_us is not None
    assert share.rest_us > 0
    assert min(share.library_us or 0, share.generated_us or 0) > 0
    assert sum(kernel.us for kernel in share.largest) == pytest.approx(share.kernels_us)
    assert share.kernels_us + share.rest_us == pytest.approx(share.call_us)
    assert (share.region_runs, share.device, share.graph_launches) == (1, "cpu", 0)
    assert share.unprofiled_us is not None
    assert share.overhead_us is not None
    assert 0 <= share.overhead_us <= share.region_us < share.call_us
    # What was measured is no setting of the program, and one graph asks the caches once.
    assert "enable_kernel_profile" not in (folder / "recording" / "probe.jsonl").read_text()
    assert recorded.caches is not None
    assert recorded.caches.hits + recorded.caches.misses + recorded.caches.bypasses == 1


@pytest.mark.slow
def test_kernels_match_generated_code_and_another_profiler(folder, recorded):
    assert recorded.kernels is not None
    counts = {kernel.name: kernel.count for kernel in recorded.kernels.largest}
    pattern = r"^\s+(?:\w+ = )?(cpp_\w+|extern_kernels\.\w+|torch\.ops\.aten\.\w+(?:\.\w+)?)\("
    calls = re.findall(pattern, output_code(folder / "recording"), re.MULTILINE)
    assert recorded.kernels.launches == len(calls) == sum(counts.values())
    (folder / "independent.py").write_text(INDEPENDENT)
    counted = json.loads(
        run_script(folder / "independent.py", cwd=folder, env=clean_environment()).stdout
    )
    assert counts == {
        name: count
        for name, count in counted.items()
        if operator_role(name) != "none" or "cpp" in name
    }


@pytest.mark.slow
def test_cuda_graphs_without_cuda_are_skipped_for_that_reason(recorded):
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_available():
        pytest.skip("there is a CUDA device")
    assert recorded.cuda_graphs is not None
    assert recorded.cuda_graphs.captured == 0
    (skip,) = recorded.cuda_graphs.skipped
    assert (skip.kind, skip.reason) == ("no_device", "there is no CUDA device")
