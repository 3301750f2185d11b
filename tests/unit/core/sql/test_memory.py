"""Memory that a long statement takes: at most 8 bytes a character, whatever is done with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHARACTERS = 4 << 20
BYTES_A_CHARACTER_MAX = 8
_PROGRAM = """
import sys
from pathlib import Path
from volbench.core.sql.fingerprint import fingerprint
from volbench.core.sql.guard import Allowed, judge
from volbench.core.sql.tokens import is_closed, without_values
from volbench.validation.capture.mask import masked_sql
from volbench.validation.queries.classes import classes_of_log
kind, what, count, log = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
masked_sql("SELECT 1", b"k" * 32)
before = peak()
sql = {
    "literal": "SELECT '" + "a" * count + "'",
    "escapes": "SELECT '" + '{\\\\"a\\\\": 1}' * (count // 12) + "'",
    "list": "SELECT * FROM t WHERE a IN (" + "1234567," * (count // 8) + "1)",
    "rows": "INSERT INTO t VALUES " + "(12345,'some text',3.5)," * (count // 24) + "(1, 'a', 2)",
}[kind]
if what == "log":
    head = "# Time: 2026-11-21T12:14:00.500000Z\\n# User@Host: u[u] @ h []  Id:     1\\n"
    head += "# Query_time: 0.25  Lock_time: 0.0 Rows_sent: 1  Rows_examined: 2\\nSET timestamp=1795263240;\\n"
    with log.open("w") as file:
        file.writelines((head, sql, ";\\n", head, "SELECT 1;\\n"))
    del sql
    classes_of_log(log, ["shop"], processes=1)
else:
    {
        "fingerprint": lambda: fingerprint(sql),
        "judge": lambda: [judge(sql, allowed) for allowed in Allowed],
        "closed": lambda: is_closed(sql, escapes=False),
        "values": lambda: without_values(sql),
        "mask": lambda: masked_sql(sql, b"k" * 32),
    }[what]()
print(peak() - before)
"""


@pytest.mark.parametrize("kind", ["literal", "escapes", "list", "rows"])
@pytest.mark.parametrize("description", ["fingerprint", "judge", "closed", "values", "mask", "log"])
def test_a_long_statement_takes_a_few_bytes_a_character(kind: str, description: str, tmp_path: Path) -> None:
    """With the text itself, and the log as it is read. Masks of many values take long: half as many here."""
    count = CHARACTERS // 2 if description == "mask" and kind in {"list", "rows"} else CHARACTERS
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, kind, description, str(count), str(tmp_path / "slow.log")],
        env={"PYTHONPATH": "runner"},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert int(done.stdout) <= BYTES_A_CHARACTER_MAX * count
