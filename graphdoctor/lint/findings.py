"""A place in source to a ``Finding``: the words and suggestions of its rule, the fingerprint that a run would give."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path
from typing import cast

from graphdoctor.diagnosis.findings import location_of
from graphdoctor.diagnosis.fingerprints import fingerprint
from graphdoctor.diagnosis.recompile_wording import GUIDE
from graphdoctor.diagnosis.rule import BreakRule, BreakSite, Rule
from graphdoctor.diagnosis.suggestions import setting
from graphdoctor.lint.checks import Site, Spot
from graphdoctor.lint.flow import Place
from graphdoctor.model.diagnosis import Effects, Finding, Fix, Severity
from graphdoctor.model.recording import BreakReason, BreakRecord, Enclosing, SourceContext
from graphdoctor.model.stack import StackEntry
from graphdoctor.rules.catalog import ALL_RULES

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
"""Statements in which torch cannot go on behind a break; of a ``with`` it depends on the manager."""


def finding_of(spot: Spot, place: Place, site: Site, *, file: Path, lines: list[str], root: Path) -> Finding:
    """What is said of a spot.

    Args:
        spot: The place and its cause.
        place: What stands around it.
        site: The function that it lies in.
        file: The file, absolute.
        lines: Its lines.
        root: Paths below it are shown relative to it.
    """
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
        # Of a chain over several lines torch names the line of the method (``compile.c`` of CPython 3.11).
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
    """A class statement's own line counts as the class."""
    name = site.region.scope.qualname
    return f"{name}.{spot.node.name}" if isinstance(spot.node, ast.ClassDef) else name


def _characters(text: str, offset: int) -> int:
    """Python's parser counts UTF-8 bytes."""
    return len(text.encode()[:offset].decode(errors="replace"))


def _break_site(spot: Spot, place: Place, entry: StackEntry, lines: list[str], site: Site) -> BreakSite:
    """The break as the rules know it, with what can be known without a run."""
    statement = place.statement
    last = min(statement.end_lineno or statement.lineno, statement.lineno + _MAX_STATEMENT_LINES - 1)
    reason = BreakReason(gb_type=spot.gb_type, torch_id=spot.torch_id, context=spot.context)
    record = BreakRecord(compile_id=None, effect="resumed", chain=(reason,), stack=(entry,), words=spot.gb_type)
    enclosing = tuple(
        Enclosing.model_validate({"kind": kind, "line": one.lineno, "text": lines[one.lineno - 1].strip()})
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


def _severity(rule: Rule, spot: Spot, place: Place, site: Site) -> Severity:
    is_lost = any(isinstance(one, _SKIPPING) for one in place.around)
    if isinstance(rule, BreakRule) and (site.region.is_fullgraph or is_lost or spot.is_frame_lost):
        return "error"
    return rule.severity


def _counter_words(spot: Spot, site: Site) -> tuple[str, tuple[Fix, ...]]:
    """Of a number on a module that each call changes."""
    name = spot.subject.rpartition(".")[2]
    buffer = Fix(
        title=f"Keep `{spot.subject}` in a buffer and write into it",
        kind="code",
        snippet=f'self.register_buffer("{name}", torch.tensor(0), persistent=False)',
        source=GUIDE,
    )
    dynamic = setting(
        "allow_unspec_int_on_nn_module", "Let torch make the module's int dynamic", is_safe=True, source="torch's hint"
    )
    message = f"`{spot.subject}` changes in each call, and torch compiles `{site.region.scope.qualname}` for each value"
    return message, (dynamic, buffer)
