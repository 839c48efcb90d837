"""Takes in the logs of a recording: process by process, and within a process from one reset of Dynamo to the next.

Comes in: the logs of each process. Goes out: a ``Section`` for each stretch in which compile ids are distinct, holding
what was taken in, and counts of what couldn't be read. Guards and the picture, which can be most of a log, are taken in
only when asked for, and their modules are imported only then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from graphdoctor.model.recording import Environment
from graphdoctor.probe.wire import ARTIFACT_PREFIX
from graphdoctor.trace.grammar import LogDamage, Record, read_records
from graphdoctor.trace.intake import Intake
from graphdoctor.trace.processes import ProcessLogs, name_processes

if TYPE_CHECKING:
    from graphdoctor.trace.guards.tree import GuardTrees
    from graphdoctor.trace.picture import PictureIntake


@dataclass
class Section:
    """What one process did up to a reset of Dynamo, or to its end.

    Args:
        intake: Takes what every recording needs.
        guards: Takes the guard trees; None when not asked for.
        picture: Takes what the picture needs beside the recording; None when not asked for.
    """

    intake: Intake
    guards: GuardTrees | None = None
    picture: PictureIntake | None = None

    def wants(self, kind: str) -> bool:
        """Whether a kind of record matters here."""
        return (
            self.intake.wants(kind)
            or (self.guards is not None and kind in self.guards.KINDS)
            or (self.picture is not None and kind in self.picture.KINDS)
        )

    def add(self, record: Record) -> None:
        """Take the next record."""
        self.intake.add(record)
        if self.guards is not None and record.kind in self.guards.KINDS:
            self.guards.add(record)
        if self.picture is not None and record.kind in self.picture.KINDS:
            self.picture.add(record, self.intake.call_index, is_extra=self.intake.is_extra(record))

    def is_reset_by(self, record: Record) -> bool:
        """A compile begins whose id there is already: it comes after a ``torch._dynamo.reset()``."""
        return record.kind == "dynamo_start" and self.intake.has_started(record.compile_id)

    def after_reset(self) -> Section:
        """What takes the records of the same process from here on, when its compile ids count from 0 again."""
        return Section(
            self.intake.after_reset(),
            None if self.guards is None else type(self.guards)(),
            None if self.picture is None else self.picture.after_reset(),
        )


@dataclass
class ProcessSections:
    """What the logs of one process hold.

    Args:
        process: The process.
        sections: One, and one more for each reset of Dynamo.
        is_ours: There are records of ours among torch's.
        is_cut: A log ends in the middle of a record.
    """

    process: ProcessLogs
    sections: list[Section]
    is_ours: bool = False
    is_cut: bool = False

    @property
    def has_compiled(self) -> bool:
        """Something was compiled or broke."""
        return any(section.intake.compiles or section.intake.breaks for section in self.sections)


@dataclass
class TakenIn:
    """What the logs of a recording hold.

    Args:
        processes: The main process first.
        damage: What couldn't be read of the lines, and how many records of each kind there are.
        unreadable: How many records of each kind hold something unexpected.
    """

    processes: list[ProcessSections] = field(default_factory=list)
    damage: LogDamage = field(default_factory=LogDamage)
    unreadable: dict[str, int] = field(default_factory=dict)

    def named(self, main_pid: int | None) -> Iterator[tuple[str | None, ProcessSections]]:
        """The processes that matter, with their names.

        Data loader workers and the like import the program and compile nothing: they are left out.

        Args:
            main_pid: Process id of the main process, or None when unknown.
        """
        kept = [taken for taken in self.processes if taken.has_compiled or taken.process.pid == main_pid is not None]
        kept = kept or self.processes[:1]
        yield from zip(name_processes(taken.process for taken in kept), kept, strict=True)


def first_section(environment: Environment, *, has_guards: bool, has_picture: bool) -> Section:
    """What takes the first records of a process.

    Args:
        environment: Where the recording was made.
        has_guards: Take in the guard trees.
        has_picture: Take in what the picture needs.
    """
    section = Section(Intake(environment))
    if has_guards:
        from graphdoctor.trace.guards.tree import GuardTrees

        section.guards = GuardTrees()
    if has_picture:
        from graphdoctor.trace.picture import PictureIntake

        section.picture = PictureIntake()
    return section


def take_in(processes: Iterable[ProcessLogs], new_section: Callable[[], Section]) -> TakenIn:
    """Read all logs, each once.

    Args:
        processes: The main one first.
        new_section: Makes the first section of a process.
    """
    taken_in = TakenIn()
    for process in processes:
        taken_in.processes.append(_take_in(process, new_section(), taken_in))
    return taken_in


def _take_in(process: ProcessLogs, first: Section, into: TakenIn) -> ProcessSections:
    taken = ProcessSections(process, [first])
    for log in process.logs:
        into.damage.is_last_broken = False
        with log.open("rb") as lines:
            for record in read_records(lines, first.wants, into.damage):
                taken.is_ours |= record.kind.startswith(ARTIFACT_PREFIX)
                if taken.sections[-1].is_reset_by(record):
                    taken.sections.append(taken.sections[-1].after_reset())
                try:
                    taken.sections[-1].add(record)
                except (ValueError, TypeError, LookupError, AttributeError):
                    # Damaged, or of a torch that writes it otherwise.
                    into.unreadable[record.kind] = into.unreadable.get(record.kind, 0) + 1
        taken.is_cut |= into.damage.is_last_broken
    return taken
