"""The runner's Job is the same from the command line and from kustomize; which run its pods work on."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_schemas
import pytest
from ruamel.yaml import YAML

from volbench.cli.cluster import k8s_runner
from volbench.core.suite.load import load_suite
from volbench.errors import UsageError
from volbench.machine.placement.docker.image_names import TOOLS_ALIAS
from volbench.machine.placement.kubernetes.manifests import pull_policy_of
from volbench.machine.placement.kubernetes.runner import fetch_job, input_map, results_claim, runner_job

ROOT = Path(__file__).parents[4]
IMAGE = "reg.example/v:0.2.0"


def document(file: Path) -> dict[str, Any]:
    """The object of a file, with the image that kustomization.yaml puts there."""
    text = file.read_text().replace(TOOLS_ALIAS, IMAGE)
    document: dict[str, Any] = json.loads(json.dumps(YAML(typ="safe").load(text)))
    return document


def test_the_manifests_are_those_of_submit() -> None:
    assert document(ROOT / "k8s/runner/runner.yaml") == runner_job(image=IMAGE)
    assert document(ROOT / "k8s/runner/setup/results.yaml") == results_claim()


@pytest.mark.parametrize("version", kubernetes_schemas.VERSIONS)
def test_all_objects_fit_the_api(version: str) -> None:
    files = {"/home/dba/own.lua": b"x"}
    job = runner_job(
        image=IMAGE, options=["--set=a=1"], resume="r", results_to="s3://b/p", pull_secret="s", own=files
    )
    for manifest in (
        job,
        input_map("n", {"suite.yaml": "text"}),
        input_map("n", {"suite.yaml": "text"}, files),
        results_claim(size="1Gi", storage_class="c"),
        fetch_job(name="n", image=IMAGE, claim="c", pull_secret="s"),
    ):
        kubernetes_schemas.check(manifest, version)


def test_own_files_are_in_the_jobs_config_map_and_below_their_directory_in_its_pod() -> None:
    files = {"/home/dba/own.lua": b"x", "/home/dba/keys.lua": b"y"}
    pod = runner_job(image=IMAGE, name="n", own=files)["spec"]["template"]["spec"]
    (own,) = [volume for volume in pod["volumes"] if volume["name"] == "own"]
    data = input_map("n", {}, files)["binaryData"]
    paths = {item["path"]: data[item["key"]] for item in own["configMap"]["items"]}
    assert own["configMap"]["name"] == "n"
    assert paths == {"home/dba/own.lua": "eA==", "home/dba/keys.lua": "eQ=="}
    mounts = pod["containers"][0]["volumeMounts"]
    assert {"name": "own", "mountPath": "/volbench/own", "readOnly": True} in mounts


def test_every_container_has_requests_and_limits() -> None:
    for job in (runner_job(image=IMAGE), fetch_job(name="n", image=IMAGE, claim="c")):
        for container in job["spec"]["template"]["spec"]["containers"]:
            assert (
                set(container["resources"]["requests"])
                == set(container["resources"]["limits"])
                == {
                    "cpu",
                    "memory",
                }
            )


def test_the_runners_suite_is_the_one_of_the_documentation() -> None:
    """suites/compare.yaml and two volumes."""
    mine, _ = load_suite(ROOT / "k8s/runner/suite.yaml")
    foreign, _ = load_suite(ROOT / "suites/compare.yaml")
    assert set(mine.volumes) == {"gp3", "gp2"}
    assert mine.model_copy(update={"volumes": {}}) == foreign


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl's kustomize")
def test_the_image_is_set_in_one_place(tmp_path: Path) -> None:
    """Of the runner and, by its environment, of the cells."""
    shutil.copytree(ROOT / "k8s", tmp_path / "k8s")
    file = tmp_path / "k8s/runner/kustomization.yaml"
    file.write_text(file.read_text().replace("newName: volbench.invalid/tools", "newName: reg.example/v"))
    job, files = job_and_files(file.parent)
    expected = runner_job(image="reg.example/v:0.2.0")["spec"]
    suite = (ROOT / "k8s/runner/suite.yaml").read_text()
    expected["template"]["metadata"]["annotations"] = {"volbench.org/suite": suite}
    assert job["spec"] == expected
    assert files["metadata"]["name"] == job["metadata"]["name"]
    assert files["data"] == {"suite.yaml": suite}


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl's kustomize")
def test_an_edited_suite_is_another_job_of_that_name(tmp_path: Path) -> None:
    """The API refuses it; an edited ConfigMap alone would change nothing, and say nothing."""
    shutil.copytree(ROOT / "k8s", tmp_path / "k8s")
    before, _ = job_and_files(tmp_path / "k8s/runner")
    suite = tmp_path / "k8s/runner/suite.yaml"
    suite.write_text(suite.read_text().replace("threads: 8", "threads: 16"))
    after, _ = job_and_files(tmp_path / "k8s/runner")
    assert after["metadata"] == before["metadata"]
    assert after["spec"]["template"] != before["spec"]["template"]


def job_and_files(directory: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The runner's Job and the ConfigMap with its suite, as kustomize builds them."""
    built = subprocess.run(
        ["kubectl", "kustomize", str(directory)], check=True, capture_output=True, text=True
    ).stdout
    by_kind = {each["kind"]: each for each in json.loads(json.dumps(list(YAML(typ="safe").load_all(built))))}
    return by_kind["Job"], by_kind["ConfigMap"]


def test_no_image_can_be_registered_by_somebody_else() -> None:
    """`.invalid` is no domain, by RFC 2606; the names of local images are never pulled."""
    for file in (ROOT / "k8s").rglob("*.yaml"):
        for line in file.read_text().splitlines():
            if "volbench/tools" in line or "newName" in line:
                assert "volbench.invalid/" in line, f"{file}: {line}"
    assert pull_policy_of("volbench/tools:0123", "IfNotPresent") == "Never"
    assert pull_policy_of(TOOLS_ALIAS, "Always") == "Never"
    assert pull_policy_of("reg.example/volbench/tools:1", "Always") == "Always"


class Commands:
    """What `in-cluster` calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.resumed: list[Path] = []
        self.begun: list[Path] = []
        monkeypatch.setattr(k8s_runner, "resume_run", lambda directory, **_: self.resumed.append(directory.path))
        monkeypatch.setattr(k8s_runner, "make_plan", lambda *_, **__: None)
        monkeypatch.setattr(k8s_runner, "show_plan", lambda _: None)
        monkeypatch.setattr(k8s_runner, "begin_run", lambda _, results, **__: self.begun.append(results))


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Commands:
    return Commands(monkeypatch)


def run_of(results: Path, job: str, run_id: str) -> Path:
    path = results / job / run_id
    path.mkdir(parents=True)
    (path / "run.json").write_text("{}")
    return path


def test_another_job_begins_another_run(commands: Commands, tmp_path: Path) -> None:
    run_of(tmp_path, "uid-1", "20260101T000000Z-quick-aaaaaa")
    k8s_runner.in_cluster(tmp_path / "suite.yaml", results=tmp_path, job_uid="uid-2")
    assert (commands.begun, commands.resumed) == ([tmp_path / "uid-2"], [])


def test_the_next_pod_of_a_job_continues_its_run(commands: Commands, tmp_path: Path) -> None:
    path = run_of(tmp_path, "uid-1", "20260101T000000Z-quick-aaaaaa")
    k8s_runner.in_cluster(tmp_path / "suite.yaml", results=tmp_path, job_uid="uid-1")
    assert (commands.begun, commands.resumed) == ([], [path])


def test_a_ladder_is_no_run_that_the_next_pod_continues(commands: Commands, tmp_path: Path) -> None:
    """The pod ended after the ladder and before the run that needs it."""
    run_of(tmp_path / "uid-1", "ladders", "20260101T000000Z-quick-ladder-aaaaaa")
    k8s_runner.in_cluster(tmp_path / "suite.yaml", results=tmp_path, job_uid="uid-1")
    assert (commands.begun, commands.resumed) == ([tmp_path / "uid-1"], [])


def test_a_run_of_another_job_is_continued_by_its_id(commands: Commands, tmp_path: Path) -> None:
    path = run_of(tmp_path, "uid-1", "20260101T000000Z-quick-aaaaaa")
    k8s_runner.in_cluster(tmp_path / "s", results=tmp_path, job_uid="uid-2", resume=path.name)
    assert commands.resumed == [path]
    with pytest.raises(UsageError, match=f"runs there: {path.name}"):
        k8s_runner.in_cluster(tmp_path / "s", results=tmp_path, job_uid="uid-2", resume="x")
