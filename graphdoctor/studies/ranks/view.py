"""A ``Job`` in, its view out: the answer, where ranks part, who waits for whom, findings with their
ranks.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

from graphdoctor.facts.job import (
    Aspect,
    CompileAgreement,
    CompiledFunction,
    Divergence,
    HangCandidate,
    HangKind,
    Job,
    RankGroup,
    StragglerCause,
)
from graphdoctor.views.finding_cards import card_of
from graphdoctor.views.log_words import unshown_in_job
from graphdoctor.views.next_step import explained
from graphdoctor.views.parts import (
    Block,
    Card,
    Cards,
    Cell,
    Code,
    Column,
    Done,
    Figure,
    Figures,
    Note,
    Row,
    Rows,
    Section,
    Span,
    Table,
    TableRow,
    Tone,
    Verdict,
    View,
)
from graphdoctor.views.words import clusters, few_text, short_place
from graphdoctor.wording import counted, listed, ranks_text, without_middle

_MOST_GROUPS = 4
"""Groups of ranks that are shown one by one."""
_MOST_ROWS = 300
"""Compiles of a table; ranks have twice as many."""
_MOST_NAMED = 24
"""Characters of ranks that are named within a sentence; of more, only their number is said."""
_VALUE = 240
"""Characters of a value at the first divergence."""
_CONTEXT = 24
"""Characters before the first that differs, in values that are cut."""
_FEW_ROWS = 8

_WORDS: dict[Aspect, str] = {"causes": "recompile causes", "outcome": "outcomes", "cache": "caches"}
"""Aspects that have another name for people."""
_OTHER: tuple[Aspect, ...] = ("operations", "sizes", "collectives", "guards")
"""Aspects called "other" in a cell; an outcome and causes are written out."""

_COUNTS = ("compiles", "graphs", "break_sites", "skipped_frames", "recompiles", "frames_over_limit")
"""Fields of ``Counts`` that are shown by rank; the first three even where they are 0."""

_WHY: dict[StragglerCause, str] = {
    "cache": ": other ranks found it in a cache",
    "backend": ": most of it in the backend",
    "dynamo": ": most of it in Dynamo",
}


def job_view(job: Job) -> View:
    """Return the report of a job as a tree."""
    title = [job.target.text or "trace logs", counted(len(job.ranks), "rank")]
    title += [f"torch {job.environment.torch}"] if job.environment.torch else []
    page = explained(finding.code for finding in job.findings)
    is_alike = job.first_divergence is None
    why = "ranks compile alike, and nothing was found" if is_alike else "what differs is above"
    then = _comparison(job) or page or Done(why)
    return View(tuple(title), "ranks", tuple(_parts(job)), job.graphdoctor_version, then)


def _comparison(job: Job) -> str | None:
    """Return the command that compares ranks which part; None if the recording has no name."""
    divergence = job.first_divergence
    if divergence is None or job.recording is None or len(divergence.values) < 2:
        return None
    first, second = (str(rank) for rank in sorted(of.ranks[0] for of in divergence.values[:2]))
    return shlex.join(["graphdoctor", "diff", job.recording, "--rank", first, "--rank", second])


def _parts(job: Job) -> Iterator[Block]:
    yield Verdict(*verdict(job))
    if job.first_divergence is not None:
        yield from _divergence(job.first_divergence)
    yield from (Note(text, "warning") for text in _warnings(job))
    yield Figures(tuple(_figures(job)))
    yield Section("Compiles by rank", _compiles(job), "Compiles", len(job.agreement))
    yield Section("Who waits for whom", _waits(job), "Ranks", len(job.ranks))
    commands = (
        Row(str(label), Code(shlex.join(["graphdoctor", *map(str, command)]), "shell"))
        for label, *command in _next_commands(job)
    )
    yield Section("To see more", Rows(commands))
    yield Section("Findings", Cards(tuple(_findings(job))), count=len(job.findings))
    rows = [Row(gap.code, Note(gap.message, "dim")) for gap in job.gaps]
    if unknown := [rank.rank for rank in job.ranks if rank.complete is None]:
        who = "the ranks" if len(unknown) == len(job.ranks) else ranks_text(unknown)
        rows.append(Row("", Note(f"The logs don't say whether {who} ran to the end.", "dim")))
    yield Section("Unknown", Rows(rows, "gap"))
    yield from unshown_in_job(job)
    if job.hidden_findings:
        findings = counted(job.hidden_findings, "finding")
        yield Note(f"{findings} hidden by --own-code, --select or --ignore.", "dim")


# The answer.


def verdict(job: Job) -> tuple[str, Tone]:
    """Return the answer in a sentence, and its tone."""
    has_graphs = any(rank.summary.graphs for rank in job.ranks)
    if not has_graphs and not any(rank.summary.compiles for rank in job.ranks):
        return "torch.compile compiled nothing on any rank.", "bad"
    if not has_graphs:
        return "Not compiled: no graph reached the backend on any rank.", "bad"
    divergence = job.first_divergence
    if divergence is not None:
        at = f"{_named(divergence, divergence.compile)} ({short_place(divergence.location).shown})"
        what = f"{_WORDS.get(divergence.what, divergence.what)} differ"
        if (parting := divergence.parting) is not None and parting.kind in ("branch", "loop"):
            what = "they run different code"
            if parting.location is not None:
                place = short_place(parting.location).shown
                how = "depends on the rank" if parting.reads else "goes different ways"
                what += f", since the {parting.kind} at {place} {how}"
        elif divergence.what == "presence":
            absent = [value.ranks for value in divergence.values if value.value == "-"]
            what = f"missing on {_some([rank for ranks in absent for rank in ranks], job)}"
        elif parting is not None and parting.kind != "sizes":
            what = f"`{parting.value}` differs"
        elif len(divergence.values) > 2:
            what += f" between {len(divergence.values)} groups of ranks"
        elif len(job.ranks) > 2:
            what += f" on {_some(divergence.ranks, job)}"
        return f"Ranks diverge at {at}: {what}.", "bad"
    for end, ranks in {
        "ended early": _early(job),
        "couldn't be read": job.unread,
        "left no log": job.absent,
    }.items():
        if ranks:
            return f"Ranks agree as far as their logs go, but {ranks_text(ranks)} {end}.", "warning"
    is_good = all(finding.severity == "info" for finding in job.findings)
    compiles = counted(len(job.agreement), "compile")
    return f"All ranks agree on {compiles}.", "good" if is_good else "warning"


def _early(job: Job) -> list[int]:
    return [rank.rank for rank in job.ranks if rank.complete is False]


def _warnings(job: Job) -> Iterator[str]:
    if job.absent:
        yield f"No log of {ranks_text(job.absent)}."
    if early := _early(job):
        yield f"Ended early: {ranks_text(early)} (killed, crashed or still running)."
    if silent := [rank.rank for rank in job.ranks if rank.missed and rank.complete is not True]:
        most = counted(max(rank.missed for rank in job.ranks), "compile")
        yield (
            f"Finished, waiting or stopped before other ranks began up to {most}:"
            f" {_some(silent, job)}."
        )


def _figures(job: Job) -> Iterator[Figure]:
    spans: dict[str, str] = {}
    for number, field in enumerate(_COUNTS):
        counts = [getattr(rank.summary, field) for rank in job.ranks]
        if number < 3 or any(counts):
            spans[field.replace("_", " ")] = _span(min(counts), max(counts))
    if job.skew.compile_s is not None:
        spans["compiling"] = f"{_span(*(f'{time:.2f}' for time in job.skew.compile_s))} s"
    note = "least to most of a rank"
    for name, value in spans.items():
        yield Figure(name, value, note if "–" in value else "")
        note = "" if "–" in value else note


# Where ranks part.


def _divergence(divergence: Divergence) -> Iterator[Block]:
    at = Span(_named(divergence, divergence.compile), "code")
    place = short_place(divergence.location)
    yield Note(("What ranks have at ", at, ", ", place, ":"), show="long")
    shown, more = divergence.values[:_MOST_GROUPS], divergence.values[_MOST_GROUPS:]
    texts = [" ".join(value.value.split()) for value in shown]
    if divergence.what == "collectives":
        texts = [_collectives(text.split(", ")) for text in texts]
    # Long values begin shortly before the first character that differs.
    is_long = len(texts) > 1 and max(map(len, texts)) > _VALUE
    alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*texts, strict=False))
    begin = max(sum(1 for _ in alike) - _CONTEXT, 0) if is_long else 0
    rows = []
    for value, text in zip(shown, texts, strict=True):
        whole = Span("…" * bool(begin) + without_middle(text[begin:], _VALUE), "code")
        rows.append(Row(ranks_text(value.ranks), "missing" if text == "-" else whole))
    if more:
        ranks = sum(len(value.ranks) for value in more)
        rows.append(Row(counted(ranks, "more rank"), counted(len(more), "more value")))
    yield Rows(rows, "value")


def _compiles(job: Job) -> Iterator[Block]:
    same = [row for row in job.agreement if row.agree]
    differing = [row for row in job.agreement if not row.agree]
    if differing:
        total = counted(len(job.agreement), "compile")
        yield Note(f"The same on all ranks: {len(same)} of {total}.", "dim")
        cells: list[TableRow] = [(*_names(row), _did_by_group(row)) for row in differing]
        columns = ("#compile", "function", "did")
        yield Table(columns, cells[:_MOST_ROWS], "compile", _FEW_ROWS, "Compiles by rank")
        yield from _left_out(len(cells) - _MOST_ROWS, "compile")
    if cached := [row for row in job.agreement if row.caches]:
        row, *more = cached
        groups = ", ".join(
            f"{_some(group.ranks, job)} {group.cache or 'not asked'}" for group in row.caches
        )
        others = f" and at {counted(len(more), 'more compile')}" if more else ""
        text = f"Caches answered differently at {row.compile} ({groups}){others}"
        yield Note(f"{text}; that only changes the time.", "dim")
    cells = [(*_names(row), short_place(row.location)) for row in same]
    table = Table(("#compile", "function", "at"), cells[:_MOST_ROWS], "compile")
    content = (table, *_left_out(len(cells) - _MOST_ROWS, "compile")) if cells else ()
    yield Section("The same on all ranks", content, show="long")


def _names(row: CompileAgreement) -> tuple[Span, Span]:
    return Span(row.compile), Span(_named(row))


def _left_out(count: int, noun: str) -> Iterator[Note]:
    if count > 0:
        text = f"{counted(count, f'more {noun}')} left out; the JSON document has all of them."
        yield Note(text, "dim")


def _did_by_group(row: CompileAgreement) -> Cell:
    if len(row.groups) > _MOST_GROUPS:
        differing = _without_sizes(aspect for aspect in row.differs_in if aspect != "cache")
        return Cell(f"{len(row.groups)} groups: {listed(differing)} differ", tone="warning")
    texts = (f"{ranks_text(group.ranks)}: {_did(group, row)}" for group in row.groups)
    return Cell("; ".join(texts), tone="warning")


def _did(group: RankGroup, row: CompileAgreement) -> str:
    if group.compile_id is None:
        return "missing"
    texts: list[str] = [group.outcome] if group.outcome not in (None, "compiled") else []
    if group.causes:
        texts.append(few_text(group.causes, 1))
    elif "causes" in row.differs_in:
        texts.append("no recompile")
    if others := _without_sizes(aspect for aspect in group.differs_in if aspect in _OTHER):
        texts.append(f"other {listed(others)}")
    elif "collectives" in row.differs_in and group.collectives is not None:
        texts.append(counted(len(group.collectives), "collective"))
    return ", ".join(texts) or "compiled"


def _without_sizes(aspects: Iterable[Aspect]) -> list[str]:
    """Return aspects in words; where operations differ, sizes do anyway."""
    differing = list(aspects)
    has_sizes = "operations" not in differing
    return [_WORDS.get(aspect, aspect) for aspect in differing if has_sizes or aspect != "sizes"]


# Who waits for whom.


def _waits(job: Job) -> Iterator[Block]:
    yield from (Note(_hang_text(hang, job), "warning") for hang in job.hangs)
    if job.hangs:
        text = (
            "A log shows what was compiled, not what runs: these are places to look at, not proofs."
        )
        yield Note(text, "dim", show="long")
    yield from (Note(text, "warning") for text in _skew_texts(job))
    ends = {True: "whole", False: "ends early", None: "unknown"}
    rows: list[TableRow] = []
    for rank in job.ranks[: 2 * _MOST_ROWS]:
        counts = (rank.summary.compiles, rank.summary.break_sites, rank.summary.recompiles)
        times = (
            Cell("unknown" if seconds is None else f"{seconds:.2f} s", value=seconds)
            for seconds in (rank.summary.compile_time_s, rank.waits_s)
        )
        texts = map(str, (rank.rank, rank.process or "unknown", *counts))
        rows.append((*texts, *times, ends[rank.complete]))
    meaning = (
        "Seconds that it waits for slower ranks, if ranks wait for each other after each compile."
    )
    waiting = Column("waiting", meaning=meaning)
    headings = ("#rank", "#process", "#compiles", "#break sites", "#recompiles", "#compiling")
    label = "Counts and times of each rank"
    yield Table((*headings, waiting, "log"), rows, "rank", label=label, show="long")
    yield from _left_out(len(job.ranks) - 2 * _MOST_ROWS, "rank")


def _hang_text(hang: HangCandidate, job: Job) -> str:
    waiting, missing = _some(hang.waiting, job), _some(hang.missing, job)
    calls = f" ({_collectives(dict.fromkeys(hang.collectives))})" if hang.collectives else ""
    place = f"{_named(hang, hang.compile)}{calls}"
    texts: dict[HangKind, str] = {
        "schedule": f"{waiting} and {missing} call different collectives in {place}",
        "absent": f"{waiting} can wait in {place} for {missing}, which never compiled it",
        "stopped": f"{waiting} can wait for {missing}, whose log ends at {place}",
    }
    return f"Possible hang: {texts[hang.kind]}."


def _skew_texts(job: Job) -> Iterator[str]:
    straggler = job.skew.straggler
    if straggler is None:
        return
    why = _WHY.get(straggler.why, "")
    if straggler.why == "alone":
        why = f": missing on {_some(straggler.missing, job)}"
    extra, compile_extra = f"{straggler.extra_s:.2f} s", f"{straggler.compile_extra_s:.2f} s"
    part = "" if compile_extra == extra else f", {compile_extra} of it"
    longer = f"Rank {straggler.rank} compiles {extra} longer than the quickest rank{part}"
    yield f"{longer} at {_named(straggler, straggler.compile)}{why}."
    waits = [(rank.waits_s, -rank.rank) for rank in job.ranks if rank.waits_s is not None]
    if job.skew.job_s is not None and waits:
        longest, rank = max(waits)
        taken = (
            "If ranks wait for each other after each compile, compiling takes the job"
            f" {job.skew.job_s:.2f} s"
        )
        yield f"{taken}; rank {-rank} waits longest, {longest:.2f} s."


# What to do.


def _next_commands(job: Job) -> Iterator[tuple[str | int, ...]]:
    """Yield labels, each with the arguments of a command."""
    recording, divergence = job.recording, job.first_divergence
    if recording is None:
        return
    rank = job.ranks[0].rank if job.skew.straggler is None else job.skew.straggler.rank
    if divergence is not None:
        # One that did something else.
        having = [value for value in divergence.values[1:] if value.value != "-"]
        rank = (having or divergence.values)[0].ranks[0]
    yield f"only rank {rank}", "report", recording, "--rank", rank
    yield "as a page", "report", recording, "--html"


def _findings(job: Job) -> Iterator[Card]:
    """Yield findings that are shown as one, with their ranks."""
    for group in clusters(job.findings):
        first, numbers = group[0], {rank for finding in group for rank in finding.ranks}
        ranks = "all ranks" if len(numbers) == len(job.ranks) else ranks_text(sorted(numbers))
        often = "" if first.most == 1 else f", {_span(first.count, first.most)} times in each"
        card = card_of(group, has_path=False)
        yield replace(card, parts=(*card.parts, Rows((Row("on", f"{ranks}{often}"),))))


# Words.


def _named(compiled: CompiledFunction, *compile_id: str) -> str:
    """Return a function's name, after the compile's id if there is one."""
    since = () if compiled.resumes_at is None else (f"from line {compiled.resumes_at}",)
    return " ".join((*compile_id, compiled.function, *since))


def _some(ranks: Sequence[int], job: Job) -> str:
    """Return ranks by number, or their count where the numbers would be long."""
    text = ranks_text(ranks)
    return text if len(text) <= _MOST_NAMED else f"{len(ranks)} of {len(job.ranks)} ranks"


def _span(low: object, high: object) -> str:
    return str(low) if low == high else f"{low}–{high}"


def _collectives(names: Iterable[str]) -> str:
    """Return collectives as their users call them."""
    short = (name.removeprefix("torch.ops.").removesuffix(".default") for name in names)
    return ", ".join(name.removeprefix("_c10d_functional.").rstrip("_") for name in short)
