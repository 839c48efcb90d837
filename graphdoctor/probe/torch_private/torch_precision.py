"""The private names of torch's float32 precision on CUDA: whether matmuls and convolutions use TensorFloat32.

``torch/backends/__init__.py`` and ``torch/backends/cuda/__init__.py``, 2.13 (``fp32_precision``). The older names
(``allow_tf32``) raise an error once a program has used the newer ones.
"""

from __future__ import annotations

import torch

from ..wire import Float32PrecisionEvent


def float32_precision() -> Float32PrecisionEvent | None:
    """What a program's float32 matmuls and convolutions compute with on CUDA, as it is set now.

    Returns:
        None without a CUDA device, on ROCm, whose devices have other names, and if this torch doesn't say.
    """
    if torch.version.cuda is None or not torch.cuda.is_available():
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
