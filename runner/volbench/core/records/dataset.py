"""The tables that every cell starts from, as suites and cells name them."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, model_validator

from volbench.core.records.base import Bytes, Record, Scalar

_DSN_PASSWORD = re.compile(r"^\w+://[^?]*:[^?]*@|[?&](?:password|passwd|pwd)=")
_SECRET_IN_URL = re.compile(r"[?&][^=&]*(?:signature|token|credential|password|secret|key)[^=&]*=", re.IGNORECASE)
DatasetKind = Literal["sysbench", "script", "dump", "schema"]


def _url_fault(url: str, sha256: str) -> str:
    """Return what is wrong with the address of a dump; empty for none."""
    if not url:
        return "`sha256` is of a `url`, and there is none" if sha256 else ""
    scheme, _, address = url.partition("://")
    if scheme not in ("https", "http", "s3") or not address or address.startswith("/"):
        return "a dump's `url` is https://HOST/FILE or s3://BUCKET/KEY"
    if "@" in address.partition("/")[0] or _SECRET_IN_URL.search(url):  # every record of the run would have it
        return "the URL has a secret; use s3:// with AWS' credentials, or download the dump and name it by `path`"
    is_directory = address.partition("?")[0].endswith("/")
    if is_directory and scheme != "s3":
        return "only s3:// has directories: name a file"
    if scheme != "s3" and not sha256:
        return "whoever has the host may change what a URL brings: name its `sha256`, as sha256sum prints it"
    return "`sha256` is of one file, and the `url` is a directory" if is_directory and sha256 else ""


class DatasetSpec(Record):
    """The tables that every cell starts from, made once for each (dataset, engine version, configuration)."""

    kind: DatasetKind = Field(
        default="sysbench",
        description="sysbench: tables of sysbench's prepare; script: of your own script; dump: of a dump; "
        "schema: copied from a server.",
    )
    tables: int = Field(default=4, ge=1, le=10000, description="Tables of sysbench.")
    rows: int = Field(default=100_000, ge=1, description="Rows in each table of sysbench.")
    schema_name: str = Field(default="sbtest", alias="schema", pattern=r"^[A-Za-z0-9_]{1,48}$")
    path: str = Field(
        default="",
        description="script: a Lua script with sysbench's `prepare`, or a file of SQL; dump: a file of mysqldump "
        "(also compressed, in a zip or a tar, in UTF-16), a directory of mydumper or MySQL Shell, or a prepared "
        "physical copy. In a cluster also pvc:CLAIM/PATH.",
    )
    url: str = Field(
        default="",
        description="dump: where to download it from, https:// or s3:// (a prefix that ends in a slash: all of a "
        "directory). `path` is then where to keep it, in volbench's cache by default. https:// needs `sha256`.",
    )
    sha256: str = Field(default="", pattern=r"^([0-9a-f]{64})?$", description="dump: of the file at `url`.")
    server: str = Field(
        default="",
        description="schema: the server as a DSN, mysql://user@host:3306/SCHEMA; it is only read.",
    )
    option_file: str = Field(default="", description="schema: a my.cnf with the password in [client]; 0600.")
    options: dict[str, Scalar] = Field(
        default_factory=dict, description="script: options of the Lua script, name: value."
    )
    threads: int = Field(
        default=4, ge=1, le=256, description="Threads that load own data, where the tool has them."
    )
    size_bytes: Bytes = Field(
        default=1 << 30, alias="size", gt=0, description="Own data on disk, about: for estimates and free space."
    )

    @model_validator(mode="after")
    def _has_its_source(self) -> DatasetSpec:
        needed = {"script": "path", "dump": "path", "schema": "server"}.get(self.kind)
        if needed and not getattr(self, needed) and not (self.kind == "dump" and self.url):
            choice = "`path` or `url`" if self.kind == "dump" else f"`{needed}`"
            raise ValueError(f"a dataset of kind {self.kind} needs {choice}")
        if self.kind != "dump" and self.url:
            raise ValueError(f"a dataset of kind {self.kind} has no `url`")
        if fault := _url_fault(self.url, self.sha256):
            raise ValueError(fault)
        if _DSN_PASSWORD.search(self.server):  # every record of the run would have it
            raise ValueError("the DSN has a password, which belongs in `option_file`")
        extra = [name for name in ("path", "server") if getattr(self, name) and name != needed]
        if extra:
            raise ValueError(f"a dataset of kind {self.kind} has no `{extra[0]}`")
        return self

    @property
    def is_own(self) -> bool:
        """Whether the tables are not those of sysbench's bundled tests."""
        return self.kind != "sysbench"
