"""Who may ask the observation, and what connections that ask nothing cost: measured."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from wsgiref.simple_server import WSGIServer

import pytest
from waiting import wait_for

from volbench.errors import Refused, UsageError
from volbench.observe.exposition import ObservationCollector
from volbench.observe.listening import (
    CONNECTION_S_MAX,
    CONNECTIONS_MAX,
    REQUEST_BYTES_MAX,
    parse_listen,
    serve,
)
from volbench.observe.observer import Now


@pytest.fixture(params=["127.0.0.1", "::1"])
def server(request: pytest.FixtureRequest) -> Iterator[WSGIServer]:
    try:
        running = serve(request.param, 0, ObservationCollector(dict, Now()))
    except Exception as error:  # noqa: BLE001 - a machine without IPv6
        pytest.skip(f"this machine has no IPv6: {error}")
    yield running
    running.shutdown()
    running.server_close()


def connect(server: WSGIServer) -> socket.socket:
    return socket.create_connection((str(server.server_address[0]), server.server_port), timeout=30)


def scrape(server: WSGIServer) -> bytes:
    host = str(server.server_address[0])
    url = f"http://{f'[{host}]' if ':' in host else host}:{server.server_port}/metrics"
    with urllib.request.urlopen(url, timeout=30) as answer:
        body: bytes = answer.read()
    return body


def test_four_hundred_half_open_requests_have_few_threads_and_keep_no_scrape_out(server: WSGIServer) -> None:
    before = threading.active_count()
    with contextlib.ExitStack() as stack:
        for _ in range(400):
            half_open = stack.enter_context(connect(server))
            with contextlib.suppress(OSError):
                half_open.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n")
        assert b"volbench_incidents" in scrape(server)
        wait_for(lambda: threading.active_count() - before <= CONNECTIONS_MAX)
    wait_for(lambda: threading.active_count() <= before)


@pytest.mark.parametrize("begin", [b"", b"GET /metrics HT", b"GET /metrics HTTP/1.1\r\nHost: x\r\n"])
def test_a_request_that_does_not_end_is_cut_off(server: WSGIServer, begin: bytes) -> None:
    began = time.monotonic()
    with connect(server) as half_open:
        half_open.sendall(begin)
        assert half_open.recv(100) == b""
    assert time.monotonic() - began >= CONNECTION_S_MAX - 0.5


def test_a_request_that_drips_is_cut_off(server: WSGIServer) -> None:
    """Each byte comes in time; the whole does not."""
    with connect(server) as dripping:
        stop = threading.Event()

        def drip() -> None:
            with contextlib.suppress(OSError):
                while not stop.wait(0.2):
                    dripping.sendall(b"x")

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            with contextlib.suppress(ConnectionResetError):
                assert dripping.recv(100) == b""
        finally:
            stop.set()
            thread.join()


def test_a_long_request_is_refused(server: WSGIServer) -> None:
    with connect(server) as long:
        with contextlib.suppress(OSError):
            long.sendall(b"GET /metrics HTTP/1.1\r\nX: " + b"x" * (4 * REQUEST_BYTES_MAX))
        with contextlib.suppress(ConnectionResetError):
            assert long.recv(12) in {b"HTTP/1.0 431", b""}


def test_a_reader_that_takes_nothing_is_cut_off(server: WSGIServer) -> None:
    before = threading.active_count()
    with contextlib.ExitStack() as stack:
        for _ in range(CONNECTIONS_MAX):
            reader = stack.enter_context(connect(server))
            reader.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_for(lambda: threading.active_count() <= before)


@pytest.mark.parametrize(
    "text",
    ["0.0.0.0:9104", "[::]:9104", "192.0.2.7:9104", "[2001:db8::1]:9104", "0:9104", "[::ffff:192.0.2.7]:9104"],
)
def test_an_address_of_the_network_takes_an_option_that_says_so(text: str) -> None:
    with pytest.raises(Refused, match="other machines could ask there") as refused:
        parse_listen(text)
    assert "status variables" in refused.value.evidence
    assert "--listen-remote" in refused.value.next_step
    assert parse_listen(text, remote=True)[1] == 9104


def test_loopback_needs_no_option() -> None:
    assert parse_listen("127.0.0.1:9104") == ("127.0.0.1", 9104)
    assert parse_listen("127.8.9.10:9104") == ("127.8.9.10", 9104)
    assert parse_listen("localhost:9104")[0] in {"127.0.0.1", "::1"}
    with pytest.raises(UsageError, match="not known"):
        parse_listen("no.such.name.invalid:9104")
