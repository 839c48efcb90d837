"""All rules, in the order in which they are tried, and the page of every code.

Every module ``gdNNN_name`` beside this one has the rule of its code; ``gaps`` has the pages of what
a recording lacks.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from graphdoctor import rules
from graphdoctor.rules.diagnosis.rule import (
    BreakRule,
    Page,
    RecompileRule,
    RecordingRule,
    Rule,
    RuleBook,
)

# The first that matches names a site or a change. So rules that look at where a break happened come
# before rules that look only at torch's id: to torch, an optimizer's method is a skipped function
# and an explicit graph break. And a number of an optimizer is also a number, a parameter's size a
# size, and a container that grows one that changes.
_FIRST = (
    *(
        "GD125",
        "GD126",
        "GD127",
        "GD128",
        "GD101",
        "GD112",
        "GD108",
        "GD110",
        "GD117",
        "GD116",
        "GD121",
        "GD119",
    ),
    *("GD123", "GD204", "GD206", "GD218"),
)
_LAST = ("GD100", "GD200")
"""These match whatever is left."""


def _pages() -> Iterator[Page]:
    for found in iter_modules(rules.__path__):
        if found.name.startswith(("gd", "gaps")):
            classes = vars(import_module(f"{rules.__name__}.{found.name}")).values()
            yield from (
                each()
                for each in classes
                if isinstance(each, type) and issubclass(each, Page) and each.code
            )


PAGES = dict(sorted((page.code, page) for page in _pages()))
"""The page of every code that a report can have, in order."""

ALL_RULES = {code: page for code, page in PAGES.items() if isinstance(page, Rule)}
"""Every rule by its code, in order: the codes that findings have."""


_RULES = [
    ALL_RULES[code]
    for code in (*_FIRST, *(code for code in ALL_RULES if code not in _FIRST + _LAST), *_LAST)
]
RULES = RuleBook(
    breaks=tuple(rule for rule in _RULES if isinstance(rule, BreakRule)),
    recompiles=tuple(rule for rule in _RULES if isinstance(rule, RecompileRule)),
    recordings=tuple(rule for rule in _RULES if isinstance(rule, RecordingRule)),
)
"""The rules to diagnose a recording by."""
