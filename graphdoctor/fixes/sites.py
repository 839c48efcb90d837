"""Break sites of two programs, matched line by line: which are gone, which are new, and where a break went.

Pure: diagnoses, line maps and source come in. May not import trials or anything that starts one.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from graphdoctor.facts.diagnosis import Diagnosis, Finding
from graphdoctor.fixes.patch import LineMap
from graphdoctor.fixes.rule_codes import BREAK, SKIPPED_FRAME

SiteKey = tuple[str, int, str]
"""File, line in the program before the fix, and cause."""


@dataclass(frozen=True)
class SiteChange:
    """Break sites of two programs, all by lines of the first.

    Args:
        before: Sites of the program before.
        after: Sites of the program after; their locations are those of that program.
        caused: Sites of the program after that are in edited lines.
        texts: Source of the program after, by file.
        maps: Line maps of edited files.
        root: What relative paths are relative to.
    """

    before: Mapping[SiteKey, Finding]
    after: Mapping[SiteKey, Finding]
    caused: frozenset[SiteKey]
    texts: Mapping[Path, bytes]
    maps: Mapping[Path, LineMap]
    root: Path

    @classmethod
    def between(
        cls,
        before: Diagnosis,
        after: Diagnosis,
        *,
        maps: Mapping[Path, LineMap],
        texts: Mapping[Path, bytes],
        root: Path,
    ) -> SiteChange:
        """Match the sites."""
        known = {_key(finding, finding.location.line): finding for finding in _sites(before)}
        found: dict[SiteKey, Finding] = {}
        caused = set()
        for finding in _sites(after):
            lines = maps.get(root / finding.location.file)
            line = finding.location.line
            key = _key(finding, lines.to_before(line) if lines else line)
            if lines is not None and lines.is_changed_after(line):
                # Only the beginning of an edited range is known, so the same cause in it is the same site.
                key = next((other for other in known if _same_range(other, key, lines)), key)
                caused.add(key)
            found[key] = finding
        return cls(known, found, frozenset(caused), texts, maps, root)

    @property
    def gone_text(self) -> tuple[str, ...]:
        """Places of sites that went away."""
        return tuple(site_text(found) for key, found in self.before.items() if key not in self.after)

    @property
    def new(self) -> dict[SiteKey, Finding]:
        """Sites that appeared."""
        return {key: found for key, found in self.after.items() if key not in self.before}

    def is_left(self, finding: Finding) -> bool:
        """Whether a finding of the program before is still there."""
        return _key(finding, finding.location.line) in self.after

    def replacements(self, target: Finding) -> list[Finding]:
        """New sites that the fix for a finding put in the place of its break.

        A break from which torch resumed hid nothing in its function: torch traced what comes after it. A new site
        there, or on the call path to it, breaks because of the fix. Where torch gave up the rest of the function, at
        this break or at another that is gone, a new site may have been hidden; it is the fix's only in edited lines,
        or if it reads what the old line computed.
        """
        gone = [found for key, found in self.before.items() if key not in self.after and _is_beside(found, target)]
        has_hidden = any(effect != "resumed" for found in (target, *gone) for effect in found.break_effects)
        path = {(self.root / entry.file, entry.line) for entry in target.user_stack}
        return [
            found
            for key, found in self.new.items()
            if key in self.caused
            or (self.root / key[0], key[1]) in path
            or (_is_beside(found, target) and not (has_hidden and not self._reads_from(found, target)))
        ]

    def _reads_from(self, found: Finding, target: Finding) -> bool:
        """Whether a site's line reads what the old site's line computed, or the lines that replaced it."""
        path = self.root / found.location.file
        if path not in self.texts:
            return False
        origins = {target.location.line}
        if (lines := self.maps.get(path)) is not None:
            every = range(1, len(self.texts[path].splitlines()) + 1)
            origins = {
                number
                for number in every
                if lines.is_changed_after(number) or lines.to_before(number) == target.location.line
            }
        return reads_from(self.texts[path], found.location.line, origins)


def _is_beside(found: Finding, target: Finding) -> bool:
    return (found.location.file, found.location.function) == (target.location.file, target.location.function)


def _same_range(known: SiteKey, key: SiteKey, lines: LineMap) -> bool:
    same_cause = (known[0], known[2]) == (key[0], key[2])
    return same_cause and lines.is_changed_before(known[1]) and lines.range_start(known[1]) == key[1]


def _sites(diagnosis: Diagnosis) -> list[Finding]:
    return [
        finding for finding in diagnosis.findings if finding.code.startswith(BREAK) and finding.code != SKIPPED_FRAME
    ]


def _key(finding: Finding, line: int) -> SiteKey:
    cause = finding.reasons[0].gb_type if finding.reasons else finding.code
    return finding.location.file, line, finding.torch_id or cause


def site_text(finding: Finding) -> str:
    """A site's place and cause, such as ``model.py:26 (GB0059)``."""
    cause = finding.torch_id or finding.code
    return f"{finding.location.file}:{finding.location.line} ({cause})"


def reads_from(source: bytes, line: int, origins: Collection[int]) -> bool:
    """Whether a line reads what other lines of its function computed, directly or through names in between.

    Args:
        source: The file.
        line: The line that reads.
        origins: The lines that compute.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return False
    body = [node for node in ast.walk(_function_around(tree, line)) if isinstance(node, ast.stmt)]
    names: set[str] = set()
    for statement in body:
        if any(_is_on(statement, origin) for origin in origins):
            names |= _names(statement, ast.Store)
    known = None
    while known != names:
        known = set(names)
        for statement in body:
            if known & _names(statement, ast.Load):
                names |= _names(statement, ast.Store)
    return any(names & _names(statement, ast.Load) for statement in body if _is_on(statement, line))


def _function_around(tree: ast.AST, line: int) -> ast.AST:
    """The innermost function that a line is in, otherwise the whole file."""
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(around, key=lambda node: node.lineno, default=tree)


def _own(statement: ast.stmt) -> list[ast.AST]:
    """The nodes of a statement without the statements in it."""
    found: list[ast.AST] = []
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]
    return found


def _is_on(statement: ast.stmt, line: int) -> bool:
    return any(
        isinstance(node, (ast.stmt, ast.expr)) and node.lineno <= line <= _last(node, statement)
        for node in _own(statement)
    )


def _last(node: ast.stmt | ast.expr, statement: ast.stmt) -> int:
    # The lines of a compound statement are those of its head.
    return node.lineno if node is statement else node.end_lineno or node.lineno


def _names(statement: ast.stmt, context: type[ast.expr_context]) -> set[str]:
    """Names, and attributes of names, that a statement itself reads or binds; setting an item binds its container."""
    found = set()
    for node in _own(statement):
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, context):
            found.add(ast.unparse(node))
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, context):
            found.add(ast.unparse(node.value))
    if isinstance(statement, ast.AugAssign):
        found.add(ast.unparse(statement.target))
    return found
