"""A real browser, a report of a real run, and a way to open a page that notices what a person would
not."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    Request,
    Route,
    expect,
    sync_playwright,
)

from tests.conftest import run_command

PROGRAM = '''\
"""A model that breaks, is skipped in part and is compiled again."""  # kumquat 1
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 8)

    def forward(self, x):
        return torch.relu(self.lin(x)) + x  # kumquat 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(8, 1)

    def smooth(self, x):
        for _ in range(2):  # kumquat 3
            torch._dynamo.graph_break()
            x = torch.sin(x) * 0.5
        return x

    def forward(self, x, power):
        x = x * power  # kumquat 4
        for block in self.blocks:
            x = block(x)
        print("kumquat 5")
        x = self.smooth(x)
        return self.head(x).sum()


def example_inputs():
    for rows, power in ((4, 2), (5, 2), (6, 2), (6, 3)):
        yield torch.randn(rows, 8), power
'''
"""Breaks at a ``print``, skips ``smooth``, compiles again for a size and for a number."""
SECRET = "kumquat"
"""A word of the program's own lines, and of nothing else."""


@dataclass(frozen=True)
class RecordedReport:
    """One run of ``PROGRAM``: tests read it and leave it as it is."""

    folder: Path
    recording: Path
    page: Path
    document: dict[str, Any]


@pytest.fixture(scope="session")
def reported(tmp_path_factory: pytest.TempPathFactory) -> RecordedReport:
    """The report that ``explain`` wrote, and what ``report`` says of the same recording as JSON."""
    folder = tmp_path_factory.mktemp("reported")
    (folder / "program.py").write_text(PROGRAM)
    # Whether guard checks take a large share of so short a call depends on the machine's mood.
    (folder / "pyproject.toml").write_text('[tool.graphdoctor]\nignore = ["GD301"]\n')
    arguments = ("--backend", "aot_eager", "--backward", "-o", "report.html")
    for command in (("explain", "program.py:Net", *arguments), ("report", "-o", "report.json")):
        run_command(*command, cwd=folder, status=0)
    (recording,) = (path for path in (folder / ".graphdoctor").iterdir() if path.is_dir())
    return RecordedReport(
        folder, recording, folder / "report.html", json.loads((folder / "report.json").read_text())
    )


NARROW = {"width": 390, "height": 844}
SCREENS = pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
AXE_RUN = """axe.run({ resultTypes: ["violations"] }).then(({ passes, violations }) => [
  passes.length,
  violations.filter(({ impact }) => ["serious", "critical"].includes(impact))
    .map(({ id, nodes: [first] }) => [id, first.html.slice(0, 200), first.failureSummary]),
])"""


def assert_accessible(page: Page, name: object = None) -> None:
    """axe finds no serious fault in a page opened with ``bypass_csp``, and nothing is wider than
    the screen."""
    page.evaluate(
        (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8") + ";null"
    )
    passed, faults = page.evaluate(AXE_RUN)
    assert passed > 12, name
    assert faults == [], name
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name


def load_everything(page: Page) -> None:
    """Go to each part that is drawn when it is seen, and open all that can be opened."""
    for box in page.locator("#lanes, #guard-tree, #graph-view, #phases").all():
        box.scroll_into_view_if_needed()
        expect(box.locator("button, select, canvas").first).to_be_attached()
    while page.locator("details:not([open])").count():
        page.evaluate("for (const found of document.querySelectorAll('details')) found.open = true")
        page.evaluate("new Promise(requestAnimationFrame)")


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, or the one that CHROMIUM names."""
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if path is None:
        reason = "There is no chromium: install Debian's, or name another in the variable CHROMIUM."
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Visitor:
    """Opens pages, each in a context of its own, and keeps what must not have happened."""

    browser: Browser
    trouble: list[str] = field(default_factory=list)
    contexts: list[BrowserContext] = field(default_factory=list)

    def __call__(self, file: Path, hash: str = "", **options: Any) -> Page:
        """Open a file and wait until its scripts have run.

        Args:
            file: The page.
            hash: What follows its name, with the ``#``.
            options: Of the browser's context, such as ``color_scheme`` or ``java_script_enabled``.
        """
        options.setdefault("viewport", {"width": 1440, "height": 900})
        context = self.browser.new_context(offline=True, reduced_motion="reduce", **options)
        self.contexts.append(context)
        address = file.resolve().as_uri()

        def serve(route: Route, request: Request) -> None:
            if request.url.partition("#")[0] == address:
                route.continue_()
            else:
                self.trouble.append(f"asked for {request.url[:200]}")
                route.abort()

        context.route("**/*", serve)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("pageerror", lambda error: self.trouble.append(f"raised {error}"))
        page.on(
            "console",
            lambda said: (
                self.trouble.append(said.text) if said.type in ("error", "warning") else None
            ),
        )
        page.goto(address + hash)
        if options.get("java_script_enabled", True):
            expect(page.locator("html")).to_have_attribute("data-ready", "true")
        return page


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visitor]:
    """Opens pages; afterwards nothing was asked for, raised or complained of."""
    visitor = Visitor(browser)
    yield visitor
    for context in visitor.contexts:
        context.close()
    assert visitor.trouble == []
