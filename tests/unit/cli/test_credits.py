"""`volbench credits`: its JSON, its sentences, its plots, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from volbench.cli.main import app
from volbench.errors import UsageError

GP2 = ("--profile", "ebs-gp2", "--size", "50GiB")


def credits_of(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["credits", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def data_of(*arguments: str) -> dict[str, Any]:
    return dict(json.loads(credits_of(*arguments, "--json")))


def test_the_example_of_the_manual() -> None:
    result = data_of(*GP2, "--iops", "3000")
    assert result["exhausted_after_s"] == 1895
    assert result["refill_s"] == 36000
    assert all(isinstance(result[key], int) for key in ("exhausted_after_s", "refill_s"))
    assert result["exhausted_after_exact_s"] == pytest.approx(5.4e6 / 2850)
    assert result["after"]["iops"] == pytest.approx(150)
    assert result["bucket"]["metric"] == "BurstBalance"


@pytest.mark.parametrize(
    ("size", "exhausted_s", "refill_s"),
    [
        ("33.33GiB", 1862, 54_000),
        ("50GiB", 1895, 36_000),
        ("100GiB", 2000, 18_000),
        ("334GiB", 2703, 5389),
        ("750GiB", 7200, 2400),
        ("1000GiB", None, None),
    ],
)
def test_gp2_of_every_size_in_its_table(size: str, exhausted_s: int | None, refill_s: int | None) -> None:
    result = data_of("--profile", "ebs-gp2", "--size", size, "--iops", "3000")
    assert (result["exhausted_after_s"], result["refill_s"]) == (exhausted_s, refill_s)


def test_a_dba_reads_when_it_ends_what_is_left_and_what_would_do() -> None:
    displayed = credits_of(*GP2, "--iops", "3000", "--dump", "3.6GB", "--window", "4h")
    for piece in (
        "is empty after 31 min 35 s",
        "the volume serves 150 IOPS and 2.34 MiB/s, 5 % of the load",
        "takes 73.2 s with the present credits, and takes 24 min 25 s without credits",
        "never ends",
        "does not fit",
        "ebs-gp2 of 1,000 GiB",
        "ebs-gp3 of 50 GiB",
        "USD a month",
        "100 % |",
    ):
        assert piece in displayed


def test_a_dump_alone_needs_no_load() -> None:
    result = data_of(*GP2, "--dump", "3.6GB", "--io-size", "16KiB", "--window", "20min")
    assert result["dump"]["now"]["alone_s"] == pytest.approx(3.6e9 / 16384 / 3000)
    assert result["dump"]["exhausted"]["alone_s"] == pytest.approx(3.6e9 / 16384 / 150)
    assert (result["dump"]["fits_now"], result["dump"]["fits_exhausted"]) == (True, False)


def test_streams_bound_a_dump_by_latency() -> None:
    alone_s = data_of(*GP2, "--dump", "1GB", "--streams", "1")["dump"]["now"]["alone_s"]
    two = data_of(*GP2, "--dump", "1GB", "--streams", "2")["dump"]["now"]["alone_s"]
    assert alone_s == pytest.approx(2 * two)
    assert alone_s > 1e9 / 16384 / 3000


def test_credits_at_the_start_are_what_is_said() -> None:
    result = data_of(*GP2, "--iops", "3000", "--start-credits", "40%")
    assert result["exhausted_after_s"] == round(0.4 * 5.4e6 / 2850)


def test_throughput_and_iops_tell_the_size_of_a_request() -> None:
    result = data_of(*GP2, "--iops", "100", "--throughput", "100MiB")
    assert result["load"]["read_bytes"] == 2**20
    assert result["exhausted_after_exact_s"] == pytest.approx(5.4e6 / (400 - 150))


@pytest.mark.parametrize("profile", ["ebs-gp3", "efs-elastic", "local-nvme"])
def test_a_profile_without_a_bucket_never_runs_out(profile: str) -> None:
    text = credits_of("--profile", profile, "--iops", "1000")
    assert "has no credit bucket, so its rate never drops. It serves all of this load." in text
    assert "serves all" not in credits_of("--profile", profile, "--iops", "10000000")
    result = data_of("--profile", profile, "--iops", "1000")
    assert (result["exhausted_after_s"], result["refill_s"], result["bucket"]) == (None, None, None)


def test_a_history_with_gaps_has_both_bounds_and_shows_the_gaps(tmp_path: Path) -> None:
    """Half a bucket is spent before the gap and half after: with an idle gap it never runs dry."""
    path = tmp_path / "history.csv"
    lines = [f"{60 * minute},3000" for minute in [*range(1, 21), *range(1001, 1021)]]
    path.write_text("\n".join(["t,iops", *lines]) + "\n")
    result = data_of(*GP2, "--from", str(path))
    assert result["load"]["gaps"] == [[1200.0, 60000.0]]
    assert result["bounds"]["gaps_idle"]["exhausted_after_s"] is None
    assert result["bounds"]["gaps_at_baseline"]["exhausted_after_s"] == 60000 + round(5.4e6 / 2850 - 1200)
    assert result["exhausted_after_s"] == result["bounds"]["gaps_at_baseline"]["exhausted_after_s"]
    displayed = credits_of(*GP2, "--from", str(path))
    assert "The history has gaps of 16 h 20 min" in displayed
    assert "the bucket does not run out" in displayed
    assert "?" in displayed


def test_a_history_that_ends_with_credits_left_says_when_they_would_run_out(tmp_path: Path) -> None:
    """Ten minutes at 3,000 a second spend 2,700 of them each; the rest of 5.4 million lasts 23 minutes."""
    path = tmp_path / "history.csv"
    path.write_text("\n".join(["t,iops", *(f"{60 * minute},3000" for minute in range(1, 11))]) + "\n")
    result = data_of("--profile", "ebs-gp2", "--size", "100GiB", "--from", str(path))
    assert result["exhausted_after_s"] is None
    assert result["ahead"]["after_s"] == pytest.approx(5.4e6 / 2700 - 600)
    displayed = credits_of("--profile", "ebs-gp2", "--size", "100GiB", "--from", str(path))
    assert "If this load continues, volume.credits is empty 23 min 20 s after the end of the history" in displayed


def test_sar_of_the_field_report_contradicts_its_own_load() -> None:
    sar = Path(__file__).parents[2] / "fixtures" / "sar" / "sar-d-japanese.txt"
    displayed = credits_of(*GP2, "--from", str(sar), "--dump", "3.6GB", "--window", "4h")
    assert "does not run out under this load" in displayed
    assert "Requests waited 50 ms or more from 14:40:01 to 16:30:01" in displayed


def test_the_plot_is_one_file_without_network(tmp_path: Path) -> None:
    path = tmp_path / "balance.html"
    credits_of(*GP2, "--iops", "3000", "--plot", str(path))
    text = path.read_text()
    assert "Credit balance of" in text
    assert "<script src=" not in text


@pytest.mark.parametrize(
    ("arguments", "phrases"),
    [
        (["--profile", "ebs-gp", "--iops", "1"], ["unknown volume profile 'ebs-gp'", "perhaps you meant 'ebs-gp"]),
        (["--profile", "ebs-gp2", "--set", "sise=5GiB", "--iops", "1"], ["'sise'", "perhaps you meant 'size"]),
        (["--profile", "ebs-gp2", "--size", "40TiB", "--iops", "1"], ["1 GiB to 16 TiB; given: size=40TiB"]),
        (["--profile", "ebs-gp2", "--size", "50", "--iops", "1"], ["given: size=50", "without a unit is in bytes"]),
        (["--profile", "ebs-gp2", "--size", "-5GiB", "--iops", "1"], ["'-5GiB' is not a size"]),
        ([*GP2, "--iops", "-1"], ["not -1"]),
        ([*GP2, "--iops", "nan"], ["not nan"]),
        ([*GP2], ["there is no load"]),
        ([*GP2, "--iops", "1", "--start-credits", "140%"], ["0 % to 100 %"]),
        ([*GP2, "--iops", "1", "--window", "4h"], ["a window needs a dump"]),
        ([*GP2, "--dump", "0GB"], ["above 0"]),
        ([*GP2, "--dump", "1GB", "--window", "soon"], ["'soon' is not a duration"]),
        ([*GP2, "--iops", "1", "--plot", "x.png"], ["FILE.html"]),
        ([*GP2, "--iops", "1", "--throughput", "1MiB", "--io-size", "4KiB"], ["at most two of"]),
        ([*GP2, "--from", "/nowhere.csv"], ["no such file"]),
        ([*GP2, "--from", "/nowhere.csv", "--iops", "1"], ["no such file"]),
        (["--profile", "efs-bursting", "--instance", "m5.large", "--iops", "1"], ["omit --instance"]),
        ([*GP2, "--instance", "m5.lerge", "--iops", "1"], ["perhaps you meant 'm5.large'"]),
    ],
)
def test_a_wrong_question_is_refused_with_exit_code_2(arguments: list[str], phrases: list[str]) -> None:
    done = CliRunner().invoke(app, ["credits", *arguments])
    assert isinstance(done.exception, UsageError)
    assert done.exception.exit_code == 2
    for phrase in phrases:
        assert phrase in str(done.exception)


@pytest.mark.parametrize(
    ("content", "phrases"),
    [
        (b"\x96\xd5\x75\x21" + bytes(60), ["sar's binary file", "sar -d -b -f history"]),
        (b"12:00:01 DEV  r/x  w/x\n12:10:01 sda 1 2\n", ["nothing here that can be read", "sar -d"]),
        (b'{"MetricDataResults": [], "NextToken": "more"}', ["looks like cloudwatch", "only a first page"]),
        (b'{"MetricDataResults": []}', ["no data points"]),
    ],
)
def test_a_history_that_cannot_be_used_is_told_apart(tmp_path: Path, content: bytes, phrases: list[str]) -> None:
    path = tmp_path / "history"
    path.write_bytes(content)
    done = CliRunner().invoke(app, ["credits", *GP2, "--from", str(path)])
    assert isinstance(done.exception, UsageError), done.output
    for phrase in phrases:
        assert phrase in str(done.exception)


def test_efs_s_balance_in_bytes_is_where_the_forecast_begins(tmp_path: Path) -> None:
    """2.1 TiB of credits at first; CloudWatch saw a tenth of that, and 200 MiB/s of reads."""
    times = [f"2026-01-31T14:{minute:02}:00Z" for minute in range(20)]
    metrics = {"DataReadIOBytes": 200 * 60 * 2**20, "DataWriteIOBytes": 0, "BurstCreditBalance": 0.21 * 2**40}
    answer = [{"Label": name, "Timestamps": times, "Values": [value] * 20} for name, value in metrics.items()]
    path = tmp_path / "efs.json"
    path.write_text(json.dumps({"MetricDataResults": answer}))
    result = data_of("--profile", "efs-bursting", "--size", "100GiB", "--from", str(path), "--io-size", "64KiB")
    assert result["bucket"]["start"] == pytest.approx(0.1 * result["bucket"]["capacity"], rel=0.01)


def test_unsorted_times_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "history.csv"
    path.write_text("t,iops\n60,4\n50,3\n")
    done = CliRunner().invoke(app, ["credits", *GP2, "--from", str(path)])
    assert isinstance(done.exception, UsageError)
    assert "point 2 is at 50 s, after 60 s" in str(done.exception)


def test_a_profile_of_one_s_own_is_named_by_its_path(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "suites/volumes/ebs-gp2.yaml").read_text()
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace("name: ebs-gp2", "name: mine"))
    result = data_of("--profile", str(path), "--size", "50GiB", "--iops", "3000")
    assert result["exhausted_after_s"] == 1895
    own = next(alternative for alternative in result["alternatives"] if alternative["profile"] == "mine")
    assert own["options"] == {"size": "1000GiB"}
    assert "mine of 1,000 GiB: no price known" in credits_of(
        "--profile", str(path), "--size", "50GiB", "--iops", "3000"
    )


def test_a_window_of_the_day_takes_a_part_of_the_history() -> None:
    sar = Path(__file__).parents[2] / "fixtures" / "sar"
    total = data_of(*GP2, "--from", str(sar))
    section = data_of(*GP2, "--from", str(sar), "--window", "15:00-16:00")
    assert "19 points" in json.dumps(total)
    assert "6 points" in json.dumps(section)
    with pytest.raises(UsageError, match="nothing of this window"):
        data_of(*GP2, "--from", str(sar), "--window", "01:00-02:00")


def test_a_larger_volume_does_not_help_where_the_instance_holds_the_load_back() -> None:
    """m5.large keeps 3,600 operations a second: no volume makes 5,000 of them last."""
    displayed = credits_of(*GP2, "--instance", "m5.large", "--iops", "5000")
    assert "never throttles" not in displayed
    assert "the limits of m5.large do, on any volume" in " ".join(displayed.split())
    assert "that never throttles this load" in " ".join(credits_of(*GP2, "--iops", "5000").split())


def test_a_cap_says_which_operations_it_counts() -> None:
    """A volume that merges sequential requests serves more of them than `at most 500 IOPS`."""
    displayed = credits_of("--profile", "ebs-st1", "--size", "500GiB", "--iops", "1250", "--sequential")
    assert "at most 500 IOPS of up to 1 MiB each (sequential ones count by their bytes)" in displayed
