"""A callback that logs a watch's totals through the Trainer of transformers."""

from __future__ import annotations

import sys

from transformers import Trainer, TrainerCallback

from graphdoctor.api.watch import Watch, watch
from graphdoctor.api.watching.scalars import scalars


class TransformersWatch(TrainerCallback):
    """Logs recompiles, seconds of compiling and limit hits when the Trainer logs and they changed,
    and prints a summary at the end: ``trainer.add_callback(TransformersWatch(trainer))``.

    Args:
        trainer: It is logged through: loggers come before other callbacks, so what one of those
            adds to the Trainer's logs doesn't reach them.
        watching: None for ``graphdoctor.watch()``.
    """

    def __init__(self, trainer: Trainer, watching: Watch | None = None) -> None:
        self.watch, self._trainer = watching or watch(), trainer
        self._logged: dict[str, float] = {}

    def on_step_begin(self, *_: object, **__: object) -> None:
        """Number the step as the Trainer does when it is over."""
        self.watch.step = self._trainer.state.global_step + 1

    def on_log(self, *_: object, **__: object) -> None:
        """Log the totals, which calls this again."""
        if (totals := scalars(self.watch)) != self._logged:
            self._logged = totals
            self._trainer.log(dict(totals))

    def on_train_end(self, *_: object, **__: object) -> None:
        """Print the summary."""
        if self._trainer.is_world_process_zero():
            print(f"graphdoctor: {self.watch.summary()}", file=sys.stderr)
