"""How often a recommended volume keeps its objective, and how often the likeliest cheaper one breaks it.

    python tests/benchmarks/recommend.py --out FILE.jsonl [--loads 60]
    python tests/benchmarks/recommend.py --pairs

Without --pairs, seeds draw loads second by second (days with peaks, batch jobs, bursts of seconds), of which the
recommendation sees means over one or five minutes, as CloudWatch has them. Whether a volume keeps the objective is
decided on the seconds, by a queue that this script keeps itself. Each line of FILE is a load; a load that FILE has
is not drawn again, so that the script resumes. The loads are this project's own construction.

With --pairs, loads of MySQL that were measured on one emulated volume are predicted on others, and were run there
(results/examples/what-if): objectives are drawn, a volume is chosen by the predictions, and held against the runs.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volbench.core.profile.resolve import resolve_spec
from volbench.results.credits.history import History
from volbench.results.credits.prices import load_prices
from volbench.results.credits.sizing import cost_of
from volbench.results.credits.work import from_points
from volbench.results.explain.accounts.what_if import Outlook
from volbench.results.recommend.catalogue import Candidate, candidates
from volbench.results.recommend.choice import LIKELY, SAVING_MAX, Recommendation, recommend
from volbench.results.recommend.goal import CHANCE_MAX, SURE_MIN, Goal, chance_below
from volbench.results.recommend.measured_load import expected_interval
from volbench.results.recommend.recorded_load import RecordedLoad

Floats = NDArray[np.float64]
EXAMPLES = Path(__file__).parents[2] / "results/examples/what-if"
HOUR_S, DAYS, LATE = 3600, 2, 0.05
OBJECTIVES_EACH = 20


def drawn_seconds(source: np.random.Generator) -> Floats:
    """Return a load's operations a second, shape (seconds,): a day's course, slow and fast noise, jobs, bursts."""
    seconds = np.arange(DAYS * 86_400, dtype=np.float64)
    base = source.uniform(80, 2500)
    course = 1 + source.uniform(0.1, 0.9) * np.sin(2 * np.pi * (seconds / 86_400 - source.uniform()))
    noise = np.zeros(len(seconds))
    for width_s in (1, 8, 60, 600):
        steps = source.normal(0, source.uniform(0.02, 0.25), len(seconds) // width_s + 1)
        noise += np.repeat(steps, width_s)[: len(seconds)]
    rates = base * course * np.exp(noise)
    for _ in range(source.integers(0, 4)):
        length_s, begin = int(source.uniform(300, 5400)), int(source.uniform(0, 80_000))
        for day in range(DAYS):
            rates[begin + day * 86_400 : begin + day * 86_400 + length_s] += base * source.uniform(0.5, 5)
    for begin in source.integers(0, len(seconds), source.integers(0, 400)):
        rates[begin : begin + int(source.pareto(1.5) * 2) + 1] += base * source.uniform(0.5, 4)
    return rates


def late_share(candidate: Candidate, rates: Floats, slack_s: float) -> float:
    """Return the worst hour's share of late requests: a queue and credits, kept second by second, twice over.

    All requests are pages of 16 KiB. What the queue holds at a second's end waits for its turn.
    """
    cap = min(
        limit.rate_per_s / (16_384.0 if limit.charge.unit == "byte" else 1.0) for limit in candidate.limits.caps
    )
    buckets = [bucket for bucket in candidate.limits.buckets if bucket.charge.unit == "io"]
    rate, capacity = (buckets[0].rate_per_s, buckets[0].capacity or 0.0) if buckets else (cap, 0.0)
    balance, queue, late = capacity, 0.0, np.zeros(len(rates))
    for turn in range(2):
        for second, request in enumerate(rates.tolist()):
            speed = cap if not buckets or balance > 0 else min(cap, rate)
            served = min(queue + request, speed)
            if buckets:
                balance = min(capacity, max(0.0, balance + rate - served))
            queue = queue + request - served
            if turn:
                late[second] = queue / speed > slack_s
    hours = np.arange(len(rates)) // HOUR_S
    done = np.bincount(hours, weights=rates)
    return float(np.max(np.bincount(hours, weights=rates * late)[done > 0] / done[done > 0], initial=0.0))


def one_load(seed: int, offered: tuple[Candidate, ...]) -> dict[str, Any]:
    """Return what is recommended for the load of a seed, and what its seconds say of that."""
    source = np.random.default_rng(seed)
    rates, width_s, reads = drawn_seconds(source), int(source.choice([1, 10, 60, 300])), source.uniform(0.2, 0.9)
    means = rates.reshape(-1, width_s).mean(axis=1)
    times = np.arange(1, len(means) + 1, dtype=np.float64) * width_s
    work = from_points(t_s=times, reads_per_s=means * reads, writes_per_s=means * (1 - reads))
    goal = Goal(p95_s=float(source.choice([0.005, 0.02, 0.1])))
    load = RecordedLoad(name=f"load {seed}", history=History(work=work, text="drawn"), source="drawn")
    answer = recommend(load, offered, goal)
    return {"seed": seed, "width_s": width_s, "p95_s": goal.p95_s, **outcome(answer, rates, goal)}


def outcome(answer: Recommendation, rates: Floats, goal: Goal) -> dict[str, Any]:
    """Return the recommendation against the seconds."""
    if answer.chosen is None or goal.p95_s is None:
        return {"answer": "refused", "reason": answer.refusal}
    slack_s = goal.p95_s - 0.001
    remaining = late_share(answer.chosen.candidate, rates, slack_s) <= LATE
    cheaper = answer.cheaper
    return {
        "answer": "cheapest" if answer.is_cheapest else "sufficient",
        "volume": answer.chosen.candidate.spec,
        "keeps": remaining,
        "cheaper": None if cheaper is None else cheaper.candidate.spec,
        "cheaper_breaks": None if cheaper is None else bool(late_share(cheaper.candidate, rates, slack_s) > LATE),
    }


def drawn(out: Path, loads: int) -> list[dict[str, Any]]:
    """Return all loads, those that the file has from there; append the others to it."""
    rows = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    seeds = {row["seed"] for row in rows}
    offered = candidates(load_prices(), size_bytes=200 << 30, profiles=("ebs-gp2", "ebs-gp3", "ebs-io2"))
    for seed in range(loads):
        if seed not in seeds:
            rows.append(one_load(seed, offered))
            with out.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
    return rows


def pairs() -> Iterator[dict[str, Any]]:
    """Yield a choice for each drawn objective, among the volumes that a load was predicted on and run on."""
    prices, source = load_prices(), random.Random(1)
    for path in sorted(EXAMPLES.glob("*.json")):
        loads: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
        for pair in json.loads(path.read_text())["pairs"]:
            if pair.get("predicted_latency_interval") and pair.get("latency_ms_p95"):
                loads.setdefault((pair["step"], pair["measured_on"]), {})[pair["predicted_on"]] = pair
        for volumes in loads.values():
            costs = {spec: cost_of(resolve_spec(spec, name="pair"), None, prices) for spec in volumes}
            priced = {spec: cost.month for spec, cost in costs.items() if cost is not None}
            ordered = sorted(priced, key=lambda spec: priced[spec])
            measured = [pair["latency_ms_p95"] for pair in volumes.values()]
            for _ in range(OBJECTIVES_EACH if len(volumes) > 2 else 0):
                limit = math.exp(source.uniform(math.log(min(measured) * 0.7), math.log(max(measured) * 1.4)))
                yield {"file": path.stem, **_of_pairs(volumes, ordered, [priced[spec] for spec in ordered], limit)}


def _of_pairs(
    volumes: dict[str, dict[str, Any]], ordered: list[str], costs: list[float], limit: float
) -> dict[str, Any]:
    """Return a choice by the same rules as `recommend`'s, of which no check is possible here."""
    keeps = {spec: chance_below(limit, _expected(pair)) for spec, pair in volumes.items()}
    chosen = next((index for index, spec in enumerate(ordered) if keeps[spec] >= SURE_MIN), None)
    if chosen is None:
        return {"answer": "refused"}
    likely = [costs[index] for index, spec in enumerate(ordered[:chosen]) if keeps[spec] > LIKELY]
    if likely and costs[chosen] > SAVING_MAX * likely[0]:
        return {"answer": "refused"}
    cheaper = max(ordered[:chosen], key=lambda spec: keeps[spec], default=None)
    sure = cheaper is None or keeps[cheaper] <= CHANCE_MAX
    return {
        "answer": "cheapest" if sure else "sufficient",
        "keeps": volumes[ordered[chosen]]["latency_ms_p95"] <= limit,
        "cheaper_breaks": None if cheaper is None else volumes[cheaper]["latency_ms_p95"] > limit,
    }


def _expected(pair: dict[str, Any]) -> tuple[float, float]:
    low, high = pair["predicted_latency_interval"]
    outlook = Outlook(
        regime="steady",
        tps=pair["predicted_tps"],
        tps_interval=tuple(pair["predicted_interval"]),
        p95_ms=pair["predicted_latency_ms_p95"],
        p95_interval=(low, high),
        bound=pair["limited_by"],
        states_p95=pair.get("states_p95", False),
    )
    return expected_interval(outlook) or (low, high)


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return counts and shares."""
    chosen = [row for row in rows if row["answer"] != "refused"]
    cheapest = [row for row in rows if row["answer"] == "cheapest" and row["cheaper_breaks"] is not None]
    return {
        "loads": len(rows),
        "refused": len(rows) - len(chosen),
        "recommended": len(chosen),
        "kept": sum(row["keeps"] for row in chosen),
        "cheapest": len(cheapest),
        "cheaper_broke": sum(row["cheaper_breaks"] for row in cheapest),
    }


def main() -> None:
    """Print a line for each file of pairs, or for the loads."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("recommend.jsonl"))
    parser.add_argument("--loads", type=int, default=60)
    parser.add_argument("--pairs", action="store_true")
    arguments = parser.parse_args()
    if not arguments.pairs:
        print(summary(drawn(arguments.out, arguments.loads)))
        return
    rows = list(pairs())
    for name in sorted({row["file"] for row in rows}):
        print(name, summary([row for row in rows if row["file"] == name]))
    print("all", summary(rows))


if __name__ == "__main__":
    main()
