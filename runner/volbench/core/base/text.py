"""Numbers, counts, changes, durations and sizes as every output writes them, and harmless texts."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

MINUS = "\N{MINUS SIGN}"
TIMES = "\N{MULTIPLICATION SIGN}"
ABSENT = "\N{EN DASH}"
FACTOR_FROM = 2
"""From this factor on, upwards or downwards, a factor is written: a percentage downwards ends at 100."""
HIGH, FAST, LONG = ("high", "higher", "lower"), ("fast", "faster", "slower"), ("long", "longer", "shorter")
"""Words of a change: `as high`, `higher`, `lower`."""
NO_INTERVAL = "no interval"
_DECIMAL_FROM = 1e-7
"""From here on a number is written without an exponent: 0.00000151 ms, 1.51 ns, stands in a column of others."""
_CONTROL_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories of characters that control a terminal or are invisible: controls (also C1), formats (also
those that change the direction of writing), halves of surrogates, line and paragraph separators."""
_BAR = re.compile(r"(\\*)\|")
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400
_GAP = "  "
_KIB, _MIB, _GIB, _TIB = (2**power for power in (10, 20, 30, 40))


def escape_controls(text: str) -> str:
    """Return the text with control characters as escapes such as \\x1b; line breaks and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    controls = {
        ord(character): character.encode("unicode_escape").decode()
        for character in set(text) - {"\n", "\t"}
        if unicodedata.category(character) in _CONTROL_CATEGORIES
    }
    return text.translate(controls) if controls else text


def escape_bars(code: str) -> str:
    """Return code for a cell of a Markdown table, which a bar ends even within a code span."""
    return _BAR.sub(lambda match: match[1] * 2 + r"\|", code)


def number(value: float | None) -> str:
    """Return a value with three significant digits and all digits before the point: 0.0123, 4.56, 78.9, 56,789.

    A dash when absent.
    """
    if value is None:
        return ABSENT
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if not _DECIMAL_FROM <= abs(value) < 1e9:
        return f"{value:.3g}".replace("-", MINUS, value < 0)
    exponent = int(f"{value:.2e}".partition("e")[2])  # once it is rounded: 99.97 is 100
    return f"{value:,.{max(0, 2 - exponent)}f}".replace("-", MINUS)


def quantity(value: float | None, unit: str) -> str:
    """Return a value with its unit: 421/s, 33 ms; the unit 1 is not written."""
    if value is None or unit == "1":
        return number(value)
    return f"{number(value)}/s" if unit == "1/s" else f"{number(value)} {unit}"


def percent(share: float | None) -> str:
    """Return a share as whole per cent, with two digits below 10 %: 0.042 %, 1.5 %, 63 %, 99.96 %.

    Only 1 itself is 100 %, so that what is nearly always so does not read as always. A dash when absent.
    """
    if share is None:
        return ABSENT
    value = 100 * share
    size = abs(value)
    if size >= 9.95 and not 99 < size < 100:
        text = f"{value:,.0f}"
    elif size > 99:
        text = f"{value:.4g}"
    else:
        text = "0" if size < 0.005 else f"{value:.2g}"
    return f"{text.replace('-', MINUS)} %"


def counted(count: int, singular: str, plural: str = "") -> str:
    """Return a count with its noun: 1 class, 2 classes, 1,000 rows. `plural` is the singular with an s if empty."""
    return f"{count:,} {singular if count == 1 else plural or f'{singular}s'}"


def all_of(count: int, singular: str, plural: str = "") -> str:
    """Return the subject and verb of what is true of all of so many: `the one check holds`, `all 3 checks hold`.

    Args:
        singular, plural: noun and verb: `check holds`, `checks hold`.
    """
    return f"the one {singular}" if count == 1 else f"all {count:,} {plural or f'{singular}s'}"


def part_of(selected: int, total: int, nouns: tuple[str, str], verbs: tuple[str, str]) -> str:
    """Return `1 of 3 checks fails`, `2 of 3 checks fail`, `1 of 1 check fails`.

    Args:
        nouns, verbs: each in the singular and in the plural.
    """
    return f"{selected:,} of {counted(total, *nouns)} {verbs[0] if selected == 1 else verbs[1]}"


def change(ratio: float | None) -> str:
    """Return candidate / baseline as a change: +38 %, -27 %, from twice and from half on x 12.3, x 1/12.3.

    A dash when absent. `change_with_interval` adds its interval, `change_words` says it in words.
    """
    if ratio is None:
        return ABSENT
    return _factor(ratio) if _is_factor(ratio) else _percentage(ratio)


def interval(ci: tuple[float | None, float | None] | None, ratio: float | None) -> str:
    """Return a confidence interval of a ratio as changes in brackets; words where the cells do not bound it.

    The smaller effect is first: [x 1/12.2, x 1/14.3].

    Args:
        ratio: the change beside it, whose form the ends have.
    """
    if ci is None:
        return NO_INTERVAL
    first, last = _ends(ci, ratio)
    if first == last:  # narrower than its digits: no width would claim too much
        return f"[about {first}]"
    return f"[{first}, {last}]"


def change_range(ends: tuple[float, float], ratio: float) -> str:
    """Return `x 1/4.00 to x 1/5.00`: the range of a ratio as changes, in the form of the one beside it."""
    return " to ".join(_ends(ends, ratio))


def _ends(ci: tuple[float | None, float | None], ratio: float | None) -> tuple[str, str]:
    form = _factor if ratio is not None and _is_factor(ratio) else _percentage
    low, high = ("no bound" if end is None else form(end) for end in ci)
    is_downwards = form is _factor and ci[1] is not None and ci[1] < 1
    return (high, low) if is_downwards else (low, high)


def change_with_interval(ratio: float | None, ci: tuple[float, float] | None) -> str:
    """Return `x 19.1 [x 17.0, x 20.7]`, and the change alone where the cells do not bound it."""
    return change(ratio) if ci is None else f"{change(ratio)} {interval(ci, ratio)}"


def change_words(ratio: float, than: str = "", adjectives: tuple[str, str, str] = HIGH) -> str:
    """Return a change in words, with the figure of `change`: `38 % higher`, `1/12.3 as high`, `unchanged`.

    Args:
        than: what it is against, behind `than` or `as`; empty: the sentence says it before.
        adjectives: of its subject, see HIGH.
    """
    if change(ratio) == "0 %":
        return "unchanged"
    equal, more, less = adjectives
    if _is_factor(ratio):
        times = " times" if ratio > 1 else ""
        text = f"{_multiple(ratio)}{times} as {equal}"
    else:
        text = f"{_percentage(ratio)[1:]} {more if ratio > 1 else less}"
    return f"{text} {than_or_as(ratio)} {than}" if than else text


def than_or_as(ratio: float) -> str:
    """Return what stands between a change in words and what it is against."""
    return "as" if _is_factor(ratio) else "than"


def interval_words(ci: tuple[float, float], ratio: float) -> str:
    """Return the ends of an interval behind `change_words`: `1/4.92 to 1/7.40`, `40 to 52 %`.

    Percentages on both sides of no change have their own directions: `3.0 % lower to 8.0 % higher`.

    Args:
        ratio: the change before it, whose form the ends have.
    """
    low, high = ci
    least, most = (high, low) if high <= 1 else (low, high)
    form = _multiple if _is_factor(ratio) else _size
    first, last = form(least), form(most)
    if form is _size and low < 1 < high:
        return f"{first} lower to {last} higher"
    if first == last:  # narrower than its digits: no width would claim too much
        return f"about {first}"
    return f"{first.removesuffix(' %')} to {last}"


def _is_factor(ratio: float) -> bool:
    return ratio >= FACTOR_FROM or ratio <= 1 / FACTOR_FROM


def _factor(ratio: float) -> str:
    return f"{TIMES} {_multiple(ratio)}"


def _multiple(ratio: float) -> str:
    """Return `12.3`, downwards `1/12.3`."""
    return number(ratio) if ratio >= 1 or ratio <= 0 else f"1/{number(1 / ratio)}"


def _percentage(ratio: float) -> str:
    value = 100 * (ratio - 1)
    text = f"{value:+.1f}" if abs(value) < 9.95 else f"{value:+.0f}"
    return ("0" if float(text) == 0 else text.replace("-", MINUS)) + " %"


def _size(ratio: float) -> str:
    """Return a percentage without its sign."""
    return _percentage(ratio).lstrip(f"+{MINUS}")


def duration(seconds: float | None) -> str:
    """Return a time as 12.3 s, 3 min 20 s, 2 h 05 min, 10.6 days; a dash when absent."""
    if seconds is None:
        return ABSENT
    if seconds < 1.5 * _MINUTE_S:
        return f"{_trimmed(seconds)} s"
    if seconds >= 2 * _DAY_S:
        return f"{_trimmed(seconds / _DAY_S)} days"
    whole_s = round(seconds)
    if whole_s < 1.5 * _HOUR_S:
        minutes, rest_s = divmod(whole_s, _MINUTE_S)
        return f"{minutes} min {rest_s:02d} s" if rest_s else f"{minutes} min"
    hours, rest_min = divmod(round(seconds / _MINUTE_S), 60)
    return f"{hours} h {rest_min:02d} min" if rest_min else f"{hours} h"


def time_of_day(second: int) -> str:
    """Return a second of a day as 14:03:59."""
    return f"{second // _HOUR_S:02d}:{second // _MINUTE_S % 60:02d}:{second % 60:02d}"


def size(size_bytes: float) -> str:
    """Return bytes as 12 KiB, 340 MiB, 12.5 GiB, 3 TiB; whole GiB that are no whole TiB stay GiB: 1,500 GiB."""
    if size_bytes >= _TIB and size_bytes % _TIB and not size_bytes % _GIB:
        return f"{size_bytes / _GIB:,.0f} GiB"
    for unit, unit_bytes in (("TiB", _TIB), ("GiB", _GIB), ("MiB", _MIB)):
        if size_bytes >= unit_bytes:
            return f"{three_digits(size_bytes / unit_bytes)} {unit}"
    return f"{three_digits(size_bytes / _KIB)} KiB"


def _trimmed(value: float) -> str:
    """Return the number without decimals where it is whole."""
    return f"{value:,.0f}" if value == round(value) else number(value)


def three_digits(value: float) -> str:
    """Return three significant digits, all digits from a hundred on."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def aligned(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a heading and the rows in columns as wide as their longest value; line breaks become spaces."""
    flat = [[" ".join(value.split("\n")) for value in row] for row in (columns, *rows)]
    widths = [max(map(len, values)) for values in zip(*flat, strict=True)]
    for row in flat:
        yield _GAP.join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip()


def ignore_messages(text: str) -> None:
    """Discard a message, where nobody reads it."""


def lower_first(text: str) -> str:
    """Return the text with a small first letter, as within a sentence."""
    return text[:1].lower() + text[1:]


def upper_first(text: str) -> str:
    """Return the text with a capital first letter, as a sentence begins."""
    return text[:1].upper() + text[1:]
