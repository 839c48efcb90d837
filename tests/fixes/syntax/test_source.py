"""A file's nodes at places, the import lines that an edit adds, and files that cannot be read."""

from __future__ import annotations

import codecs
from pathlib import Path

import libcst as cst
import pytest
from syrupy.assertion import SnapshotAssertion

from graphdoctor.fixes.source.tree import DeclinedError, SourceFile
from tests.each import for_each
from tests.sections import texts_beside


def source_of(text: str | bytes) -> SourceFile:
    return SourceFile.parse(Path("model.py"), text.encode() if isinstance(text, str) else text)


def statement(text: str, line: int) -> str | None:
    """The statement at a line as text, without the newline and comments around it."""
    source = source_of(text)
    found = source.statement_at(line)
    return None if found is None else source.code(found).strip(" \n")


def expression(text: str, start: str, end: str | None, *, line: int = 1) -> str | None:
    """The expression that begins where ``start`` is first found in a line and ends behind the last
    ``end``."""
    source = source_of(text)
    words = text.splitlines()[line - 1]
    column = words.index(start) + 1
    found = source.expression_at(
        line, column, None if end is None else words.rindex(end) + len(end) + 1
    )
    return None if found is None else source.code(found)


(BODY,) = texts_beside(__file__)


def test_a_line_belongs_to_the_innermost_statement_around_it(snapshot: SnapshotAssertion) -> None:
    found = {line: statement(BODY, line) for line in (*range(-1, 28), 1000)}
    assert "\n".join(f"{line}: {text!r}" for line, text in found.items()) == snapshot


@for_each(
    "text, line, found",
    [
        ('a = """\nif b:\n    c\n"""\n', 3, 'a = """\nif b:\n    c\n"""'),
        ("a = 1\n\x0c\nb = 2\n", 3, "\x0c\nb = 2"),
        ("a = 1 + \\\n    2\n", 2, "a = 1 + \\\n    2"),
    ],
)
def test_strings_form_feeds_and_continued_lines_end_no_statement(
    text: str, line: int, found: str
) -> None:
    assert statement(text, line) == found


SUM, SEVERAL = "a = x.sum().item() + 1\n", "a = f(\n    x,\n)\n"
COMPREHENSION = "a = [f(x) for x in g(y) if h(x)]\n"


@for_each(
    "text, start, end, line, found",
    [
        (SUM, "x", "1", 1, "x.sum().item() + 1"),
        (SUM, "x", "item()", 1, "x.sum().item()"),
        (SUM, "x", "item", 1, "x.sum().item"),
        (SUM, "x", "sum()", 1, "x.sum()"),
        (SUM, "x", "x", 1, "x"),
        (SEVERAL, "f", None, 1, "f(\n    x,\n)"),
        (SEVERAL, "f", "f", 1, "f"),
        (SEVERAL, "x", "x", 2, "x"),
        ("a = f(x)\n", "f", None, 1, None),
        ("a = (x + 1)\n", "x", "1", 1, "(x + 1)"),
        (COMPREHENSION, "[", "]", 1, COMPREHENSION[4:-1]),
        (COMPREHENSION, "f(", "f(x)", 1, "f(x)"),
        (COMPREHENSION, "g", "g(y)", 1, "g(y)"),
        (COMPREHENSION, "h", "h(x)", 1, "h(x)"),
        ("if f(x): pass\n", "f(", "f(x)", 1, "f(x)"),
        ("@f(x)\ndef g(): pass\n", "f(", "f(x)", 1, "f(x)"),
        ("g = lambda y: f(x)\n", "f(", "f(x)", 1, "f(x)"),
        ("a = 'é', f(x)\n", "f", "f(x)", 1, "f(x)"),
        ("if a:\n\tf(x)\n", "f", "f(x)", 2, "f(x)"),
    ],
)
def test_an_expression_is_found_by_where_it_begins_and_ends(
    text: str, start: str, end: str | None, line: int, found: str | None
) -> None:
    assert expression(text, start, end, line=line) == found


def test_of_expressions_with_the_same_ends_the_outermost_is_found() -> None:
    assert isinstance(source_of("f'{x}'\n").expression_at(1, 1, 7), cst.FormattedString)


@for_each(
    "place", [(1, 2, 4), (1, 1, 3), (2, 1, 5), (0, 1, 5), (1, 0, 5), (1, 1, None), (1, 99, 100)]
)
def test_a_place_where_none_begins_or_ends_has_none(place: tuple[int, int, int | None]) -> None:
    assert source_of("f(x)\n").expression_at(*place) is None


class TestParents:
    def test_the_function_and_the_class_around_are_the_innermost(self) -> None:
        source = source_of(
            "class A:\n    def f(self):\n        def g():\n            return (lambda: a)\n        return b\n"
        )
        a, b = source.expression_at(4, 29, 30), source.expression_at(5, 16, 17)
        assert a is not None
        assert b is not None
        assert isinstance(source.function_of(a), cst.Lambda)
        function, around = source.function_of(b), source.around(b, cst.ClassDef)
        assert isinstance(function, cst.FunctionDef)
        assert function.name.value == "f"
        assert around is not None
        assert around.name.value == "A"
        assert list(source.parents(b))[-1] is source.tree
        assert source.function_of(around) is None
        assert source.around(around, cst.ClassDef) is None


@for_each(
    "text, is_there",
    [
        *(
            (f"{line}\n", True)
            for line in (
                "import torch",
                "import torch.nn",
                "import os, torch",
                "x = 1; import torch",
            )
        ),
        ("import torch as t, torch\n", True),
        *(
            (f"{line}\n", False)
            for line in ("import torch as t", "from torch import nn", "import torchvision", "")
        ),
        *(
            (f"{line}\n", False)
            for line in ("import os.torch", "if TYPE_CHECKING: import torch", "# import torch")
        ),
        ("def f():\n    import torch\n", False),
        ("try:\n    import torch\nexcept ImportError:\n    pass\n", False),
    ],
)
def test_module_is_available_everywhere_only_if_imported_by_name(text: str, is_there: bool) -> None:
    assert source_of(text).imports("torch") is is_there


@for_each(
    "before, imports, after",
    [
        ("import torch\n", ("torch",), "import torch\n"),
        ("", ("torch",), "import torch"),
        ("import os", ("torch",), "import os\nimport torch"),
        ("import os\n", ("torch", "os", "copy"), "import os\nimport torch\nimport copy\n"),
    ],
)
def test_imports_that_are_not_there_are_added(
    before: str, imports: tuple[str, ...], after: str
) -> None:
    assert source_of(before).replaced(imports=imports).decode() == after


class TestReplaced:
    @for_each(
        "after",
        [
            "import torch\nx = 1\n",
            "import os\nimport torch\nx = 1\n",
            "import os  # why\nimport torch\n\nx = 1\n",
            "import os\nfrom a import (\n    b,\n)\nimport torch\nx\n",
            "import os; x\nimport torch\ny\n",
            '"""Words."""\nimport torch\nx = 1\n',
            '"""Words."""\n\nfrom __future__ import annotations\nimport torch\n\nx = 1\n',
            '"""Words."""; from __future__ import annotations\nimport torch\nx = 1\n',
            "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\nimport torch\nx\n",
            "# Only words.\nimport torch\n",
            "# Words.\n\nimport os\nimport torch\n",
            "import torch\ntry:\n    import a\nexcept E:\n    a = 1\nx\n",
            "import os\nimport torch\ntry:\n    import a\nexcept E:\n    a = 1\nx\n",
            "import os\nx\nimport a\nimport torch\n",
            "import os\r\nimport torch\r\nx\r\n",
        ],
    )
    def test_import_is_added_after_imports_or_at_the_top(self, after: str) -> None:
        newline = "\r\n" if "\r" in after else "\n"
        before = after.replace(f"import torch{newline}", "")
        source = source_of(before)
        assert source.replaced(imports=("torch",)).decode() == after
        assert source.edited(source.tree) == before.encode()

    def test_an_import_is_added_above_what_names_it(self) -> None:
        source = source_of("import os\nx = 1\nimport late\n")
        old = source.statement_at(2)
        assert old is not None
        new = cst.parse_statement("x = torch.e\n")
        assert (
            source.replaced((old, new), imports=("torch",))
            == b"import os\nimport torch\nx = torch.e\nimport late\n"
        )

    def test_a_change_keeps_the_encoding_the_mark_and_the_newlines(self) -> None:
        latin = "# coding: latin-1\r\na = 'é'  # ü\r\n".encode("latin-1")
        marked = codecs.BOM_UTF8 + "a = 'é'  # ü\r\n".encode()
        for content in (latin, marked):
            source = source_of(content)
            old = next(
                line for line in source.tree.body if isinstance(line, cst.SimpleStatementLine)
            )
            assert isinstance(old.body[0], cst.Assign)
            assert source.replaced((old.body[0].value, cst.Name("b"))) == content.replace(
                "'é'".encode(source.tree.encoding.removesuffix("-sig")), b"b"
            )

    def test_a_character_that_the_encoding_lacks_is_told(self) -> None:
        source = source_of(b"# coding: latin-1\na = 1\n")
        old = source.expression_at(2, 5, 6)
        assert old is not None
        with pytest.raises(UnicodeEncodeError):
            source.replaced((old, cst.SimpleString("'€'")))


class TestUnreadable:
    def reason(self, path: Path) -> str:
        with pytest.raises(DeclinedError) as caught:
            SourceFile.read(path)
        assert not caught.value.reason.endswith(".")
        return caught.value.reason

    @pytest.mark.parametrize(
        "name", ["note.ipynb", "model.pyc", "model", "<ipython-input-1>", "<string>", "model.pyi"]
    )
    def test_what_is_no_python_file_by_name(self, name: str, tmp_path: Path) -> None:
        assert self.reason(Path(name)) == f"{name} isn't a .py file"
        (tmp_path / name).write_bytes(b"x = 1\n")
        assert self.reason(tmp_path / name) == f"{name} isn't a .py file"

    def test_what_is_no_file(self, tmp_path: Path) -> None:
        (tmp_path / "a.zip").write_bytes(b"PK")
        (tmp_path / "b.py").mkdir()
        for name, words in (
            ("a.py", "No such file or directory"),
            ("a.zip/a.py", "Not a directory"),
            ("b.py", "Is a directory"),
        ):
            assert self.reason(tmp_path / name) == f"{tmp_path / name} can't be read: {words}"

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"x = (\n", "can't be parsed"),
            (b"print 'x'\n", "can't be parsed"),
            (b"if a:\n\tx\n        y\n", "can't be parsed"),
            (b"# coding: nonsense\nx = 1\n", "can't be parsed"),
            (b"# coding: rot13\nk = 1\n", "can't be parsed"),
            (b"# coding: ascii\nx = '\xe9'\n", "can't be parsed"),
            (codecs.BOM_UTF8 + b"# coding: latin-1\nx = 1\n", "can't be parsed"),
            ("x = 'é'\n".encode("utf-16"), "has a null byte"),
            (b"x = '\xff'\n", "can't be parsed"),
            (b"x = '\0'\n", "has a null byte"),
            (b"x = 1\r", "wouldn't be written back unchanged"),
            (b"(" * 3000 + b")" * 3000, "is nested too deeply"),
            (b"-" * 30000 + b"1", "is nested too deeply"),
            (b"x = 1" + b" + 1" * 400, "is nested too deeply"),
            (b"if a: pass\n" + b"elif b: pass\n" * 400, "is nested too deeply"),
        ],
    )
    def test_what_is_no_python_inside(self, content: bytes, reason: str, tmp_path: Path) -> None:
        (tmp_path / "a.py").write_bytes(content)
        assert self.reason(tmp_path / "a.py") == f"a.py {reason}"

    @for_each(
        "text",
        ["x = 1" + " + 1" * 80, "x = " + "f(" * 90 + ")" * 90, "x = " + "a[" * 40 + "0" + "]" * 40],
    )
    def test_deepest_accepted_nesting_can_be_edited(self, text: str) -> None:
        source = source_of(f"def f():\n    {text}\n")
        found = source.statement_at(2)
        assert found is not None
        assert source.function_of(found) is not None
        assert source.replaced((found, cst.parse_statement("pass\n"))) == b"def f():\n    pass\n"


@for_each(
    "content",
    [
        b"",
        b"\n",
        b"# only words",
        codecs.BOM_UTF8,
        codecs.BOM_UTF8 + b"# coding: utf-8\nx = 1",
        b"a = 1\r\nb = 2\nc = 3\rd = 4",
        b"a\x0c=\x0c1\n\x0c\nb = 2\n\x0c",
        b"if a :\n\tx = ( 1,\n2 ) ;\n\n\n# end\n",
        b"a = 1 ; b = 2 ;\n",
        "# coding: latin-1\nx = 'é'\n".encode("latin-1"),
        "# coding: shift_jis\nx = 'ソ'\n".encode("shift_jis"),
        b"class A:pass\n\n\n\n",
        b"x = \\\n    1\n",
    ],
)
def test_any_file_is_written_back_as_it_is(content: bytes) -> None:
    source = source_of(content)
    assert source.edited(source.tree) == content
    assert source.replaced() == content
