"""``python -m graphdoctor``."""

from __future__ import annotations

from graphdoctor.cli import main

if __name__ == "__main__":
    main()
