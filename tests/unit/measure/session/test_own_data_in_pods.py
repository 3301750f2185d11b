"""Own data on the target kubernetes: what a plan takes, and what it refuses before anything is asked."""

from __future__ import annotations

import gzip
from pathlib import Path
from types import SimpleNamespace

import pytest

from volbench.cli.cluster.k8s import manifests_of
from volbench.cli.runs import submission
from volbench.cli.runs.submission import ResultsClaim, submit_suite
from volbench.core.records.run import RunRecord
from volbench.core.suite.load import load_suite
from volbench.errors import UsageError
from volbench.machine.placement.kubernetes import remote
from volbench.measure.session.planner import make_plan
from volbench.measure.session.servers import TargetRequest
from volbench.measure.session.targets import own_data_of

SUITES = Path(__file__).parents[4] / "suites"
CLASS = ["a=storage-class:fast?size=1Gi"]
IDLE = "{kind: idle, duration: 1s}"


def suite(root: Path, dataset: str = "", steps: str = IDLE, more: str = "") -> Path:
    path = root / "own.yaml"
    path.write_text(f"schema: 2\nname: own\n{dataset}steps: [{steps}]\nrepeats: 1\n{more}")
    return path


def plan(path: Path, target: str = "kubernetes") -> RunRecord:
    volumes = CLASS if target == "kubernetes" else [f"a=path:{path.parent}"]
    return make_plan(path, volumes, TargetRequest(target=target)).run


def test_a_dump_on_a_claim_keeps_its_path_and_the_run_names_the_claim(tmp_path: Path) -> None:
    run = plan(suite(tmp_path, "dataset: {kind: dump, path: 'pvc:dumps/2026/shop.sql', schema: shop}\n"))
    assert run.suite.dataset.path == "pvc:dumps/2026/shop.sql"
    own = own_data_of(run)
    assert (own.claims, own.files, own.measured) == (("dumps",), {}, ())


def test_small_files_of_this_machine_are_taken_along(tmp_path: Path) -> None:
    for name in ("own.lua", "keys.lua"):
        (tmp_path / name).touch()
    (tmp_path / "shop.sql").write_text("SELECT 1;\n")
    dataset = "dataset: {kind: script, path: shop.sql, schema: shop}\n"
    own = own_data_of(plan(suite(tmp_path, dataset, "{kind: oltp, test: own.lua}")))
    assert sorted(own.files) == [str(tmp_path / name) for name in ("keys.lua", "own.lua", "shop.sql")]
    assert own.claims == ()


def test_each_dataset_of_a_sweep_is_taken_along_or_named(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("SELECT 1;\n")
    here = tmp_path / "a.sql"
    factors = f"sweep: {{factors: {{dataset.path: {{base: '{here}', levels: ['pvc:dumps/b.sql']}}}}}}\n"
    own = own_data_of(plan(suite(tmp_path, "dataset: {kind: dump, path: a.sql}\n", more=factors)))
    assert (list(own.files), own.claims) == ([str(here)], ("dumps",))


def test_a_bundled_script_is_rendered_with_the_pods_that_run_it() -> None:
    rendered = list(manifests_of(plan(SUITES / "tpcc.yaml"), everything=False))
    (files,) = [manifest for manifest in rendered if "own-files" in manifest["metadata"]["name"]]
    assert rendered.index(files) == 1, "after the run's owner, before all that mounts it"
    pods = [manifest["spec"]["template"]["spec"] for manifest in rendered if manifest["kind"] == "Job"][1:]
    names = [[volume["configMap"]["name"] for volume in pod["volumes"] if volume["name"] == "own"] for pod in pods]
    assert names == [[files["metadata"]["name"]]] * 2, "of the template and of the cell"


def test_sysbenchs_own_tables_need_neither(tmp_path: Path) -> None:
    own = own_data_of(plan(suite(tmp_path)))
    assert (own.files, own.claims) == ({}, ())


SHA = "a" * 64
DUMP = "dataset: {kind: dump, path: 'pvc:dumps/shop.sql'}\n"


@pytest.mark.parametrize(
    ("target", "dataset", "steps", "what", "next_step"),
    [
        ("local", DUMP, IDLE, "target local has no claims", "--target kubernetes"),
        ("docker", DUMP, IDLE, "target docker has no claims", "--target kubernetes"),
        (
            "kubernetes",
            "dataset: {kind: dump, path: 'pvc:dumps/../shop.sql'}\n",
            IDLE,
            "not a path in the claim",
            "pvc:CLAIM/",
        ),
        (
            "kubernetes",
            "dataset: {kind: script, path: 'pvc:dumps/own.lua'}\n",
            IDLE,
            "a script is carried to the pods from this machine",
            "on this machine",
        ),
        ("kubernetes", "", "{kind: oltp, test: 'pvc:dumps/own.lua'}", "there is no file pvc:dumps/own.lua", ""),
        (
            "kubernetes",
            f"dataset: {{kind: dump, url: 'https://h.invalid/shop.sql', sha256: {SHA}, path: /d/shop.sql}}\n",
            IDLE,
            "pods keep no download",
            "pvc:CLAIM/",
        ),
        (
            "kubernetes",
            "dataset: {kind: schema, server: 'mysql://reader@db1/shop'}\n",
            IDLE,
            "pods reach no server but their own",
            "pvc:CLAIM/",
        ),
        ("kubernetes", "dataset: {kind: dump, path: shop}\n", IDLE, "has room for 900 KiB", "pvc:CLAIM/"),
    ],
)
def test_what_pods_cannot_have_is_refused_by_the_plan(
    tmp_path: Path, target: str, dataset: str, steps: str, what: str, next_step: str
) -> None:
    (tmp_path / "shop").mkdir()
    with pytest.raises(UsageError) as refused:
        plan(suite(tmp_path, dataset, steps), target)
    assert what in refused.value.what
    assert next_step in refused.value.next_step


def submitted(path: Path, monkeypatch: pytest.MonkeyPatch) -> remote.Submission:
    """What is submitted of a suite."""
    submissions: list[remote.Submission] = []

    def submit(_cluster: object, made: remote.Submission) -> str:
        submissions.append(made)
        return made.name

    monkeypatch.setattr(submission, "Cluster", lambda **_: SimpleNamespace(namespace="n", close=lambda: None))
    monkeypatch.setattr(remote, "submit", submit)
    request = TargetRequest(target="kubernetes")
    submit_suite(path, CLASS, request, settings=("repeats=2",), claim=ResultsClaim(), yes=True, json=True)
    return submissions[0]


def test_a_submitted_run_takes_the_files_of_this_machine_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runner's pod has them elsewhere, which settings say; a script comes with its modules."""
    for name in ("own.lua", "keys.lua"):
        (tmp_path / name).write_text(name)
    (tmp_path / "shop.sql").write_text("CREATE TABLE a (b INT);\n")
    path = suite(
        tmp_path,
        "dataset: {kind: dump, path: shop.sql, schema: shop}\n",
        f"{IDLE}, {{kind: oltp, name: own, test: own.lua}}",
    )
    made = submitted(path, monkeypatch)
    assert made.options[1:] == (
        "--set=repeats=2",
        f"--set=dataset.path=/volbench/own{tmp_path}/shop.sql",
        f"--set=steps.1.test=/volbench/own{tmp_path}/own.lua",
    )
    contents = {Path(name).name: content for name, content in made.files.items()}
    assert (contents["own.lua"], contents["keys.lua"]) == (b"own.lua", b"keys.lua")
    assert gzip.decompress(contents["shop.sql"]).startswith(b"CREATE TABLE")


def test_the_settings_of_a_submitted_run_are_of_the_files_steps_whatever_they_become(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step of two thread counts is two steps of the run, and one of the file."""
    (tmp_path / "own.lua").touch()
    path = suite(tmp_path, steps="{kind: oltp, threads: [1, 2]}, {kind: oltp, name: own, test: own.lua}")
    made = submitted(path, monkeypatch)
    assert made.options[-1] == f"--set=steps.1.test=/volbench/own{tmp_path}/own.lua"
    in_pod, _ = load_suite(path, settings=[text.removeprefix("--set=") for text in made.options[1:]])
    assert in_pod.steps[1].model_dump()["test"] == f"/volbench/own{tmp_path}/own.lua"


def test_a_sweep_over_files_is_not_submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.sql", "b.sql"):
        (tmp_path / name).write_text("CREATE TABLE a (b INT);\n")
    factor = f"{{base: {tmp_path}/a.sql, levels: [{tmp_path}/b.sql]}}"
    path = suite(
        tmp_path,
        f"dataset: {{kind: dump, path: {tmp_path}/a.sql, schema: shop}}\n",
        more=f"sweep: {{design: full, factors: {{dataset.path: {factor}}}}}\n",
    )
    with pytest.raises(UsageError, match="no sweep over files"):
        submitted(path, monkeypatch)
