"""What torch.export has no public name for.

``torch/export/exported_program.py``, ``torch/_export/non_strict_utils.py``, 2.13 and 2.15.
"""

from __future__ import annotations

from collections.abc import Callable
from traceback import walk_tb
from types import FrameType, TracebackType
from typing import Any

import torch


def guards_of(program: Any) -> list[str]:
    """List conditions on sizes that an exported program checks, in Python (``_guards_code``, 2.13);
    else none.
    """
    return [str(guard) for guard in getattr(program, "_guards_code", None) or ()]


def asks_for_truth(raised: TracebackType, is_user_file: Callable[[str], bool]) -> bool:
    """Whether an exception was raised because the program asked whether a tensor is true.

    Non-strict export sees ``if tensor:`` as ``Tensor.__bool__``
    (``torch/_export/non_strict_utils.py``, 2.13).
    """
    after: FrameType | None = None
    is_user = False
    for frame, _ in walk_tb(raised):
        was_user, is_user = is_user, is_user_file(frame.f_code.co_filename)
        after = None if is_user else frame if was_user else after
    return after is not None and after.f_locals.get("func") is torch.Tensor.__bool__
