"""Draw the README's terminal picture from a real run.

    python docs/make_picture.py

Runs ``graphdoctor explain`` on a sample model, takes what it prints with its colors, and writes
docs/explain.svg.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = "sample_models/image_filter.py"
WIDTH = 104


def main() -> None:
    """Run, draw, write."""
    command = [sys.executable, "-m", "graphdoctor", "explain", SAMPLE, "--color", "always"]
    environment = {**os.environ, "COLUMNS": str(WIDTH)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, encoding="utf-8"
    )
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True)
    console.print(Text("$ ", "bold green").append(f"graphdoctor explain {SAMPLE}", "bold"))
    console.print()
    console.print(Text.from_ansi(done.stdout))
    svg = console.export_svg(title="graphdoctor explain", unique_id="graphdoctor")
    # Without the template's fonts from the network: the picture is complete in itself.
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    (ROOT / "docs" / "explain.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
