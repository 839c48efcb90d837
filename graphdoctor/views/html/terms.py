"""Explains each term where it first stands on the page, and there alone.

Comes in: the page's markup, made by Jinja, so that all text from outside is escaped. Goes out: the
same markup, where the first occurrence of each term is a button that opens its explanation, without
scripts. In a link, the button stands after the link. Names, code, tables and what is folded are
left as they are.
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
    def key(self) -> str:
        """Its name as a part of an id."""
        return self.name.replace(" ", "-")


_FILE = files("graphdoctor.views.html") / "assets" / "terms.toml"
TERMS = tuple(Term(**term) for term in tomllib.loads(_FILE.read_text(encoding="utf-8"))["terms"])
ANY = re.compile(
    "|".join(
        rf"(?P<t{number}>(?<![\w./:])(?:{term.forms})(?![\w/]))"
        for number, term in enumerate(TERMS)
    ),
    re.IGNORECASE,
)
"""Every form of every term as whole words; the name of a group ends with the number of its term."""
_TAG = re.compile(r"<(/?)([a-zA-Z][\w-]*)([^>]*)>")
_VOID = {"br", "col", "hr", "img", "input", "link", "meta"}
_LEFT_OUT = {
    "button",
    "code",
    "h1",
    "label",
    "nav",
    "noscript",
    "pre",
    "script",
    "select",
    "style",
    "summary",
    "table",
}
_LEFT_OUT_CLASSES = {"called", "package", "place", "words", "diff", "filterbar", "needs-script"}


def explained(markup: str) -> Markup:
    """Return the markup with a button at the first occurrence of each term, and the hidden
    explanations at its end.
    """
    left, explained = set(range(len(TERMS))), list[Term]()
    waiting = []
    """Terms in the link around the current place."""
    around: list[tuple[str, bool]] = []
    """The elements around the current place, each with whether what is in it is left out."""

    def explain(match: re.Match[str]) -> str:
        number = int((match.lastgroup or "t0")[1:])
        if number not in left:
            return match[0]
        left.remove(number)
        term = TERMS[number]
        explained.append(term)
        if any(name == "a" for name, _ in around):
            waiting.append(term)
            return match[0]
        return (
            '<dfn><button type="button" class="term"'
            f' popovertarget="term-{term.key}">{match[0]}</button></dfn>'
        )

    pieces, at = [], 0
    for tag in _TAG.finditer(f"{markup}<end>"):
        text, at = markup[at : tag.start()], tag.end()
        is_left_out = bool(around) and around[-1][1]
        pieces += [
            text if is_left_out or not left else ANY.sub(explain, text),
            markup[tag.start() : tag.end()],
        ]
        is_end, name, attributes = bool(tag[1]), tag[2].lower(), tag[3]
        if is_end:
            while around and around.pop()[0] != name:
                pass
            if name == "a":
                pieces += [
                    f'<button type="button" class="term more" popovertarget="term-{term.key}"'
                    f' aria-label="What is: {term.name}">?</button>'
                    for term in waiting
                ]
                waiting.clear()
        elif name not in _VOID and not attributes.endswith("/"):
            classes = re.search(r'class="([^"]*)"', attributes)
            is_left_out |= (
                name in _LEFT_OUT
                or (name == "details" and not re.search(r"\bopen\b", attributes))
                or (classes is not None and not _LEFT_OUT_CLASSES.isdisjoint(classes[1].split()))
            )
            around.append((name, is_left_out))
    # All text from outside was escaped by what made the markup.
    about = Markup('<div popover id="term-{}" class="about"><b>{}</b> {}</div>\n')
    abouts = (about.format(term.key, term.name, term.text) for term in explained)
    return Markup("").join([Markup("".join(pieces)), *abouts])
