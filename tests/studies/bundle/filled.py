"""A model with every field set and one mark in every text: what a redaction may overlook."""

from types import NoneType, UnionType
from typing import Literal, TypeVar, Union, get_args, get_origin

from graphdoctor.facts.base import Fact, field_types
from graphdoctor.facts.fixes import Reason

Model = TypeVar("Model", bound=Fact)


def filled(model, text):
    """An instance with this text in every field that takes any text, and one item in every
    collection."""
    return model(**{name: _value(kind, text) for name, kind in field_types(model).items()})


def _value(kind, text):
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return arguments[0]
    if origin in (Union, UnionType):
        # Text rather than a number, a model rather than nothing.
        kinds = [argument for argument in arguments if argument is not NoneType]
        return _value(str if str in kinds else kinds[-1], text)
    if origin is tuple:
        if arguments[0] is Reason:
            return (Reason(kind="message", values=(text,)),)
        return tuple(_value(argument, text) for argument in arguments if argument is not Ellipsis)
    if origin is dict:
        return {_value(arguments[0], text): _value(arguments[1], text)}
    if kind is str or kind is object:
        return text
    if kind in (bool, int, float):
        return kind(1)
    assert issubclass(kind, Fact), kind
    return filled(kind, text)
