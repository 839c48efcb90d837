"""Watches a program that doesn't ask for it: ``GRAPHDOCTOR_WATCH=1 python train.py``, and
``graphdoctor run --watch``.

Imported at Python's start where the variable is set, by ``graphdoctor_watch.pth`` beside the
installed package or by the start-up folder of ``run``. Everything else waits until the program
imports Dynamo.
"""

from __future__ import annotations

import os
import sys

from graphdoctor.probe.file_names import WATCH_VARIABLE
from graphdoctor.probe.torch_private.imports import AfterImport

_DYNAMO = "torch._dynamo"


def _begin(_module: object = None) -> None:
    import atexit

    named = os.environ[WATCH_VARIABLE]
    try:
        from graphdoctor.api.watch import watch

        seen = watch(to=["console"] if named == "1" else named.split(","), log=False)
    except Exception as error:  # noqa: BLE001 - the program must run
        print(f"graphdoctor: {WATCH_VARIABLE}={named}: {error}", file=sys.stderr)
        return
    pid = os.getpid()

    def tell() -> None:
        if seen.compiles and os.getpid() == pid:
            seen.close()
            print(f"graphdoctor: {seen.summary()}", file=sys.stderr)

    atexit.register(tell)


if os.environ.get(WATCH_VARIABLE):
    if _DYNAMO in sys.modules:
        _begin()
    else:
        sys.meta_path.insert(0, AfterImport({_DYNAMO: _begin}))
