"""A job in words: phrases that its terminal view, its Markdown and its page share."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from itertools import takewhile

from graphdoctor.facts.diagnosis import Summary
from graphdoctor.facts.job import (
    Aspect,
    CompileAgreement,
    Divergence,
    DivergentValue,
    HangCandidate,
    Job,
    JobFinding,
    JobTrial,
    Rank,
    Straggler,
)
from graphdoctor.facts.wording import counted, duration, ranks_text
from graphdoctor.views.actions import actions
from graphdoctor.views.parts import Tone
from graphdoctor.views.words import base_name, clusters, first_sentence

_MOST_GROUPS = 4
"""Groups of ranks whose values are shown."""
_MOST_NAMED = 24
"""Characters of ranks that are named within a sentence; of more, only their number is said."""
_CONTEXT = 24
"""Characters before the first that differs, in values that are cut."""

_DIFFER: dict[Aspect, str] = {
    "outcome": "outcomes",
    "operations": "operations",
    "sizes": "sizes",
    "collectives": "collectives",
    "causes": "recompile causes",
    "guards": "guards",
    "estimates": "tensors at run time",
}
_OTHER: dict[Aspect, str] = {
    "outcome": "another outcome",
    "operations": "other operations",
    "sizes": "other sizes",
    "collectives": "other collectives",
    "causes": "another recompile cause",
    "guards": "other guards",
    "estimates": "other tensors at run time",
}
_COUNTS: tuple[tuple[str, str], ...] = (
    ("compiles", "compile"),
    ("graphs", "graph"),
    ("break_sites", "break site"),
    ("skipped_frames", "skipped frame"),
    ("recompiles", "recompile"),
    ("frames_over_limit", "frame over the limit"),
)
"""Fields of ``Summary`` that are shown by rank, and the noun of each."""

_PLURALS = {"frame over the limit": "frames over the limit"}

_WHY: dict[str, str] = {
    "cache": "other ranks found it in a cache",
    "backend": "most of it in the backend",
    "dynamo": "most of it in Dynamo",
    "unknown": "",
}


def title_parts(job: Job) -> list[str]:
    """What ran: target, ranks, torch."""
    parts = [job.target.text or "trace logs", counted(len(job.ranks), "rank")]
    if job.environment.torch:
        parts.append(f"torch {job.environment.torch}")
    return parts


def verdict(job: Job) -> tuple[str, Tone]:
    """The answer in a sentence."""
    everyone = _everyone(job)
    anyone = "either rank" if len(job.ranks) == 2 else f"any of the {len(job.ranks)} ranks"
    if not any(rank.summary.compiles or rank.summary.graphs for rank in job.ranks):
        return f"torch.compile compiled nothing on {anyone}.", "bad"
    if not any(rank.summary.graphs for rank in job.ranks):
        return f"Not compiled: no graph reached the backend on {anyone}.", "bad"
    found = job.first_divergence
    if found is not None:
        place = f"{base_name(found.location.file)}:{found.location.line}"
        return f"Ranks diverge at {found.compile} {function_text(found)} ({place}): {_what(found, job)}.", "bad"
    if (lack := _lacking(job)) is not None:
        return f"Ranks agree as far as their logs go, but {lack}.", "warning"
    if job.hangs:
        return "Ranks agree on what Dynamo made, but they can wait for each other forever.", "bad"
    compiles = len(job.agreement)
    on = "their only compile" if compiles == 1 else f"{_all_of(compiles)} compiles"
    is_good = all(finding.severity == "info" for finding in job.findings)
    return f"{_capital(everyone)} agree on {on}.", "good" if is_good else "warning"


def _lacking(job: Job) -> str | None:
    """What keeps the ranks from being compared to their ends, a clause; None if nothing is known to."""
    if incomplete := [rank.rank for rank in job.ranks if rank.complete is False]:
        return _did_not_end(incomplete)
    if job.unread:
        return f"{ranks_text(job.unread)} couldn't be read"
    return f"{ranks_text(job.absent)} left no log" if job.absent else None


def function_text(found: CompileAgreement | Divergence) -> str:
    """The function of a compile, and the line that it continues from if it is the rest of one."""
    return found.function if found.resumes_at is None else f"{found.function} from line {found.resumes_at}"


def _did_not_end(ranks: Sequence[int]) -> str:
    return f"the log{'' if len(ranks) == 1 else 's'} of {ranks_text(ranks)} end{'s' if len(ranks) == 1 else ''} early"


def _everyone(job: Job) -> str:
    return f"{_all_of(len(job.ranks))} ranks"


def _all_of(count: int) -> str:
    return "both" if count == 2 else f"all {count}"


def _what(found: Divergence, job: Job) -> str:
    if found.what == "presence":
        lacking = [rank for value in found.values if value.value == "-" for rank in value.ranks]
        return f"{_some(lacking, job)} {lacks_text(lacking)}"
    groups = len(found.values)
    if len(job.ranks) == 2 or groups > 2:
        ways = f" between {groups} groups of ranks" if groups > 2 else ""
        return f"{_DIFFER[found.what]} differ{ways}"
    return f"{_some(found.ranks, job)} {'has' if len(found.ranks) == 1 else 'have'} {_OTHER[found.what]}"


def _some(ranks: Sequence[int], job: Job) -> str:
    """Ranks by their numbers, or how many of all where these would be long."""
    named = ranks_text(ranks)
    return named if len(named) <= _MOST_NAMED else f"{len(ranks)} of {len(job.ranks)} ranks"


def value_rows(found: Divergence, *, limit: int) -> Iterator[tuple[str, str]]:
    """Which ranks have what at the first divergence.

    Args:
        found: The divergence.
        limit: Characters of a value; longer ones are cut so that what differs can be seen.
    """
    shown = found.values[:_MOST_GROUPS]
    values = [_value(value, found.what) for value in shown]
    begin = 0
    if len(values) > 1 and max(map(len, values)) > limit:
        alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*values, strict=False))
        begin = max(sum(1 for _ in alike) - _CONTEXT, 0)
    for value, text in zip(shown, values, strict=True):
        cut = "…" * bool(begin) + text[begin:]
        yield ranks_text(value.ranks), cut if len(cut) <= limit else f"{cut[: limit - 1]}…"
    if len(found.values) > len(shown):
        ranks = sum(len(value.ranks) for value in found.values[_MOST_GROUPS:])
        more = len(found.values) - len(shown)
        yield f"{counted(ranks, 'more rank')}", f"{counted(more, 'more value')}" if more > 1 else "another value"


def count_texts(job: Job) -> Iterator[str]:
    """Counts of a rank: one number where all ranks have the same, else the least and the most."""
    for field, noun in _COUNTS:
        numbers = [_count(rank.summary, field) for rank in job.ranks]
        if max(numbers) or field in ("compiles", "graphs", "break_sites"):
            yield _span(min(numbers), max(numbers), noun)
    if job.skew.compile_s is not None:
        yield f"{seconds_text(job.skew.compile_s)} compiling"


def _value(value: DivergentValue, what: Aspect) -> str:
    if value.value == "-":
        return lacks_text(value.ranks)
    if what == "collectives":
        return ", ".join(_short(name) for name in value.value.split(", "))
    return " ".join(value.value.split())


def lacks_text(ranks: Sequence[int]) -> str:
    """That ranks don't have a compile."""
    return "doesn't compile it" if len(ranks) == 1 else "don't compile it"


def rank_spans(job: Job) -> Iterator[tuple[str, str]]:
    """Counts of a rank, each with its label: one number where all ranks have the same, else the least and the most."""
    for field, noun in _COUNTS:
        numbers = [_count(rank.summary, field) for rank in job.ranks]
        low, high = min(numbers), max(numbers)
        if high or field in ("compiles", "graphs", "break_sites"):
            yield _PLURALS.get(noun, f"{noun}s"), str(low) if low == high else f"{low}–{high}"
    if job.skew.compile_s is not None:
        yield "compile time", seconds_text(job.skew.compile_s)


def _count(summary: Summary, field: str) -> int:
    number: int = getattr(summary, field)
    return number


def _span(low: int, high: int, noun: str) -> str:
    plural = _PLURALS.get(noun, f"{noun}s")
    return f"{low} {noun if low == 1 else plural}" if low == high else f"{low}–{high} {plural}"


def seconds_text(span: tuple[float, float]) -> str:
    """The least and the most seconds of a rank."""
    low, high = (f"{number:.2f}" for number in span)
    return f"{low} s" if low == high else f"{low}–{high} s"


def skew_texts(job: Job) -> Iterator[str]:
    """Who waits for whom while compiling."""
    skew = job.skew
    if skew.straggler is None:
        return
    yield _straggler_text(skew.straggler, job)
    waits = [(rank.waits_s, -rank.rank) for rank in job.ranks if rank.waits_s is not None]
    if skew.job_s is not None and waits:
        longest, rank = max(waits)
        most = f"rank {-rank} waits {longest:.2f} s of that" if len(waits) == 2 else f"rank {-rank} waits longest"
        how_long = "" if len(waits) == 2 else f", {longest:.2f} s"
        yield (
            f"If ranks wait for each other after each compile, compiling takes the job {skew.job_s:.2f} s; "
            f"{most}{how_long}."
        )


def _straggler_text(found: Straggler, job: Job) -> str:
    place = (found.compile, found.function)
    row = next((each for each in job.agreement if (each.compile, each.function) == place), None)
    name = " ".join(place) if row is None else f"{found.compile} {function_text(row)}"
    why = _WHY.get(found.why, "")
    if found.why == "alone" and row is not None:
        lacking = [rank for group in row.groups if group.compile_id is None for rank in group.ranks]
        why = f"{_some(lacking, job)} {lacks_text(lacking)}"
    most = "" if f"{found.compile_extra_s:.2f}" == f"{found.extra_s:.2f}" else f", {found.compile_extra_s:.2f} s of it"
    return (
        f"Rank {found.rank} compiles {found.extra_s:.2f} s longer than the quickest rank{most} at {name}"
        f"{f': {why}' if why else ''}."
    )


def hang_text(found: HangCandidate, job: Job) -> str:
    """Where ranks can wait forever, a sentence."""
    place = f"{found.compile} {found.function}"
    waiting, missing = _some(found.waiting, job), _some(found.missing, job)
    has = "has" if len(found.missing) == 1 else "have"
    calls = f" ({', '.join(_short(name) for name in dict.fromkeys(found.collectives))})" if found.collectives else ""
    match found.kind:
        case "schedule":
            text = f"{waiting} and {missing} call different collectives in {place}{calls}"
        case "graph":
            words = f": {'; '.join(found.words)}" if found.words else ""
            text = f"torch compared the graphs of all ranks in {place}, and they differ{words.rstrip('.')}"
        case "order":
            text = f"from {place} on, {missing} {has} run graphs in another order than {waiting}"
        case "absent":
            text = f"{waiting} can wait in {place}{calls} for {missing}, which never compiled it"
        case "stopped":
            logs = f"the log{'' if len(found.missing) == 1 else 's'} of {missing}"
            ends = "ends" if len(found.missing) == 1 else "end"
            text = f"{logs} {ends} at {place}{calls}; {waiting} went on and can wait for {_pronoun(found.missing)}"
    return f"Possible hang: {text}."


def _pronoun(ranks: Sequence[int]) -> str:
    return "it" if len(ranks) == 1 else "them"


def _short(collective: str) -> str:
    return collective.removeprefix("torch.ops.").removeprefix("_c10d_functional.").removesuffix(".default").rstrip("_")


def agreement_text(job: Job) -> str | None:
    """How many compiles are the same on all ranks; None if all are, which the verdict says."""
    same, all_ = sum(row.agree for row in job.agreement), len(job.agreement)
    if same == all_:
        return None
    if same == 0:
        differ = "The only compile differs" if all_ == 1 else f"{_capital(_all_of(all_))} compiles differ"
        return f"{differ} between ranks."
    return f"{same} of {counted(all_, 'compile')} {'is' if same == 1 else 'are'} the same on {_everyone(job)}."


def differences_text(row: CompileAgreement) -> str:
    """In what ranks differ at a compile that many groups of them have."""
    found = [_DIFFER.get(aspect, "presence") for aspect in row.differs_in if aspect != "cache"]
    if "operations" in found and "sizes" in found:
        found.remove("sizes")
    return f"{', '.join(found)} differ"


def cache_text(job: Job) -> str | None:
    """Where caches answered ranks differently; None if they didn't."""
    rows = [row for row in job.agreement if row.caches]
    if not rows:
        return None
    groups = (f"{_some(group.ranks, job)} {group.cache or 'not asked'}" for group in rows[0].caches)
    more = f" and at {counted(len(rows) - 1, 'more compile')}" if len(rows) > 1 else ""
    return f"Caches answered differently at {rows[0].compile} ({', '.join(groups)}){more}; that only changes the time."


def incomplete_text(job: Job) -> str | None:
    """Ranks whose log isn't whole; None if all are, or if that's unknown."""
    ended = [rank.rank for rank in job.ranks if rank.complete is False]
    if not ended:
        return None
    return f"{_capital(_did_not_end(ended))}: killed, crashed or still running."


def early_text(job: Job) -> str | None:
    """Ranks that may have stopped while others went on compiling; None if there are none."""
    early = [rank.rank for rank in job.ranks if rank.missed and rank.complete is not True]
    if not early:
        return None
    most = max(rank.missed for rank in job.ranks)
    named, verb = _some(early, job), "is" if len(early) == 1 else "are"
    return (
        f"The last record{'' if len(early) == 1 else 's'} of {named} {verb} older than "
        f"{counted(most, 'compile')} of other ranks: finished, waiting or stopped."
    )


def absent_text(job: Job) -> str | None:
    """Ranks without a log; None if there are none."""
    if not job.absent:
        return None
    verb = "has" if len(job.absent) == 1 else "have"
    return f"{_capital(ranks_text(job.absent))} {verb} no log."


def unknown_ends_text(job: Job) -> str | None:
    """That it's unknown whether ranks ran to their end; None if it's known of all."""
    unknown = [rank.rank for rank in job.ranks if rank.complete is None]
    if not unknown:
        return None
    if len(unknown) == len(job.ranks):
        return "The logs don't say whether the ranks ran to their end."
    return f"The log of {ranks_text(unknown)} doesn't say whether it ran to its end."


def finding_groups(job: Job) -> Iterator[tuple[list[JobFinding], str]]:
    """Findings that are shown as one, and in which ranks they are; in the order of what mends most."""
    whole = {finding.fingerprint: finding for finding in job.findings}
    groups = [cluster for action in actions(job.findings) for cluster in clusters(action.findings)]
    known = {finding.fingerprint for group in groups for finding in group}
    groups += [cluster for cluster in clusters(job.findings) if cluster[0].fingerprint not in known]
    for group in groups:
        found = [whole[finding.fingerprint] for finding in group]
        yield found, _finding_ranks(found, job.ranks)


def _finding_ranks(findings: Sequence[JobFinding], ranks: Sequence[Rank]) -> str:
    """In which ranks findings are, and how often the first is in each of them."""
    found = sorted({rank for finding in findings for rank in finding.ranks})
    where = ranks_text(found)
    if len(found) == len(ranks):
        where = f"{_all_of(len(ranks))} ranks"
    first = findings[0]
    if first.most == 1:
        return where
    times = f"{first.count}" if first.count == first.most else f"{first.count}–{first.most}"
    return f"{where}, {times} times {'in it' if len(found) == 1 else 'in each'}"


def next_commands(job: Job) -> Iterator[tuple[str, str]]:
    """What to run to see more: what it shows, and the command, which can be pasted."""
    if job.recording is None:
        return
    found = job.first_divergence
    if found is not None and len(found.values) > 1:
        one, other = sorted(value.ranks[0] for value in found.values[:2])
        yield "what differs", _command("diff", job.recording, "--rank", one, "--rank", other)
    rank = _rank_to_see(job)
    yield f"only rank {rank}", _command("report", job.recording, "--rank", rank)


def page_command(job: Job) -> str | None:
    """What to run for the page of a job; None if its recording has no name."""
    return None if job.recording is None else _command("report", job.recording, "--html")


def _rank_to_see(job: Job) -> int:
    """One that did something else, else the one that others wait for, else the first."""
    if job.first_divergence is not None:
        having = [value for value in job.first_divergence.values[1:] if value.value != "-"]
        return (having or job.first_divergence.values)[0].ranks[0]
    return job.ranks[0].rank if job.skew.straggler is None else job.skew.straggler.rank


def _command(*parts: str | int) -> str:
    return shlex.join(["graphdoctor", *map(str, parts)])


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def trial_texts(trial: JobTrial) -> tuple[str, str]:
    """One suggestion that was tried: what it is with its verdict, and what the job did with it."""
    what = trial.title if trial.setting is None else trial.setting.line
    if trial.kind == "dynamic":
        what = f"dynamic=True, by {what}"
    return f"{trial.verdict}: {what}", "; ".join(_trial_parts(trial))


def _trial_parts(trial: JobTrial) -> Iterator[str]:
    if trial.graphs is None:
        why = "" if trial.reason is None else f": {first_sentence(trial.reason)}"
        yield f"the job ended with exit status {trial.status}{why}"
        return
    if trial.gone:
        yield f"{' and '.join(trial.gone)} gone"
    if trial.new:
        yield f"{' and '.join(trial.new)} new"
    yield "ranks agree" if trial.agree else "ranks disagree"
    for span, noun in ((trial.graphs, "graph"), (trial.break_sites, "break site"), (trial.compiles, "compile")):
        if span is not None:
            yield _span(*span, noun)
    yield _loss_text(trial)
    yield _speed_text(trial)


def _loss_text(trial: JobTrial) -> str:
    if not trial.loss_count or trial.loss_difference is None:
        return "losses can't be compared, since two runs of the untouched script differ or have none"
    if trial.loss_difference == 0:
        return f"the first {trial.loss_count} losses are equal"
    return f"the first {trial.loss_count} losses differ by at most {trial.loss_difference:.0e} of their size"


def _speed_text(trial: JobTrial) -> str:
    if trial.step_us is None or trial.speedup is None:
        return "too few steps to time"
    low, high = trial.speedup
    step = f"{duration(trial.step_us)} per step"
    if low > trial.notable:
        return f"{step}, {low:.2f}× to {high:.2f}× faster than the untouched script right before and after"
    if high < 1 / trial.notable:
        return f"{step}, {1 / high:.2f}× to {1 / low:.2f}× slower than the untouched script right before and after"
    return f"{step}, no measurable difference"
