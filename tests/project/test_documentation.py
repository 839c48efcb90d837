"""Every command of README.md and docs/ exists and does what the page shows; the site has a page for
each rule."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest
from playwright.sync_api import sync_playwright

from graphdoctor.api.explainer import Explainer
from graphdoctor.commands.settings import Settings
from graphdoctor.facts.command import rule_url
from graphdoctor.facts.fixes import WORKING, Verdict
from graphdoctor.rules.catalog import PAGES as RULE_PAGES
from graphdoctor.studies.survey.table import CAUSE_COLUMNS, COLUMNS
from graphdoctor.views.verdicts import BY_SETTING, FASTER, GONE, ONE_GRAPH
from tests.conftest import clean_environment, command_folder
from tests.each import for_each
from tests.project.documentation import (
    COMMENTS,
    NAMES,
    REPOSITORY,
    Command,
    blocks_of,
    inline_commands,
    missing_line,
)

EVERY_PAGE = pytest.mark.parametrize("page", NAMES)
WITH_COMMANDS = [page for page in NAMES if any(block.is_run for block in blocks_of(page))]


def generator(name: str) -> ModuleType:
    """A module of docs/site/, which MkDocs loads by path too."""
    spec = importlib.util.spec_from_file_location(name, REPOSITORY / "docs" / "site" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HELP = generator("command_help")


@pytest.fixture(scope="session")
def options() -> Callable[[str], frozenset[str]]:
    known: dict[str, frozenset[str]] = {}

    def options_of(command: str) -> frozenset[str]:
        if command not in known:
            known[command] = HELP.options_of(command)
        return known[command]

    return options_of


@EVERY_PAGE
def test_a_block_says_in_known_words_what_becomes_of_it(page: str) -> None:
    for block in blocks_of(page):
        assert block.language not in ("bash", "sh", "shell", ""), (
            f"line {block.line}: name console, or text"
        )
        if block.comment is not None and not block.comment.startswith("generated: "):
            assert COMMENTS.fullmatch(block.comment), f"line {block.line}: {block.comment}"
        if test := block.asked("test"):
            assert (REPOSITORY / test).is_file()


@EVERY_PAGE
def test_python_blocks_parse(page: str) -> None:
    for block in blocks_of(page):
        if block.language == "python":
            ast.parse(block.text)


@EVERY_PAGE
def test_every_command_and_option_on_a_page_exists(
    page: str, options: Callable[[str], frozenset[str]]
) -> None:
    written = [
        command.text
        for block in blocks_of(page)
        if block.language == "console"
        for command in block.commands()
    ]
    for text in [*written, *inline_commands(page)]:
        words = Command(text).words
        if words[0] != "graphdoctor" or not re.fullmatch(r"[a-z]+", words[1]):
            continue
        assert words[1] in HELP.command_names(), text
        # What stands behind a script's name is the script's.
        own = words[2 : _end_of_options(words)]
        unknown = {word.partition("=")[0] for word in own if re.match(r"-", word)} - options(
            words[1]
        )
        assert not unknown - {"-"}, text


def _end_of_options(words: list[str]) -> int | None:
    if words[1] != "run":
        return None
    return next(
        (number + 1 for number, word in enumerate(words) if word.endswith(".py") or word == "-m"),
        None,
    )


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_COMMANDS)
def test_the_commands_of_a_page_do_what_it_shows(page: str, tmp_path: Path) -> None:
    shutil.copytree(REPOSITORY / "sample_models", tmp_path / "sample_models")
    environment = clean_environment(
        PATH=os.pathsep.join(
            [str(command_folder()), str(Path(sys.executable).parent), os.environ["PATH"]]
        ),
        COLUMNS="120",
    )
    for block in blocks_of(page):
        if name := block.asked("file"):
            (tmp_path / name).write_text(block.text, encoding="utf-8")
        for command in block.commands() if block.is_run else ():
            done = subprocess.run(
                ["bash", "-c", command.text],
                cwd=tmp_path,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                timeout=300,
                check=False,
            )
            where = f"{page}:{block.line}: {command.text}\n{done.stdout}"
            assert done.returncode == command.status, where
            missing = missing_line(done.stdout, command.shown)
            assert missing is None, f"not printed: {missing}\n{where}"


def test_getting_started_goes_where_each_report_leads() -> None:
    commands = [
        command
        for block in blocks_of("docs/getting-started.md")
        if block.is_run
        for command in block.commands()
    ]
    walk = [
        command
        for command in commands
        if "report" not in command.text and "-q" not in command.words
    ]
    for command, following in pairwise(walk):
        (said,) = (
            line.removeprefix("Next: ") for line in command.shown if line.startswith("Next: ")
        )
        assert missing_line(following.text, (said,)) is None
    assert [command.words[1] for command in walk] == ["explain", "fix", "fix", "bench", "check"]


@for_each(
    "shown, missing",
    [
        (("first", "…", "third"), None),
        (("f…t",), None),
        (("  first  ",), None),
        (("third", "first"), "first"),
        (("fir",), "fir"),
        (("second", "second"), "second"),
    ],
)
def test_shown_output_must_appear_in_order(shown: tuple[str, ...], missing: str | None) -> None:
    assert missing_line("first\n second \nthird\n", shown) == missing


def test_every_command_has_a_guide_that_ends_with_its_help() -> None:
    text = "".join(
        path.read_text(encoding="utf-8") for name, path in NAMES.items() if name.startswith("docs/")
    )
    for command in HELP.command_names():
        assert f"<!-- generated: help {command} -->" in text


def test_every_setting_and_every_format_is_in_a_table() -> None:
    settings, formats = generator("settings_tables"), generator("format_tables")
    for found in fields(Settings):
        assert f"| `{found.name.replace('_', '-')}` |" in settings.settings_table()
    for name in ("target", "inputs", "calls", "max-breaks", "min-coverage"):
        assert f"| `{name}` |" in settings.targets_table()
    for name in ("text", "json", "html", "sarif", "github", "junit", "markdown", "svg"):
        assert f"| `{name}` |" in formats.formats_table()


def test_every_survey_column_is_in_a_table_of_its_page() -> None:
    page = NAMES["docs/survey-columns.md"].read_text(encoding="utf-8")
    for of, columns in (("row", COLUMNS), ("cause", CAUSE_COLUMNS)):
        assert f"<!-- generated: columns {of} -->" in page
        rows = generator("column_tables").columns_table(of).splitlines()[2:]
        assert [row.split(" | ")[0] for row in rows] == [f"| `{column.name}`" for column in columns]
        assert all(row.count(" | ") == 3 for row in rows)


def test_installing_without_torch_names_every_other_dependency() -> None:
    declared = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]["dependencies"]
    names = {re.split(r"[^\w-]", dependency)[0] for dependency in declared}
    page = NAMES["docs/getting-started.md"].read_text(encoding="utf-8")
    shown = re.search(r"pip install --no-deps \.\npip install (.+)", page)
    assert shown is not None
    assert {"torch", *shown[1].split()} == names


def test_the_guide_to_fix_explains_every_verdict() -> None:
    page = NAMES["docs/guide/fix.md"].read_text(encoding="utf-8")
    table = page.partition("| verdict |")[2].partition("\n\n")[0]
    said = re.findall(r"^\| ([^|-][^|]+) \|", table, re.MULTILINE)
    others = [verdict for verdict in get_args(Verdict) if verdict not in WORKING]
    words = [ONE_GRAPH, f"{ONE_GRAPH}, {BY_SETTING}", GONE, "…, but prints are lost", FASTER]
    assert [text for text in said if text != "means"] == [*words, *others]


def test_script_and_notebook_page_has_every_explainer_option() -> None:
    page = NAMES["docs/api.md"].read_text(encoding="utf-8")
    table = page.partition("| option of `Explainer` |")[2].partition("\n\n")[0]
    first_column = "".join(re.findall(r"^\|([^|]+)\|", table, re.MULTILINE))
    assert set(re.findall(r"`(\w+)`", first_column)) == {
        found.name for found in fields(Explainer) if found.init
    }


@for_each("page", [page for page in NAMES if "/" not in page])
def test_links_of_pages_outside_the_site_lead_somewhere(page: str) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", NAMES[page].read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        target = REPOSITORY / path
        assert target.is_file(), link
        headings = (
            re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            if anchor
            else []
        )
        slugs = {
            re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-")
            for heading in headings
        }
        assert not anchor or anchor in slugs, link


def test_checkout_takes_two_commands_and_ci_runs_the_second() -> None:
    first, second = [
        block.text.strip() for block in blocks_of("README.md") if "pip install -e" in block.text
    ]
    assert re.fullmatch(r"pip install -e \. && graphdoctor fix (\S+)", first)
    assert (REPOSITORY / first.split()[-1]).is_file()
    assert f"bash -c '{second}'\n" in (REPOSITORY / ".ci" / "run").read_text(encoding="utf-8")


def test_the_readme_is_short() -> None:
    assert len((REPOSITORY / "README.md").read_bytes()) <= 6 * 1024


def test_every_code_has_a_page_where_its_link_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphdoctor.facts.command.DOCS_URL", "https://docs.example.org/")
    pages = dict(generator("rule_pages").rule_pages())
    for code, rule in RULE_PAGES.items():
        path = rule_url(code).removeprefix("https://docs.example.org/").removesuffix("/") + ".md"
        assert f"# {code} {rule.name}" in pages[path]
        assert all(f"## {section}" in pages[path] for section in rule.sections())
        assert f"({code}.md)" in pages["rules/index.md"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole site, built without a warning."""
    pytest.importorskip("material")
    pytest.importorskip("mkdocstrings")
    folder = tmp_path_factory.mktemp("built") / "site"
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=REPOSITORY,
        env=clean_environment(NO_MKDOCS_2_WARNING="1"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.mark.slow
def test_the_site_loads_nothing_from_a_network(site: Path) -> None:
    loaded = re.compile(
        r'<(?:script|link|img|iframe|source)\b[^>]*(?:src|href)="(?:https?:)?//[^"]*"'
    )
    for page in site.rglob("*.html"):
        assert not loaded.findall(page.read_text(encoding="utf-8")), page
    for style in site.rglob("*.css"):
        assert not re.findall(
            r"(?:url\(|@import)[\"' ]*(?:https?:)?//", style.read_text(encoding="utf-8")
        ), style
    assert (site / "rules" / "GD101" / "index.html").is_file()


FOUND_FIRST = {
    "slower than eager": "troubleshooting/#its-slow",
    "print in forward": "troubleshooting/#a-print-in-forward",
    "DataLoader": "recipes/training/#the-last-batch",
    "recompile batch size": "guide/recompiles/#when-the-batch-size-changes",
    "ignore a finding": "guide/check/#ignore-a-finding",
    "example_inputs": "guide/targets/#inputs",
    "why is compile slow": "troubleshooting/#why-is-the-first-call-so-slow",
    "jupyter": "api/",
    "GitHub Actions": "ci/#github-actions",
    "optimizer": "recipes/training/#a-whole-step-with-its-optimizer",
}
"""What people look for, and where the site's own search must lead them first."""
ASK = """async ({worker, index, queries}) => {
    let handle, answer;
    window.addEventListener = (_, listener) => { handle = listener };
    window.postMessage = (message) => { answer = message };
    (0, eval)(worker);
    await handle({data: {type: 0, data: {...index, options: {suggest: false}}}});
    const found = {};
    for (const query of queries) {
        await handle({data: {type: 2, data: query}});
        found[query] = answer.data.items.map((group) => group[0].location);
    }
    return found;
}"""
"""Sets up the worker that searches, and asks it."""


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("chromium"), reason="the search runs in a browser")
def test_the_search_finds_the_right_page_first(site: Path) -> None:
    (worker,) = site.glob("assets/javascripts/workers/search.*.js")
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    asked = {
        "worker": worker.read_text(encoding="utf-8"),
        "index": index,
        "queries": list(FOUND_FIRST),
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        found = browser.new_page().evaluate(ASK, asked)
        browser.close()
    firsts = {query: places[0] for query, places in found.items()}
    assert not {
        query: first for query, first in firsts.items() if not first.startswith(FOUND_FIRST[query])
    }
