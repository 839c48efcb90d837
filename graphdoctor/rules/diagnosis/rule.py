"""A rule: documentation, a match, a message, fixes.

The docstring of a rule's class is the page that ``graphdoctor rule CODE`` prints;
``tests/rules/test_documentation.py`` says which sections it has.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

from graphdoctor.facts.base import values_of
from graphdoctor.facts.diagnosis import Finding, Severity
from graphdoctor.facts.fixes import Fix
from graphdoctor.facts.guards import ChangeKind, GuardChange, distinct_values
from graphdoctor.facts.recording import TorchMechanism
from graphdoctor.facts.stack import PROGRAM_ORIGINS, StackEntry, relative
from graphdoctor.rules.diagnosis.recompiles import RecompileGroup, hidden_change_count
from graphdoctor.rules.diagnosis.sites import BreakSite, RecordingView
from graphdoctor.wording import times

Fixes = Iterable[Fix]
"""Suggestions, best first."""
Findings = Iterable[Finding]
"""Findings of a rule, in the order of the log."""

_GUIDES = {
    "GD1": "PyTorch user guide: torch.compile, common graph breaks",
    **dict.fromkeys(("GD2", "GD3"), "PyTorch user guide: torch.compile, recompilation"),
}
CUDA_GRAPHS = "PyTorch user guide: torch.compile, CUDA graph trees"
_LINE_NUMBER = re.compile(r":\d+\b")

WITHIN_CALL = Fix(
    title="Fix the graph breaks first: the value changes within one call, as a loop's counter does",
    kind="code",
)

_OF_PYTHON = Fix(
    title="Fix the graph break where Python calls it first: otherwise torch traces it there",
    kind="code",
)


def fingerprint(code: str, entry: StackEntry, root: Path, subject: str) -> str:
    """Return the fingerprint of a finding, 16 hexadecimal digits.

    A package's file is named from the package on, so that another environment gives the same value.
    """
    file = relative(entry.file, root)
    if entry.package and f"/{entry.package}/" in file:
        file = entry.package + file.rpartition(f"/{entry.package}/")[2]
    return digest(
        code,
        Path(file).as_posix(),
        entry.qualname or entry.function,
        bare_text(entry.text),
        subject,
    )


def bare_text(text: str | None) -> str:
    """Return a line without its comment and its spacing, as a fingerprint sees it."""
    return re.sub(r"\s+", " ", re.sub(r"\s+#.*$", "", text or "")).strip()


def digest(*parts: str) -> str:
    """Return the same 16 characters for the same parts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


class OfCompile(Protocol):
    """Record that belongs to a compile."""

    @property
    def compile_id(self) -> str | None:
        """None for what is outside any compile."""


class Page(ABC):
    """The documentation of one code: the docstring of the class."""

    code: ClassVar[str]
    """The code, such as ``GD101``."""
    name: ClassVar[str]
    """The class's name in kebab case, such as ``print-or-log``."""
    severity: ClassVar[Severity]
    """Severity of its findings. A break that torch can't resume after is always an ``error``."""

    def __init_subclass__(cls, *, code: str = "", severity: Severity = "warning") -> None:
        super().__init_subclass__()
        cls.code, cls.severity = code, severity
        cls.name = re.sub(r"\B(?=[A-Z])", "-", cls.__name__).lower()

    @classmethod
    def documentation(cls) -> str:
        """Return the page, as Markdown."""
        return inspect.cleandoc(cls.__doc__ or "")

    @classmethod
    def title(cls) -> str:
        """Return the first line."""
        return cls.documentation().splitlines()[0]

    @classmethod
    def sections(cls) -> Mapping[str, str]:
        """Return the text of each section by its heading, in order."""
        parts = re.split(r"^## (.+)$", cls.documentation(), flags=re.MULTILINE)
        return {
            heading.strip(): body.strip()
            for heading, body in zip(parts[1::2], parts[2::2], strict=True)
        }


class GapPage(Page):
    """The documentation of a code that a ``CaptureGap`` has: it finds nothing by itself."""


class Rule(Page):
    """A page on one kind of finding, and what finds it."""

    guide: ClassVar[str | None] = None
    """Page that recommends its suggestions, unless one says so itself; by default the guide for
    codes like its own."""
    remedies: ClassVar[tuple[Fix, ...]] = ()
    """Suggestions, best first, if they are the same for all that it finds."""

    def finding(
        self,
        view: RecordingView,
        entry: StackEntry,
        message: str,
        of: Sequence[OfCompile] = (),
        *,
        related: Iterable[tuple[StackEntry, str]] = (),
        fixes: Fixes | None = None,
        subject: str = "",
        **facts: Any,  # noqa: ANN401 - fields of a finding
    ) -> Finding:
        """Make a finding of the rule.

        Args:
            view: The recording.
            entry: The line.
            message: One sentence.
            of: What it was found in, each of some compile or of none.
            related: Other lines that belong to it, each with a note.
            fixes: Suggestions, best first; None for ``remedies``.
            subject: What distinguishes it from other findings of the rule on the same line, such as
                the value that changed.
            facts: Other fields; without ``count``, it happened once for each of ``of``.
        """
        words = None
        for cause in facts.get("reasons", ())[:1]:
            subject = cause.torch_id or cause.gb_type
            words = ": ".join(filter(None, (cause.gb_type, cause.explanation)))
            facts |= values_of(cause, "torch_id", "hints")
        ids = dict.fromkeys(record.compile_id for record in of)
        return Finding(
            code=self.code,
            rule=self.name,
            message=message,
            location=entry.located(view.root),
            related=tuple(line.located(view.root, note) for line, note in related),
            compile_ids=tuple(id_ for id_ in ids if id_ is not None),
            fixes=self.sourced(self.remedies if fixes is None else fixes),
            fingerprint=fingerprint(self.code, entry, view.root, subject),
            **{"severity": self.severity, "count": len(of)}
            | facts
            | {"torch_reason": facts.get("torch_reason") or words},
        )

    @classmethod
    def sourced(cls, fixes: Fixes) -> tuple[Fix, ...]:
        """Return suggestions, each with where it is recommended."""
        guide = cls.guide or _GUIDES.get(cls.code[:3])
        return tuple(fix if fix.source else fix.replace(source=guide) for fix in fixes)


_TRACED_SINCE = {
    "random.random": (2, 14),
    "random.seed": (2, 14),
    "random.shuffle": (2, 14),
    "random.sample": (2, 14),
    "heapq.nlargest": (2, 14),
}
"""The first release of torch that traces a function which breaks the graph in earlier ones."""


class BreakRule(Rule):
    """A rule about a break site. A site belongs to the first rule of the catalog that matches it.

    What the class has of ``torch_ids``, ``gb_type``, ``context``, ``inside``, ``topic`` and
    ``mechanism`` names the breaks that always belong to the rule. Override the methods where words
    that never change don't do.
    """

    torch_ids: ClassVar[tuple[str, ...]] = ()
    """torch's registry ids of the cause."""
    gb_type: ClassVar[str] = r"(?!)"
    """A pattern for the start of torch's kind of message, for releases that print no id."""
    context: ClassVar[str] = r"(?!)"
    """A pattern in torch's developer context."""
    inside: ClassVar[str | None] = None
    """See ``BreakSite.is_inside``."""
    topic: ClassVar[str | None] = None
    """``BreakRecord.topic``."""
    mechanism: ClassVar[TorchMechanism | None] = None
    """Torch's own code in which it happened."""
    says: ClassVar[str] = ""
    """The message, with what it shows of ``{site}``."""

    def matches(self, site: BreakSite) -> bool:
        """Return whether the site belongs to this rule."""
        if self.mechanism is not None:
            return site.mechanism == self.mechanism
        return (
            site.cause.torch_id in self.torch_ids
            or re.match(self.gb_type, site.gb_type) is not None
            or re.search(self.context, site.torch_context) is not None
            or (self.inside is not None and site.is_inside(self.inside))
            or (self.topic is not None and site.records[0].topic == self.topic)
        )

    def is_consequence(self, site: BreakSite) -> bool:
        """Return whether another break causes it."""
        return False

    def message(self, site: BreakSite) -> str:
        """Say in one sentence what on this line breaks the graph."""
        return self.says.format(site=site)

    def suggested(self, site: BreakSite) -> Fixes:
        """Return suggestions for this line, as if it could be edited; ``remedies`` may show
        ``{site}`` too.
        """
        return (fix.replace(title=fix.title.format(site=site)) for fix in self.remedies)

    def fixes(self, site: BreakSite) -> Fixes:
        """Return suggestions for this line: edits only of the user's own code."""
        return tuple(fix for fix in self.suggested(site) if site.is_own_code or fix.kind != "code")

    def _all_fixes(self, view: RecordingView, site: BreakSite) -> Fixes:
        yield from self.fixes(site)
        since = _TRACED_SINCE.get(site.called or "")
        installed = view.recording.environment.torch_release
        if since and installed and installed < since:
            major, minor = since
            title = f"Upgrade torch: from {major}.{minor} on, it traces `{site.called}`"
            yield Fix(kind="call", title=title, source="seen with torch 2.13.0, 2.14.1 and 2.15.0")

    def finding_of(self, view: RecordingView, site: BreakSite) -> Finding:
        """Make the finding about a site."""
        # A break after which code runs eagerly, or that raises, is always an error.
        is_resumed = set(site.break_effects) <= {"resumed"}
        return self.finding(
            view,
            site.entry,
            self.message(site),
            site.records,
            reasons=site.records[0].chain,
            effects=site.effects,
            break_effects=site.break_effects,
            user_stack=view.longest_path(site),
            is_consequence=self.is_consequence(site),
            fixes=self._all_fixes(view, site),
            severity=self.severity if is_resumed else "error",
        )


class RecordingRule(Rule):
    """A rule about the recording as a whole: recompiles, skipped frames, failed calls."""

    @abstractmethod
    def findings(self, view: RecordingView) -> Findings:
        """Return all that the rule finds."""


class RecompileRule(Rule):
    """A rule about a value whose change makes torch recompile. A change belongs to the first rule
    that matches it.
    """

    kinds: ClassVar[tuple[ChangeKind, ...]] = ()
    """Kinds of changes that always belong to this rule."""
    is_about_calls: ClassVar[bool] = False
    """True if its suggestions are for what changes from call to call: none of them helps within
    one."""

    def matches(self, change: GuardChange) -> bool:
        """Return whether a change belongs to this rule."""
        return change.kind in self.kinds

    def message(self, group: RecompileGroup) -> str:
        """Return the whole sentence: the function, how often it recompiled, and why."""
        name, why = f"`{group.frame.described}`", self.because(group)
        count = sum(event.compiles[0].has_recompiled for event in group.events)
        done = f"recompiled {times(count)}" if count else "had to recompile, and couldn't,"
        return f"{name} {done} because {why}"

    def because(self, group: RecompileGroup) -> str:
        """Return a clause: what changed, with its values."""
        return group.changed

    def fixes(self, group: RecompileGroup) -> Fixes:
        """Return suggestions for this value."""
        return self.remedies

    def advice(self, group: RecompileGroup) -> tuple[object, ...]:
        """Return the facts of what is advised, without words and code, which name values; a rule
        whose words depend on more adds that.
        """
        return tuple(fix.replace(title="", snippet=None, place=None) for fix in self.fixes(group))

    def finding_of(self, view: RecordingView, group: RecompileGroup) -> Finding:
        """Make the finding about a value, at the line that made torch guard on it."""
        is_within = group.is_within_call and self.is_about_calls
        fixes = (WITHIN_CALL,) if is_within else tuple(self.fixes(group))
        if group.frame.origin == "stdlib":
            fixes = (_OF_PYTHON,)
        reasons = (
            reason for event in group.events for reason in event.compiles[0].recompile_reasons[:1]
        )
        line = group.first.guard_location
        return self.finding(
            view,
            line if line is not None and line.origin in PROGRAM_ORIGINS else group.frame.entry,
            self.message(group),
            group.compiles,
            is_consequence=not {WITHIN_CALL, _OF_PYTHON}.isdisjoint(fixes),
            count=sum(compile_.has_recompiled for compile_ in group.compiles),
            related=group.call_sites(),
            torch_reason="\n".join(dict.fromkeys(reasons)) or None,
            user_stack=group.events[0].compiles[0].stack,
            fixes=fixes,
            # A value carried over a break is named by the line of the break, and lines move.
            subject=_LINE_NUMBER.sub("", group.first.expression),
            changes=distinct_values(group.changes),
            hidden_change_count=hidden_change_count(group.events),
        )
