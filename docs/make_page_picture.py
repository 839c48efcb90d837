"""Take the picture of the HTML report from a real run.

    python docs/make_page_picture.py

Runs ``graphdoctor explain --try`` on a sample, opens the page in Chromium, and writes
docs/report.png.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = "sample_models/hidden_second_break.py"


def main() -> None:
    """Run, open, take the picture."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        command = [sys.executable, "-m", "graphdoctor", "explain", SAMPLE, "--try", "-o", str(page)]
        subprocess.run(command, cwd=ROOT, check=True)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            shown = browser.new_page(viewport={"width": 1280, "height": 960}, color_scheme="light")
            shown.goto(page.as_uri())
            shown.wait_for_selector("html[data-ready]", state="attached")
            shown.screenshot(path=ROOT / "docs" / "report.png")
            browser.close()


if __name__ == "__main__":
    main()
