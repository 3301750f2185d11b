"""`volbench run --target attach` over TCP against each server image that can be had: `make test-servers`."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import live_run
import pytest
from live_run import FINISHED, SUITE, Bench
from server_matrix import (
    OFFICIAL,
    OURS,
    PASSWORD,
    Availability,
    availability,
    flavor_of,
    registry_gives_one,
    server_over_tcp,
)

from volbench.machine.engine.connection import Account, rows

pytestmark = [pytest.mark.docker, pytest.mark.servers, pytest.mark.timeout(1800)]
PAGE_VARIABLE = "VOLBENCH_SERVERS_PAGE"
CELL = (
    "dataset.tables=2",
    "dataset.rows=10000",
    "steps.0.threads=4",
    "steps.0.warmup=2s",
    "steps.0.duration=10s",
    "repeats=1",
    "limits.foreign_iops=1000000",
)
NO_REGISTRY = re.compile(r"no such host|connection refused|i/o timeout|network is unreachable", re.IGNORECASE)
"""In an engine's message: nothing answers where images are pulled from."""
OF_A_SERVER = {"mysql", "information_schema", "performance_schema", "sys", "test"}
HEAD = "| image | server | result | transactions/s | is the cell valid | findings |"
TEXT = """# Servers that volbench was attached to

`make test-servers` wrote this page. It starts a server of each image in a container, runs one short cell on it
with `volbench run --target attach` over TCP (`oltp_read_write`, 4 threads, 2 tables of 10,000 rows, 2 s to warm up,
10 s measured), and asks whether the cell is done, whether flavor and version are the image's, whether volbench's
schema is gone afterwards, and whether the password is in any file or line that volbench wrote. Images of a registry
come first; where it gives none, images built here of Debian's packages stand in for them. The rates are of servers
with their own default settings, on a machine that may have had other work: they compare nothing.
"""


@dataclass(kw_only=True)
class Page:
    """What is known of each image."""

    ran: dict[str, list[str]] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)

    def text(self) -> str:
        now, load = datetime.datetime.now(datetime.UTC), os.getloadavg()[0]
        lines = [
            TEXT,
            f"Run on {now:%Y-%m-%d %H:%M} UTC, {os.cpu_count()} CPUs, load average {load:.0f} at its end.\n",
        ]
        lines += ["## Run\n", HEAD, "|---|---|---|---|---|---|"]
        lines += [f"| {' | '.join([f'`{image}`', *cells])} |" for image, cells in self.ran.items()]
        if self.lacking:
            lines += ["\n## Not run\n", "| image | why |", "|---|---|"]
            lines += [f"| `{image}` | {reason.replace('|', '/')} |" for image, reason in self.lacking.items()]
        built = [f"- `{image}`: {subject}" for image, subject in OURS.items() if image in self.ran]
        if built:
            lines += ["\n## Built here\n", *built]
        return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """Written at the end into the file that VOLBENCH_SERVERS_PAGE names."""
    collected = Page()
    yield collected
    if location := os.environ.get(PAGE_VARIABLE):
        Path(location).parent.mkdir(parents=True, exist_ok=True)
        Path(location).write_text(collected.text())


@pytest.fixture
def attached(tmp_path: Path, run_cache: Path) -> Iterator[Bench]:
    """A place for runs on an attached server: no volumes."""
    with live_run.bench("attach", tmp_path, run_cache, {}) as opened:
        yield opened


@pytest.mark.parametrize("image", [*OFFICIAL, *OURS])
def test_an_attached_server_is_measured_over_tcp_and_left_as_it_was(
    image: str, attached: Bench, page: Page
) -> None:
    if image in OURS and registry_gives_one():
        result = Availability(present=False, reason="a registry gives official images")
    else:
        result = availability(image)
    if not result.present:
        reason = "no image registry answers" if NO_REGISTRY.search(result.reason) else result.reason
        page.lacking[image] = reason
        pytest.skip(f"no image {image}: {reason}")
    with server_over_tcp(image) as account:
        ((version,),) = rows(account, "SELECT VERSION()")
        page.ran[image] = [str(version), "**failed**", "", "", ""]
        page.ran[image] = measured(attached, account, image, str(version))


def measured(bench: Bench, account: Account, image: str, server: str) -> list[str]:
    """A run of one cell and what is asserted of it; its row in the page."""
    option_file = bench.root / "client.cnf"
    option_file.touch(mode=0o600)
    option_file.write_text(f'[client]\npassword="{PASSWORD}"\n')
    dsn = f"mysql://{account.user}@{account.host}:{account.port}/bench?password-unverified=yes"
    chosen = [argument for setting in CELL for argument in ("--set", setting)]
    ended = bench.end(
        bench.volbench(
            "run",
            str(SUITE),
            "--target",
            "attach",
            "--server",
            dsn,
            "--option-file",
            str(option_file),
            *chosen,
            "--out",
            str(bench.results),
            "--yes",
        ),
        bound_s=900,
    )
    assert ended.code in FINISHED, ended.output
    bench.assert_all_done_once()
    (result,) = bench.directory.results()
    assert result.server is not None
    assert result.server.flavor == flavor_of(image)
    series = image.rpartition(":")[2]
    assert f"{result.server.version}.".startswith(f"{series}."), result.server.version
    tps = result.steps[0].metrics["tps"].value
    assert tps > 0
    schemas = {str(name).lower() for (name,) in rows(account, "SHOW DATABASES")}
    assert schemas <= OF_A_SERVER
    written = [path.read_bytes() for path in bench.root.rglob("*") if path.is_file() and path != option_file]
    assert not [text for text in (*written, ended.output.encode()) if PASSWORD.encode() in text]
    report = bench.report()
    cells: Any = report["cells"]
    findings: Any = report["findings"]
    (cell,) = cells
    valid = "yes" if cell["valid"] else "; ".join(cell["invalid_reasons"])
    causes = "; ".join(f"{finding['cause']} ({finding['confidence']:.2f})" for finding in findings)
    return [server, "ok", f"{tps:.0f}", valid, causes or "none"]
