"""The guards read from a log are those of torch's live guard trees."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from graphdoctor.trace.guards.forms import meaning_of
from graphdoctor.trace.guards.text import take_apart
from graphdoctor.trace.reader import read_recording
from tests.conftest import clean_environment, run_script
from tests.sections import written

HERE = Path(__file__).resolve().parent
PROGRAMS = ("recompiles", "sequential_root", "item", "helper_in_loop")
MODELS = ("gpt2", "bert")


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS + MODELS)
def test_guards_of_the_log_are_those_of_the_live_tree(name: str, tmp_path: Path) -> None:
    if name in MODELS:
        pytest.importorskip("transformers")
    texts = HERE / ("models.txt" if name in MODELS else "programs.txt")
    done = run_script(
        HERE / "live_guards.py",
        written(texts, name, tmp_path),
        cwd=tmp_path,
        env=clean_environment(TORCH_TRACE=str(tmp_path / "trace")),
    )
    live = json.loads(done.stdout.splitlines()[-1])
    recording = read_recording(tmp_path / "trace", guards=True)
    assert recording.guards is not None
    sets = {found.compile_id: found for found in recording.guards.sets}
    assert live
    assert set(live) <= set(sets)
    for compile_id, guards in live.items():
        found = sets[compile_id]
        parsed = [take_apart(text) for text, _ in guards]
        # In one order or another: the tree of a dict is printed by its keys' positions.
        assert Counter((node.kind, node.guard) for node in found.nodes) == Counter(
            (meaning_of(item).kind, item.expression) for item in parsed
        )
        assert found.guard_count == len(guards)
        assert Counter(node.source for node in found.nodes) == Counter(
            meaning_of(item).source or source
            for item, (_, source) in zip(parsed, guards, strict=True)
        )
        assert found.unread_lines == ()
    if name == "gpt2":
        nodes = [node for found in recording.guards.sets for node in found.nodes]
        assert all(
            node.location.file.startswith(("/", "<frozen "))
            for node in nodes
            if node.location is not None
        )
        # Of a real model, nearly all are put into words.
        without = [
            node for node in nodes if node.expected is None and node.kind != "OBJECT_ALIASING"
        ]
        assert len(without) <= 0.01 * len(nodes), Counter(
            (node.kind, node.guard) for node in without
        ).most_common(5)
