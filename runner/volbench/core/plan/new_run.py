"""A new run: a resolved suite, named volumes and a target become run.json."""

from __future__ import annotations

from collections.abc import Sequence

from volbench import __version__
from volbench.core.plan.order import Treatment, interleave
from volbench.core.records.base import Scalar
from volbench.core.records.facts import HostFacts
from volbench.core.records.run import ResolvedSuite, RunRecord, TargetName, VolumeSpec
from volbench.errors import UsageError


def plan_run(  # noqa: PLR0913 - one for each fact of run.json
    *,
    run_id: str,
    started_at: str,
    suite: ResolvedSuite,
    suite_source: str,
    volumes: Sequence[VolumeSpec],
    treatments: Sequence[Treatment] | None = None,
    target: TargetName,
    target_options: dict[str, Scalar],
    command: Sequence[str],
    host: HostFacts,
) -> RunRecord:
    """Return the run's record with every planned cell. Raise UsageError without volumes or for a repeated name.

    Args:
        treatments: of a sweep; without a sweep each volume is a treatment.
    """
    names = [volume.name for volume in volumes]
    if not names:
        raise UsageError(
            "the run has no volume",
            where=f"suite {suite.name}",
            next_step="add --volume a=path:/mnt/a --volume b=path:/mnt/b",
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(
            f"two volumes have the name {twice[0]!r}", where="--volume", next_step="give each its own name"
        )
    return RunRecord(
        run_id=run_id,
        started_at=started_at,
        volbench_version=__version__,
        command=tuple(command),
        target=target,
        target_options=target_options,
        suite=suite,
        suite_source=suite_source,
        volumes=tuple(volumes),
        cells=tuple(interleave(treatments or names, repeats=suite.repeats, seed=suite.seed)),
        host=host,
    )
