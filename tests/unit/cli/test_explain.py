from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from synthetic_run import build_run, two_volumes
from typer.testing import CliRunner

from volbench.cli.main import app
from volbench.core.records.steps.oltp import OltpStep
from volbench.errors import UsageError

SAR = Path(__file__).parents[2] / "fixtures" / "sar"


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["explain", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_a_run_is_explained_volume_by_volume(tmp_path: Path) -> None:
    """Volume a stalls for five seconds in the load, b does not."""
    steps = (OltpStep(name="load", warmup_s=10, duration_s=60),)
    directory = build_run(tmp_path, two_volumes(steps=steps, repeats=2))
    text = invoke(str(directory.path))
    a, b = text.split("b, load")
    assert "a, load" in a
    assert "storage.stall" in a
    assert "no transaction finished and the volume completed nothing for 5 s" in a
    assert "found in 2 of 2 cells" in a
    assert "storage.stall" not in b


def test_json_has_the_rows_of_a_report(tmp_path: Path) -> None:
    directory = build_run(
        tmp_path, two_volumes(steps=(OltpStep(name="load", warmup_s=10, duration_s=60),), repeats=1)
    )
    document = json.loads(invoke(str(directory.path), "--json"))
    stall = next(row for row in document["findings"] if row["cause"] == "storage.stall")
    assert (stall["volume"], stall["step"]) == ("a", "load")
    assert stall["evidence"][0]["unit"] == "s"
    assert {note["volume"] for note in document["notes"]} == {"a", "b"}


def test_what_others_recorded() -> None:
    text = invoke("--from", str(SAR))
    assert "storage.degraded" in text
    assert "1 could not be made" in text  # how long queries waited for it
    assert "in recordings of sar and iostat" in text
    assert "when: 14:40:01 to" in text
    assert json.loads(invoke("--from", str(SAR), "--json"))["findings"][0]["cause"] == "storage.degraded"


@pytest.fixture
def credits_gone(tmp_path: Path) -> Path:
    """One directory with sar of the host and CloudWatch of its volume: other clocks, intervals and time zones."""
    for name in ("sar-b-japanese.txt", "sar-d-japanese.txt"):
        shutil.copy(SAR / name, tmp_path)
    shutil.copy(SAR.parent / "cloudwatch" / "gp2-credit-exhaustion.json", tmp_path)
    return tmp_path


@pytest.mark.parametrize("zone", [[], ["--timezone", "Asia/Tokyo"], ["--timezone", "+09:00"]])
def test_credits_that_a_foreigner_spent(credits_gone: Path, zone: list[str]) -> None:
    """When they ran out, and that the load came from elsewhere: neither file tells it alone."""
    document = json.loads(invoke("--from", str(credits_gone), "--json", *zone))
    empty, shared = document["findings"]
    assert empty["cause"] == "storage.burst_exhausted"
    assert empty["evidence"][0]["text"] == "the burst credits ran out at 14:40:00, and stayed at 0 %"
    assert empty["clock"][0] == "14:40:00"
    assert shared["cause"] == "interference.shared_volume"
    assert shared["clock"][0] == "14:00:01"
    assert (
        "reads/s, at times 2,397, that this host never sent; this host sent 1.02/s" in shared["evidence"][0]["text"]
    )
    assert shared["evidence"][1]["value"] > 0.9
    assert any("UTC+09:00" in note or "times are of" in note for note in document["notes"])


def test_the_dump_of_that_night_takes_27_hours(credits_gone: Path) -> None:
    arguments = ["--profile", "ebs-gp2", "--size", "50GiB", "--from", str(credits_gone), "--dump", "3.6GB"]
    result = CliRunner().invoke(app, ["credits", *arguments], catch_exceptions=False)
    text = " ".join(result.stdout.split())
    assert "at that speed the dump takes 26 h 51 min" in text
    assert "The recorded balance is empty from 14:40:00 on: I/O that this device's counters do not show" in text
    assert "model differ by" not in text


def test_a_window_is_compared_with_the_time_before_it() -> None:
    text = invoke("--from", str(SAR), "--window", "14:45-16:30", "--device", "dev202-0")
    assert "before against 14:45:00 to 16:30:00:" in text
    assert "- waiting time " in text
    document = json.loads(invoke("--from", str(SAR), "--window", "14:45-16:30", "--json"))
    assert document["compared"]["clock"] == ["14:45:00", "16:30:00"]
    assert document["findings"][0]["clock"][0] >= "14:40:00"
    waiting = document["compared"]["levels"][0]
    assert waiting["during"] > 100 * waiting["before"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", str(SAR), "--window", "02:00-03:00"], "nothing of this window"),
        (["--from", str(SAR), "--window", "soon"], "no window of the day"),
        (["--from", str(SAR), "--device", "sdz"], "no device 'sdz'"),
        (["results/x", "--window", "14:00-15:00"], "apply to recordings"),
        (["results/x", "--timezone", "Asia/Tokyo"], "apply to recordings"),
        (["--from", str(SAR.parent / "cloudwatch"), "--timezone", "Mars/Olympus"], "time zone is not known"),
    ],
)
def test_windows_and_devices_that_are_not_there(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        CliRunner().invoke(app, ["explain", *arguments], catch_exceptions=False)


@pytest.mark.parametrize("arguments", [[], ["results/x", "--from", "y"]])
def test_one_of_both_is_needed(arguments: list[str]) -> None:
    with pytest.raises(UsageError, match="either"):
        CliRunner().invoke(app, ["explain", *arguments], catch_exceptions=False)


def test_another_volume_is_predicted_or_the_reason_is_said(tmp_path: Path) -> None:
    """Synthetic runs have no statement times: nothing is predicted from them, and that is said."""
    directory = build_run(tmp_path, two_volumes(steps=(OltpStep(name="load"),), repeats=1))
    text = invoke(str(directory.path), "--what-if", "ebs-gp3?iops=6000")
    assert "on ebs-gp3?iops=6000 with 8 threads: cannot be predicted: no statement times" in text
    rows = json.loads(invoke(str(directory.path), "--what-if", "ebs-gp2?size=100GiB", "--json"))["what_if"]
    assert {(row["spec"], row["tps"]) for row in rows} == {("ebs-gp2?size=100GiB", None)}


@pytest.mark.parametrize(
    ("spec", "message"),
    [("ebs-gp7", "perhaps you meant"), ("efs-elastic", "only block volumes"), ("nfs:x:/y", "name")],
)
def test_a_volume_that_cannot_be_predicted_is_refused(spec: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        CliRunner().invoke(app, ["explain", "results/x", "--what-if", spec], catch_exceptions=False)
    assert message in str(refused.value)
