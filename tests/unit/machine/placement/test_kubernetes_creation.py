"""Why the controller of a Job creates no pod: told as what it is, and not waited for until the time-out."""

from __future__ import annotations

from typing import Any

import pytest

from volbench.machine.placement.kubernetes.creation import creation_refusal, creation_trouble

FORBIDDEN = 'Error creating: pods "p" is forbidden: '


def failed(message: str) -> list[dict[str, Any]]:
    return [{"reason": "SuccessfulDelete", "message": "x"}, {"reason": "FailedCreate", "message": message}]


@pytest.mark.parametrize(
    ("message", "cause", "output"),
    [
        (
            'Error creating: admission webhook "v.kyverno.svc-fail" denied the request: label team is required',
            "policy",
            "label team is required",
        ),
        (
            FORBIDDEN + "ValidatingAdmissionPolicy 'w' with binding 'b' denied request: no",
            "policy",
            "labels=KEY=VALUE",
        ),
        (
            FORBIDDEN + 'violates PodSecurity "restricted:latest"',
            "policy",
            "Pod Security",
        ),
        (
            FORBIDDEN + "no PriorityClass with name x was found",
            "cluster_refused",
            "class",
        ),
        (
            FORBIDDEN + "unable to create new content in namespace n because it is being terminated",
            "namespace_missing",
            "being deleted",
        ),
        (FORBIDDEN + "something else", "no_permission", "something else"),
    ],
)
def test_a_refused_pod_names_what_refuses_it(message: str, cause: str, output: str) -> None:
    refusal = creation_refusal("cell 01-a", failed(message))
    assert refusal is not None
    assert refusal.cause == cause
    assert output in f"{refusal.what} {refusal.evidence} {refusal.next_step}"


def test_what_may_pass_is_waited_for_and_named() -> None:
    """A webhook without an answer is waited for as long as an image; other words stay with the time-out."""
    silent = failed('Error creating: Internal error occurred: failed calling webhook "v.k.svc": no endpoints')
    assert creation_refusal("cell 01-a", silent) is None
    trouble = creation_trouble(silent)
    assert trouble is not None
    assert (trouble.cause, trouble.final, trouble.at_once) == ("policy_away", True, False)
    second = creation_trouble(failed("Error creating: Timeout: request did not complete"))
    assert second is not None
    assert not second.final
    assert creation_trouble([]) is None


def test_a_quota_that_is_used_up_may_have_room_in_a_moment() -> None:
    """The pod of the cell before is counted until the quota's controller has seen it go."""
    full = failed(FORBIDDEN + "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2")
    assert creation_refusal("cell 01-a", full) is None
    trouble = creation_trouble(full)
    assert trouble is not None
    assert (trouble.cause, trouble.final, trouble.at_once) == ("quota", True, False)
    assert "quota is used up" in trouble.what
    assert "kubectl describe resourcequota" in trouble.next_step
