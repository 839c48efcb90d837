"""Hand-built reports of benches, for tests of what is said of them."""

from graphdoctor.facts.bench import (
    EAGER,
    BenchReport,
    BenchVerdict,
    BreakEven,
    CallTimes,
    Correctness,
    Noise,
    ResultError,
    Speedup,
    StageResult,
    Stages,
    Throughput,
    Variant,
    Workaround,
)
from graphdoctor.facts.diagnosis import Cost, Finding
from graphdoctor.facts.fixes import Fix
from graphdoctor.facts.kernels import CacheUse, CudaGraphs, CudaGraphSkip, KernelShare, KernelTime
from graphdoctor.facts.recording import CaptureGap, Environment, TargetInfo
from graphdoctor.facts.stack import StackEntry

QUIET = Noise(ratio=1.0, spread=0.012, is_noisy=False)
NOISY = Noise(ratio=1.08, spread=0.31, is_noisy=True)
H100 = Environment(
    python="3.12.3",
    torch="2.11.0+cu128",
    torch_build="CUDA 12.8",
    platform="Linux-6.1-x86_64",
    device_name="NVIDIA H100 80GB HBM3",
)
CPU = Environment(
    python="3.11.7", torch="2.13.0+cpu", torch_build="CPU", platform="Linux-6.1-x86_64"
)
EXACT = Correctness(
    is_bitwise_equal=True,
    is_eager_repeatable=True,
    errors=(ResultError(kind="outputs", variant=1.31e-7, eager=1.31e-7),),
)
ROUNDED = Correctness(
    is_bitwise_equal=False,
    is_eager_repeatable=True,
    errors=(
        ResultError(kind="outputs", variant=1.52e-7, eager=1.31e-7),
        ResultError(kind="gradients", variant=3.9e-7, eager=4.2e-7),
    ),
)
WRONG = Correctness(
    is_bitwise_equal=False,
    is_eager_repeatable=True,
    errors=(ResultError(kind="outputs", variant=0.021, eager=1.31e-7),),
    where="outputs[0]",
    largest=0.413,
)


def finding(code, message, *, call_us=None, **more):
    """One reason why a variant isn't faster."""
    return Finding(
        code=code,
        rule="rule",
        severity="info",
        message=message,
        location=StackEntry(
            file="model.py",
            line=14,
            function="Attention.forward",
            text="w = q @ k.mT / d",
            indent=8,
        ),
        count=1,
        cost=None if call_us is None else Cost(call_us=call_us, call_from="gap"),
        fingerprint=f"{abs(hash(message)):016x}"[:16],
        **more,
    )


def calls(median_us, spread=0.01):
    """Calls whose quartiles are ``spread`` of their median apart."""
    low, high = median_us * (1 - spread / 2), median_us * (1 + spread / 2)
    return CallTimes(
        median=median_us,
        q1=low,
        q3=high,
        min=low * 0.99,
        max=high * 1.3,
        mean=median_us * 1.01,
        count=640,
    )


def eager(median_us=5220.0, **more):
    """Eager mode."""
    values = {
        "correct": True,
        "call_us": calls(median_us),
        "speedup": Speedup(ratio=1.0, low=0.997, high=1.003, rounds=32),
        "judgement": "same",
        "throughput": 32e6 / median_us,
        "peak_memory_bytes": 812_400_000,
        "launches": 153,
    }
    return Variant(name=EAGER, arguments={}, status="ok", **values | more)


def variant(
    name="default",
    median_us=3560.0,
    *,
    eager_us=5220.0,
    cold_s=28.4,
    spread=0.01,
    judgement=None,
    **more,
):
    """A variant that ran, with all that follows from its times."""
    ratio = eager_us / median_us
    low, high = ratio * (1 - spread), ratio * (1 + spread)
    judged = judgement or ("faster" if low > 1 else "slower" if high < 1 else "same")
    key, _, value = name.partition("=")
    warm_s = None if cold_s is None else cold_s / 4
    cold, warm = (
        _break_even(eager_us, low, ratio, high, cold_s),
        _break_even(eager_us, low, ratio, high, warm_s),
    )
    values = {
        "arguments": {key: value} if value else {},
        "status": "ok",
        "correct": True,
        "correctness": ROUNDED,
        "compile_cold_s": cold_s,
        "compile_warm_s": warm_s,
        "cache": CacheUse(hits=1, misses=0, bypasses=0),
        "call_us": calls(median_us),
        "speedup": Speedup(ratio=ratio, low=low, high=high, rounds=32),
        "judgement": judged,
        "break_even_calls": cold.calls if cold and judged == "faster" else None,
        "break_even_cold": cold if judged == "faster" else None,
        "break_even_warm": warm if judged == "faster" else None,
        "throughput": 32e6 / median_us,
        "peak_memory_bytes": 774_100_000,
        "graphs": 1,
        "break_sites": 0,
        "recompiles": 0,
        "launches": 96,
    }
    return Variant(name=name, **values | more)


def _break_even(eager_us, low, ratio, high, compile_s):
    if compile_s is None:
        return None
    counts = [
        round(compile_s * 1e6 / (eager_us * (1 - 1 / each))) if each > 1 else None
        for each in (ratio, high, low)
    ]
    if counts[0] is None or counts[1] is None:
        return None
    return BreakEven(calls=counts[0], low=counts[1], high=counts[2])


def ended(name, status, reason, **more):
    """A variant that didn't give times."""
    key, _, value = name.partition("=")
    return Variant(
        name=name, arguments={key: value} if value else {}, status=status, reason=reason, **more
    )


def report(*variants, text="The answer.", best=EAGER, **more):
    """A report of ``model.py:Net``."""
    values = {
        "graphdoctor_version": "0",
        "environment": H100,
        "target": TargetInfo(
            text="model.py:Net", name="Net", kind="module class", class_name="Net"
        ),
        "verdict": BenchVerdict(text=text, best=best),
        "call": "f32[32, 3, 224, 224] cuda",
        "throughput": Throughput(items=32, unit="samples"),
        "noise": QUIET,
        "variants": variants,
    }
    return BenchReport(**values | more)


# Whole reports.

KERNELS = KernelShare(
    device="cuda",
    call_us=3610.0,
    library_us=2100.0,
    generated_us=1300.0,
    copy_us=60.0,
    launches=96,
    largest=(
        KernelTime(name="cudnn::convolve_sgemm", kind="library", us=1740.0, count=35),
        KernelTime(name="triton_poi_fused_add_relu_0", kind="generated", us=310.0, count=17),
    ),
)

FIX = Fix(
    title="Use `scaled_dot_product_attention` in place of the written-out softmax",
    kind="code",
    snippet="out = F.scaled_dot_product_attention(q, k, v)",
)
LIBRARY = finding(
    "GD503",
    "library calls take 94% of a steady call; torch.compile can't fuse them, and without all the rest the call would "
    "be only 1.06× faster",
    fixes=(FIX,),
)
OVERHEAD = finding(
    "GD402",
    "running 9 graphs takes 31% of a steady call, more than the kernels themselves",
    call_us=160.0,
)
SKIPPED = finding(
    "GD504", "torch skipped CUDA graphs for 1 graph: `model.py:22` writes to an input", call_us=40.0
)


def mobilenet():
    """A network that gets much faster."""
    return report(
        eager(),
        variant(correctness=EXACT, kernels=KERNELS),
        variant(
            "mode=reduce-overhead",
            1940.0,
            cold_s=33.1,
            launches=96,
            cuda_graphs=CudaGraphs(captured=1),
            peak_memory_bytes=1_204_000_000,
        ),
        variant(
            "mode=max-autotune-no-cudagraphs",
            3410.0,
            cold_s=214.0,
            cache=CacheUse(
                hits=0, misses=1, bypasses=1, bypass_reasons=("custom pass without a uuid",)
            ),
        ),
        text=(
            "mode=reduce-overhead is fastest: 2.69× (2.66 to 2.72) over eager, pays off after 10,000 calls; "
            "mode=max-autotune-no-cudagraphs gives 1.53×; default gives 1.47×."
        ),
        best="mode=reduce-overhead",
    )


def attention():
    """A network that gets slower."""
    reason = "skipping cudagraphs due to mutated inputs (1 instances)"
    skip = CudaGraphSkip(
        kind="mutation", reason=reason, compile_id="0/0", file="/project/model.py", line=22
    )
    return report(
        eager(508.0),
        variant(median_us=578.0, eager_us=508.0, findings=(LIBRARY, OVERHEAD)),
        variant(
            "mode=reduce-overhead",
            610.0,
            eager_us=508.0,
            findings=(LIBRARY, SKIPPED),
            cuda_graphs=CudaGraphs(captured=0, skipped=(skip,)),
        ),
        text=(
            "torch.compile makes it slower: default 1.14× (1.13 to 1.15), "
            "mode=reduce-overhead 1.20× (1.19 to 1.21). "
            f"What holds default back: {LIBRARY.message}."
        ),
    )


def troubled():
    """One variant fails, one is wrong, one can't be."""
    stages = Stages(
        results=(
            StageResult(name="eager", outcome="ok"),
            StageResult(name="aot_eager", outcome="ok"),
            StageResult(name="aot_eager_decomp_partition", outcome="ok"),
            StageResult(
                name="inductor", outcome="failed", reason="CppCompileError: C++ compile error"
            ),
        ),
        first="inductor",
        part="fusion",
    )
    wrong_stages = Stages(
        results=(
            StageResult(name="eager", outcome="ok"),
            StageResult(name="aot_eager", outcome="ok"),
            StageResult(
                name="aot_eager_decomp_partition",
                outcome="wrong",
                reason="outputs[0] differs by 0.413",
            ),
            StageResult(
                name="aot_eager_decomp_partition",
                without=("the decomposition of aten.gelu.default",),
                outcome="ok",
            ),
        ),
        first="aot_eager_decomp_partition",
        part="the decomposition of aten.gelu.default",
        workaround=Workaround(
            lines=(
                "import torch._inductor.decomposition",
                "torch._inductor.decomposition.decompositions.pop(torch.ops.aten.gelu.default, None)",
            )
        ),
    )
    return report(
        eager(90_300.0, launches=None, throughput=354.0),
        ended("default", "failed", "CppCompileError: C++ compile error", stages=stages),
        variant(
            "backend=aot_eager",
            96_000.0,
            eager_us=90_300.0,
            cold_s=3.2,
            launches=None,
            correctness=EXACT,
        ),
        variant(
            "mode=max-autotune",
            45_000.0,
            eager_us=90_300.0,
            status="wrong",
            reason="outputs[0] differs by 0.413",
            correct=False,
            correctness=WRONG,
            stages=wrong_stages,
            launches=None,
            cuda_graphs=None,
        ),
        ended(
            "mode=reduce-overhead", "skipped", "there is no CUDA device, and CUDA graphs need one"
        ),
        environment=CPU,
        noise=NOISY,
        text=(
            "backend=aot_eager makes it 1.06× slower (1.05 to 1.07). "
            "mode=max-autotune is faster (2.01×), but its results are wrong; default failed."
        ),
        gaps=(
            CaptureGap(
                code="GD900",
                message="Kernels of a call are unknown: this torch's profiler was built without CUPTI.",
            ),
        ),
    )


def waiting(*more, untried="mode=reduce-overhead"):
    """A network whose calls wait for their host, whose speed changes."""
    noise = Noise(ratio=None, spread=0.31, is_noisy=True)
    slow = in_best_rounds(eager(5900.0), 4700.0, 2100.0)
    default = in_best_rounds(
        variant(median_us=3900.0, cold_s=None, alone_us=calls(4010.0)), 3100.0, 1620.0
    )
    text = (
        "default is fastest: 1.52× (1.50 to 1.55) over eager in the best rounds, but when that pays off is unknown. "
        "default waits for its host: its kernels alone take 1.62 ms of 3.10 ms per call, so CUDA graphs allow at most "
        "2.90× over eager."
    )
    verdict = BenchVerdict(text=text, best="default", untried=untried)
    return report(slow, default, *more, verdict=verdict, noise=noise, measured=())


def in_best_rounds(one, best_us, device_us, eager_us=4700.0):
    """A variant whose speed-up is that of its best rounds, because a call waits for its host."""
    ratio = eager_us / best_us
    found = Speedup(ratio=ratio, low=ratio * 0.99, high=ratio * 1.02, rounds=32, is_of_best=True)
    judged = "faster" if ratio > 1.03 else "same"
    return one.replace(best_us=best_us, device_us=device_us, speedup=found, judgement=judged)
