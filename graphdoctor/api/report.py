"""The report on a recording: as text, as a file, or in a notebook cell."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import weakref
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from graphdoctor.facts.diagnosis import Diagnosis, Result
from graphdoctor.rules.diagnosed import Needs, diagnose_recording
from graphdoctor.views.formats import DIAGNOSIS, Format, RenderOptions, write_file
from graphdoctor.views.printable import printable
from graphdoctor.views.report import count_texts, report_view
from graphdoctor.views.words import nothing_compiled, verdict

_MOST_IN_A_CELL = 30_000
"""Bytes of a report in a notebook, which keeps the output of each cell."""


class TemporaryFolder:
    """A recording's folder, removed with this object, or when the process ends."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="graphdoctor-"))
        self.remove = weakref.finalize(self, _remove, self.path, os.getpid())


def _remove(path: Path, pid: int) -> None:
    # A forked process has a copy of the object but doesn't own the folder.
    if os.getpid() == pid:
        shutil.rmtree(path, ignore_errors=True)


class Report:
    """What torch.compile did, and what it means.

    A notebook displays it as HTML. The recording is in a temporary folder that is removed with the
    report.

    Args:
        folder: The recording.
        has_guards: Include the guards in the diagnosis.
    """

    def __init__(self, folder: TemporaryFolder, *, has_guards: bool = False) -> None:
        self._folder = folder
        self._root = Path.cwd()
        self._diagnosis = self._read(Needs(guards=has_guards)).diagnosis

    @property
    def diagnosis(self) -> Diagnosis:
        """The findings, counts and facts, as in the JSON document (``graphdoctor schema``)."""
        return self._diagnosis

    @property
    def traceback(self) -> str | None:
        """The program's own traceback if a call, or the block, failed; otherwise None."""
        return self._diagnosis.recording.exit.traceback

    def show(self, *, verbose: bool = False) -> None:
        """Print the report as ``graphdoctor explain`` does.

        Args:
            verbose: Include each graph's operations and code, torch's full messages and every hint.
        """
        from rich.console import Console

        from graphdoctor.views.terminal import write_view

        # Plain text in a notebook too: rich would print HTML there.
        write_view(
            report_view(self._diagnosis),
            Console(file=sys.stdout, force_jupyter=False),
            is_verbose=verbose,
        )

    def save(self, path: str | Path, *, format: str | None = None) -> None:
        """Write the report to a file, replacing an existing one.

        Args:
            path: The file. Its extension sets the format, such as ``.html``, ``.json`` or ``.txt``.
            format: The format's name as for ``graphdoctor explain --format``; None to go by the
                extension.

        Raises:
            GraphDoctorError: The format or the extension is unknown, or the file can't be written.
        """
        path = Path(path)
        write_file(
            self._rendered(DIAGNOSIS.of_path(path) if format is None else DIAGNOSIS.named(format)),
            path,
        )

    def __str__(self) -> str:
        """The verdict in a line or two; ``show`` prints the whole report."""
        diagnosis = self._diagnosis
        lines = [f"{self._name}: {verdict(diagnosis)[0]}"]
        if nothing_compiled(diagnosis) is None:
            lines.append(self._counts)
        if diagnosis.recording.exit.message is not None:
            lines.append(diagnosis.recording.exit.message)
        return "\n".join(map(printable, lines))

    def __repr__(self) -> str:
        return printable(f"<graphdoctor.Report of {self._name}: {self._counts}>")

    def _repr_html_(self) -> str:
        """Return the report for a notebook's cell; what comes last in a long one is left out."""
        from graphdoctor.views.html.document import render_view_cell

        return render_view_cell(report_view(self._diagnosis), most_bytes=_MOST_IN_A_CELL)

    @property
    def _name(self) -> str:
        return self._diagnosis.recording.target.text or "torch.compile"

    @property
    def _counts(self) -> str:
        return ", ".join(count_texts(self._diagnosis.summary, None))

    @cached_property
    def _with_picture(self) -> Result:
        return self._read(Needs(guards=True, picture=True))

    def _rendered(self, format: Format[Result]) -> str | bytes:
        result = self._with_picture if format.needs_picture else Result(self._diagnosis)
        return format.render(result, RenderOptions(root=self._root))

    def _read(self, needs: Needs) -> Result:
        result = diagnose_recording(self._folder.path, needs=needs, root=self._root)
        if not result.diagnosis.findings:
            return result
        # Imports libcst, which a process that is fine does without.
        from graphdoctor.fixes.options import with_declined

        return replace(
            result, diagnosis=with_declined(result.diagnosis, self._folder.path, self._root)
        )
