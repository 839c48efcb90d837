"""Writes into the file that a program starts with: settings of torch after its imports, and
``fullgraph=True`` into the call that compiles the target.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import libcst as cst

from graphdoctor.facts.recording import TargetInfo
from graphdoctor.facts.stack import parsed
from graphdoctor.fixes.source.tree import DeclinedError, SourceFile, dotted, find, names_in

FULLGRAPH = "fullgraph"
_COMPILE = "torch.compile"
_METHODS = ("forward", "__call__")
_COMPOUND = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.If,
    ast.Try,
    ast.With,
    ast.For,
    ast.While,
)
"""What ends a file's head, in which its imports and settings stand."""

_NEWLINE = re.compile(rb"\r\n|\r|\n")


def with_settings(source: bytes, lines: Sequence[str]) -> bytes | None:
    """Add lines that set torch up to a file; None if it isn't Python.

    Args:
        source: The file's bytes, in whatever encoding.
        lines: Imports and settings, in ASCII; those that the file has already aren't added.
    """
    tree = parsed(source)
    if tree is None:
        return None
    text = source.splitlines(keepends=True)
    written = {ast.unparse(node) for node in tree.body}
    missing = [line for line in dict.fromkeys(["import torch", *lines]) if line not in written]
    imports = [line for line in missing if line.startswith("import ")]
    settings = [line for line in missing if line not in imports]
    if not settings:
        return source
    head = list(itertools.takewhile(lambda node: not isinstance(node, _COMPOUND), tree.body))
    imported = [node for node in head if isinstance(node, ast.Import | ast.ImportFrom)]
    documented = tree.body[:1] if ast.get_docstring(tree, clean=False) is not None else []
    # The first comments may name an interpreter and an encoding.
    comments = itertools.takewhile(lambda line: line.startswith(b"#"), text)
    at = max((node.end_lineno or 0 for node in imported or documented), default=0)
    at = at or len(list(comments))
    match = _NEWLINE.search(source)
    newline = match[0] if match else b"\n"
    # A blank line on each side, as between sections.
    after = [""] if at < len(text) and text[at].strip() else []
    added = [*imports, *([""] if at or imports else []), *settings, *after]
    if text and not text[-1].endswith((b"\n", b"\r")):
        text[-1] += newline
    text[at:at] = [item.encode() + newline for item in added]
    return b"".join(text)


def with_fullgraph(content: bytes, target: TargetInfo) -> bytes | None:
    """Pass ``fullgraph=True`` where a file compiles the target; None unless one place does."""
    try:
        source = SourceFile.parse(Path(), content)
    except DeclinedError:
        return None
    places = list(_compiling(source, target))
    if len(places) != 1:
        return None
    [place] = places
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    passed = cst.Arg(cst.Name("True"), keyword=cst.Name(FULLGRAPH), equal=equal)
    if not isinstance(place, cst.Call):
        return source.replaced((place, cst.Call(place.deep_clone(), [passed])))
    arguments = list(place.args)
    if any(argument.keyword and argument.keyword.value == FULLGRAPH for argument in arguments):
        return None
    if arguments:
        last = arguments.pop()
        end = {"comma": last.comma, "whitespace_after_arg": last.whitespace_after_arg}
        comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        alone = last.with_changes(comma=comma, whitespace_after_arg=cst.SimpleWhitespace(""))
        arguments.append(alone)
        passed = passed.with_changes(**end)
    return source.replaced((place, place.with_changes(args=[*arguments, passed])))


def _compiling(source: SourceFile, target: TargetInfo) -> Iterator[cst.BaseExpression]:
    """Find the calls that compile a target, and decorators without a call."""
    names = {target.name, target.class_name} - {None}
    assigned = [
        (variable.target.value, node.value)
        for node in find(source.tree, cst.Assign)
        for variable in node.targets
        if isinstance(variable.target, cst.Name)
    ]
    # Objects of the class, and what is made by calling the target.
    names |= {
        name
        for name, value in assigned
        if isinstance(value, cst.Call) and dotted(value.func) in names
    }
    definitions: list[cst.FunctionDef | cst.ClassDef] = [
        *find(source.tree, cst.FunctionDef),
        *find(source.tree, cst.ClassDef),
    ]
    for definition in definitions:
        is_call = definition.name.value in _METHODS and source.is_method(definition)
        named = source.around(definition, cst.ClassDef) if is_call else definition
        if named is not None and named.name.value in names:
            decorators = (item.decorator for item in definition.decorators)
            yield from (item for item in decorators if source.dotted_name(item) == _COMPILE)
    for call in find(source.tree, cst.Call):
        if source.dotted_name(call) == _COMPILE and call.args:
            given = {name.value for name in names_in(call.args[0].value)}
            given |= {name for name, value in assigned if value is call}
            if given & names:
                yield call
