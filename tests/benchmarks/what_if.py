"""How far predictions are off: each volume's load predicted on every other volume, and run there.

    python tests/benchmarks/what_if.py --out DIR [--suite FILE] [--target docker] [--volume SPEC]... [--json FILE]
    python tests/benchmarks/what_if.py --out DIR --held-out SEED [--target docker] [--json FILE]

Each volume has a run of its own, so that its credits are as the SPEC says. A pair is a load measured on one
emulated volume and predicted on another. With --held-out, a seed draws three loads and six volumes, so that
nobody chose them to fit the model. Ends with 1 when a stated figure of transactions per second is off by more than
20 %, or with 3 when a run failed. A volume of which DIR holds a run is not run again.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from volbench.core.records.named_metrics import Client
from volbench.results.explain.accounts.demand import Demand, PredictionUnavailable, demand_of
from volbench.results.explain.accounts.what_if import Outlook, other_volume, predict
from volbench.results.explain.case import Case
from volbench.results.explain.run_cases import cases_of
from volbench.results.stats.grid import median as median_of
from volbench.results.store.loaded_run import load_run
from volbench.results.store.run_directory import RunDirectory

ERROR_MAX, NEAR = 0.20, 0.15
RUN_TIMEOUT_S = 300
SUITE = Path(__file__).with_suffix(".yaml")
VOLUMES = ("ebs-gp2?size=100GiB&credits=0%", "ebs-gp3", "ebs-gp3?iops=6000", "ebs-io2?iops=8000")


LOADS = (
    "oltp_point_select",
    "oltp_read_only",
    "oltp_read_write",
    "oltp_write_only",
    "oltp_update_index",
    "oltp_update_non_index",
)
"""Drawn ones run in this order: a load that writes leaves purge work to the one after it, more on a fast volume."""


def drawn_suite(seed: int) -> dict[str, Any]:
    """Three loads with a pool and a data set of the seed's, as a suite."""
    source = random.Random(seed)
    pool_mib = source.randrange(24, 65, 8)
    return {
        "schema": 2,
        "name": f"what-if-held-out-{seed}",
        "description": f"Loads drawn by seed {seed}, on one emulated volume",
        "engine": {
            "config": {
                "innodb_buffer_pool_size": f"{pool_mib}M",
                "innodb_redo_log_capacity": "256M",
                "innodb_lru_scan_depth": 3 * pool_mib,  # as small as the pool: see what_if.yaml
                "innodb_old_blocks_time": 0,
                "innodb_old_blocks_pct": 95,
            }
        },
        "dataset": {"tables": source.randrange(4, 9), "rows": source.randrange(50_000, 100_001, 10_000)},
        "steps": [
            {
                "kind": "oltp",
                "name": test.removeprefix("oltp_").replace("_", "-"),
                "test": test,
                "threads": source.randrange(4, 33),
                "rand_type": source.choice(("uniform", "gaussian")),
                "warmup": "30s",
                "duration": "10s",
            }
            for test in sorted(source.sample(LOADS, 3), key=LOADS.index)
        ],
        "repeats": 1,
        "seed": seed,
    }


def drawn_volumes(seed: int) -> list[str]:
    """Six volumes of the seed's, two of each kind."""
    source = random.Random(seed + 1)
    sizes, gp3, io2 = (
        source.sample(range(*bounds), 2) for bounds in ((150, 950, 50), (3000, 12_000, 500), (1000, 14_000, 500))
    )
    return [
        *(f"ebs-gp2?size={size}GiB&credits=0%" for size in sizes),
        *(f"ebs-gp3?iops={iops}" for iops in gp3),
        *(f"ebs-io2?iops={iops}" for iops in io2),
    ]


def run(spec: str, suite: Path, out: Path, target: str) -> None:
    """One run on one emulated volume."""
    command = [
        *(sys.executable, "-m", "volbench", "run", str(suite), "--target", target, "--yes", "--out", str(out)),
        *("--volume", f"v=emulated:{spec}"),
    ]
    subprocess.run(command, check=True, timeout=RUN_TIMEOUT_S, stdout=subprocess.DEVNULL)


def measured(out: Path) -> dict[str, dict[str, list[Case]]]:
    """SPEC -> step -> its cases, of all runs."""
    entry: dict[str, dict[str, list[Case]]] = {}
    for value in sorted(path for path in out.iterdir() if (path / "run.json").exists()):
        directory = RunDirectory.open(value)
        (volume,) = directory.run.volumes
        steps = entry.setdefault(volume.text.removeprefix("emulated:"), {})
        for result in directory.results():
            for case in cases_of(load_run(directory), result):
                steps.setdefault(case.name, []).append(case)
    return entry


def about(out: Path) -> dict[str, Any]:
    """What the figures hold for."""
    directory = RunDirectory.open(min(path for path in out.iterdir() if (path / "run.json").exists()))
    run, server = directory.run, next(result.server for result in directory.results() if result.server)
    return {
        "date": run.started_at[:10],
        "volbench": run.volbench_version,
        "target": run.target,
        "server": f"{server.flavor} {server.version}",
        "cpus": run.host.cpus,
        "cpu_model": run.host.cpu_model,
    }


def pairs(result: dict[str, dict[str, list[Case]]]) -> Iterator[dict[str, Any]]:
    """Every load on every other volume: predicted and run."""
    for measured_on, predicted_on in product(result, repeat=2):
        for step, cases in result[measured_on].items():
            existing = result[predicted_on].get(step, [])
            if measured_on == predicted_on or not existing:
                continue
            outlook = predict([with_emulator(case) for case in cases], other_volume(predicted_on))
            about = {"step": step, "measured_on": measured_on, "predicted_on": predicted_on}
            if not outlook.outlooks:
                yield {**about, "cannot": outlook.cannot}
            yield from ({**about, **_compared(outlook, existing)} for outlook in outlook.outlooks[-1:])


def with_emulator(case: Case) -> Demand | PredictionUnavailable:
    """The demand with the emulator's CPU time: the other volume is emulated on the same CPUs, a real one is not."""
    demand, cpus = demand_of(case), case.grid.column("tasks", "cpus_used", "emulator")
    if not isinstance(demand, Demand) or cpus is None:
        return demand
    emulator_s = float(np.nanmean(cpus)) / demand.tps
    return replace(
        demand,
        cpu_s_min=min(demand.cpu_s_max, demand.cpu_s_min + emulator_s),
        cpu_s=min(demand.cpu_s_max, demand.cpu_s + emulator_s),
    )


def _compared(outlook: Outlook, existing: list[Case]) -> dict[str, Any]:
    """The last regime (of a volume that starts without credits, the only one) against what was run."""
    tps = median(case.tps or 0.0 for case in existing)
    p95 = [result for case in existing if (result := median_of(case.at(Client.latency_ms_p95))) is not None]
    return {
        "regime": outlook.regime,
        "limited_by": outlook.bound,
        "tps": tps,
        "predicted_tps": outlook.tps,
        "predicted_interval": outlook.tps_interval,
        "error": outlook.tps / tps - 1,
        "held": outlook.tps_interval[0] <= tps <= outlook.tps_interval[1],
        "latency_ms_p95": median(p95) if p95 else None,
        "predicted_latency_ms_p95": outlook.p95_ms,
        "predicted_latency_interval": outlook.p95_interval,
        "states_tps": outlook.states_tps,
        "states_p95": outlook.states_p95,
    }


def main() -> int:
    """Run, predict, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--suite", type=Path, default=SUITE)
    parser.add_argument("--target", default="docker")
    parser.add_argument("--volume", action="append", default=[])
    parser.add_argument("--held-out", type=int, metavar="SEED")
    parser.add_argument("--json", type=Path)
    expected = parser.parse_args()
    expected.out.mkdir(parents=True, exist_ok=True)
    if expected.held_out is not None:
        expected.suite, expected.volume = expected.out / "held-out.yaml", drawn_volumes(expected.held_out)
        expected.suite.write_text(json.dumps(drawn_suite(expected.held_out), indent=1))  # JSON is YAML
    done = measured(expected.out)
    for spec in (item for item in expected.volume or VOLUMES if not done.get(item)):
        try:
            run(spec, expected.suite, expected.out, expected.target)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            print(f"{spec}: {error}", file=sys.stderr)
            return 3
    rows = list(pairs(measured(expected.out)))
    for row in rows:
        print(_line(row))
    all_errors = [abs(row["error"]) for row in rows if "error" in row]
    stated = [abs(row["error"]) for row in rows if row.get("states_tps")]
    print(_summary(rows, all_errors))
    if expected.json is not None:
        expected.json.write_text(json.dumps({"schema": 1, **about(expected.out), "pairs": rows}, indent=1) + "\n")
    return 0 if stated and max(stated) <= ERROR_MAX else 1


def _summary(rows: list[dict[str, Any]], all_errors: list[float]) -> str:
    """Errors of the figures that the product shows, and how often the intervals of all pairs held what was run."""
    if not all_errors:
        return "no pair"
    stated = [abs(row["error"]) for row in rows if row.get("states_tps")]
    p95 = [row for row in rows if row.get("predicted_latency_interval") and row.get("latency_ms_p95")]
    p95_errors = [
        abs(row["predicted_latency_ms_p95"] / row["latency_ms_p95"] - 1) for row in p95 if row["states_p95"]
    ]
    p95_held = sum(
        low <= row["latency_ms_p95"] <= high for row in p95 for low, high in [row["predicted_latency_interval"]]
    )
    inside = sum(row.get("held", False) for row in rows)
    return (
        f"{len(all_errors)} pairs, {len(rows) - len(all_errors)} refused; tps stated of {_errors(stated)}, of all"
        f" {_errors(all_errors)}; p95 stated of {_errors(p95_errors)}; the interval held {inside}"
        f" of {len(all_errors)}, that of p95 {p95_held} of {len(p95)}"
    )


def _errors(errors: list[float]) -> str:
    if not errors:
        return "none"
    near = sum(error <= NEAR for error in errors)
    return f"{len(errors)} (median {median(errors):.1%}, largest {max(errors):.1%}, {near} within {NEAR:.0%})"


def _line(row: dict[str, Any]) -> str:
    about = f"{row['step']}: {row['measured_on']} -> {row['predicted_on']}"
    if "cannot" in row:
        return f"{about}: {row['cannot']}"
    low, high = row["predicted_interval"]
    return (
        f"{about}: predicted {row['predicted_tps']:.1f} tps ({low:.1f} .. {high:.1f}), run {row['tps']:.1f},"
        f" {row['error']:+.1%}; limited by {row['limited_by']}"
    )


if __name__ == "__main__":
    sys.exit(main())
