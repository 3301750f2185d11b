"""What copies and disks make of the difference between two pools, for the report's summary."""

from __future__ import annotations

from collections.abc import Sequence

from volbench.results.explain.accounts.pool import Pool, pool_difference
from volbench.results.explain.run import RunExplanation


def pool_sentences(
    explained: RunExplanation, volumes: Sequence[str], *, of_step: str | None = None
) -> tuple[str, ...]:
    """Return a sentence for each step and each volume that is another pool of disks than the first one.

    Args:
        volumes: names, the baseline first. Where it is no pool, the first pool is compared with.
        of_step: of this step only.
    """
    by_step: dict[str, dict[str, list[Pool]]] = {}
    for (volume, step), views in explained.views.items():
        pools = [view.pool for view in views.values() if view.pool is not None]
        if pools and of_step in (None, step):
            by_step.setdefault(step, {})[volume] = pools
    texts: dict[str, None] = {}
    for step, pools_by_volume in by_step.items():
        first, *candidates = [name for name in volumes if name in pools_by_volume]
        for candidate in candidates:
            text = pool_difference(first, candidate, pools_by_volume)
            if text is not None:
                texts[f"Step {step}: {text}"] = None
    return tuple(texts)
