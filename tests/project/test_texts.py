"""Only views know what a sentence says: no other code decides by text that is written for people."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "graphdoctor"
READS_TORCH = ("views", "trace", "probe", "catalog", "wording.py")
"""Rooms that make sentences, or read what torch and libraries print."""
READS: dict[str, tuple[str, ...]] = {
    # torch's reasons of graph breaks.
    "rules/branches.py": ("SymNodeVariable|jump with Constant", "match ", "case "),
    "rules/calls.py": (
        r"method: <(?:RootLogger root|\w+ (?P<name>[\w.]+)) \(\w+\)>\.(?P<method>\w+)",
        "StringFormatVariable|object of type 'str' has no len|sq_contains not implemented for str$",
        *("builtin print ", "builtin str ", "builtin repr ", "builtin format "),
        *("likely a C extension or builtin", "wrapped with `torch.compiler.disable`"),
        *("numpy function", r"\Aexample_value type: str; op: call_function", "repr() on tensor"),
        *("attempted to trace contextlib", "marked as skipped", "time function"),
        "Attempted to call function marked as skipped",
        *("Attempted to inline function marked as skipped", "Unsupported method call"),
        "attempted to trace numpy function unsupported by PyTorch",
        "torch.* op returned non-Tensor",
    ),
    "rules/graph_breaks.py": (
        "report an issue|file an issue|It may be possible to write Dynamo tracing rules|This graph"
        " break is fundamental|likely to be a Dynamo bug|caused by an earlier graph break|Your code"
        " may result in an error when running in eager|If the HOP is activation checkpointing",
        *(r"with torch\.", "graph break in loop", "Unexpected type in sourceless builder"),
        "Graph break under GenericContextWrappingVariable",
        *("Uninitialized nn.Module", "backwards hooks"),
    ),
    # torch's errors that a program causes.
    "rules/failures.py": (
        r"Attempt to trace forbidden callable <function (\w+)",
        r"Constraints violated \(.*?(?:You marked|because) (\S+) (?:was inferred to be|as dynamic but"
        r" your code specialized it to be) a constant \((\S+)\)",
        r"Detected recompile when torch\.compile stance is 'fail_on_recompile'\. filename: '(.+)',"
        r" function name: '(.+)', line number: (\d+)",
        r"Error: accessing (gradient )?tensor output of CUDAGraphs that has been overwritten by a"
        r" subsequent run\. Stack trace:\s*(.*?)\. (?:To prevent|This can happen)",
    ),
    "rules/diagnosis/sites.py": (r"<(?:function|bound method) ([\w.]+)",),
    "rules/tensor_values.py": ("data-dependent branch",),
    "rules/training.py": ("compiled autograd", "side effect"),
    # Python's own words, in source and in errors.
    "fixes/entry_file.py": ("import ",),
    "fixes/source/tree.py": ("too many nested",),
    "studies/survey/outcome.py": (
        "\nThe above exception was the direct cause of the following exception:\n",
    ),
    "trials/launch/child.py": ("\nExtension modules:",),
    "trials/launch/ends.py": (r"(\w+\(\)) takes 0 positional arguments but ",),
    # git's error.
    "fixes/writing.py": ("fatal: not a git repository (or any ",),
    # Values of facts, of which it hides the program's own words.
    "studies/bundle/redacted.py": (r"train mode|eval mode|on|off|True|False|\d+|",),
}
"""Texts of others, or values, that code reads, by file."""
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
    read = {
        (name, text): f"{name}:{line}: {text!r}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if not (name := str(path.relative_to(PACKAGE))).startswith(READS_TORCH)
        and path.name != "view.py"
        for line, text in decisions(ast.parse(path.read_text()))
    }
    listed = {(name, text) for name, texts in READS.items() for text in texts}
    assert [where for key, where in read.items() if key not in listed] == []
    assert listed - read.keys() == set(), "nothing reads these any more"


OLD_SENTENCES = (
    *("pieces an hour", " of calling", "from the cache", ": -v"),
    *("eager runs differ", "single calls", "with right results", "Any compiled call takes"),
    *("is right without", "Export it so", "takes this program", "weren't made", "causes: "),
    *("doesn't print what eager", ", compiled for ", "nearest entry", "variants is bounded"),
    *("without it (warm)", "counted above", "watching added", "no longer compiled for"),
    *("There is no steady call", "nothing is known", "are too long", "known graph"),
    *("judged target", "Full width each", "record or report after", "Trying anew", "saw compiled"),
)
"""What readers stumbled over, where it is said to people."""


@pytest.mark.parametrize("room", ["commands", "probe", "rules", "studies", "views"])
def test_no_sentence_is_one_that_readers_stumbled_over(room: str) -> None:
    for path in (PACKAGE / room).rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        pages = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and id(node) not in pages:
                text = str(node.value)
                assert not [old for old in OLD_SENTENCES if old in text], (path, text)
    for path in (PACKAGE / room).rglob("*.j*"):
        text = path.read_text(encoding="utf-8")
        assert not [old for old in ("nearest entry", "Full width each") if old in text], path
