"""A log that is cut and read in parts gives what it gives in one piece, wherever it is cut."""

import hashlib
from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphdoctor.executors.executor import Failure
from graphdoctor.executors.local import Local
from graphdoctor.facts.recording import Environment
from graphdoctor.trace import grammar
from graphdoctor.trace.grammar import LogDamage, read_chunk, records_of
from graphdoctor.trace.intake import Intake
from graphdoctor.trace.reader import _collectors
from graphdoctor.trace.sections import Section, Wanted
from graphdoctor.trace.storage import local_log
from tests.conftest import RECORDED_LOGS

LOGS = sorted(RECORDED_LOGS.glob("*/*/**/*.log"))
KINDS = Section(
    Intake(Environment()), tuple(_collectors(Wanted(guards=True, picture=True, marks=True)))
).kinds


class Here:
    """Reads parts in this process, of each few the last one first."""

    jobs = 2
    elsewhere = None

    def run(self, work, pieces, *, ahead):
        for first in range(0, len(pieces), ahead):
            for index in reversed(range(first, min(first + ahead, len(pieces)))):
                yield (index, work(pieces[index]))


def read(path, executor, *, kinds=KINDS):
    damage = LogDamage()
    return list(records_of(local_log(path), kinds, damage, executor)), damage


def facts(taken):
    """What can be compared: metrics without what is left out, and order too."""
    records, damage = taken
    for record in records:
        grammar._leave_out_dumps(record)
    return (
        records,
        {name.name: getattr(damage, name.name) for name in fields(damage)},
        list(damage.kinds.items()),
    )


@pytest.fixture
def cut(monkeypatch):
    monkeypatch.setattr(grammar, "_LEAST_BYTES", 0)


@pytest.mark.parametrize("log", LOGS, ids=lambda log: "/".join(log.parts[-4:-1]))
def test_a_real_log_gives_the_same_in_parts(log, cut, monkeypatch):
    whole = facts(read(log, Local(1)))
    for size in (500, 7_001):
        monkeypatch.setattr(grammar, "_CHUNK_BYTES", size)
        assert facts(read(log, Here())) == whole


HEADER = 'V1121 02:58:17.809000 77 torch/a.py:1] {"%s": {}, "frame_id": %d%s}\n'


def record(kind, number, payload, *, is_true=True):
    sum_ = hashlib.md5(payload or b"", usedforsecurity=False).hexdigest() if is_true else "0" * 32
    more = "" if payload is None else f', "has_payload": "{sum_}"'
    lines = (
        b"".join(b"\t%s\n" % line for line in (payload or b"").split(b"\n"))
        if payload is not None
        else b""
    )
    return (HEADER % (kind, number, more)).encode() + lines


pieces_of_logs = st.one_of(
    st.builds(
        record,
        st.sampled_from(
            ["dynamo_start", "dynamo_output_graph", "describe_tensor", "compilation_metrics"]
        ),
        st.integers(0, 3),
        st.none() | st.binary(max_size=30) | st.just(b'{"inductor_config": "x", "co_name": "f"}'),
        is_true=st.booleans(),
    ),
    st.sampled_from(
        [
            b"\n",
            b"\r\n",
            b"stray output\n",
            b"\tpayload without a header\n",
            b"V1121 02:58:17.809000 77 torch/a.py:1] {broken\n",
            b"V1121 02:58:17.809000 77 torch/a.py:1] {}\n",
            b'V1121 02:58:17.809000 77 torch/a.py:1] {"dynamo_start": {}}\r\n',
            b"\xff\xfe\n",
            b"\t\xff\n",
        ]
    ),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(pieces_of_logs, max_size=25), st.integers(0, 40), st.integers(1, 400))
def test_any_log_gives_the_same_wherever_it_is_cut(tmp_path_factory, parts, lost, size):
    content = b"".join(parts)
    path = tmp_path_factory.mktemp("cut") / "dedicated_log_torch_trace_a.log"
    path.write_bytes(content[: len(content) - lost] if lost < len(content) else content)
    whole = facts(read(path, Local(1)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grammar, "_LEAST_BYTES", 0)
        patch.setattr(grammar, "_CHUNK_BYTES", size)
        assert facts(read(path, Here())) == whole


def test_part_unreadable_for_a_process_is_read_here(cut, monkeypatch):
    monkeypatch.setattr(grammar, "_CHUNK_BYTES", 20_000)

    class Failing(Here):
        def run(self, work, pieces, *, ahead):
            for index, piece in enumerate(pieces):
                yield (
                    (index, Failure("ended", "killed")) if index % 2 else (index, read_chunk(piece))
                )

    assert facts(read(LOGS[0], Failing())) == facts(read(LOGS[0], Local(1)))
