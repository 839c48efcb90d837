"""Every rule documents itself in the same sections, with code that parses."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import graphdoctor
from graphdoctor.rules.catalog import ALL_RULES, PAGES, RULES
from graphdoctor.rules.diagnosis.rule import BreakRule, GapPage

DOC_SECTIONS = ("What it finds", "Why it costs", "Example", "Use instead", "Fix safety", "Source")
"""Sections of a rule's page, in order."""
GAP_SECTIONS = ("What it means", "Why it matters", "What to do")
"""Sections of the page about something that a recording lacks, in order."""

NEEDS_RANKS = {"GD125", "GD126", "GD129", "GD130", "GD209"}
"""Rules whose examples are programs with a process group, which make their calls themselves;
tests/distributed runs them."""

BELOW_DYNAMO = {
    "GD402",
    "GD403",
    "GD503",
    "GD504",
    "GD505",
    "GD506",
    "GD508",
    "GD509",
    "GD510",
    "GD511",
    "GD512",
    "GD513",
}
"""Rules about what is below Dynamo, which explain doesn't measure; test_kernel_rules.py does."""

OF_EXPORT = {"GD600", "GD601"}
"""Rules about what only an export finds; tests/studies/export has their examples."""


def first_block(rule, section):
    """The first Python block of a section as a program: what *Use instead* leaves out is as in the
    example."""
    match = re.search(r"```python\n(.*?)```", rule.sections()[section], re.DOTALL)
    assert match is not None, f"{rule.code}: no code under {section}"
    if section == "Example":
        return match[1]
    example, own = first_block(rule, "Example"), ast.parse(match[1])
    defined = set().union(*map(_defined, own.body))
    needed, kept = {"forward", "inputs", *_read(own)} - defined, []
    for node in reversed(ast.parse(example).body):
        if needed & _defined(node):
            needed |= _read(node) - defined
            first = min(part.lineno for part in (node, *getattr(node, "decorator_list", ())))
            kept += reversed(example.splitlines()[first - 1 : node.end_lineno])
    return "\n".join([*reversed(kept), match[1]])


def _defined(node):
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return {(alias.asname or alias.name).partition(".")[0] for alias in names}
    return {
        each.id
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }


def _read(tree):
    return {
        each.id
        for each in ast.walk(tree)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
    }


def test_pages_have_ordered_sections_and_runnable_code():
    wrong = []
    for page in PAGES.values():
        sections = GAP_SECTIONS if isinstance(page, GapPage) else DOC_SECTIONS
        if (
            tuple(page.sections()) != sections
            or not all(page.sections().values())
            or not page.title().endswith(".")
        ):
            wrong.append(page.code)
    for rule in ALL_RULES.values():
        for section in ("Example", "Use instead"):
            body = ast.parse(first_block(rule, section)).body
            names = {node.name for node in body if isinstance(node, ast.FunctionDef)}
            names |= {
                ast.unparse(target)
                for node in body
                if isinstance(node, ast.Assign)
                for target in node.targets
            }
            # A program of several processes makes its calls itself.
            if not ({"forward"} if rule.code in NEEDS_RANKS else {"forward", "inputs"}) <= names:
                wrong.append(f"{rule.code} {section}")
    assert wrong == []


def test_sources_in_torch_have_what_pages_name():
    """A source, ``file``, first to last torch (``name``), holds for the torch that is installed."""
    root = Path(pytest.importorskip("torch").__file__).parent.parent
    source = re.compile(r"`(torch/[\w/]+\.py)`, 2\.\d+ to 2\.\d+(?: \(([^)]*)\))?")
    cited, wrong = 0, []
    for page in PAGES.values():
        text = " ".join(page.sections().get("Source", "").split())
        for file, names in source.findall(text):
            cited += 1
            code = (root / file).read_text(encoding="utf-8") if (root / file).exists() else ""
            named = re.findall(r"`([\w.]+)`", names)
            if not code or not all(name.rpartition(".")[2] in code for name in named):
                wrong.append((page.code, file, names))
        assert not re.search(r"\.py`, 2\.\d+\b(?! to)", text), page.code
    assert (cited > 30, wrong) == (True, [])


def test_every_code_that_the_package_names_has_a_page():
    package = Path(graphdoctor.__file__).parent
    named = {
        code
        for file in package.rglob("*.py")
        for code in re.findall(r"\bGD\d{3}\b", file.read_text(encoding="utf-8"))
    }
    assert named == set(PAGES)


def test_codes_and_names_are_unique_and_well_formed():
    assert len({page.name for page in PAGES.values()}) == len(PAGES)
    assert all(re.fullmatch(r"GD[1-9]\d\d", code) for code in PAGES)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", page.name) for page in PAGES.values())
    tried = {rule.code for rule in RULES}
    assert (
        tried
        == set(ALL_RULES)
        == {code for code, page in PAGES.items() if not isinstance(page, GapPage)}
    )


def test_registry_ids_have_one_rule_and_catch_all_is_last():
    claimed = [
        torch_id for rule in RULES if isinstance(rule, BreakRule) for torch_id in rule.torch_ids
    ]
    assert len(claimed) == len(set(claimed))
    assert [rule.code for rule in RULES[-2:]] == ["GD100", "GD200"]
