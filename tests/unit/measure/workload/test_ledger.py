"""What is lost, torn or damaged is told from what was written and acknowledged."""

from __future__ import annotations

from volbench.measure.workload.crash.crash import recovery_log_lines
from volbench.measure.workload.crash.ledger import LedgerSpec, Writer, judge

SHAPE = LedgerSpec(seed=7, rows_per_commit=3, row_bytes=40)
CUT = 1


def written(*numbers: int, writer: int = 0) -> dict[tuple[int, int], dict[int, bytes]]:
    """Complete transactions of a writer, as they are read back."""
    return {
        (writer, number): {
            piece: SHAPE.payload(CUT, writer, number, piece) for piece in range(SHAPE.rows_per_commit)
        }
        for number in numbers
    }


def client(begun: int, *message: int) -> Writer:
    """A client that was told of some commits, one a second."""
    return Writer(number=0, begun=begun, acknowledged={number: 100.0 + number for number in message})


def test_every_row_has_bytes_of_its_own_and_its_length() -> None:
    rows = {
        SHAPE.payload(1, writer, number, piece) for writer in range(3) for number in range(9) for piece in range(3)
    }
    assert len(rows) == 81
    assert {len(row) for row in rows} == {SHAPE.row_bytes}


def test_nothing_is_lost_when_all_is_there() -> None:
    remaining = judge(SHAPE, CUT, [client(3, 1, 2, 3)], written(1, 2, 3))
    assert (remaining.acknowledged, remaining.lost, remaining.torn, remaining.damaged_rows, remaining.lost_s) == (
        3,
        0,
        0,
        0,
        0.0,
    )


def test_an_acknowledged_commit_that_is_not_there_is_lost_and_time_is_told() -> None:
    remaining = judge(SHAPE, CUT, [client(5, 1, 2, 3, 4)], written(1, 2))
    assert (remaining.lost, remaining.lost_s) == (2, 1.0)
    assert remaining.examples[0] == "lost: transaction 3 of client 0"


def test_a_commit_whose_answer_was_on_its_way_is_no_fault() -> None:
    remaining = judge(SHAPE, CUT, [client(4, 1, 2, 3)], written(1, 2, 3, 4))
    assert (remaining.unacknowledged, remaining.lost, remaining.damaged_rows) == (1, 0, 0)


def test_half_a_transaction_is_torn_and_not_lost() -> None:
    rows = written(1, 2)
    del rows[0, 2][1]
    remaining = judge(SHAPE, CUT, [client(2, 1, 2)], rows)
    assert (remaining.torn, remaining.lost, remaining.unacknowledged) == (1, 0, 0)


def test_other_bytes_than_were_written_are_damage() -> None:
    rows = written(1, 2)
    rows[0, 1][0] = rows[0, 2][0]
    assert judge(SHAPE, CUT, [client(2, 1, 2)], rows).damaged_rows == 1


def test_rows_that_nobody_wrote_are_damage() -> None:
    remaining = judge(SHAPE, CUT, [client(1, 1)], written(1, 9))
    assert (remaining.damaged_rows, remaining.unacknowledged) == (3, 0)


def test_of_a_log_the_lines_of_the_recovery_are_kept() -> None:
    log = "[System] ready\n[Note] InnoDB: Starting crash recovery from checkpoint LSN=1\n[Note] InnoDB: 5 threads\n"
    assert recovery_log_lines(log) == ("[Note] InnoDB: Starting crash recovery from checkpoint LSN=1",)
