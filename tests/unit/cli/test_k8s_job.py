"""`volbench k8s job`: the command is checked here, and the pod gets the arguments that are meant for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import QUICK, volbench
from fake_cluster import FakeCluster

from volbench.cli.cluster.job_command import JobCommand, job_command
from volbench.core.records.validation.plan import ServerPlace
from volbench.errors import UsageError
from volbench.machine.placement.kubernetes.job_access import JobMount, check_paths

SERVER = "--server=mysql://watch@db:3306/?password-unverified=yes"
PLAN = """\
schema: 2
source: {host: db, user: reader, option_file: /volbench/mounts/accounts/source.cnf}
candidate: {host: new-db.next.svc, user: reader, ssl_ca: /volbench/mounts/ca/ca.crt}
"""


def test_an_observation_is_of_the_server_alone_and_in_a_directory_of_its_pod() -> None:
    made = job_command("observe", [SERVER, "--for", "30m", "--on", "p95 > 200ms", "--on", "cpu > 90%"])
    assert made.arguments == (
        "observe",
        SERVER,
        "--for=30m",
        "--on=p95 > 200ms",
        "--on=cpu > 90%",
        "--volume=none",
        "--out=/results/$(VOLBENCH_JOB_UID)/$(VOLBENCH_POD)",
    )
    assert made.hosts == ["db"]


def test_a_capture_is_a_file_of_its_pods_directory() -> None:
    made = job_command("capture", ["shop.json", SERVER, "--mask"])
    assert made.arguments == (
        "capture",
        "/results/$(VOLBENCH_JOB_UID)/$(VOLBENCH_POD)/shop.json",
        SERVER,
        "--mask",
    )
    assert made.directory == "/results/$(VOLBENCH_JOB_UID)/$(VOLBENCH_POD)"


def test_a_validation_takes_its_plan_along_and_names_the_files_that_it_needs(tmp_path: Path) -> None:
    plan = tmp_path / "move.yaml"
    plan.write_text(PLAN + "queries: {slow_log: /volbench/mounts/logs/slow.log}\n")
    made = job_command("validate", [str(plan)])
    assert made.arguments == (
        "validate",
        "/volbench/run/plan.yaml",
        "--out=/results/$(VOLBENCH_JOB_UID)/$(VOLBENCH_POD)",
    )
    assert made.texts == {"plan.yaml": plan.read_text()}
    assert made.hosts == ["db", "new-db.next.svc"]
    assert sorted(made.files()) == [
        "/volbench/mounts/accounts/source.cnf",
        "/volbench/mounts/ca/ca.crt",
        "/volbench/mounts/logs/slow.log",
    ]


def test_a_suite_measures_servers_that_run_already() -> None:
    made = job_command("run", [QUICK, "--server", "mysql://bench@db/volbench", "--set", "repeats=3"])
    assert made.arguments == (
        "k8s",
        "in-cluster",
        "/volbench/run/suite.yaml",
        "--set=repeats=3",
        "--server=mysql://bench@db/volbench",
    )
    assert made.texts == {"suite.yaml": Path(QUICK).read_text()}
    assert made.hosts == ["db"]


def test_results_of_a_suite_are_copied_to_a_bucket_whose_address_is_checked_here() -> None:
    options = [QUICK, "--server", "mysql://bench@db/volbench"]
    made = job_command("run", [*options, "--results-to", "s3://team/volbench"])
    assert made.arguments[-1] == "--results-to=s3://team/volbench"
    with pytest.raises(UsageError, match="s3"):
        job_command("run", [*options, "--results-to", "team/volbench"])


def test_a_suites_own_script_is_taken_along_and_named_where_the_pod_has_it(tmp_path: Path) -> None:
    (tmp_path / "own.lua").write_text("x")
    suite = tmp_path / "own.yaml"
    suite.write_text("schema: 2\nname: own\nsteps: [{kind: oltp, test: own.lua}]\nrepeats: 1\n")
    made = job_command("run", [str(suite), "--server", "mysql://bench@db/volbench"])
    assert f"--set=steps.0.test=/volbench/own{tmp_path}/own.lua" in made.arguments
    assert made.own == {str(tmp_path / "own.lua"): b"x"}
    check_paths(made.files(), ())


def test_a_plans_log_is_taken_along_where_its_path_is_relative(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command starts in the pod's copy of this directory; an absolute path would be another file there."""
    monkeypatch.chdir(tmp_path)
    Path("slow.log").write_text("x")
    Path("move.yaml").write_text(PLAN + "queries: {slow_log: slow.log}\n")
    made = job_command("validate", ["move.yaml"])
    assert made.own == {str(tmp_path / "slow.log"): b"x"}
    assert "slow.log" not in "".join(made.files())
    Path("move.yaml").write_text(PLAN + f"queries: {{slow_log: {tmp_path}/slow.log}}\n")
    mounts = [JobMount(kind="secret", name=name) for name in ("accounts", "ca")]
    with pytest.raises(UsageError, match="no files of this machine"):
        check_paths(job_command("validate", ["move.yaml"]).files(), mounts)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("explain", ["latest"], "a Job does not run 'explain'"),
        ("observe", [SERVER], "needs its length"),
        ("observe", ["--for=1m"], "a server is needed"),
        ("observe", [SERVER, "--for=1m", "--out=here"], "--out is nothing for a Job"),
        ("observe", [SERVER, "--for=1m", "--listen=127.0.0.1:9104"], "--listen is nothing for a Job"),
        ("observe", ["report", "results/observe"], "results/observe is nothing for a Job"),
        ("capture", ["out.json"], "a server is needed"),
        ("capture", ["/tmp/out.json", SERVER], "without a directory"),
        ("capture", ["out.log", "--from=slow.log", "--mask"], "--from is nothing for a Job"),
        ("run", [QUICK], "none is named"),
        ("run", [QUICK, SERVER, "--volume=a=path:/x"], "--volume is nothing for a Job"),
        ("observe", ["--server=mysql://watch:hunter2@db", "--for=1m"], "does not belong on a command line"),
    ],
)
def test_what_a_job_cannot_do_is_refused(name: str, arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        job_command(name, arguments)
    assert message in raised.value.what
    assert "hunter2" not in str(raised.value)


def test_an_unknown_option_is_refused_as_by_the_command_itself() -> None:
    ended = volbench("k8s", "job", "observe", SERVER, "--fro=1m")
    assert ended.returncode == 2
    assert "--fro" in ended.stderr


@pytest.mark.parametrize("option", ["server_cpu=2", "pull_policy=Always", "gp3.labels=team=dba"])
def test_an_option_of_cells_alone_is_refused(option: str) -> None:
    command = volbench("k8s", "job", "--target-option", option, "observe", SERVER, "--for=1m")
    assert command.returncode == 2
    assert option.split("=", maxsplit=1)[0] in command.stderr
    assert "annotations, context, labels, namespace, node, priority_class, pull_secret, queue" in command.stderr


def test_files_of_this_machine_are_refused_with_the_mount_that_brings_them() -> None:
    made = job_command("observe", [SERVER, "--for=1m", "--option-file=/home/me/watch.cnf"])
    with pytest.raises(UsageError, match="no files of this machine") as raised:
        check_paths(made.files(), ())
    assert (raised.value.evidence, "--mount secret:NAME" in raised.value.next_step) == ("/home/me/watch.cnf", True)
    mounted = job_command("observe", [SERVER, "--for=1m", "--option-file=/volbench/mounts/watch/my.cnf"])
    check_paths(mounted.files(), [JobMount(kind="secret", name="watch")])


def test_a_server_that_its_option_file_names_has_no_host_to_look_up() -> None:
    servers = (ServerPlace(option_file="/volbench/mounts/a/my.cnf"), ServerPlace(socket="/run/mysqld.sock"))
    assert JobCommand(arguments=(), directory="", servers=servers).hosts == [""]


def test_the_command_says_what_it_made_and_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster()
    cluster.put("services/db")
    cluster.put("secrets/watch", data={"password": "c2VjcmV0"})
    monkeypatch.setattr("volbench.machine.cluster.client.Cluster", lambda **_: cluster)
    ended = volbench(
        *("k8s", "job", "-n", "bench", "--secret", "watch/password", "--tools-image=r/t:1"),
        *("observe", SERVER, "--for", "1m"),
    )
    assert ended.returncode == 0, ended.stderr
    (path,) = [path for path in cluster.objects if "/jobs/" in path]
    name = path.rpartition("/")[2]
    assert f"volbench k8s logs -n bench {name}" in ended.stderr
    assert f"volbench k8s fetch -n bench {name}" in ended.stderr
    assert "without a password" not in ended.stderr
    container = cluster.objects[path]["spec"]["template"]["spec"]["containers"][0]
    assert (container["image"], container["args"][0]) == ("r/t:1", "observe")
