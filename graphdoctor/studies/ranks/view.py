"""What the ranks of a job did: the answer, where they part, who waits for whom, findings with their ranks, trials.

Comes in: a ``Job``. Goes out: a view.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

from graphdoctor.facts.diagnosis import Location
from graphdoctor.facts.job import (
    Aspect,
    CompileAgreement,
    CompiledFunction,
    Divergence,
    DivergentValue,
    HangCandidate,
    HangKind,
    Job,
    JobFinding,
    JobTrial,
    JobVerdict,
    RankGroup,
    Straggler,
    StragglerCause,
)
from graphdoctor.facts.wording import counted, duration, ranks_text
from graphdoctor.views.actions import actions
from graphdoctor.views.finding_cards import card_of
from graphdoctor.views.log_words import unshown_in_job
from graphdoctor.views.parts import (
    Block,
    Blocks,
    Cell,
    Code,
    Column,
    Figure,
    Figures,
    Note,
    Place,
    Row,
    Rows,
    Section,
    Span,
    Table,
    Tone,
    Verdict,
    View,
)
from graphdoctor.views.words import base_name, clusters, first_sentence

_MOST_GROUPS = 4
"""Groups of ranks whose values are shown."""
_MOST_COLUMNS = 4
"""Groups of ranks that have a column each in the table of compiles."""
_MOST_ROWS = 300
"""Compiles of a table; ranks have twice as many."""
_MOST_NAMED = 24
"""Characters of ranks that are named within a sentence; of more, only their number is said."""
_VALUE = 240
"""Characters of a value at the first divergence."""
_CONTEXT = 24
"""Characters before the first that differs, in values that are cut."""
_FEW_ROWS = 8
_WHOLE_FINDINGS = 3
_SHORT_FINDINGS = 8

_WHAT: dict[Aspect, tuple[str, str]] = {
    "presence": ("", "Some ranks don't compile it:"),
    "outcome": ("outcomes", "It ended differently:"),
    "operations": ("operations", "The first line of the printed graph that differs:"),
    "sizes": ("sizes", "The first size in the printed graph that differs:"),
    "collectives": ("collectives", "The collectives that Inductor scheduled:"),
    "causes": ("recompile causes", "What made torch recompile:"),
    "guards": ("guards", "The first guard that differs:"),
    "estimates": ("tensors at run time", "The tensors that Inductor expects at run time:"),
    "cache": ("caches", "Whether a cache had it:"),
}
"""What differs, and what stands before the values."""
_ANOTHER: dict[Aspect, str] = {"outcome": "another outcome", "causes": "another recompile cause"}
_OTHER: tuple[Aspect, ...] = ("operations", "sizes", "collectives", "guards", "estimates")
"""What is said to be other; an outcome and causes are themselves in the cell."""

_COUNTS = {
    "compiles": "compiles",
    "graphs": "graphs",
    "break_sites": "break sites",
    "skipped_frames": "skipped frames",
    "recompiles": "recompiles",
    "frames_over_limit": "frames over the limit",
}
"""Fields of ``Summary`` that are shown by rank, and their nouns; the first three even where they are 0."""

_WHY: dict[StragglerCause, str] = {
    "cache": "other ranks found it in a cache",
    "backend": "most of it in the backend",
    "dynamo": "most of it in Dynamo",
}
_VERDICTS: dict[JobVerdict, Tone] = {
    "verified": "good",
    "failed": "bad",
    "changes results": "bad",
    "makes it worse": "bad",
}


def job_view(job: Job) -> View:
    """The report of a job as a tree."""
    title = [job.target.text or "trace logs", counted(len(job.ranks), "rank")]
    title += [f"torch {job.environment.torch}"] if job.environment.torch else []
    return View(tuple(title), "ranks", tuple(_parts(job)), job.graphdoctor_version)


def _parts(job: Job) -> Iterator[Block]:
    yield Verdict(*verdict(job))
    yield from () if job.first_divergence is None else _divergence(job.first_divergence)
    yield from (Note(text, "warning") for text in _warnings(job))
    yield Figures(tuple(_figures(job)))
    yield Section("Compiles by rank", tuple(_compiles(job)), "Compiles", len(job.agreement))
    yield Section("Who waits for whom", tuple(_waits(job)), "Ranks", len(job.ranks))
    commands = tuple(Row(label, Code(command, "shell")) for label, command in _next_commands(job))
    yield Section("To see more", (Rows(commands),))
    yield Section("Findings", tuple(_findings(job)), count=len(job.findings))
    yield from _trials(job)
    rows = [Row(gap.code, Note(gap.message, "dim")) for gap in job.gaps]
    rows += [Row("", Note(text, "dim")) for text in _unknown_ends(job)]
    yield Section("Unknown", (Rows(tuple(rows), "gap"),))
    yield from unshown_in_job(job)
    if job.hidden_findings:
        yield Note(f"{counted(job.hidden_findings, 'finding')} hidden by --own-code, --select or --ignore.", "dim")


# The answer.


def verdict(job: Job) -> tuple[str, Tone]:
    """The answer in a sentence, and whether it is good news."""
    anyone = "either rank" if len(job.ranks) == 2 else f"any of the {len(job.ranks)} ranks"
    if not any(rank.summary.compiles or rank.summary.graphs for rank in job.ranks):
        return f"torch.compile compiled nothing on {anyone}.", "bad"
    if not any(rank.summary.graphs for rank in job.ranks):
        return f"Not compiled: no graph reached the backend on {anyone}.", "bad"
    found = job.first_divergence
    if found is not None:
        place = f"{base_name(found.location.file)}:{found.location.line}"
        return f"Ranks diverge at {found.compile} {_function(found)} ({place}): {_difference(found, job)}.", "bad"
    if (lack := _lacking(job)) is not None:
        return f"Ranks agree as far as their logs go, but {lack}.", "warning"
    if job.hangs:
        return "Ranks agree on what Dynamo made, but they can wait for each other forever.", "bad"
    compiles = len(job.agreement)
    on = "their only compile" if compiles == 1 else f"{_all_of(compiles)} compiles"
    is_good = all(finding.severity == "info" for finding in job.findings)
    return f"{_capital(_all_of(len(job.ranks)))} ranks agree on {on}.", "good" if is_good else "warning"


def _lacking(job: Job) -> str | None:
    """What keeps the ranks from being compared to their ends, a clause; None if nothing is known to."""
    if incomplete := [rank.rank for rank in job.ranks if rank.complete is False]:
        return _logs_end(incomplete)
    if job.unread:
        return f"{ranks_text(job.unread)} couldn't be read"
    return f"{ranks_text(job.absent)} left no log" if job.absent else None


def _difference(found: Divergence, job: Job) -> str:
    if found.what == "presence":
        lacking = [rank for value in found.values if value.value == "-" for rank in value.ranks]
        return f"{_some(lacking, job)} {_lacks(lacking)}"
    groups, what = len(found.values), _WHAT[found.what][0]
    if len(job.ranks) == 2 or groups > 2:
        return f"{what} differ" + (f" between {groups} groups of ranks" if groups > 2 else "")
    return f"{_some(found.ranks, job)} {_verb(found.ranks, 'has', 'have')} {_ANOTHER.get(found.what, f'other {what}')}"


def _warnings(job: Job) -> Iterator[str]:
    if job.absent:
        yield f"{_capital(ranks_text(job.absent))} {_verb(job.absent, 'has', 'have')} no log."
    if ended := [rank.rank for rank in job.ranks if rank.complete is False]:
        yield f"{_capital(_logs_end(ended))}: killed, crashed or still running."
    if early := [rank.rank for rank in job.ranks if rank.missed and rank.complete is not True]:
        most = max(rank.missed for rank in job.ranks)
        records = _verb(early, f"last record of {_some(early, job)} is", f"last records of {_some(early, job)} are")
        yield f"The {records} older than {counted(most, 'compile')} of other ranks: finished, waiting or stopped."


def _unknown_ends(job: Job) -> Iterator[str]:
    unknown = [rank.rank for rank in job.ranks if rank.complete is None]
    if len(unknown) == len(job.ranks):
        yield "The logs don't say whether the ranks ran to their end."
    elif unknown:
        yield f"The log of {ranks_text(unknown)} doesn't say whether it ran to its end."


def _figures(job: Job) -> Iterator[Figure]:
    counts = {nouns: [getattr(rank.summary, field) for rank in job.ranks] for field, nouns in _COUNTS.items()}
    shown = [nouns for number, nouns in enumerate(counts) if number < 3 or max(counts[nouns])]
    spans = [(nouns, _span(min(counts[nouns]), max(counts[nouns]))) for nouns in shown]
    if job.skew.compile_s is not None:
        spans.append(("compiling", f"{_span(*(f'{time:.2f}' for time in job.skew.compile_s))} s"))
    first = next((name for name, value in spans if "–" in value), None)
    for name, value in spans:
        yield Figure(name, value, "least to most of a rank" if name == first else "")


# Where ranks part.


def _divergence(found: Divergence) -> Iterator[Block]:
    where = found.location
    place = Place(where.file, where.line, where.shown_file)
    at = ("At ", Span(f"{found.compile} {_function(found)}", "code"), ", ", place, ". ", _WHAT[found.what][1])
    yield Note(at, show="long")
    shown = found.values[:_MOST_GROUPS]
    rows = [
        Row(ranks_text(value.ranks), _lacks(value.ranks) if value.value == "-" else Span(text, "code"))
        for value, text in zip(shown, _cut_to_what_differs([_value(one, found.what) for one in shown]), strict=True)
    ]
    if more := len(found.values) - len(shown):
        ranks = sum(len(value.ranks) for value in found.values[_MOST_GROUPS:])
        other = "another value" if more == 1 else counted(more, "more value")
        rows.append(Row(counted(ranks, "more rank"), other))
    yield Rows(tuple(rows), "value")


def _cut_to_what_differs(values: Sequence[str]) -> Iterator[str]:
    begin = 0
    if len(values) > 1 and max(map(len, values)) > _VALUE:
        alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*values, strict=False))
        begin = max(sum(1 for _ in alike) - _CONTEXT, 0)
    for value in values:
        text = "…" * bool(begin) + value[begin:]
        yield text if len(text) <= _VALUE else f"{text[: _VALUE - 1]}…"


def _value(value: DivergentValue, what: Aspect) -> str:
    if what == "collectives":
        return ", ".join(map(_collective, value.value.split(", ")))
    return " ".join(value.value.split())


def _compiles(job: Job) -> Iterator[Block]:
    everyone = f"{_all_of(len(job.ranks))} ranks"
    alike, differing = ([row for row in job.agreement if row.agree is agree] for agree in (True, False))
    if differing:
        verb = "is" if len(alike) == 1 else "are"
        said = f"{len(alike)} of {counted(len(job.agreement), 'compile')} {verb} the same on {everyone}."
        yield Note(said, "dim")
        yield from _matrix(differing, job)
    yield from (Note(text, "dim") for text in _cache_texts(job))
    cells = tuple((Cell(Span(row.compile)), Cell(Span(_function(row))), Cell(_place(row.location))) for row in alike)
    columns = (Column("compile"), Column("function", is_number=False), Column("at", is_number=False))
    table = Table(columns, cells[:_MOST_ROWS], "compile")
    title = f"The same on {everyone}"
    yield Section(title, (table, *_left_out(len(cells) - _MOST_ROWS, "compile")) if cells else (), show="long")


def _matrix(rows: Sequence[CompileAgreement], job: Job) -> Iterator[Block]:
    group_of = [{rank: group for group in row.groups for rank in group.ranks} for row in rows]
    columns: dict[tuple[tuple[int, ...] | None, ...], list[int]] = defaultdict(list)
    for rank in job.ranks:
        columns[tuple(found[rank.rank].ranks if rank.rank in found else None for found in group_of)].append(rank.rank)
    are_few = len(columns) <= _MOST_COLUMNS
    headings = ("function", *(map(ranks_text, columns.values()) if are_few else ("ranks", "did")))
    cells: list[tuple[Cell, ...]] = []
    for row, found in zip(rows, group_of, strict=True):
        name = Cell(Span(row.compile)), Cell(Span(_function(row)))
        if are_few:
            cells.append((*name, *(_cell(found.get(ranks[0]), row) for ranks in columns.values())))
        elif len(row.groups) > _MOST_COLUMNS:
            aspects = _without_sizes(aspect for aspect in row.differs_in if aspect != "cache")
            differ = Cell(f"{', '.join(aspects)} differ", tone="warning")
            cells.append((*name, Cell(f"{len(row.groups)} groups"), differ))
        else:
            for number, group in enumerate(row.groups):
                shown = (Cell(""), Cell("")) if number else name
                cells.append((*shown, Cell(ranks_text(group.ranks).partition(" ")[2]), _cell(group, row)))
    noun = "compile" if are_few else "line"
    heads = (Column("compile"), *(Column(heading, is_number=False) for heading in headings))
    yield Table(heads, tuple(cells[:_MOST_ROWS]), noun, _FEW_ROWS, "Compiles by rank")
    yield from _left_out(len(cells) - _MOST_ROWS, noun)


def _left_out(count: int, noun: str) -> Iterator[Note]:
    if count > 0:
        yield Note(f"{counted(count, f'more {noun}')} left out; the JSON document has all of them.", "dim")


def _cell(group: RankGroup | None, row: CompileAgreement) -> Cell:
    if group is None or group.compile_id is None:
        return Cell("missing", tone="bad")
    parts: list[str] = [group.outcome] if group.outcome not in (None, "compiled") else []
    parts += group.causes[:1]
    if len(group.causes) > 1:
        parts.append(f"{len(group.causes) - 1} more")
    elif "causes" in row.differs_in and not group.causes:
        parts.append("no recompile")
    if others := _without_sizes(aspect for aspect in group.differs_in if aspect in _OTHER):
        *most, last = others
        parts.append(f"other {', '.join(most)}{' and ' if most else ''}{last}")
    elif "collectives" in row.differs_in and group.collectives is not None:
        parts.append(counted(len(group.collectives), "collective"))
    return Cell(Span(", ".join(parts) or "compiled"), tone="warning" if group.differs_in else None)


def _without_sizes(aspects: Iterable[Aspect]) -> list[str]:
    """Aspects in words; where operations differ, sizes do anyway."""
    found = list(aspects)
    return [_WHAT[one][0] or one for one in found if one != "sizes" or "operations" not in found]


def _cache_texts(job: Job) -> Iterator[str]:
    rows = [row for row in job.agreement if row.caches]
    for row in rows[:1]:
        groups = ", ".join(f"{_some(group.ranks, job)} {group.cache or 'not asked'}" for group in row.caches)
        more = f" and at {counted(len(rows) - 1, 'more compile')}" if len(rows) > 1 else ""
        yield f"Caches answered differently at {row.compile} ({groups}){more}; that only changes the time."


# Who waits for whom.


def _waits(job: Job) -> Iterator[Block]:
    yield from (Note(hang_text(found, job), "warning") for found in job.hangs)
    if job.hangs:
        text = "A log shows what was compiled, not what runs: these are places to look at, not proofs."
        yield Note(text, "dim", show="long")
    yield from (Note(text, "warning") for text in _skew_texts(job))
    yield _ranks(job)
    yield from _left_out(len(job.ranks) - 2 * _MOST_ROWS, "rank")


def hang_text(found: HangCandidate, job: Job) -> str:
    """Where ranks can wait forever, a sentence."""
    place = f"{found.compile} {found.function}"
    waiting, missing = _some(found.waiting, job), _some(found.missing, job)
    calls = f" ({', '.join(map(_collective, dict.fromkeys(found.collectives)))})" if found.collectives else ""
    words = f": {'; '.join(found.words)}" if found.words else ""
    has = _verb(found.missing, "has", "have")
    logs = _verb(found.missing, f"the log of {missing} ends", f"the logs of {missing} end")
    texts: dict[HangKind, str] = {
        "schedule": f"{waiting} and {missing} call different collectives in {place}{calls}",
        "graph": f"torch compared the graphs of all ranks in {place}, and they differ{words.rstrip('.')}",
        "order": f"from {place} on, {missing} {has} run graphs in another order than {waiting}",
        "absent": f"{waiting} can wait in {place}{calls} for {missing}, which never compiled it",
        "stopped": f"{logs} at {place}{calls}; {waiting} went on and can wait for {_verb(found.missing, 'it', 'them')}",
    }
    return f"Possible hang: {texts[found.kind]}."


def _skew_texts(job: Job) -> Iterator[str]:
    if job.skew.straggler is None:
        return
    yield _straggler_text(job.skew.straggler, job)
    waits = [(rank.waits_s, -rank.rank) for rank in job.ranks if rank.waits_s is not None]
    if job.skew.job_s is not None and waits:
        longest, rank = max(waits)
        yield (
            f"If ranks wait for each other after each compile, compiling takes the job {job.skew.job_s:.2f} s; "
            f"rank {-rank} waits longest, {longest:.2f} s."
        )


def _straggler_text(found: Straggler, job: Job) -> str:
    place = (found.compile, found.function)
    row = next((each for each in job.agreement if (each.compile, each.function) == place), None)
    name = " ".join(place) if row is None else f"{found.compile} {_function(row)}"
    why = _WHY.get(found.why, "")
    if found.why == "alone" and row is not None:
        lacking = [rank for group in row.groups if group.compile_id is None for rank in group.ranks]
        why = f"{_some(lacking, job)} {_lacks(lacking)}"
    most = "" if f"{found.compile_extra_s:.2f}" == f"{found.extra_s:.2f}" else f", {found.compile_extra_s:.2f} s of it"
    longer = f"Rank {found.rank} compiles {found.extra_s:.2f} s longer than the quickest rank{most} at {name}"
    return f"{longer}{f': {why}' if why else ''}."


def _ranks(job: Job) -> Table:
    ends = {True: "whole", False: "ends early", None: "unknown"}
    meaning = "Seconds that it waits for slower ranks, if ranks wait for each other after each compile."
    columns = [Column(name) for name in ("rank", "process", "compiles", "break sites", "recompiles", "compiling")]
    columns += [Column("waiting", meaning=meaning), Column("log", is_number=False)]
    rows = tuple(
        (
            Cell(str(rank.rank)),
            Cell(str(rank.process or "unknown")),
            *(Cell(str(count)) for count in (rank.summary.compiles, rank.summary.break_sites, rank.summary.recompiles)),
            *(
                Cell("unknown" if time is None else f"{time:.2f} s", value=time)
                for time in (rank.compile_s, rank.waits_s)
            ),
            Cell(ends[rank.complete]),
        )
        for rank in job.ranks[: 2 * _MOST_ROWS]
    )
    return Table(tuple(columns), rows, "rank", label="Counts and times of each rank", show="long")


# What to do.


def _next_commands(job: Job) -> Iterator[tuple[str, str]]:
    if job.recording is None:
        return
    found = job.first_divergence
    rank = job.ranks[0].rank if job.skew.straggler is None else job.skew.straggler.rank
    if found is not None:
        # One that did something else.
        having = [value for value in found.values[1:] if value.value != "-"]
        rank = (having or found.values)[0].ranks[0]
        if len(found.values) > 1:
            one, other = sorted(value.ranks[0] for value in found.values[:2])
            yield "what differs", _command("diff", job.recording, "--rank", one, "--rank", other)
    yield f"only rank {rank}", _command("report", job.recording, "--rank", rank)
    yield "as a page", _command("report", job.recording, "--html")


def _command(*parts: str | int) -> str:
    return shlex.join(["graphdoctor", *map(str, parts)])


def _findings(job: Job) -> Iterator[Block]:
    """Findings that are shown as one, with their ranks, in the order of what mends most: a few in full."""
    whole = {finding.fingerprint: finding for finding in job.findings}
    groups = [cluster for action in actions(job.findings) for cluster in clusters(action.findings)]
    known = {finding.fingerprint for group in groups for finding in group}
    groups += [cluster for cluster in clusters(job.findings) if cluster[0].fingerprint not in known]
    for number, group in enumerate(groups):
        card = card_of(group, has_path=False)
        ranks = _finding_ranks([whole[finding.fingerprint] for finding in group], job)
        is_whole = number < _WHOLE_FINDINGS
        parts: Blocks = (*card.parts, Rows((Row("on", ranks),)))
        yield replace(card, parts=parts, show="always" if is_whole else "long")
        if not is_whole and number < _SHORT_FINDINGS:
            first = group[0]
            yield replace(card, headings=card.headings[:1], parts=(Note(f"{ranks}: {first.count}x"),), show="short")
    if (more := len(groups) - _SHORT_FINDINGS) > 0:
        yield Note(f"{counted(more, 'more finding')} (-v shows all)", "dim", show="short")


def _finding_ranks(findings: Sequence[JobFinding], job: Job) -> str:
    found = sorted({rank for finding in findings for rank in finding.ranks})
    where = f"{_all_of(len(found))} ranks" if len(found) == len(job.ranks) else ranks_text(found)
    first = findings[0]
    if first.most == 1:
        return where
    return f"{where}, {_span(first.count, first.most)} times {_verb(found, 'in it', 'in each')}"


def _trials(job: Job) -> Iterator[Block]:
    if job.trials is None:
        return
    if not job.trials:
        yield Note("Nothing that was found can be tried.", "dim")
    rows = (
        Row(trial.verdict, (Note(_trial_text(trial), _VERDICTS.get(trial.verdict, "warning")), _capital(f"{shown}.")))
        for trial in job.trials
        for shown in ("; ".join(_trial_parts(trial)),)
    )
    yield Section("Tried on the whole job, one at a time", (Rows(tuple(rows), "trial"),), "Tried", len(job.trials))


def _trial_text(trial: JobTrial) -> str:
    what = trial.title if trial.setting is None else trial.setting.line
    return f"dynamic=True, by {what}" if trial.kind == "dynamic" else what


def _trial_parts(trial: JobTrial) -> Iterator[str]:
    if trial.graphs is None:
        why = "" if trial.reason is None else f": {first_sentence(trial.reason).rstrip('.')}"
        yield f"the job ended with exit status {trial.status}{why}"
        return
    if trial.gone:
        yield f"{' and '.join(trial.gone)} gone"
    if trial.new:
        yield f"{' and '.join(trial.new)} new"
    yield "ranks agree" if trial.agree else "ranks disagree"
    for low, high, noun in (
        (*trial.graphs, "graph"),
        (*(trial.break_sites or ()), "break site"),
        (*(trial.compiles or ()), "compile"),
    ):
        yield counted(low, noun) if low == high else f"{low}–{high} {noun}s"
    if not trial.loss_count or trial.loss_difference is None:
        yield "losses can't be compared, since two runs of the untouched script differ or have none"
    elif trial.loss_difference == 0:
        yield f"the first {trial.loss_count} losses are equal"
    else:
        yield f"the first {trial.loss_count} losses differ by at most {trial.loss_difference:.0e} of their size"
    yield _speed_text(trial)


def _speed_text(trial: JobTrial) -> str:
    if trial.step_us is None or trial.speedup is None:
        return "too few steps to time"
    (low, high), beside = trial.speedup, "than the untouched script right before and after"
    said = "no measurable difference"
    if low > trial.notable:
        said = f"{low:.2f}× to {high:.2f}× faster {beside}"
    elif high < 1 / trial.notable:
        said = f"{1 / high:.2f}× to {1 / low:.2f}× slower {beside}"
    return f"{duration(trial.step_us)} per step, {said}"


# Words.


def _function(found: CompiledFunction) -> str:
    return found.function if found.resumes_at is None else f"{found.function} from line {found.resumes_at}"


def _place(location: Location) -> Place:
    return Place(location.file, location.line, base_name(location.file))


def _some(ranks: Sequence[int], job: Job) -> str:
    """Ranks by their numbers, or how many of all where these would be long."""
    named = ranks_text(ranks)
    return named if len(named) <= _MOST_NAMED else f"{len(ranks)} of {len(job.ranks)} ranks"


def _lacks(ranks: Sequence[int]) -> str:
    return f"{_verb(ranks, 'doesn', 'don')}'t compile it"


def _logs_end(ranks: Sequence[int]) -> str:
    return _verb(ranks, f"the log of {ranks_text(ranks)} ends early", f"the logs of {ranks_text(ranks)} end early")


def _verb(things: Sequence[object], one: str, several: str) -> str:
    return one if len(things) == 1 else several


def _all_of(count: int) -> str:
    return "both" if count == 2 else f"all {count}"


def _span(low: object, high: object) -> str:
    return str(low) if low == high else f"{low}–{high}"


def _collective(name: str) -> str:
    return name.removeprefix("torch.ops.").removeprefix("_c10d_functional.").removesuffix(".default").rstrip("_")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
