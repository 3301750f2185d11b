"""Every number that `credits` prints of a gp2 volume, against a count of seconds that knows nothing of volbench."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from raw_credits import BUCKET, MIB, Gp2, Outcome, over_history
from typer.testing import CliRunner

from sentences import NUMBER, plain, value_of
from volbench.cli.main import app

SECONDS = {"s": 1, "min": 60, "h": 3600, "days": 86_400}
TIME = r"[\d,.]+ (?:days|h|min|s)(?: \d+ (?:min|s))?"
LOADS = [
    # GiB, requests a second, bytes of a request, start
    (50, 1250.0, 16 << 10, 1.0),
    (50, 80.0, 16 << 10, 1.0),
    (100, 3000.0, 16 << 10, 1.0),
    (334, 2500.0, 16 << 10, 1.0),
    (500, 20_000.0, 16 << 10, 1.0),
    (50, 800.0, 256 << 10, 1.0),
    (200, 2000.0, 64 << 10, 0.4),
    (50, 600.0, 16 << 10, 0.1),
]


def seconds_of(text: str) -> float:
    return sum(value_of(value) * SECONDS[unit] for value, unit in re.findall(r"([\d,.]+) (days|h|min|s)\b", text))


def near(stated: str, value: float) -> bool:
    """Within half of the last of three digits; whole figures exactly."""
    return value_of(stated) == pytest.approx(value, rel=0.0051)


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["credits", "--profile", "ebs-gp2", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return plain(result.stdout.split("\n\nbalance of")[0])


@pytest.mark.parametrize(("gib", "iops", "io_bytes", "start"), LOADS)
def test_every_number_of_a_forecast_is_counted_anew(gib: int, iops: float, io_bytes: int, start: float) -> None:
    volume = Gp2(gib=gib, io_bytes=io_bytes)
    text = printed(
        *("--size", f"{gib}GiB", "--iops", f"{iops:g}", "--io-size", f"{io_bytes >> 10}KiB"),
        *("--start-credits", f"{start:.0%}"),
    )
    about, remainder = text.split("\n", 1)
    checks = _of_the_volume(about, volume) + _of_the_load(remainder, volume, iops, start)
    left = re.sub(r"Prices are .*", "", _without_prices(remainder, volume, iops))
    for check in checks:
        left = left.replace(check, "")
    assert not NUMBER.search(re.sub(r"ebs-\w+", "", left)), left


def _of_the_volume(about: str, volume: Gp2) -> list[str]:
    match = re.fullmatch(
        r"ebs-gp2 of (?P<gib>\d+) GiB: at most (?P<cap>[\d,]+) IOPS of up to 256 KiB each .*, (?P<mib>\d+) MiB/s; "
        r"volume.credits has a capacity of (?P<bucket>[\d,]+) I/O credits and earns (?P<earns>[\d,]+) IOPS "
        rf"\(full again after (?P<refill>{TIME}) without load\).",
        about,
    )
    assert match is not None, about
    assert int(match["gib"]) == volume.gib
    assert value_of(match["cap"]) == max(3000.0, volume.earns)
    assert value_of(match["mib"]) == volume.mib_per_s
    assert value_of(match["bucket"]) == BUCKET
    assert near(match["earns"], volume.earns)
    assert seconds_of(match["refill"]) == pytest.approx(BUCKET / volume.earns, abs=31)
    return [match[0]]


def _of_the_load(text: str, volume: Gp2, iops: float, start: float) -> list[str]:
    outcome = re.search(
        rf"volume.credits, (?P<start>\d+) % full at first, is empty after (?P<after>{TIME})\.", text
    )
    served = re.search(r"the volume serves ([\d,.]+) IOPS and ([\d,.]+) MiB/s, ([\d.]+) % of the load\.", text)
    endless = re.search(
        r"(?P<start>\d+) % full at first, does not run out .* lowest balance is (?P<low>\d+) %", text
    )
    capped = re.search(
        r"The load exceeds the volume's limits(, also while credits last)?: ([\d.]+) % of it is served\.", text
    )
    empty_s = volume.empty_after_s(iops, start)
    assert (outcome is None) == (empty_s is None)
    assert (served is None) == (empty_s is None)
    assert (endless is None) != (empty_s is None)
    assert (capped is None) == (iops <= volume.cap)
    if outcome is not None and served is not None and empty_s is not None:
        assert value_of(outcome["start"]) == 100 * start
        assert seconds_of(outcome["after"]) == pytest.approx(empty_s, abs=31 if empty_s > 5400 else 1.1)
        assert near(served[1], volume.earns)
        assert near(served[2], volume.earns * volume.io_bytes / MIB)
        assert value_of(served[3]) == pytest.approx(100 * volume.earns / iops, abs=0.51 if iops < 1e4 else 0.06)
    if endless is not None:
        assert value_of(endless["low"]) == 100 * start
    if capped is not None:
        assert value_of(capped[2]) == pytest.approx(100 * volume.cap / iops, abs=0.51)
        assert bool(capped[1]) == bool(empty_s), "two shares of one load need a time each"
    return [match[0] for match in (outcome, served, endless, capped) if match is not None]


def _without_prices(text: str, volume: Gp2, iops: float) -> str:
    """The text without its prices, each of which is checked: gp2 0.10 USD a GiB, gp3 and io2 with their options."""
    needs_more = volume.empty_after_s(iops) is not None or iops > volume.cap
    if match := re.search(r"The smallest ebs-gp2 .* is ebs-gp2 of ([\d,.]+) (GiB|TiB)", text):
        gib = value_of(match[1]) * (1024 if match[2] == "TiB" else 1)
        assert gib == pytest.approx(volume.smallest_that_sustains(iops), rel=0.0051)
    else:
        assert not needs_more or iops > 16_000
    stated = re.findall(r"(ebs-\w+) of ([\d,.]+) (GiB|TiB)(?: with ([\w= ]+?))?[,:] ~([\d,.]+) USD", text)
    assert bool(stated) == needs_more
    for name, size, unit, options, price in stated:
        gib = value_of(size) * (1024 if unit == "TiB" else 1)
        settings = dict(option.split("=") for option in options.split())
        extra = (
            max(0.0, float(settings.get("iops", 0)) - 3000),
            max(0.0, float(settings.get("throughput", 0)) - 125),
        )
        monthly = {
            "ebs-gp2": 0.10 * gib,
            "ebs-gp3": 0.08 * gib + 0.005 * extra[0] + 0.04 * extra[1],
            "ebs-io2": 0.125 * gib + 0.065 * float(settings.get("iops", 0)),
        }[name]
        assert value_of(price) == pytest.approx(monthly, abs=0.006), (name, size, options)
    now = re.search(r"\(now ~([\d,.]+) USD|This volume costs ~([\d,.]+) USD", text)
    if now:
        assert value_of(now[1] or now[2]) == pytest.approx(0.10 * volume.gib, abs=0.006)
    return re.sub(r"(?:ebs-\w+ of [\d,.]+ [GT]iB(?: with [\w= ]+?)?|now|costs)[,:]? ~[\d,.]+ USD", "", text)


def test_a_limit_and_what_is_served_are_of_the_same_operations() -> None:
    """`at most 500 IOPS` and `serves 1,250` stood in one answer: sequential operations count by their bytes."""
    sequential = ("--profile", "ebs-st1", "--size", "1TiB", "--throughput", "20MiB", "--io-size", "16KiB")
    result = CliRunner().invoke(app, ["credits", *sequential, "--sequential"], catch_exceptions=False)
    text = plain(result.stdout)
    assert re.search(r"at most 500 IOPS of up to 1 MiB each \(sequential ones count by their bytes\)", text)
    assert "does not run out" in text


HISTORIES = {
    # stretches of (seconds, requests a second), sampled once in so many seconds, start
    "burst": (((3600, 100.0), (3600, 3000.0), (1800, 100.0)), 60, 1.0),
    "peak": (((1800, 900.0), (600, 3500.0), (1800, 200.0)), 60, 1.0),
    "hours": (((3600, 100.0), (7200, 2000.0), (3600, 2600.0)), 3600, 1.0),
    "twice": (((1200, 2900.0), (1200, 0.0), (1200, 2900.0), (600, 10.0)), 30, 0.3),
    "quiet": (((7200, 250.0),), 300, 0.5),
}


@pytest.mark.parametrize("name", HISTORIES)
def test_every_number_about_a_history_is_counted_anew(name: str, tmp_path: Path) -> None:
    """`throttles the load for 67 min 04 s: 62 min to 2 h 10 min`: the span began with its interval."""
    stretches, step, start = HISTORIES[name]
    volume = Gp2(gib=100, io_bytes=16 << 10)
    seconds = [rate for length, rate in stretches for _ in range(length)]
    path = tmp_path / "load.csv"
    points = (f"{end},{seconds[end - 1]}" for end in range(step, len(seconds) + 1, step))
    path.write_text("\n".join(["t,iops", *points]) + "\n")
    text = printed(
        *("--size", "100GiB", "--from", str(path), "--io-size", "16KiB", "--start-credits", f"{start:.0%}")
    )
    outcome = over_history(volume, seconds, start)
    about, remainder = text.split("\n", 1)
    checked = _of_the_volume(about, volume)
    checked += _of_the_history(remainder, outcome, len(seconds) // step, len(seconds), start)
    checked += _of_its_throttling(remainder, outcome)
    checked += re.findall(
        r"If this load continues, .*", remainder
    )  # an estimate of variation: its own tests check it
    for stated in checked:
        remainder = remainder.replace(stated, "")
    remainder = re.sub(r"(?:Prices are|The smallest|Other volumes|This volume costs).*", "", remainder)
    assert not NUMBER.search(remainder), remainder


def _of_the_history(text: str, outcome: Outcome, points: int, length_s: int, start: float) -> list[str]:
    load = re.search(rf"The load is load.csv, (\d+) points, ({TIME}): ([\d,.]+) IOPS on average\.", text)
    assert load is not None, text
    assert int(load[1]) == points
    assert seconds_of(load[2]) == pytest.approx(length_s, abs=31)
    assert near(load[3], outcome.mean_iops)
    empty = re.search(rf"volume.credits, (\d+) % full at first, is empty after ({TIME})\.", text)
    endless = re.search(r"(\d+) % full at first, does not run out .* lowest balance is (\d+) %", text)
    assert (empty is None) == (outcome.empty_after_s is None)
    assert (empty is None) != (endless is None)
    if empty is not None and outcome.empty_after_s is not None:
        assert value_of(empty[1]) == 100 * start
        assert seconds_of(empty[2]) == pytest.approx(outcome.empty_after_s, abs=31)
        return [load[0], empty[0]]
    assert endless is not None
    assert value_of(endless[1]) == 100 * start
    assert value_of(endless[2]) == pytest.approx(100 * outcome.low_share, abs=0.51)
    return [load[0], endless[0]]


def _of_its_throttling(text: str, outcome: Outcome) -> list[str]:
    served = re.search(
        r"While throttled, the volume serves ([\d,.]+) IOPS and ([\d,.]+) MiB/s, (\d+) % of the load\.", text
    )
    throttling = re.search(rf"The empty bucket throttles the load for ({TIME}): (.*)\.", text)
    capped = re.search(rf"The load exceeds the volume's limits for ({TIME})\.", text)
    assert (throttling is None) == (served is None) == (not outcome.throttled)
    assert (capped is None) == (outcome.capped_s == 0)
    if capped is not None:
        assert seconds_of(capped[1]) == outcome.capped_s
    if throttling is not None and served is not None:
        length_s = len(outcome.throttled)
        assert seconds_of(throttling[1]) == pytest.approx(length_s, abs=31 if length_s > 5400 else 2)
        begins = [at for at in outcome.throttled if at - 1 not in outcome.throttled]
        ends = [at + 1 for at in outcome.throttled if at + 1 not in outcome.throttled]
        spans = [[seconds_of(end) for end in span.split(" to ")] for span in throttling[2].split(", ")]
        assert spans == [pytest.approx(pair, abs=31) for pair in zip(begins, ends, strict=True)]
        lengths = sum(end - begin for begin, end in spans)
        assert lengths == pytest.approx(seconds_of(throttling[1]), abs=31 * len(spans))
        assert value_of(served[1]) == pytest.approx(outcome.served[0], rel=0.0051)
        assert value_of(served[2]) == pytest.approx(outcome.served[0] * (16 << 10) / MIB, rel=0.0051)
        assert value_of(served[3]) == pytest.approx(100 * outcome.served[1], abs=0.51)
    return [match[0] for match in (served, throttling, capped) if match is not None]
