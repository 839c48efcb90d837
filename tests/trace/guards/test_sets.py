"""torch's printed guard trees to guards in the user's words, with whole paths."""

from graphdoctor.facts.recording import Environment
from graphdoctor.trace.guards.trees import GuardTrees, guards_of, parse_tree, value_words
from graphdoctor.trace.intake import Intake
from graphdoctor.trace.merge import Part
from graphdoctor.trace.reader import read_recording
from graphdoctor.trace.sections import Section
from tests import factories
from tests.conftest import RECORDED_LOGS
from tests.each import for_each

ROOT = "/env/lib/python3.11/site-packages/torch"


def guards_in(recording, trees, files=(), cost=None):
    intake = Intake(Environment(torch_root=ROOT))
    collector = GuardTrees()
    intake.files = dict.fromkeys(files)
    collector.trees = trees
    return guards_of(Part(recording), Section(intake, (collector,)), cost)


def read(tree, *files, cost=None):
    return guards_in(factories.recording(), {"0/0": parse_tree(tree)}, files, cost)


@for_each(
    "short, file, origin",
    [
        ("mp/net.py", "/tmp/net.py", "user"),
        ("project/net.py", "/env/project/net.py", "user"),
        ("transformers/b.py", "/env/lib/python3.11/site-packages/transformers/b.py", "third_party"),
        ("nn/modules/linear.py", f"{ROOT}/nn/modules/linear.py", "torch"),
        ("elsewhere/x.py", "elsewhere/x.py", "user"),
    ],
)
def test_a_cut_path_is_found_again(short, file, origin):
    tree = f"+- RootGuardManager\n| +- EQUALS_MATCH: L['f'] == 1  # f  # {short}:3 in forward"
    recorded = (
        "/tmp/net.py",
        "/other/tmp/net.py",
        "/env/project/net.py",
        "/env/lib/python3.11/site-packages/transformers/a.py",
    )
    ((node,),) = [guard_set.nodes for guard_set in read(tree, *recorded).sets]
    assert node.location is not None
    assert (node.location.file, node.location.origin, node.location.line) == (file, origin, 3)


def test_sources_in_words():
    assert value_words("L['self']._modules['layers']._modules['0'].scale") == "self.layers[0].scale"
    assert value_words("list(dict.keys(L['d']))[1]") == "key 1 of d"
    assert value_words("G['__import_torch_dot_nn'].F") == "torch.nn.F"
    assert value_words("G['__builtins_dict___2']['len']") == "len"
    assert value_words("L['x'].size()[0]") == "x.shape[0]"


COSTED = """+- RootGuardManager
| +- GuardManager: source=L['self'], accessed_by=x, type=y
| | +- GuardManager: source=L['self']._modules['fc'], accessed_by=x, type=y
| | | +- TYPE_MATCH: ___check_type_id(L['self']._modules['fc'], 1), type=<class 'torch.nn.Linear'>
"""


def test_a_share_needs_both_times():
    entry = {
        "compile_id": "0/0",
        "runs": 2,
        "check_us": 5.0,
        "bill": [{"source": "L['self']", "check_us": None}],
    }
    cost = {
        "call_us": 100.0,
        "call_low_us": 90.0,
        "call_high_us": 110.0,
        "call_count": 9,
        "is_complete": True,
    }
    warm = read(COSTED, cost=cost | {"entries": [entry]})
    assert (warm.checks_us, warm.warm_share, warm.sets[0].warm_share) == (10.0, 0.1, 0.1)
    assert (warm.searches_us, warm.share, warm.sets[0].share) == (None, None, None)
    searched = {"searches_us": 30.0, "searches_low_us": 25.0, "searches_high_us": 40.0}
    whole = read(COSTED, cost=cost | searched | {"entries": [entry | {"search_us": 12.0}]})
    assert (whole.share, whole.sets[0].share, whole.warm_share) == (0.3, 0.24, 0.1)
    assert whole.sets[0].bill[0].check_us is None
    assert whole.sets[0].bill[0].guard_count == 1
    cut = read(COSTED, cost=cost | {"entries": [{"compile_id": "0/0", "runs": 2}]})
    assert (cut.checks_us, cut.warm_share) == (None, None)
    assert read(COSTED, cost=cost | {"entries": [entry], "is_complete": False}).warm_share is None
    assert read(COSTED).sets[0].runs_per_call is None


def test_a_root_of_torchs_own_class_is_self():
    recording = factories.recording(
        frames=(factories.frame().replace(code_name="inner", origin="torch"),)
    )
    tree = parse_tree("+- RootGuardManager\n| +- EQUALS_MATCH: L['fn']._modules['0'].p == 0.5")
    assert [node.expression for node in guards_in(recording, {"0/0": tree}).sets[0].nodes] == [
        "self[0].p"
    ]


LOGS = sorted({log.parent for log in RECORDED_LOGS.rglob("*.log")})


@for_each("folder", LOGS)
def test_every_recording_has_guards_when_asked(folder):
    recording = read_recording(folder, guards=True)
    assert recording.guards is not None
    compiled = [item for item in recording.compiles if item.outcome == "compiled"]
    assert {item.compile_id for item in compiled} <= {
        guard_set.compile_id for guard_set in recording.guards.sets
    }
    for guard_set in recording.guards.sets:
        assert guard_set.guard_count == len(guard_set.nodes) == sum(guard_set.kinds.values())
        assert guard_set.unread_lines == ()
        assert guard_set.check_us is None
    assert "guard_cost" in {gap.kind for gap in recording.gaps}
    assert read_recording(folder).guards is None


def test_a_value_that_prints_in_several_lines_stays_one_guard():
    tree = parse_tree(
        "+- RootGuardManager\n| +- EQUALS_MATCH: L['v'] == Long(\n    a=1,\n  )  # f(v)  # n.py:1 in f\n"
    )
    (guard,) = tree.guards
    assert (guard.meaning.source, guard.meaning.expected) == ("L['v']", "Long(\n    a=1,\n  )")
    assert guard.text.place is not None
    assert guard.text.place.line == 1
