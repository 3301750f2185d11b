"""A pod's requests to the privileged helper on its node, if there is one: see `measure/execute/node_helper.py`.

The helper listens on a Unix socket in a directory of the pod. There is no network service and no cluster
permission: a pod with such a directory may send the two requests below and nothing else.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from pathlib import Path
from typing import Any

from volbench.core.base.parse import parse_json
from volbench.machine.volume.line_socket import exchange

VARIABLE = "VOLBENCH_NODE_HELPER"
"""Names the socket, in the environment of an agent that runs in a pod."""
DIRECTORY = "volbench-node"
"""Name of the pod's empty directory, by which the helper finds it."""
SOCKET = "helper.sock"
DROP_S_MAX = 120.0
"""A drop first writes back the dirty pages of the whole node."""
LOG_PAGE_S_MAX = 2.0


def helper_socket() -> Path | None:
    """Return the socket of the node's helper; None without one, or outside a pod."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else None


def ask_to_drop_caches(path: Path) -> bool:
    """Have the node write back what is dirty, then drop its clean caches; False when it could not."""
    try:
        _ask(path, {"do": "drop_caches"}, answer_s_max=DROP_S_MAX)
    except OSError:
        return False
    return True


def ask_for_log_page(path: Path, device: str) -> bytes:
    """Return the statistics log page of one of the node's EBS volumes, such as `nvme1n1`. Raises OSError."""
    answer = _ask(path, {"do": "log_page", "device": device}, answer_s_max=LOG_PAGE_S_MAX)
    try:
        return base64.b64decode(answer["page"], validate=True)
    except (KeyError, TypeError, binascii.Error) as error:
        raise OSError(f"the node's helper answered without a page: {error!r}") from error


def _ask(path: Path, request: dict[str, str], *, answer_s_max: float) -> dict[str, Any]:
    """Return the helper's answer.

    Raises OSError when there is none, when it refuses, or does not answer in time.
    """
    if not path.is_socket():
        raise OSError("the node has no helper that does it for pods (k8s/README.md)")
    try:
        answer = parse_json(exchange(path, json.dumps(request).encode() + b"\n", answer_s_max=answer_s_max))
    except ValueError as error:
        raise OSError(f"the node's helper does not answer: {error}") from error
    if not isinstance(answer, dict) or answer.get("ok") is not True:
        raise OSError(f"the node's helper refuses: {answer}")
    return answer
