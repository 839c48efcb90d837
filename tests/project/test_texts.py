"""Only views know what a sentence says: no other code decides by text that is written for people."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "graphdoctor"
READS_TORCH = ("views", "trace", "probe", "catalog", "wording.py")
"""Rooms that make sentences, or read what torch and libraries print."""
READS: dict[str, str] = {
    **dict.fromkeys(
        (
            "rules/branches.py",
            "rules/calls.py",
            "rules/graph_breaks.py",
            "rules/tensor_values.py",
            "rules/training.py",
        ),
        "torch's reasons of graph breaks",
    ),
    "fixes/entry_file.py": "Python's imports",
    "fixes/source/tree.py": "Python's SyntaxError",
    "fixes/writing.py": "git's errors",
    "studies/bundle/redacted.py": "values of facts, of which it hides the program's own words",
    "studies/profile/profile.py": "the names of torch.profiler",
    "studies/survey/outcome.py": "Python's tracebacks",
    "trials/launch/child.py": "Python's faulthandler",
    "trials/launch/ends.py": "Python's TypeError",
}
"""Files that read text of others, and whose."""
VALUES = {
    part.value
    for path in (PACKAGE / "facts").glob("*.py")
    for node in ast.walk(ast.parse(path.read_text()))
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal"
    for part in ast.walk(node.slice)
    if isinstance(part, ast.Constant)
}
"""Values of enumerations: they are written in documents, and views have words for them."""

_WORDS = re.compile(r"[A-Za-z]{2},? [a-z]{2}|^,? ?[a-z]+ $|^ [a-z]+,? ?")
_METHODS = frozenset(
    {
        *("startswith", "endswith", "removeprefix", "removesuffix", "split", "rsplit", "count"),
        *("partition", "rpartition", "find", "rfind", "index", "rindex", "replace"),
    }
)
_PATTERNS = frozenset(
    {"compile", "match", "fullmatch", "search", "split", "sub", "subn", "findall", "finditer"}
)


def texts_of(node: ast.AST | None, known: dict[str, ast.AST]) -> Iterator[str]:
    """The texts that an expression is, or holds."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.Name(id=name) if name in known:
            yield from texts_of(known[name], {})
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            for part in parts:
                yield from texts_of(part, known)
        case ast.JoinedStr(values=parts):
            for part in parts:
                yield from texts_of(part, known)


def decisions(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Lines that compare, search or split text, and the words that they look for."""
    known = {
        target.id: statement.value
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        sought: list[ast.AST] = []
        match node:
            case ast.Compare(left=left, comparators=others):
                sought = [left, *others]
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=name), args=args):
                sought = args[:1] if name in _PATTERNS else []
            case ast.Call(func=ast.Attribute(attr=name), args=args) if name in _METHODS:
                sought = args[:1]
            case ast.MatchValue(value=value):
                sought = [value]
        for text in (text for part in sought for text in texts_of(part, known)):
            if _WORDS.search(text) and text not in VALUES:
                yield getattr(node, "lineno", 0), text


def test_no_code_outside_views_decides_by_sentences():
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {text!r}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if (name := str(path.relative_to(PACKAGE))) not in READS
        and not name.startswith(READS_TORCH)
        and path.name != "view.py"
        for line, text in decisions(ast.parse(path.read_text()))
    ]
    assert found == []
