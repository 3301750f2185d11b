"""Counts of pairs of a load and another volume: predicted, then run there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from printed_counts import ROOT
from stored_files import stored_text

PAIRS = ROOT / "results/examples/what-if"
NEAR, FAR = 0.15, 0.2
Pair = dict[str, Any]


def held_out(seed: int) -> list[Pair]:
    """Pairs of a seed that have a figure."""
    pairs = json.loads(stored_text(PAIRS / f"held-out-{seed}.json.xz"))["pairs"]
    return [pair for pair in pairs if "error" in pair]


def near(pairs: Sequence[Pair], most: float = NEAR) -> int:
    """How many are within a share of what was run."""
    return sum(abs(pair["error"]) <= most for pair in pairs)


def stated_of_seed_3() -> Iterator[str]:
    """Figures that were stated without an interval alone."""
    stated = [pair for pair in held_out(3) if pair["states_tps"]]
    yield f"within 15 % of the run for {near(stated)} of {len(stated)} pairs of loads and volumes"


def near_of_seed_4() -> Iterator[str]:
    """Loads that only write."""
    yield f"were within 15 % in {near(held_out(4))} of {len(held_out(4))} pairs"


def of_readme() -> Iterator[str]:
    """All counts that the files hold."""
    third, fourth = held_out(3), held_out(4)
    stated = [pair for pair in third if pair["states_tps"]]
    yield f"{near(stated)} of the {len(stated)} stated figures are within 15 %"
    yield f"Of all {len(third)} pairs, with those that have an interval only, {near(third)} are within 15 %"
    within = sum(pair["held"] for pair in fourth)
    yield f"{near(fourth)} of {len(fourth)} pairs are within 15 % and intervals hold {within}"
    for seed in (1, 2, 3, 4):
        of_seed = held_out(seed)
        for step in dict.fromkeys(pair["step"] for pair in of_seed):
            pairs = [pair for pair in of_seed if pair["step"] == step]
            yield f"| {len(pairs)} | {near(pairs)} |"
    all_pairs = json.loads((PAIRS / "pairs.json").read_text())["pairs"]
    p95 = sum(
        pair["predicted_latency_interval"][0] <= pair["latency_ms_p95"] <= pair["predicted_latency_interval"][1]
        for pair in all_pairs
    )
    within = sum(pair["held"] for pair in all_pairs)
    near_all = f"all ({len(all_pairs)}) | {near(all_pairs, FAR)} within 20 %, none refused"
    yield f"{near_all}; the interval held the run {within} times, that of p95 {p95} times"
    unseen = json.loads((PAIRS / "unseen.json").read_text())["pairs"]
    for step in ("many-clients", "update-index"):
        pairs = [pair for pair in unseen if pair["step"] == step]
        errors = sorted(100 * pair["error"] for pair in pairs)
        yield f"{errors[0]:.0f} to {errors[-1]:+.0f} %, {sum(pair['held'] for pair in pairs)} of {len(pairs)} |"
    alike = [pair["held"] for pair in unseen if pair["step"] == "read-only"]
    yield f"-11 to 0 % | {sum(alike)} of {len(alike)} | the same |"
