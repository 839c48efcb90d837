"""The baseline file: what is written comes back, what changes is small, and a broken one is
named."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.check import BaselineEntry, BaselineRun
from graphdoctor.facts.counts import Coverage
from graphdoctor.facts.reading import plain
from graphdoctor.rules.gate.baseline import (
    Baseline,
    TargetFindings,
    entries_of,
    read_baseline,
    release,
    run_of,
    updated,
    write_baseline,
)
from tests.each import for_each
from tests.rules.gate.diagnoses import with_prints

WORDS = st.text(max_size=12)
ENTRIES = st.builds(
    BaselineEntry,
    fingerprint=st.text(string.hexdigits, min_size=1, max_size=16),
    code=st.sampled_from(["GD101", "GD203"]),
    file=WORDS,
    function=WORDS,
    text=st.none() | WORDS,
    package=st.none() | WORDS,
    count=st.integers(1, 9),
    break_effects=st.none() | st.just(("resumed", "frame_skipped")),
    skipped_frames=st.lists(WORDS, max_size=2).map(tuple),
    rest_eager_frames=st.lists(WORDS, max_size=2).map(tuple),
    message=WORDS,
)
RUNS = st.builds(
    BaselineRun,
    calls=st.integers(0, 9),
    graphs=st.integers(0, 9),
    graph_ops=st.none() | st.integers(0, 9),
    eager_ops=st.none() | st.integers(0, 9),
    eager_functions=st.lists(WORDS, max_size=2).map(tuple),
)
VERSIONS = st.from_regex(r"[2-3]\.[0-9]{1,2}\.[0-9]", fullmatch=True)
BASELINES = st.builds(
    Baseline,
    targets=st.dictionaries(
        WORDS, st.dictionaries(VERSIONS, st.lists(ENTRIES, max_size=4).map(tuple), max_size=3)
    ),
    runs=st.dictionaries(WORDS, st.dictionaries(VERSIONS, RUNS, max_size=3)),
)
RUN = run_of(with_prints())


def found(findings, run=RUN):
    return TargetFindings("2.13.0", findings, run)


@pytest.mark.slow
@settings(max_examples=60)
@given(BASELINES)
def test_what_is_written_comes_back_and_is_written_the_same(baseline):
    text = write_baseline(baseline)
    back = read_baseline(text.encode(), "b.json")
    read, known = (
        {
            name: {version: {*entries} for version, entries in versions.items()}
            for name, versions in each.targets.items()
        }
        for each in (back, baseline)
    )
    assert (read, back.runs) == (known, baseline.runs)
    assert write_baseline(back) == text


def test_it_has_no_line_number_and_survives_moves():
    def written(offset):
        findings = with_prints((5 + offset, "a"), (9 + offset, "b")).findings
        return write_baseline(updated(Baseline(), {"m": found(findings)}, configured=None).baseline)

    assert written(0) == written(40)
    entry = json.loads(written(0))["targets"]["m"]["2.13.0"][0]
    assert entry == {
        "fingerprint": entry["fingerprint"],
        "code": "GD101",
        "file": "model.py",
        "function": "Net.forward",
        "text": 'print("a")',
        "count": 1,
        "break_effects": ["resumed"],
        "message": entry["message"],
    }


def test_what_a_run_measured_is_in_it():
    coverage = Coverage(graph_ops=3, eager_ops=1)
    skips = with_prints((5, "a"), coverage=coverage)
    update = updated(Baseline(), {"m": found(skips.findings, run_of(skips))}, configured=None)
    measured = {"calls": 1, "graphs": 1, "graph_ops": 3, "eager_ops": 1}
    assert json.loads(write_baseline(update.baseline))["runs"] == {"m": {"2.13.0": measured}}


FIRST_VERSION = ("fingerprint", "code", "file", "function", "text", "count", "message")
"""What an entry had in schema version 1.0."""


@for_each(
    "version, fields, more",
    [("1.0", FIRST_VERSION, {}), ("1.7", (*FIRST_VERSION, "break_effects"), {"owner": "ann"})],
)
def test_any_minor_version_is_read(version, fields, more):
    entry = plain(entries_of(with_prints((5, "a")).findings)[0])
    entry = {name: entry[name] for name in fields} | more
    targets = {"m": {"2.13.0": [entry]}}
    content = json.dumps({"graphdoctor_baseline": version, "targets": targets} | more)
    baseline = read_baseline(content.encode(), "b.json")
    (read,) = baseline.targets["m"]["2.13.0"]
    assert (read.code, read.break_effects) == ("GD101", ("resumed",) if more else None)
    assert baseline.run("m", "2.13.0") is None


def test_an_update_replaces_what_ran_and_leaves_the_rest():
    old, new = with_prints((5, "a"), (6, "b")).findings, with_prints((5, "b"), (6, "c")).findings
    before = Baseline(
        targets={
            "m": {"2.12.0": entries_of(old), "2.13.0": entries_of(old)},
            "other": {"2.13.0": entries_of(old)},
            "gone": {"2.13.0": ()},
        }
    )
    update = updated(before, {"m": found(new)}, configured=["m", "other"])
    targets = update.baseline.targets
    assert targets["m"]["2.12.0"] == before.targets["m"]["2.12.0"]
    assert [entry.text for entry in targets["m"]["2.13.0"]] == ['print("b")', 'print("c")']
    assert targets["other"] == before.targets["other"]
    assert [entry.text for entry in update.added["m"]] == ['print("c")']
    assert [entry.text for entry in update.dropped["m"]] == ['print("a")']
    assert (update.dropped_targets, "gone" in targets) == (("gone",), False)
    assert "gone" in updated(before, {"m": found(new)}, configured=None).baseline.targets


def test_kept_entry_keeps_its_words_and_updates_its_count():
    (finding,) = with_prints((5, "a")).findings
    before = Baseline(targets={"m": {"2.13.0": entries_of([finding])}})
    again = finding.replace(message="took 3.21 s", count=7)
    (entry,) = updated(before, {"m": found([again])}, configured=None).baseline.targets["m"][
        "2.13.0"
    ]
    assert (entry.message, entry.count) == (finding.message, 7)


@for_each(
    "torch, chosen",
    [("2.13.0", "2.13.0"), ("2.14.1", "2.13.0"), ("2.10.0", "2.9.0"), ("2.8.0", "2.9.0")],
)
def test_the_nearest_release_is_compared(torch, chosen):
    baseline = Baseline(targets={"m": {"2.13.0": (), "2.9.0": ()}})
    found = baseline.entries("m", torch)
    assert found is not None
    assert found[0] == chosen
    assert baseline.entries("other", torch) is None


@for_each(
    "known, name, text, is_same",
    [
        ("gated.py", "gated", "gated.py", True),
        ("gated", "gated.py", "gated.py", True),
        ("./models/gated.py:Net", "net", "models.gated:Net", True),
        ("models\\gated.py:Net", "net", "models/gated.py:Net", True),
        ("gated.py:Net", "gated", "gated.py", False),
        ("other.py", "gated", "gated.py", False),
    ],
)
def test_a_target_is_known_by_its_module(known, name, text, is_same):
    measured = BaselineRun(calls=1, graphs=2)
    baseline = Baseline(targets={known: {"2.13.0": ()}}, runs={known: {"2.13.0": measured}})
    named = baseline.named({name: text})
    assert (named.entries(name, "2.13.0") is not None) == is_same
    assert named.run(name if is_same else known, "2.13.0") == measured


def test_a_target_of_its_own_name_keeps_what_it_has():
    """Two targets of one file, with other calls."""
    entries = entries_of(with_prints((5, "a")).findings)
    baseline = Baseline(targets={"once": {"2.13.0": ()}, "model.py": {"2.13.0": entries}})
    named = baseline.named({"once": "model.py", "often": "model.py"})
    assert named.targets == {"once": {"2.13.0": ()}, "often": {"2.13.0": entries}}
    configured = {"model.py": "model.py", "often": "model.py"}
    assert baseline.named(configured).targets == baseline.targets


@for_each(
    "version, expected",
    [("2.13.0+cpu", "2.13.0"), ("2.15.0.dev20260101+cu1", "2.15.0"), ("2.13.0a0+git1", "2.13.0")],
)
def test_a_release_has_no_build_tag(version, expected):
    assert release(version) == expected


@for_each(
    "content, message",
    [
        (
            '{"graphdoctor_baseline": "2.0", "targets": {}}',
            r"has schema version 2\.0; this graphdoctor reads 1\.x",
        ),
        (
            '{\n<<<<<<< HEAD\n"a": 1\n=======\n"a": 2\n>>>>>>> x\n}',
            "merge conflict markers, the first on line 2",
        ),
        ('{"graphdoctor_baseline": "1.0", "targets": {', "isn't valid JSON"),
        ('{"schema_version": "1.0"}', "isn't a baseline written by graphdoctor"),
        ('{"graphdoctor_baseline": "1.0"}', "isn't a valid baseline"),
        (
            '{"graphdoctor_baseline": "1.0", "targets": {"m": {"2.13.0": [{"code": "GD101"}]}}}',
            r"isn't a valid baseline \(schema version 1\.0\): targets\.m\.2\.13\.0\.0\.fingerprint: Field required",
        ),
        (
            '{"graphdoctor_baseline": "1.1", "targets": {}, "runs": {"m": {"2.13.0": {"calls": 1}}}}',
            "graphs: Field required",
        ),
    ],
)
def test_a_file_that_is_no_baseline_is_named(content, message):
    with pytest.raises(GraphDoctorError, match=message) as caught:
        read_baseline(content.encode(), "b.json")
    assert caught.value.message.startswith("b.json ")
    assert caught.value.hint
