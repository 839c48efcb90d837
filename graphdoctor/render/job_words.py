"""A job in words: phrases that its terminal view, its Markdown and its page share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphdoctor.model.diagnosis import Summary
from graphdoctor.model.job import (
    Aspect,
    CompileAgreement,
    Divergence,
    HangCandidate,
    Job,
    JobFinding,
    Rank,
    RankGroup,
    Straggler,
)
from graphdoctor.model.wording import counted, ranks_text
from graphdoctor.render.words import Tone, base_name

_ASPECTS: dict[Aspect, str] = {
    "presence": "which ranks have it",
    "outcome": "how it ended",
    "operations": "operations",
    "sizes": "sizes",
    "collectives": "collectives",
    "causes": "recompile cause",
    "guards": "guards",
    "estimates": "tensors at run time",
    "cache": "cache",
}
_OTHER: dict[Aspect, str] = {
    "outcome": "another outcome",
    "operations": "other operations",
    "sizes": "other sizes",
    "collectives": "other collectives",
    "causes": "another cause",
    "guards": "other guards",
    "estimates": "other tensors at run time",
    "cache": "another answer of the caches",
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

_WHY: dict[str, str] = {
    "alone": "other ranks don't compile it",
    "cache": "others found it in a cache",
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
    ranks = len(job.ranks)
    if not any(rank.summary.compiles or rank.summary.graphs for rank in job.ranks):
        return f"torch.compile compiled nothing on any of the {ranks} ranks.", "bad"
    if not any(rank.summary.graphs for rank in job.ranks):
        return f"Not compiled: no graph reached the backend on any of the {ranks} ranks.", "bad"
    found = job.first_divergence
    if found is not None:
        return _parted(found), "bad"
    if (incomplete := [rank.rank for rank in job.ranks if rank.complete is False]) or job.absent:
        which = ranks_text(incomplete) if incomplete else ranks_text(job.absent)
        lack = "didn't run to the end" if incomplete else "left no log"
        return f"Ranks agree as far as their logs go; {which} {lack}.", "warning"
    return f"All {ranks} ranks compiled the same.", "good"


def _parted(found: Divergence) -> str:
    place = f"{base_name(found.location.file)}:{found.location.line}"
    return f"Ranks part at {found.compile} {found.function} ({place}): {_what(found)}."


def _what(found: Divergence) -> str:
    if found.what == "presence":
        lacking = [rank for value in found.values if value.value == "-" for rank in value.ranks]
        return f"{ranks_text(lacking)} {'does' if len(lacking) == 1 else 'do'}n't compile it"
    has = "has" if len(found.ranks) == 1 else "have"
    return f"{ranks_text(found.ranks)} {has} {_OTHER[found.what]}"


def aspect_text(aspect: Aspect) -> str:
    """In what ranks differ, a noun."""
    return _ASPECTS[aspect]


def value_rows(found: Divergence) -> Iterator[tuple[str, str]]:
    """Which ranks have what at the first divergence."""
    for value in found.values:
        yield ranks_text(value.ranks), "doesn't compile it" if value.value == "-" else value.value


def count_texts(job: Job) -> Iterator[str]:
    """Counts of a rank: one number where all ranks have the same, else the least and the most."""
    for field, noun in _COUNTS:
        numbers = [_count(rank.summary, field) for rank in job.ranks]
        if max(numbers) or field in ("compiles", "graphs", "break_sites"):
            yield _span(min(numbers), max(numbers), noun)


def _count(summary: Summary, field: str) -> int:
    number: int = getattr(summary, field)
    return number


def _span(low: int, high: int, noun: str) -> str:
    return counted(low, noun) if low == high else f"{low}–{high} {noun}s"


def seconds_text(span: tuple[float, float]) -> str:
    """The least and the most seconds of a rank."""
    low, high = (f"{number:.2f}" for number in span)
    return f"{low} s" if low == high else f"{low}–{high} s"


def skew_texts(job: Job) -> Iterator[str]:
    """Who waits for whom while compiling."""
    skew = job.skew
    if skew.straggler is not None:
        yield _straggler_text(skew.straggler, job)
    waits = [(rank.waits_s, rank.rank) for rank in job.ranks if rank.waits_s is not None]
    if skew.straggler is not None and skew.job_s is not None and waits:
        longest, rank = max(waits)
        yield (
            f"If ranks wait for each other after each compile, compiling takes the job {skew.job_s:.2f} s, of which "
            f"rank {rank} waits {longest:.2f} s."
        )


def _straggler_text(found: Straggler, job: Job) -> str:
    row = next((each for each in job.agreement if each.compile == found.compile), None)
    name = found.compile if row is None else f"{found.compile} {row.function}"
    why = _WHY[found.why]
    return (
        f"Rank {found.rank} compiles {found.extra_s:.2f} s longer than the quickest rank, "
        f"{found.compile_extra_s:.2f} s of it at {name}{f': {why}' if why else ''}."
    )


def hang_text(found: HangCandidate) -> str:
    """Where ranks can wait forever, a sentence."""
    place = f"{found.compile} {found.function}"
    waiting, missing = _capital(ranks_text(found.waiting)), ranks_text(found.missing)
    calls = f" ({', '.join(_short(name) for name in dict.fromkeys(found.collectives))})" if found.collectives else ""
    match found.kind:
        case "schedule":
            return f"{waiting} and {missing} schedule other collectives in {place}{calls}: they can wait forever."
        case "graph":
            words = f": {'; '.join(found.words)}" if found.words else ""
            return (
                f"torch compared the graphs of all ranks in {place}, and they differ, so ranks can wait forever{words}."
            )
        case "order":
            return f"{waiting} and {missing} run graphs in another order from {place} on: they can wait forever."
        case "absent":
            return f"{waiting} can wait forever in {place}{calls}, which {missing} never compiled."
        case "stopped":
            return f"{_capital(missing)} ended in or before {place}{calls}, to which {ranks_text(found.waiting)} came."


def _short(collective: str) -> str:
    return collective.removeprefix("torch.ops.").removeprefix("_c10d_functional.").removesuffix(".default").rstrip("_")


def differing(job: Job) -> list[CompileAgreement]:
    """The rows on which ranks differ in more than what a cache had."""
    return [row for row in job.agreement if not row.agree]


def group_text(group: RankGroup, row: CompileAgreement) -> str:
    """What some ranks did at a compile, in short."""
    if group.compile_id is None:
        return "missing"
    parts: list[str] = [] if group.outcome in (None, "compiled") else [group.outcome]
    parts += group.causes[:1]
    if "operations" in row.differs_in or "sizes" in row.differs_in:
        parts.append(f"graph {(group.graph or '?')[:6]}")
    elif "guards" in row.differs_in:
        parts.append(f"guards {(group.guards or '?')[:6]}")
    if "collectives" in row.differs_in and group.collectives is not None:
        parts.append(f"{counted(len(group.collectives or ()), 'collective')}")
    return ", ".join(parts) or "compiled"


def agreement_text(job: Job) -> str:
    """How many compiles are the same on all ranks."""
    same = sum(row.agree for row in job.agreement)
    if same == len(job.agreement) == 1:
        return "The only compile is the same on all ranks."
    if same == len(job.agreement):
        return f"All {same} compiles are the same on all ranks."
    return f"{same} of {counted(len(job.agreement), 'compile')} {'is' if same == 1 else 'are'} the same on all ranks."


def cache_text(job: Job) -> str | None:
    """Where caches answered ranks differently; None if they didn't."""
    rows = [row for row in job.agreement if row.caches]
    if not rows:
        return None
    groups = (f"{ranks_text(group.ranks)} {group.cache or 'not asked'}" for group in rows[0].caches)
    more = f", and {counted(len(rows) - 1, 'more compile')}" if len(rows) > 1 else ""
    return f"Caches answered differently at {rows[0].compile} ({'; '.join(groups)}){more}; that changes only the time."


def incomplete_text(job: Job) -> str | None:
    """Ranks whose log isn't whole; None if all are, or if that's unknown."""
    ended = [rank.rank for rank in job.ranks if rank.complete is False]
    if not ended:
        return None
    has = "has a log that ends" if len(ended) == 1 else "have logs that end"
    return f"{_capital(ranks_text(ended))} {has} before the program does: killed, crashed or still running."


def early_text(job: Job) -> str | None:
    """Ranks whose logs end while others go on compiling; None if there are none."""
    early = [rank for rank in job.ranks if rank.missed]
    if not early:
        return None
    ends = "log of {} ends" if len(early) == 1 else "logs of {} end"
    most = max(rank.missed for rank in early)
    where = ends.format(ranks_text([rank.rank for rank in early]))
    return f"The {where} while other ranks go on: they began {counted(most, 'more compile')} after that."


def absent_text(job: Job) -> str | None:
    """Ranks without a log; None if there are none."""
    if not job.absent:
        return None
    verb = "has" if len(job.absent) == 1 else "have"
    return f"{_capital(ranks_text(job.absent))} {verb} no log."


def finding_ranks_text(finding: JobFinding, ranks: Sequence[Rank]) -> str:
    """In which ranks a finding is, and how often."""
    where = "all ranks" if len(finding.ranks) == len(ranks) else ranks_text(finding.ranks)
    times = f"{finding.count}" if finding.count == finding.most else f"{finding.count}–{finding.most}"
    return f"{where}, {times} times each" if finding.most > 1 else where


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
