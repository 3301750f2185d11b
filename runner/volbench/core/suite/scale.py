"""Scales: one suite in several sizes, so that a suite for real volumes can be rehearsed in minutes."""

from __future__ import annotations

from collections.abc import Iterable

from volbench.core.suite.document import SuiteDocument, assign, set_value
from volbench.core.suite.model import FULL_SCALE


def scaled(document: SuiteDocument, settings: Iterable[str]) -> SuiteDocument:
    """Return the document with the values of its chosen scale; the model checks an unknown scale.

    Args:
        settings: `KEY=VALUE` of `--set`. Only `scale` is looked for; the others come after, so that they win.

    Raises UsageError when a key of the scale leads nowhere.
    """
    for assignment in settings:
        if assignment.partition("=")[0].strip() == "scale":
            document = set_value(document, assignment)
    name = document.data.get("scale", FULL_SCALE)
    scales = document.data.get("scales")
    changes = scales.get(name) if isinstance(scales, dict) and isinstance(name, str) else None
    if isinstance(changes, dict):
        for key, value in changes.items():
            document = assign(document, key, value, origin=document.origin(("scales", name, key)))
    return document
