"""Every rule documents itself in the same sections, with code that parses."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import graphdoctor
from graphdoctor.rules.catalog import ALL_RULES, BREAK_RULES, GAP_PAGES, PAGES, RECOMPILE_RULES, RECORDING_RULES
from graphdoctor.rules.diagnosis.rule import DOC_SECTIONS, GAP_SECTIONS, BreakRule, GapPage, Rule
from tests.each import for_each

RULES = list(ALL_RULES.values())


NEEDS_RANKS = {"GD125", "GD126", "GD129", "GD130", "GD209"}
"""Rules whose examples are programs with a process group, which make their calls themselves; tests/distributed runs
them."""

BELOW_DYNAMO = {"GD402", "GD403", "GD503", "GD504", "GD505", "GD506", "GD508", "GD509", "GD510", "GD511", "GD512"}
"""Rules about what is below Dynamo, which explain doesn't measure; test_kernel_rules.py does."""

OF_EXPORT = {"GD600", "GD601"}
"""Rules about what only an export finds; tests/exports has their examples."""


def first_block(rule: Rule, section: str) -> str:
    """The first Python block of a section."""
    match = re.search(r"```python\n(.*?)```", rule.sections()[section], re.DOTALL)
    assert match is not None, f"{rule.code}: no code under {section}"
    return match[1]


@for_each("rule", RULES)
def test_documentation_has_every_section_in_order(rule: Rule) -> None:
    assert tuple(rule.sections()) == DOC_SECTIONS
    assert all(rule.sections().values())
    assert rule.title().endswith(".")


@for_each("page", GAP_PAGES)
def test_the_page_of_a_gap_has_every_section_in_order(page: GapPage) -> None:
    assert tuple(page.sections()) == GAP_SECTIONS
    assert all(page.sections().values())
    assert page.title().endswith(".")


def test_every_code_that_the_package_names_has_a_page() -> None:
    package = Path(graphdoctor.__file__).parent
    named = {
        code for file in package.rglob("*.py") for code in re.findall(r"\bGD\d{3}\b", file.read_text(encoding="utf-8"))
    }
    assert named == set(PAGES)


@for_each("rule", RULES)
@for_each("section", ["Example", "Use instead"])
def test_code_defines_forward_and_inputs(rule: Rule, section: str) -> None:
    body = ast.parse(first_block(rule, section)).body
    names = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    names |= {ast.unparse(target) for node in body if isinstance(node, ast.Assign) for target in node.targets}
    # A program of several processes makes its calls itself.
    assert "forward" in names if rule.code in NEEDS_RANKS else {"forward", "inputs"} <= names


def test_codes_and_names_are_unique_and_well_formed() -> None:
    rules = {id(rule): rule for rule in (*BREAK_RULES, *RECORDING_RULES, *RECOMPILE_RULES)}.values()
    assert len({rule.code for rule in rules}) == len(rules) == len(ALL_RULES)
    assert len({page.name for page in PAGES.values()}) == len(PAGES) == len(ALL_RULES) + len(GAP_PAGES)
    assert all(re.fullmatch(r"GD[1-9]\d\d", rule.code) for rule in rules)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", page.name) for page in PAGES.values())


def test_no_registry_id_belongs_to_two_rules() -> None:
    claimed = [torch_id for rule in BREAK_RULES for torch_id in rule.torch_ids]
    assert len(claimed) == len(set(claimed))


def test_the_catch_all_comes_last() -> None:
    last: BreakRule = BREAK_RULES[-1]
    assert last.code == "GD100"
