"""Where Inductor keeps what it compiles.

``torch/_inductor/runtime/cache_dir_utils.py`` and ``cpu_vec_isa.py``, 2.11 to 2.15.
"""

from __future__ import annotations

import functools
import itertools
import os
import sys
import time
from types import ModuleType
from typing import Any

from .imports import AfterImport

_FOLDER = "TORCHINDUCTOR_CACHE_DIR"
"""Inductor reads it each time that it looks for a file, and sets it where nobody has."""

_VECTORS = "torch._inductor.cpu_vec_isa"

_tags = itertools.count()


def compile_into(folder: str, *, shares_checks: bool = True) -> None:
    """Have Inductor look for what it compiled in a folder of its own from now on, and leave it there.

    Which vector instructions a compiler and a processor know is the same for every program: Inductor compiles a few
    small files to find out, and goes on looking for those where it did before.

    ``shares_checks``: look for those files there; otherwise they are part of what a first start costs.
    """
    before = os.environ.get(_FOLDER)
    os.environ[_FOLDER] = folder
    if not shares_checks:
        return
    share = functools.partial(_share_checks, before=before)
    if (vectors := sys.modules.get(_VECTORS)) is not None:
        share(vectors)
    else:
        sys.meta_path.insert(0, AfterImport({_VECTORS: share}))


def miss_caches() -> None:
    """Have torch find nothing on disk for the graphs that it compiles from now on.

    What it takes from a cache, it doesn't log. The tag is part of every key: ``torch/compiler/config.py``, 2.13.
    """
    from torch.compiler import config

    if hasattr(config, "cache_key_tag"):
        config.cache_key_tag = f"graphdoctor {os.getpid()} {time.time_ns()} {next(_tags)}"


def _share_checks(vectors: ModuleType, before: str | None) -> None:
    """Have vector instructions checked in the folder of before; without that name in torch, it takes longer."""
    owner = getattr(vectors, "VecISA", None)
    check = getattr(owner, "check_build", None)
    if owner is None or check is None:
        return

    @functools.wraps(check)
    def check_build(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        ours = os.environ[_FOLDER]
        try:
            _set(before)
            return check(*args, **kwargs)
        finally:
            _set(ours)

    owner.check_build = check_build


def _set(folder: str | None) -> None:
    if folder is None:
        os.environ.pop(_FOLDER, None)
    else:
        os.environ[_FOLDER] = folder
