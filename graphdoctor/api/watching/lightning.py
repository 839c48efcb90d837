"""A callback that logs a watch's totals to the loggers of Lightning's Trainer."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from graphdoctor.api.watch import Watch, watch
from graphdoctor.api.watching.scalars import scalars

_OLD, _NEW = "pytorch_lightning", "lightning.pytorch"
# Both can be installed, and a Trainer takes callbacks of its own package only.
if _NEW not in sys.modules and (_OLD in sys.modules or find_spec("lightning") is None):
    from pytorch_lightning import Callback, Trainer
else:
    from lightning.pytorch import Callback, Trainer


class LightningWatch(Callback):  # type: ignore[misc] # an extra, so not typed everywhere
    """Logs recompiles, seconds of compiling and limit hits after a batch that changed them, and
    prints a summary at the end. Its watch is ``graphdoctor.watch()`` unless one is given.
    """

    def __init__(self, watching: Watch | None = None) -> None:
        self.watch = watching or watch()
        self._logged: dict[str, float] = {}

    def on_train_batch_start(self, trainer: Trainer, *_: object) -> None:
        """Number the step as Lightning's loggers do."""
        self.watch.step = trainer.global_step

    def on_train_batch_end(self, trainer: Trainer, *_: object) -> None:
        """Log the totals."""
        if (totals := scalars(self.watch)) != self._logged:
            self._logged = totals
            for logger in trainer.loggers:
                logger.log_metrics(totals, step=self.watch.step)

    def on_train_end(self, trainer: Trainer, *_: object) -> None:
        """Print the summary."""
        if trainer.is_global_zero:
            print("graphdoctor:", self.watch.summary(), file=sys.stderr)
