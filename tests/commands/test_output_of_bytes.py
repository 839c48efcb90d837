"""Documents that aren't text: written to files and pipes, never to a terminal."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from graphdoctor.commands.options import Given, OutputOptions
from graphdoctor.commands.output import Output, choose_output
from graphdoctor.errors import GraphDoctorError
from graphdoctor.views.formats import Document, Format

CONTENT = b"\x00\xff\r\n"
DOCUMENT: Document[object] = Document(
    "a table",
    (
        Format("text", lambda _, __: "text", (".txt",)),
        Format("binary", lambda _, __: CONTENT, (".bin",), is_binary=True),
    ),
)


class Stream(io.StringIO):
    """Standard output, of a terminal or not."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self.is_terminal = is_terminal
        self.buffer = io.BytesIO()

    def isatty(self) -> bool:
        return self.is_terminal


def _chosen(**asked: object) -> Output[object]:
    return choose_output(DOCUMENT, OutputOptions(**asked), Given({}))  # type: ignore[arg-type]


def test_a_file_gets_the_bytes_as_they_are(tmp_path: Path) -> None:
    _chosen(output=tmp_path / "a.bin").write(object())
    assert (tmp_path / "a.bin").read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["a.bin"]


@pytest.mark.parametrize("output", [None, Path("-")])
def test_a_terminal_gets_a_sentence(monkeypatch: pytest.MonkeyPatch, output: Path | None) -> None:
    monkeypatch.setattr(sys, "stdout", Stream(is_terminal=True))
    with pytest.raises(GraphDoctorError, match="A terminal can't show binary") as raised:
        _chosen(format="binary", output=output)
    assert raised.value.hint == "Name a file: -o FILE."


def test_a_pipe_gets_the_bytes_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(is_terminal=False)
    monkeypatch.setattr(sys, "stdout", stream)
    _chosen(format="binary").write(object())
    assert stream.buffer.getvalue() == CONTENT
