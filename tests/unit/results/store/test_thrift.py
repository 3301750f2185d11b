"""Thrift's structs: a layout that was learnt reads what the decoder reads, of bytes of all kinds."""

from __future__ import annotations

import random

import pytest

from volbench.results.store import thrift
from volbench.results.store.thrift import BadMetadata, Fields, Structs, ThriftStruct

FIELDS: Fields = {1: {}, 3: {2: {}, 5: {1: {}}}, 4: {}}


def varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes([*encoded, number])


def struct(numbers: list[int], text: bytes) -> bytes:
    """A struct with wanted and other numbers, a text, a list of structs, booleans and a nested struct."""
    one, two, three = (varint(2 * number) for number in numbers)
    inner = (
        b"\x16" + one + b"\x16" + two + b"\x18" + varint(len(text)) + text + b"\x21\x1c\x16" + three + b"\x00\x00"
    )
    return (
        b"\x16" + one + b"\x18" + varint(len(text)) + text + b"\x19\x2c" + inner + inner + b"\x15" + two + b"\x00"
    )


def read(structs: Structs, data: bytes) -> ThriftStruct | str:
    try:
        return structs.read(data, 0)
    except BadMetadata as error:
        return str(error)


@pytest.mark.parametrize("is_remainder_wanted", [False, True])
def test_what_was_learnt_reads_as_the_decoder_does(
    monkeypatch: pytest.MonkeyPatch, *, is_remainder_wanted: bool
) -> None:
    """Same layout with other numbers, other layouts, and each with bytes changed, cut and added at random."""
    learning = Structs(FIELDS, is_remainder_wanted=is_remainder_wanted)
    rng = random.Random(7)
    by_layout = 0
    for _ in range(4_000):
        numbers = [rng.choice([0, 5, 63, 64, 300, 2**40]) for _ in range(3)]
        data = bytearray(struct(numbers, bytes(rng.randrange(256) for _ in range(rng.choice([0, 2, 7])))))
        for _ in range(rng.choice([0, 0, 1, 2])):
            place = rng.randrange(len(data))
            data[place : place + rng.randrange(2)] = bytes(rng.randrange(256) for _ in range(rng.randrange(3)))
        with monkeypatch.context() as patched:
            patched.setattr(thrift, "_LEARNT_MAX", 0)
            expected = read(Structs(FIELDS, is_remainder_wanted=is_remainder_wanted), bytes(data))
        decoded = learning._decoded
        assert read(learning, bytes(data)) == expected
        by_layout += not isinstance(expected, str) and learning._decoded == decoded
    assert by_layout > 400


def test_a_remainder_has_all_that_is_not_wanted() -> None:
    """Numbers that are wanted are not in it, so that files of one kind have one."""
    structs = Structs(FIELDS, is_remainder_wanted=True)
    remainders = {structs.read(struct([number, 1, number], b"ab"), 0).remainder for number in range(40)}
    assert remainders == {b"\x18\x02ab"}
    assert structs.read(struct([1, 1, 1], b"xy"), 0).remainder == b"\x18\x02xy"
