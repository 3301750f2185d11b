"""`volbench recommend`: one server in sentences, several as a table, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
import synthetic_observation
import synthetic_run
from typer.testing import CliRunner

from volbench.cli.main import app
from volbench.errors import EXIT_UNDECIDED, Undecided, UsageError
from volbench.results.store.run_directory import RUN_FILE


def recommended(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["recommend", *arguments], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.stdout


def history(path: Path, iops: float, hours: int = 6) -> Path:
    rows = [f"{60 * (index + 1)},{iops},{iops / 64}" for index in range(60 * hours)]
    path.write_text("\n".join(["t,iops,mib_per_s", *rows]))
    return path


def test_one_server_is_told_in_sentences_with_price_check_and_settings(tmp_path: Path) -> None:
    output = recommended(str(history(tmp_path / "db1.csv", 2000)), "--p95", "20ms", "--size", "100GiB")
    assert "Buy ebs-gp3?size=100GiB&iops=3000&throughput=125 (8.00 USD a month" in output
    assert "Check by second by second: holds" in output
    assert "It is the cheapest" in output
    assert "innodb_io_capacity" in output
    assert "read 2026-11" in output


def test_a_fleet_is_a_table_in_which_a_server_that_cannot_be_read_has_its_reason(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet"
    fleet.mkdir()
    history(fleet / "db1.csv", 2000)
    history(fleet / "db2.csv", 7000)
    (fleet / "db3.csv").write_text("nothing")
    arguments = ("--fleet", "--p95", "20ms", "--size", "100GiB", "--size", "db2=1TiB")
    text = recommended(str(fleet), *arguments, "-o", "csv", code=EXIT_UNDECIDED)
    rows = {row["server"]: row for row in csv.DictReader(io.StringIO(text))}
    assert set(rows) == {"db1", "db2", "db3"}
    assert "size=1024GiB" in rows["db2"]["volume"]
    assert float(rows["db1"]["price"]) < float(rows["db2"]["price"])
    assert rows["db3"]["answer"] == "refused"
    assert rows["db3"]["reason"]
    assert rows["db1"]["prices_dated"]


def test_a_damaged_run_in_a_fleet_is_one_row_with_its_reason(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet"
    (fleet / "db2").mkdir(parents=True)
    history(fleet / "db1.csv", 2000)
    (fleet / "db2" / RUN_FILE).write_text("{")
    arguments = ("--fleet", "--p95", "20ms", "--size", "100GiB", "-o", "csv")
    text = recommended(str(fleet), *arguments, code=EXIT_UNDECIDED)
    rows = {row["server"]: row for row in csv.DictReader(io.StringIO(text))}
    assert rows["db1"]["volume"]
    assert (rows["db2"]["answer"], rows["db2"]["volume"]) == ("refused", "")
    assert rows["db2"]["reason"]


def test_a_size_of_a_server_that_is_not_asked_about_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    """Else the server would be told the volume for the general size."""
    source = str(history(tmp_path / "db1.csv", 2000))
    with pytest.raises(UsageError) as refusal:
        recommended(source, "--p95", "20ms", "--size", "100GiB", "--size", "bd1=2TiB")
    assert "bd1" in refusal.value.what
    assert "db1" in refusal.value.next_step


def test_streams_shorten_a_backup_whose_size_is_the_volumes(tmp_path: Path) -> None:
    source = str(history(tmp_path / "db1.csv", 100))
    asked = ("--size", "100GiB", "--backup-window", "100h", "--profile", "ebs-gp3", "--json")

    def backup_s(*streams: str) -> float:
        answer = json.loads(recommended(source, *asked, *streams))["servers"][0]
        (chance,) = answer["chosen"]["parts"]
        return float(chance["value"])

    assert backup_s("--streams", "2") == pytest.approx(backup_s() / 2, rel=0.01)


def test_json_has_every_part_of_the_answer(tmp_path: Path) -> None:
    source = str(history(tmp_path / "db1.csv", 2000))
    answer = json.loads(recommended(source, "--p95", "20ms", "--size", "100GiB", "--json"))["servers"][0]
    assert answer["answer"] == "cheapest"
    assert answer["chosen"]["checks"][0]["keeps"] is True
    assert answer["prices"]["dated"]


def test_an_observation_is_about_its_statements_or_says_what_it_lacks(tmp_path: Path) -> None:
    synthetic_observation.build(tmp_path / "seen", 120, lambda _: (400.0, 2.0, 1.0))
    output = recommended(str(tmp_path / "seen"), "--p95", "20ms", "--size", "100GiB", code=0)
    assert "Buy " in output


def test_a_run_without_costs_is_refused_with_the_reason(tmp_path: Path) -> None:
    run = synthetic_run.build_run(tmp_path, synthetic_run.two_volumes())
    with pytest.raises(Undecided) as refusal:
        recommended(str(run.path), "--p95", "20ms", "--size", "100GiB")
    assert "says nothing about another volume" in str(refusal.value)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--size", "100GiB"),
        ("--size", "100GiB", "--p95", "soon"),
        ("--size", "much", "--p95", "20ms"),
        ("--size", "0GiB", "--p95", "20ms"),
        ("--size", "100GiB", "--p95", "0ms"),
        ("--size", "other=100GiB", "--p95", "20ms"),
        ("--size", "100GiB", "--p95", "20ms", "--profile", "ceph-rbd"),
        ("--size", "100GiB", "--p95", "20ms", "--backup", "10GiB"),
        ("--size", "100GiB", "--p95", "20ms", "--step", "load"),
        ("--size", "100GiB", "--recovery", "60s"),
        ("--size", "100GiB", "--size", "200GiB", "--p95", "20ms"),
        ("--size", "db1=100GiB", "--size", "db1=200GiB", "--p95", "20ms"),
        ("--size", "100GiB", "--p95", "20ms", "--streams", "4"),
    ],
)
def test_bad_input_is_one_message(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        recommended(str(history(tmp_path / "db1.csv", 2000)), *arguments)


def test_a_source_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such run"):
        recommended(str(tmp_path / "none"), "--p95", "20ms", "--size", "1GiB")
    with pytest.raises(UsageError, match="fleet"):
        recommended(str(tmp_path / "none"), "--fleet", "--p95", "20ms", "--size", "1GiB")
