"""``python -m graphdoctor``."""

from __future__ import annotations

from graphdoctor.commands import main

if __name__ == "__main__":
    main()
