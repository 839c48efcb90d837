"""Which cache entry a recompile is compared with, what changed since, and what the last call's
values were."""

from graphdoctor.facts.guards import GuardChange, RecompileCause
from graphdoctor.facts.stack import StackEntry
from graphdoctor.trace.causes import (
    ComparedEntry,
    also_changed,
    cause_of_reasons,
    cause_of_record,
    nearest_entry,
    with_carried,
    with_previous,
)
from graphdoctor.trace.guards.forms import short_dtype, state_changes
from tests.each import for_each


def change(expression, old, new, kind="size", source=None):
    source = source or f"L['{expression.partition('.')[0]}']"
    return GuardChange(kind=kind, source=source, expression=expression, old=old, new=new)


def entry(name, *changes, hidden=0):
    return ComparedEntry(name, changes, changes, hidden)


def size(name, old, new, dim=1):
    return change(f"{name}.shape[{dim}]", old, new)


FLAG = change("flag", "True", "False", "flag")
CACHE = change("len(cache)", "2", "0", "length", "L['cache']")
TUPLE = change("xs", "a tuple", "a list", "type")
INSIDE, BESIDE = (
    change(f"{name}[0].shape[0]", "4", "5", source=f"L['{name}'][0]") for name in ("xs", "xss")
)
DTYPE = change("x.dtype", "f64", "f32", "dtype")
STRIDE = change("x.stride(0)", "4", "1", "stride")
AT_LEAST = change(
    "2 <= x.shape[0]", "x.shape[0] = 4", "x.shape[0] = 7", "relation", "L['x'].size()[0]"
)


@for_each(
    "last, others, nearest",
    [
        # One that differs in what did not change since the last call is of an older call.
        ([size("k", "6", "7"), size("v", "6", "7")], [size("x", "6", "1")], 0),
        # Of the others the one with the fewest differences counts.
        ([size("x", "1", "9"), CACHE], [size("x", "3", "9"), size("x", "6", "9")], 1),
        # Another size of a tensor that changed in another dim did not change.
        ([size("x", "6", "7"), size("y", "2", "3", 0)], [size("x", "4", "8", 0)], 0),
        # A tensor that differs in two ways is further off than one that differs in one of them.
        ([DTYPE, STRIDE], [STRIDE], 1),
        # Inside a value that was replaced everything may have changed, but not beside it.
        ([TUPLE, FLAG], [INSIDE], 1),
        ([TUPLE, FLAG], [BESIDE], 0),
        # A condition on a size that changed is about that change.
        ([size("x", "1", "7", 0), FLAG], [AT_LEAST], 1),
    ],
)
def test_the_nearest_entry_differs_only_in_what_changed_since(last, others, nearest):
    entries = [entry("0/9", *last), *(entry("0/0", other) for other in others)]
    assert nearest_entry(entries) is entries[nearest]


def test_last_calls_value_is_from_the_entry_it_used():
    last = entry("0/1", change("x.shape[1]", "1", "9"), change("flag", "True", "False", "flag"))
    older = entry("0/0", change("x.shape[1]", "6", "9"))
    (changed,) = with_previous(older.changes, last)
    assert (changed.old, changed.previous, changed.new) == ("6", "1", "9")
    assert [(changed.expression, changed.previous) for changed in also_changed(older, last)] == [
        ("flag", "True")
    ]
    assert also_changed(last, last) == ()


SCALE = {
    "leaf": "EQUALS_MATCH",
    "source": "L['scale']",
    "text": ["L['scale'] == 1.5"],
    "now": {"text": "2.5"},
}


def changes_of(*failed):
    """The changes in a record of guards that failed in one entry."""
    compared = [{"compile_id": "0/0", "failed": [*failed]}]
    record = {"entries": 2, "compared": compared}
    return cause_of_record(record, lambda *_place: None).changes


def test_a_constant_that_becomes_a_tensor_is_another_type():
    """No warm-up has each of its values; what was None stays what it is."""
    tensor = {"type": "Tensor", "text": "f32[]", "dtype": "f32", "shape": [], "stride": []}
    kinds = {}
    for was in ("1.5", "2", "True", "'a'", "None"):
        failed = SCALE | {"text": [f"L['scale'] == {was}"], "now": tensor}
        (changed,) = changes_of(failed)
        kinds[was] = changed.kind
    assert kinds == {"1.5": "type", "2": "type", "True": "type", "'a'": "type", "None": "none"}


def test_without_a_compared_entry_torchs_words_are_the_cause():
    record = {"entries": 1, "compared": []}
    cause = cause_of_record(record, lambda *_place: None, reasons=("0/0: scale == 1.5",))
    assert (cause.nearest, cause.is_exact) == ("0/0", False)


def said(change):
    return change.kind, change.expression, change.old, change.new


def test_the_nearest_entry_of_a_compiled_autograd_graph():
    cause = cause_of_reasons(
        ("!0/1/0: L['f'] == 1.5", "!0/0/0: L['f'] == 1.0"), lambda *_place: None
    )
    assert cause.nearest == "!0/1/0"
    assert [said(change) for change in cause.changes] == [("number", "f", "1.5", None)]


OLD = {
    "grad_mode": True,
    "default_dtype": 6,
    "num_threads": 2,
    "allow_tf32": False,
    "autocast_state": {"enabled": [False, False], "dtype": [15, 5]},
}


def test_states_are_compared_setting_by_setting():
    new = OLD | {
        "grad_mode": False,
        "default_dtype": 7,
        "num_threads": 1,
        "allow_tf32": True,
        "autocast_state": {"enabled": [False, True], "dtype": [15, 5]},
    }
    assert [said(change) for change in state_changes(OLD, new)] == [
        ("grad_mode", "grad mode", "on", "off"),
        ("default_dtype", "the default dtype", "f32", "f64"),
        ("threads", "the number of threads", "2", "1"),
        ("global_state", "TF32 allowed", "off", "on"),
        ("autocast", "autocast", "off", "on (cuda f16)"),
    ]


@for_each(
    "dtype, short",
    [
        ("torch.bfloat16", "bf16"),
        ("Half", "f16"),
        (11, "b8"),
        (99, "99"),
        ("torch.quint8", "quint8"),
    ],
)
def test_a_dtype_has_one_short_name(dtype, short):
    assert short_dtype(dtype) == short


def relation(text, *sources):
    """The record of a failed condition on values of the frame."""
    return {
        "leaf": "RELATION",
        "source": None,
        "text": [text],
        "sizes": {source: {"text": "?"} for source in sources},
    }


def test_two_arguments_that_are_one_object_no_more():
    item = relation("L['x'] is L['y']", "L['x']", "L['y']")
    changes = changes_of(item)
    assert [said(change)[:2] for change in changes] == [("aliasing", "x and y")]


def test_required_value_of_a_dynamic_number_is_old():
    item = relation("L['t'] == 3", "L['t']")
    item["sizes"]["L['t']"] = {"text": "4"}
    changes = changes_of(item)
    assert [said(change) for change in changes] == [("number", "t", "3", "4")]
    size = relation("L['x'].size()[0] == 3", "L['x'].size()[0]")
    (change,) = changes_of(size)
    assert change.kind == "relation"


def test_a_sets_member_is_not_said_beside_the_set():
    member = {"leaf": "SET_CONTAINS", "source": "L['s']", "text": ["set.__contains__(L['s'], 'a')"]}
    whole = {
        "leaf": "EQUALS_MATCH",
        "source": "L['s']",
        "text": ["L['s'] == {'a'}"],
        "now": {"text": "{'b'}"},
    }
    changes = changes_of(member, whole)
    assert [said(change) for change in changes] == [("value", "s", "{'a'}", "{'b'}")]


@for_each(
    "now, told",
    [
        ("___stack0 = 0.25", "0.25"),
        ("___stack0.shape[0] = 7", "it.shape[0] = 7"),
        ("___stack0 = 1, ___stack1 = 2", "it = 1, it = 2"),
    ],
)
def test_carried_values_current_value_has_no_torch_name(now, told):
    (changed,) = with_carried(
        RecompileCause(
            nearest=None, changes=(change("2 <= ___stack0", now, now, "relation"),), is_exact=True
        ),
        lambda _name: "it",
    ).changes
    assert (changed.expression, changed.old, changed.new) == ("2 <= it", told, told)


RANGE = (
    "4 <= L['x'].size()[0] <= 8  # if n > 3 and wide:  # /p/model.py:5 in f (torch.py:1 in g(a, b))"
    " and if n < 9:  # /p/model.py:7 in f (torch.py:1 in g)"
)
SAME = RANGE.replace(":5 in", ":7 in").replace("if n > 3 and wide:", "if n < 9:")
SPECIAL = (
    "2 <= L['x'].size()[0] <= 8  # n = x.shape[0]  # /p/model.py:3 in f (user code shown is first"
    " use of this value--the guard itself is not due user code but due to 0/1 specialization in the"
    " framework; to avoid specialization try torch._dynamo.decorators.mark_unbacked(tensor, dim))"
    " and if n < 9:  # /p/model.py:7 in f (torch.py:1 in g)"
)
OPEN = "4 <= L['x'].size()[0]  # if n > 3 and wide:  # /p/model.py:5 in f (torch.py:1 in g)"


def placed(file, line, function):
    return StackEntry(file=file, line=line, function=function, origin="user")


@for_each(
    "text, size, line",
    [
        (RANGE, "12", 7),
        (RANGE, "2", 5),
        (RANGE.replace("4 <=", "-4 <="), "-5", 5),
        (RANGE.replace("<= 8", "<= 8.5"), "9.0", 7),
        (SPECIAL, "1", 3),
        (SPECIAL, "9", 7),
        (OPEN, "2", 5),
        (SAME, "2", 7),
    ],
)
def test_a_merged_range_is_of_the_line_whose_bound_failed(text, size, line):
    item = {
        "leaf": "RELATION",
        "source": "L['x'].size()[0]",
        "text": [text],
        "line": ["/p/model.py", 3, "f"],
        "sizes": {"L['x'].size()[0]": {"text": size}},
    }
    record = {"entries": 1, "compared": [{"compile_id": "0/0", "failed": [item]}]}
    (change,) = cause_of_record(record, placed).changes
    assert change.guard_location.line == line


@for_each("text, line", [(RANGE, None), (SPECIAL, None), (SAME, 7), (OPEN, 5)])
def test_torchs_words_do_not_say_which_bound_of_a_range_failed(text, line):
    (change,) = cause_of_reasons((f"0/0: {text}",), placed).changes
    assert (change.guard_location and change.guard_location.line) == line
