"""Which names can certainly be read just before a statement."""

from __future__ import annotations

import linecache
import textwrap
from pathlib import Path

import pytest

from graphdoctor.facts.recording import SourceContext
from graphdoctor.probe.record.sources import SourceReader


def context(tmp_path: Path, code: str) -> SourceContext:
    """The source around the line that ends in ``# here``."""
    file = tmp_path / "module.py"
    file.write_text(textwrap.dedent(code))
    linecache.checkcache(str(file))
    line = next(number for number, text in enumerate(file.read_text().splitlines(), 1) if text.endswith("# here"))
    found = SourceReader().context(str(file), line)
    assert found is not None
    return found


def readable(tmp_path: Path, body: str, *, parameters: str = "x, c") -> set[str]:
    code = f"import torch\nLIMIT = 3\ndef f({parameters}):\n{textwrap.indent(textwrap.dedent(body), '    ')}"
    return set(context(tmp_path, code).readable)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = x + LIMIT  # here", {"x", "LIMIT"}),
        ("y = x\nz = y + w  # here", {"y"}),
        ("if c:\n    y = x\nz = y + x  # here", {"x"}),
        ("if c:\n    y = x\nelse:\n    y = c\nz = y + x  # here", {"x", "y"}),
        ("if c:\n    y = x\nelse:\n    raise ValueError\nz = y  # here", {"y"}),
        ("for y in x:\n    z = y  # here", {"y"}),
        ("for y in x:\n    pass\nz = y  # here", set()),
        ("while c:\n    y = x\nz = y  # here", set()),
        ("with c as y:\n    z = y  # here", {"y"}),
        ("with torch.no_grad():\n    y = x\nz = y  # here", {"y"}),
        ("with suppress(ValueError):\n    y = x\nz = y  # here", set()),
        ("try:\n    y = x\nexcept ValueError as e:\n    z = (y, e)  # here", {"e"}),
        ("try:\n    y = x\nexcept ValueError:\n    y = c\nz = y  # here", {"y"}),
        ("try:\n    y = x\nexcept ValueError:\n    return c\nz = y  # here", {"y"}),
        ("try:\n    pass\nfinally:\n    y = x\nz = y  # here", {"y"}),
        ("y = x\ndel y\nz = y  # here", set()),
        ("y = x\nfor i in x:\n    z = y  # here\n    del y", set()),
        ("if c:\n    y = x  # here", {"x"}),
        ("y += x  # here", {"x"}),
        ("match c:\n    case [y, *z]:\n        w = y + z  # here", {"y", "z"}),
        ("print(x, LIMIT, len(x))  # here", {"x", "LIMIT"}),
    ],
)
def test_a_name_is_readable_if_it_certainly_has_a_value(tmp_path: Path, body: str, expected: set[str]) -> None:
    assert readable(tmp_path, body) == expected


def test_names_of_the_functions_around_are_readable_and_those_of_classes_arent(tmp_path: Path) -> None:
    code = """
        def outer(a):
            b = 1
            class Inner:
                c = 2
                def method(self, d):
                    return a + b + c + d  # here
        """
    assert set(context(tmp_path, code).readable) == {"a", "b", "d"}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import torch\ndef f(x):\n    print(x)  # here", "torch"),
        ("import torch as th\ndef f(x):\n    print(x)  # here", "th"),
        ("import torch.nn\ndef f(x):\n    print(x)  # here", "torch"),
        ("import torch.nn as nn\ndef f(x):\n    print(x)  # here", None),
        ("from torch import nn\ndef f(x):\n    print(x)  # here", None),
        ("def f(x):\n    import torch\n    print(x)  # here", "torch"),
        ("def f(x):\n    print(x)  # here\n    import torch", None),
        ("import torch\ndef f(torch):\n    print(torch)  # here", None),
        ("import torch\ndef f(x):\n    torch = x\n    print(torch)  # here", None),
        ("try:\n    import torch\nexcept ImportError:\n    torch = None\ndef f(x):\n    print(x)  # here", None),
    ],
)
def test_the_name_of_the_torch_package_is_found(tmp_path: Path, code: str, expected: str | None) -> None:
    assert context(tmp_path, code).torch == expected


def test_a_statement_has_its_lines_and_a_lambda_has_none(tmp_path: Path) -> None:
    found = context(tmp_path, "def f(x):\n    print(\n        x,  # here\n    )\n")
    assert (found.statement_line, found.statement_end_line) == (2, 4)
    found = context(tmp_path, "f = (\n    lambda x:\n    x + 1  # here\n)\n")
    assert found.statement_line is None
    assert found.readable == ()
