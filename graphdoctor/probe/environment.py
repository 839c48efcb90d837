"""Where the probe runs, for the recording's ``Environment``."""

from __future__ import annotations

import platform
import sys
import sysconfig
from typing import Any

import torch

from . import torch_api


def describe_environment(device_name: str | None) -> dict[str, Any]:
    """The fields of ``Environment``.

    Args:
        device_name: Name of the first CUDA device, or None. Asking for it starts CUDA, after which a process cannot
            fork any more, so only the caller knows whether it may.
    """
    paths = sysconfig.get_paths()
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "platform": platform.platform(terse=True) + f" {platform.machine()}",
        "executable": sys.executable,
        "device_name": device_name,
        "torch_root": str(torch_api.torch_root()),
        "stdlib_root": paths["stdlib"],
        "site_roots": sorted({paths["purelib"], paths["platlib"]}),
    }
