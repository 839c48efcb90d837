"""Explains each term where it first stands on the page, and there alone.

Comes in: the page's markup, made by Jinja, so that all text from outside is escaped. Goes out: the same markup, where
the first occurrence of each term is a button that opens its explanation, without scripts. In a link, the button stands
after the link. Names, code, tables and what is folded are left as they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from markupsafe import Markup


@dataclass(frozen=True)
class Term:
    """A word that not everybody knows.

    Args:
        name: The word, as in docs/concepts.md.
        forms: A regular expression of how it's written.
        text: What it means.
    """

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


TERMS = (
    Term(
        "recompile limit",
        r"recompile limit|over the limit",
        "After 8 compiles of one function (torch.compiler.config.recompile_limit), torch stops compiling it. From then "
        "on, the function runs eagerly.",
    ),
    Term(
        "graph break",
        r"graph breaks?|breaks? the graph",
        "A line that Dynamo can't put in a graph, such as a print or an if on a tensor's value. The graph ends before "
        "the line, Python runs it, and a new graph begins after it.",
    ),
    Term(
        "break site",
        r"break sites?",
        "The innermost line of a graph break that belongs neither to torch nor to the standard library. A line that "
        "breaks several times is one site.",
    ),
    Term(
        "resume function",
        r"resume functions?",
        "What is left of a function after a graph break. Dynamo compiles it as a frame of its own, named by the line "
        "that it continues from.",
    ),
    Term(
        "skipped frame",
        r"skipped frames?|functions? skipped|skipped",
        "torch can't resume after a break in the middle of a loop, a try or some with blocks. It gives up the whole "
        "function, all of which then runs eagerly, and later breaks in it stay hidden.",
    ),
    Term(
        "cache entry",
        r"cache entr(?:y|ies)",
        "Compiled code together with its guards. A function can have several; a call takes the first whose guards all "
        "hold.",
    ),
    Term(
        "guard",
        r"guards?",
        "A condition under which compiled code is right, such as an argument's dtype, its size, or a module's mode. "
        "torch checks all guards of an entry at the start of each call.",
    ),
    Term(
        "recompile",
        r"recompil(?:es?|ed|ing)",
        "torch compiles a function again because the guards of none of its compiled versions hold for the new values.",
    ),
    Term(
        "compile id",
        r"(?:(?:rank|p|reset)\d+:)*\d+/\d+(?:_\d+)?",
        "The id of a compile: in 0/1, 0 is the frame and 1 its second compile, as counting starts at 0. 1/0_1 is the "
        "second attempt at the compile 1/0.",
    ),
    Term(
        "coverage",
        r"coverage|of operations compiled",
        "The share of the tensor operations of a steady call that run inside compiled graphs. It is measured: the last "
        "call is made once more under torch.profiler. A backward pass isn't counted.",
    ),
    Term(
        "steady call",
        r"steady calls?",
        "The last call, repeated until it compiles nothing.",
    ),
    Term(
        "never settles",
        r"never settles?",
        "The program recompiles each time the same call is repeated, so it has no steady call, and its coverage is "
        "unknown.",
    ),
    Term(
        "backend",
        r"backends?",
        "What turns a graph into something to run. inductor, the default, writes kernels; eager runs the graph's "
        "operations one by one.",
    ),
    Term(
        "host gap",
        r"host gaps?",
        "The time that the host takes between two graphs. Lost fusion and time on the device aren't in it.",
    ),
    Term(
        "eager",
        r"eagerly|eager operations?",  # the word alone can be the name of a backend
        "Run by Python operation by operation, without a graph, as without torch.compile.",
    ),
    Term(
        "frame",
        r"frames?",
        "The unit that Dynamo compiles: one call of one Python function. Functions that it calls are usually traced as "
        "a part of it.",
    ),
    Term(
        "Dynamo",
        r"Dynamo",
        "The tracer of torch.compile. It follows the bytecode of a function and collects its tensor operations into "
        "graphs.",
    ),
    Term(
        "AOTAutograd",
        r"AOTAutograd",
        "The part of torch.compile that traces a graph's backward pass ahead of time, before the backend gets both.",
    ),
    Term(
        "Inductor",
        r"inductor",
        "The default backend. It fuses a graph's operations and writes kernels for them, in C++ or Triton.",
    ),
    Term(
        "verified",
        r"verified",
        "Tried on this program: what the fix is for is gone, and the results are the same.",
    ),
    Term(
        "contained",
        r"contained",
        "Tried on this program: the break is still there, but less runs eagerly because of it, and the results are the "
        "same.",
    ),
    Term(
        "graph",
        r"graphs?",
        "What one compile hands to the backend: tensor operations without any Python between them. A model that "
        "compiles well is one graph.",
    ),
)
"""Longer words before shorter ones that they contain."""

ANY = re.compile("|".join(rf"(?P<t{number}>{term.pattern})" for number, term in enumerate(TERMS)), re.IGNORECASE)
"""Every form of every term; the name of a group ends with the number of its term."""
_TAG = re.compile(r"<(/?)([a-zA-Z][\w-]*)([^>]*)>")
_VOID = {"br", "col", "hr", "img", "input", "link", "meta"}
_LEFT_OUT = {"button", "code", "h1", "label", "nav", "noscript", "pre", "script", "select", "style", "summary", "table"}
_LEFT_OUT_CLASSES = {"called", "package", "place", "words", "diff", "filterbar", "needs-script"}


def explained(markup: str) -> Markup:
    """The markup with a button at the first occurrence of each term, and the hidden explanations at its end.

    Args:
        markup: Whole elements.
    """
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
