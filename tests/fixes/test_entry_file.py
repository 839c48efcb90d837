"""Settings written into the file that a program starts with."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoctor.fixes.entry_file import with_settings

SETTING = "torch.compiler.config.capture_scalar_outputs = True"
IMPORTED = "import torch._inductor.config"

WRITTEN = {
    "after the imports": (
        "import torch\nfrom torch import nn\n\n\nx = 1\n", "import torch\nfrom torch import nn\n\n§\n\n\nx = 1\n",
    ),
    "with an import that is missing": ("from torch import nn\n", "from torch import nn\nimport torch\n\n§\n"),
    "after a docstring and __future__": (
        '"""About."""\nfrom __future__ import annotations\nimport torch\nx = 1\n',
        '"""About."""\nfrom __future__ import annotations\nimport torch\n\n§\n\nx = 1\n',
    ),
    "in a file without imports": ('"""About."""\nx = 1\n', '"""About."""\nimport torch\n\n§\n\nx = 1\n'),
    "in an empty file": ("", "import torch\n\n§\n"),
    "not after imports at the end": (
        "import torch\n\ndef f(): ...\n\nimport json\n", "import torch\n\n§\n\ndef f(): ...\n\nimport json\n",
    ),
    "not in an import of several lines": (
        "import torch\nfrom torch import (\n    nn,\n)\n", "import torch\nfrom torch import (\n    nn,\n)\n\n§\n",
    ),
    "only once": (f"import torch\n\n{SETTING}\n", f"import torch\n\n{SETTING}\n"),
    "in a file without a last newline": ("import torch", "import torch\n\n§\n"),
    "with the newlines of the file": ("import torch\r\nx = 1\r\n", "import torch\r\n\r\n§\r\n\r\nx = 1\r\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_a_setting_stands_where_a_person_would_write_it(name):
    before, after = WRITTEN[name]
    assert with_settings(before.encode(), [SETTING]) == after.replace("§", SETTING).encode()


def test_what_a_setting_imports_comes_with_the_imports():
    edited = with_settings(b"import torch\nx = 1\n", [IMPORTED, SETTING])
    assert edited == f"import torch\n{IMPORTED}\n\n{SETTING}\n\nx = 1\n".encode()


@pytest.mark.parametrize(
    "source", [b"x = (", b"\0", b"# coding: latin-1\nx = '\xe9'\n", "é = 1\n".encode()]
)
def test_what_isn_t_python_is_left_and_other_encodings_stay(source):
    edited = with_settings(source, [SETTING])
    if source.startswith((b"x", b"\0")):
        assert edited is None
    else:
        assert edited is not None
        assert source.splitlines()[-1] in edited.splitlines()
        ast.parse(edited)


STATEMENTS = st.sampled_from(
    [
        '"""Text."""',
        "import json",
        "from torch import nn",
        "import torch",
        "x = 1",
        "if x:\n    import sys",
        "",
        "# a",
    ]
)


@given(st.lists(STATEMENTS, max_size=8), st.sampled_from(["\n", "\r\n"]))
def test_every_other_line_stays_and_a_second_time_changes_nothing(statements, newline):
    source = newline.join("\n".join([*statements, ""]).split("\n")).encode()
    edited = with_settings(source, [SETTING])
    assert edited is not None
    assert ast.parse(edited)
    assert with_settings(edited, [SETTING]) == edited
    rest = iter(edited.splitlines())
    assert all(line in rest for line in source.splitlines())
    assert edited.count(SETTING.encode()) == 1
