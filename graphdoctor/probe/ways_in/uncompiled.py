"""Runs graphdoctor's own code as Python does, also where a function that calls it is being
compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def uncompiled(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function without having torch compile it or what it calls; what it compiles itself is
    compiled.
    """
    return torch.compiler.disable(_call)(function, args, kwargs)


def _call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return function(*args, **kwargs)
