"""A cluster that is away, or not configured: told as that, and not disturbed by a late clean-up."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from volbench.core.profile.spec import parse_volume
from volbench.core.records.run import VolumeSpec
from volbench.errors import MissingPrerequisite, StepFailed, UsageError
from volbench.machine.cluster import client as cluster
from volbench.machine.cluster.client import Cluster
from volbench.machine.cluster.refusals import NotFound, admission_refusal
from volbench.machine.placement.kubernetes.collect import run_in_pod
from volbench.machine.volume.factory import make_volume


def kubeconfig(path: Path, server: str) -> Path:
    file = path / "config"
    file.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "clusters": [{"name": "c", "cluster": {"server": server}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "ours"}}],
            }
        )
    )
    return file


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "UNREACHABLE_S_MAX", 0.2)
    monkeypatch.setattr(cluster, "_UNREACHABLE_POLL_S", 0.02)


@pytest.mark.usefixtures("impatient")
def test_an_api_server_that_stays_away_ends_the_run_and_is_asked_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Agents go on: one that a late clean-up reached would lose its results."""
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, "http://127.0.0.1:9")))
    with closing(Cluster()) as away:
        assert away.namespace == "ours"
        with pytest.raises(MissingPrerequisite, match="never answered") as raised:
            away.ask("GET", "pods", doing="looking for pods")
        assert raised.value.cause == "api_server_away"
        assert "volbench resume" in raised.value.next_step
        requests: list[str] = []
        with pytest.raises(MissingPrerequisite):
            away.with_retries(lambda: requests.append("again"), doing="cleaning up")
        assert requests == []


class Refusing(BaseHTTPRequestHandler):
    """Answers as an API server does that will not."""

    namespace: ClassVar[tuple[int, object]] = (200, {"metadata": {}})
    answers: ClassVar = {
        "/missing": (404, "x not found"),
        "/quota": (403, "exceeded quota: q"),
        "/no": (403, "forbidden"),
        "/who": (401, "Unauthorized"),
        "/nobody": (403, 'pods is forbidden: User "system:anonymous" cannot list resource "pods"'),
        "/webhook": (
            403,
            'admission webhook "validate.kyverno.svc-fail" denied the request: label team is required',
        ),
        "/expression": (422, "ValidatingAdmissionPolicy 'labels' with binding 'b' denied request: no label"),
        "/silent-webhook": (
            500,
            'Internal error occurred: failed calling webhook "v.k.svc": no endpoints available',
        ),
        "/pods-too-weak": (403, 'pods "p" is forbidden: violates PodSecurity "restricted:latest": privileged'),
        "/no-class": (403, 'pods "p" is forbidden: no PriorityClass with name high was found'),
        "/no-namespace": (404, 'namespaces "vb" not found'),
        "/ending-namespace": (
            403,
            'jobs "j" is forbidden: unable to create new content in namespace v because it is being terminated',
        ),
        "/wrong": (422, "spec.x: Invalid"),
        "/claim-too-large": (
            403,
            'persistentvolumeclaims "c" is forbidden: maximum storage usage per PersistentVolumeClaim is 10Gi, '
            "but request is 20Gi",
        ),
        "/claim-quota": (403, 'persistentvolumeclaims "c" is forbidden: failed quota: q: must specify x for: c'),
        "/claims-used-up": (
            403,
            'persistentvolumeclaims "c" is forbidden: exceeded quota: q, requested: requests.storage=20Gi',
        ),
        "/plugin": (403, 'jobs.batch "j" is forbidden: error looking up service account v/x: not found'),
        "/rights": (
            403,
            'jobs.batch "j" is forbidden: User "u" cannot create resource "jobs" in API group "batch"',
        ),
    }

    execs: ClassVar = {
        "gone": (404, b'{"kind":"Status","status":"Failure","message":"pods \\"gone\\" not found","code":404}'),
        "ending": (404, b"pod does not exist"),
        "ended": (500, b'container not found ("results")'),
        "denied": (403, b'{"kind":"Status","message":"cannot create resource pods/exec","code":403}'),
        "unreachable": (500, b'{"kind":"Status","message":"error dialing backend: dial tcp: i/o timeout"}'),
    }
    """By pod, as API server and kubelet of 1.34 answered; `denied` and `unreachable` after their source."""

    def do_GET(self) -> None:
        if "/exec" in self.path:
            code, body = self.execs[self.path.split("/")[-2]]
        elif self.path == "/api/v1/namespaces/other":
            code, result = self.namespace
            body = json.dumps(result).encode()
        else:
            code, message = self.answers[self.path]
            body = json.dumps({"kind": "Status", "message": message}).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Tests are quiet."""


@pytest.fixture
def refusing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, url)))
        with closing(Cluster(namespace="other")) as opened:
            yield opened
        server.shutdown()


@pytest.mark.parametrize(
    ("path", "kind", "cause", "message"),
    [
        ("/missing", NotFound, "", "x not found"),
        ("/quota", MissingPrerequisite, "quota", "exceeded quota: q"),
        ("/no", MissingPrerequisite, "no_permission", "forbidden"),
        ("/who", MissingPrerequisite, "not_logged_in", "Unauthorized"),
        ("/nobody", MissingPrerequisite, "not_logged_in", "system:anonymous"),
        ("/webhook", MissingPrerequisite, "policy", "label team is required"),
        ("/expression", MissingPrerequisite, "policy", "no label"),
        ("/silent-webhook", MissingPrerequisite, "policy_away", "no endpoints available"),
        ("/pods-too-weak", MissingPrerequisite, "policy", "Pod Security standard refuses the pod"),
        ("/no-class", MissingPrerequisite, "cluster_refused", "no such priority class"),
        ("/no-namespace", MissingPrerequisite, "namespace_missing", "kubectl apply -k k8s/base"),
        ("/ending-namespace", MissingPrerequisite, "namespace_missing", "is being deleted"),
        ("/wrong", StepFailed, "cluster_refused", "spec.x: Invalid"),
        ("/claim-too-large", MissingPrerequisite, "quota", "LimitRange refuses the size of the claim"),
        ("/claim-quota", MissingPrerequisite, "quota", "demands what the claim does not name"),
        ("/claims-used-up", MissingPrerequisite, "quota", "?size="),
        ("/plugin", MissingPrerequisite, "policy", "an admission plugin of the cluster refused the object"),
        ("/rights", MissingPrerequisite, "no_permission", "(RBAC)"),
    ],
)
def test_refusals_are_told_by_kind(
    refusing: Cluster, path: str, kind: type[Exception], cause: str, message: str
) -> None:
    with pytest.raises(kind) as raised:
        refusing.ask("GET", path, doing="trying")
    assert getattr(raised.value, "cause", "") == cause
    assert message in str(raised.value)


def test_a_policys_words_are_one_line_with_each_rule_that_refused() -> None:
    """The form is that of real Kyverno (results/examples/kubernetes/faults.md), with a pod's rule for a job."""
    rule = (
        "autogen-check: 'validation error: The label {} is required.\n    rule autogen-check failed at path /spec/'"
    )
    policies = [f"require-{name}:\n  {rule.format(name)}\n" for name in ("team", "cost-centre", "data-class")]
    refused = admission_refusal(
        "launching cell 01-a, attempt 1",
        'admission webhook "validate.kyverno.svc-fail" denied the request: \n\n'
        "resource Job/team-a/volbench-abcdef-01-a-1 was blocked due to the following policies \n\n"
        + "".join(policies),
    )
    assert refused is not None
    assert refused.cause == "policy"
    assert "\n" not in refused.evidence
    for name in ("team", "cost-centre", "data-class"):
        assert f"The label {name} is required" in refused.evidence


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((404, {"message": 'namespaces "other" not found'}), "the namespace does not exist"),
        ((200, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), "is being deleted"),
        ((200, {"metadata": {}}), ""),
        ((403, {"message": 'namespaces "other" is forbidden: User "u" cannot get resource "namespaces"'}), ""),
    ],
)
def test_a_namespace_to_make_objects_in_is_looked_for_first(
    refusing: Cluster, monkeypatch: pytest.MonkeyPatch, answer: tuple[int, object], message: str
) -> None:
    """A user who may not read it is not told here: the first object that is made there tells."""
    monkeypatch.setattr(Refusing, "namespace", answer)
    if not message:
        refusing.check_namespace()
        return
    with pytest.raises(MissingPrerequisite, match=message) as raised:
        refusing.check_namespace()
    assert raised.value.next_step


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("pod", "kind", "cause", "evidence"),
    [
        ("gone", NotFound, "", 'pods "gone" not found'),
        ("ending", NotFound, "", "pod does not exist"),
        ("ended", NotFound, "", "container not found"),
        ("denied", MissingPrerequisite, "no_permission", "cannot create resource pods/exec"),
        ("unreachable", MissingPrerequisite, "api_server_away", "error dialing backend"),
    ],
)
def test_refused_commands_in_a_pod_are_told_by_kind(
    refusing: Cluster, pod: str, kind: type[Exception], cause: str, evidence: str
) -> None:
    """The client reports each of them as status 0; only a server that does not answer is asked again."""
    with pytest.raises(kind) as refusal:
        run_in_pod(refusing, pod, ["true"], doing="trying")
    assert getattr(refusal.value, "cause", "") == cause
    assert evidence in str(refusal.value)


def test_a_server_that_never_answered_is_given_up_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong address, or a VPN that is off; one that has answered may be away for minutes."""
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, "http://127.0.0.1:9")))
    bounds: list[float] = []
    monkeypatch.setattr(time, "monotonic", lambda: float(len(bounds)))
    monkeypatch.setattr(time, "sleep", lambda _: bounds.append(1.0))
    for answered, bound in (
        (set(), cluster.FIRST_ANSWER_S_MAX),
        ({"http://127.0.0.1:9"}, cluster.UNREACHABLE_S_MAX),
    ):
        bounds.clear()
        monkeypatch.setattr(cluster, "_answered", answered)
        with closing(Cluster()) as away, pytest.raises(MissingPrerequisite):
            away.ask("GET", "pods", doing="looking for pods")
        assert bound <= len(bounds) <= bound + 3


def logging_in_by(path: Path, monkeypatch: pytest.MonkeyPatch, server: str, script: str) -> None:
    """Let the kubeconfig's user be one whom a plugin logs in, as on EKS."""
    plugin = path / "plugin"
    plugin.write_text(f"#!/bin/sh\n{script}\n")
    plugin.chmod(0o755)
    content = json.loads(kubeconfig(path, server).read_text())
    login = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": str(plugin),
        "interactiveMode": "Never",
    }
    content["users"][0]["user"] = {"exec": login}
    (path / "config").write_text(json.dumps(content))
    monkeypatch.setenv("KUBECONFIG", str(path / "config"))


def test_a_login_that_fails_is_told_in_the_plugins_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The client logs them, goes on without a login, and is refused as a stranger."""
    arguments = "Error loading SSO Token: Token for corp has expired"
    logging_in_by(
        tmp_path, monkeypatch, "http://127.0.0.1:9", f"echo 'Traceback' >&2; echo '{arguments}' >&2; exit 255"
    )
    with pytest.raises(MissingPrerequisite, match="login to the cluster failed") as raised:
        Cluster()
    assert raised.value.evidence == arguments
    assert "renew the login" in raised.value.next_step
    assert caplog.text == ""


def test_a_login_that_expires_in_mid_run_is_told_in_the_plugins_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = '{"apiVersion": "client.authentication.k8s.io/v1beta1", "kind": "ExecCredential", "status": '
    first += '{"token": "t", "expirationTimestamp": "2020-01-01T00:00:00Z"}}'
    script = f"[ -e {tmp_path}/used ] && {{ echo 'SSO session has expired' >&2; exit 1; }}; "
    script += f"touch {tmp_path}/used; echo '{first}'"
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        logging_in_by(tmp_path, monkeypatch, f"http://127.0.0.1:{server.server_port}", script)
        with closing(Cluster()) as opened, pytest.raises(MissingPrerequisite) as raised:
            opened.ask("GET", "/who", doing="looking for pods")
        server.shutdown()
    assert raised.value.cause == "not_logged_in"
    assert raised.value.evidence == "SSO session has expired"


def test_an_interruption_during_the_handshake_is_one(refusing: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client turns it into an answer with status 0."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kubernetes.stream.ws_client.WSClient", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_in_pod(refusing, "gone", ["true"], doing="trying")


def test_an_unknown_context_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = kubeconfig(tmp_path, "http://127.0.0.1:9")
    monkeypatch.setenv("KUBECONFIG", str(file))
    with pytest.raises(MissingPrerequisite, match="no context 'nowhere'"):
        Cluster(context="nowhere")


def test_no_configuration_at_all_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(MissingPrerequisite, match="no Kubernetes configuration"):
        Cluster()


def test_kinds_of_volumes_that_a_cluster_does_not_have_are_refused(refusing: Cluster) -> None:
    spec: VolumeSpec = parse_volume("a=path:/mnt/x")
    with pytest.raises(UsageError, match="storage-class:NAME"):
        make_volume(spec, target="kubernetes", run_id="r", cluster=refusing)
