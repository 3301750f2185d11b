"""What `volbench credits` says: sentences for a DBA."""

from __future__ import annotations

from volbench.analysis.credits.answer import Answer, Question, difference_from_observed
from volbench.analysis.credits.dump import DumpForecast
from volbench.analysis.credits.forecast import Forecast
from volbench.analysis.credits.history import SLOW_MS, History
from volbench.analysis.credits.limits import Limit
from volbench.analysis.credits.prices import Cost, Prices
from volbench.analysis.credits.sizing import Alternative
from volbench.analysis.credits.work import Work
from volbench.cli.credits_data import moment
from volbench.report.wording import duration, number

_EPISODES_SHOWN = 5
_ALTERNATIVES_SHOWN = 4


def sentences(question: Question, answer: Answer, history: History | None) -> list[str]:
    """All sentences, in the order in which one would say them."""
    found, work = answer.forecast, answer.work
    told = [_volume(answer)]
    if history is not None:
        told += [_history(history), *(f"Mind: {warning}." for warning in history.warnings)]
    if found is not None and work is not None:
        told.append(_outcome(answer, found, work) if found.bucket else _without_bucket(answer))
        told += _ahead(answer)
        told += _held_back(found, work)
        told += _gaps(answer, work)
        told += _against_history(found, work, history)
        told += _read_share(answer, work)
    if question.dump is not None and answer.dump is not None:
        told += _dump(question, answer.dump)
    if found is not None:
        told += _alternatives(answer)
    if answer.volume.model["time_scale"] != 1:
        told.append(f"Buckets are {number(answer.volume.model['time_scale'])} times smaller than the vendor's.")
    return told


def _volume(answer: Answer) -> str:
    name = f"{answer.volume.profile} of {gib(answer.volume.size_bytes)}"
    caps = ", ".join(_amount(cap, cap.rate_per_s) for cap in answer.limits.caps if cap.scope != "instance")
    parts = [f"{name}: at most {caps}"]
    parts += [
        f"{bucket.name} holds {_credits(bucket)} and earns {_amount(bucket, bucket.rate_per_s)} (full again after "
        f"{duration(bucket.refill_s)} without load)"
        for bucket in answer.limits.buckets
    ]
    return "; ".join(parts) + "."


def _history(history: History) -> str:
    work = history.work
    begin, end = moment(work, 0.0), moment(work, float(work.interval_s.sum()))
    when = f", {begin} to {end}" if begin else f", {duration(float(work.interval_s.sum()))}"
    mean = work.mean()
    return f"The load is {history.text}{when}: {number(float(mean.iops[0]))} IOPS on average."


def _without_bucket(answer: Answer) -> str:
    return f"{answer.volume.profile} of this size has no credit bucket: it never runs out."


def _outcome(answer: Answer, found: Forecast, work: Work) -> str:
    assert found.bucket is not None  # noqa: S101 - the caller asked
    bucket = found.bucket
    start = f"{100 * bucket.start / (bucket.capacity or 1.0):.0f} % full at first"
    if found.exhausted_after_s is None:
        low = min((point.balance for point in found.balance), default=bucket.start) / (bucket.capacity or 1.0)
        return f"{bucket.name}, {start}, does not run out under this load: its least balance is {100 * low:.0f} %."
    at = moment(work, found.exhausted_after_s)
    when = f"after {duration(found.exhausted_after_s)}" + (f", at {at}" if at else "")
    then = ""
    if found.after is not None:
        then = (
            f" From then on the load gets {number(found.after.iops)} IOPS and {number(found.after.mib_per_s)} "
            f"MiB/s, {100 * found.after.share:.3g} % of what it asks for."
        )
        if not answer.work or answer.work.known.size > 1:
            then = then.replace("From then on", "While it is held back")
    return f"{bucket.name}, {start}, is empty {when}.{then}"


def _ahead(answer: Answer) -> list[str]:
    found = answer.ahead
    if found is None:
        return []
    if found.after_s is None:
        return [f"If the load goes on like this, {found.bucket} is empty within one interval of its samples."]
    latest = "never" if found.latest_s is None else duration(found.latest_s)
    return [
        f"If the load goes on like this, {found.bucket} is empty {duration(found.after_s)} after the history's end "
        f"({duration(found.earliest_s)} to {latest}, as it varied)."
    ]


def _held_back(found: Forecast, work: Work) -> list[str]:
    told = []
    if found.throttled_s:
        shown = [_span(work, *episode) for episode in found.episodes[:_EPISODES_SHOWN]]
        more = len(found.episodes) - len(shown)
        tail = f" and {more} more" if more > 0 else ""
        told.append(
            f"The empty bucket holds the load back for {duration(found.throttled_s)}: {', '.join(shown)}{tail}."
        )
    if found.capped_s is None:
        told.append(
            f"The load asks for more than the volume's caps: {number(100 * found.before.share)} % is served."
        )
    elif found.capped_s > 0:
        told.append(f"For {duration(found.capped_s)} the load asks for more than the volume's caps.")
    if found.throttled_s or found.capped_s:
        told.append("What is not served is not made up for later in this model; a real backlog makes it longer.")
    return told


def _gaps(answer: Answer, work: Work) -> list[str]:
    idle = answer.with_idle_gaps
    if idle is None:
        return []
    shown = ", ".join(_span(work, *gap) for gap in work.gaps[:_EPISODES_SHOWN])
    more = len(work.gaps) - _EPISODES_SHOWN
    tail = f" and {more} more" if more > 0 else ""
    after_s = idle.exhausted_after_s
    other = "it does not run out" if after_s is None else f"it is empty after {duration(after_s)}"
    return [
        f"Nothing is known of {duration(work.gap_s)}: {shown}{tail}. There the bucket is taken to earn nothing; if "
        f"nothing at all happened there, {other}. A burst in a gap would empty it earlier."
    ]


def _against_history(found: Forecast, work: Work, history: History | None) -> list[str]:
    """Where the history itself says otherwise."""
    if history is None:
        return []
    told = []
    if history.slow and not found.episodes:
        shown = ", ".join(_span(work, *span) for span in history.slow[:_EPISODES_SHOWN])
        told.append(
            f"But requests waited {SLOW_MS:g} ms or more from {shown}: the volume was held back although this load "
            "does not spend its credits. Something that this history does not show spent them, or it was something "
            "else than credits: look at BurstBalance and VolumeReadOps of CloudWatch."
        )
    apart = difference_from_observed(found, history.observed)
    if apart is not None and found.bucket is not None:
        metric = found.bucket.metric
        told.append(f"{metric} as recorded and the model are at most {100 * apart:.3g} percentage points apart.")
    return told


def _read_share(answer: Answer, work: Work) -> list[str]:
    weighs = any(limit.charge.read_weight != limit.charge.write_weight for limit in answer.limits.all)
    if not weighs:
        return []
    reads, all_ios = float(work.mean().reads_per_s[0]), float(work.mean().iops[0])
    share = 100 * reads / all_ios if all_ios > 0 else 100.0
    return [f"Reads and writes do not cost the same here: {number(share)} % of the requests are taken to be reads."]


def _dump(question: Question, found: DumpForecast) -> list[str]:
    assert question.dump is not None  # noqa: S101 - the caller asked
    dump = question.dump
    told = [
        f"A dump of {dump.bytes / 1e9:,.4g} GB in reads of {dump.io_bytes / 2**10:,.4g} KiB, alone on the volume, "
        f"{_takes(found.now.alone_s)} with the credits there are, and {_takes(found.exhausted.alone_s)} once they "
        "are gone; the client may need longer."
    ]
    if question.work is not None:
        told.append(
            f"Beside the load, which is served first, it {_takes(found.now.beside_load_s)} now, and "
            f"{_takes(found.exhausted.beside_load_s)} once the credits are gone."
        )
    if question.window_s is not None:
        window = duration(question.window_s)
        words = {True: "fits", False: "does not fit", None: "cannot be judged"}
        told.append(
            f"It {words[found.fits_now]} its window of {window} now, and {words[found.fits_exhausted]} once the "
            "credits are gone."
        )
    return told


def _alternatives(answer: Answer) -> list[str]:
    prices, now = answer.prices, answer.cost
    told = []
    same = next((one for one in answer.alternatives if one.profile == answer.volume.profile), None)
    if not answer.endangered:
        told.append(f"This volume costs {_price(now, prices)}." if now else "")
    elif same is not None:
        told.append(
            f"The smallest {same.profile} {_never(answer)} is {_named(same)}: "
            f"{_price(same.cost, prices)} (now {_price(now, prices)})."
        )
    else:
        told.append(f"No larger {answer.volume.profile} with all else as it is serves this load for ever.")
    others = [one for one in answer.alternatives if one.profile != answer.volume.profile][:_ALTERNATIVES_SHOWN]
    if answer.endangered and others:
        listed = "; ".join(f"{_named(one)}, {_price(one.cost, prices)}" for one in others)
        told.append(f"Others that would serve it: {listed}.")
    if answer.endangered and answer.instances:
        listed = ", ".join(f"{one.instance} ({_price(one.cost, prices)})" for one in answer.instances)
        told.append(f"Instances whose own limits would serve it: {listed}.")
    told.append(f"Prices are list prices of {prices.region}, {prices.dated}; ~ marks those not read at the vendor.")
    return [sentence for sentence in told if sentence]


def _never(answer: Answer) -> str:
    """What a larger volume would do: the instance holds the load back whatever the volume, where it does."""
    if answer.instance_endures is False:
        return f"that would not hold it back by itself (the limits of {answer.instance} do, on any volume)"
    return "that would never be held back"


def _named(one: Alternative) -> str:
    others = " ".join(f"{key}={value}" for key, value in one.options.items())
    return f"{one.profile} of {gib(one.size_bytes)}" + (f" with {others}" if others else "")


def _price(cost: Cost | None, prices: Prices) -> str:
    if cost is None:
        return "no price known"
    return f"{'~' if cost.assumed else ''}{cost.month:,.2f} {prices.currency} a month"


def _amount(limit: Limit, per_s: float) -> str:
    if limit.charge.unit == "io":
        return f"{number(per_s)} IOPS"
    return f"{number(per_s / 2**20)} MiB/s"


def _credits(bucket: Limit) -> str:
    capacity = bucket.capacity or 0.0
    return (
        f"{capacity:,.0f} I/O credits"
        if bucket.charge.unit == "io"
        else f"{number(capacity / 2**30)} GiB of credits"
    )


def _span(work: Work, begin_s: float, end_s: float) -> str:
    begin, end = moment(work, begin_s), moment(work, end_s)
    return f"{begin} to {end}" if begin else f"{duration(begin_s)} to {duration(end_s)}"


def _takes(seconds: float | None) -> str:
    return "never ends" if seconds is None else f"takes {duration(seconds)}"


def gib(size_bytes: float) -> str:
    """`50 GiB`, `1,000 GiB`."""
    return f"{size_bytes / 2**30:,.6g} GiB" if size_bytes < 2**30 * 1000 else f"{size_bytes / 2**30:,.0f} GiB"
