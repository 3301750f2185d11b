"""Suites of schema 1, as volbench shipped them, mean what they meant: older names of keys are translated."""

from __future__ import annotations

from pathlib import Path

import pytest

from volbench.suite.load import load_suite

HERE = Path(__file__).parent
OLD = sorted((HERE / "suites").glob("*-1.yaml"))


CASES = [(path, scale) for path in OLD for scale in ("full", *load_suite(path)[0].scales)]


@pytest.mark.parametrize(("path", "scale"), CASES, ids=[f"{path.stem}-{scale}" for path, scale in CASES])
def test_an_old_suite_means_what_the_shipped_one_means(path: Path, scale: str) -> None:
    warnings: list[str] = []
    today = HERE.parents[1] / "suites" / path.name.replace("-1.yaml", ".yaml")
    old, _ = load_suite(path, settings=[f"scale={scale}"], warn=warnings.append)
    new, _ = load_suite(today, settings=[f"scale={scale}"], warn=warnings.append)
    assert old.resolved() == new.resolved()
    assert warnings
    assert all(warning.startswith(f"{path}:") for warning in warnings)
