"""A callback that logs a watch's totals through the Trainer of transformers."""

from __future__ import annotations

import sys

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from graphdoctor.api.watch import Watch, watch
from graphdoctor.api.watching.scalars import scalars


class TransformersWatch(TrainerCallback):
    """Logs recompiles, seconds of compiling and limit hits when the Trainer logs and they changed,
    and prints a summary at the end: ``trainer.add_callback(TransformersWatch(trainer))``.

    Args:
        trainer: It is logged through: what a callback adds to its logs reaches the loggers before
            it no more.
        watching: None for ``graphdoctor.watch()``.
    """

    def __init__(self, trainer: Trainer, watching: Watch | None = None) -> None:
        self.watch = watching or watch()
        self._trainer = trainer
        self._logged: dict[str, float] = {}

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Number the step as the Trainer does when it is over."""
        self.watch.step = state.global_step + 1

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Log the totals, which calls this again."""
        if (totals := scalars(self.watch)) != self._logged:
            self._logged = totals
            self._trainer.log(dict(totals))

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Print the summary."""
        if state.is_world_process_zero:
            print(f"graphdoctor: {self.watch.summary()}", file=sys.stderr)
