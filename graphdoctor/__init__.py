"""graphdoctor tells you what ``torch.compile`` did to your model, and why.

Importing this package never imports torch: user code and torch run in a child process, the probe.
"""

from __future__ import annotations

__version__ = "0.1.0"

__all__ = ["__version__"]
