"""Counters of an EBS volume as its CSI driver exposes them; the text is written from the driver's documentation."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from volbench.machine.volume.facts.ebs_csi import ebs_volume_id
from volbench.measure.sample.device.ebs_csi import EbsCsiSampler
from volbench.measure.sample.interface import Reading
from volbench.measure.sample.parsers.ebs_csi import parse_exposition

TEXT = (Path(__file__).parents[3] / "fixtures" / "sample" / "ebs-csi-metrics.txt").read_text()
VOLUME = "vol-0123456789abcdef0"


@contextmanager
def driver(answers: list[str], status: int = 200) -> Iterator[str]:
    """Tells one text after the other, the last for ever; yields where."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = (answers.pop(0) if len(answers) > 1 else answers[0]).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/metrics"
        finally:
            server.shutdown()
            thread.join()


def test_counters_of_one_volume_are_told_from_the_others() -> None:
    """Under the log page's names, seconds as microseconds; histograms and the collector's own are passed over."""
    assert parse_exposition(TEXT, VOLUME) == {
        (name, VOLUME): pytest.approx(value)
        for name, value in {
            "reads": 55592,
            "writes": 881245,
            "read_bytes": 1782579200,
            "write_bytes": 28311552000,
            "read_us": 34.52e6,
            "write_us": 1032.25e6,
            "volume_exceeded_iops_us": 12.5e6,
            "volume_exceeded_throughput_us": 3e6,
            "instance_exceeded_iops_us": 0,
            "instance_exceeded_throughput_us": 0.25e6,
            "queue_length": 4,
        }.items()
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TEXT, "nothing of volume vol-other, but of vol-0123456789abcdef0, vol-0fedcba9876543210"),
        ("", "no volume at all"),
        ("go_goroutines 3\n", "no volume at all"),
        ("<html>not found</html>\n", "invalid metric name"),
        ('aws_ebs_csi_read_ops_total{volume_id="vol-other"} NaN\n', "no volume at all"),
    ],
)
def test_what_does_not_tell_of_the_volume_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_exposition(text, "vol-other")


def test_two_readings_become_rates_and_shares_of_time() -> None:
    """Two seconds apart; one of them above the volume's IOPS."""
    later = TEXT.replace("} 55592", "} 55692").replace("} 12.5", "} 13.5").replace("} 34.52", "} 34.62")
    with driver([TEXT, TEXT, later]) as url:
        sampler = EbsCsiSampler(url, VOLUME)
        assert sampler.probe().present
        first, second = sampler.read(), sampler.read()
        sampler.close()
    values = {
        row.metric: row.value
        for row in EbsCsiSampler.rates(Reading(t_s=1.0, values=first), Reading(t_s=3.0, values=second))
    }
    assert values["reads_per_s"] == pytest.approx(50)
    assert values["r_await_ms"] == pytest.approx(1)
    assert values["volume_exceeded_iops_ratio"] == pytest.approx(0.5)
    assert values["writes_per_s"] == 0
    assert "w_await_ms" not in values, "no write, no time of one"


def test_a_driver_that_cannot_be_asked_is_absent_with_a_reason() -> None:
    assert "--target-option ebs_csi" in EbsCsiSampler("", VOLUME).probe().reason
    with driver(["no\n"], status=404) as url:
        assert "404" in EbsCsiSampler(url, VOLUME).probe().reason
        assert "no EBS volume" in EbsCsiSampler(url, "").probe().reason
    assert "refused" in EbsCsiSampler(url, VOLUME).probe().reason, "it has ended"


def test_an_ebs_volume_is_known_by_its_serial_number(tmp_path: Path) -> None:
    """As the NVMe controller tells it, without the dash; other disks are no EBS volumes."""
    for disk, serial in (("nvme1n1", "vol0123456789abcdef0"), ("nvme2n1", "AWS22A4E8CD2C3F3A6A2")):
        (tmp_path / disk / "device").mkdir(parents=True)
        (tmp_path / disk / "device" / "serial").write_text(f"{serial}\n")
    assert ebs_volume_id("nvme1n1", tmp_path) == VOLUME
    assert ebs_volume_id("nvme2n1", tmp_path) == ebs_volume_id("sda", tmp_path) == ebs_volume_id(None) == ""
