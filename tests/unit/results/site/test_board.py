"""The board of packs: what stands side by side, what is marked, what is left away."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import volbench
from synthetic_run import OLTP, Synthetic, SyntheticVolume, build_run

from volbench.errors import EXIT_REFUSED, UsageError
from volbench.results.pack.make import make_pack
from volbench.results.site.board import pack_files, read_board

SLOW = Synthetic(
    volumes=(SyntheticVolume(name="a"), SyntheticVolume(name="b", speed=0.5)), steps=(OLTP,), repeats=3
)
FAST = Synthetic(volumes=(SyntheticVolume(name="x", speed=2),), steps=(OLTP,), repeats=3, seed=9)


@pytest.fixture
def packs(tmp_path: Path) -> Path:
    directory = tmp_path / "packs"
    directory.mkdir()
    for number, run in enumerate((SLOW, FAST)):
        built = build_run(tmp_path / "others", run, run_id=f"20260302T09300{number}Z-synthetic-0a1b2c")
        make_pack(built, directory / f"{number}.volbench.zip", storage_classes={run.volumes[0].name: "ebs-gp3"})
    return directory


def test_figures_of_one_load_are_in_one_table_best_first(packs: Path) -> None:
    board = read_board(pack_files([packs]))
    table = next(table for table in board.tables if table.metric == "tps")
    assert [row.cells for row in table.rows] == [3, 3, 3]
    assert [row.value for row in table.rows] == sorted((row.value for row in table.rows), reverse=True)
    assert {row.storage_class for row in table.rows} == {"ebs-gp3", "ext4, class not stated"}
    latency = next(table for table in board.tables if table.better == "lower")
    assert [row.value for row in latency.rows] == sorted(row.value for row in latency.rows)


def test_a_pack_that_is_given_twice_counts_once(packs: Path) -> None:
    first = packs / "0.volbench.zip"
    board = read_board([first, first])
    assert len(board.packs) == 1
    assert not board.refused


def test_two_packs_of_one_run_that_differ_are_both_left_away(packs: Path, tmp_path: Path) -> None:
    synthetic = Synthetic(volumes=SLOW.volumes, steps=(OLTP,), repeats=3, seed=11)
    built = build_run(tmp_path / "again", synthetic, run_id="20260302T093000Z-synthetic-0a1b2c")
    make_pack(built, packs / "again.volbench.zip")
    board = read_board(pack_files([packs]))
    assert len(board.packs) == 1
    assert sorted(refused.name for refused in board.refused) == ["0.volbench.zip", "again.volbench.zip"]


def test_a_damaged_pack_keeps_no_other_away(packs: Path) -> None:
    (packs / "damaged.volbench.zip").write_bytes(b"PK nothing")
    board = read_board(pack_files([packs]))
    assert len(board.packs) == 2
    assert [refused.name for refused in board.refused] == ["damaged.volbench.zip"]


def test_a_directory_without_packs_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no file"):
        pack_files([tmp_path])


def test_the_commands_make_check_and_show_packs(tmp_path: Path, packs: Path) -> None:
    run = build_run(tmp_path / "results", SLOW, run_id="20260302T100000Z-synthetic-0a1b2c")
    made = volbench("pack", "make", str(run.path), "--out", str(tmp_path / "mine.volbench.zip"), cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert "SHA-256" in made.stdout
    assert "name it with --class a=CLASS" in made.stderr
    checked = volbench("pack", "check", str(tmp_path / "mine.volbench.zip"), "--json", cwd=tmp_path)
    assert json.loads(checked.stdout)[0]["figures_computed_again"] == 30
    (packs / "damaged.volbench.zip").write_bytes(b"PK nothing")
    volbench("report", str(run.path), cwd=tmp_path)
    site = volbench(
        "site", str(tmp_path / "results"), "--out", str(tmp_path / "site"), "--pack", str(packs), cwd=tmp_path
    )
    assert site.returncode == EXIT_REFUSED, site.stderr
    page = (tmp_path / "site" / "board.html").read_text()
    assert "ebs-gp3" in page
    assert "damaged.volbench.zip" in page
    assert "1 note)" in page or "notes)" in page, "a row says that its pack is marked"
    assert "<h2>synthetic, read-write: " in page
    assert "board.html" in (tmp_path / "site" / "index.html").read_text()
