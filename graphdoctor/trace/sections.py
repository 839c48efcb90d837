"""Reads logs process by process, and each process from one reset of Dynamo to the next; only what
is asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self, TypeVar

from graphdoctor.probe.wire import ARTIFACT_PREFIX
from graphdoctor.trace.grammar import LogDamage, Record, read_records
from graphdoctor.trace.intake import Intake
from graphdoctor.trace.logs import ProcessLogs, name_processes
from graphdoctor.trace.storage import LogFile


@dataclass
class Text:
    """The text of a record; None once it was let go of."""

    text: str | None


class Details:
    """Keeps the texts of some compiles."""

    def __init__(self, compile_ids: Iterable[str], *, most_bytes: int | None) -> None:
        # A section of a log doesn't know the prefix that its ids will get.
        self._places = {
            unprefixed(compile_id): place for place, compile_id in enumerate(compile_ids)
        }
        self._most_bytes = most_bytes
        self._held: dict[str, list[Text]] = {}
        self._sizes: dict[str, int] = {}

    def keeps(self, compile_id: str | None) -> bool:
        """Return whether texts of a compile are kept."""
        return compile_id is not None and unprefixed(compile_id) in self._places

    def hold(self, compile_id: str | None, text: Text) -> None:
        """Keep a text of a compile that is kept, and let go of others if these are too many."""
        if compile_id is None or text.text is None:
            return
        self._held.setdefault(compile_id, []).append(text)
        self._sizes[compile_id] = self._sizes.get(compile_id, 0) + len(text.text)
        while (
            self._most_bytes is not None
            and sum(self._sizes.values()) > self._most_bytes
            and len(self._sizes) > 1
        ):
            last = max(self._sizes, key=self._places.__getitem__)
            for held in self._held.pop(last):
                held.text = None
            del self._sizes[last], self._places[last]


class Collector:
    """Takes the records of one process until a reset of Dynamo, in the order of the log."""

    KINDS: ClassVar[frozenset[str]]

    def __init__(self, details: Details | None = None) -> None:
        self._details = details
        self._clear()

    def _clear(self) -> None:
        """Hold nothing."""
        raise NotImplementedError

    def add(self, record: Record) -> None:
        """Take the next record, one of ``KINDS``."""
        raise NotImplementedError

    def after_reset(self) -> Self:
        """Return the section that takes the records of the same process from here on, when compile
        ids count from 0 again.
        """
        later = copy(self)
        later._clear()
        return later

    def _keeps(self, compile_id: str | None) -> bool:
        return self._details is None or self._details.keeps(compile_id)


def unprefixed(compile_id: str) -> str:
    """A compile id as in the log, without the names of processes and resets."""
    return compile_id.rpartition(":")[2]


_Collector = TypeVar("_Collector", bound=Collector)


@dataclass
class Section:
    """Records of one process until a reset of Dynamo or its end."""

    intake: Intake
    collectors: tuple[Collector, ...] = ()

    @property
    def kinds(self) -> frozenset[str]:
        """Records of which kinds are taken."""
        return Intake.KINDS.union(*(collector.KINDS for collector in self.collectors))

    def add(self, record: Record) -> None:
        """Take the next record."""
        self.intake.add(record)
        for collector in self.collectors:
            if record.kind in collector.KINDS:
                collector.add(record)

    def collector(self, kind: type[_Collector]) -> _Collector:
        """The collector of a kind, which must have been wanted."""
        return next(collector for collector in self.collectors if isinstance(collector, kind))

    def after_reset(self) -> Section:
        """The next section of the same process."""
        return Section(
            self.intake.after_reset(),
            tuple(collector.after_reset() for collector in self.collectors),
        )


@dataclass
class ProcessSections:
    """The sections of one process."""

    process: ProcessLogs
    sections: list[Section]
    is_ours: bool = False
    is_cut: bool = False
    first: str = ""
    last: str = ""

    @property
    def has_compiled(self) -> bool:
        """Return whether anything was compiled or broke."""
        return any(section.intake.compiles or section.intake.breaks for section in self.sections)

    def takes(self, record: Record) -> bool:
        """Take the next record; returns False if it is damaged, or if this torch writes it
        differently.
        """
        self.is_ours |= record.kind.startswith(ARTIFACT_PREFIX)
        self.first = self.first or record.stamp
        self.last = record.stamp
        begun = self.sections[-1].intake.compiles.get(record.compile_id or "")
        if record.kind == "dynamo_start" and begun is not None and begun.is_started:
            # The same id begins again after a ``torch._dynamo.reset()``.
            self.sections.append(self.sections[-1].after_reset())
        try:
            self.sections[-1].add(record)
        except (ValueError, TypeError, LookupError, AttributeError):
            return False
        return True


@dataclass
class LogContents:
    """Contents of a recording's logs."""

    processes: list[ProcessSections] = field(default_factory=list)
    damage: LogDamage = field(default_factory=LogDamage)
    unreadable: Counter[str] = field(default_factory=Counter)

    def named(self, main_pid: int | None) -> Iterator[tuple[str | None, ProcessSections]]:
        """The processes with their names, without those that compiled nothing, such as data loader
        workers.
        """
        kept = [
            taken
            for taken in self.processes
            if taken.has_compiled or taken.process.pid == main_pid is not None
        ]
        kept = kept or self.processes[:1]
        yield from zip(name_processes(taken.process for taken in kept), kept, strict=True)


@dataclass(frozen=True)
class Wanted:
    """Data to read beside that of every recording."""

    guards: bool = False
    picture: bool = False
    details: Details | None = None
    marks: bool = False
    texts_of: frozenset[str] = frozenset()


@dataclass(eq=False)
class Lane:
    """The records of one process in a log."""

    pid: int | None
    rank: int | None
    is_begun: bool = False
    has_strings: bool = False


class Lanes:
    """Tells which process wrote each record of one log, in the order of the log.

    Records from before a process joins its group, and definitions of strings, have no rank: they go
    with the records around them. Processes of several machines can have one process id; where
    strings are numbered from 0 again, another one begins.
    """

    def __init__(self, lanes: Iterable[Lane]) -> None:
        self._lanes = list(lanes)
        self._current: dict[int, Lane] = {}

    def of(self, record: Record) -> Lane:
        """The lane of the next record."""
        pid = int(record.stamp.rpartition(" ")[2])
        lane = self._current.get(pid) or self._begun(pid)
        if record.kind == "str":
            if lane.rank is not None and lane.has_strings and is_first_string(record):
                lane = self._begun(pid)
            lane.has_strings = True
        rank = record.metadata.get("rank")
        if isinstance(rank, int) and rank != lane.rank:
            lane = self._ranked(lane, pid, rank)
        self._current[pid] = lane
        return lane

    def _begun(self, pid: int) -> Lane:
        for lane in self._lanes:
            if not lane.is_begun and lane.pid in (pid, None):
                lane.is_begun = True
                return lane
        self._lanes.append(Lane(pid, None, is_begun=True))
        return self._lanes[-1]

    def _ranked(self, lane: Lane, pid: int, rank: int) -> Lane:
        ranked = next((lane for lane in self._lanes if (lane.pid, lane.rank) == (pid, rank)), None)
        if ranked is None:
            ranked = lane if lane.rank is None else self._begun(pid)
            ranked.rank = rank
        ranked.is_begun = True
        return ranked


def is_first_string(record: Record) -> bool:
    """Return whether a record defines the string numbered 0, which a process does before all
    others.
    """
    return record.kind == "str" and isinstance(record.value, list) and record.value[-1:] == [0]


def read_logs(processes: Iterable[ProcessLogs], new_section: Callable[[], Section]) -> LogContents:
    """Read all logs, each once."""
    contents = LogContents([ProcessSections(process, [new_section()]) for process in processes])
    for taken in contents.processes[:]:
        for log in taken.process.logs:
            _read_log(log, taken, contents, new_section)
    return contents


def _read_log(
    log: LogFile, first: ProcessSections, contents: LogContents, new_section: Callable[[], Section]
) -> None:
    by_lane = {Lane(first.process.pid, None): first}
    contents.damage.is_last_broken = False
    lanes = Lanes(by_lane)
    begun = set[Lane]()
    taken = first
    wants = first.sections[0].kinds.__contains__
    with log.open() as lines:
        for record in read_records(lines, wants, contents.damage):
            lane = lanes.of(record)
            if lane not in by_lane:
                process = ProcessLogs((log,), lane.pid, lane.rank)
                by_lane[lane] = new = ProcessSections(process, [new_section()])
                contents.processes.append(new)
            if lane not in begun and begun and not is_first_string(record):
                # A forked process goes on with the strings of its parent.
                parent = taken.sections[-1].intake
                by_lane[lane].sections[0].intake.inherited = parent.inherited | parent.strings
            begun.add(lane)
            taken = by_lane[lane]
            if lane.rank not in (None, taken.process.rank):
                taken.process = replace(taken.process, rank=lane.rank)
            if not taken.takes(record):
                contents.unreadable[record.kind] += 1
    taken.is_cut |= contents.damage.is_last_broken or log.name in contents.damage.cut_logs
