"""How fast a device computes functions of single elements, such as ``tanh``: in registers on a GPU,
in caches on a CPU.

A GPU's kernels compute a function many times for each element that they read, as Triton's code for
it does (``torch/_inductor/codegen/triton.py``, 2.11: ``libdevice`` and the fast forms of ``exp``
and of division). A CPU's are torch's own operations, whose vectorized functions Inductor's C++
calls (``at::vec``), on tensors that stay in caches. Random numbers are Philox 4×32 with ten rounds,
as Triton draws them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch

from ...facts.profiled import ALIKE, SIMPLE
from ..torch_private.torch_kernels import cuda_function

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
_ON_CPU: Mapping[str, Callable[..., torch.Tensor]] = {
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
    """Those that can be measured, the simple ones first, since the others are measured against
    them.
    """
    known = _ON_CPU if device.type == "cpu" else _ON_GPU
    return list(
        dict.fromkeys([SIMPLE, *sorted({ALIKE.get(name, name) for name in names} & known.keys())])
    )


def rate(
    name: str,
    known: Mapping[str, float],
    device: torch.device,
    best: Callable[[Callable[[], object], torch.device], tuple[float, bool]],
) -> tuple[float, bool]:
    """1e9 elements a second, and whether measuring again took as long.

    ``known``: rates so far; ``best``: times a call.
    """
    if device.type == "cpu":
        count = _CPU_ELEMENTS * torch.get_num_threads()
        x = torch.rand(count) + 0.5
        out = torch.empty_like(x)

        def compute() -> None:
            for _ in range(_CPU_ROUNDS):
                _ON_CPU[name](x, out=out)

        seconds, is_steady = best(compute, device)
        return _CPU_ROUNDS * count / seconds / 1e9, is_steady
    x = torch.rand(_GPU_ELEMENTS, device=device)
    chain = cuda_function(_CHAIN.replace("FUNCTION", _ON_GPU[name]).replace("ROUNDS", str(_ROUNDS)))
    seconds, is_steady = best(lambda: chain(x), device)
    billions = _ROUNDS * _GPU_ELEMENTS / 1e9
    if name == SIMPLE:
        return _ADDITIONS * billions / seconds, is_steady
    # The additions around the function are the chain's own.
    own = seconds - _ADDITIONS * billions / known[SIMPLE]
    return min(billions / own if own > 0 else known[SIMPLE], known[SIMPLE]), is_steady


_ADDITIONS = 2
_CHAIN = """
template <typename T> T chain(T x) {
    auto philox = [](unsigned int a) {
        unsigned int b = 0u, c = 0u, d = 0u, k = 7u, m = 11u;
        for (int round = 0; round < 10; ++round) {
            unsigned int e = __umulhi(0xCD9E8D57u, c) ^ b ^ k, f = __umulhi(0xD2511F53u, a) ^ d ^ m;
            b = 0xCD9E8D57u * c, d = 0xD2511F53u * a, a = e, c = f, k += 0x9E3779B9u, m += 0xBB67AE85u;
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
