"""What is wrong with a value of a file, in the words of its writer instead of those of the checking library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from volbench.core.base.text import counted

_NOUNS = {
    "string_type": "a text",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "float_type": "a number",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
    "finite_number": "a finite number",
}
_LIMITS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("more than", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("less than", "lt"),
}
_LENGTHS = {"too_short": ("at least", "min_length"), "too_long": ("at most", "max_length")}
_PHRASES = {
    "string_too_short": "has to have {min_length} characters or more",
    "union_tag_invalid": "unknown kind {tag}; known: {expected_tags}",
    "union_tag_not_found": "the key {discriminator} is missing",
    "string_pattern_mismatch": "{input} does not have the form {pattern}",
}
_VALUE_MAX = 40
"""Characters of a value that a message repeats."""


def fault_text(fault: Mapping[str, Any]) -> str:
    """Return what a value has to be and what it is: `has to be at least 1, and is -1`.

    Args:
        fault: as `ValidationError.errors()` lists it.
    """
    kind, context = fault["type"], fault.get("ctx", {})
    if kind in _LENGTHS:
        relation, key = _LENGTHS[kind]
        entries = counted(context[key], "entry", "entries")
        return f"has to have {relation} {entries}, and has {context['actual_length']}"
    if kind in _PHRASES:
        return _PHRASES[kind].format(input=_value_text(fault["input"]), **context).replace("'", "")
    if requirement := _requirement(kind, context):
        return f"has to be {requirement}, and is {_value_text(fault['input'])}"
    return str(fault["msg"]).removeprefix("Value error, ")


def _requirement(kind: str, context: Mapping[str, Any]) -> str:
    """Return what a value has to be, in a noun phrase; empty where this kind of fault has none."""
    if kind in _LIMITS:
        relation, key = _LIMITS[kind]
        return f"{relation} {context[key]:g}"
    if kind == "literal_error":
        return f"one of {context['expected']}"
    return _NOUNS.get(kind, "")


def _value_text(value: object) -> str:
    if isinstance(value, dict | list | tuple):
        return "a mapping" if isinstance(value, dict) else "a list"
    if isinstance(value, bool):
        return str(value).lower()
    text = "empty" if value is None else repr(value)
    return text if len(text) <= _VALUE_MAX else f"{text[:_VALUE_MAX]}..."
