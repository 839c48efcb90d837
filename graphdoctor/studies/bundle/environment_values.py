"""Leaves the values of environment variables that torch guards out of a bundle; comes in: its files
and its facts.

A compiled function that reads ``os.environ`` is guarded by the value
(``G['os'].environ._data[b'TOKEN'] == b'…'``; torch 2.13), so it's in guards, in the reasons of
recompiles and in findings. What the program makes of it isn't known as such, and stays.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from graphdoctor.facts.base import Fact
from graphdoctor.studies.bundle.redact.vocabulary import LEFT_OUT

_LITERAL = rb"""b?(?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")"""
_GUARD = re.compile(
    rb"(?:\benviron\._data\[|\._data\[(?=b['\"]))(%b)\] == (%b)" % (_LITERAL, _LITERAL)
)
"""The program can have ``os.environ`` under another name; its data is bytes, but for Windows."""
_ESCAPED = re.compile(rb"\\(.)")
_RECORD = re.compile(rb'^(.*"has_payload": ")[0-9a-f]{32}(".*\n)((?:\t.*(?:\n|\Z))+)', re.MULTILINE)


class EnvironmentValues:
    """The values that a recording's files have.

    ``names``: the variables that torch guards.
    """

    def __init__(self, files: Iterable[bytes]) -> None:
        found = {match for content in files for match in _guarded(content)}
        self.names = frozenset(name for name, _ in found)
        texts = {value.decode("utf-8", "replace") for _, value in found}
        # A file of JSON has them escaped.
        forms = texts | {json.dumps(text)[1:-1] for text in texts}
        self._forms = re.compile(
            "|".join(map(re.escape, sorted(forms, key=len, reverse=True))) or "(?!)"
        )
        self._byte_forms = re.compile(self._forms.pattern.encode())

    def left_out_of(self, content: bytes) -> bytes:
        """A file without them. The records of a log get new checksums."""
        found = self._byte_forms.sub(LEFT_OUT.encode(), content)
        return content if found == content else _RECORD.sub(_summed, found)

    def left_out_of_fact(self, value: Any) -> Any:  # noqa: ANN401 - as many types as fields
        """A fact, or what a field of it holds, without them."""
        if isinstance(value, str):
            return self._forms.sub(LEFT_OUT, value)
        if isinstance(value, Fact):
            return value.replace(
                **{name: self.left_out_of_fact(part) for name, part in vars(value).items()}
            )
        if isinstance(value, tuple):
            return tuple(map(self.left_out_of_fact, value))
        if isinstance(value, dict):
            return {
                self.left_out_of_fact(name): self.left_out_of_fact(part)
                for name, part in value.items()
            }
        return value


def _guarded(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    for line in content.splitlines() if b"._data[" in content else ():
        if b"._data[" in line:
            yield from _GUARD.findall(line)
            yield from _GUARD.findall(_ESCAPED.sub(rb"\1", line))


def _summed(record: re.Match[bytes]) -> bytes:
    before, after, lines = record.groups()
    payload = b"\n".join(line[1:] for line in lines.removesuffix(b"\n").split(b"\n"))
    return before + hashlib.md5(payload, usedforsecurity=False).hexdigest().encode() + after + lines
