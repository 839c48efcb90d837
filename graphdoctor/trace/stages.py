"""Graphs on their way from Dynamo to Inductor, and the code that Inductor wrote."""

from __future__ import annotations

from graphdoctor.model.picture import GeneratedCode, StageGraph
from graphdoctor.model.recording import Recording
from graphdoctor.trace.grammar import Record


class Stages:
    """Takes the records of graphs in the order of the log."""

    KINDS: frozenset[str] = frozenset()

    def add(self, record: Record, call_index: int | None, *, is_extra: bool) -> None:
        """Take the next record.

        Args:
            record: One of ``KINDS``.
            call_index: The user's call that was under way; None outside the calls.
            is_extra: It belongs to a repetition of ours: to be left out.
        """

    def graphs(self, prefix: str, recording: Recording) -> tuple[StageGraph, ...]:
        """The graphs, compile ids with a prefix."""
        return ()

    def generated(self, prefix: str, recording: Recording) -> tuple[GeneratedCode, ...]:
        """The generated code."""
        return ()
