"""What the device reaches: a copy, matrix products, functions of single elements, the launch of a
kernel.

Each is repeated, and the best counts: other work on the machine can only make it slower. It runs
after everything else, since it pushes the program's tensors out of the caches.

Functions such as ``tanh`` are computed in registers on a GPU, in caches on a CPU. A GPU's kernels
compute one many times for each element that they read, as Triton's code for it does
(``torch/_inductor/codegen/triton.py``, 2.11: ``libdevice`` and the fast forms of ``exp`` and of
division). A CPU's are torch's own operations, whose vectorized functions Inductor's C++ calls
(``at::vec``), on tensors that stay in caches. Random numbers are Philox 4×32 with ten rounds, as
Triton draws them.
"""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from time import perf_counter

import torch
from torch import Tensor

from ...facts.profiled import ALIKE, SIMPLE, Calibration
from ..torch_private.torch_api import synchronize
from ..torch_private.torch_config import float32_precision, matmul_setting, tf32_matmuls
from ..torch_private.torch_kernels import cuda_function
from .timing import Make, preemptions

_COPY_BYTES = 256 * 2**20
"""Far more than the caches of one processor hold: at most 128 MiB, but for a few servers."""

_COPIES = {"cpu": 1, "cuda": 16}
"""In a row: on a GPU one takes a tenth of a millisecond, of which launching it and waiting for it
would be a tenth."""

_MEMORY_SHARE = 8
"""A tensor takes at most this part of the free memory."""

_PARTS = {"cpu": 16, "cuda": 1}
"""What is copied at once. A short measurement is more likely to be left alone by other work on a
CPU."""

_FIRST_SIZE = 256
_LAST_SIZE = 8192
"""Of a matrix: powers of 2 between the two, until a product takes long enough."""

_LONG_ENOUGH_S = 0.002
"""By then a product has enough to do for all cores."""

_BUDGET_S = {"cpu": 0.5, "cuda": 0.06}
"""For the repetitions of one measurement; half of it if they agree, and several times as much if
they don't."""

_PATIENCE = 4

_SHARE_OF_EACH = 0.2
"""Of the budget for a function such as ``tanh``: there are several, and each call takes a few
milliseconds."""

_LEAST = 3
_MOST = 200
_STEADY = 1.1
_LAUNCHES = 200
TF32 = "tf32"

_Rate = tuple[float, bool]
"""What is reached, and whether measuring again took as long."""


def calibrate(
    device: torch.device, dtypes: Iterable[str], elementwise: Collection[str]
) -> Calibration:
    """Measure what a device reaches; ``RuntimeError`` if there isn't enough memory.

    ``dtypes``: of products; ``elementwise``: operations on single elements, as ``InductorKernel``
    names them. Those that have a function here are measured, and of the others nothing is said.
    """
    on_cpu = device.type == "cpu"
    products, rates = dict[str, float](), dict[str, float]()
    launch = None
    with torch.inference_mode(), torch.autocast(device.type, enabled=False):
        copy, is_steady = _copy(device)
        are_steady = [is_steady]
        if not on_cpu:
            # Of each of many launches in a row of a kernel that has next to nothing to do.
            value = torch.zeros(1, device=device)
            seconds, _ = _best(lambda: [value.add_(1) for _ in range(_LAUNCHES)], device, 0.0)
            launch = seconds / _LAUNCHES * 1e6
        for dtype in _products(dtypes, device):
            # A torch or a device without products of this dtype.
            with suppress(RuntimeError, TypeError):
                products[dtype], is_steady = _product(dtype, device)
                are_steady.append(is_steady)
        for name in measurable(elementwise, device):
            # A CUDA build without a compiler for code at run time, for one.
            with suppress(RuntimeError):
                rates[name], is_steady = rate(name, rates, device)
                are_steady.append(is_steady)
    return Calibration(
        device_name=_processor() if on_cpu else torch.cuda.get_device_name(device),
        torch=str(torch.__version__),
        threads=torch.get_num_threads() if on_cpu else None,
        precision=matmul_setting(),
        copy_gb_per_s=copy,
        matmul_tflops_per_s=products,
        elementwise_g_per_s=rates,
        cache_bytes=None if on_cpu else torch.cuda.get_device_properties(device).L2_cache_size,
        launch_us=launch,
        is_steady=all(are_steady),
    )


def _products(dtypes: Iterable[str], device: torch.device) -> list[str]:
    """Dtypes to measure products of: float32 always, of the others those that have ordinary
    products.
    """
    names = {"bfloat16", "float16", "float64"} & set(dtypes)
    precision = float32_precision() if device.type == "cuda" else None
    is_mixed = precision is not None and precision.convolution_tf32 and not precision.matmul_tf32
    return ["float32", *sorted(names), *([TF32] if is_mixed else [])]


def _copy(device: torch.device) -> _Rate:
    size = min(_COPY_BYTES, _free(device) // _MEMORY_SHARE) // 4
    source = torch.zeros(size, dtype=torch.float32, device=device)
    # Written once, so that its pages exist.
    target = torch.zeros(size, dtype=torch.float32, device=device)
    # Part by part on a CPU: by the turn of the first one again, the caches hold others.
    count = _COPIES[device.type]
    part_count = _PARTS[device.type]
    parts = itertools.cycle(zip(source.chunk(part_count), target.chunk(part_count), strict=True))

    def copy() -> None:
        for part, copied in itertools.islice(parts, count):
            copied.copy_(part)

    seconds, is_steady = _best(copy, device)
    return count * 2 * 4 * size / part_count / seconds / 1e9, is_steady


def _product(name: str, device: torch.device, part: float = 1.0) -> _Rate:
    dtype = torch.float32 if name == TF32 else getattr(torch, name)
    with tf32_matmuls() if name == TF32 else nullcontext():
        size = _FIRST_SIZE
        seconds = 0.0
        while seconds < _LONG_ENOUGH_S and size < _LAST_SIZE:
            size *= 2
            # Not all zeros or ones: with these a GPU takes less power, and runs faster than it does
            # at work.
            generator = torch.Generator(device).manual_seed(0)
            empty = (torch.empty(size, size, dtype=torch.float32, device=device) for _ in range(2))
            left, right = (matrix.normal_(generator=generator).to(dtype) for matrix in empty)
            multiply = partial(torch.mm, left, right, out=torch.mm(left, right))
            seconds = min(_time(multiply) for _ in range(_LEAST))
        seconds, is_steady = _best(multiply, device, part)
    return 2 * size**3 / seconds / 1e12, is_steady


def _best(call: Make, device: torch.device, part: float = 1.0) -> _Rate:
    """Return the shortest time of a call, and whether another one took as long but for a tenth.

    A call in which the system took a processor from one of the process's threads says nothing of
    the device, and the first one may compile it. ``part``: of the budget.
    """
    times: list[float] = []
    undisturbed = []
    _time(call)
    started = perf_counter()
    budget = part * _BUDGET_S[device.type]
    while len(times) < _LEAST or (
        len(times) < _MOST and perf_counter() - started < _PATIENCE * budget
    ):
        before = preemptions()
        times.append(_time(call))
        # A GPU works on meanwhile.
        if device.type != "cpu" or preemptions() == before:
            undisturbed.append(times[-1])
        is_enough = len(times) >= _LEAST and perf_counter() - started > budget / 2
        if is_enough and _is_steady(undisturbed):
            break
    return min(undisturbed or times), _is_steady(undisturbed)


def _is_steady(times: Sequence[float]) -> bool:
    first, *others = sorted(times)[:2] or [0.0]
    return bool(others) and others[0] <= _STEADY * first


def _time(call: Make) -> float:
    synchronize()
    started = perf_counter()
    call()
    synchronize()
    return perf_counter() - started


def _free(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    with suppress(ValueError, OSError):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return _MEMORY_SHARE * _COPY_BYTES


def _processor() -> str:
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        if (match := re.search(r"^model name\s*:\s*(\S.*)$", text, re.MULTILINE)) is not None:
            return match[1].strip()
    return os.uname().machine


# Functions of single elements.

_ON_GPU: Mapping[str, str] = {
    SIMPLE: "x",
    "truediv": "__fdividef(y, x)",
    "exp": "__expf(-x)",
    "log": "logf(x)",
    "tanh": "tanhf(x - T(1))",
    "erf": "erff(x - T(1))",
    "sigmoid": "__fdividef(T(1), T(1) + __expf(-x))",
    "sin": "sinf(x)",
    "sqrt": "sqrtf(x)",
    "rsqrt": "rsqrtf(x)",
    "pow": "powf(x, y)",
    "rand": "T(philox(__float_as_uint(x)))",
}
_ON_CPU: Mapping[str, Callable[..., Tensor]] = {
    SIMPLE: lambda x, out: torch.mul(x, x, out=out),
    "truediv": lambda x, out: torch.div(x, x, out=out),
    "exp": torch.exp,
    "log": torch.log,
    "tanh": torch.tanh,
    "erf": torch.erf,
    "sigmoid": torch.sigmoid,
    "sin": torch.sin,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "pow": lambda x, out: torch.pow(x, x, out=out),
}
_ROUNDS = 512
"""Of a function for each element that is read."""
_GPU_ELEMENTS = 2**22
_CPU_ELEMENTS = 2**16
"""For each thread: a tensor of 256 KiB, which stays in the cache of its core."""
_CPU_ROUNDS = 8


def measurable(names: Iterable[str], device: torch.device) -> list[str]:
    """List those that can be measured, the simple ones first, since the others are measured against
    them.
    """
    functions = _ON_CPU if device.type == "cpu" else _ON_GPU
    alike = {ALIKE.get(name, name) for name in names} & functions.keys()
    return list(dict.fromkeys([SIMPLE, *sorted(alike)]))


def rate(name: str, rates: Mapping[str, float], device: torch.device) -> _Rate:
    """Measure a function in 1e9 elements a second; ``rates``: those so far."""
    if device.type == "cpu":
        count = _CPU_ELEMENTS * torch.get_num_threads()
        x = torch.rand(count, device=device) + 0.5
        out = torch.empty_like(x)

        def compute() -> None:
            for _ in range(_CPU_ROUNDS):
                _ON_CPU[name](x, out=out)

        seconds, is_steady = _best(compute, device, _SHARE_OF_EACH)
        return _CPU_ROUNDS * count / seconds / 1e9, is_steady
    x = torch.rand(_GPU_ELEMENTS, device=device)
    chain = cuda_function(_CHAIN.replace("FUNCTION", _ON_GPU[name]).replace("ROUNDS", str(_ROUNDS)))
    seconds, is_steady = _best(lambda: chain(x), device, _SHARE_OF_EACH)
    billions = _ROUNDS * _GPU_ELEMENTS / 1e9
    if name == SIMPLE:
        return _ADDITIONS * billions / seconds, is_steady
    # The additions around the function are the chain's own.
    seconds -= _ADDITIONS * billions / rates[SIMPLE]
    return min(billions / seconds if seconds > 0 else math.inf, rates[SIMPLE]), is_steady


_ADDITIONS = 2
_CHAIN = """
template <typename T> T chain(T x) {
    auto philox = [](unsigned int a) {
        unsigned int b = 0u, c = 0u, d = 0u, k = 7u, m = 11u;
        for (int round = 0; round < 10; ++round) {
            unsigned int e = __umulhi(0xCD9E8D57u, c) ^ b ^ k, f = __umulhi(0xD2511F53u, a) ^ d ^ m;
            b = 0xCD9E8D57u * c, d = 0xD2511F53u * a, a = e, c = f;
            k += 0x9E3779B9u, m += 0xBB67AE85u;
        }
        return a;
    };
    T sum = T(0), y = T(0.015625);
    for (int i = 0; i < ROUNDS; ++i) {
        sum += FUNCTION;
        x += y;
    }
    return sum;
}
"""
