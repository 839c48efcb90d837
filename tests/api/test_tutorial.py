"""``docs/tutorial.ipynb`` runs, and what it shows is what it was saved with."""

from __future__ import annotations

import ast
import json
import linecache
import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.slow

NOTEBOOK = Path(__file__).parents[2] / "docs" / "tutorial.ipynb"


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def shown_by(source: str, name: str, scope: dict):
    """Run a cell as IPython does; returns what its last expression is."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    *before, last = ast.parse(source).body
    is_value = isinstance(last, ast.Expr)
    module = ast.Module([*before, *([] if is_value else [last])], [])
    exec(compile(module, name, "exec"), scope)
    return eval(compile(ast.Expression(last.value), name, "eval"), scope) if is_value else None


def verdict(html: str) -> str:
    return re.search(r'<p class="sentence.*?</p>', html)[0]


def test_the_tutorial_shows_what_it_was_saved_with():
    scope = {"__name__": "tutorial"}
    saved_count = 0
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        value = shown_by("".join(cell["source"]), f"<{cell['id']}>", scope)
        results = [it["data"] for it in cell["outputs"] if it["output_type"] == "execute_result"]
        assert (value is not None) == bool(results)
        for saved in results:
            saved_count += 1
            if "text/html" in saved:
                assert verdict(value._repr_html_()) == verdict("".join(saved["text/html"]))
            else:
                assert value == ast.literal_eval("".join(saved["text/plain"]))
    assert saved_count == 4
