"""Numbers, changes, durations and sizes read alike in every output."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from volbench.core.base.text import (
    FAST,
    LONG,
    change,
    change_with_interval,
    change_words,
    duration,
    interval,
    interval_words,
    number,
    percent,
    quantity,
    size,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0"),
        (0.01234, "0.0123"),
        (4.5678, "4.57"),
        (78.91, "78.9"),
        (1234.5, "1,234"),
        (56789.0, "56,789"),
        (-3.14159, "−3.14"),
        (2.5e12, "2.5e+12"),
        (1.2e-9, "1.2e-09"),
        (-1.2e-9, "−1.2e-09"),
        (6.83e-5, "0.0000683"),
        (-1.51e-6, "−0.00000151"),
        (0.09996, "0.100"),
        (9.996, "10.0"),
        (99.97, "100"),
        (999.6, "1,000"),
    ],
)
def test_numbers_have_three_digits(value: float | None, text: str) -> None:
    """Absent is a dash, not zero."""
    assert number(value) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (None, "–"),
        (0.0, "0 %"),
        (0.00042, "0.042 %"),
        (0.01, "1 %"),
        (0.0154, "1.5 %"),
        (0.0999, "10 %"),
        (0.634, "63 %"),
        (0.9996, "99.96 %"),
        (1.0, "100 %"),
        (12.5, "1,250 %"),
        (-0.25, "−25 %"),
        (1e-6, "0 %"),
    ],
)
def test_shares(share: float | None, text: str) -> None:
    """Nearly all is not 100 %."""
    assert percent(share) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (None, "–"),
        (1.0, "0 %"),
        (1.38, "+38 %"),
        (0.73, "−27 %"),
        (1.0212, "+2.1 %"),
        (0.9999, "0 %"),
        (1.99, "+99 %"),
        (3.4, "× 3.40"),
        (12.3, "× 12.3"),
        (0.02, "× 1/50.0"),
        (0.5, "× 1/2.00"),
        (0.00103, "× 1/971"),
        (0.0, "× 0"),
        (1.0996, "+10 %"),
    ],
)
def test_changes(ratio: float | None, text: str) -> None:
    """Per cent up to twice, then a factor in either direction; what rounds to nothing has no sign."""
    assert change(ratio) == text


@pytest.mark.parametrize("ratio", [1.01, 1.38, 1.9999, 2.0, 7.3, 19.1, 971.0])
def test_a_factor_upwards_is_one_downwards(ratio: float) -> None:
    """A percentage downwards saturates at 100: a table with both forms shows one difference as two."""
    up, down = change(ratio), change(1 / ratio)
    assert ("×" in up) == ("×" in down)
    if "×" in up:
        assert down == up.replace("× ", "× 1/")


def test_an_interval_has_the_form_of_its_change() -> None:
    assert change_with_interval(9.04, (6.39, 12.5)) == "× 9.04 [× 6.39, × 12.5]"
    assert change_with_interval(2.0, (0.8, 9.9)) == "× 2.00 [× 1/1.25, × 9.90]"
    assert change_with_interval(1.4, (0.9, 2.3)) == "+40 % [−10 %, +130 %]"
    assert change_with_interval(0.07, (0.06, 0.08)) == "× 1/14.3 [× 1/12.5, × 1/16.7]"


def test_what_the_cells_do_not_bound_has_no_brackets() -> None:
    """One cell each."""
    assert change_with_interval(0.0012, None) == "× 1/833"
    assert interval(None, 1.3) == "no interval"
    assert interval((0.9999, 1.0001), 1.0) == "[about 0 %]"
    assert interval((None, 0.2), 0.1) == "[× 1/5.00, no bound]"
    assert interval((0.05, None), 0.1) == "[× 1/20.0, no bound]"
    assert interval((0.9, None), 1.1) == "[−10 %, no bound]"


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(1.38, "38 % higher"), (0.73, "27 % lower"), (13.9, "13.9 times as high"), (0.0719, "1/13.9 as high")],
)
def test_words_have_the_figure_of_the_change(ratio: float, text: str) -> None:
    assert change_words(ratio) == text
    assert change_words(ratio).split()[0] == change(ratio).strip("+−× %")


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (1.38, "38 % higher than on gp2"),
        (13.9, "13.9 times as high as on gp2"),
        (0.0719, "1/13.9 as high as on gp2"),
        (1.0, "unchanged"),
    ],
)
def test_words_join_what_a_change_is_against(ratio: float, text: str) -> None:
    """`24.9 times lower than` counted downwards what can only be divided."""
    assert change_words(ratio, "on gp2") == text


def test_words_of_a_change_are_those_of_its_subject() -> None:
    assert change_words(0.25, adjectives=FAST) == "1/4.00 as fast"
    assert change_words(4.0, adjectives=LONG) == "4.00 times as long"
    assert change_words(0.75, adjectives=FAST) == "25 % slower"
    assert change_words(1.25, adjectives=LONG) == "25 % longer"


@pytest.mark.parametrize(
    ("ratio", "ci", "text"),
    [
        (9.04, (6.39, 12.5), "6.39 to 12.5"),
        (0.166, (0.135, 0.203), "1/4.93 to 1/7.41"),
        (1.51, (1.47, 1.56), "47 to 56 %"),
        (0.73, (0.7, 0.75), "25 to 30 %"),
        (1.02, (0.97, 1.08), "3.0 % lower to 8.0 % higher"),
        (2.0, (0.8, 9.9), "1/1.25 to 9.90"),
        (3.0, (2.999, 3.001), "about 3.00"),
    ],
)
def test_an_interval_in_words_has_the_form_of_its_change(ratio: float, ci: tuple[float, float], text: str) -> None:
    assert interval_words(ci, ratio) == text


def test_what_rounds_to_no_change_is_unchanged() -> None:
    assert change_words(1.0002) == "unchanged"


def test_the_unit_one_is_not_written() -> None:
    """A share is a bare number."""
    assert quantity(0.5, "1") == "0.500"
    assert quantity(12.0, "ms") == "12.0 ms"
    assert quantity(None, "ms") == "–"
    assert quantity(421.0, "1/s") == "421/s"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0.0, "0 s"),
        (0.25, "0.250 s"),
        (12.34, "12.3 s"),
        (45, "45 s"),
        (200, "3 min 20 s"),
        (600, "10 min"),
        (7505, "2 h 05 min"),
        (7200, "2 h"),
        (86_400, "24 h"),
        (10.6 * 86_400, "10.6 days"),
        (30 * 86_400, "30 days"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    """Seconds, minutes, hours, days."""
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (512, "0.5 KiB"),
        (16 << 10, "16 KiB"),
        (340 << 20, "340 MiB"),
        (12.5 * 2**30, "12.5 GiB"),
        (3 << 40, "3 TiB"),
        (1000 << 30, "1,000 GiB"),
        (1500 << 30, "1,500 GiB"),
        (1.5 * 2**40 + 1, "1.5 TiB"),
    ],
)
def test_sizes(size_bytes: float, text: str) -> None:
    """The size of a volume in the unit in which it is ordered."""
    assert size(size_bytes) == text


def test_no_other_module_formats_a_percentage() -> None:
    """Two forms of one figure in one output are two formatters."""
    own_format = re.compile(r":[^{}\"']*%\}|:[^{}\"']*[fg]\} %")
    packages = [Path("runner/volbench") / name for name in ("cli", "results/report", "validation")]
    files = [path for package in packages for path in sorted(package.rglob("*.py"))]
    assert len(files) > 100
    assert [
        f"{path}: {line}" for path in files for line in path.read_text().splitlines() if own_format.search(line)
    ] == []
