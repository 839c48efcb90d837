"""What a test needs from torch: a Dynamo and config values of its own while it runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from ..target.options import set_config
from ..torch_private import torch_config
from ..torch_private.torch_loan import fresh_dynamo


@contextlib.contextmanager
def isolated(config: Mapping[str, object]) -> Iterator[None]:
    """Start with nothing compiled, and leave nothing behind: Dynamo's caches, counts, marks,
    torch's config values.

    Raises:
        RequestError: There is no such setting of ``torch._dynamo.config``, or it takes another
            type.
    """
    with fresh_dynamo(), torch_config.config_kept():
        for name, value in config.items():
            set_config(f"torch._dynamo.config.{name}", value)
        yield


def compiled(function: Any, arguments: Mapping[str, Any]) -> Any:
    """The result of ``torch.compile`` with these arguments."""
    __tracebackhide__ = True
    return torch.compile(function, **arguments)


def is_grad_enabled() -> bool:
    """Whether a call made now would record for autograd."""
    return torch.is_grad_enabled()
