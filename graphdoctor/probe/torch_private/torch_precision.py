"""The private names of torch's float32 precision on CUDA: whether matmuls and convolutions use TensorFloat32.

``torch/backends/__init__.py`` and ``torch/backends/cuda/__init__.py``, 2.13 (``fp32_precision``). The older names
(``allow_tf32``) raise an error once a program has used the newer ones.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from ..wire import Float32PrecisionEvent


def float32_precision() -> Float32PrecisionEvent | None:
    """What a program's float32 matmuls and convolutions compute with on CUDA, as it is set now.

    Returns:
        None if the program hasn't used CUDA, on ROCm, whose devices have other names, and if this torch doesn't say.
    """
    if torch.version.cuda is None or not torch.cuda.is_initialized():
        return None
    try:
        matmul = torch.backends.cuda.matmul.fp32_precision
        convolution = torch.backends.cudnn.conv.fp32_precision  # type: ignore[attr-defined]
    except AttributeError:
        return None
    devices = range(torch.cuda.device_count())
    return Float32PrecisionEvent(
        event="float32_precision",
        matmul_tf32=matmul == "tf32",
        convolution_tf32=convolution == "tf32",
        capabilities=[list(torch.cuda.get_device_capability(device)) for device in devices],
    )


def matmul_setting() -> str:
    """The precision of float32 matmuls as the program set it, such as ``highest``."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        # The program used the newer names.
        return f"fp32_precision={torch.backends.cuda.matmul.fp32_precision}"


@contextlib.contextmanager
def tf32_matmuls() -> Iterator[None]:
    """Matmuls of float32 in TensorFloat32, until it ends."""
    before = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    try:
        yield
    finally:
        torch.backends.cuda.matmul.fp32_precision = before
