"""Times the steps of a training loop, and keeps its first losses, for a program that runs again under another setting.

A step is the time from one call of ``torch.autograd.backward`` to the next; one in which something is compiled doesn't
count. Comes in: calls of the loop. Goes out: a ``StepsArtifact``.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import torch

from ..torch_private import torch_api
from ..torch_private.imports import hide_caller
from ..torch_private.replacing import put_in_place
from ..wire import StepsArtifact

_MAX_STEPS = 100
_MAX_LOSSES = 5


class BackwardSteps:
    """The steps of one process."""

    def __init__(self) -> None:
        self._count = 0
        self._last: float | None = None
        self._has_compiled = False
        self._intervals_us: deque[float] = deque(maxlen=_MAX_STEPS)
        self._losses: list[torch.Tensor] = []

    def install(self) -> None:
        """Note each backward pass from now on.

        ``Tensor.backward`` calls ``torch.autograd.backward`` (``torch/_tensor.py``, 2.11 to 2.15).
        """
        run, note = torch.autograd.backward, self._note

        def backward(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            _outside_dynamo(note, args)
            try:
                return run(*args, **kwargs)
            except BaseException as error:
                hide_caller(error)
                raise

        torch_api.keep_from_compiling(backward)
        torch_api.keep_all_from_compiling(_outside_dynamo)
        put_in_place(torch.autograd, "backward", backward)

    def on_compile(self) -> None:
        """Something is compiled: the step has more to do than others."""
        self._has_compiled = True

    def _note(self, args: tuple[Any, ...]) -> None:
        now = time.perf_counter()
        if self._last is not None and not self._has_compiled:
            self._intervals_us.append((now - self._last) * 1e6)
        self._last, self._has_compiled = now, False
        self._count += 1
        loss = args[0] if args else None
        if len(self._losses) < _MAX_LOSSES and isinstance(loss, torch.Tensor) and loss.numel() == 1:
            self._losses.append(loss.detach().clone())

    def artifact(self) -> StepsArtifact:
        """What was seen."""
        losses = []
        with contextlib.suppress(Exception):  # the device may be gone
            losses = [float(loss) for loss in self._losses]
        return StepsArtifact(count=self._count, intervals_us=list(self._intervals_us), losses=losses)


def _outside_dynamo(note: Callable[[tuple[Any, ...]], None], args: tuple[Any, ...]) -> None:
    with contextlib.suppress(Exception):  # an extra; the backward pass must go on
        note(args)
