"""All rules, in the order in which they are tried, and the page of every code.

The modules beside this one define them, each a family; ``gaps`` has the pages of what a recording
lacks.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from graphdoctor import rules
from graphdoctor.rules.diagnosis.rule import Page, Rule

# The first that matches names a site or a change. So rules that look at where a break happened come
# before rules that look only at torch's id: to torch, an optimizer's method is a skipped function
# and an explicit graph break. And a number of an optimizer is also a number, a parameter's size a
# size, and a container that grows one that changes.
_FIRST = (
    *("GD125", "GD126", "GD127", "GD128", "GD101", "GD112", "GD108", "GD110", "GD117", "GD116"),
    *("GD121", "GD119", "GD123", "GD204", "GD206", "GD218"),
)
_LAST = ("GD100", "GD200")
"""These match whatever is left."""

_CLASSES = {
    value
    for family in iter_modules(rules.__path__)
    if family.name != "catalog" and not family.ispkg
    for value in vars(import_module(f"{rules.__name__}.{family.name}")).values()
    if isinstance(value, type) and issubclass(value, Page) and value.code
}
PAGES = {page.code: page() for page in sorted(_CLASSES, key=lambda page: page.code)}
"""The page of every code that a report can have, in order."""

ALL_RULES = {code: page for code, page in PAGES.items() if isinstance(page, Rule)}
"""Every rule by its code, in order: the codes that findings have."""

RULES = (
    *(ALL_RULES[code] for code in dict.fromkeys((*_FIRST, *ALL_RULES)) if code not in _LAST),
    *(ALL_RULES[code] for code in _LAST),
)
"""The rules to diagnose a recording by."""
