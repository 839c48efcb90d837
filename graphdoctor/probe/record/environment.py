"""Where the probe runs, for the recording's ``Environment``."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
import sysconfig

import torch

from ..torch_private import torch_api
from ..wire import EnvironmentEvent

_PACKAGES = (
    "accelerate",
    "deepspeed",
    "diffusers",
    "flash-attn",
    "lightning",
    "numpy",
    "optree",
    "peft",
    "pytorch-lightning",
    "pytorch-triton",
    "timm",
    "torch-geometric",
    "torchao",
    "torchaudio",
    "torchrec",
    "torchvision",
    "transformers",
    "triton",
    "vllm",
    "xformers",
)
"""Packages whose version an issue for torch should name, by the names that they are installed under."""


def describe_environment(device_name: str | None) -> EnvironmentEvent:
    """The event that describes the environment.

    Args:
        device_name: Name of the first CUDA device, or None. Asking for it starts CUDA, after which a process can't
            fork, so only the caller knows whether it may.
    """
    paths = sysconfig.get_paths()
    return EnvironmentEvent(
        event="environment",
        python=platform.python_version(),
        torch=str(torch.__version__),
        torch_build=_torch_build(),
        platform=platform.platform(terse=True) + f" {platform.machine()}",
        executable=sys.executable,
        device_name=device_name,
        torch_root=str(torch_api.torch_root()),
        stdlib_root=paths["stdlib"],
        site_roots=sorted({paths["purelib"], paths["platlib"]}),
        packages=_package_versions(),
    )


def _torch_build() -> str:
    for name, version in (("CUDA", torch.version.cuda), ("ROCm", getattr(torch.version, "hip", None))):
        if version is not None:
            return f"{name} {version}"
    return "CPU"


def _package_versions() -> dict[str, str]:
    """Versions of the installed packages, read without importing any."""
    versions = {}
    for name in _PACKAGES:
        try:
            version = importlib.metadata.version(name)
        except Exception:  # noqa: BLE001 - not installed, or half of it is missing
            continue
        # A package whose metadata lacks the version gives None.
        if isinstance(version, str):
            versions[name] = version
    return versions
