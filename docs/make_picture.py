"""Draw the README's terminal picture from a real run.

    python docs/make_picture.py

Runs ``graphdoctor explain`` on a sample, renders the recording as the terminal does, and writes docs/explain.svg.
"""

from __future__ import annotations

import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

from graphdoctor import __version__
from graphdoctor.capture.store import Store
from graphdoctor.diagnosis.diagnose import diagnose
from graphdoctor.render.console import render_console
from graphdoctor.trace.reader import read_recording

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = "sample_models/print_in_loop.py"
WIDTH = 104


def main() -> None:
    """Run, render, write."""
    command = [sys.executable, "-m", "graphdoctor", "explain", SAMPLE]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    recording = read_recording(Store(ROOT, keep_count=1).last())
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True)
    console.print(Text("$ ", "bold green").append(f"graphdoctor explain {SAMPLE}", "bold"))
    console.print()
    render_console(diagnose(recording, root=ROOT, version=__version__), console)
    svg = console.export_svg(title="graphdoctor explain", unique_id="graphdoctor")
    # Without the template's fonts from the network: the picture is complete in itself.
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    (ROOT / "docs" / "explain.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
