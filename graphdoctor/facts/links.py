"""Where the documentation is published, and the addresses of its pages.

Set ``DOCS_URL`` here and nowhere else: SARIF's ``helpUri``, ``graphdoctor rule`` and the site's own
address follow.
"""

from __future__ import annotations

DOCS_URL: str | None = None
"""Base URL of the built site, such as ``https://example.org/graphdoctor/``; None while it is
published nowhere."""


def rule_url(code: str) -> str | None:
    """The page of a rule, or None without a published site.

    Args:
        code: A rule's code, such as ``GD101``.
    """
    return None if DOCS_URL is None else f"{DOCS_URL.rstrip('/')}/rules/{code}/"
