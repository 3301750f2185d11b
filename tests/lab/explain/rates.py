"""The statistics' half: A/A false alarms and power of verdicts, as tests/benchmarks/verdict_rates.py has them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

FAMILIES = {1.0: 2000, 1.1: 400, 1.2: 400}
"""Simulated pairs of each row, by true ratio: more without a difference, whose rate is close to its bar."""
BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "verdict_rates.py"


def verdict_rates(*, seed: int = 1) -> dict[str, Any]:
    """Rates for 5 against 5 cells, by true difference and by how far cells differ by themselves."""
    simulated = _benchmark()
    rows = []
    for ratio, families in FAMILIES.items():
        for offset in (0.03, 0.05, 0.08):
            for runs in (5, 8):
                for metrics in (1, 3):
                    rates = simulated.rates(
                        families=families, runs=runs, offset=offset, ratio=ratio, metrics=metrics, seed=seed
                    )
                    rows.append(
                        {
                            "true_difference": ratio - 1,
                            "cell_offset": offset,
                            "runs": runs,
                            "metrics": metrics,
                            "families": families,
                            "comparisons": families * metrics,
                            "called_different": rates.verdict,
                            "called_better": rates.better,
                        }
                    )
    return {"seed": seed, "rows": rows}


def _benchmark() -> Any:
    specification = importlib.util.spec_from_file_location("verdict_rates", BENCHMARK)
    if specification is None or specification.loader is None:
        raise FileNotFoundError(BENCHMARK)
    module = importlib.util.module_from_spec(specification)
    sys.modules["verdict_rates"] = module
    specification.loader.exec_module(module)
    return module
