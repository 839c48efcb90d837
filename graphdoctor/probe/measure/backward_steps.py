"""Times the steps of a training loop, and keeps its first losses, for a program that runs again under another setting.

A step is the time from one call of ``torch.autograd.backward`` to the next; one in which something is compiled doesn't
count. Comes in: calls of the loop. Goes out: a ``StepsArtifact``.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque

import torch

from ..torch_private.replacing import look_on
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
        look_on(torch.autograd, "backward", before=self._note, is_traced=True)

    def on_compile(self) -> None:
        """Something is compiled: the step has more to do than others."""
        self._has_compiled = True

    def _note(self, loss: object = None, *_: object) -> None:
        now = time.perf_counter()
        if self._last is not None and not self._has_compiled:
            self._intervals_us.append((now - self._last) * 1e6)
        self._last, self._has_compiled = now, False
        self._count += 1
        if len(self._losses) < _MAX_LOSSES and isinstance(loss, torch.Tensor) and loss.numel() == 1:
            self._losses.append(loss.detach().clone())

    def artifact(self) -> StepsArtifact:
        """What was seen."""
        losses = []
        with contextlib.suppress(Exception):  # the device may be gone
            losses = [float(loss) for loss in self._losses]
        return StepsArtifact(count=self._count, intervals_us=list(self._intervals_us), losses=losses)
