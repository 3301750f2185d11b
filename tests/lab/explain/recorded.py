"""Scores what `explain --from` names for sar's and iostat's texts of the lab's runs.

The volume is the cause where a cause of storage was made. What the lab accepts beside a cause counts as true.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from explain.injection import DEVICE_FILE
from explain.runner import DONE_FILE, RECORDING, TRUTH_FILE
from explain.scoring import exact_interval
from recordings.page import at_most
from recordings.score import Outcome, readings, stated_and_true
from recordings.tools import SAR_TEXT

STORAGE = "storage."


def recorded_outcomes(root: Path) -> list[Outcome]:
    """What is named for each recording below the directory of one seed; runs that failed have none.

    Args:
        root: with one directory a condition, and one a run in it.
    """
    runs = sorted(path.parent.parent for path in root.glob(f"*/*/{RECORDING}/{SAR_TEXT}"))
    return [outcome for run in runs if not _failure(run) for outcome in _outcomes(run)]


def scores_of(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """False acquittals by reading and by recording, stated confidences beside what came true, and each reading."""
    guilty = [outcome for outcome in outcomes if outcome.volume_is_cause]
    acquitted = {outcome.recording for outcome in guilty if outcome.falsely_acquitted}
    recordings = {outcome.recording for outcome in guilty}
    pairs = stated_and_true(outcomes)
    return {
        "recordings": len({outcome.recording for outcome in outcomes}),
        "readings": len(outcomes),
        "volume_is_cause": {
            "readings": len(guilty),
            "falsely_acquitted_readings": sum(outcome.falsely_acquitted for outcome in guilty),
            "readings_with_a_cause": sum(bool(outcome.causes) for outcome in guilty),
            "recordings": len(recordings),
            "falsely_acquitted": sorted(acquitted),
            "at_most": round(at_most(len(acquitted), len(recordings)), 4) if recordings else None,
        },
        "confidence": _confidence(pairs),
        "rows": [_row(outcome) for outcome in outcomes],
    }


def _confidence(pairs: Sequence[tuple[float, bool]]) -> dict[str, Any]:
    if not pairs:
        return {"findings": 0}
    stated, true = sum(pair[0] for pair in pairs) / len(pairs), sum(pair[1] for pair in pairs)
    low, high = exact_interval(true, len(pairs))
    return {
        "findings": len(pairs),
        "mean_stated": round(stated, 4),
        "true": round(true / len(pairs), 4),
        "interval": [round(low, 4), round(high, 4)],
        "brier": round(sum((pair[0] - pair[1]) ** 2 for pair in pairs) / len(pairs), 4),
    }


def _row(outcome: Outcome) -> dict[str, Any]:
    named: Iterable[Mapping[str, Any]] = (
        {"cause": cause, "confidence": round(confidence, 3), "true": true}
        for cause, confidence, true in zip(outcome.causes, outcome.confidences, outcome.true, strict=True)
    )
    return {
        "recording": outcome.recording,
        "texts": list(outcome.tools),
        "truth": list(outcome.truth),
        "named": list(named),
    }


def _failure(run: Path) -> str:
    path = run / DONE_FILE
    return str(json.loads(path.read_text(encoding="utf-8"))["failure"]) if path.exists() else "not done"


def _outcomes(run: Path) -> Iterable[Outcome]:
    truth = json.loads((run / TRUTH_FILE).read_text(encoding="utf-8"))
    return readings(
        run / RECORDING,
        recording=f"{truth['condition']}/{truth['number']}",
        seed=truth["lab_seed"],
        device=(run / RECORDING / DEVICE_FILE).read_text(encoding="utf-8").strip(),
        volume_is_cause=any(cause.startswith(STORAGE) for cause in truth["truth"]),
        truth=(*truth["truth"], *truth["accepted"]),
    )
