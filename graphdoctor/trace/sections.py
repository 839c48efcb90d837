"""Reads the logs of a recording, process by process, and each process from one reset of Dynamo to the next.

Guards and the picture, which can be most of a log, are read only if asked for, and their modules imported only then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from graphdoctor.executors.executor import Executor
from graphdoctor.facts.recording import Environment
from graphdoctor.probe.wire import ARTIFACT_PREFIX
from graphdoctor.trace.beginning import Beginning, has_lost_event
from graphdoctor.trace.chunks import records_of
from graphdoctor.trace.grammar import LogDamage, Record
from graphdoctor.trace.intake import Intake
from graphdoctor.trace.processes import ProcessLogs, name_processes
from graphdoctor.trace.storage.log_file import LogFile
from graphdoctor.trace.writers import Lane, Lanes, is_first_string

if TYPE_CHECKING:
    from graphdoctor.trace.details import Details
    from graphdoctor.trace.guards.tree import GuardTrees
    from graphdoctor.trace.marks import Marks
    from graphdoctor.trace.picture import PictureIntake


@dataclass
class Section:
    """What one process did until a reset of Dynamo or its end."""

    intake: Intake
    guards: GuardTrees | None = None
    picture: PictureIntake | None = None
    marks: Marks | None = None

    @property
    def kinds(self) -> frozenset[str]:
        """Records of which kinds are taken."""
        parts = (part.KINDS for part in (self.guards, self.picture, self.marks) if part is not None)
        return self.intake.kinds.union(*parts)

    def add(self, record: Record) -> None:
        """Take the next record."""
        self.intake.add(record)
        if self.guards is not None and record.kind in self.guards.KINDS:
            self.guards.add(record)
        if self.picture is not None and record.kind in self.picture.KINDS:
            self.picture.add(record, self.intake.call_index, is_extra=self.intake.is_extra(record))
        if self.marks is not None and record.kind in self.marks.KINDS:
            self.marks.add(record)

    def is_reset_by(self, record: Record) -> bool:
        """Whether a compile begins with an id that is taken, so that there was a ``torch._dynamo.reset()``."""
        return record.kind == "dynamo_start" and self.intake.has_started(record.compile_id)

    def after_reset(self) -> Section:
        """The next section of the same process, in which compile ids count from 0 again."""
        return Section(
            self.intake.after_reset(),
            None if self.guards is None else self.guards.after_reset(),
            None if self.picture is None else self.picture.after_reset(),
            None if self.marks is None else self.marks.after_reset(),
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
    beginning: Beginning = field(default_factory=Beginning)

    @property
    def has_compiled(self) -> bool:
        """Whether anything was compiled or broke."""
        return any(section.intake.compiles or section.intake.breaks for section in self.sections)


@dataclass
class LogContents:
    """What was read of a recording's logs."""

    processes: list[ProcessSections] = field(default_factory=list)
    damage: LogDamage = field(default_factory=LogDamage)
    unreadable: dict[str, int] = field(default_factory=dict)

    def named(self, main_pid: int | None) -> Iterator[tuple[str | None, ProcessSections]]:
        """The processes with their names.

        Those that compiled nothing, such as data loader workers that import the program, are left out.
        """
        kept = [taken for taken in self.processes if taken.has_compiled or taken.process.pid == main_pid is not None]
        kept = kept or self.processes[:1]
        yield from zip(name_processes(taken.process for taken in kept), kept, strict=True)


@dataclass(frozen=True)
class Wanted:
    """What to read beside what every recording needs."""

    guards: bool = False
    picture: bool = False
    details: Details | None = None
    marks: bool = False
    texts_of: frozenset[str] = frozenset()

    def first_section(self, environment: Environment) -> Section:
        """The first section of a process."""
        section = Section(Intake(environment))
        if self.guards:
            from graphdoctor.trace.guards.tree import GuardTrees

            section.guards = GuardTrees()
        if self.picture:
            from graphdoctor.trace.picture import PictureIntake

            section.picture = PictureIntake(self.details)
        if self.marks:
            from graphdoctor.trace.marks import Marks

            section.marks = Marks(self.texts_of)
        return section


def read_logs(processes: Iterable[ProcessLogs], new_section: Callable[[], Section], executor: Executor) -> LogContents:
    """Read all logs, each once."""
    contents = LogContents([ProcessSections(process, [new_section()]) for process in processes])
    takers: dict[LogFile, list[ProcessSections]] = {}
    for taken in contents.processes:
        for log in taken.process.logs:
            takers.setdefault(log, []).append(taken)
    for log, of_log in takers.items():
        _read_log(log, _LogTakers(log, of_log, contents, new_section), contents, executor)
    return contents


class _LogTakers:
    def __init__(
        self,
        log: LogFile,
        takers: Sequence[ProcessSections],
        contents: LogContents,
        new_section: Callable[[], Section],
    ) -> None:
        self.first = takers[0]
        self._log = log
        self._contents = contents
        self._new_section = new_section
        self._by_lane: dict[Lane, ProcessSections | None] = {}
        for pid, rank in dict.fromkeys(pair for taken in takers for pair in taken.process.writers):
            fits = (taken for taken in takers if taken.process.pid == pid and rank in (None, taken.process.rank))
            self._by_lane[Lane(pid, rank)] = next(fits, None)
        if not self._by_lane:
            self._by_lane = {Lane(taken.process.pid, None): taken for taken in takers}
        self._is_whole = None not in self._by_lane.values()
        self._lanes = Lanes(self._by_lane)
        self._last: ProcessSections | None = None
        self._seen: set[Lane] = set()

    def of(self, record: Record) -> ProcessSections | None:
        """Who takes the next record; None if nobody does."""
        lane = self._lanes.of(record)
        if lane not in self._seen:
            self._begin(lane, record)
        taken = self._by_lane[lane]
        if taken is not None:
            self._last = taken
            if lane.rank not in (None, taken.process.rank):
                taken.process = replace(taken.process, rank=lane.rank)
        return taken

    def _begin(self, lane: Lane, record: Record) -> None:
        self._seen.add(lane)
        if lane not in self._by_lane:
            found = ProcessSections(ProcessLogs((self._log,), lane.pid, lane.rank), [self._new_section()])
            self._by_lane[lane] = found if self._is_whole else None
            if self._is_whole:
                self._contents.processes.append(found)
        taken = self._by_lane[lane]
        if taken is not None and self._last is not None and not is_first_string(record):
            # A forked process goes on with the strings of its parent.
            taken.sections[0].intake.begin_after(self._last.sections[-1].intake)
            taken.beginning.is_forked = True


def _read_log(log: LogFile, takers: _LogTakers, into: LogContents, executor: Executor) -> None:
    into.damage.is_last_broken = False
    taken: ProcessSections | None = takers.first
    takers.first.beginning.has_lost_event |= has_lost_event(log)
    for record in records_of(log, takers.first.sections[0].kinds, into.damage, executor):
        taken = takers.of(record)
        if taken is None:
            continue
        taken.is_ours |= record.kind.startswith(ARTIFACT_PREFIX)
        taken.first, taken.last = taken.first or record.stamp, record.stamp
        if taken.sections[-1].is_reset_by(record):
            taken.sections.append(taken.sections[-1].after_reset())
        try:
            if record.kind in Beginning.KINDS:
                taken.beginning.add(record)
            taken.sections[-1].add(record)
        except (ValueError, TypeError, LookupError, AttributeError):
            # The record is damaged, or this torch writes it differently.
            into.unreadable[record.kind] = into.unreadable.get(record.kind, 0) + 1
    if taken is not None:
        taken.is_cut |= into.damage.is_last_broken or log.name in into.damage.cut_logs
