"""Which code of torch's own a graph break happened in, below the innermost line of the program.

Comes in: the whole call path to a break, and torch's words. Goes out: a ``TorchMechanism``, or None. Files and
functions as in torch 2.11 to 2.15.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphdoctor.facts.recording import BreakReason, TorchMechanism
from graphdoctor.facts.stack import PROGRAM_ORIGINS, StackEntry
from graphdoctor.trace.breaks import BreakText

_FOLDERS: tuple[tuple[str, TorchMechanism], ...] = (
    ("torch/nn/parallel/distributed.py", "ddp_forward"),
    ("torch/distributed/fsdp/", "fsdp_hook"),
    ("torch/utils/checkpoint.py", "checkpoint"),
)
_MODULE_FILE = "torch/nn/modules/module.py"
_CHECKPOINT = "torch.utils.checkpoint."
_SIDE_EFFECT = "HOP: Unsafe side effect"


def mechanism_of(path: Sequence[StackEntry], text: BreakText) -> TorchMechanism | None:
    """The code of torch's own that a break happened in."""
    cause = text.chain[0]
    is_checkpointed = (text.higher_order_operator or "").startswith(_CHECKPOINT)
    below = _below_the_program(path)
    if not below:
        return "checkpoint" if _is_checkpoint_itself(cause.context) or _is_side_effect(cause, is_checkpointed) else None
    if _is_side_effect(cause, is_checkpointed):
        return "checkpoint"
    for entry in reversed(below):
        file = entry.file.replace("\\", "/")
        for part, mechanism in _FOLDERS:
            if f"/{part}" in file:
                return mechanism
    return "module_hook" if _is_module_hook(below) else None


def _below_the_program(path: Sequence[StackEntry]) -> list[StackEntry]:
    """The innermost entries that belong to torch or Python, without those in Dynamo itself."""
    below: list[StackEntry] = []
    for entry in reversed(path):
        if entry.origin in PROGRAM_ORIGINS:
            break
        below.append(entry)
    return [entry for entry in reversed(below) if "/torch/_dynamo/" not in entry.file.replace("\\", "/")]


def _is_module_hook(below: Sequence[StackEntry]) -> bool:
    """``Module._call_impl`` calls hooks and ``forward`` on lines of its own; only the text tells them apart."""
    last = below[-1]
    return last.file.replace("\\", "/").endswith(_MODULE_FILE) and "hook(" in (last.text or "").lower()


def _is_checkpoint_itself(context: str | None) -> bool:
    """A function of ``torch.utils.checkpoint`` that Dynamo doesn't trace, such as ``checkpoint_sequential``."""
    return (context or "").startswith("module: torch.utils.checkpoint,")


def _is_side_effect(cause: BreakReason, is_checkpointed: bool) -> bool:
    return is_checkpointed and cause.gb_type == _SIDE_EFFECT
