"""The descriptors of causes against the names that rules write."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from volbench.results import explain
from volbench.results.explain.causes import CAUSES

FOLDER = Path(explain.__file__).parent
SOURCES = [FOLDER / "findings.py", *sorted((FOLDER / "rules").rglob("*.py"))]
TEXTS = [path.read_text(encoding="utf-8") for path in SOURCES]
_DESCRIBED = re.compile(r'^ +name="(\w+\.\w+|none)",$', re.MULTILINE)
_GROUPS = "|".join(sorted({name.partition(".")[0] for name in CAUSES if "." in name}))
_NAME = re.compile(rf'"((?:{_GROUPS})\.[a-z_]+|none)"')


def test_every_cause_that_a_rule_names_has_a_descriptor_and_each_is_named() -> None:
    named = {name for text in TEXTS for name in _NAME.findall(_DESCRIBED.sub("", text))}
    assert named == CAUSES.keys()


def test_no_cause_is_described_twice() -> None:
    described = Counter(name for text in TEXTS for name in _DESCRIBED.findall(text))
    assert described == Counter(CAUSES.keys())


def test_causes_yield_to_others_that_there_are_and_not_in_a_circle() -> None:
    for name, cause in CAUSES.items():
        assert cause.yields_to | cause.contradicts <= CAUSES.keys() - {name}
        assert not any(name in CAUSES[alternative].yields_to for alternative in cause.yields_to)
