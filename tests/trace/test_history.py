"""Which cache entry a recompile is compared with, and what the last call's values were."""

from __future__ import annotations

from typing import Any

from graphdoctor.facts.recompiles import ChangeKind, GuardChange
from graphdoctor.trace.causes import ComparedEntry, also_changed, cause_of_record, nearest_entry, with_previous


def change(expression: str, old: str, new: str, kind: ChangeKind = "size", source: str | None = None) -> GuardChange:
    source = source or f"L['{expression.partition('.')[0]}']"
    return GuardChange(kind=kind, source=source, expression=expression, old=old, new=new)


def entry(name: str, *changes: GuardChange, hidden: int = 0) -> ComparedEntry:
    return ComparedEntry(name, changes, changes, hidden)


def test_an_entry_that_differs_in_what_did_not_change_is_of_an_older_call() -> None:
    last = entry("0/1", *(change(f"{name}.shape[1]", "6", "7") for name in "kv"))
    prompt = entry("0/0", change("x.shape[1]", "6", "1"))
    assert nearest_entry([last, prompt]) is last


def test_of_the_others_the_one_with_the_fewest_differences_counts() -> None:
    last = entry("0/2", change("x.shape[1]", "1", "9"), change("len(cache)", "2", "0", "length", "L['cache']"))
    older = entry("0/1", change("x.shape[1]", "3", "9"))
    oldest = entry("0/0", change("x.shape[1]", "6", "9"))
    assert nearest_entry([last, older, oldest]) is older


def test_an_entry_with_values_that_were_not_recorded_is_not_compared() -> None:
    last = entry("0/1", change("x.shape[1]", "1", "9"), change("flag", "True", "False", "flag"))
    assert nearest_entry([last, entry("0/0", change("x.shape[1]", "6", "9"), hidden=1)]) is last


def test_another_size_of_a_tensor_that_changed_in_another_dim_did_not_change() -> None:
    last = entry("0/1", change("x.shape[1]", "6", "7"), change("y.shape[0]", "2", "3"))
    assert nearest_entry([last, entry("0/0", change("x.shape[0]", "4", "8"))]) is last


def test_inside_a_value_that_was_replaced_everything_may_have_changed() -> None:
    last = entry("0/1", change("xs", "a tuple", "a list", "type"), change("flag", "True", "False", "flag"))
    older = entry("0/0", change("xs[0].shape[0]", "4", "5", source="L['xs'][0]"))
    assert nearest_entry([last, older]) is older
    unlike = entry("0/0", change("xss[0].shape[0]", "4", "5", source="L['xss'][0]"))
    assert nearest_entry([last, unlike]) is last


def test_a_condition_on_a_size_that_changed_is_about_that_change() -> None:
    last = entry("0/1", change("x.shape[0]", "1", "7"), change("flag", "True", "False", "flag"))
    condition = change("2 <= x.shape[0]", "x.shape[0] = 4", "x.shape[0] = 7", "relation", "L['x'].size()[0]")
    older = entry("0/0", condition)
    assert nearest_entry([last, older]) is older


def test_the_last_calls_value_is_that_of_the_entry_that_it_used() -> None:
    last = entry("0/1", change("x.shape[1]", "1", "9"), change("flag", "True", "False", "flag"))
    older = entry("0/0", change("x.shape[1]", "6", "9"))
    (found,) = with_previous(older.changes, last)
    assert (found.old, found.previous, found.new) == ("6", "1", "9")
    assert [(each.expression, each.previous) for each in also_changed(older, last)] == [("flag", "True")]
    assert also_changed(last, last) == ()


def test_the_last_calls_value_is_unknown_where_several_values_pass() -> None:
    condition = change("2 <= x.shape[0]", "x.shape[0] = 4", "x.shape[0] = 1", "relation", "L['x'].size()[0]")
    last = entry("0/0", condition)
    assert [found.previous for found in with_previous(last.changes, last)] == [None]
    assert [found.previous for found in with_previous(last.changes, None)] == [None]


SCALE = {"leaf": "EQUALS_MATCH", "source": "L['scale']", "text": ["L['scale'] == 1.5"], "now": {"text": "2.5"}}


def old_record(**fields: Any) -> Any:
    """A record of the time when only the nearest entry was written down."""
    return {"nearest": "0/0", "entries": 2, "failed": [SCALE], "loops": {}, **fields}


def test_a_record_with_one_entry_is_read() -> None:
    reasons = ("0/0: scale == 1.5", "0/1: scale == 3.5")
    cause = cause_of_record(old_record(hidden=2), lambda *_place: None, reasons=reasons)
    (found,) = cause.changes
    assert (cause.nearest, cause.last_used, cause.hidden_change_count) == ("0/0", "0/0", 2)
    assert (found.old, found.previous, found.new) == ("1.5", "1.5", "2.5")


def test_a_record_with_one_entry_that_the_last_call_did_not_use_gives_way_to_torchs_words() -> None:
    reasons = ("0/1: tensor 'k' size mismatch at index 1. expected 6, actual 7", "0/0: scale == 1.5")
    cause = cause_of_record(old_record(), lambda *_place: None, reasons=reasons)
    assert (cause.nearest, cause.last_used, cause.is_exact) == ("0/1", "0/1", False)
    assert [(found.expression, found.old, found.previous) for found in cause.changes] == [("k.shape[1]", "6", "6")]


def test_a_record_with_one_entry_and_no_words_of_torchs_leaves_the_last_value_unknown() -> None:
    cause = cause_of_record(old_record(), lambda *_place: None)
    assert (cause.nearest, cause.last_used) == ("0/0", None)
    assert [(found.old, found.previous) for found in cause.changes] == [("1.5", None)]


def test_without_a_compared_entry_torchs_words_are_the_cause() -> None:
    record: Any = {"entries": 1, "compared": [], "loops": {"step": "3"}}
    cause = cause_of_record(record, lambda *_place: None, reasons=("0/0: scale == 1.5",))
    assert (cause.nearest, cause.is_exact, cause.loop_values) == ("0/0", False, {"step": "3"})
