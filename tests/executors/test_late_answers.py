"""What has begun on Ray, asked of an actor that answers late, with a stand-in for Ray."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from graphdoctor import __version__
from graphdoctor.executors import on_ray
from graphdoctor.executors.executor import packed_attempt
from graphdoctor.executors.on_ray import OnRay
from tests.executors import pieces


class Actor:
    """As ``on_ray._beginnings`` makes it: it gives each report once."""

    def __init__(self) -> None:
        self.waiting: list[tuple[int, str]] = []
        self.taken = SimpleNamespace(remote=self._taken)

    def _taken(self) -> tuple[str, list[tuple[int, str]]]:
        taken, self.waiting = self.waiting, []
        return "question", taken


class LateRay:
    """Takes a piece, and has neither its outcome nor the answer to a question ready when it is
    first asked."""

    exceptions = Mock(RayError=OSError)

    def __init__(self) -> None:
        self._asked: list[Any] = []

    def remote(self, _work: Callable[..., Any]) -> Any:
        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=self._begun))

    def _begun(
        self, _version: str, _folder: str, _packed: bytes, actor: Actor, index: int
    ) -> tuple[str, int]:
        actor.waiting.append((index, "10.0.0.2"))
        return "piece", index

    def wait(self, references: list[Any], **_: Any) -> tuple[list[Any], list[Any]]:
        if is_early := references not in self._asked:
            self._asked.append(references)
        return ([], references) if is_early else (references, [])

    def get(self, reference: tuple[str, Any], timeout: float | None = None) -> Any:
        if timeout is not None and not self.wait([reference])[0]:
            raise self.exceptions.RayError
        kind, answer = reference
        return (
            answer if kind == "question" else (__version__, packed_attempt(pieces.square, answer))
        )


def test_an_answer_that_comes_late_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def cluster(*_: object) -> Iterator[Any]:
        yield LateRay()

    monkeypatch.setattr(OnRay, "_cluster", cluster)
    monkeypatch.setattr(on_ray, "_beginnings", lambda _ray: Actor())
    begun: list[tuple[int, str | None]] = []
    assert list(OnRay(None).run(pieces.square, [0], on_begin=lambda *what: begun.append(what))) == [
        (0, 0)
    ]
    assert begun == [(0, "10.0.0.2")]
