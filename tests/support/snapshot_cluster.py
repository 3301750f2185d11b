"""A fake cluster with snapshots: driver, controllers and kubelet act at once, as their documentation says."""

from __future__ import annotations

import json
from typing import Any

from fake_cluster import FakeCluster

RUN_ID = "20260101T000000Z-snapshot-abcdef"
NAME = "volbench-abcdef-snapshot"
READ = {"files": 3, "bytes": 3 << 20, "unreadable": 0, "first_s": 2.0, "second_s": 0.5}
SOURCE = {
    "spec": {"storageClassName": "gp3", "volumeName": "pv-1", "resources": {"requests": {"storage": "10Gi"}}},
    "status": {"capacity": {"storage": "12Gi"}},
}


class SnapshotCluster(FakeCluster):
    """Has a claim `data`; snapshots get `snapshot_status`, and the reader's log is `log`."""

    def __init__(
        self,
        *,
        snapshot_status: dict[str, Any] | None = None,
        log: str = json.dumps(READ),
        name: str = NAME,
        reader_fails: bool = False,
    ) -> None:
        super().__init__()
        self.reader_fails = reader_fails
        self.name, self.log, self.deleted = name, log, list[str]()
        self.snapshot_status = {"readyToUse": True, "creationTime": "2026-01-01T00:00:03Z", "restoreSize": "11Gi"}
        if snapshot_status is not None:
            self.snapshot_status = snapshot_status
        self.put("persistentvolumeclaims/data", **SOURCE)

    def _create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        made = super()._create(path, body)
        if body["kind"] == "VolumeSnapshot":
            made["status"] = self.snapshot_status
        if body["kind"] == "Job" and path.endswith(self.name):
            if self.reader_fails:
                made["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}
                return made
            ended = {"terminated": {"exitCode": 0, "startedAt": "2026-01-01T00:00:07Z"}}
            self.put(
                f"pods/{self.name}-x",
                metadata={"labels": {"job-name": self.name}},
                status={"phase": "Succeeded", "containerStatuses": [{"name": "agent", "state": ended}]},
            )
        return made

    def _request(self, method: str, path: str, body: Any, query: dict[str, Any]) -> Any:
        if method == "DELETE":
            self.deleted.append(path.rpartition("/namespaces/bench/")[2] or path)
        return super()._request(method, path, body, query)

    def _raw(self, method: str, path: str, body: Any, query: dict[str, Any]) -> bytes:
        return self.log.encode() if path.endswith("/log") else super()._raw(method, path, body, query)
