from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from volbench.errors import UsageError
from volbench.results.explain.recordings.directory import explain_recorded

FIXTURES = Path(__file__).parents[4] / "fixtures" / "sar"


def test_the_server_whose_credits_ran_out_is_degraded_and_not_at_a_limit() -> None:
    """Busy at 2 to 10 operations a second of 170 to 1,000 ms: no limit of any volume, whatever its credits."""
    result = explain_recorded(FIXTURES)
    assert [row.cause for row in result.findings] == ["storage.degraded"]
    finding = result.findings[0]
    texts = " ".join(row.text for row in finding.evidence)
    assert "from 14:40:01" in texts
    assert "174 to 998 ms" in texts
    assert "own load adds to it" in texts
    assert "15:40:01" in texts
    assert "outside this host's own load" in finding.advice
    assert finding.volume == "dev202-0"
    assert result.files == {"sar-b-japanese.txt": "sar", "sar-d-japanese.txt": "sar"}


def test_devices_alone_tell_the_same(tmp_path: Path) -> None:
    shutil.copy(FIXTURES / "sar-d-japanese.txt", tmp_path)
    assert [row.cause for row in explain_recorded(tmp_path).findings] == ["storage.degraded"]


def test_the_hours_before_were_fine(tmp_path: Path) -> None:
    lines = (FIXTURES / "sar-d-japanese.txt").read_text().splitlines()
    (tmp_path / "sar.txt").write_text("\n".join(lines[:11]) + "\n")
    result = explain_recorded(tmp_path)
    assert result.findings == ()
    assert any(note.startswith("not enough to acquit the volume: no statement times") for note in result.notes)


def test_credits_in_cloudwatch(tmp_path: Path) -> None:
    """3,000 operations a second until the balance is 0, then 150, with a queue all along."""
    times = [f"2026-01-31T{14 + n // 60:02d}:{n % 60:02d}:00Z" for n in range(80)]
    full = [n < 40 for n in range(80)]
    metrics = {
        "VolumeReadOps": [60 * (3000 if early else 150) + n % 7 for n, early in enumerate(full)],
        "VolumeTotalReadTime": [60 * (8 + n % 5) for n in range(80)],
        "VolumeQueueLength": [8 + n % 5 for n in range(80)],
        "BurstBalance": [max(0.0, 100 - 2.5 * n) for n in range(80)],
    }
    results = [{"Label": name, "Timestamps": times, "Values": values} for name, values in metrics.items()]
    (tmp_path / "cw.json").write_text(json.dumps({"MetricDataResults": results}))
    findings = explain_recorded(tmp_path).findings
    assert findings[0].cause == "storage.burst_exhausted"
    assert "14:40:00" in findings[0].evidence[0].text


def test_a_log_without_a_clock_is_explained_for_itself_beside_files_with_one(tmp_path: Path) -> None:
    shutil.copy(FIXTURES / "sar-d-japanese.txt", tmp_path)
    lines = [
        f"[ {n}s ] thds: 8 tps: 300.00 qps: 6000.00 (r/w/o: 1/1/1) lat (ms,95%): 5.00 err/s: 0.00"
        for n in range(1, 30)
    ]
    (tmp_path / "sysbench.log").write_text("\n".join(lines))
    result = explain_recorded(tmp_path)
    assert [timeline.title for timeline in result.timelines] == ["dev202-0", "sysbench.log"]
    assert any("sysbench.log without times of day (--align" in note for note in result.notes)
    assert [row.cause for row in result.findings] == ["storage.degraded"]


def test_the_client_alone_names_no_cause(tmp_path: Path) -> None:
    lines = [
        f"[ {n}s ] thds: 8 tps: 300.00 qps: 6000.00 (r/w/o: 1/1/1) lat (ms,95%): 5.00 err/s: 0.00"
        for n in range(1, 30)
    ]
    (tmp_path / "sysbench.log").write_text("\n".join(lines))
    result = explain_recorded(tmp_path)
    assert result.findings == ()
    assert any("no counters of the volume" in note for note in result.notes)


def test_nothing_known_is_an_error_that_says_what_would_do(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello\n")
    with pytest.raises(UsageError, match="sar -d"):
        explain_recorded(tmp_path)
    with pytest.raises(UsageError, match="no such"):
        explain_recorded(tmp_path / "absent")
    (tmp_path / "cw.json").write_text('{"MetricDataResults": ')
    with pytest.raises(UsageError, match="looks like cloudwatch"):
        explain_recorded(tmp_path)


def test_of_several_devices_the_one_that_was_taken_is_named() -> None:
    text = FIXTURES.parent / "sysstat-12.6.1" / "sar-all-midnight.txt"
    result = explain_recorded(text)
    assert any("vda is taken for the volume" in note for note in result.notes)
    assert not any("eth0" in row.text for finding in result.findings for row in finding.evidence)
    second = explain_recorded(text, device="loop0")
    assert not any("taken for the volume" in note for note in second.notes)
