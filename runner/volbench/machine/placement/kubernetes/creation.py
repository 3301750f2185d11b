"""Why a Job's controller cannot create its pod: from the Job's events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from volbench.errors import MissingPrerequisite
from volbench.machine.cluster.refusals import QUOTA_EXCEEDED, admission_refusal, is_quota_used_up, is_webhook_away
from volbench.machine.placement.kubernetes.pods import Trouble
from volbench.machine.placement.kubernetes.requests import limits_refused

Object = dict[str, Any]


def creation_messages(events: Sequence[Object]) -> list[str]:
    """Return what the controller said of pods that it could not create, the oldest first."""
    return [str(event.get("message")) for event in events if event.get("reason") == "FailedCreate"]


def creation_refusal(where: str, events: Sequence[Object]) -> MissingPrerequisite | None:
    """Return the failure for a pod that the cluster refuses for good; None if it may be created yet."""
    for message in creation_messages(events):
        if is_quota_used_up(message):
            continue
        if refusal := limits_refused(where, message) or admission_refusal(where, message):
            return refusal
        if "forbidden" in message:
            return MissingPrerequisite(
                "the cluster refuses the pod", where=where, evidence=message, cause="no_permission"
            )
    return None


def creation_trouble(events: Sequence[Object]) -> Trouble | None:
    """Return what keeps the controller from creating the pod, which may pass in a moment; None if nothing does."""
    message = next(iter(creation_messages(events)[-1:]), None)
    if message is None:
        return None
    if is_webhook_away(message):
        summary = "a policy of the cluster gives no answer, so no pod is created"
        step = "look at the pods behind the webhook that the message names"
        return Trouble(cause="policy_away", what=summary, evidence=message, final=True, next_step=step)
    if is_quota_used_up(message):  # the cell before may have gone a moment ago, and be counted yet
        quota = QUOTA_EXCEEDED
        return Trouble(cause=quota.cause, what=quota.what, evidence=message, final=True, next_step=quota.next_step)
    return Trouble(cause="pod_pending", what="the cluster does not create the pod", evidence=message, final=False)
