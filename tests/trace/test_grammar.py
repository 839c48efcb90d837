"""Lines of a log to records."""

import hashlib
import json

from hypothesis import given
from hypothesis import strategies as st

from graphdoctor.trace.grammar import LogDamage, read_records
from tests.each import for_each

PREFIX = "V1121 02:58:17.809000 4242 torch/_dynamo/convert_frame.py:303] "


def read(*lines, wants=lambda kind: True):
    damage = LogDamage()
    raw = [line.encode() if isinstance(line, str) else line for line in lines]
    return list(read_records(raw, wants, damage)), damage


def header(**value):
    return PREFIX + json.dumps(value)


def test_a_payload_loses_its_tabs_alone():
    (record,), damage = read(
        header(artifact={"name": "a"}, has_payload="x"), "\tone", "\t\ttwo", "\t", "\t three\n"
    )

    assert (record.kind, record.payload) == ("a", "one\n\ttwo\n\n three")
    assert damage == LogDamage(records=1)


@for_each(
    "context, compile_id",
    [
        ({}, None),
        ({"frame_id": 0, "frame_compile_id": 1}, "0/1"),
        ({"frame_id": 3, "frame_compile_id": 0, "attempt": 2}, "3/0"),
        ({"compiled_autograd_id": 0, "frame_id": 1, "frame_compile_id": 0}, "!0/1/0"),
        ({"compiled_autograd_id": 2}, "!2"),
        ({"frame_id": 1}, None),
    ],
)
def test_a_compile_id_is_spelt_as_torch_spells_it(context, compile_id):
    (record,), _ = read(header(dynamo_start={}, **context))

    assert record.compile_id == compile_id
    assert record.attempt == context.get("attempt")


def test_half_record_at_the_end_differs_from_the_middle():
    half = header(dynamo_start={"stack": []})[:-5]

    _, at_end = read(header(a={}), half)
    _, in_the_middle = read(half, header(a={}))

    assert (at_end.broken_records, at_end.is_last_broken) == (1, True)
    assert (in_the_middle.broken_records, in_the_middle.is_last_broken) == (1, False)


def test_malformed_payload_is_kept_and_reported():

    records, damage = read(
        header(a={}, has_payload=hashlib.md5(b"one").hexdigest()), "\ttwo", header(b={})
    )

    assert [record.payload for record in records] == ["two", None]
    assert damage == LogDamage(records=2, altered_payloads=1)


@for_each("line", ["hello", "V1121 nonsense", "W1121 05:41:57.97 1 a.py:1] warning", PREFIX])
def test_other_lines_are_passed_over(line):
    (record,), _ = read(header(a={}), "\tone", line, "", "\ttwo")

    assert record.payload == "one\ntwo"


@for_each("is_wanted", [True, False])
def test_records_are_counted_by_kind_with_their_payload(is_wanted):
    lines = [
        header(str=["/a.py", 1]) + "\n",
        header(artifact={"name": "mine"}, has_payload="x") + "\n",
        "\tone\n",
        "stray\n",
        "\ttwo\n",
        header(str=["/b.py", 2]) + "\n",
        PREFIX + "{broken\n",
        "\tlost\n",
    ]
    size = [len(line) for line in lines]

    _, damage = read(*lines, wants=lambda kind: is_wanted)

    assert damage.kinds == {"str": (2, size[0] + size[5]), "mine": (1, size[1] + size[2] + size[4])}


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=80), st.text(max_size=80).map(lambda t: (PREFIX + "{" + t).encode())
        )
    )
)
def test_nothing_raises_and_nothing_is_invented(lines):
    damage = LogDamage()

    assert len(list(read_records(lines, lambda kind: True, damage))) == damage.records <= len(lines)
    assert sum(count for count, _ in damage.kinds.values()) == damage.records
    assert sum(size for _, size in damage.kinds.values()) <= sum(map(len, lines))
