"""Why a second start doesn't find what the first left on disk."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from graphdoctor.facts.profile import CacheKeyChange
from graphdoctor.trace.cache_keys import key_changes

GRAPH = "[{hash}] gm: GraphModule()\n\ndef forward(self, x):\n    mul = x * {scale};  x = None\n    return (mul,)"


def start(folder: Path, *asked: tuple[str, str, list[str]]) -> Path:
    """A recording in which compiles ask the cache: compile id, what it said, parts of the key."""
    trace = folder / "trace"
    trace.mkdir(parents=True)
    lines = []
    for compile_id, state, parts in asked:
        frame, count = map(int, compile_id.split("/"))
        payload = json.dumps({"key": "f0", "components": parts, "cache_state": state}, indent=1)
        metadata = {
            "artifact": {"name": f"fx_graph_cache_{state}", "encoding": "json"},
            "frame_id": frame,
            "frame_compile_id": count,
            "has_payload": hashlib.md5(payload.encode(), usedforsecurity=False).hexdigest(),
        }
        lines.append(f"V1122 18:00:00.000000 1 torch/_inductor/compile_fx.py:1] {json.dumps(metadata)}")
        lines += [f"\t{line}" for line in payload.splitlines()]
    (trace / "dedicated_log_torch_trace_1.log").write_text("\n".join(lines) + "\n")
    return folder


def graph(scale: float) -> str:
    return GRAPH.format(hash=f"h{int(scale * 10)}", scale=scale)


def test_the_line_of_the_graph_that_differs(tmp_path):
    first = start(tmp_path / "a", ("0/0", "miss", [graph(0.5), "[x] inductor_config[debug]: False"]))
    second = start(tmp_path / "b", ("0/0", "miss", [graph(0.7), "[x] inductor_config[debug]: False"]))
    (change,) = key_changes(first, second)
    assert change == CacheKeyChange(
        compile_id="0/0", part="graph", before="mul = x * 0.5;  x = None", after="mul = x * 0.7;  x = None"
    )


def test_other_parts_have_torchs_names(tmp_path):
    first = start(tmp_path / "a", ("0/0", "miss", [graph(0.5), "[x] inductor_config[debug]: False", "[u] state: f"]))
    second = start(tmp_path / "b", ("0/0", "miss", [graph(0.5), "[y] inductor_config[debug]: True", "[v] state: f"]))
    assert key_changes(first, second) == (
        CacheKeyChange(compile_id="0/0", part="inductor_config[debug]", before="False", after="True"),
        # Its hash differs, and its text doesn't say how.
        CacheKeyChange(compile_id="0/0", part="state", before=None, after=None),
    )


def test_what_is_found_and_what_was_not_asked_before_has_no_reason(tmp_path):
    first = start(tmp_path / "a", ("0/0", "miss", [graph(0.5)]), ("0/0", "miss", [graph(0.1)]))
    asked = [("0/0", "hit", [graph(0.7)]), ("0/0", "miss", [graph(0.2)]), ("1/0", "miss", [graph(0.3)])]
    (change,) = key_changes(first, start(tmp_path / "b", *asked))
    assert (change.compile_id, change.after) == ("0/0", "mul = x * 0.2;  x = None")
