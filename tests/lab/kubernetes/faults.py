"""Writes the page of faults made on a real cluster, with what volbench said of each.

    VOLBENCH_FAULTS=/tmp/faults.jsonl make test-kubernetes
    PYTHONPATH=runner python3 tests/lab/kubernetes/faults.py /tmp/faults.jsonl \
      results/examples/kubernetes/faults.md VERSION

The tests append a line for each fault whose outcome they have checked (`ClusterBench.quote`). VERSION is that of
the cluster. Pods that cannot start were brought to that state by `troubles.py`, which recorded the cluster's words.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from volbench.machine.placement.kubernetes.pods import waiting_trouble

LINES_MAX = 14
CLAIM = "PersistentVolumeClaim"
RECORDED = Path(__file__).parents[2] / "fixtures" / "kubernetes" / "events"
_NOISE = re.compile(
    r"^(suite |target |  volume |  step |\d+ cells|at most|space:|cost:|results:|report:|preparing |cell \d)"
    r"|\[\d+/\d+\]"
)
_ERROR = re.compile(
    r"^(volbench: |  evidence:|  next step:|interrupted|claim |Volume |volume |fix the problem|retry)"
)
_NAMES = ((re.compile(r"vbt-[a-z0-9-]+-ns"), "NAMESPACE"), (re.compile(r"/tmp/\S+/results/"), "results/"))


def quoted(output: str) -> list[str]:
    """Return the lines of a command's output from its error on, or those that are no progress."""
    for pattern, name in _NAMES:
        output = pattern.sub(name, output)
    lines = [line.rstrip() for line in output.splitlines()]
    first = next((number for number, line in enumerate(lines) if _ERROR.match(line)), None)
    remaining = lines[first:] if first is not None else [line for line in lines if not _NOISE.search(line)]
    remaining = [line for line in remaining if line and not _NOISE.search(line)]
    return remaining[:LINES_MAX] + (["..."] if len(remaining) > LINES_MAX else [])


def page(faults: list[dict[str, Any]], version: str) -> Iterator[str]:
    """Yield the lines of the page."""
    yield "# Faults made on a real cluster, and what volbench said"
    yield ""
    lab = "the [lab cluster](../../../tests/lab/kubernetes/README.md)"
    yield f"Kubernetes {version}, {lab}. Each fault is made by a test that checks its outcome. The texts are copied"
    yield (
        "from the terminal by `tests/lab/kubernetes/faults.py`, with other names for namespaces and directories."
        " *Causes* are those of attempts that failed and were made again."
    )
    for fault in faults:
        yield ""
        yield f"## {fault['fault'][0].upper()}{fault['fault'][1:]}"
        causes = f"; causes: {', '.join(f'`{cause}`' for cause in fault['causes'])}" if fault["causes"] else ""
        yield f"Exit code {fault['code']}{causes}."
        yield ""
        yield "```"
        yield from quoted(fault["output"])
        yield "```"
    yield ""
    yield "## Pods that cannot start"
    yield "Each state was made with objects of the API, without a run (`tests/lab/kubernetes/troubles.py`)."
    yield ""
    yield "| made | volbench says | the cluster says |"
    yield "|---|---|---|"
    yield from _table(version)
    yield ""
    yield "## What cannot be made here"
    table = "[a table](../../../k8s/README.md#not-run-and-what-stands-for-it)"
    yield f"EKS, EBS, Fargate and what belongs to them: {table} has each with the check that stands for it."


def _table(version: str) -> Iterator[str]:
    conditions = json.loads((RECORDED / f"{version}.json").read_bytes())["conditions"]
    for condition, recorded in sorted(conditions.items()):
        claims = [event for event in recorded["events"] if event["involvedObject"]["kind"] == CLAIM]
        trouble = waiting_trouble(recorded["pod"], claims)
        if trouble is not None:
            yield f"| {condition.replace('-', ' ')} | {trouble.what} | {trouble.evidence.partition('. ')[0]} |"


def main() -> None:
    """Write the page; of a fault that was made twice, the later outcome."""
    source, target, version = sys.argv[1:]
    lines = [json.loads(line) for line in Path(source).read_text().splitlines()]
    faults = list({line["fault"]: line for line in lines}.values())
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    Path(target).write_text("\n".join(page(faults, version)) + "\n")


if __name__ == "__main__":
    main()
