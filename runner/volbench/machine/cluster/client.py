"""A connection to one namespace of a Kubernetes cluster: the official client, with volbench's errors and retries.

Objects are plain dictionaries, as in manifests and `kubectl -o json`.
"""

from __future__ import annotations

import codecs
import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

import urllib3
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from websocket import WebSocketBadStatusException, WebSocketException

from volbench.core.base.parse import parse_json
from volbench.errors import MissingPrerequisite
from volbench.machine.cluster.marks import Marks
from volbench.machine.cluster.refusals import (
    BUSY,
    EVIDENCE_CHARACTERS,
    NAMESPACE_ENDING,
    NAMESPACE_MISSING,
    NEVER_ANSWERED,
    NOT_LOGGED_IN,
    UNREACHABLE,
    NotFound,
    refusal,
)

_log = logging.getLogger(__name__)
REQUEST_TIMEOUT_S = 30
_CHUNK_BYTES = 4096
UNREACHABLE_S_MAX = 180.0
"""How long the API server may be unreachable before a run ends and has to be resumed; agents keep running."""
FIRST_ANSWER_S_MAX = 5.0
"""How long one that has never answered may be away: nothing runs yet, so a wrong address is more likely."""
_UNREACHABLE_POLL_S = 1.0
_PLUGIN_ENDED = re.compile(r"^exec: process returned -?\d+\. ?")
_answered: set[str] = set()
"""Addresses of API servers that have answered this process."""


class LoginFailures(logging.Filter):
    """Keeps what a login plugin of the kubeconfig said when it failed: the client logs that and goes on without."""

    def __init__(self) -> None:
        super().__init__()
        self.last = ""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is to be logged; keep the client's own about a login."""
        if record.module != "kube_config" or record.levelno < logging.ERROR:
            return True
        lines = [line.strip() for line in record.getMessage().splitlines() if line.strip()]
        message = _PLUGIN_ENDED.sub("", lines[-1]) if lines else ""
        # On a terminal the plugin writes there itself, and the client fails on the text that it has not.
        self.last = "its own words are above" if "'NoneType' object" in message else message[:EVIDENCE_CHARACTERS]
        return False


_logins = LoginFailures()
"""Of this process: several clusters are one login."""


class Cluster:
    """One namespace, as one user.

    Args:
        context: of the kubeconfig; empty: the current one, or the service account of the pod that this runs in.
        namespace: empty: the context's, or that pod's.
        marks: labels and annotations of all objects that are made here.

    Raises MissingPrerequisite without a configuration.
    """

    def __init__(self, *, context: str = "", namespace: str = "", marks: Marks | None = None) -> None:
        self.marks = marks or Marks()
        self._configuration = client.Configuration()
        _logins.last = ""
        logging.getLogger().addFilter(_logins)
        self.namespace = namespace or _load(self._configuration, context) or "default"
        if namespace:
            _load(self._configuration, context)
        self._configuration.retries = False  # `with_retries` decides on retries
        if _logins.last:
            raise NOT_LOGGED_IN.at("logging in", _logins.last)
        self.api = client.ApiClient(self._configuration)
        self._gave_up_error: MissingPrerequisite | None = None

    def close(self) -> None:
        """Close idle connections; later requests open new ones."""
        self.api.rest_client.pool_manager.clear()

    def ask(self, method: str, path: str, body: Any = None, *, doing: str, **query: Any) -> Any:
        """Send a request, with retries while the API server is unreachable, and return the answer's object.

        Args:
            path: below /api/v1/namespaces/NAMESPACE, or a whole path when it begins with /.

        Raises MissingPrerequisite, StepFailed; NotFound for a missing object.
        """
        sent = self.marks.on(body) if method == "POST" else body
        return self.with_retries(lambda: self._request(method, path, sent, query), doing=doing)

    def apply_once(self, path: str, manifest: dict[str, Any], *, doing: str) -> None:
        """Create an object; leave an existing one of that name as it is."""

        def create() -> None:
            try:
                self._request("POST", path, self.marks.on(manifest), {})
            except ApiException as error:
                if error.status != HTTPStatus.CONFLICT:
                    raise

        self.with_retries(create, doing=doing)

    def delete(self, path: str, *, doing: str, grace_s: int | None = None) -> None:
        """Delete an object and, in the background, what it owns; a missing object is no error."""
        options: dict[str, Any] = {"propagationPolicy": "Background"}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        try:
            self.ask("DELETE", path, options, doing=doing)
        except NotFound:
            return

    def ask_if_allowed(self, path: str, *, doing: str) -> Any:
        """Return an object; None if it does not exist or this user has no right to read it."""
        try:
            return self.ask("GET", path, doing=doing)
        except NotFound:
            return None
        except MissingPrerequisite as error:
            if error.cause != "no_permission":
                raise
            return None

    def text(self, path: str, *, doing: str, **query: Any) -> str:
        """Return an answer that is text, such as a log."""
        return str(
            self.with_retries(lambda: self._raw("GET", path, None, query).decode(errors="replace"), doing=doing)
        )

    def stream_text(
        self, path: str, *, doing: str, read_timeout_s: float | None = None, **query: Any
    ) -> Iterator[str]:
        """Yield an answer that is text as it comes, such as a log that is followed; ends with the connection.

        Args:
            read_timeout_s: a connection without a byte for so long is ended; None: never.
        """
        answer = self.with_retries(lambda: self._send("GET", path, None, query, read_timeout_s), doing=doing)
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        try:
            while chunk := answer.read1(_CHUNK_BYTES):
                yield decoder.decode(chunk)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            _log.info("%s: the connection ended: %s", doing, error)
        finally:
            answer.release_conn()

    def check_namespace(self) -> None:
        """Check that the namespace is there to make objects in. Raise MissingPrerequisite.

        A user without the right to read it is not told: the first object that is made there tells.
        """
        doing = f"looking for namespace {self.namespace}"
        try:
            namespace = self.ask("GET", f"/api/v1/namespaces/{self.namespace}", doing=doing)
        except NotFound as missing:
            raise NAMESPACE_MISSING.at(doing, missing.evidence) from missing
        except MissingPrerequisite as error:
            if error.cause != "no_permission":
                raise
            return
        if "deletionTimestamp" in namespace["metadata"]:
            raise NAMESPACE_ENDING.at(doing, f"since {namespace['metadata']['deletionTimestamp']}")

    def server_time(self, *, doing: str) -> datetime:
        """Return the API server's time, by the header of an answer: this machine's clock may be wrong."""
        answer = self.with_retries(lambda: self._send("GET", "/version", None, {}), doing=doing)
        return parsedate_to_datetime(answer.headers["Date"])

    def with_retries(self, request: Callable[[], Any], *, doing: str) -> Any:
        """Send a request, with retries while the API server is unreachable or busy, for at most UNREACHABLE_S_MAX.

        After that no further request is sent: a late cleanup must not remove an agent that still runs.
        Raises MissingPrerequisite, StepFailed, NotFound.
        """
        bound_s = UNREACHABLE_S_MAX if self._has_answered else min(FIRST_ANSWER_S_MAX, UNREACHABLE_S_MAX)
        until_s = time.monotonic() + bound_s
        while self._gave_up_error is None:
            try:
                with cluster_errors(doing):
                    return self._answer_to(request)
            except MissingPrerequisite as error:
                if error.cause == "not_logged_in" and _logins.last:
                    raise NOT_LOGGED_IN.at(doing, _logins.last) from error
                if error.cause != "api_server_away":
                    raise
                _log.info("%s: the API server is unreachable, retrying: %s", doing, error.evidence)
                if time.monotonic() > until_s:
                    self._gave_up_error = (
                        error if self._has_answered else NEVER_ANSWERED.at(error.where, error.evidence)
                    )
            time.sleep(_UNREACHABLE_POLL_S)
        raise self._gave_up_error

    @property
    def _has_answered(self) -> bool:
        return str(self._configuration.host) in _answered

    def _answer_to(self, request: Callable[[], Any]) -> Any:
        """Return what a request gives, and note that the API server answers: a refusal is an answer too."""
        try:
            answer = request()
        except ApiException as error:
            if error.status and error.status not in BUSY:
                _answered.add(str(self._configuration.host))
            raise
        _answered.add(str(self._configuration.host))
        return answer

    def fresh_client(self) -> client.ApiClient:
        """Return a new client, for uses that cannot share one (exec over a web socket)."""
        return client.ApiClient(self._configuration)

    def _request(self, method: str, path: str, body: Any, query: dict[str, Any]) -> Any:
        return parse_json(self._raw(method, path, body, query))

    def _raw(self, method: str, path: str, body: Any, query: dict[str, Any]) -> bytes:
        data: bytes = self._send(method, path, body, query).data
        return data

    def _send(
        self,
        method: str,
        path: str,
        body: Any,
        query: dict[str, Any],
        read_timeout_s: float | None = REQUEST_TIMEOUT_S,
    ) -> Any:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        return self.api.call_api(
            self.object_path(path),
            method,
            query_params=list(query.items()),
            body=body,
            header_params={"Accept": "application/json, */*", "Content-Type": kind},
            auth_settings=["BearerToken"],
            response_type="object",
            _preload_content=False,
            _return_http_data_only=True,
            _request_timeout=(REQUEST_TIMEOUT_S if self._has_answered else FIRST_ANSWER_S_MAX, read_timeout_s),
        )

    def object_path(self, path: str) -> str:
        """Return the full path of an object of the namespace."""
        return path if path.startswith("/") else f"/api/v1/namespaces/{self.namespace}/{path}"

    def jobs(self, name: str = "") -> str:
        """Return the path of the namespace's jobs, or of one."""
        return f"/apis/batch/v1/namespaces/{self.namespace}/jobs" + (f"/{name}" if name else "")


@contextmanager
def cluster_errors(doing: str) -> Iterator[None]:
    """Convert the client's errors. Raise MissingPrerequisite, StepFailed, NotFound."""
    try:
        yield
    except ApiException as error:
        if isinstance(error.__context__, KeyboardInterrupt | SystemExit):
            raise error.__context__ from None  # the client catches what interrupts the handshake of an exec
        raise refusal(_answer_to_exec(error), doing) from error
    except (urllib3.exceptions.HTTPError, WebSocketException, OSError) as error:
        raise UNREACHABLE.at(doing, f"{type(error).__name__}: {error}"[:EVIDENCE_CHARACTERS]) from error


def _answer_to_exec(error: ApiException) -> ApiException:
    """Return the error with the answer that refused an exec: the client drops it and says status 0.

    The API server answers 404 for a pod that is gone. The kubelet answers 404 too, or 500 where the container has
    ended (`container not found`). Other answers of 500 tell of a node that does not answer: status 0 stays.
    """
    refused = error.__context__
    if error.status or not isinstance(refused, WebSocketBadStatusException):
        return error
    body = bytes(refused.resp_body or b"")
    status = HTTPStatus.NOT_FOUND if b"container not found" in body else refused.status_code
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return error
    answer = ApiException(status=status, reason=error.reason)
    answer.body = body
    return answer


def _load(configuration: client.Configuration, context: str) -> str:
    """Fill the configuration and return its namespace, empty if it names none."""
    try:
        # The client reads KUBECONFIG once, when it is imported; use the current value.
        config_file = os.environ.get("KUBECONFIG") or None
        config.load_kube_config(
            config_file=config_file, context=context or None, client_configuration=configuration
        )
        chosen = config.list_kube_config_contexts(config_file=config_file)
    except ConfigException as missing:
        if context:
            raise MissingPrerequisite(
                f"the kubeconfig has no context {context!r}",
                where="kubernetes target",
                evidence=str(missing),
                next_step="`kubectl config get-contexts` lists them",
            ) from missing
        return _load_of_pod(configuration, missing)
    contexts, current = chosen
    chosen_context = next((entry for entry in contexts if entry["name"] == context), current)
    return str(chosen_context["context"].get("namespace", ""))


def _load_of_pod(configuration: client.Configuration, missing: ConfigException) -> str:
    """Load the service account of the pod that this process runs in."""
    try:
        config.load_incluster_config(client_configuration=configuration)
        with open("/var/run/secrets/kubernetes.io/serviceaccount/namespace", encoding="ascii") as file:  # noqa: PTH123 - a fixed place
            return file.read().strip()
    except (ConfigException, OSError) as error:
        raise MissingPrerequisite(
            "there is no Kubernetes configuration",
            where="kubernetes target",
            evidence=f"{missing}; {error}",
            next_step="point KUBECONFIG at a cluster, for EKS with `aws eks update-kubeconfig --name CLUSTER`",
        ) from error
