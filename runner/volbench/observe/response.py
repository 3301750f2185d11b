"""What a millisecond of the volume costs a statement of a server in use, from its own variation alone.

Nothing is switched here, so the load may change with the volume: more visitors make both slower. A slope is told
only where the server's own count of waits confirms it, and what contradicts it is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from volbench.core.base.text import counted, number
from volbench.results.explain.accounts.waits import statement_samples
from volbench.results.explain.case import Case
from volbench.results.report.rows.response import TITLES
from volbench.results.response.estimate import UNMOVED, estimate
from volbench.results.response.model import Agreement, NoResponse, Slope
from volbench.results.store.series import Series, SeriesKey

INTERVALS_MIN = 120
"""Twenty stretches of six seconds: fewer gave intervals wider than the slope in simulations."""
_REASONS: Mapping[Agreement, str] = {
    "above": "Something else was slow at the same seconds: CPUs, locks, or more visitors.",
    "below": "Some of them run in parallel or ahead, or the load was another one at the slow seconds.",
    "open": "The interval is too wide, or something else was slow at the same seconds: observe for longer.",
    "agrees": "",
}
"""Why a slope is not told, by how it stands to the count."""
_LONGER = "observe for longer, or while the volume is busier"


@dataclass(frozen=True, kw_only=True)
class ObservedResponse:
    """Slopes of a statement's mean time, in ms for a ms, and the sentence on them.

    Args:
        slopes: that the server's count of waits confirms.
        refuted: that it contradicts, or cannot confirm.
    """

    slopes: tuple[Slope, ...]
    refuted: tuple[Slope, ...]
    sentence: str


def observed_response(case: Case, series: Mapping[SeriesKey, Series], volume: str) -> ObservedResponse | None:
    """Return the response of a server in use; None where it tells no statement times or no device is seen.

    Args:
        case: all of an observation.
        series: its readings.
        volume: name of the volume.
    """
    samples = statement_samples(case, cell="observed", volume=volume, series=series)
    if samples is None or not samples.awaits_ms:
        return None
    if len(samples) < INTERVALS_MIN:
        reason = f"{counted(len(samples), 'interval')} are too few, {INTERVALS_MIN} are needed"
        return _undetermined(reason, _LONGER)
    response = estimate([samples])
    if isinstance(response, NoResponse):
        return _undetermined(response.reason, _LONGER if response is UNMOVED else "observe for longer")
    confirmed = tuple(slope for slope in response.slopes if slope.agreement == "agrees")
    unconfirmed = tuple(slope for slope in response.slopes if slope.agreement != "agrees" and not slope.is_held)
    if confirmed:
        return ObservedResponse(slopes=confirmed, refuted=unconfirmed, sentence=_sentence(confirmed))
    return ObservedResponse(slopes=(), refuted=unconfirmed, sentence=_refutation(unconfirmed))


def _undetermined(reason: str, advice: str) -> ObservedResponse:
    sentence = f"What a millisecond of the volume costs is not determined: {reason}. To determine it, {advice}."
    return ObservedResponse(slopes=(), refuted=(), sentence=sentence)


def _sentence(slopes: tuple[Slope, ...]) -> str:
    phrases = [
        f"each millisecond of {TITLES[slope.term]} costs a statement {_interval(slope)} ms on average, and the"
        f" server counts {_count(slope)} of them for one"
        for slope in slopes
    ]
    text = "; ".join(phrases)
    return f"{text[:1].upper()}{text[1:]}."


def _refutation(slopes: tuple[Slope, ...]) -> str:
    if not slopes:
        return "What a millisecond of the volume costs is not determined: its waiting times move together."
    first = max(slopes, key=lambda slope: abs(slope.value) * slope.await_ms)
    counts = "counts none of them" if first.counted is None else f"counts {_count(first)} of them for one"
    return (
        f"What a millisecond of the volume costs is not determined: while a millisecond of {TITLES[first.term]}"
        f" went with {_interval(first)} ms of a statement, the server {counts}. {_REASONS[first.agreement]}"
    )


def _interval(slope: Slope) -> str:
    return f"{number(slope.value)} [{number(slope.low)}, {number(slope.high)}]"


def _count(slope: Slope) -> str:
    if slope.counted is None:
        return "none"
    low, high = number(slope.counted.low), number(slope.counted.high)
    return low if low == high else f"{low} to {high}"
