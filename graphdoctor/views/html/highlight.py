"""Source as lines of spans that the style sheet colors."""

from __future__ import annotations

from markupsafe import Markup, escape
from pygments.lexers.c_cpp import CppLexer
from pygments.lexers.python import PythonLexer
from pygments.token import STANDARD_TYPES, Token

from graphdoctor.facts.picture import Language
from graphdoctor.views.printable import printable_lines

_CLASSES = {
    Token.Keyword: "k",
    Token.Operator.Word: "k",
    Token.Name.Builtin: "b",
    Token.Name.Function: "f",
    Token.Name.Class: "f",
    Token.Name.Decorator: "d",
    Token.Literal.String: "s",
    Token.Literal.Number: "m",
    Token.Comment: "c",
}
"""Few classes: what helps to read, not everything a lexer can tell apart."""


def highlighted(text: str, language: Language = "Python") -> list[Markup]:
    """Return the lines of a file as markup, with the file's own text escaped."""
    lines = [Markup()]
    lexer = PythonLexer if language == "Python" else CppLexer
    for kind, value in lexer(stripnl=False, ensurenl=False).get_tokens(printable_lines(text)):
        name = _class(kind)
        for number, part in enumerate(value.split("\n")):
            if number:
                lines.append(Markup())
            if part:
                piece = escape(part)
                lines[-1] += (
                    Markup('<span class="{}">{}</span>').format(name, piece) if name else piece
                )
    return lines


def _class(kind: object) -> str | None:
    while kind in STANDARD_TYPES and kind is not Token:
        if kind in _CLASSES:
            return _CLASSES[kind]
        kind = kind.parent  # type: ignore[attr-defined]
    return None
