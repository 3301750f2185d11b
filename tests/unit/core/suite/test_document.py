"""The one loader of YAML: bounded, with a line for every fault, and no exception but UsageError."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from volbench.core.profile.resolve import resolve
from volbench.core.suite import document
from volbench.core.suite.document import parse_document, set_value
from volbench.core.suite.load import load_suite
from volbench.core.suite.policy import load_policy
from volbench.core.suite.validation import load_validation_plan
from volbench.errors import UsageError
from volbench.results.credits.prices import load_prices

DEEP_FLOW = "a: " + "[" * 3000 + "]" * 3000
DEEP_BLOCK = "".join(f"{' ' * level}a:\n" for level in range(900))
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{below}'] * 9)}]\n" for below, name in zip("abcdefgh", "bcdefghi", strict=True)
)
LONG_TEXT_BOMB = f"a: &a {'x' * 900_000}\nb: [{','.join(['*a'] * 9000)}]\n"
LONG_KEY_BOMB = f"a: &a\n  ? {'k' * 900_000}\n  : 1\nb: [{','.join(['*a'] * 9000)}]\n"
ALIAS_CHAIN = "a: &a0 [x]\n" + "".join(f"k{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 3000))

UNBOUNDED = pytest.mark.parametrize(
    "text", [DEEP_FLOW, BOMB, "x" * (document.TEXT_BYTES_MAX + 1)], ids=["deep", "bomb", "long"]
)


def fault_of(text: str) -> str:
    with pytest.raises(UsageError) as caught:
        parse_document(text, name="s.yaml")
    assert caught.value.exit_code == 2
    return str(caught.value)


@pytest.mark.parametrize("text", [DEEP_FLOW, DEEP_BLOCK, ALIAS_CHAIN, "a: &a [*a]", "a: &a {b: *a}"])
def test_a_document_nested_too_deep_is_refused(text: str) -> None:
    assert "nested" in fault_of(text)


@pytest.mark.parametrize("text", [BOMB, LONG_TEXT_BOMB, LONG_KEY_BOMB], ids=["nodes", "characters", "keys"])
def test_aliases_that_expand_to_too_much_are_refused_at_once(text: str) -> None:
    started = time.process_time()
    assert "alias" in fault_of(text)
    assert time.process_time() - started < 10


def test_a_document_beyond_the_size_limit_is_refused() -> None:
    assert "at most" in fault_of("a: " + "x" * document.TEXT_BYTES_MAX)


@pytest.mark.parametrize(
    "load", [load_suite, load_policy, load_validation_plan, load_prices], ids=["suite", "policy", "plan", "prices"]
)
@UNBOUNDED
def test_every_reader_of_yaml_is_bounded(tmp_path: Path, load, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A smaller bound than theirs shows as well that all have it."""
    monkeypatch.setattr(document, "NODES_MAX", 1000)
    path = tmp_path / "given.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"given\.yaml"):
        load(path)


@UNBOUNDED
def test_a_volume_profile_is_bounded(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"mine\.yaml"):
        resolve(str(path))


def test_a_stream_without_an_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    endless = tmp_path / "endless.yaml"
    endless.symlink_to("/dev/zero")
    with pytest.raises(UsageError, match="regular file"):
        load_suite(endless)


def test_a_pipe_without_a_writer_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(UsageError, match="regular file"):
        load_suite(tmp_path / "pipe.yaml")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("b: 1\na: " + "9" * 5000, "s.yaml:2"),
        ("b: 1\na: 0x" + "f" * 5000, "64 bits"),
        ("a: !!int foo", "s.yaml:1"),
        ("a: !!float foo", "s.yaml:1"),
        ("a: !!omap [a: 1]", "s.yaml:1"),
        ("a: !!python/object:os.system x", "s.yaml:1"),
        ("a: !mine {b: 1}", "s.yaml:1"),
        ("a: 2026-13-45", "s.yaml:1"),
        ('a: "\\ud800"', "s.yaml:1"),
        ('a: "\\U00110000"', "s.yaml"),
        ("a: .inf", "finite"),
        ("a: .nan", "finite"),
        ("? [a, b]\n: 1", "key"),
        ("1: a\n'1': b", "duplicate"),
        ("a: 1\na: 2", "duplicate"),
        ("a: {x: 1}\nb: {<<: {x: 1}, y: 2}", "<<"),
        ("a: 1\n---\nb: 2", "another document"),
        ("- a", "mapping"),
        ("", "mapping"),
        ("a: *nobody", "undefined alias"),
    ],
)
def test_a_fault_is_a_message_with_its_line(text: str, fault: str) -> None:
    assert fault in fault_of(text)


def test_an_anchor_that_is_used_twice_is_the_same_value_twice() -> None:
    document = parse_document("a: &x [1, 2]\nb: *x\nc: &x 3\nd: *x\n", name="s.yaml")
    assert document.data == {"a": [1, 2], "b": [1, 2], "c": 3, "d": 3}
    assert document.origin(("b",)) == "s.yaml:2"


def test_scalars_are_those_of_yaml_1_2() -> None:
    text = "a: yes\nb: true\nc: 0o17\nd: 0x1F\ne: 1e3\nf: ~\ng: 1_000\nh: -0.5\ni: '1'\nj: 1:30\n"
    assert parse_document(text, name="s.yaml").data == {
        "a": "yes",
        "b": True,
        "c": 15,
        "d": 31,
        "e": 1000.0,
        "f": None,
        "g": 1000,
        "h": -0.5,
        "i": "1",
        "j": "1:30",
    }


def test_a_value_of_set_goes_through_the_same_loader() -> None:
    document = parse_document("a: 1\n", name="s.yaml")
    assert set_value(document, "a=[1, 2]").data == {"a": [1, 2]}
    assert set_value(document, "a=").data == {"a": None}
    for value in ("[" * 3000, "2026-13-45", "!!int x", "&a [*a]", "9" * 5000, ".inf"):
        with pytest.raises(UsageError, match="--set"):
            set_value(document, f"a={value}")
    with pytest.raises(UsageError, match="nested"):
        set_value(document, f"{'.'.join('a' * 3000)}=1")


def test_a_misspelled_step_is_named_with_the_nearest() -> None:
    document = parse_document("steps: [{kind: oltp, name: read-write}, {kind: cold_read}]\n", name="s.yaml")
    with pytest.raises(UsageError, match="no element is called 'readwrite'") as raised:
        set_value(document, "steps.readwrite.duration=8s")
    assert raised.value.evidence == "there are: 0..1, read-write, cold_read"
    assert raised.value.next_step == "perhaps you meant 'read-write'"


STEPS = "schema: 2\nsteps:\n  - {kind: a}\n  - {kind: b, name: cut}\n  - {kind: c}\n"


def test_null_leaves_a_step_out_and_lines_of_later_ones_stay() -> None:
    shorter = set_value(parse_document(STEPS, name="s.yaml"), "steps.cut=null")
    assert [step["kind"] for step in shorter.data["steps"]] == ["a", "c"]
    assert shorter.origin(("steps", 0, "kind")) == "s.yaml:3"
    assert shorter.origin(("steps", 1, "kind")) == "s.yaml:5"
    assert shorter.origin(("steps", 2)) == "s.yaml:2"  # of the list: there is no such step any more


def test_a_step_that_is_not_there_is_not_left_out() -> None:
    with pytest.raises(UsageError, match="no element is called 'cuts'") as caught:
        set_value(parse_document(STEPS, name="s.yaml"), "steps.cuts=null")
    assert "cut" in caught.value.next_step


def test_null_is_the_value_of_a_key_that_is_in_no_list() -> None:
    document_set = set_value(parse_document(STEPS, name="s.yaml"), "steps.0.rate=null")
    assert document_set.data["steps"][0] == {"kind": "a", "rate": None}
