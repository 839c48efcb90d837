"""Turns a place in source into a ``Finding`` with its rule's words and fixes, and the fingerprint that a run gives."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path
from typing import cast

from graphdoctor.facts.diagnosis import Effects, Finding, Fix, Severity
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.recording import BreakReason, BreakRecord, Enclosing, SourceContext
from graphdoctor.facts.stack import StackEntry
from graphdoctor.fixes.lint.checks import Site, Spot
from graphdoctor.fixes.source.flow import Surrounding
from graphdoctor.rules.catalog import ALL_RULES
from graphdoctor.rules.diagnosis.findings import location_of
from graphdoctor.rules.diagnosis.fingerprints import fingerprint
from graphdoctor.rules.diagnosis.rule import BreakRule, BreakSite, Rule
from graphdoctor.rules.gd205_module_number import module_number_fixes

_MAX_STATEMENT_LINES = 12
_KINDS: dict[type[ast.stmt], str] = {
    ast.For: "for",
    ast.AsyncFor: "for",
    ast.While: "while",
    ast.Try: "try",
    ast.TryStar: "try",
    ast.With: "with",
    ast.AsyncWith: "with",
}
_SKIPPING = (ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar)
"""Statements that torch can't resume in after a break; for a ``with`` it depends on the context manager."""


def finding_of(spot: Spot, place: Surrounding, site: Site, *, file: Path, lines: list[str], root: Path) -> Finding:
    """The finding at a spot."""
    entry = _entry(spot, site, file, lines)
    rule = ALL_RULES[spot.code]
    if isinstance(rule, BreakRule):
        where = _break_site(spot, place, entry, lines, site)
        message, fixes = rule.message(where), rule.fixes(where)
    else:
        message, fixes = _counter_words(spot, site)
    return Finding(
        code=rule.code,
        rule=rule.name,
        severity=_severity(rule, spot, place, site),
        message=message,
        location=location_of(entry, root),
        count=0,
        torch_id=spot.torch_id,
        fixes=fixes,
        fingerprint=fingerprint(rule.code, entry, root, spot.torch_id or spot.gb_type or spot.subject),
    )


def _entry(spot: Spot, site: Site, file: Path, lines: list[str]) -> StackEntry:
    node = spot.node
    line, start = node.lineno, node.col_offset
    func = node.func if isinstance(node, ast.Call) else None
    if isinstance(func, ast.Attribute) and func.end_lineno is not None and func.end_lineno != func.value.end_lineno:
        # For a chain over several lines, torch names the method's line (``compile.c`` of CPython 3.11).
        line, start = func.end_lineno, (func.end_col_offset or 0) - len(func.attr.encode())
    text = lines[line - 1] if line <= len(lines) else ""
    bare = text.strip()
    return StackEntry(
        file=str(file),
        line=line,
        function=site.region.scope.qualname.rpartition(".")[2],
        qualname=_qualname(spot, site),
        text=bare,
        column=_characters(text, start) + 1,
        end_column=_characters(text, node.end_col_offset or 0) + 1 if node.end_lineno == line else None,
        indent=len(text) - len(text.lstrip()),
        origin="user",
    )


def _qualname(spot: Spot, site: Site) -> str:
    """The function's qualified name; a class statement's own line belongs to the class."""
    name = site.region.scope.qualname
    return f"{name}.{spot.node.name}" if isinstance(spot.node, ast.ClassDef) else name


def _characters(text: str, offset: int) -> int:
    """A column in characters; Python's parser counts UTF-8 bytes."""
    return len(text.encode()[:offset].decode(errors="replace"))


def _break_site(spot: Spot, place: Surrounding, entry: StackEntry, lines: list[str], site: Site) -> BreakSite:
    statement = place.statement
    last = min(statement.end_lineno or statement.lineno, statement.lineno + _MAX_STATEMENT_LINES - 1)
    reason = BreakReason(gb_type=spot.gb_type, torch_id=spot.torch_id, context=spot.context)
    record = BreakRecord(compile_id=None, effect="resumed", chain=(reason,), stack=(entry,), words=spot.gb_type)
    enclosing = tuple(
        read_fact(Enclosing, {"kind": kind, "line": one.lineno, "text": lines[one.lineno - 1].strip()})
        for one in place.around
        if (kind := _KINDS.get(type(one)))
    )
    context = SourceContext(
        file=entry.file,
        line=entry.line,
        qualname=entry.qualname or entry.function,
        function_line=cast(int, getattr(site.region.scope.node, "lineno", None)),
        statement=textwrap.dedent("\n".join(lines[statement.lineno - 1 : last])).rstrip(),
        enclosing=enclosing,
    )
    return BreakSite(entry=entry, records=(record,), effects=Effects(), context=context)


def _severity(rule: Rule, spot: Spot, place: Surrounding, site: Site) -> Severity:
    is_lost = any(isinstance(one, _SKIPPING) for one in place.around)
    if isinstance(rule, BreakRule) and (site.region.is_fullgraph or is_lost or spot.is_frame_lost):
        return "error"
    return rule.severity


def _counter_words(spot: Spot, site: Site) -> tuple[str, tuple[Fix, ...]]:
    function = site.region.scope.qualname
    message = f"`{spot.subject}` changes in every call, and `{function}` recompiles for each value"
    return message, module_number_fixes(spot.subject, start="0")
