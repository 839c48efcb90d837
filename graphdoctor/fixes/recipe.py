"""What a recipe is: a way to edit source so that a finding goes away, or words why it does not try.

A recipe reads the concrete syntax tree alone: it never sees a value and imports nothing of the user's. It may be
wrong about what the program means, because every edit is tried on that very program before it is called verified; it
must not be careless all the same: an edit that it is not sure of is declined with a reason.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import libcst as cst

from graphdoctor.fixes.syntax.source import SourceFile, Statement
from graphdoctor.model.diagnosis import Finding
from graphdoctor.model.recompiles import GuardChange


class DeclinedError(Exception):
    """A recipe leaves the source as it is.

    Args:
        reason: Why, a clause without a full stop: ``its result is used``.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Edit:
    """What a recipe would write.

    Args:
        title: One imperative sentence without a full stop, fitted to the line.
        content: The whole file's bytes afterwards.
        is_safe: It keeps results as they are for every input, and needs no one's judgement.
        drops_output: The compiled program prints or logs less than before.
    """

    title: str
    content: bytes
    is_safe: bool
    drops_output: bool = False


@dataclass(frozen=True)
class Place:
    """Where a finding is in a file's tree.

    Args:
        source: The file.
        finding: The finding, its location in the lines of ``source``.
        changes: For a recompile: the guarded values that changed.
    """

    source: SourceFile
    finding: Finding
    changes: tuple[GuardChange, ...] = ()

    @cached_property
    def statement(self) -> Statement:
        """The innermost statement at the finding's line.

        Raises:
            DeclinedError: No statement is there.
        """
        found = self.source.statement_at(self.finding.location.line)
        if found is None:
            raise DeclinedError(f"line {self.finding.location.line} holds no statement")
        return found

    @cached_property
    def small_statement(self) -> cst.BaseSmallStatement:
        """The only small statement of the line, or with several the one that holds the expression.

        Raises:
            DeclinedError: The statement is a compound one, or torch's columns do not tell which is meant.
        """
        statement = self.statement
        if not isinstance(statement, cst.SimpleStatementLine):
            raise DeclinedError("the line begins a compound statement")
        if len(statement.body) == 1:
            return statement.body[0]
        around = [self.expression, *self.source.parents(self.expression)] if self.expression is not None else []
        for small in statement.body:
            if any(node is small for node in around):
                return small
        raise DeclinedError("the line holds several statements and torch does not say which one it means")

    @cached_property
    def expression(self) -> cst.BaseExpression | None:
        """The expression that torch points to; None where it tells the line alone (2.11) or no whole expression."""
        location = self.finding.location
        if location.column is None:
            return None
        return self.source.expression_at(location.line, location.column, location.end_column)

    @property
    def context(self) -> str:
        """What torch adds for developers to the cause, or an empty string."""
        reasons = self.finding.reasons
        return (reasons[0].context if reasons else None) or ""


class Recipe(ABC):
    """One way to edit source."""

    name: ClassVar[str]
    """Kebab-case, unique: ``guard-output``."""
    codes: ClassVar[frozenset[str]]
    """Codes of the rules whose findings it may take away."""
    removes: ClassVar[bool] = True
    """The finding is gone afterwards; False where it stays, and less runs eagerly because of it."""
    moves_out: ClassVar[bool] = False
    """It takes code out of the compiled region on purpose, so that coverage may fall."""

    @abstractmethod
    def edit(self, place: Place) -> Edit:
        """The edit for a finding.

        Args:
            place: Where it is.

        Raises:
            DeclinedError: It does not fit, or it is not sure.
        """
