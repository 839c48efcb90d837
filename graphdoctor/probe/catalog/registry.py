"""The libraries that have a catalog. Comes in: a name of ``LIBRARIES``. Goes out: what its module says."""

from __future__ import annotations

import importlib
import os
import sys

from ..target.errors import TargetError
from ..wire import LIBRARIES
from .library import Library

_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")
"""Keep libraries that load weights by name from the network; they read these when they are imported."""

_HUB_SETTINGS = "huggingface_hub.constants"


def imported(name: str) -> Library:
    """A library's catalog, with the library imported. From now on, this process loads no weights from the network.

    Raises:
        TargetError: The library isn't installed.
    """
    os.environ.update(dict.fromkeys(_OFFLINE, "1"))
    module = LIBRARIES[name]
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise TargetError(
            f"{name} isn't installed for this interpreter.", f"Install it there: pip install {name}."
        ) from error
    if (settings := sys.modules.get(_HUB_SETTINGS)) is not None:
        # It may have been imported before.
        vars(settings)["HF_HUB_OFFLINE"] = True
    library: Library = importlib.import_module(f".{module}", __package__).LIBRARY
    return library
