"""Reports of profiles, made by hand."""

from graphdoctor.facts.bench import CallTimes
from graphdoctor.facts.kernels import CacheUse, CodeLine, CudaGraphs, CudaGraphSkip
from graphdoctor.facts.profile import (
    Fusion,
    MemoryUse,
    ProfiledKernel,
    ProfiledLine,
    ProfiledModule,
    ProfileReport,
    Regime,
    SavedTensor,
    TimePart,
)
from graphdoctor.facts.profiled import Calibration
from graphdoctor.facts.recording import CaptureGap
from graphdoctor.facts.stack import StackEntry
from tests.studies.bench.reports import finding
from tests.studies.bench.reports import report as bench_report

FILE = "/project/model.py"


def entry(line, text, function="forward"):
    """A line of the program."""
    return StackEntry(file=FILE, line=line, function=function, text=text, origin="user")


def kernel(name, us, *lines, **more):
    """A kernel of a call of 1,000 µs."""
    given = {
        "kind": "pointwise",
        "phase": "forward",
        "operations": ("aten.gelu", "aten.mul"),
        "operation_count": 6,
        "calls": 1,
        "bytes": 1_048_576,
        "flops": None,
        "gb_per_s": 1_048_576 / us / 1e3,
        "bandwidth_share": 0.5,
        "bound_by": "memory",
        "compile_id": "0/0",
        "graph": 0,
    }
    places = tuple(CodeLine(file=FILE, line=line) for line in lines)
    return ProfiledKernel(
        **{"name": name, "time_us": us, "share": us / 1000, "lines": places} | given | more
    )


def profiled(**more):
    """A call of 1 ms of which 800 µs are in three kernels."""
    bench = bench_report()
    library = {"kind": "library", "operations": ("aten.addmm",), "operation_count": 1}
    kernels = (
        kernel(
            "extern_kernels.addmm",
            500.0,
            12,
            **library,
            flops=67_108_864,
            bound_by="compute",
            compute_share=0.7,
        ),
        kernel("triton_poi_fused_gelu_mul_0", 200.0, 13, 14),
        kernel("triton_red_fused_sum_1", 100.0, 13, kind="reduction", phase="backward"),
    )
    linear, gelu, scale = (
        entry(12, "y = self.a(x)"),
        entry(13, "y = gelu(y)"),
        entry(14, "return y * 2"),
    )
    given = {
        "graphdoctor_version": "0",
        "environment": bench.environment,
        "target": bench.target,
        "call": "x f32[128, 256]",
        "device": "cuda",
        "call_us": CallTimes(median=1000.0, q1=990.0, q3=1020.0, min=980.0, max=1100.0, mean=1003.0, count=50),
        "eager_us": CallTimes(median=1500.0, q1=1490.0, q3=1520.0, min=1480.0, max=1600.0, mean=1503.0, count=50),
        "kernels_us": 800.0,
        "regime": Regime(
            bound_by="compute",
            text="Bound by compute: matrix products take 50% of the call, at 70% of what this device reaches.",
            evidence={"compute_share": 0.5, "idle_share": 0.2},
            advice=("Use bfloat16: torch.autocast.",),
        ),
        "kernels": kernels,
        "lines": (
            ProfiledLine(
                file=FILE, line=12, text=linear.text, forward_us=500.0, backward_us=0.0, share=0.5, kernels=(0,),
                bound_by="compute",
            ),
            ProfiledLine(
                file=FILE, line=13, text=gelu.text, forward_us=150.0, backward_us=100.0, share=0.25, kernels=(1, 2),
                bound_by="memory",
            ),
            ProfiledLine(
                file=FILE, line=14, text=scale.text, forward_us=50.0, backward_us=0.0, share=0.05, kernels=(1,),
                bound_by="memory",
            ),
        ),
        "modules": (
            ProfiledModule(path="", forward_us=700.0, backward_us=100.0),
            ProfiledModule(path="a", forward_us=500.0, backward_us=0.0),
        ),
        "parts": (
            TimePart(kernel=0, us=500.0, stack=(linear,), module="a"),
            TimePart(kernel=1, us=150.0, stack=(gelu,), module=""),
            TimePart(kernel=1, us=50.0, stack=(scale,), module=""),
            TimePart(kernel=2, us=100.0, stack=(gelu,), module=""),
        ),
        "unattributed_us": 0.0,
        "rest_us": 200.0,
        "fusion": Fusion(
            operations=4, decomposed=8, kernels=3, vanished=5, vanished_bytes=2_621_440, eager_launches=9, launches=3
        ),
        "memory": MemoryUse(
            saved=(
                SavedTensor(
                    name="addmm", operation="aten.addmm", bytes=524_288, is_argument=False, file=FILE, line=12,
                    compile_id="0/0", tensor="f32[128, 1024]", module="a", is_cheap=False,
                ),
            ),
            saved_bytes=524_288,
            recomputed={"aten.gelu": 1},
            recomputed_count=1,
            peak_bytes=8_388_608,
            peak_of="allocator",
            before_bytes=1_048_576,
            unlisted_bytes=0,
            eager_saved_bytes=1_048_576,
            has_backward=True,
        ),
        "calibration": Calibration(
            device_name="NVIDIA H200", torch="2.13.0+cu128", precision="highest", copy_gb_per_s=4300.0,
            matmul_tflops_per_s={"float32": 50.0}, launch_us=2.5,
        ),
    }  # fmt: skip
    return ProfileReport(**given | more)


PACKAGE_FILE = "/home/me/env/lib/python3.12/site-packages/transformers/models/gpt2/modeling_gpt2.py"


def trained():
    """A training step with fourteen kernels, most of them at lines of a package, and something in
    every field."""
    entries = [
        StackEntry(
            file=PACKAGE_FILE, line=240 + number, function="forward", text=f"hidden_states = self.part{number}(x)",
            origin="third_party", package="transformers",
        )
        for number in range(13)
    ]  # fmt: skip
    fused = "triton_red_fused__to_copy_add_native_dropout_native_layer_norm_native_layer_norm_backward_view"
    names = (
        "aten.add",
        "aten.native_dropout",
        "aten.native_layer_norm",
        "aten._to_copy",
        "aten.view",
        "aten.mul",
    )
    kernels = tuple(
        kernel(
            f"{fused}_{number}", 60.0 - 4 * number, kind="reduction", operations=names, operation_count=9,
            phase="backward" if number % 2 else "forward", gb_per_s=3100.0, bandwidth_share=0.72, flops=None,
        ).replace(lines=(CodeLine(file=PACKAGE_FILE, line=entries[number].line),))
        for number in range(13)
    )  # fmt: skip
    kernels = (
        *kernels,
        kernel("Memcpy DtoD (Device -> Device)", 8.0, kind="copy", operations=(), compile_id=None),
    )
    times = [
        (each.time_us, 0.0) if each.phase == "forward" else (0.0, each.time_us) for each in kernels
    ]
    lines = tuple(
        ProfiledLine(
            file=entry.file, line=entry.line, text=entry.text, forward_us=forward, backward_us=backward,
            share=(forward + backward) / 1000, kernels=(number,), bound_by="memory",
        )
        for number, (entry, (forward, backward)) in enumerate(zip(entries, times[:-1], strict=True))
    )  # fmt: skip
    modules = (
        ("", 14),
        ("transformer", 14),
        ("transformer.h", 12),
        ("transformer.h.0", 7),
        ("transformer.h.1", 5),
    )
    small = SavedTensor(name="view", operation=None, bytes=1024, is_argument=False)
    return profiled(
        target=bench_report().target.replace(text="train.py", class_name="GPT2LMHeadModel"),
        regime=Regime(
            bound_by="host",
            text="Bound by the host: the device is idle for 55% of the call, which launches 14 kernels.",
            evidence={"idle_share": 0.55},
            advice=("Compile with `mode=\"reduce-overhead\"`.", "Use a larger batch."),
        ),
        kernels=kernels,
        lines=lines,
        modules=tuple(
            ProfiledModule(path=path, forward_us=20.0 * count, backward_us=10.0 * count) for path, count in modules
        ),
        parts=tuple(
            TimePart(
                kernel=number,
                us=each.time_us,
                stack=(entries[number],),
                module=f"transformer.h.{number % 2}.part{number}",
            )
            for number, each in enumerate(kernels[:-1])
        ),
        kernels_us=476.0,
        unattributed_us=8.0,
        rest_us=524.0,
        memory=MemoryUse(
            saved=(
                SavedTensor(
                    name="gelu", operation="aten.gelu", bytes=8_388_608, is_argument=False, file=PACKAGE_FILE,
                    line=242, tensor="f32[8, 64, 512]", count=8, is_cheap=True,
                ),
                SavedTensor(name="primals_1", operation=None, bytes=4096, is_argument=True),
                *(small for _ in range(4)),
            ),
            saved_bytes=8_392_704,
            recomputed={"aten.gelu": 2, "aten.mul": 1},
            recomputed_count=3,
            peak_bytes=33_554_432,
            peak_of="process",
            unlisted_bytes=2048,
            has_backward=True,
        ),
        cuda_graphs=CudaGraphs(
            captured=1,
            skipped=(
                CudaGraphSkip(kind="mutation", reason="mutated inputs (1 instances)", file="/project/train.py", line=8),
            ),
        ),
        graph_launches=2,
        graph_input_copy_us=85.0,
        caches=CacheUse(hits=0, misses=1, bypasses=1, bypass_reasons=("a custom operator",)),
        compile_s=9.4,
        findings=(finding("GD402", "running 1 compiled function with 14 kernels takes 55% of a steady call"),),
        gaps=(CaptureGap(code="GD900", message="The backward pass was profiled only once."),),
    )  # fmt: skip
