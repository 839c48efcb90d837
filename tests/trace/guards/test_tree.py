"""torch's printed tree to its guards, whatever it holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from graphdoctor.trace.guards.sets import parse_tree

TREE = """
TREE_GUARD_MANAGER:
+- RootGuardManager
| +- DEFAULT_DEVICE: utils_device.CURRENT_DEVICE == None                           # _dynamo/output_graph.py:1 in init
| +- GuardManager: source=L['d'], accessed_by=FrameLocalsGuardAccessor(key='d', framelocals_idx=4), type=<class 'dict'>
| | +- TYPE_MATCH: ___check_type_id(L['d'], 14), type=<class 'dict'>  # if d:  # net.py:16 in forward (HINT: type dict)
| | +- DictGuardManager: source=L['d']['k'], accessed_by=DictGetItemGuardAccessor('k'), type=<class 'dict'>
| | | +- KeyValueManager pair at index=0
| | | | +- KeyManager: GuardManager: source=list(dict.keys(L['d']['k']))[0], type=<class 'str'>, tag_safe=(False, False)
| | | | | +- EQUALS_MATCH: list(dict.keys(L['d']['k']))[0] == 'a'  # x  # net.py:17 in forward
| | | | +- ValueManager: GuardManager: source=L['d']['k']['a'], type=<class 'int'>, tag_safe=(False, False)
| | | | | +- EQUALS_MATCH: L['d']['k']['a'] == 1
| +- GuardManager: source=L['x'], accessed_by=FrameLocalsGuardAccessor(key='x', framelocals_idx=1), type=<class 'T'>
| | +- OBJECT_ALIASING
+- LAMBDA_GUARD: 2 <= L['x'].size()[0]  # y = x  # net.py:3 in forward

Guard latency = 12.34 us
"""


def test_every_guard_hangs_on_its_value() -> None:
    tree = parse_tree(TREE)
    assert [(guard.meaning.kind, guard.manager_source, guard.depth) for guard in tree.guards] == [
        ("DEFAULT_DEVICE", None, 1),
        ("TYPE_MATCH", "L['d']", 2),
        ("EQUALS_MATCH", "list(dict.keys(L['d']['k']))[0]", 5),
        ("EQUALS_MATCH", "L['d']['k']['a']", 5),
        ("OBJECT_ALIASING", "L['x']", 2),
        ("LAMBDA_GUARD", None, 0),
    ]
    assert (tree.latency_us, tree.unread) == (12.34, ())


def test_a_value_that_prints_in_several_lines_stays_one_guard() -> None:
    tree = parse_tree("+- RootGuardManager\n| +- EQUALS_MATCH: L['v'] == Long(\n    a=1,\n  )  # f(v)  # n.py:1 in f\n")
    (guard,) = tree.guards
    assert (guard.meaning.source, guard.meaning.expected) == ("L['v']", "Long(\n    a=1,\n  )")
    assert guard.text.place is not None
    assert guard.text.place.line == 1


def test_lines_of_another_layout_are_kept() -> None:
    tree = parse_tree("TREE_GUARD_MANAGER:\nsomething else\n\n* L['x'] is 3")
    assert tree.unread == ("something else", "* L['x'] is 3")
    assert tree.guards == ()
    assert tree.latency_us is None


_LINES = st.one_of(st.sampled_from(TREE.splitlines()), st.text(max_size=20), st.from_regex(r"(\| ){0,4}\+- .{0,20}"))


@given(st.one_of(st.text(), st.lists(_LINES).map("\n".join)))
def test_no_text_raises(payload: str) -> None:
    tree = parse_tree(payload)
    assert len(tree.guards) <= len(payload.splitlines())
