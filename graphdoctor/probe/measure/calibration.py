"""What the device reaches: a copy, matrix products, other arithmetic, the launch of a kernel.

Each is repeated, and the best counts: other work on the machine can only make it slower. It runs
after everything else, since it pushes the program's tensors out of the caches.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
import os
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import Path

import torch

from ...facts.profiled import Calibration
from ..torch_private import torch_api
from ..torch_private.torch_config import float32_precision, matmul_setting, tf32_matmuls
from . import arithmetic
from .timing import preemptions

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

_FIRST_SIZE, _LAST_SIZE = 256, 8192
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

_LEAST, _MOST = 3, 200
_STEADY = 1.1
_LAUNCHES = 200
TF32 = "tf32"


def calibrate(
    device: torch.device,
    dtypes: Iterable[str],
    elementwise: Collection[str],
    kept: Sequence[Calibration],
) -> Calibration:
    """What a device reaches; ``RuntimeError`` if there isn't enough memory.

    ``dtypes``: of products; ``elementwise``: operations on single elements, as ``InductorKernel``
    names them. Of these what is known is measured, and of the others nothing is said.
    """
    on_cpu = device.type == "cpu"
    found = Calibration(
        device_name=_processor() if on_cpu else torch.cuda.get_device_name(device),
        torch=str(torch.__version__),
        threads=torch.get_num_threads() if on_cpu else None,
        precision=matmul_setting(),
        copy_gb_per_s=0.0,
        matmul_tflops_per_s={},
        cache_bytes=None if on_cpu else torch.cuda.get_device_properties(device).L2_cache_size,
        launch_us=None,
    )
    wanted = _products(dtypes, device)
    before = next((each for each in reversed(kept) if each.conditions == found.conditions), None)
    found = found if before is None else before.replace(cache_bytes=found.cache_bytes)
    products = dict(found.matmul_tflops_per_s)
    missing = [dtype for dtype in wanted if dtype not in products]
    rates = dict(found.elementwise_g_per_s)
    unknown = [name for name in arithmetic.measurable(elementwise, device) if name not in rates]
    if before is not None and not missing and not unknown:
        # Other work can have disturbed what was kept, all the time that it was measured.
        is_outdone = False
        with (
            torch.inference_mode(),
            torch.autocast(device.type, enabled=False),
            contextlib.suppress(RuntimeError),
        ):
            is_outdone = (
                _product("float32", device, _SHARE_OF_EACH)[0] > _STEADY * products["float32"]
            )
        if is_outdone:
            return calibrate(device, dtypes, elementwise, ())
        return found.replace(is_kept=True, is_steady=True)
    copy, launch, is_steady = found.copy_gb_per_s, found.launch_us, True
    with torch.inference_mode(), torch.autocast(device.type, enabled=False):
        if before is None:
            copy, is_steady = _copy(device)
            launch = None if on_cpu else _launch(device)
        for dtype in missing:
            # A torch or a device without products of this dtype.
            with contextlib.suppress(RuntimeError, TypeError):
                products[dtype], is_this_steady = _product(dtype, device)
                is_steady = is_steady and is_this_steady
        for name in unknown:
            # A CUDA build without a compiler for code at run time, for one.
            with contextlib.suppress(RuntimeError):
                rates[name], is_this_steady = arithmetic.rate(
                    name, rates, device, partial(_best, part=_SHARE_OF_EACH)
                )
                is_steady = is_steady and is_this_steady
    measured = {"copy_gb_per_s": copy, "launch_us": launch, "matmul_tflops_per_s": products}
    measured["elementwise_g_per_s"] = rates
    today = datetime.datetime.now().astimezone().date().isoformat()
    return found.replace(**measured, is_kept=False, is_steady=is_steady, measured_on=today)


def _products(dtypes: Iterable[str], device: torch.device) -> list[str]:
    """Dtypes to measure products of: float32 always, of the others those that have ordinary
    products.
    """
    found = [
        "float32",
        *(each for each in ("bfloat16", "float16", "float64") if each in set(dtypes)),
    ]
    precision = float32_precision() if device.type == "cuda" else None
    is_mixed = precision is not None and precision.convolution_tf32 and not precision.matmul_tf32
    return [*found, TF32] if is_mixed else found


def _copy(device: torch.device) -> tuple[float, bool]:
    size = min(_COPY_BYTES, _free(device) // _MEMORY_SHARE) // 4
    source = torch.zeros(size, dtype=torch.float32, device=device)
    # Written once, so that its pages exist.
    target = torch.zeros(size, dtype=torch.float32, device=device)
    # Part by part on a CPU: by the turn of the first one again, the caches hold others.
    count, part_count = _COPIES[device.type], _PARTS[device.type]
    parts = itertools.cycle(zip(source.chunk(part_count), target.chunk(part_count), strict=True))

    def copy() -> None:
        for part, copied in itertools.islice(parts, count):
            copied.copy_(part)

    seconds, is_steady = _best(copy, device)
    return count * 2 * 4 * size / part_count / seconds / 1e9, is_steady


def _product(name: str, device: torch.device, part: float = 1.0) -> tuple[float, bool]:
    with tf32_matmuls() if name == TF32 else contextlib.nullcontext():
        size, seconds = _FIRST_SIZE, 0.0
        while seconds < _LONG_ENOUGH_S and size < _LAST_SIZE:
            size *= 2
            multiply = _multiplying(
                size, torch.float32 if name == TF32 else getattr(torch, name), device
            )
            seconds = min(_time(multiply) for _ in range(_LEAST))
        seconds, is_steady = _best(multiply, device, part)
    return 2 * size**3 / seconds / 1e12, is_steady


def _multiplying(size: int, dtype: torch.dtype, device: torch.device) -> Callable[[], object]:
    # Not all zeros or ones: with these a GPU takes less power, and runs faster than it does at
    # work.
    generator = torch.Generator(device).manual_seed(0)
    left, right = (
        torch.empty(size, size, dtype=torch.float32, device=device)
        .normal_(generator=generator)
        .to(dtype)
        for _ in range(2)
    )
    out = torch.mm(left, right)
    return lambda: torch.mm(left, right, out=out)


def _launch(device: torch.device) -> float:
    """Microseconds for each of many launches in a row of a kernel that has next to nothing to
    do.
    """
    value = torch.zeros(1, device=device)

    def launch() -> None:
        for _ in range(_LAUNCHES):
            value.add_(1)

    launch()
    return min(_time(launch) for _ in range(_LEAST)) / _LAUNCHES * 1e6


def _best(
    call: Callable[[], object], device: torch.device, part: float = 1.0
) -> tuple[float, bool]:
    """The shortest time of a call, and whether another one took as long but for a tenth.

    A call in which the system took a processor from one of the process's threads says nothing of
    the device, and the first one may compile it. ``part``: of the budget.
    """
    times: list[float] = []
    undisturbed: list[float] = []
    _time(call)
    started, budget = time.perf_counter(), part * _BUDGET_S[device.type]
    while len(times) < _LEAST or (
        len(times) < _MOST and time.perf_counter() - started < _PATIENCE * budget
    ):
        before = preemptions()
        times.append(_time(call))
        # A GPU works on meanwhile.
        if device.type != "cpu" or preemptions() == before:
            undisturbed.append(times[-1])
        if (
            len(times) >= _LEAST
            and time.perf_counter() - started > budget / 2
            and _is_steady(undisturbed)
        ):
            break
    return min(undisturbed or times), _is_steady(undisturbed)


def _is_steady(times: Sequence[float]) -> bool:
    first, *others = sorted(times)[:2] or [0.0]
    return bool(others) and others[0] <= _STEADY * first


def _time(call: Callable[[], object]) -> float:
    torch_api.synchronize()
    started = time.perf_counter()
    call()
    torch_api.synchronize()
    return time.perf_counter() - started


def _free(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    with contextlib.suppress(ValueError, OSError):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return _MEMORY_SHARE * _COPY_BYTES


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in (
            Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        ):
            name, _, value = line.partition(":")
            if name.strip() == "model name" and value.strip():
                return value.strip()
    return os.uname().machine
