"""The script of the suite `compression` on a real server: its values compress as stated, and so do the pages."""

from __future__ import annotations

import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from scratch_server import ScratchServer, scratch_server

from volbench.core.suite.bundled import bundled_path

pytestmark = pytest.mark.mysqld
PAGE_BYTES = 16384
ROWS = 20_000
TOLERANCE = 0.04


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScratchServer]:
    with scratch_server(tmp_path_factory.mktemp("s"), "--innodb-flush-log-at-trx-commit=0") as opened:
        yield opened


def sysbench(server: ScratchServer, schema: str, command: str, *options: str) -> str:
    script = bundled_path(Path("suites/lua/compressible.lua"))
    argv = ["sysbench", str(script), "--db-driver=mysql", f"--mysql-socket={server.socket}", "--mysql-user=root"]
    ended = subprocess.run(
        [*argv, f"--mysql-db={schema}", "--tables=1", f"--table-size={ROWS}", *options, command],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return ended.stdout + ended.stderr


def prepared(server: ScratchServer, schema: str, *options: str) -> str:
    server.query(f"DROP DATABASE IF EXISTS {schema}")
    server.query(f"CREATE DATABASE {schema}")
    return sysbench(server, schema, "prepare", *options)


def ratio_of_values(server: ScratchServer, schema: str) -> float:
    """What zlib makes of pages full of values, as page compression does: each page by itself."""
    rows = server.query(f"SELECT CONCAT(c, pad) FROM {schema}.sbtest1 ORDER BY id LIMIT 5000")
    text = "".join(str(row[0]) for row in rows).encode()
    pages = [text[at : at + PAGE_BYTES] for at in range(0, len(text) - PAGE_BYTES, PAGE_BYTES)]
    return sum(len(zlib.compress(page, 6)) for page in pages) / (PAGE_BYTES * len(pages))


@pytest.mark.parametrize("stated", [0.1, 0.25, 0.5, 0.7])
def test_values_compress_to_what_is_stated_also_after_updates(server: ScratchServer, stated: float) -> None:
    output = prepared(server, "values_of", f"--compress_to={stated}")
    assert "FATAL" not in output, output
    assert ratio_of_values(server, "values_of") == pytest.approx(stated, abs=TOLERANCE)
    output = sysbench(server, "values_of", "run", "--threads=4", "--time=3", f"--compress_to={stated}")
    assert "FATAL" not in output, output
    assert ratio_of_values(server, "values_of") == pytest.approx(stated, abs=TOLERANCE)


def test_the_statement_of_the_page_finds_the_stated_figure(server: ScratchServer) -> None:
    prepared(server, "asked", "--compress_to=0.4")
    page = (Path(__file__).parents[2] / "docs" / "questions" / "compression.md").read_text()
    setting, statement, _ = page.partition("```sql\n")[2].partition("```")[0].split(";")
    server.query(setting.replace("SESSION", "GLOBAL"))  # a connection for each statement
    ((ratio,),) = server.query(statement.replace("sbtest1", "asked.sbtest1"))
    assert float(str(ratio)) == pytest.approx(0.4, abs=TOLERANCE + 0.02)  # COMPRESS adds its header


def allocated_ratio(server: ScratchServer, schema: str) -> float:
    """What the filesystem stores of the table's file, with all pages flushed."""
    server.query(f"FLUSH TABLES {schema}.sbtest1 FOR EXPORT")
    status = (server.directory / "data" / schema / "sbtest1.ibd").stat()
    return status.st_blocks * 512 / status.st_size


def test_page_compression_stores_less_the_better_the_data_compress(server: ScratchServer) -> None:
    """Of the filesystem's blocks of 4 KiB a page takes one to four."""
    ratios = []
    for stated in (0.1, 0.5):
        output = prepared(server, "pages", f"--compress_to={stated}", "--page_compression=on")
        assert "FATAL" not in output, output
        ratios.append(allocated_ratio(server, "pages"))
    prepared(server, "plain", "--compress_to=0.1")
    assert ratios[0] < 0.5 < allocated_ratio(server, "plain")
    assert ratios[0] < ratios[1]


@pytest.mark.parametrize(
    ("option", "message"),
    [("--compress_to=0.9", "0.05 to 0.75"), ("--compress_to=0", "0.05 to 0.75"), ("--page_compression=zstd", "on")],
)
def test_what_the_script_cannot_make_is_refused(server: ScratchServer, option: str, message: str) -> None:
    output = prepared(server, "refused", option)
    assert "FATAL" in output
    assert message in output
    assert server.query("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'refused'") == [(0,)]
