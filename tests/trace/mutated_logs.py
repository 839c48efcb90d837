"""Trace logs with odd values, lost, doubled and cut records: made from real ones, for
hypothesis."""

from __future__ import annotations

import copy
import json
import re
from dataclasses import dataclass, replace
from functools import cache
from io import StringIO
from typing import Any

from hypothesis import strategies as st
from rich.console import Console

from graphdoctor.errors import GraphDoctorError
from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.diagnosis.diagnose import diagnose
from graphdoctor.trace.reader import read_recording
from graphdoctor.views.guards import guards_view
from graphdoctor.views.json import json_text
from graphdoctor.views.report import report_view
from graphdoctor.views.terminal import write_view
from tests.recorded import log_content

NAMES = (
    "2.13.0/refused.bare",
    "2.13.0/exported.bare",
    "2.13.0/lowered.bare",
    "2.13.0/lowered_sizes.bare",
    "2.13.0/lowered_export.bare",
    "2.13.0/break_in_try.bare",
    "2.15.0/break_in_try",
)
_RECORD = re.compile(r"(?m)^(?=[VDIWEC]\d{4} )")
_HEADER = re.compile(r"([VDIWEC]\d{4} [\d:.]+) (\d+) ([^\]]*\]) (\{.*)")
_NUMBERS = (-1, 0, 0.5, 1e30, -1e30, 2**63, 2**80)
_TEXTS = ("", "0", "nan", "\u202e\x1b[31m", "x" * 5000)
_ODD = (None, True, [], [None], [[]], {}, {"": None}, *_NUMBERS, *_TEXTS)
_ODD_LINES = ("", "|", "+- ", "| | +- X: ", '  File "x", line 99999999999999999999, in ', "[", "\0")


@dataclass(frozen=True)
class LogRecord:
    """A record of a log: its header's parts, and its payload without the tabs."""

    stamp: str
    pid: str
    place: str
    value: dict[str, Any]
    payload: tuple[str, ...]

    @property
    def text(self):
        """As torch would write it."""
        header = f"{self.stamp} {self.pid} {self.place} {json.dumps(self.value)}\n"
        return header + "".join(f"\t{line}\n" for line in self.payload)


@cache
def records_of(name):
    """The records of one of the recordings, without those of kinds that nobody reads."""
    records = []
    for text in _RECORD.split(log_content(name).decode())[1:]:
        first, *payload = text.splitlines()
        header = _HEADER.fullmatch(first)
        assert header is not None
        value = json.loads(header[4])
        # A payload that differs from its sum is told by itself.
        value.pop("has_payload", None)
        records.append(
            LogRecord(header[1], header[2], header[3], value, tuple(line[1:] for line in payload))
        )
    return tuple(records)


def _paths(value, above=()):
    """The place of each value in a JSON value."""
    pairs = enumerate(value) if isinstance(value, list) else ()
    items = value.items() if isinstance(value, dict) else pairs
    return [place for key, item in items for place in ((*above, key), *_paths(item, (*above, key)))]


def _odd_value(draw, value):
    """The value with one in it replaced or left out."""
    places = _paths(value)
    if not places:
        return draw(st.sampled_from(_ODD))
    changed = copy.deepcopy(value)
    *above, last = draw(st.sampled_from(places))
    within = changed
    for key in above:
        within = within[key]
    if draw(st.integers(0, 5)) == 0:
        del within[last]
    else:
        within[last] = draw(st.sampled_from(_ODD))
    return changed


def _odd_payload(draw, payload):
    try:
        value = json.loads("\n".join(payload))
    except json.JSONDecodeError:
        value = None
    if isinstance(value, dict | list) and draw(st.integers(0, 3)):
        return tuple(json.dumps(_odd_value(draw, value), indent=0).splitlines())
    at = draw(st.integers(0, len(payload)))
    other = draw(st.sampled_from((*_ODD_LINES, *payload)))
    match draw(st.integers(0, 2)):
        case 0:
            return (*payload[:at], other, *payload[at:])
        case 1:
            return (*payload[:at], *payload[at + 1 :])
        case _:
            return payload[:at]


def _mutated(draw, records):
    at = draw(st.integers(0, len(records) - 1))
    record = records[at]
    match draw(st.integers(0, 9)):
        case 0:
            instead = []
        case 1:
            instead = [record, record]
        case 2:
            return records[at:]
        case 3:
            instead = [replace(record, pid=draw(st.sampled_from(("1", "7", "0"))))]
        case 4 | 5 | 6:
            instead = [replace(record, value=_odd_value(draw, record.value))]
        case _ if record.payload:
            instead = [replace(record, payload=_odd_payload(draw, record.payload))]
        case _:
            return records
    return [*records[:at], *instead, *records[at + 1 :]]


@st.composite
def mutated_logs(draw):
    """A log with up to three mistakes in it."""
    records = list(records_of(draw(st.sampled_from(NAMES))))
    for _ in range(draw(st.integers(1, 3))):
        if records:
            records = _mutated(draw, records)
    return "".join(record.text for record in records).encode("utf-8", "surrogatepass")


def read_and_show(log, file):
    """Read a log with all that can be read of it, and show it; only a file without a record may be
    refused.

    Args:
        log: Its content.
        file: Where to write it.
    """
    file.write_bytes(log)
    try:
        recording = read_recording(file, guards=True, picture=True)
    except GraphDoctorError as error:
        assert "isn't a torch trace log" in str(error)
        return
    diagnosis = diagnose(recording, RULES, root=file.parent, version="0")
    console = Console(file=StringIO(), width=80)
    write_view(report_view(diagnosis), console)
    write_view(guards_view(diagnosis), console)
    json_text(diagnosis)
