"""Downloads of dumps, from an HTTP server and from a real S3 server on loopback."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.request import Request

import pytest
from s3_server import NAME, credentials, s3, s3_address

from volbench.errors import MissingPrerequisite, StepFailed, UsageError
from volbench.measure.execute import downloads
from volbench.measure.execute.downloads import download, download_path

__all__ = ["credentials", "s3", "s3_address"]
DUMP = b"CREATE TABLE t (id INT);\n" * 200_000


@dataclass
class Site:
    """What the HTTP server answers with, and how often a client has asked."""

    url: str = ""
    content: bytes = DUMP
    etag: str = '"1"'
    status: int = 200
    announced: int | None = None
    redirect: str = ""
    requests: list[str] = field(default_factory=list)


@pytest.fixture(name="site")
def http_site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    site = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.requests.append(self.path)
            self.send_response(302 if site.redirect else site.status)
            if site.redirect:
                self.send_header("Location", site.redirect)
            if site.etag:
                self.send_header("ETag", site.etag)
            announced = len(site.content) if site.announced is None else site.announced
            self.send_header("Content-Length", str(announced))
            self.end_headers()
            with suppress(ConnectionError):  # a client that has read the headers may be gone
                self.wfile.write(site.content)

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    site.url = f"http://127.0.0.1:{http.server_port}/dumps/shop.sql.gz"
    yield site
    http.shutdown()
    thread.join()
    http.server_close()


def quiet(_: str) -> None:
    pass


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_a_dump_is_downloaded_once_and_again_when_it_has_changed(site: Site, tmp_path: Path) -> None:
    path = download_path(site.url, tmp_path)
    assert path.name == "shop.sql.gz"
    assert download(site.url, path, progress=quiet)
    assert path.read_bytes() == DUMP
    assert not download(site.url, path, progress=quiet)
    site.content, site.etag = b"other", '"2"'
    assert download(site.url, path, progress=quiet)
    assert path.read_bytes() == b"other"
    assert names(path.parent) == {"shop.sql.gz", "shop.sql.gz.download.json", ".shop.sql.gz.lock"}


def test_without_a_version_from_the_server_it_is_downloaded_each_time(site: Site, tmp_path: Path) -> None:
    site.etag = ""
    path = tmp_path / "shop.sql.gz"
    assert [download(site.url, path, progress=quiet) for _ in range(2)] == [True, True]


def test_a_file_with_the_named_checksum_needs_no_server(site: Site, tmp_path: Path) -> None:
    path, sha256 = tmp_path / "shop.sql.gz", hashlib.sha256(DUMP).hexdigest()
    assert download(site.url, path, sha256=sha256, progress=quiet)
    assert not download(site.url, path, sha256=sha256, progress=quiet)
    assert len(site.requests) == 1


def test_another_file_than_the_named_one_leaves_the_older_download(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "shop.sql.gz"
    download(site.url, path, progress=quiet)
    with pytest.raises(StepFailed, match="not the file") as refused:
        download(site.url, path, sha256="0" * 64, progress=quiet)
    assert hashlib.sha256(DUMP).hexdigest() in refused.value.evidence
    assert path.read_bytes() == DUMP
    assert not download(site.url, path, progress=quiet)


def test_a_download_that_ends_early_leaves_nothing(site: Site, tmp_path: Path) -> None:
    site.announced = len(DUMP) + 1
    with pytest.raises(StepFailed, match="ended early") as failed:
        download(site.url, tmp_path / "shop.sql.gz", progress=quiet)
    assert str(len(DUMP)) in failed.value.evidence
    assert names(tmp_path) == {".shop.sql.gz.lock"}


@pytest.mark.parametrize("status", [403, 404, 500])
def test_a_refusal_is_one_message(site: Site, tmp_path: Path, status: int) -> None:
    site.status = status
    with pytest.raises(MissingPrerequisite, match="could not be downloaded") as failed:
        download(site.url, tmp_path / "shop.sql.gz", progress=quiet)
    assert str(status) in failed.value.evidence
    assert failed.value.cause == downloads.FAILED


def test_nobody_answers(tmp_path: Path) -> None:
    with pytest.raises(MissingPrerequisite, match="could not be downloaded"):
        download("http://127.0.0.1:1/shop.sql", tmp_path / "shop.sql", progress=quiet)


def test_a_redirection_is_followed_but_not_from_https_to_http(site: Site, tmp_path: Path) -> None:
    handler = downloads._NoDowngrade()
    request = Request("https://127.0.0.1/shop.sql")
    with pytest.raises(OSError, match="without TLS"):
        handler.redirect_request(request, None, 302, "Found", {}, "http://127.0.0.1/shop.sql")
    site.redirect = "http://127.0.0.1:1/elsewhere"
    with pytest.raises(MissingPrerequisite):
        download(site.url, tmp_path / "shop.sql", progress=quiet)


def test_a_file_of_the_user_is_never_replaced(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "shop.sql.gz"
    path.write_bytes(b"mine")
    with pytest.raises(UsageError, match="not downloaded by volbench"):
        download(site.url, path, progress=quiet)
    assert path.read_bytes() == b"mine"
    assert site.requests == []


def test_two_downloads_to_one_place(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "shop.sql.gz"
    with downloads._locked(path), pytest.raises(MissingPrerequisite, match="another volbench"):
        download(site.url, path, progress=quiet)


def test_too_little_space_is_said_before_a_byte_is_written(site: Site, tmp_path: Path) -> None:
    site.announced = 1 << 60
    with pytest.raises(MissingPrerequisite, match="not enough free space"):
        download(site.url, tmp_path / "shop.sql.gz", progress=quiet)
    assert names(tmp_path) == {".shop.sql.gz.lock"}


def test_progress_says_how_much_has_come(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "_PROGRESS_S", 0.0)
    lines: list[str] = []
    download(site.url, tmp_path / "shop.sql.gz", progress=lines.append)
    assert lines[-1] == "downloaded 4.77 MiB of 4.77 MiB"


def of_bucket(s3_address: str, key: str) -> str:
    return f"s3://{NAME}/{key}?region=us-east-1&scheme=http&endpoint_override={s3_address}"


def test_an_object_and_a_directory_of_a_bucket(s3_address: str, s3: Any, tmp_path: Path) -> None:
    for name in ("metadata", "shop.t.00000.sql", "deep/shop.u.sql"):
        s3.put_object(Bucket=NAME, Key=f"dumps/shop/{name}", Body=name.encode())
    s3.put_object(Bucket=NAME, Key="dumps/shopping", Body=b"another")
    url = of_bucket(s3_address, "dumps/shop/")
    path = download_path(url, tmp_path)
    assert download(url, path, progress=quiet)
    files = {str(file.relative_to(path)): file.read_text() for file in path.rglob("*") if file.is_file()}
    assert files == {name: name for name in ("metadata", "shop.t.00000.sql", "deep/shop.u.sql")}
    assert not download(url, path, progress=quiet)
    s3.delete_object(Bucket=NAME, Key="dumps/shop/shop.t.00000.sql")
    assert download(url, path, progress=quiet)
    assert names(path) == {"metadata", "deep"}
    assert download(of_bucket(s3_address, "dumps/shopping"), tmp_path / "one.sql", progress=quiet)
    assert (tmp_path / "one.sql").read_bytes() == b"another"


@pytest.mark.parametrize("key", ["none.sql", "none/"])
def test_an_object_that_does_not_exist(s3_address: str, s3: Any, tmp_path: Path, key: str) -> None:
    with pytest.raises(MissingPrerequisite, match="could not be downloaded"):
        download(of_bucket(s3_address, key), tmp_path / "x.sql", progress=quiet)
    assert s3.list_objects_v2(Bucket=NAME).get("Contents", []) == []
