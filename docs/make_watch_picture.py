"""Draw the dashboard of the guide "Watch a run" from a real run.

    python docs/make_watch_picture.py

Runs docs/watched_training.py, takes the events that it wrote as JSON lines, and writes
docs/watch.svg.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from watched_training import STEPS

DOCS = Path(__file__).resolve().parent
WIDTH, HEIGHT = 1000, 560
LEFT, RIGHT = 60, 590
"""Where the charts begin and end; the events stand to the right of them."""
INK, FAINT, LINE = "#1c1917", "#57534e", "#e7e5e4"
COLORS = {"compile": "#7c2d12", "backward": "#a8a29e", "recompile": "#c2410c", "limit": "#1c1917"}
WORDS = {
    "compile": "compiled {}",
    "backward": "compiled the backward of {}",
    "recompile": "recompiled {}",
    "limit": "{} runs new values eagerly",
}

Event = dict[str, Any]


def main() -> None:
    """Run, draw, write."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "events.jsonl")
        # Compiled anew, as on a new machine.
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": folder}
        command = [sys.executable, str(DOCS / "watched_training.py"), str(path)]
        subprocess.run(command, env=environment, check=True)
        events = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    body = "\n".join([*tiles(events), *totals(events), *seconds(events), *listed(events)])
    (DOCS / "watch.svg").write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="13" fill="{INK}">\n'
        f"<title>torch.compile in a run of {STEPS} steps</title>\n"
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#fff"/>\n{body}\n</svg>\n',
        encoding="utf-8",
    )


def count(events: list[Event], *kinds: str) -> int:
    """Return the number of events of these kinds."""
    return sum(event["kind"] in kinds for event in events)


def at_step(step: float) -> float:
    """Return the place of a step in the charts."""
    return LEFT + (RIGHT - LEFT) * step / STEPS


def text(x: float, y: float, words: str, **attributes: object) -> str:
    """Return a text element."""
    written = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f'<text x="{x:.1f}" y="{y:.1f}"{written}>{escape(words)}</text>'


def tiles(events: list[Event]) -> Iterator[str]:
    """Draw the totals at the end."""
    shown = (
        (count(events, "compile", "recompile"), "compiles"),
        (count(events, "recompile"), "recompiles"),
        (f"{sum(event['seconds'] for event in events):.1f} s", "compiling"),
        (count(events, "limit"), "limit hits"),
    )
    for number, (value, name) in enumerate(shown):
        x = LEFT + number * (WIDTH - 2 * LEFT + 40) / len(shown)
        yield text(x, 52, str(value), **{"font-size": 32, "font-weight": 600})
        yield text(x, 74, name, fill=FAINT)


def axes(title: str, top: float, bottom: float, most: float, unit: str) -> Iterator[str]:
    """Draw what a chart stands on."""
    yield text(LEFT, top - 16, title, **{"font-weight": 600})
    for share in (0, 0.5, 1):
        y = bottom - share * (bottom - top)
        yield f'<path d="M{LEFT} {y:.1f}H{RIGHT}" stroke="{LINE}"/>'
        label = f"{most * share:g}{unit}"
        yield text(LEFT - 8, y + 4, label, fill=FAINT, **{"text-anchor": "end"})
    for step in range(0, STEPS + 1, 100):
        yield text(at_step(step), bottom + 18, str(step), fill=FAINT, **{"text-anchor": "middle"})


def totals(events: list[Event]) -> Iterator[str]:
    """Draw compiles and recompiles so far over steps."""
    top, bottom = 130, 300
    most = -(-count(events, "compile", "recompile") // 2) * 2
    yield from axes("Compiles so far", top, bottom, most, "")
    for kind, kinds in (("compile", ("compile", "recompile")), ("recompile", ("recompile",))):
        line, so_far = f"M{LEFT} {bottom}", 0
        for event in events:
            if event["kind"] in kinds:
                so_far += 1
                y = bottom - (bottom - top) * so_far / most
                line += f"H{at_step(event['step']):.1f}V{y:.1f}"
        yield f'<path d="{line}H{RIGHT}" fill="none" stroke="{COLORS[kind]}" stroke-width="2.5"/>'
        below = kind == "recompile"
        label = "recompiles" if below else "compiles"
        place = {"fill": COLORS[kind], "text-anchor": "end"}
        yield text(RIGHT, y + (18 if below else -8), label, **place)
    for event in events:
        if event["kind"] == "limit":
            x = at_step(event["step"])
            yield f'<path d="M{x:.1f} {top}V{bottom}" stroke="{INK}" stroke-dasharray="4 3"/>'
            yield text(x + 6, bottom - 8, "recompile limit")


def seconds(events: list[Event]) -> Iterator[str]:
    """Draw the seconds of each step that compiled."""
    top, bottom = 365, 515
    by_step: dict[int, float] = {}
    for event in events:
        by_step[event["step"]] = by_step.get(event["step"], 0) + event["seconds"]
    most = -(-max(by_step.values()) // 10) * 10
    yield from axes("Seconds of compiling at a step", top, bottom, most, " s")
    done: dict[int, float] = {}
    for event in events:
        height = (bottom - top) * event["seconds"] / most
        y = bottom - done.get(event["step"], 0) - height
        done[event["step"]] = bottom - y
        x = at_step(event["step"]) - (0 if event["step"] == 0 else 3)
        color = COLORS[event["kind"]]
        yield f'<rect x="{x:.1f}" y="{y:.1f}" width="6" height="{height:.1f}" fill="{color}"/>'
    yield text(RIGHT, bottom + 34, "step", fill=FAINT, **{"text-anchor": "end"})


def listed(events: list[Event]) -> Iterator[str]:
    """Write what happened, with the first cause of each event."""
    x = RIGHT + 40
    yield text(x, 114, "Events", **{"font-weight": 600})
    for number, event in enumerate(events):
        y = 140 + number * 40
        color = COLORS[event["kind"]]
        yield f'<rect x="{x}" y="{y - 11}" width="5" height="30" fill="{color}"/>'
        did = f"step {event['step']} · {WORDS[event['kind']].format(event['function'])}"
        if event["kind"] != "limit":
            did += f" · {event['seconds']:.1f} s"
        yield text(x + 14, y, did)
        why = event["causes"][0] if event["causes"] else "first step"
        yield text(x + 14, y + 17, why, fill=FAINT)


if __name__ == "__main__":
    main()
