"""Explains each term where it first stands on the page, and there alone.

Comes in: the page's markup, made by Jinja, so that all text from outside is escaped. Goes out: the same markup, where
the first occurrence of each term is a button that opens its explanation, without scripts. In a link, the button stands
after the link. Names, code, tables and what is folded are left as they are.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from importlib.resources import files

from markupsafe import Markup


@dataclass(frozen=True)
class Term:
    """A word that not everybody knows, as the file has it."""

    name: str
    forms: str
    text: str

    @property
    def pattern(self) -> str:
        """Its forms as whole words."""
        return rf"(?<![\w./:])(?:{self.forms})(?![\w/])"

    @property
    def key(self) -> str:
        """Its name as a part of an id."""
        return self.name.replace(" ", "-")


_FILE = files("graphdoctor.views.html") / "assets" / "terms.toml"
TERMS = tuple(Term(**term) for term in tomllib.loads(_FILE.read_text(encoding="utf-8"))["terms"])
ANY = re.compile("|".join(rf"(?P<t{number}>{term.pattern})" for number, term in enumerate(TERMS)), re.IGNORECASE)
"""Every form of every term; the name of a group ends with the number of its term."""
_TAG = re.compile(r"<(/?)([a-zA-Z][\w-]*)([^>]*)>")
_VOID = {"br", "col", "hr", "img", "input", "link", "meta"}
_LEFT_OUT = {"button", "code", "h1", "label", "nav", "noscript", "pre", "script", "select", "style", "summary", "table"}
_LEFT_OUT_CLASSES = {"called", "package", "place", "words", "diff", "filterbar", "needs-script"}


def explained(markup: str) -> Markup:
    """The markup with a button at the first occurrence of each term, and the hidden explanations at its end."""
    explainer = _Explainer()
    return Markup("").join([*explainer.pieces(markup), *map(_about, explainer.found)])


class _Explainer:
    def __init__(self) -> None:
        self.found: list[Term] = []
        """Terms that got a button."""
        self._left = set(range(len(TERMS)))
        self._open: list[tuple[str, bool]] = []
        """The elements around the current place, each with whether what is in it is left out."""
        self._waiting: list[int] = []
        """Terms in the link around the current place."""

    def pieces(self, markup: str) -> list[Markup]:
        found, at = [], 0
        for tag in _TAG.finditer(markup):
            found.append(self._text(markup[at : tag.start()]))
            found.append(Markup(tag[0]))
            at = tag.end()
            is_end, name, attributes = bool(tag[1]), tag[2].lower(), tag[3]
            if is_end:
                self._close(name)
                if name == "a":
                    found += [_after_link(TERMS[number]) for number in self._waiting]
                    self._waiting = []
            elif name not in _VOID and not attributes.endswith("/"):
                self._open.append((name, self._is_left_out or _is_left_out(name, attributes)))
        return [*found, self._text(markup[at:])]

    @property
    def _is_left_out(self) -> bool:
        return bool(self._open) and self._open[-1][1]

    def _close(self, name: str) -> None:
        while self._open:
            if self._open.pop()[0] == name:
                return

    def _text(self, text: str) -> Markup:
        if self._is_left_out or not self._left:
            return Markup(text)
        is_link = any(name == "a" for name, _ in self._open)
        return Markup(ANY.sub(lambda match: self._explain(match, is_link=is_link), text))

    def _explain(self, match: re.Match[str], *, is_link: bool) -> str:
        number = int((match.lastgroup or "t0")[1:])
        if number not in self._left:
            return match[0]
        self._left.remove(number)
        self.found.append(TERMS[number])
        if is_link:
            self._waiting.append(number)
            return match[0]
        return _in_place(TERMS[number], match[0])


def _is_left_out(name: str, attributes: str) -> bool:
    if name in _LEFT_OUT or (name == "details" and not re.search(r"\bopen\b", attributes)):
        return True
    classes = re.search(r'class="([^"]*)"', attributes)
    return classes is not None and not _LEFT_OUT_CLASSES.isdisjoint({classes[1], *classes[1].split()})


def _in_place(term: Term, word: str) -> str:
    return f'<dfn><button type="button" class="term" popovertarget="term-{term.key}">{word}</button></dfn>'


def _after_link(term: Term) -> Markup:
    return Markup(
        f'<button type="button" class="term more" popovertarget="term-{term.key}" aria-label="What is: {term.name}">?'
        "</button>"
    )


def _about(term: Term) -> Markup:
    return Markup('<div popover id="term-{}" class="about"><b>{}</b> {}</div>\n').format(term.key, term.name, term.text)
