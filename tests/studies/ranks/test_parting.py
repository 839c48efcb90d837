from pathlib import Path

from graphdoctor.facts.guards import GuardChange, GuardNode
from graphdoctor.facts.recording import GraphNode
from graphdoctor.studies.ranks.parting import Trail, parting_of
from tests.each import for_each

IMPORTS = """import os
import torch.distributed as dist
ME = int(os.environ["RANK"])
def first(): return dist.get_rank() == 0
"""
BEFORE = IMPORTS.count("\n")


def parted(body, *lines, is_whole=True, **values):
    """Why two ranks part that came to these lines of a body."""
    source = IMPORTS + body
    trails = (
        Trail(
            lines=tuple(("a.py", BEFORE + line) for line in of_rank),
            reached=frozenset(("a.py", BEFORE + line) for line in of_rank),
            nodes=tuple(node(BEFORE + line, f"x{at}") for at, line in enumerate(of_rank)),
            files={"a.py": source},
            **{name: pair[number] for name, pair in values.items()},
        )
        for number, of_rank in enumerate(lines)
    )
    found = parting_of(*trails, root=Path(), is_whole=is_whole)
    if found is None:
        return None
    return found.kind, found.location and found.location.line - BEFORE, found.reads


def node(line, args):
    where = {"file": "a.py", "line": line}
    return GraphNode(name="y", opcode="call_method", target="sin", args=args, kwargs="", **where)


def guard(source, expected, line):
    values = {"source": source, "expression": source, "expected": expected, "path": source}
    return GuardNode(kind="EQUALS_MATCH", depth=1, guard="", **values)


@for_each(
    "body, lines, expected",
    [
        # Each: the source, the lines of both ranks, and the kind, line and what reads the rank.
        (
            "def f(x):\n if dist.get_rank() == 0:\n  print(x)\n return x\n",
            ((3,), (4,)),
            ("branch", 2, "dist.get_rank()"),
        ),
        ("def f(x):\n if not ME:\n  x.sin()\n x.cos()\n", ((3, 4), (4,)), ("branch", 2, "ME")),
        (
            "def f(x):\n if first():\n  return x\n return x.sin()\n",
            ((2,), (4,)),
            ("branch", 2, "first()"),
        ),
        (
            'def f(x):\n if os.environ.get("LOCAL_RANK") == "0":\n  x.sin()\n x.cos()\n',
            ((4,), (3, 4)),
            ("branch", 2, "os.environ.get('LOCAL_RANK')"),
        ),
        (
            "def f(self, x):\n if self.chief:\n  if self.loud:\n   x.sin()\n x.cos()\n"
            "def g(self):\n self.chief = first()\n",
            ((4, 5), (5,)),
            ("branch", 2, "self.chief"),
        ),
        (
            "def f(x):\n match ME:\n  case 0:\n   x.sin()\n  case _:\n   x.cos()\n",
            ((4,), (6,)),
            ("branch", 2, "ME"),
        ),
        # Operations have the innermost line alone.
        (
            "def more(x):\n return x.sin()\ndef f(x):\n if ME:\n  x = more(x)\n return x + 1\n",
            ((6,), (2, 6)),
            ("branch", 4, "ME"),
        ),
        ("def f(x):\n n = 2 if first() else 3\n return x * n\n", ((3,), (3,)), None),
        # What isn't known to read the rank is no branch on it.
        ("def f(x):\n if x.flag:\n  x.sin()\n x.cos()\n", ((3, 4), (4,)), ("branch", 2, None)),
        # The other rank may never have come to the branch.
        ("def f(x):\n x.tan()\n if x.flag:\n  x.sin()\n", ((2, 4), (2,)), None),
        # It took that way elsewhere.
        ("def f(x):\n if ME:\n  x.sin()\n x.cos()\n", ((3,), (3,)), None),
        ("def f(x):\n for _ in range(ME):\n  x.sin()\n", ((3,), (3, 3)), None),
    ],
)
def test_the_branch_that_ranks_take_differently_is_named(body, lines, expected):
    assert parted(body, *lines) == expected


def test_a_branch_is_unknown_where_a_rank_ended_early():
    body = "def f(x):\n if ME:\n  x.sin()\n x.cos()\n"
    assert parted(body, (3, 4), (4,), is_whole=False) is None


def test_values_that_changed_and_state_that_differs_are_the_cause():
    size = GuardChange(kind="size", source="L['x']", expression="x.shape[0]")
    assert parted("", (), (), changes=((size,), ())) == ("sizes", None, None)
    scale = [(guard("L['self'].scale", value, 1),) for value in ("1", "2")]
    assert parted("", (), (), guards=scale) == ("state", None, None)
    count = [(guard("L['count']", value, 1),) for value in ("1", "2")]
    assert parted("", (), (), guards=count) == ("values", None, None)
    assert parted("", (), (), guards=(count[0], count[0])) is None
