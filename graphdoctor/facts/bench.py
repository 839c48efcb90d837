"""The facts of a bench: how each way to run a program does, beside eager mode.

A **variant** is one way to run the program: without torch.compile (``eager``), with the user's
arguments, or with others.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Literal

from .base import Document, Fact
from .diagnosis import Finding
from .fixes import Treatment
from .kernels import CacheUse, CudaGraphs, KernelShare
from .recording import CaptureGap, Environment, TargetInfo
from .run import ProbeExit
from .trials import ResultError

PROCESSES_DIFFER = 0.03
"""The difference that two processes of the same program can have on a quiet machine, as a share."""

HOST_BOUND = 0.8
"""Kernels that take less than this share of a call on a GPU leave it waiting for its host."""

EAGER = "eager"
"""The name of the variant without torch.compile, which is the first."""

VariantStatus = Literal["ok", "wrong", "failed", "skipped"]
"""``ok``: measured, and its results are right as far as they could be compared; ``wrong``: its
results differ from eager mode's by more than rounding; ``failed``: it raised, or it was stopped;
``skipped``: it wasn't run, because it can't be on this machine, or the time was up."""

Judgement = Literal["faster", "slower", "same", "unknown"]
"""A variant beside eager mode: ``same``: no measurable difference; ``unknown``: it wasn't timed."""


BenchPart = Literal["cold", "results", "causes"]
"""A measurement that can be asked for: ``cold``: starts with an empty cache on disk and after it;
``results``: beside eager mode's; ``causes``: the kernels of a call, graphs and breaks of every
variant, and where one goes wrong."""

BENCH_PARTS: tuple[BenchPart, ...] = ("cold", "results", "causes")


CUDA_GRAPH_MODES = ("reduce-overhead", "max-autotune")
"""Modes that differ from others in CUDA graphs only (``torch.compile``'s docstring, 2.13)."""
CUDA_GRAPH_OPTION = "triton.cudagraphs"
CUDA_GRAPH_BACKEND = "cudagraphs"


def asks_for_cuda_graphs(arguments: Mapping[str, Any]) -> bool:
    """Return whether torch.compile, given these, records CUDA graphs."""
    return (
        bool((arguments.get("options") or {}).get(CUDA_GRAPH_OPTION))
        or arguments.get("mode") in CUDA_GRAPH_MODES
        or arguments.get("backend") == CUDA_GRAPH_BACKEND
    )


class CallTimes(Fact):
    """Times of steady calls, in microseconds."""

    median: float
    q1: float
    q3: float
    min: float
    """The shortest."""
    max: float
    mean: float
    count: int

    @classmethod
    def of(cls, times_us: Sequence[float], count: int | None = None) -> CallTimes | None:
        """Sum up times; None if there are none.

        Args:
            times_us: Of single calls, or the mean of each of several blocks of calls.
            count: How many calls these are; None for one each.
        """
        if not times_us:
            return None
        q1, median, q3 = (
            statistics.quantiles(times_us, n=4, method="inclusive")
            if len(times_us) > 1
            else [*times_us] * 3
        )
        return cls(
            median=median,
            q1=q1,
            q3=q3,
            min=min(times_us),
            max=max(times_us),
            mean=statistics.fmean(times_us),
            count=len(times_us) if count is None else count,
        )


class Speedup(Fact):
    """A speed-up over eager mode: the time of a call in eager mode divided by the
    variant's.
    """

    ratio: float
    """Median over all rounds, in each of which every variant has its turn; or that of the best
    rounds."""
    low: float
    """Lower end of the ratio's 95% confidence interval; of best rounds, what the three shortest of
    each allow."""
    high: float
    """Upper end of that interval."""
    rounds: int
    is_of_best: bool = False
    """Of the second shortest round of each, because a call waits for its host, whose speed
    changes."""


class BreakEven(Fact):
    """After how many calls the time spent compiling is won back, in all."""

    calls: int
    """With the speed-up that was measured."""
    low: int
    """With the upper end of its interval."""
    high: int | None
    """With its lower end; None if compiling may never pay, because the interval holds 1."""


class Correctness(Fact):
    """A variant's results beside eager mode's."""

    is_bitwise_equal: bool
    """Every value equals eager mode's, bit by bit."""
    is_eager_repeatable: bool
    """Eager mode itself gives the same bits twice."""
    errors: tuple[ResultError, ...] = ()
    """Beside a float64 run; empty if there is none."""
    where: str | None = None
    """The result that differs most, by more than rounding; None if they don't."""
    largest: float | None = None
    """The largest absolute difference there; None if there is no difference, or it isn't a
    number."""
    note: str | None = None
    """A clause about what couldn't be compared, and why."""


StageOutcome = Literal["ok", "wrong", "failed"]


class StageResult(Fact):
    """One stage of the compiler, run on its own."""

    name: str
    """``eager``, ``aot_eager``, ``aot_eager_decomp_partition``, ``inductor`` or another backend of
    the variant."""
    without: tuple[str, ...] = ()
    """Parts of that stage that were left out, such as ``fusion``."""
    outcome: StageOutcome
    reason: str | None = None
    """A clause that says why."""


class Workaround(Fact):
    """A way to run the program that is right; it was tried."""

    lines: tuple[str, ...] = ()
    """Lines of Python to run before torch.compile."""
    arguments: dict[str, object] = field(default_factory=dict)
    """Arguments of torch.compile with another value."""


class Stages(Fact):
    """A variant that fails or is wrong, followed down the stages of the compiler."""

    results: tuple[StageResult, ...]
    """Stage by stage."""
    first: str | None
    """The first stage that fails; None if none does, each on its own."""
    part: str | None = None
    """The part of that stage without which the program is right, such as ``fusion`` or
    ``the decomposition of aten.gelu.default``; None if there is no such part, or it is unknown."""
    workaround: Workaround | None = None
    """A way to do without that part; None if there is no way to, or it doesn't help."""
    note: str | None = None
    """A clause about what couldn't be found out, and why."""


class Variant(Fact):
    """One way to run the program."""

    name: str
    """Its name, such as ``eager``, ``default`` or ``mode=reduce-overhead``."""
    arguments: dict[str, object]
    """Arguments of torch.compile; empty for eager mode."""
    is_regional: bool = False
    """Compiles each repeated block on its own, not the whole."""
    regions: tuple[str, ...] = ()
    """Classes of those blocks, with their number, such as ``12 Block``."""
    status: VariantStatus
    reason: str | None = None
    """A clause that says why it isn't ``ok``."""
    exit: ProbeExit | None = None
    """The end of its process, if it ended before it was timed."""
    correct: bool | None = None
    """Its results are eager mode's, but for rounding; None if they weren't compared."""
    correctness: Correctness | None = None
    compile_cold_s: float | None = None
    """Seconds that compiling adds to the calls in a new process with an empty cache on disk."""
    compile_warm_s: float | None = None
    """The same with what is on disk: what a restart costs. Without a cold start before it, with the
    user's caches as they are."""
    cache: CacheUse | None = None
    """The use of the caches on disk then."""
    call_us: CallTimes | None = None
    """Steady calls in a row, as in a loop; on a GPU until the last of a few is done."""
    alone_us: CallTimes | None = None
    """Steady calls on a GPU, each until the device is done; None where that is the same."""
    best_us: float | None = None
    """A call in the second shortest round; None unless the speed-up is of these."""
    device_us: float | None = None
    """The part of a call in a row in which a GPU works, by torch.profiler; None without CUDA, or if
    unknown."""
    awaits_backward: bool = False
    """torch records its CUDA graphs anew in each call, because outputs of earlier calls await their
    backward pass."""
    speedup: Speedup | None = None
    """Of calls in a row, beside eager mode; for eager mode itself, beside a second process that
    runs the same, which shows the noise."""
    judgement: Judgement = "unknown"
    """The speed-up's verdict, the machine's noise considered."""
    break_even_calls: int | None = None
    """Calls until a cold start is won back, or if none was measured, a restart; None if it never
    is, or that is unknown."""
    break_even_cold: BreakEven | None = None
    """The same with its interval."""
    break_even_warm: BreakEven | None = None
    """Calls until a restart is won back."""
    throughput: float | None = None
    """Items a second; None where no batch dim is known."""
    peak_memory_bytes: int | None = None
    """The most memory during steady calls: of torch's allocator on CUDA, resident on a CPU."""
    graphs: int | None = None
    """Graphs handed to the backend; None for eager mode."""
    break_sites: int | None = None
    """Distinct lines that graph-break records point to."""
    recompiles: int | None = None
    """Compiles of a function that already had a cache entry."""
    launches: int | None = None
    """Kernels in one steady call; None if the profiler didn't say."""
    kernels: KernelShare | None = None
    """The kernels that the time of that call goes to."""
    cuda_graphs: CudaGraphs | None = None
    """None for a variant that asks for none."""
    findings: tuple[Finding, ...] = ()
    """The findings that keep it from being faster, the most costly first."""
    stages: Stages | None = None
    """The stages, followed to where it goes wrong; None unless it fails or is wrong, or where
    causes weren't looked for."""

    @property
    def compile_s(self) -> float | None:
        """Seconds that compiling adds: in a cold start, or if none was measured, in a restart."""
        return self.compile_warm_s if self.compile_cold_s is None else self.compile_cold_s

    @property
    def time_us(self) -> float | None:
        """A call, as the speed-up counts it; None if it wasn't timed."""
        return (
            self.best_us
            if self.best_us is not None or self.call_us is None
            else self.call_us.median
        )

    @property
    def waits_for_host(self) -> bool:
        """Return whether the GPU clearly works for less time than a call takes."""
        return self.device_us is not None and self.device_us < HOST_BOUND * (self.time_us or 0.0)


class Throughput(Fact):
    """The items that one call works on."""

    items: int
    unit: Literal["samples", "tokens"]
    """Their kind."""


class BenchVerdict(Fact):
    """The answer."""

    text: str
    best: str | None
    """Name of the fastest correct variant; ``eager`` if none is measurably faster. Of those that
    can't be told apart, the one that compiles fastest; of a sweep, that of the largest size that
    ran. None if eager mode itself failed."""
    untried: str | None = None
    """A variant that wasn't measured and may be faster, as ``--variant`` reads it; None if there is
    none."""
    alike: tuple[str, ...] = ()
    """Variants that can't be told apart from the best one."""
    waits: str | None = None
    """The variant whose calls wait for their host, which limits what its kernels allow; None if
    there is none."""
    held_back: Finding | None = None
    """If nothing is faster than eager mode, what holds the fastest variant back; None if
    unknown."""


class Noise(Fact):
    """The steadiness of the machine."""

    ratio: float | None
    """Eager mode beside eager mode in another process; 1 on a quiet machine. None without such a
    process: the variants differ by more than two such processes do."""
    spread: float
    """Distance between the quartiles of the times of single calls in eager mode, divided by their
    median."""
    is_noisy: bool
    """Too much of either for small differences to be seen."""


class BenchReport(Document):
    """The report of ``graphdoctor bench``."""

    environment: Environment | None
    """Python, torch and the machine; None if the program never got so far."""
    target: TargetInfo
    verdict: BenchVerdict
    measured: tuple[BenchPart, ...] = BENCH_PARTS
    """Measurements beside compiling and calls."""
    call: str | None = None
    """The call that was timed: the arguments of the last one, in short."""
    throughput: Throughput | None = None
    """Items that one call works on; None where no batch dim is known."""
    noise: Noise | None = None
    """The steadiness of the machine; None if eager mode wasn't timed."""
    variants: tuple[Variant, ...]
    """All ways to run it, the first named ``eager``."""
    gaps: tuple[CaptureGap, ...] = ()
    is_interrupted: bool = False
    """An interrupt ended it: what is missing might have been measured."""
    recordings: dict[str, str] = field(default_factory=dict)
    """Folder of each variant's recording, by name."""


AS_IT_WAS = "as you had it"
"""The name of torch.compile with the user's own arguments, without a change."""

CURED = "cured"
"""The name of the best way that was found."""

Best = Literal["eager", "as you had it", "cured"]

StepOutcome = Literal["kept", "no gain", "slower", "wrong", "failed", "skipped"]
"""``kept``: correct, and faster than the best before it, or as fast and quicker to compile cold;
``no gain``: neither; ``slower``, ``wrong`` and ``failed`` as of a variant; ``skipped``: not tried,
because it can't be, or time was up."""


class CureStep(Fact):
    """One thing that was tried on top of those that were kept before."""

    name: str
    """Such as ``fixes`` or ``mode=reduce-overhead``."""
    outcome: StepOutcome
    reason: str | None = None
    """A clause that says why; None if the numbers say it."""
    is_late: bool = False
    """It wasn't tried because time was up."""
    speedup: Speedup | None = None
    """Beside the best way before it; None if it wasn't timed."""
    compile_cold_s: float | None = None
    """Seconds that compiling adds with an empty cache on disk; None unless cold starts were asked
    for."""
    compile_before_s: float | None = None
    """The same of the best way before it."""


class CureReport(Document):
    """The report of ``graphdoctor cure``."""

    environment: Environment
    target: TargetInfo
    text: str
    best: Best | None
    """The fastest correct way; None if eager mode wasn't timed, so that nothing could be
    compared."""
    eager: Variant
    """Without torch.compile."""
    as_it_was: Variant
    """With the user's own arguments."""
    cured: Variant | None
    """The best way that was found; None if nothing helped."""
    steps: tuple[CureStep, ...]
    """The steps that were tried, in order."""
    diff: str = ""
    """Edits of source that the best way needs, as one unified diff."""
    arguments: dict[str, object]
    """Arguments to give torch.compile that aren't its defaults; empty if the best way is eager
    mode."""
    compile_lines: tuple[str, ...] = ()
    """Lines that compile the model, in place of the user's own call of torch.compile."""
    settings: tuple[str, ...] = ()
    """Lines for the start of the program."""
    calls: tuple[str, ...] = ()
    """Lines for where the program makes its calls."""
    treatment: Treatment | None = None
    """Fixes that were tried; None if there were no findings to treat."""
    noise: Noise | None = None
    verified_calls: int
    """Calls whose results were compared with eager mode's."""
    budget_s: float
    """Seconds that the search was given."""
    spent_s: float
    """Seconds that it took."""
    is_interrupted: bool = False
    """An interrupt ended it before everything was tried."""
    gaps: tuple[CaptureGap, ...] = ()
