"""The sentences of `volbench credits`."""

from __future__ import annotations

from volbench.core.base.text import duration, number, percent, size
from volbench.core.profile.limits import VolumeLimit
from volbench.results.credits.answer import CreditForecast, Question, difference_from_observed, implied_gib
from volbench.results.credits.dump import DumpForecast
from volbench.results.credits.forecast import Forecast
from volbench.results.credits.history import SLOW_MS, History
from volbench.results.credits.observed import observed_dump
from volbench.results.credits.prices import MonthlyPrice, Prices
from volbench.results.credits.sizing import Alternative
from volbench.results.credits.work import Work
from volbench.results.report.credits.data import time_text

EPISODES_MAX = 5
ALTERNATIVES_MAX = 4
EMPTY_SHARE = 0.01
"""Of a balance that CloudWatch averages over a period, from which it counts as empty."""


def sentences(question: Question, answer: CreditForecast, history: History | None) -> list[str]:
    """Return all sentences in reading order."""
    forecast, work = answer.forecast, answer.work
    texts = [_volume(answer)]
    if history is not None:
        texts += [_history(history), *(f"Note: {warning}." for warning in history.warnings)]
    if forecast is not None and work is not None:
        texts.append(_outcome(answer, forecast, work) if forecast.bucket else _no_bucket_text(answer))
        contradicted = [] if history is None else _other_size(question, answer, forecast, history)
        texts += contradicted or _ahead(answer)
        texts += _throttling(forecast, work)
        texts += _gaps(answer, work)
        texts += _against_history(forecast, work, history)
        texts += _read_share(answer, work)
    if question.dump is not None and answer.dump is not None:
        texts += _dump(question, answer.dump)
        texts += _observed_dump(question, history)
    if forecast is not None:
        texts += _alternatives(answer)
    if answer.volume.model["time_scale"] != 1:
        texts.append(f"Buckets are {number(answer.volume.model['time_scale'])} times smaller than the vendor's.")
    return texts


def _volume(answer: CreditForecast) -> str:
    name = f"{answer.volume.profile} of {size(answer.volume.size_bytes)}"
    caps = ", ".join(_cap_text(cap) for cap in answer.limits.caps if cap.scope != "instance")
    clauses = [f"{name}: at most {caps}"]
    clauses += [
        f"{bucket.name} has a capacity of {_credits(bucket)} and earns {_rate_text(bucket, bucket.rate_per_s)} "
        f"(full again after {duration(bucket.refill_s)} without load)"
        for bucket in answer.limits.buckets
    ]
    return "; ".join(clauses) + "."


def _history(history: History) -> str:
    work = history.work
    begin, end = time_text(work, 0.0), time_text(work, float(work.interval_s.sum()))
    time_span = f", {begin} to {end}" if begin else f", {duration(float(work.interval_s.sum()))}"
    mean = work.mean()
    return f"The load is {history.text}{time_span}: {number(float(mean.iops[0]))} IOPS on average."


def _no_bucket_text(answer: CreditForecast) -> str:
    text = f"{answer.volume.profile} of this size has no credit bucket, so its rate never drops."
    if answer.forecast is not None and answer.forecast.capped_s == 0:
        text += " It serves all of this load."
    return text


def _outcome(answer: CreditForecast, forecast: Forecast, work: Work) -> str:
    assert forecast.bucket is not None
    bucket = forecast.bucket
    start = f"{percent(bucket.start / (bucket.capacity or 1.0))} full at first"
    if forecast.exhausted_after_s is None:
        low = min((point.balance for point in forecast.balance), default=bucket.start) / (bucket.capacity or 1.0)
        return f"{bucket.name}, {start}, does not run out under this load: its lowest balance is {percent(low)}."
    time = time_text(work, forecast.exhausted_after_s)
    when = f"after {duration(forecast.exhausted_after_s)}" + (f", at {time}" if time else "")
    consequence = ""
    if forecast.after is not None:
        consequence = (
            f" From then on the volume serves {number(forecast.after.iops)} IOPS and "
            f"{number(forecast.after.mib_per_s)} MiB/s, {percent(forecast.after.share)} of the load."
        )
        if not answer.work or answer.work.is_known.size > 1:
            consequence = consequence.replace("From then on", "While throttled,")
    return f"{bucket.name}, {start}, is empty {when}.{consequence}"


def _ahead(answer: CreditForecast) -> list[str]:
    extrapolation = answer.ahead
    if extrapolation is None:
        return []
    if extrapolation.after_s is None:
        return [f"If this load continues, {extrapolation.bucket} is empty within one sampling interval."]
    latest = "never" if extrapolation.latest_s is None else duration(extrapolation.latest_s)
    return [
        f"If this load continues, {extrapolation.bucket} is empty {duration(extrapolation.after_s)} after the end "
        f"of the history ({duration(extrapolation.earliest_s)} to {latest}, by the variation of the load)."
    ]


def _other_size(question: Question, answer: CreditForecast, forecast: Forecast, history: History) -> list[str]:
    """Say that the recorded balance is not one of the stated size, and which size it implies."""
    gib = implied_gib(question, history.observed)
    if gib is None or forecast.bucket is None:
        return []
    low = percent(min(share for _, share in history.observed))
    return [
        f"The recorded {forecast.bucket.metric} contradicts the stated size: it never falls below {low}, and this"
        f" load would spend more of {size(answer.volume.size_bytes)}. It is the balance of"
        f" {answer.volume.profile} of {number(gib)} GiB or more, or of several volumes of that size together."
        " Nothing is forecast for a volume of another size: give its own with --size."
    ]


def _throttling(forecast: Forecast, work: Work) -> list[str]:
    texts = []
    if forecast.throttled_s:
        spans = [_span_text(work, *episode) for episode in forecast.episodes[:EPISODES_MAX]]
        more = len(forecast.episodes) - len(spans)
        tail = f" and {more} more" if more > 0 else ""
        texts.append(
            f"The empty bucket throttles the load for {duration(forecast.throttled_s)}: {', '.join(spans)}{tail}."
        )
    if forecast.capped_s is None:
        while_full = ", also while credits last" if forecast.exhausted_after_s else ""
        share = percent(forecast.before.share)
        texts.append(f"The load exceeds the volume's limits{while_full}: {share} of it is served.")
    elif forecast.capped_s > 0:
        texts.append(f"The load exceeds the volume's limits for {duration(forecast.capped_s)}.")
    if forecast.throttled_s or forecast.capped_s:
        texts.append("This model drops requests that are not served; a real backlog makes the delay longer.")
    return texts


def _gaps(answer: CreditForecast, work: Work) -> list[str]:
    idle = answer.with_idle_gaps
    if idle is None:
        return []
    spans = ", ".join(_span_text(work, *gap) for gap in work.gaps[:EPISODES_MAX])
    more = len(work.gaps) - EPISODES_MAX
    more_text = f" and {more} more" if more > 0 else ""
    after_s = idle.exhausted_after_s
    with_idle = (
        "the bucket does not run out" if after_s is None else f"the bucket is empty after {duration(after_s)}"
    )
    return [
        f"The history has gaps of {duration(work.gap_s)}: {spans}{more_text}. The forecast assumes that the bucket "
        f"earns nothing in gaps; if the volume was idle in them, {with_idle}. A burst in a gap would empty it "
        "earlier."
    ]


def _against_history(forecast: Forecast, work: Work, history: History | None) -> list[str]:
    """Return sentences where the history contradicts the forecast."""
    if history is None:
        return []
    texts = []
    if history.slow and not forecast.episodes:
        spans = ", ".join(_span_text(work, *span) for span in history.slow[:EPISODES_MAX])
        texts.append(
            f"Requests waited {SLOW_MS:g} ms or more from {spans}, although this load does not exhaust the "
            f"credits. {_other_io(work, history)}"
        )
    by_others = bool(texts) and _empty_from_s(history) is not None
    difference = None if by_others else difference_from_observed(forecast, history.observed)
    if difference is not None and forecast.bucket is not None:
        metric = forecast.bucket.metric
        texts.append(
            f"The recorded {metric} and the model differ by at most {number(100 * difference)} percentage points."
        )
    return texts


def _other_io(work: Work, history: History) -> str:
    """Return what spent the credits, as far as the recorded balance tells it."""
    empty_s = _empty_from_s(history)
    if empty_s is not None:
        at = time_text(work, empty_s)
        return (
            f"The recorded balance is empty{f' from {at} on' if at else ''}: I/O that this device's counters do not"
            " show spent the credits (`volbench explain --from` names how much)."
        )
    if history.observed:
        return "The recorded balance is never empty: the cause is not credits."
    return (
        "The bucket was not full at first (--start-credits states it), other I/O that this history does not show"
        " spent the credits, or the cause is not credits: see BurstBalance and VolumeReadOps in CloudWatch."
    )


def _empty_from_s(history: History) -> float | None:
    """Return the begin of the first period whose recorded balance is empty; None where none is."""
    times = [t_s for t_s, _ in history.observed]
    index = next((at for at, (_, share) in enumerate(history.observed) if share <= EMPTY_SHARE), None)
    return None if index is None else times[max(0, index - 1)]


def _read_share(answer: CreditForecast, work: Work) -> list[str]:
    weighs = any(limit.charge.read_weight != limit.charge.write_weight for limit in answer.limits.all)
    if not weighs:
        return []
    reads, total_iops = float(work.mean().reads_per_s[0]), float(work.mean().iops[0])
    share = reads / total_iops if total_iops > 0 else 1.0
    return [f"Reads and writes cost different numbers of credits; {percent(share)} of the requests count as reads."]


def _observed_dump(question: Question, history: History | None) -> list[str]:
    """Return the dump at the speed of a history whose volume was throttled by something the history cannot see."""
    if question.dump is None or history is None:
        return []
    observed = observed_dump(history, question.dump.bytes, window_s=question.window_s)
    if observed is None:
        return []
    text = (
        f"While requests waited, the history shows reads of {size(observed.read_bytes_per_s)}/s (median of"
        f" {observed.intervals} intervals): at that speed the dump takes {duration(observed.takes_s)}"
    )
    if observed.fits is not None and question.window_s is not None:
        text += f", and {'fits' if observed.fits else 'does not fit'} its window of {duration(question.window_s)}"
    return [f"{text}. Plan with this time until you know what throttled the volume."]


def _dump(question: Question, dump_forecast: DumpForecast) -> list[str]:
    assert question.dump is not None
    dump = question.dump
    texts = [
        f"A dump of {number(dump.bytes / 1e9)} GB in reads of {number(dump.io_bytes / 2**10)} KiB, alone on the"
        f" volume, {_duration_text(dump_forecast.now.alone_s)} with the present credits, and "
        f"{_duration_text(dump_forecast.exhausted.alone_s)} without credits; the client may need longer."
    ]
    if question.work is not None:
        texts.append(
            f"During the load, which is served first, the dump {_duration_text(dump_forecast.now.beside_load_s)} "
            f"with the present credits, and {_duration_text(dump_forecast.exhausted.beside_load_s)} without any."
        )
    if question.window_s is not None:
        window = duration(question.window_s)
        verdicts = {True: "fits", False: "does not fit", None: "cannot be judged"}
        texts.append(
            f"By the limits of the profile, the dump {verdicts[dump_forecast.fits_now]} its window of {window} now,"
            f" and {verdicts[dump_forecast.fits_exhausted]} without credits."
        )
    return texts


def _alternatives(answer: CreditForecast) -> list[str]:
    prices, now = answer.prices, answer.cost
    texts = []
    same_profile = next(
        (alternative for alternative in answer.alternatives if alternative.profile == answer.volume.profile), None
    )
    if not answer.is_throttled:
        texts.append(f"This volume costs {_price(now, prices)}." if now else "")
    elif same_profile is not None:
        texts.append(
            f"The smallest {same_profile.profile} {_not_throttled_text(answer)} is "
            f"{_alternative_text(same_profile)}: {_price(same_profile.cost, prices)} (now {_price(now, prices)})."
        )
    else:
        texts.append(f"No larger {answer.volume.profile} with otherwise equal options sustains this load.")
    other_profiles = [
        alternative for alternative in answer.alternatives if alternative.profile != answer.volume.profile
    ][:ALTERNATIVES_MAX]
    if answer.is_throttled and other_profiles:
        list_text = "; ".join(
            f"{_alternative_text(alternative)}, {_price(alternative.cost, prices)}"
            for alternative in other_profiles
        )
        texts.append(f"Other volumes that sustain it: {list_text}.")
    if answer.is_throttled and answer.instances:
        list_text = ", ".join(
            f"{alternative.instance} ({_price(alternative.cost, prices)})" for alternative in answer.instances
        )
        texts.append(f"Instances whose own limits sustain it: {list_text}.")
    texts.append(f"Prices are list prices of {prices.region}, {prices.dated}; ~ marks assumed prices.")
    return [sentence for sentence in texts if sentence]


def _not_throttled_text(answer: CreditForecast) -> str:
    """Return that a larger volume does not throttle the load, and whether the instance does on any volume."""
    if answer.instance_endures is False:
        return f"that does not throttle this load itself (the limits of {answer.instance} do, on any volume)"
    return "that never throttles this load"


def _alternative_text(alternative: Alternative) -> str:
    options_text = " ".join(f"{key}={value}" for key, value in alternative.options.items())
    return f"{alternative.profile} of {size(alternative.size_bytes)}" + (
        f" with {options_text}" if options_text else ""
    )


def _price(cost: MonthlyPrice | None, prices: Prices) -> str:
    if cost is None:
        return "no price known"
    return f"{'~' if cost.assumed else ''}{cost.month:,.2f} {prices.currency} a month"


def _cap_text(cap: VolumeLimit) -> str:
    """Return a cap with the size of the operations that it counts, where it merges smaller ones."""
    text, charge = _rate_text(cap, cap.rate_per_s), cap.charge
    if charge.unit != "io" or charge.max_io_bytes is None or charge.merge_from_bytes is None:
        return text
    least = f" from {size(charge.merge_from_bytes)} on" if charge.merge_from_bytes >= 1024 else ""
    return f"{text} of up to {size(charge.max_io_bytes)} each (sequential ones{least} count by their bytes)"


def _rate_text(limit: VolumeLimit, per_s: float) -> str:
    if limit.charge.unit == "io":
        return f"{number(per_s)} IOPS"
    return f"{number(per_s / 2**20)} MiB/s"


def _credits(bucket: VolumeLimit) -> str:
    capacity = bucket.capacity or 0.0
    return (
        f"{capacity:,.0f} I/O credits"
        if bucket.charge.unit == "io"
        else f"{number(capacity / 2**30)} GiB of credits"
    )


def _span_text(work: Work, begin_s: float, end_s: float) -> str:
    begin, end = time_text(work, begin_s), time_text(work, end_s)
    return f"{begin} to {end}" if begin else f"{duration(begin_s)} to {duration(end_s)}"


def _duration_text(seconds: float | None) -> str:
    return "never ends" if seconds is None else f"takes {duration(seconds)}"
