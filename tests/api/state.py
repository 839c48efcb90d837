"""What a recording in this process may change: looked at from outside, by names that graphdoctor
does not share."""

from __future__ import annotations

import copy
import gc
import importlib
import logging
import os
import random
import sys
import tempfile
import threading
import warnings
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import torch

HOOKED = {
    "torch._dynamo.convert_frame": (
        "CheckFunctionManager",
        "get_and_maybe_log_recompilation_reasons",
    ),
    "torch._dynamo.output_graph": ("OutputGraph.call_user_compiler",),
    "torch._inductor.compiler_bisector": ("CompilerBisector.get_backend",),
    "torch._logging._internal": ("_init_logs", "trace_structured"),
    "torch._dynamo.utils": ("to_numpy_helper",),
    "torch": ("compile", "Tensor.item"),
}


def process_state() -> dict[str, Any]:
    """Everything in this process that a recording touches, in a form that compares by value or by
    identity."""
    gc.collect()
    module = importlib.import_module
    numpy = [part.tolist() if hasattr(part, "tolist") else part for part in np.random.get_state()]
    descriptors = Path("/proc/self/fd")
    configs = ("torch._dynamo.config", "torch._inductor.config")
    loggers = {"": logging.root, **logging.root.manager.loggerDict}
    return {
        "loggers": {
            name: _logger_state(logger)
            for name, logger in loggers.items()
            if isinstance(logger, logging.Logger)
        },
        "disabled below": logging.root.manager.disable,
        "strings": dict(module("torch._logging.structured").INTERN_TABLE),
        "config": {name: module(name).get_config_copy() for name in configs},
        "hooks": {of: [_identity(of, name) for name in names] for of, names in HOOKED.items()},
        "bytecode hooks": dict(module("torch._dynamo.convert_frame")._bytecode_hooks),
        "always compiled": set(
            module("torch._dynamo.eval_frame").always_optimize_code_objects.refs
        ),
        "counters": copy.deepcopy(dict(module("torch._dynamo.utils").counters)),
        "random": (random.getstate(), numpy, torch.get_rng_state().tolist()),
        "grad mode": (
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            torch.get_default_dtype(),
        ),
        "streams": (id(sys.stdout), id(sys.stderr), sys.getprofile(), sys.gettrace()),
        "paths": (list(sys.path), list(sys.meta_path), Path.cwd()),
        # Inductor itself puts its folder of caches there
        # (``torch/_inductor/runtime/cache_dir_utils.py``, 2.13).
        "environment": {k: v for k, v in os.environ.items() if k != "TORCHINDUCTOR_CACHE_DIR"},
        "warnings": list(warnings.filters),
        "threads": threading.active_count(),
        "files": len(list(descriptors.iterdir())) if descriptors.is_dir() else None,
        "folders": sorted(path.name for path in Path(tempfile.gettempdir()).glob("graphdoctor-*")),
    }


def foreign_objects() -> list[str]:
    """Where in torch's modules and their classes something of graphdoctor's is."""
    found = []
    for name, module in list(sys.modules.items()):
        if not name.startswith("torch") or not isinstance(module, ModuleType):
            continue
        for key, value in list(vars(module).items()):
            if key == "reduce_op":  # warns when it is looked at
                continue
            if _is_ours(value):
                found.append(f"{name}.{key}")
            elif isinstance(value, type):
                found += [f"{name}.{key}.{k}" for k, v in list(vars(value).items()) if _is_ours(v)]
            elif isinstance(value, (list, set, tuple)):
                found += [f"{name}.{key}[…]" for item in list(value) if _is_ours(item)]
            elif isinstance(value, dict):
                found += [f"{name}.{key}[…]" for item in list(value.values()) if _is_ours(item)]
    return found


def living(*names: str) -> list[str]:
    """Objects of graphdoctor's probe that are still alive, by class name."""
    gc.collect()
    kinds = [type(item) for item in gc.get_objects()]
    return sorted(
        k.__name__
        for k in kinds
        if k.__name__ in names and str(k.__module__).startswith("graphdoctor")
    )


def _is_ours(value) -> bool:
    owner = value if isinstance(value, (FunctionType, type)) else type(value)
    file = value.__code__.co_filename if isinstance(value, FunctionType) else ""
    is_of_us = str(getattr(owner, "__module__", "")).startswith("graphdoctor")
    return is_of_us or "/graphdoctor/probe/" in file


def _logger_state(logger: logging.Logger) -> tuple[Any, ...]:
    # torch's own handler takes itself away when it has nowhere to write to.
    handlers = [it for it in logger.handlers if getattr(it, "root_dir", "") is not None]
    return (
        *(logger.level, logger.propagate, logger.disabled),
        *(vars(logger).get("isEnabledFor"), handlers),
        *([list(handler.filters) for handler in handlers], list(logger.filters)),
    )


def _identity(module: str, name: str) -> int:
    value: Any = importlib.import_module(module)
    *owners, last = name.split(".")
    for owner in owners:
        value = getattr(value, owner)
    return id(vars(value).get(last, getattr(value, last)))
