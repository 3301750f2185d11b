"""Rows of the fuzzer's table: slow logs, captures, SQL and reports of pt-upgrade."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from fuzzed.reader import SAMPLED, JsonReader, Reader, consume, files, of_bytes, of_text, texts
from volbench.core.base.parse import parse_json
from volbench.core.sql.fingerprint import fingerprint
from volbench.core.sql.guard import Allowed, judge
from volbench.measure.workload.replay.general_log import general_log
from volbench.measure.workload.replay.slowlog import slow_log
from volbench.validation.capture.digests import read_capture, repeatable_classes
from volbench.validation.capture.mask import masked, masked_sql
from volbench.validation.catalog.sql_text import normal_expression, normal_query
from volbench.validation.queries.classes import query_classes
from volbench.validation.queries.comparison import plan_text
from volbench.validation.queries.pt_upgrade_report import parse_classes, parse_stats


def _slow_log(path: Path) -> None:
    with slow_log(path) as result:
        for item in result:
            judge(item.sql, Allowed.COMPARED)


def _general_log(path: Path) -> None:
    with general_log(path) as log:
        consume(iter(log))


def _slow_log_masked(path: Path) -> None:
    with slow_log(path) as result:
        consume(masked(result, key=b"k" * 32))


def _slow_log_classes(path: Path) -> None:
    with slow_log(path) as result:
        remaining = list(result)
    query_classes(remaining, {item.schema for item in remaining if item.schema is not None})


def _capture(path: Path) -> None:
    capture = read_capture(path)
    repeatable_classes(capture)


def _capture_seeds() -> Sequence[bytes]:
    return (
        json.dumps(
            {
                "schema": 1,
                "flavor": "mysql",
                "version": "9.7.4",
                "started_at": "2026-01-31T14:00:00Z",
                "seconds": 60.0,
                "statements_per_s": 50.0,
                "threads_running_max": 4,
                "unclassified": 0,
                "masked": False,
                "classes": [
                    {
                        "schema_name": "shop",
                        "digest_text": "SELECT * FROM `orders` WHERE `id` = ?",
                        "sample": "SELECT * FROM orders WHERE id = 5",
                        "statements": 3000,
                        "total_s": 1.5,
                        "errors": 0,
                        "rows_sent": 3000,
                        "rows_examined": 3000,
                    }
                ],
            }
        ).encode(),
    )


SQL = (
    "SELECT a.id, 'it''s', \"x\\\"y\", x'4D', 0x41, b'01', _utf8mb4'abc', N'x', -5, .5e3 FROM `t``a` AS a "
    "WHERE b IN (1,2,3) AND c LIKE 'a\\\\' ORDER BY 1 LIMIT 10 -- end",
    "INSERT INTO t (a, b) VALUES (1, 'x'), (2, 'y') ON DUPLICATE KEY UPDATE a = VALUES(a)",
    "SELECT /*+ MAX_EXECUTION_TIME(1000) */ /*!50000 STRAIGHT_JOIN */ * FROM t # x\nWHERE d = DATE'2020-01-01'",
    "WITH c AS (SELECT 1 AS x UNION ALL SELECT 2) SELECT SUM(x) OVER w FROM c WINDOW w AS (PARTITION BY x)",
    "(`a` + 1) * 2 <> 0 and (`b` like _utf8mb4'x%') or isnull(`c`)",
)


def _sql(text: str) -> None:
    fingerprint(text)
    masked_sql(text, b"k" * 32)
    judge(text, Allowed.COMPARED)


def _normal_sql(text: str) -> None:
    normal_expression(text)
    normal_query(text)


PT_UPGRADE = """#-----------------------------------------------------------------------
# Logs
#-----------------------------------------------------------------------

########################################################################
# Query class 5A4A6C3CF5B7C0F1
########################################################################

Reporting class because it has diffs, but hasn't been reported yet.

Total queries      2
Unique queries     2
Discarded queries  0

select a from t where id=?

##
## Row diffs: 2
##

-- 1.

@ row 1
< 1,2.50
> 1,2.5

SELECT a FROM t WHERE id=1

#-----------------------------------------------------------------------
# Stats
#-----------------------------------------------------------------------

failed_queries        0
not_select            3
queries_filtered      0
queries_read          9
"""


def _pt_upgrade(text: str) -> None:
    parse_stats(text)
    consume(parse_classes(text))


READERS: tuple[Reader, ...] = (
    Reader(
        name="slow-log", read=_slow_log, seeds=files("tests/fixtures/slowlog/*/slow.log", bytes_max=2_600), share=40
    ),
    Reader(
        name="general-log",
        read=_general_log,
        seeds=files("tests/fixtures/general-log/*/general.log", bytes_max=8_000),
        share=20,
    ),
    Reader(
        name="slow-log-masked",
        read=_slow_log_masked,
        seeds=files("tests/fixtures/slowlog/*/slow.log", bytes_max=2_600),
        share=20,
    ),
    Reader(
        name="slow-log-classes",
        read=_slow_log_classes,
        seeds=files("tests/fixtures/slowlog/*/slow.log", bytes_max=2_600),
        share=20,
    ),
    JsonReader(name="capture", read=_capture, seeds=_capture_seeds, share=20),
    Reader(name="sql", read=of_text(_sql), seeds=texts(*SQL), share=25),
    Reader(name="normal-sql", read=of_text(_normal_sql), seeds=texts(*SQL), share=4),
    JsonReader(
        name="query-plan",
        read=of_bytes(lambda data: plan_text(parse_json(data))),
        seeds=texts('{"query_block": {"table": {"table_name": "t", "access_type": "ref", "key": "k"}}}'),
        share=10,
        refusals=SAMPLED,
    ),
    Reader(name="pt-upgrade", read=of_text(_pt_upgrade), seeds=texts(PT_UPGRADE), share=20),
)
