"""Older names of keys, which files of earlier versions have.

A field declares them after today's key: `validation_alias=AliasChoices("concurrent", "beside")`. Files with either
name are read; today's name alone is written and is in the JSON Schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import AliasChoices, BaseModel
from pydantic.fields import FieldInfo


def older_names_of(field: FieldInfo) -> tuple[str, ...]:
    """Return the older names of a field's key."""
    names = field.validation_alias
    return tuple(str(name) for name in names.choices[1:]) if isinstance(names, AliasChoices) else ()


def older_names(model: type[BaseModel]) -> dict[str, str]:
    """Return the older name of each renamed key of a model -> today's."""
    fields = model.model_fields.items()
    return {old: field.alias or name for name, field in fields for old in older_names_of(field)}


def with_current_names(values: Mapping[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    """Return a mapping with today's names of its keys; an older name next to today's stays as it is."""
    return {
        renamed[key] if key in renamed and renamed[key] not in values else key: value
        for key, value in values.items()
    }
