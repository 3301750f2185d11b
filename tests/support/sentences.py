"""Numbers of sentences: which there are, and what they may say of a value."""

from __future__ import annotations

import re

NUMBER = re.compile(r"(?<![\w.,/-])[×+\N{MINUS SIGN}]? ?(?:1/)?\d[\d,]*(?:\.\d+)?(?! ?\w*-)(?: %| times)?")
"""A figure with its sign and what makes it a share or a factor; not the number within a name such as `gp2`."""
FACTOR = r"(?:1/)?\d[\d,.]*"
SYMBOLS = rf"(?:× {FACTOR}|[+\N{{MINUS SIGN}}]\d[\d,.]* %|\b0 %)"
"""A change in a table: `× 19.1`, `× 1/13.9`, `+38 %`."""
CHANGE = re.compile(rf"× ({FACTOR})|([+\N{{MINUS SIGN}}])(\d[\d,.]*) %|\b(0) %")
OF_VERDICTS = re.compile(r"[Oo]f \d+ candidates \d+ (?:is|are) [^;.]+")
WORDED = r"(?:[\d,.]+ % (?:higher|lower)|(?:[\d,.]+ times|1/[\d,.]+) as high|unchanged)"
"""A change in words."""
WORDS = re.compile(r"(\d[\d,.]*) % (higher|lower)|(1/)?(\d[\d,.]*)(?: times)? as high|unchanged")


def plain(text: str) -> str:
    """The text as it is read: no-break spaces and the escapes of Markdown are gone."""
    return text.replace("\N{NO-BREAK SPACE}", " ").replace("\\", "")


def value_of(figure: str) -> float:
    """`1,234.5` -> 1234.5, `1/4` -> 0.25."""
    part, _, number = figure.replace(",", "").rstrip(".").rpartition("/")
    return float(part) / float(number) if part else float(number)


def ratio_of_change(text: str) -> float:
    """The ratio that `× 19.1`, `× 1/13.9`, `+38 %` or `27 % lower` states, as far as its digits go."""
    if (token := WORDS.search(text)) is not None:
        if token[0] == "unchanged":
            return 1.0
        if token[1]:
            return 1 + value_of(token[1]) / 100 * (1 if token[2] == "higher" else -1)
        return 1 / value_of(token[4]) if token[3] else value_of(token[4])
    match = CHANGE.search(text)
    if match is None:
        raise ValueError(f"no change: {text}")
    if match[1]:
        return value_of(match[1])
    if match[2]:
        return 1 + value_of(match[3]) / 100 * (1 if match[2] == "+" else -1)
    return 1.0


def states(text: str, ratio: float) -> bool:
    """Whether a change says this ratio: within half of its last digit, whole per cents from ten on."""
    stated = ratio_of_change(text)
    if "%" in text:
        return abs(stated - ratio) <= (0.0051 if abs(ratio - 1) >= 0.0995 else 0.00051)
    return abs(stated / ratio - 1) <= 0.0051


def without_numbers(text: str, verdicts: list[str]) -> str:
    """The text without how many candidates are better, worse and open by a metric, which are counted again.

    Args:
        text: of a headline.
        verdicts: of each candidate by that metric.
    """
    match = OF_VERDICTS.search(text)
    if match is None:
        return text
    assert match[0][1:].startswith(f"f {len(verdicts)} candidates "), text
    for number, stated in re.findall(r"(\d+) (?:is |are )?(better|worse|equivalent|not decided)", match[0]):
        assert int(number) == verdicts.count("inconclusive" if stated == "not decided" else stated), text
    return text.replace(match[0], "")
