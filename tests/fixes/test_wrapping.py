"""Lines that an edit makes too long are broken as the file's own formatter would."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from graphdoctor.fixes.wrapping import longest_line, wrapped

LONG = {
    "fits once broken": "    x = torch.where((x > 0).any() & ~(x.mean() > 3), -x.sin().clamp(0, 1), x)",
    "each argument": "    return torch.where(x.sum() > limit, first_value(x, y) + second_value(y), third_value(x) + z)",
    "a method behind it": "    y = torch.where(mask, first_value(x) * second_value(x), 0).sum(dim=0)",
    "items in items": "    y = f(all_of_everything(x), torch.where(x.sum() > limit, first(x, y), third_value(y, x)))",
    "a condition": "    is_late = not torch.compiler.is_compiling() or first_value(x) or second(y)",
    "a head": "    if not torch.compiler.is_compiling() and is_too_large_for_us(first_value(x), y):\n        print(x)",
}


@pytest.mark.parametrize("name", LONG)
def test_a_long_line_is_broken_as_ruff_does(tmp_path, name):
    ruff = shutil.which("ruff")
    if ruff is None:
        pytest.skip("ruff isn't installed")
    (tmp_path / "ruff.toml").write_text("line-length = 60\n")
    path = tmp_path / "model.py"
    after = f"def forward(x, y):\n{LONG[name]}\n    return x\n".encode()
    edited = wrapped(b"", after, path)
    command = [ruff, "format", "--config", str(tmp_path / "ruff.toml"), "-"]
    done = subprocess.run(command, input=after, capture_output=True, check=True)
    assert edited.decode() == done.stdout.decode()


def test_only_new_lines_are_broken_and_newlines_and_meaning_stay(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.black]\nline-length = 30\n")
    path = tmp_path / "model.py"
    old = b"def forward(x):\r\n\tx = f(an_old_line_that_is_too_long, already)\r\n"
    assert wrapped(old, old, path) == old
    new = old + b"\ty = g(a_new_line_that_is_long(x))\r\n"
    assert wrapped(old, new, path) == old + b"\ty = g(\r\n\t\ta_new_line_that_is_long(x)\r\n\t)\r\n"
    for kept in (
        b"\ttext = '''\r\nf(something, in_a_text_that_is_long)\r\n'''\r\n",
        b"\ty = f(x)  # a remark that is much too long for it\r\n",
        b"\ta_name_that_is_too_long = another_one_of_these\r\n",
    ):
        assert wrapped(old, old + kept, path) == old + kept
    new = old + b"\ty = sort(x_and_more, key=lambda a, b: a_long_name(a) + b)\r\n"
    assert b"\r\n\t\tx_and_more, key=lambda a, b: a_long_name(" in wrapped(old, new, path)
    assert wrapped(old, b"not Python: f(something, that, is, long)", path).startswith(b"not")


def test_the_nearest_settings_of_a_formatter_count(tmp_path):
    inner = tmp_path / "src" / "model.py"
    inner.parent.mkdir()
    (tmp_path / ".git").mkdir()
    assert longest_line(inner) is None
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'a'\n")
    assert longest_line(inner) is None
    (tmp_path / "pyproject.toml").write_text("[tool.black]\n[tool.ruff]\nline-length = 101\n")
    assert longest_line(inner) == 101
    (inner.parent / "ruff.toml").write_text("[lint]\nselect = ['E']\n")
    assert longest_line(inner) == 88
    (inner.parent / ".ruff.toml").write_text("line-length = 'no'\n")
    assert longest_line(inner) is None
