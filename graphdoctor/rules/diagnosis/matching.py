"""Applies rules: a recording's break sites and recompile events in, what each rule found out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from graphdoctor.facts.base import grouped
from graphdoctor.facts.guards import GuardChange, distinct_values
from graphdoctor.facts.stack import PROGRAM_ORIGINS, StackEntry
from graphdoctor.rules.diagnosis.recompiles import (
    RecompileGroup,
    hidden_change_count,
    recompile_groups,
)
from graphdoctor.rules.diagnosis.rule import (
    BreakRule,
    BreakSite,
    RecompileRule,
    RecordingView,
    Rule,
    RuleBook,
    RuleMatch,
)
from graphdoctor.rules.diagnosis.suggestions import WITHIN_CALL

_LINE_NUMBER = re.compile(r":\d+\b")

Matched = tuple[Rule, RuleMatch]
"""A rule and one of the things it found."""


def matches(view: RecordingView, rules: RuleBook) -> Iterator[Matched]:
    """What the rules find: break sites first, then recompiles, then the recording as a whole."""
    for site in view.sites:
        rule = next(rule for rule in rules.breaks if rule.matches(site))
        yield rule, _break_match(rule, site, view)
    yield from _recompile_matches(view, rules.recompiles)
    for recording_rule in rules.recordings:
        for match in recording_rule.findings(view):
            yield recording_rule, match


def _break_match(rule: BreakRule, site: BreakSite, view: RecordingView) -> RuleMatch:
    # A break after which code runs eagerly, or that raises, is always an error.
    is_resumed = set(site.break_effects) <= {"resumed"}
    return RuleMatch(
        entry=site.entry,
        message=rule.message(site),
        of=site.records,
        reasons=site.records[0].chain,
        effects=site.effects,
        break_effects=site.break_effects,
        user_stack=_longest_path(site, view),
        is_consequence=rule.is_consequence(site),
        fixes=rule.fixes(site),
        severity=rule.severity if is_resumed else "error",
    )


def _longest_path(site: BreakSite, view: RecordingView) -> tuple[StackEntry, ...]:
    """The longest call path to the site: how its frame was reached, then how the break was reached
    from there.
    """
    paths = []
    for record in site.records:
        compile_ = view.compiles.get(record.compile_id)
        above = compile_.stack[:-1] if compile_ and record.is_stack_exact else ()
        paths.append((*above, *record.stack))
    return max(paths, key=lambda path: sum(entry.origin in PROGRAM_ORIGINS for entry in path))


def _recompile_matches(view: RecordingView, rules: Sequence[RecompileRule]) -> Iterator[Matched]:
    def rule_of(change: GuardChange) -> RecompileRule:
        return next(rule for rule in rules if rule.matches(change))

    first_calls: dict[int, int | None] = {}
    for compile_ in view.recording.compiles:
        first_calls.setdefault(compile_.frame_id, compile_.call_index)
    for rule, group in recompile_groups(view.events, rule_of):
        calls = {first_calls.get(event.frame.frame_id) for event in group.events}
        calls |= {event.call_index for event in group.events}
        group.is_within_call = len(calls) == 1 and None not in calls
        # A resume function may have another value under an argument's name.
        if group.frame.resumes_at is None and all(
            event.call_site is None for event in group.events
        ):
            group.target = view.recording.target
        ids = {compile_.compile_id for compile_ in group.compiles}
        shapes = (one for one in view.recording.evidence.shapes if one.compile_id in ids)
        group.constants = tuple(one for one in shapes if one.kind == "specialized" and one.text)
        # A group without a compile was over the recompile limit each time, which GD201 reports.
        if group.compile_count:
            yield rule, _recompile_match(rule, group)


def _recompile_match(rule: RecompileRule, group: RecompileGroup) -> RuleMatch:
    fixes = (
        (WITHIN_CALL,) if group.is_within_call and rule.is_about_calls else tuple(rule.fixes(group))
    )
    reasons = (
        reason for event in group.events for reason in event.compiles[0].recompile_reasons[:1]
    )
    return RuleMatch(
        entry=_guarding_line(group),
        message=rule.message(group),
        is_consequence=WITHIN_CALL in fixes,
        count=group.compile_count,
        of=group.compiles,
        related=tuple(_call_sites(group)),
        torch_reason="\n".join(dict.fromkeys(reasons)) or None,
        user_stack=group.events[0].compiles[0].stack,
        fixes=fixes,
        # A value carried over a break is named by the line of the break, and lines move.
        subject=_LINE_NUMBER.sub("", group.first.expression),
        changes=distinct_values(change for changes in group.changes for change in changes),
        hidden_change_count=hidden_change_count(group.events),
    )


def _guarding_line(group: RecompileGroup) -> StackEntry:
    """The line of user or package code that made torch guard on the value; the function itself if
    there is none.
    """
    location = group.first.guard_location
    return (
        location
        if location is not None and location.origin in PROGRAM_ORIGINS
        else group.frame.entry
    )


def _call_sites(group: RecompileGroup) -> Iterator[tuple[StackEntry, str]]:
    """The user's lines that made the calls, each once, with the numbers of the calls."""
    sites = ((event.call_site, event.call_index) for event in group.events)
    for found in grouped((site.at, (site, number)) for site, number in sites if site).values():
        numbers = dict.fromkeys(str(number) for _, number in found if number is not None)
        yield found[0][0], f"called here in call {', '.join(numbers)}" if numbers else "called here"
