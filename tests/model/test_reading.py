"""Reading from outside takes what pydantic takes, gives the same models, and names the place of what doesn't fit."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from typing import Any, Literal, Union

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

import graphdoctor.facts.check
import graphdoctor.facts.comparison
import graphdoctor.facts.lint
import graphdoctor.facts.picture  # noqa: F401
from graphdoctor.facts.base import Fact, InvalidFactError, field_types
from graphdoctor.facts.coverage import Coverage
from graphdoctor.facts.diagnosis import Diagnosis, Finding, Location
from graphdoctor.facts.recording import SteadyCall, TargetInfo
from graphdoctor.facts.stack import StackEntry


def subclasses(fact: type[Fact]) -> list[type[Fact]]:
    return [deeper for each in fact.__subclasses__() for deeper in (each, *subclasses(each))]


_WHOLE = ("Diagnosis", "Recording", "CheckReport", "TargetCheck", "LintReport", "DiagnosisComparison")
"""Too large to be drawn; real ones are read in tests/gate/test_documents.py and tests/trace."""
FACTS = sorted(
    (fact for fact in subclasses(Fact) if fact.__module__.startswith("graphdoctor.") and fact.__name__ not in _WHOLE),
    key=lambda fact: fact.__name__,
)
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-5, 5),
    float: st.floats(allow_nan=False, allow_infinity=False, width=16) | st.integers(-5, 5),
    str: st.text(max_size=3),
    bool: st.booleans(),
    object: st.none() | st.text(max_size=2),
    types.NoneType: st.none(),
}
ODD = st.sampled_from([None, True, 0, 1.5, "text", [], {}, [1], {"a": 1}])


def plain(kind: Any, depth: int = 0) -> st.SearchStrategy[Any]:
    """Plain values that fit a type, most of the time."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in SCALARS:
        return SCALARS[kind]
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, types.UnionType):
        return st.one_of(*(plain(each, depth) for each in arguments))
    if origin in (tuple, list):
        return st.just([]) if depth > 1 else st.lists(plain(arguments[0], depth + 1), max_size=2)
    if origin is dict:
        return (
            st.just({})
            if depth > 2
            else st.dictionaries(plain(arguments[0]), plain(arguments[1], depth + 1), max_size=1)
        )
    return fields_of(kind, depth + 1)


def fields_of(fact: type[Fact], depth: int = 0) -> st.SearchStrategy[dict[str, Any]]:
    needed = {field.name for field in dataclasses.fields(fact) if not has_default(field)}
    kinds = field_types(fact)
    odd = st.just(None) if depth else st.none() | st.sampled_from(sorted(kinds))
    return odd.flatmap(
        lambda name: st.fixed_dictionaries(
            {key: ODD if key == name else plain(kinds[key], depth) for key in kinds if key in needed},
            optional={
                key: ODD if key == name else plain(kinds[key], depth)
                for key in kinds
                if key not in needed and (depth < 1 or key == name)
            },
        )
    )


def has_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.__name__)
def test_what_is_written_is_read_back_equal(fact: type[Fact]) -> None:
    @settings(max_examples=4)
    @given(fields_of(fact))
    def check(value: dict[str, Any]) -> None:
        try:
            known = fact.model_validate(value)
        except InvalidFactError:
            return
        assert fact.model_validate(json.loads(known.model_dump_json())) == known
        assert fact.model_validate(known) is known

    check()


@pytest.mark.parametrize(
    "fact", [Finding, Coverage, SteadyCall, TargetInfo, StackEntry, Location], ids=lambda f: f.__name__
)
def test_pydantic_takes_and_refuses_the_same(fact: type[Fact]) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(fact)

    @settings(max_examples=40)
    @given(fields_of(fact))
    def check(value: dict[str, Any]) -> None:
        text = json.dumps(value)
        try:
            theirs = adapter.validate_json(text, strict=True)
        except ValidationError:
            with pytest.raises(InvalidFactError):
                fact.model_validate(json.loads(text))
        else:
            assert fact.model_validate(json.loads(text)) == theirs

    check()


@pytest.mark.parametrize(
    ("fact", "value", "place", "says"),
    [
        (Coverage, {"graph_ops": "1"}, ("graph_ops",), "'1' isn't int"),
        (Coverage, {"graph_ops": True}, ("graph_ops",), "True isn't int"),
        (Coverage, {"graph_ops": 1, "other": 1}, ("other",), "Coverage has no such field"),
        (Coverage, {"graph_ops": 1}, ("eager_ops",), "is missing"),
        (Coverage, [], (), "[] isn't an object (Coverage)"),
        (SteadyCall, {"call_us": 1, "runs": [{"graph": None}]}, ("runs", 0, "graph"), "None isn't int"),
        (SteadyCall, {"call_us": 1, "runs": {}}, ("runs",), "{} isn't a list"),
        (TargetInfo, {"kind": "thing"}, ("kind",), "'thing' isn't one of"),
        (TargetInfo, {"config": []}, ("config",), "[] isn't an object"),
    ],
)
def test_what_does_not_fit_is_named(fact: type[Fact], value: object, place: tuple[object, ...], says: str) -> None:
    with pytest.raises(InvalidFactError) as refused:
        fact.model_validate(value)
    assert refused.value.place == place
    assert says in str(refused.value)


def test_fields_of_a_later_version_are_skipped_at_any_depth_when_asked_for() -> None:
    value = {"call_us": 1.0, "later": 1, "runs": [{"graph": 0, "start_us": 0, "end_us": 1, "later": {}}]}
    known = SteadyCall.model_validate(value, skips_unknown=True)
    assert known.runs[0].end_us == 1
    with pytest.raises(InvalidFactError, match="later"):
        SteadyCall.model_validate(value)


def test_a_fact_is_a_value() -> None:
    one = StackEntry(file="a.py", line=1, function="f", origin="user")
    other = one.model_copy(update={"line": 2})
    assert (one == other, one == one.model_copy(update={}), one == "a.py") == (False, True, False)
    assert len({one, other, one.model_copy(update={})}) == 2
    assert "line=1" in repr(one)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.line = 3  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del one.line
    with pytest.raises(TypeError, match="StackEntry has no lien"):
        one.model_copy(update={"lien": 3})
    with pytest.raises(TypeError, match="StackEntry needs "):
        StackEntry(file="a.py")  # type: ignore[call-arg]


def test_json_has_the_fields_in_the_order_of_the_model() -> None:
    entry = StackEntry(origin="user", function="f", line=1, file="a.py")
    assert [*entry.model_dump()] == [field.name for field in dataclasses.fields(StackEntry)]


def test_no_model_imports_pydantic() -> None:
    import subprocess
    import sys

    code = f"import sys, {Diagnosis.__module__}, graphdoctor.facts.picture; assert 'pydantic' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
