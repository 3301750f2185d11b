"""The short way to a fingerprint, by a statement's plain numbers and strings, is the long way's."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from volbench.workload.replay import fingerprint as module
from volbench.workload.replay.fingerprint import fingerprint

PARTS = [
    "select ", "'a'", "'12'", "12", " 1.5", "-3", "x'0f'", "0x1f", "t1", "1e5", ".5", ",", " ", "(", ")", "'it",
    "'", "=", "in (1,2,3)", "values (1,'x'),(2,'y')", "_utf8'a'", "n'x'", "a.1", "1a", "'-", "5'", "1 -2", "-", ";",
    "\n", "é", "1.", "e+3", "''", '"', "`", "\\", "#", "-- ", "/*", "*/",
]  # fmt: skip


@settings(max_examples=2000)
@given(st.lists(st.sampled_from(PARTS), max_size=9).map("".join))
def test_the_short_way_gives_the_same(sql: str) -> None:
    assert fingerprint(sql) == module._fingerprint(sql)


def test_an_identifier_in_another_character_set_is_shown_as_utf_8() -> None:
    assert fingerprint("SELECT \udce9 FROM t") == "select ? from t"
