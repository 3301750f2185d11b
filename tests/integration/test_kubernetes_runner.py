"""The runner inside the cluster, as k8s/runner and its comments say, with the rights of k8s/base and no others."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import cluster_run
import live_run
import pytest
from cluster_run import STORAGE_CLASS, kubectl

from volbench.placement.docker.image_names import local_images, pick_server_image, tools_image
from volbench.store.run_directory import RunDirectory, find_runs

MANIFESTS = Path(__file__).parents[2] / "k8s"
NAMESPACE = "volbench"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:volbench-runner"
DOCUMENTED = "volbench/tools:0.1.0"
BOUND_S = 180.0
pytestmark = [
    pytest.mark.kubernetes, pytest.mark.slow, pytest.mark.timeout(600),
    pytest.mark.skipif("not __import__('cluster_run').with_lab()", reason="makes the namespace volbench"),
]  # fmt: skip


@pytest.fixture
def manifests(tmp_path: Path) -> Iterator[Path]:
    """k8s/ with image, suite and volumes set, as runner.yaml asks for; what was applied of it is deleted."""
    assert not has_namespace(), "somebody uses the namespace"
    cluster_run.lab("images")
    directory = tmp_path / "k8s"
    shutil.copytree(MANIFESTS, directory)
    runner = directory / "runner"
    server = pick_server_image(local_images(), "mysql")
    assert server is not None
    words = [
        "/opt/volbench/suites/quick.yaml",
        *(f"--volume={name}=storage-class:{STORAGE_CLASS}?size=1Gi" for name in "ab"),
    ]
    words += [f"--set={one}" for one in (*live_run.SMALL, f"engine.image={server.name}", "steps.0.duration=8s")]
    text = (runner / "runner.yaml").read_text()
    listed = "".join(f"            - {word}\n" for word in words)
    text, replaced = re.subn(r"(          args:\n)(?:            - .*\n)+", rf"\1{listed}", text)
    assert replaced == 1
    (runner / "runner.yaml").write_text(text)
    claim = (runner / "results.yaml").read_text()
    claim = claim.replace("[ReadWriteOnce]\n", f"[ReadWriteOnce]\n  storageClassName: {STORAGE_CLASS}\n", 1)
    (runner / "results.yaml").write_text(claim)
    for file in ("runner.yaml", "fetch.yaml"):
        (runner / file).write_text((runner / file).read_text().replace(DOCUMENTED, tools_image()))
    yield directory
    kubectl("delete", "--ignore-not-found", "--wait=false", "-k", str(directory / "base"))
    until(lambda: not has_namespace(), "the namespace is gone")


def has_namespace() -> bool:
    return f"namespace/{NAMESPACE}" in kubectl("get", "namespaces", "-o", "name").split()


def until(asked: Callable[[], bool], what: str) -> None:
    """Wait for a moment; the runner's last words when it does not come."""
    until_s = time.monotonic() + BOUND_S
    while not asked():
        if time.monotonic() > until_s:
            seen = subprocess.run(
                ["kubectl", "-n", NAMESPACE, "logs", "job/volbench-runner", "--tail=30"],
                capture_output=True, text=True, check=False, timeout=30,
            )  # fmt: skip
            pytest.fail(f"not in {BOUND_S:.0f} s: {what}\n{seen.stdout}{seen.stderr}")
        time.sleep(0.5)


def of_runner(path: str) -> str:
    return kubectl("get", "job", "volbench-runner", "-n", NAMESPACE, "-o", f"jsonpath={path}")


def names(kinds: str, component: str = "cell") -> list[str]:
    selector = f"app.kubernetes.io/component={component}"
    return kubectl("get", kinds, "-n", NAMESPACE, "-l", selector, "-o", "name").split()


def loading() -> bool:
    """Whether a cell's load is running, by the pod's own report."""
    return any("transactions/s" in kubectl("logs", "-n", NAMESPACE, pod, "-c", "results", "--tail=1")
               for pod in names("pods") if "Running" in kubectl("get", "-n", NAMESPACE, pod))  # fmt: skip


def fetched(manifests: Path, into: Path) -> RunDirectory:
    """The results, as the comments of k8s/runner say."""
    kubectl("apply", "-n", NAMESPACE, "-f", str(manifests / "runner" / "fetch.yaml"))
    kubectl("wait", "-n", NAMESPACE, "--for=condition=Ready", "pod/volbench-fetch", "--timeout=60s")
    kubectl("cp", f"{NAMESPACE}/volbench-fetch:/results", str(into))
    kubectl("delete", "-n", NAMESPACE, "pod", "volbench-fetch")
    (run,) = find_runs(into)
    return run


def test_a_runner_that_is_drained_away_goes_on_elsewhere_and_its_results_are_fetched(
    manifests: Path, tmp_path: Path
) -> None:
    """It needs no right beyond the role; a second pod takes the run over; of the run only the results are left."""
    kubectl("apply", "-k", str(manifests / "base"))
    kubectl("apply", "-n", NAMESPACE, "-f", str(manifests / "runner" / "results.yaml"))
    kubectl("apply", "-k", str(manifests / "runner"))
    for verb, thing in (("create", "pods"), ("get", "secrets"), ("list", "nodes"), ("update", "jobs"), ("*", "*")):
        asked = ["kubectl", "auth", "can-i", verb, thing, f"--as={ACCOUNT}", "-n", NAMESPACE]
        answer = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=30)
        assert answer.stdout.strip() == "no", f"it may {verb} {thing}"
    until(loading, "the first cell is under load")
    (first,) = names("pods", "runner")
    kubectl("delete", "-n", NAMESPACE, first)
    until(lambda: of_runner("{.status.succeeded}") == "1", "the runner has succeeded")
    assert first not in names("pods", "runner")
    assert names("jobs,pods,configmaps") == []
    assert names("persistentvolumeclaims", "volume") == []
    run = fetched(manifests, tmp_path / "results")
    planned = [cell.cell_id for cell in run.run.cells]
    assert [result.cell_id for result in run.results() if result.status == "done"] == planned
    finished = [event.cell_id for event in run.events() if event.event == "cell_finished"]
    assert sorted(finished) == sorted(planned)
    assert (run.path / "report.html").exists()
