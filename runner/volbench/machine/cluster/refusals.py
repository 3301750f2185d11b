"""What a cluster's API server refuses, as volbench's errors: each named as what it is, with the next step."""

from __future__ import annotations

import re
from http import HTTPStatus

from kubernetes.client.exceptions import ApiException

from volbench.core.base.parse import parse_json
from volbench.errors import EnvironmentLacks, StepFailed

BUSY = {
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
}
_POLICY = re.compile(r"admission webhook|ValidatingAdmissionPolicy|denied the request")
"""In the message of an admission that refuses an object; the authorizer's is `cannot VERB resource`."""
_WEBHOOK_AWAY = re.compile(r"failed calling webhook")
_NAMESPACE_MISSING = re.compile(r'namespaces? "[^"]*" not found')
_NAMESPACE_ENDING = re.compile(r"because it is being terminated")
_POD_SECURITY = re.compile(r"violates PodSecurity")
_NO_PRIORITY = re.compile(r"no PriorityClass with name")
_ANONYMOUS = "system:anonymous"
EVIDENCE_CHARACTERS = 300
RULES = "k8s/README.md lists the rights that a run needs; `kubectl apply -k k8s/base` grants them"


class NotFound(StepFailed):
    """The object does not exist."""


def refusal(error: ApiException, doing: str) -> EnvironmentLacks | StepFailed:
    """Return the failure for an answer of the API server; what refused the request is told by its message."""
    message = _message(error)
    if is_webhook_away(message):
        return webhook_away(doing, message)
    if error.status in BUSY or not error.status:
        return unreachable(doing, f"{error.status}: {message}")
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


def _refusal_of_user(error: ApiException, doing: str, message: str) -> EnvironmentLacks | None:
    forbids = error.status == HTTPStatus.FORBIDDEN
    if error.status == HTTPStatus.UNAUTHORIZED or (forbids and _ANONYMOUS in message):
        return not_logged_in(doing, message)
    return forbidden(doing, message) if forbids else None


def admission_refusal(doing: str, message: str) -> EnvironmentLacks | None:
    """Return the failure for an object that an admission refused; None for a message of anything else."""
    if "exceeded quota" in message:
        return quota_exceeded(doing, message)
    if _POLICY.search(message):
        return policy(doing, message)
    if _POD_SECURITY.search(message):
        return EnvironmentLacks(
            "the namespace's Pod Security standard refuses the pod",
            where=doing,
            evidence=message[:EVIDENCE_CHARACTERS],
            cause="policy",
            next_step="cells meet the standard `restricted`; look for what changes pods: a mutating webhook, a "
            "runtime class (`kubectl get mutatingwebhookconfigurations`)",
        )
    if _NO_PRIORITY.search(message):
        return EnvironmentLacks(
            "the cluster has no such priority class",
            where=doing,
            evidence=message[:EVIDENCE_CHARACTERS],
            cause="cluster_refused",
            next_step="`kubectl get priorityclass` lists them; --target-option priority_class=NAME",
        )
    return _of_namespace(doing, message)


def is_webhook_away(message: str) -> bool:
    """Return whether an object was refused because a policy's webhook gave no answer."""
    return _WEBHOOK_AWAY.search(message) is not None


def _of_namespace(doing: str, message: str) -> EnvironmentLacks | None:
    if _NAMESPACE_ENDING.search(message):
        return namespace_ending(doing, message)
    return namespace_missing(doing, message) if _NAMESPACE_MISSING.search(message) else None


def namespace_missing(doing: str, evidence: str) -> EnvironmentLacks:
    """Return the failure for a namespace that the cluster does not have."""
    return EnvironmentLacks(
        "the namespace does not exist",
        where=doing,
        evidence=evidence,
        cause="namespace_missing",
        next_step="`kubectl apply -k k8s/base` makes namespace volbench with the rights of a run; "
        "--target-option namespace=NAME names another",
    )


def namespace_ending(doing: str, evidence: str) -> EnvironmentLacks:
    """Return the failure for a namespace that is being deleted."""
    return EnvironmentLacks(
        "the namespace is being deleted",
        where=doing,
        evidence=evidence[:EVIDENCE_CHARACTERS],
        cause="namespace_missing",
        next_step="wait until `kubectl get namespace` does not list it any more, then make it again: all that was "
        "in it goes, volumes of the run included",
    )


def webhook_away(doing: str, message: str) -> EnvironmentLacks:
    """Return the failure for a policy's webhook that gives no answer."""
    return EnvironmentLacks(
        "a policy of the cluster gives no answer, so the object is refused",
        where=doing,
        evidence=message[:EVIDENCE_CHARACTERS],
        cause="policy_away",
        next_step="look at the pods behind the webhook (`kubectl get validatingwebhookconfigurations,"
        "mutatingwebhookconfigurations`), then `volbench resume RUN`",
    )


def policy(doing: str, message: str) -> EnvironmentLacks:
    """Return the failure for an object that a policy of the cluster's own refuses."""
    return EnvironmentLacks(
        "a policy of the cluster refused the object",
        where=doing,
        evidence=message[:EVIDENCE_CHARACTERS],
        cause="policy",
        next_step="give the objects what the policy wants, by `--target-option labels=KEY=VALUE` or "
        "`annotations=KEY=VALUE`, or ask who wrote it for an exception",
    )


def forbidden(doing: str, message: str) -> EnvironmentLacks:
    """Return the failure for a request that this user has no right to."""
    return EnvironmentLacks(
        "the cluster denied the request (RBAC)",
        where=doing,
        evidence=message,
        next_step=RULES,
        cause="no_permission",
    )


def not_logged_in(doing: str, evidence: str) -> EnvironmentLacks:
    """Return the failure for a login that is not valid."""
    return EnvironmentLacks(
        "the login to the cluster failed, or has expired",
        where=doing,
        evidence=evidence,
        cause="not_logged_in",
        next_step="renew the login, for EKS with `aws sso login` or `aws eks update-kubeconfig --name CLUSTER`; "
        "`volbench resume RUN` continues a run that has begun",
    )


def never_answered(error: EnvironmentLacks) -> EnvironmentLacks:
    """Return the failure for an API server that has not answered once."""
    return EnvironmentLacks(
        "the cluster's API server has never answered",
        where=error.where,
        evidence=error.evidence,
        cause="api_server_away",
        next_step="look at the context with `kubectl cluster-info`: its address, the network or VPN on the way; "
        "`volbench resume RUN` continues a run that has begun",
    )


def quota_exceeded(doing: str, message: str) -> EnvironmentLacks:
    """Return the failure for a namespace whose quota is used up."""
    return EnvironmentLacks(
        "the namespace's quota is used up",
        where=doing,
        evidence=message,
        cause="quota",
        next_step="see `kubectl describe resourcequota`; raise the quota, or request less with --target-option",
    )


def unreachable(doing: str, evidence: str) -> EnvironmentLacks:
    """Return the failure for an API server that does not answer."""
    return EnvironmentLacks(
        "the cluster's API server does not answer",
        where=doing,
        evidence=evidence[:EVIDENCE_CHARACTERS],
        cause="api_server_away",
        next_step="agents keep running; when the server is back, `volbench resume RUN` collects their results",
    )


def _message(error: ApiException) -> str:
    body = error.body.decode(errors="replace") if isinstance(error.body, bytes) else str(error.body or "")
    try:
        return str(parse_json(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body[:EVIDENCE_CHARACTERS] or str(error.reason)
