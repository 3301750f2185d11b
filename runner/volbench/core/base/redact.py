"""Redacts secrets: passwords in DSNs, options, statements, headers, and those of the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

MASK = "***"
SECRET_VARIABLES = ("VOLBENCH_MYSQL_PASSWORD", "MYSQL_PWD", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_PATTERNS = (
    (re.compile(r"(\w://[^:/?@\s'\"]*:)\S*@"), rf"\1{MASK}@"),  # scheme://user:password@host, whatever is in it
    (
        re.compile(
            r"(?i)((?:password|passwd|pwd|secret|token|api[-_]?key)[\w-]*['\"]?\s*[=:]\s*)('[^']*'|\"[^\"]*\"|\S+)"
        ),
        rf"\1{MASK}",
    ),
    (
        re.compile(
            r"(?i)(identified\s+(?:with\s+\S+\s+)?(?:by|as)\s+(?:password\s+)?)('(?:[^'\\]|\\.|'')*'|\"[^\"]*\")"
        ),
        rf"\1{MASK}",
    ),
    (re.compile(r"(?i)(authorization['\"]?\s*[=:]\s*['\"]?(?:bearer|basic)?\s*)\S+"), rf"\1{MASK}"),
)
_LITERAL = re.compile(r"'(?:[^'\\]|(?s:\\.)|'')*(?:'|\Z)|\"(?:[^\"\\]|(?s:\\.)|\"\")*(?:\"|\Z)")
"""Of our own statements, for the log; `volbench.core.sql`, which divides those of others, lies above this layer."""
_SHORTEST_SECRET = 3
"""Shorter values occur by chance in other words."""


def redact(text: str, environment: Mapping[str, str] | None = None) -> str:
    """Return the text with everything masked that looks like a secret or is one of the environment's secrets."""
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    variables = os.environ if environment is None else environment
    for name in SECRET_VARIABLES:
        value = variables.get(name, "")
        if len(value) >= _SHORTEST_SECRET:
            text = text.replace(value, MASK)
    return text


def without_literals(sql: str) -> str:
    """Return a statement with `'?'` for quoted texts, which may be data or passwords; also in a cut one."""
    return _LITERAL.sub("'?'", sql)
