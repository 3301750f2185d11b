"""Data and statements of the user: what a plan checks of them, and the download of a dump."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from volbench.core.base.extras import require
from volbench.core.profile.claim_path import CLAIM_EXAMPLE, parse_claim_path
from volbench.core.records.dataset import DatasetSpec
from volbench.core.records.own_files import dump_parents, dump_steps, snapshot_steps
from volbench.core.records.run import RunRecord, TargetName
from volbench.core.records.steps.replay import ReplayStep
from volbench.core.suite.model import SuiteFile
from volbench.core.suite.own_files import missing_files, named_files
from volbench.errors import UsageError
from volbench.machine.engine.own_data.form import check_sql_file
from volbench.machine.placement.docker.own_files import check_readable, containers_uid
from volbench.machine.placement.workspace import default_cache
from volbench.measure.execute.downloads import download, download_directory, download_path
from volbench.measure.session.carried import carried_files

_ELSEWHERE = "or choose --target docker or local"


def with_download(suite: SuiteFile, target: TargetName) -> SuiteFile:
    """Return the suite with the place of a dump that is downloaded to this machine, which pods do by themselves.

    Raises UsageError for a sweep over it.
    """
    dataset = suite.dataset
    swept = sorted(
        {"dataset.url", "dataset.sha256", "dataset.path"} & set(suite.sweep.factors if suite.sweep else ())
    )
    if swept and (dataset.url or swept != ["dataset.path"]):
        raise UsageError(
            "a sweep cannot download",
            where=f"sweep.factors.{swept[0]}",
            next_step="download the dumps, and sweep over `dataset.path`",
        )
    if not dataset.url or dataset.path or target == "kubernetes":
        return suite
    path = str(download_path(dataset.url, default_cache()))
    return suite.model_copy(update={"dataset": dataset.model_copy(update={"path": path})})


def download_dataset(dataset: DatasetSpec, say: Callable[[str], None]) -> None:
    """Bring a dump from its address to its path, if it has both; `say` gets its progress.

    Raises what `download` raises.
    """
    if not (dataset.url and dataset.path):
        return
    # A dump is as secret as its server: other users cannot enter; containers have the directory in it mounted.
    download_directory(default_cache()).mkdir(mode=0o700, parents=True, exist_ok=True)
    if download(dataset.url, Path(dataset.path), sha256=dataset.sha256, progress=say):
        say(f"downloaded {dataset.url} to {dataset.path}")


def restore_dataset(run: RunRecord, say: Callable[[str], None]) -> None:
    """Bring the dump of an earlier run again where it is gone. Raise what `download` raises."""
    dataset = run.suite.dataset
    if dataset.path and not Path(dataset.path).exists():
        download_dataset(dataset, say)


def check(suite: SuiteFile, path: Path, target: TargetName) -> None:
    """Raise UsageError for own files that are missing, and for a target that cannot use them."""
    _check_claim_path(suite.dataset, path, target)
    for key, fault in missing_files(suite):
        raise UsageError(fault, where=f"{path}: {'.'.join(map(str, key))}")
    _check_readable(suite, path, target)
    _check_form(suite.dataset)
    for step in suite.steps:
        if isinstance(step, ReplayStep):
            from volbench.measure.workload.replay.step import plan_replay  # noqa: PLC0415 - needs the extra `server`

            plan_replay(step, suite.dataset.schema_name)
    if suite.dataset.is_own and target == "attach":
        raise UsageError(
            "an attached server takes sysbench's tables only",
            where=f"{path}: dataset.kind",
            next_step="choose another target for own data; volbench loads it into servers of its own",
        )
    _check_dump_places(suite, path, target)
    if target == "kubernetes":
        _check_for_pods(suite, path)


def _check_claim_path(dataset: DatasetSpec, path: Path, target: TargetName) -> None:
    """Raise UsageError for a dataset on a claim where pods do not run, or that a pod cannot load from one."""
    if parse_claim_path(dataset.path) is None:
        return
    if target != "kubernetes":
        raise UsageError(
            f"{dataset.path} lies on a claim, and target {target} has no claims",
            where=f"{path}: dataset.path",
            next_step="choose --target kubernetes, or name a path of this machine",
        )
    if dataset.path.endswith(".lua"):
        raise UsageError(
            "a script is carried to the pods from this machine, not read from a claim",
            where=f"{path}: dataset.path",
            evidence=dataset.path,
            next_step="name the script's path on this machine",
        )


def _check_for_pods(suite: SuiteFile, path: Path) -> None:
    """Raise UsageError for own data that pods neither get from this machine nor find on a claim."""
    dataset = suite.dataset
    if dataset.kind == "schema":
        raise UsageError(
            "pods reach no server but their own",
            where=f"{path}: dataset.kind",
            next_step=f"dump the schema to a claim, and name it (`kind: dump`, `{CLAIM_EXAMPLE}`), {_ELSEWHERE}",
        )
    if dataset.url and dataset.path:
        raise UsageError(
            "pods keep no download: the dump is on the measured volume only while it is loaded",
            where=f"{path}: dataset.path",
            next_step=f"leave out `path`; or download the dump to a claim, and name it alone (`{CLAIM_EXAMPLE}`)",
        )
    carried_files(dataset, suite.steps)


def _check_form(dataset: DatasetSpec) -> None:
    """Raise UsageError for a file that is to be loaded and that is no SQL."""
    file = Path(dataset.path)
    loaded = dataset.kind == "dump" or (dataset.kind == "script" and file.suffix != ".lua")
    if loaded and file.is_file():  # what is downloaded comes when the run begins
        check_sql_file(file)


def _check_readable(suite: SuiteFile, path: Path, target: TargetName) -> None:
    """Raise UsageError for an own file that containers can neither read nor get a copy of."""
    if target == "docker":
        for key, file in named_files(suite):
            check_readable(file, containers_uid(), where=f"{path}: {'.'.join(map(str, key))}")


def _check_dump_places(suite: SuiteFile, path: Path, target: TargetName) -> None:
    """Raise UsageError for a backup to a place that is missing, or that the target does not have."""
    for step in dump_steps(suite.steps):
        destination = step.directory or step.url
        in_bucket = target == "kubernetes" and step.url
        if destination and target not in ("local", "attach") and not in_bucket:
            raise UsageError(
                f"a dump to {destination} needs cells that run on this machine itself",
                where=f"{path}: steps",
                next_step="choose --target local, or `to: scratch`",
            )
        if step.url and not in_bucket:  # the image of the pods has it
            require("boto3")
    if target != "kubernetes" and (snapshots := snapshot_steps(suite.steps)):
        raise UsageError(
            "a snapshot needs volumes of a Kubernetes cluster",
            where=f"{path}: steps",
            evidence=f"step {snapshots[0].name or snapshots[0].kind}, target {target}",
            next_step="choose --target kubernetes, or a `dump` in its place",
        )
    for directory in dump_parents(suite.steps):
        if not directory.is_dir():
            raise UsageError(
                f"there is no directory {directory}",
                where=f"{path}: steps",
                next_step="mount the volume for the dump there",
            )
