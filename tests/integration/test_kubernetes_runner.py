"""The runner inside the cluster: by kubectl alone, by the command line, by Helm; with the rights of k8s/base."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import live_run
import pytest
from cluster_run import BOUND_S, LAB, NAMESPACE, STORAGE_CLASS, has_namespace, kubectl, until

from volbench.machine.engine.own_data.content import hash_of_scripts
from volbench.machine.placement.docker.image_names import local_images, pick_server_image, tools_image
from volbench.results.store.run_directory import RunDirectory, find_runs

ROOT = Path(__file__).parents[2]
OWN_LUA = """
function thread_init() con = sysbench.sql.driver():connect() end
function event() con:query("SELECT COUNT(*) FROM sbtest1 WHERE id = 1") end
"""
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:volbench-runner"
pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.timeout(1500),
    pytest.mark.usefixtures("lab_images"),
    pytest.mark.skipif("not __import__('cluster_run').with_lab()", reason="makes the namespace volbench"),
]


@pytest.fixture
def manifests(tmp_path: Path) -> Iterator[Path]:
    """k8s/ with image and suite set, as its comments ask for, applied once; what was applied of it is deleted."""
    assert not has_namespace(), "somebody uses the namespace"
    directory = tmp_path / "k8s"
    shutil.copytree(ROOT / "k8s", directory)
    kustomization = directory / "runner" / "kustomization.yaml"
    name, tag = tools_image().split(":")
    image = f"newName: {name}, newTag: {tag}"
    replace(kustomization, "newName: volbench.invalid/tools, newTag: 0.2.0", image)
    write_suite(directory / "runner" / "suite.yaml")
    replace(directory / "runner" / "runner.yaml", "args: []", f"args: {json.dumps(settings())}")
    claim = directory / "runner" / "setup" / "results.yaml"
    replace(claim, "[ReadWriteOnce]\n", f"[ReadWriteOnce]\n  storageClassName: {STORAGE_CLASS}\n")
    kubectl("apply", "-k", str(directory / "runner" / "setup"))
    yield directory
    kubectl("delete", "--ignore-not-found", "--wait=false", "-k", str(directory / "runner" / "setup"))
    until(lambda: not has_namespace(), "the namespace is gone")


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1, f"{file}: {old}"
    file.write_text(text.replace(old, new))


def write_suite(file: Path) -> None:
    """suites/quick.yaml on a claim."""
    volumes = f"volumes: {{a: storage-class:{STORAGE_CLASS}?size=1Gi}}\n"
    file.write_text((ROOT / "suites" / "quick.yaml").read_text() + volumes)


def settings(duration: str = "8s") -> list[str]:
    server = pick_server_image(local_images(), "mysql")
    assert server is not None
    small = (*live_run.SMALL, f"engine.image={server.name}", f"steps.0.duration={duration}")
    return [f"--set={setting}" for setting in small]


def of_job(name: str, path: str) -> str:
    return kubectl("get", "job", name, "-n", NAMESPACE, "-o", f"jsonpath={path}")


def condition(name: str, kind: str) -> str:
    return of_job(name, f'{{.status.conditions[?(@.type=="{kind}")].status}}')


def names(kinds: str, component: str = "cell") -> list[str]:
    selector = f"app.kubernetes.io/component={component}"
    return kubectl("get", kinds, "-n", NAMESPACE, "-l", selector, "-o", "name").split()


def loading() -> bool:
    """Whether a cell's load is running, by the pod's own report. Pods may go while they are looked at."""
    for pod in names("pods"):
        command = ["kubectl", "logs", "-n", NAMESPACE, pod, "-c", "results", "--tail=1"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
        if "transactions/s" in answer.stdout:
            return True
    return False


def evict(pod: str) -> None:
    """Do what `kubectl drain` does."""
    name = pod.removeprefix("pod/")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/eviction"
    kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))


def documented(file: Path, beginning: str) -> str:
    """Return the command of a file's comments that begins so."""
    lines = [line.removeprefix("#").partition("  # ")[0].strip() for line in file.read_text().splitlines()]
    (command,) = [line for line in lines if line.startswith(beginning)]
    return re.sub(r"\s{2,}#.*|\s{4,}.*", "", command)


def shell(command: str, directory: Path) -> str:
    done = subprocess.run(
        ["sh", "-c", command], cwd=directory, capture_output=True, text=True, timeout=BOUND_S, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def volbench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "volbench", *arguments], capture_output=True, text=True, timeout=BOUND_S, check=False
    )


def assert_done(run: RunDirectory) -> None:
    planned = [cell.cell_id for cell in run.run.cells]
    assert [result.cell_id for result in run.results() if result.status == "done"] == planned
    finished = [event.cell_id for event in run.events() if event.event == "cell_finished"]
    assert sorted(finished) == sorted(planned)
    assert (run.path / "report.html").exists()


def assert_only_results_left() -> None:
    assert names("jobs,pods,configmaps") == []
    assert names("jobs", "owner") == []
    assert names("persistentvolumeclaims", "volume") == []


@pytest.mark.slow
def test_kubectl_alone_runs_a_suite_and_brings_the_report_home(manifests: Path, tmp_path: Path) -> None:
    """By the commands in kustomization.yaml. The runner's pod is drained in mid-run: another one continues."""
    for verb, thing in (("create", "pods"), ("get", "secrets"), ("list", "nodes"), ("update", "jobs"), ("*", "*")):
        requests = ["kubectl", "auth", "can-i", verb, thing, f"--as={ACCOUNT}", "-n", NAMESPACE]
        answer = subprocess.run(requests, capture_output=True, text=True, check=False, timeout=30)
        assert answer.stdout.strip() == "no", f"it may {verb} {thing}"
    kustomization = manifests / "runner" / "kustomization.yaml"
    shell("kubectl apply -k k8s/runner", tmp_path)
    follower = subprocess.Popen(
        ["sh", "-c", documented(kustomization, "until kubectl logs")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        until(loading, "the first cell is under load")
        (first,) = names("pods", "runner")
        evict(first)
        log, _ = follower.communicate(timeout=BOUND_S)
    finally:
        follower.kill()
    assert "target kubernetes" in log, "it waited for the start, and saw it"
    until(lambda: of_job("volbench-runner", "{.status.succeeded}") == "1", "the runner has succeeded")
    assert not of_job("volbench-runner", "{.status.failed}"), "a disruption does not count"
    assert_only_results_left()
    shell(documented(kustomization, "sh k8s/runner/fetch.sh"), tmp_path)
    (run,) = find_runs(tmp_path / "results")
    assert_done(run)
    assert names("pods", "fetch") == [] or "Terminating" in kubectl("get", "pods", "-n", NAMESPACE)


@pytest.mark.slow
def test_a_failure_that_stays_ends_the_job_and_the_next_run_is_a_new_one(manifests: Path, tmp_path: Path) -> None:
    """Exit code 2: one pod, whose log stays. The next Job does not continue anything by itself."""
    suite = manifests / "runner" / "suite.yaml"
    text = suite.read_text()
    suite.write_text(f"{text}unknown_key: 1\n")
    shell("kubectl apply -k k8s/runner", tmp_path)
    until(lambda: condition("volbench-runner", "Failed") == "True", "the job has failed")
    assert of_job("volbench-runner", '{.status.conditions[?(@.type=="Failed")].reason}') == "PodFailurePolicy"
    (pod,) = names("pods", "runner")
    log = kubectl("logs", "-n", NAMESPACE, pod)
    assert "unknown_key" in log
    code = volbench("k8s", "logs", "volbench-runner", "-n", NAMESPACE)
    assert code.returncode == 2, code.stderr
    assert "unknown_key" in code.stdout
    suite.write_text(text)
    shell("kubectl delete -k k8s/runner && kubectl apply -k k8s/runner", tmp_path)
    until(lambda: of_job("volbench-runner", "{.status.succeeded}") == "1", "the runner has succeeded")
    assert_only_results_left()


@pytest.mark.slow
def test_a_run_is_submitted_followed_and_fetched_by_the_command_line(manifests: Path, tmp_path: Path) -> None:
    """The laptop could go after `submit`, which takes an own script along; `logs` ends with the run's exit code."""
    assert manifests.is_dir()
    write_suite(tmp_path / "mine.yaml")
    (tmp_path / "own.lua").write_text(OWN_LUA)
    submitted = volbench(
        "k8s",
        "submit",
        str(tmp_path / "mine.yaml"),
        *settings(),
        f"--set=steps.0.test={tmp_path}/own.lua",
        "--yes",
        "--target-option",
        f"namespace={NAMESPACE}",
        "--target-option",
        "start_timeout=3min",
    )
    assert submitted.returncode == 0, submitted.stderr
    (logs,) = re.findall(r"volbench (k8s logs .*)", submitted.stderr + submitted.stdout)
    (fetch,) = re.findall(r"volbench (k8s fetch .*)", submitted.stderr + submitted.stdout)
    followed = volbench(*logs.split())
    assert followed.returncode == 0, followed.stdout + followed.stderr
    assert "report:" in followed.stdout
    assert_only_results_left()
    fetched = volbench(*fetch.split(), "--out", str(tmp_path / "results"))
    assert fetched.returncode == 0, fetched.stderr
    (run,) = find_runs(tmp_path / "results")
    assert_done(run)
    assert run.run.target_options["start_timeout"] == "3min"
    (result,) = run.results()
    assert result.steps[0].details["script_sha256"] == hash_of_scripts(tmp_path / "own.lua")
    (job,) = re.findall(r"submitted job (\S+);", submitted.stderr)
    cleaned = volbench("k8s", "clean", "-n", NAMESPACE, job)
    assert cleaned.returncode == 0, cleaned.stderr
    assert names("jobs,configmaps", "runner") == []


def test_helm_installs_a_run_and_leaves_the_results(tmp_path: Path) -> None:
    """From an empty cluster: lint, install, fetch as NOTES say; `uninstall` leaves the claim with the runs."""
    assert not has_namespace(), "somebody uses the namespace"
    helm = subprocess.run(
        [sys.executable, str(LAB), "helm"], check=True, capture_output=True, text=True, timeout=600
    ).stdout.strip()
    write_suite(tmp_path / "suite.yaml")
    name, tag = tools_image().split(":")
    values = {
        "image": {"repository": name, "tag": tag, "pullPolicy": "Never"},
        "options": settings(),
        "results": {"storageClassName": STORAGE_CLASS},
    }
    (tmp_path / "values.yaml").write_text(json.dumps(values))
    chosen = f"-f {tmp_path}/values.yaml --set-file suite={tmp_path}/suite.yaml"
    try:
        shell(f"{helm} lint k8s/chart --strict {chosen}", ROOT)
        kubectl("create", "namespace", NAMESPACE)
        install = [helm, "install", "vb", "k8s/chart", "-n", NAMESPACE, *chosen.split()]
        refused = subprocess.run(install, check=False, capture_output=True, text=True, cwd=ROOT, timeout=120)
        assert "enforces nothing, cells need `restricted`" in refused.stderr
        kubectl("apply", "-f", str(ROOT / "k8s/base/namespace.yaml"))
        unknown = [*install, "--set", "namespase.create=true"]
        refused = subprocess.run(unknown, check=False, capture_output=True, text=True, cwd=ROOT, timeout=120)
        assert "namespase" in refused.stderr, "the schema names an unknown value"
        notes = shell(f"{helm} install vb k8s/chart -n {NAMESPACE} {chosen}", ROOT)
        (job,) = [name.removeprefix("job.batch/") for name in names("jobs", "runner")]
        assert kubectl("get", "limitrange", "-n", NAMESPACE, "-o", "name") == ""
        shell(f"{helm} upgrade vb k8s/chart -n {NAMESPACE} {chosen}", ROOT)
        assert names("jobs", "runner") == [f"job.batch/{job}"], "the same again is no other run"
        second = f"{helm} template second k8s/chart -n {NAMESPACE} {chosen} --set shared=false,results.create=false"
        kubectl("apply", "--dry-run=server", "-n", NAMESPACE, "-f", "-", stdin=shell(second, ROOT))
        until(loading, "the first cell is under load")
        early = volbench("k8s", "fetch", job, "-n", NAMESPACE, "--out", str(tmp_path / "early"))
        assert early.returncode == 0, early.stderr
        assert names("jobs", "fetch") == [], "it read through the runner's own pod"
        (begun,) = find_runs(tmp_path / "early")
        until(lambda: of_job(job, "{.status.succeeded}") == "1", "the runner has succeeded")
        (fetch,) = [line.strip() for line in notes.splitlines() if line.strip().startswith("sh k8s")]
        shell(fetch.replace(" results ", f" {tmp_path}/results "), ROOT)
        (run,) = find_runs(tmp_path / "results")
        assert_done(run)
        assert_only_results_left()
        shell(f"{helm} uninstall vb -n {NAMESPACE}", ROOT)
        assert names("persistentvolumeclaims", "results") == ["persistentvolumeclaim/volbench-results"]
        late = volbench("k8s", "fetch", begun.path.name, "-n", NAMESPACE, "--out", str(tmp_path / "late"))
        assert late.returncode == 0, late.stderr
        assert_done(find_runs(tmp_path / "late")[0])
    finally:
        subprocess.run([helm, "uninstall", "vb", "-n", NAMESPACE], check=False, capture_output=True, timeout=120)
        kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=false")
        until(lambda: not has_namespace(), "the namespace is gone")
