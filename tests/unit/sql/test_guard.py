"""No statement that acts, or that servers read differently, is taken for one that reads."""

from __future__ import annotations

import pytest

from volbench.errors import Refused
from volbench.sql.guard import refuse_writes

ACTING = [
    "select 1 /*!99999 '*/ into outfile \"/run/x\" -- '",
    "select 1 into/*! outfile*/'/run/x'",
    "select 1\u00a0into outfile '/run/x'",
    "select 1 into\u00a0outfile '/run/x'",
    "select 1 into @a",
    "select 1 into v",
    "select @a := 1",
    "select `sleep`(1)",
    "select `load_file`('/etc/passwd')",
    "select sleep (100000)",
    "select benchmark(1000000000, md5('a'))",
    "select release_all_locks()",
    "select get_lock('a', 1)",
    "select sys_exec('id')",
    "select shop.f(1)",
    "select `shop` . `f` (1)",
    "select count (1)",
    "select nextval(s)",
    "select next value for s",
    "select setval(s, 1)",
    "select * from t for update",
    "select * from t lock in share mode",
    "select * from t procedure analyse()",
    "select master_pos_wait('a', 1)",
]


@pytest.mark.parametrize("sql", ACTING)
def test_a_statement_that_acts_is_refused(sql: str) -> None:
    with pytest.raises(Refused):
        refuse_writes(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT c FROM sbtest1 WHERE id BETWEEN 1 AND 100 ORDER BY c",
        "SELECT COUNT(*), `sum`, AVG(x) OVER (PARTITION BY y) FROM `a;b` WHERE z IN (1, 2) AND q = 'into @a'",
        "WITH RECURSIVE x (a, b) AS (SELECT 1, 2 UNION ALL (SELECT a + 1, b FROM x)) SELECT * FROM x",
        "SELECT * FROM (SELECT 1) AS d (a)",
    ],
)
def test_a_statement_that_reads_passes(sql: str) -> None:
    refuse_writes(sql)
