"""What a cluster's API server refuses, as volbench's errors: each named as what it is, with the next step."""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus

from kubernetes.client.exceptions import ApiException

from volbench.core.base.parse import parse_json
from volbench.errors import MissingPrerequisite, StepFailed

BUSY = {
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
}
_ANONYMOUS = "system:anonymous"
EVIDENCE_CHARACTERS = 300
_POLICY_CHARACTERS = 1000
"""Kyverno names each policy and rule that refused, after a sentence that says nothing of them."""
RULES = "k8s/README.md lists the rights that a run needs; `kubectl apply -k k8s/base` grants them"


class NotFound(StepFailed):
    """The object does not exist."""


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A kind of refusal: what it is called, the cause in records, and what to do."""

    what: str
    cause: str
    next_step: str

    def at(self, doing: str, evidence: str) -> MissingPrerequisite:
        """Return the failure where it was met, with what the cluster said."""
        return MissingPrerequisite(
            self.what, where=doing, evidence=evidence, cause=self.cause, next_step=self.next_step
        )


NAMESPACE_MISSING = Refusal(
    what="the namespace does not exist",
    cause="namespace_missing",
    next_step="`kubectl apply -k k8s/base` makes namespace volbench with the rights of a run; "
    "--target-option namespace=NAME names another",
)
NAMESPACE_ENDING = Refusal(
    what="the namespace is being deleted",
    cause="namespace_missing",
    next_step="wait until `kubectl get namespace` does not list it any more, then make it again: all that was "
    "in it goes, volumes of the run included",
)
POD_SECURITY = Refusal(
    what="the namespace's Pod Security standard refuses the pod",
    cause="policy",
    next_step="cells meet the standard `restricted`; look for what changes pods: a mutating webhook, a "
    "runtime class (`kubectl get mutatingwebhookconfigurations`)",
)
NO_PRIORITY_CLASS = Refusal(
    what="the cluster has no such priority class",
    cause="cluster_refused",
    next_step="`kubectl get priorityclass` lists them; --target-option priority_class=NAME",
)
WEBHOOK_AWAY = Refusal(
    what="a policy of the cluster gives no answer, so the object is refused",
    cause="policy_away",
    next_step="look at the pods behind the webhook (`kubectl get validatingwebhookconfigurations,"
    "mutatingwebhookconfigurations`), then `volbench resume RUN`",
)
POLICY = Refusal(
    what="a policy of the cluster refused the object",
    cause="policy",
    next_step="give the objects what the policy wants, by `--target-option labels=KEY=VALUE` or "
    "`annotations=KEY=VALUE`, or ask who wrote it for an exception",
)
FORBIDDEN = Refusal(
    what="the cluster denied the request (RBAC)",
    cause="no_permission",
    next_step=RULES,
)
NOT_LOGGED_IN = Refusal(
    what="the login to the cluster failed, or has expired",
    cause="not_logged_in",
    next_step="renew the login, for EKS with `aws sso login` or `aws eks update-kubeconfig --name CLUSTER`; "
    "`volbench resume RUN` continues a run that has begun",
)
NEVER_ANSWERED = Refusal(
    what="the cluster's API server has never answered",
    cause="api_server_away",
    next_step="look at the context with `kubectl cluster-info`: its address, the network or VPN on the way; "
    "`volbench resume RUN` continues a run that has begun",
)
UNREACHABLE = Refusal(
    what="the cluster's API server does not answer",
    cause="api_server_away",
    next_step="agents keep running; when the server is back, `volbench resume RUN` collects their results",
)
QUOTA_EXCEEDED = Refusal(
    what="the namespace's quota is used up",
    cause="quota",
    next_step="see `kubectl describe resourcequota`; raise the quota, or request less with --target-option, "
    "of storage with the volume's ?size=",
)
STORAGE_QUOTA = Refusal(
    what="the namespace's ResourceQuota demands what the claim does not name",
    cause="quota",
    next_step="see `kubectl describe resourcequota`, and make the claim yourself: --volume NAME=pvc:CLAIM",
)
CLAIM_SIZE = Refusal(
    what="the namespace's LimitRange refuses the size of the claim",
    cause="quota",
    next_step="see `kubectl describe limitrange`; choose a size within it, such as "
    "--volume NAME=storage-class:CLASS?size=20Gi",
)
ADMISSION = Refusal(
    what="an admission plugin of the cluster refused the object",
    cause="policy",
    next_step="do what its message says, or ask who runs the cluster",
)
_ADMISSION = (
    (re.compile(r"admission webhook|ValidatingAdmissionPolicy|denied the request"), POLICY),
    (re.compile(r"violates PodSecurity"), POD_SECURITY),
    (re.compile(r"no PriorityClass with name"), NO_PRIORITY_CLASS),
    (re.compile(r"because it is being terminated"), NAMESPACE_ENDING),
    (re.compile(r'namespaces? "[^"]*" not found'), NAMESPACE_MISSING),
    (re.compile(r"storage usage per PersistentVolumeClaim"), CLAIM_SIZE),
    (re.compile(r'persistentvolumeclaims "[^"]*" is forbidden: failed quota'), STORAGE_QUOTA),
)
"""What an admission's message tells."""
_BY_PLUGIN = re.compile(r' "[^"]*" is forbidden: (?!User |user )')
"""Of any admission plugin. The authorizer names the user: `is forbidden: User "u" cannot VERB resource`."""


def refusal(error: ApiException, doing: str) -> MissingPrerequisite | StepFailed:
    """Return the failure for an answer of the API server; what refused the request is told by its message."""
    message = _message(error)
    if is_webhook_away(message):
        return WEBHOOK_AWAY.at(doing, message[:EVIDENCE_CHARACTERS])
    if error.status in BUSY or not error.status:
        return UNREACHABLE.at(doing, f"{error.status}: {message}"[:EVIDENCE_CHARACTERS])
    if named := admission_refusal(doing, message) or _refusal_of_user(error, doing, message):
        return named
    if error.status == HTTPStatus.NOT_FOUND:
        return NotFound("the cluster does not have this object", where=doing, evidence=message)
    return StepFailed(
        "the cluster refused the request",
        where=doing,
        evidence=f"{error.status}: {message}",
        cause="cluster_refused",
    )


def _refusal_of_user(error: ApiException, doing: str, message: str) -> MissingPrerequisite | None:
    forbids = error.status == HTTPStatus.FORBIDDEN
    if error.status == HTTPStatus.UNAUTHORIZED or (forbids and _ANONYMOUS in message):
        return NOT_LOGGED_IN.at(doing, message)
    if not forbids:
        return None
    kind = ADMISSION if _BY_PLUGIN.search(message) and "cannot " not in message else FORBIDDEN
    return kind.at(doing, message)


def admission_refusal(doing: str, message: str) -> MissingPrerequisite | None:
    """Return the failure for an object that an admission refused; None for a message of anything else."""
    if is_quota_used_up(message):
        return QUOTA_EXCEEDED.at(doing, message)
    kind = next((kind for pattern, kind in _ADMISSION if pattern.search(message)), None)
    return None if kind is None else kind.at(doing, " ".join(message.split())[:_POLICY_CHARACTERS])


def is_quota_used_up(message: str) -> bool:
    """Return whether an object was refused because a ResourceQuota has no room for it."""
    return "exceeded quota" in message


def is_webhook_away(message: str) -> bool:
    """Return whether an object was refused because a policy's webhook gave no answer."""
    return "failed calling webhook" in message


def _message(error: ApiException) -> str:
    body = error.body.decode(errors="replace") if isinstance(error.body, bytes) else str(error.body or "")
    try:
        return str(parse_json(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body[:EVIDENCE_CHARACTERS].strip() or str(error.reason)
