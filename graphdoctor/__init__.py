"""graphdoctor reports what ``torch.compile`` did to your model, and why.

``explain``, ``record`` and ``watch`` do so in the running process, for scripts and notebooks. The
command line runs user code and torch in a child process. Importing this package imports neither
torch nor any other module of the package but its version.
"""

from __future__ import annotations

from graphdoctor.version import __version__

TYPE_CHECKING = False  # reading the version shouldn't import typing
if TYPE_CHECKING:
    from graphdoctor.api.block import BlockRecording, record
    from graphdoctor.api.explainer import Explainer, explain
    from graphdoctor.api.report import Report
    from graphdoctor.api.watch import RecompileError, Watch, watch
    from graphdoctor.api.watching.lightning import LightningWatch as LightningWatch
    from graphdoctor.api.watching.transformers import TransformersWatch as TransformersWatch
    from graphdoctor.errors import GraphDoctorError

# Without those that import a trainer's library.
__all__ = [
    "explain",
    "Explainer",
    "record",
    "BlockRecording",
    "Report",
    "watch",
    "Watch",
    "RecompileError",
    "GraphDoctorError",
    "__version__",
]

_HOMES = {
    "explain": "api.explainer",
    "Explainer": "api.explainer",
    "record": "api.block",
    "BlockRecording": "api.block",
    "Report": "api.report",
    "watch": "api.watch",
    "Watch": "api.watch",
    "RecompileError": "api.watch",
    "LightningWatch": "api.watching.lightning",
    "TransformersWatch": "api.watching.transformers",
    "GraphDoctorError": "errors",
}


def __getattr__(name: str) -> object:
    """Import a public name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
