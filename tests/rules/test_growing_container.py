"""What GD218 takes for a container that the compiled function fills, and what it leaves to GD215."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import pytest

from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.diagnosis.diagnose import diagnose
from tests.each import for_each
from tests.factories import change, compiled, entry, frame, recompiled, recording


@for_each(
    "source, line, old, new, code",
    [
        ("L['self'].seen", "self.seen.append(x.sum())", "0", "1", "GD218"),
        ("L['self'].seen", "self.seen += [x.sum()]", "0", "1", "GD218"),
        ("L['self'].seen", "self.seen.extend(parts)", "0", "3", "GD218"),
        ("L['self'].seen", 'self.seen[f"k{len(self.seen)}"] = x', "0", "1", "GD218"),
        ("L['self'].meter.seen", "self.seen.append(value)", "7", "8", "GD218"),
        ("G['LOG']", "LOG.append(y)", "0", "1", "GD218"),
        ("L['self'].seen", "self.unseen.append(x)", "0", "1", "GD215"),
        ("L['self'].seen", "if self.seen[0] == x:", "0", "1", "GD215"),
        ("L['self'].seen", "return x + len(self.seen)", "0", "1", "GD215"),
        ("L['self'].seen", "return x + self.seen.pop()", "6", "5", "GD215"),
        ("L['self'].seen", "self.seen.append(x)", "6", "0", "GD215"),
        ("L['self'].seen", "self.seen.append(x)", None, "1", "GD215"),
        # Another list may be passed each time.
        ("L['seen']", "seen.append(y)", "0", "1", "GD215"),
    ],
)
def test_a_container_grows_where_its_own_line_adds_to_it(
    source: str, line: str, old: str | None, new: str, code: str
) -> None:
    expression = f"len({source[3:].replace(chr(39) + ']', '')})"
    differing = change("length", expression, old, new, source=source).model_copy(
        update={"guard_location": entry(12, line)}
    )
    facts = recording(compiles=(compiled("0/0"), recompiled("0/1", differing)), frames=(frame(),))
    [finding] = diagnose(facts, RULES, root=Path("/project"), version="0").findings
    assert finding.code == code


@pytest.mark.slow
@pytest.mark.parametrize(("full", "compiles"), [(0, 4), (3, 1)])
def test_a_deque_that_is_full_of_such_values_before_the_first_call_is_compiled_for_once(
    full: int, compiles: int
) -> None:
    torch = pytest.importorskip("torch")
    from torch._dynamo.testing import CompileCounter

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kept = deque([torch.zeros(()) for _ in range(full)], maxlen=3)

        def forward(self, x: Any) -> Any:
            self.kept.append(x.sum())
            return x.sin()

    torch.compiler.reset()
    counter = CompileCounter()
    net = torch.compile(Net(), backend=counter)
    for _ in range(4):
        net(torch.ones(3))
    torch.compiler.reset()
    assert counter.frame_count == compiles
