"""Describes where the target ran, in the format of ``torch.utils.collect_env``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from graphdoctor.facts.recording import Environment

_UNKNOWN = "not recorded"


def versions_text(environment: Environment) -> str:
    """The versions that a PyTorch issue asks for, as far as they were recorded."""
    return "\n".join(_lines(environment)) + "\n"


def _lines(environment: Environment) -> Iterator[str]:
    yield f"PyTorch version: {environment.torch or _UNKNOWN}"
    yield f"PyTorch was built for: {environment.torch_build or _UNKNOWN}"
    yield f"Platform: {environment.platform or _UNKNOWN}"
    yield f"Python version: {environment.python or _UNKNOWN}"
    # None means no device in our recordings, but unknown in other logs.
    gpu = environment.device_name or ("none" if environment.python else _UNKNOWN)
    yield f"First CUDA device: {gpu}"
    yield ""
    yield "Versions of relevant libraries:"
    if environment.packages is None:
        yield f"[pip3] {_UNKNOWN}"
        return
    for name, version in sorted({**environment.packages, "torch": environment.torch or _UNKNOWN}.items()):
        yield f"[pip3] {name}=={version}"


def environment_text(environment: Environment, config: Mapping[str, str] | None, *, graphdoctor: str) -> str:
    """All of ``environment.txt``.

    Args:
        environment: Where the target ran.
        config: torch's config values that differ from the defaults, by dotted name; None if unknown.
        graphdoctor: graphdoctor's own version.
    """
    lines = [versions_text(environment), "torch config values that differ from the defaults:"]
    if config is None:
        lines.append(_UNKNOWN)
    else:
        lines += [f"{name} = {value}" for name, value in sorted(config.items())] or ["(none)"]
    lines += ["", f"Recorded with graphdoctor {graphdoctor}."]
    if environment.executable:
        lines.append(f"Interpreter: {environment.executable}")
    return "\n".join(lines) + "\n"
