"""performance_schema as one statement a tick, and what its columns of text mean.

Each column is a GROUP_CONCAT of one table: `name count sum ...`, one instrument a line, instruments that never
were used left out. One row of few columns costs the client far less than hundreds of rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

FILE_FIELDS = (
    "reads",
    "writes",
    "syncs",
    "read_ps",
    "write_ps",
    "sync_ps",
    "read_bytes",
    "write_bytes",
)
"""Of file_summary_by_event_name; `sync` is its MISC: fsync, but also open, close, stat and truncate."""
FILE_CLASSES = {
    "wait/io/file/innodb/innodb_data_file": "data",
    "wait/io/file/innodb/innodb_tablespace_open_file": "data",
    "wait/io/file/innodb/innodb_log_file": "redo",
    "wait/io/file/innodb/innodb_dblwr_file": "dblwr",
    "wait/io/file/innodb/innodb_temp_file": "temp",
    "wait/io/file/sql/binlog_cache": "temp",
    "wait/io/file/sql/io_cache": "temp",
    "wait/io/file/sql/hash_join": "temp",
    "wait/io/file/sql/binlog": "binlog",
    "wait/io/file/sql/binlog_index": "binlog",
}
"""Which files an instrument is about; all others are `other`."""
WAIT_CLASSES = {
    "wait/io/table/sql/handler": "table",
    "wait/lock/table/sql/handler": "lock_table",
    "wait/lock/metadata/sql/mdl": "lock_metadata",
    "wait/synch/cond/sql/MYSQL_BIN_LOG::COND_done": "binlog_group",
    "wait/synch/cond/sql/MYSQL_BIN_LOG::COND_flush_queue": "binlog_group",
    "wait/synch/cond/sql/MYSQL_BIN_LOG::COND_wait_for_group_turn": "binlog_group",
}
"""Waits other than for files."""
BACKGROUND_WAITS = tuple(name for name, kind in WAIT_CLASSES.items() if kind == "lock_metadata")
"""Of these, what background threads wait for too: InnoDB's statistics and purge lock the tables they work on."""
WATCHED_FILES = tuple(name for name, kind in FILE_CLASSES.items() if kind in ("data", "redo", "dblwr", "binlog"))
"""Files whose share of background threads is looked up."""


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


TABLES_QUERY = (
    "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'performance_schema'"
    " AND TABLE_NAME IN ('events_statements_histogram_global', 'events_statements_summary_global_by_event_name',"
    " 'file_summary_by_event_name', 'events_waits_summary_by_thread_by_event_name', 'setup_instruments',"
    " 'events_statements_history', 'events_statements_summary_by_thread_by_event_name', 'session_connect_attrs',"
    " 'events_statements_summary_by_digest')"
)
CONSUMERS_QUERY = "SELECT NAME FROM performance_schema.setup_consumers WHERE ENABLED = 'YES'"
DIGESTS_TABLE = "events_statements_summary_by_digest"
DIGESTS_QUERY = f"SELECT COUNT(*) FROM performance_schema.{DIGESTS_TABLE}"  # noqa: S608 - our own constant
DIGESTS_MAX = 2_000
"""A server with more of them is not asked for the largest at every tick: that sorts them all."""
DIGEST_COLUMNS = ("digests", "digest_rows")
"""The largest digests, and how many there are by now: each statement of another table has one of its own."""
DIGESTS_SHOWN, _DIGEST_CHARACTERS = 400, 160
"""Eight tables of sysbench have fifty digests, and 400 of 160 characters fit into group_concat_max_len."""
DIGEST_FIELDS = ("count", "ps", "lock_ps", "cpu_ps")
_CPU_CONSUMER = "events_statements_cpu"
_INSTRUMENTS = "SELECT NAME FROM performance_schema.setup_instruments WHERE ENABLED = 'YES' AND TIMED = 'YES'"
INSTRUMENTS_QUERY = f"{_INSTRUMENTS} AND NAME IN ({_quoted((*WATCHED_FILES, *WAIT_CLASSES))})"

_HISTOGRAM = (
    "SELECT GROUP_CONCAT(BUCKET_NUMBER, ' ', COUNT_BUCKET SEPARATOR '\\n')"
    " FROM performance_schema.events_statements_histogram_global WHERE COUNT_BUCKET > 0"
)
_COUNTED = (
    "(EVENT_NAME LIKE 'statement/sql/%' OR EVENT_NAME LIKE 'statement/com/%')"
    " AND EVENT_NAME <> 'statement/com/Statistics'"  # what monitoring asks, ours too: no work of a session
)
_STATEMENTS = (
    "SELECT CONCAT_WS(' ', SUM(COUNT_STAR), SUM(SUM_TIMER_WAIT), SUM(SUM_LOCK_TIME), SUM(SUM_ERRORS))"  # noqa: S608 - ours
    " FROM performance_schema.events_statements_summary_global_by_event_name"
    f" WHERE {_COUNTED}"
)
_SUMMED = ("COUNT_STAR", "SUM_TIMER_WAIT", "SUM_LOCK_TIME", "SUM_ERRORS")
# Decimal, since the picoseconds of a server that is up for long leave no room for a sign in 64 bits.
_STATEMENTS_OF_OTHERS = (
    "SELECT CONCAT_WS(' ', SUM(a), SUM(b), SUM(c), SUM(d)) FROM (SELECT "  # noqa: S608 - our own constants
    + ", ".join(f"CAST({column} AS DECIMAL(30)) AS {name}" for column, name in zip(_SUMMED, "abcd", strict=True))
    + f" FROM performance_schema.events_statements_summary_global_by_event_name WHERE {_COUNTED} UNION ALL SELECT "
    + ", ".join(f"-CAST({column} AS DECIMAL(30))" for column in _SUMMED)
    + " FROM performance_schema.{table} WHERE {ours}) volbench_others"
)
_BY_THREAD = "events_statements_summary_by_thread_by_event_name"
_OUR_DIGESTS = "LEFT(DIGEST_TEXT, 80) LIKE '%AS `volbench`%' OR DIGEST_TEXT LIKE 'SHOW GLOBAL STATUS WHERE %'"
OWN_HISTORY = (
    "SELECT GROUP_CONCAT(EVENT_ID, ' ', TIMER_WAIT, ' ', LOCK_TIME, ' ', ERRORS, ' ',"
    " COALESCE(LEFT(DIGEST, 8), '-') SEPARATOR '\\n') FROM performance_schema.events_statements_history"
    " WHERE THREAD_ID = {thread} AND END_EVENT_ID IS NOT NULL"
)
SCANNED_THREADS_MAX = 100
"""Threads beyond which tables by thread are not asked at every tick where each of their rows is gone through."""
THREADS_QUERY = "SELECT COUNT(*), @@global.version LIKE '%MariaDB%' FROM performance_schema.threads"
OWN_HISTORY_MIN = 5
"""Statements that the history has to hold: as many as are sent between two readings of it. Its size is a variable
of the server, 5 on small ones; it is empty where a consumer, an instrument or setup_actors leaves ours out."""
SESSIONS = (
    "SELECT CONCAT_WS(' ', MAX(PROCESSLIST_ID), COUNT(PROCESSLIST_ID), COUNT(PROCESSLIST_USER))"
    " FROM performance_schema.threads"
)
"""Another text when a session has come, logged in or gone: their numbers only grow."""
OWN_THREAD_QUERY = "SELECT THREAD_ID FROM performance_schema.threads WHERE PROCESSLIST_ID = CONNECTION_ID()"
BACKUP_TOOLS = (
    "mysqldump",
    "mariadb-dump",
    "mysqlpump",
    "mydumper",
    "xtrabackup",
    "mariabackup",
    "mariadb-backup",
    "mysqlbackup",
)
"""By the program_name that a client says of itself when it connects."""
PROGRAMS_QUERY = (
    "SELECT 1 AS volbench, (SELECT GROUP_CONCAT(ATTR_VALUE, ' ', COUNTED SEPARATOR '\\n')"  # noqa: S608
    " FROM (SELECT ATTR_VALUE, COUNT(*) AS COUNTED FROM performance_schema.session_connect_attrs"
    f" WHERE ATTR_NAME = 'program_name' AND ATTR_VALUE IN ({_quoted(BACKUP_TOOLS)}) GROUP BY ATTR_VALUE) programs)"
)
"""Its second column has a line for each program. The first tells whose the statement is by its digest."""
_FILES = (
    "SELECT GROUP_CONCAT(EVENT_NAME, ' ', COUNT_READ, ' ', COUNT_WRITE, ' ', COUNT_MISC, ' ', SUM_TIMER_READ, ' ',"
    " SUM_TIMER_WRITE, ' ', SUM_TIMER_MISC, ' ', SUM_NUMBER_OF_BYTES_READ, ' ', SUM_NUMBER_OF_BYTES_WRITE"
    " SEPARATOR '\\n') FROM performance_schema.file_summary_by_event_name WHERE COUNT_STAR > 0"
)
# Foreground threads come and go, and their sums with them; background threads stay. So the waits of foreground
# threads are those of all threads less those of background threads, which are looked up by both columns of the key.
_BACKGROUND = (
    "SELECT GROUP_CONCAT(EVENT_NAME, ' ', COUNTED, ' ', TIMED SEPARATOR '\\n') FROM ("
    " SELECT w.EVENT_NAME, SUM(w.COUNT_STAR) AS COUNTED, SUM(w.SUM_TIMER_WAIT) AS TIMED"
    " FROM performance_schema.threads t STRAIGHT_JOIN ({names}) n"
    " STRAIGHT_JOIN performance_schema.events_waits_summary_by_thread_by_event_name w"
    " ON w.THREAD_ID = t.THREAD_ID AND w.EVENT_NAME = n.NAME"
    " WHERE t.TYPE = 'BACKGROUND' GROUP BY w.EVENT_NAME) background"
)
_WAITS = (
    "SELECT GROUP_CONCAT(EVENT_NAME, ' ', COUNT_STAR, ' ', SUM_TIMER_WAIT SEPARATOR '\\n')"
    " FROM performance_schema.events_waits_summary_global_by_event_name WHERE EVENT_NAME IN ({names})"
)
# No server sums waits by digest: what a statement's time without its CPU and lock time is, is waiting.
_DIGESTS = (
    "SELECT GROUP_CONCAT(COUNT_STAR, ' ', SUM_TIMER_WAIT, ' ', SUM_LOCK_TIME, ' ', {cpu}, ' ',"
    " LEFT(DIGEST, 8), ' ', LEFT(REPLACE(DIGEST_TEXT, '\\n', ' '), {characters}) SEPARATOR '\\n')"
    " FROM (SELECT * FROM performance_schema.events_statements_summary_by_digest WHERE DIGEST_TEXT IS NOT NULL"
    " ORDER BY SUM_TIMER_WAIT DESC LIMIT {shown}) largest"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Available:
    """What this server's performance_schema keeps, found out once for each connection.

    `indexed`: its tables are looked up by thread, as MySQL's are; MariaDB goes through the rows of all threads.
    `own_history`: our own thread's statements are kept, enough of them.
    """

    tables: frozenset[str]
    consumers: frozenset[str]
    instruments: frozenset[str]
    digests: int | None = None
    threads: int | None = None
    indexed: bool = True
    own_history: bool = False


def columns_of(available: Available) -> dict[str, str]:
    """Return the columns that can be asked for, as name and subquery."""
    columns = {}
    if "events_statements_histogram_global" in available.tables:
        columns["histogram"] = _HISTOGRAM
    if "events_statements_summary_global_by_event_name" in available.tables:
        columns["statements"] = _STATEMENTS
    if "file_summary_by_event_name" in available.tables:
        columns["files"] = _FILES
    watched = [name for name in (*WATCHED_FILES, *BACKGROUND_WAITS) if name in available.instruments]
    by_thread = "events_waits_summary_by_thread_by_event_name" in available.tables
    if watched and by_thread and "thread_instrumentation" in available.consumers:
        names = " UNION ALL ".join(f"SELECT '{name}' AS NAME" for name in watched)
        columns["background"] = _BACKGROUND.format(names=names)
    waits = [name for name in WAIT_CLASSES if name in available.instruments]
    if waits:
        columns["waits"] = _WAITS.format(names=_quoted(waits))
    digests = DIGESTS_TABLE in available.tables
    if digests and "statements_digest" in available.consumers and (available.digests or 0) <= DIGESTS_MAX:
        cpu = "SUM_CPU_TIME" if _CPU_CONSUMER in available.consumers else "'-'"
        columns["digests"] = _DIGESTS.format(cpu=cpu, characters=_DIGEST_CHARACTERS, shown=DIGESTS_SHOWN)
        columns["digest_rows"] = DIGESTS_QUERY
    return columns


def columns_without_own(available: Available, thread: int) -> dict[str, str]:
    """Return the columns for a server that is only read, from which our own thread's statements are subtracted.

    Digests are left out: they are read less often, by a source of their own.
    """
    columns = {"volbench": "1"}  # so that the text of its digest says whose it is
    columns |= {name: sql for name, sql in columns_of(available).items() if name not in DIGEST_COLUMNS}
    if not available.indexed and (available.threads or 0) > SCANNED_THREADS_MAX:
        columns.pop("background", None)
    if available.own_history:
        columns["own"] = OWN_HISTORY.format(thread=thread)  # with it the reader subtracts them
    elif "statements" in columns and available.indexed and _BY_THREAD in available.tables:
        condition = f"THREAD_ID = {thread} AND ({_COUNTED})"
        columns["statements"] = _STATEMENTS_OF_OTHERS.format(table=_BY_THREAD, ours=condition)
    elif "statements" in columns and DIGESTS_TABLE in available.tables:
        columns["statements"] = _STATEMENTS_OF_OTHERS.format(table=DIGESTS_TABLE, ours=_OUR_DIGESTS)
    if "session_connect_attrs" in available.tables:
        columns["sessions"] = SESSIONS
    return columns


def query_of(columns: Mapping[str, str]) -> str:
    """Return one statement for all columns."""
    return "SELECT " + ", ".join(f"({sql}) AS {name}" for name, sql in columns.items())


def parse_lines(text: str) -> Iterator[tuple[str, list[int]]]:
    """Yield each line's name and numbers; names of waits and files hold no blank.

    Raises ValueError for other text.
    """
    for line in text.splitlines():
        name, *numbers = line.split(" ")
        yield name, [int(number) for number in numbers]


def parse_digests(text: str) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield each digest (its first characters, then its text) and its numbers.

    CPU time is left out where it is not kept.

    Raises ValueError for other text.
    """
    for line in text.splitlines():
        *fields, digest = line.split(" ", len(DIGEST_FIELDS))
        pairs = zip(DIGEST_FIELDS, fields, strict=True)
        yield digest, {name: int(field) for name, field in pairs if field != "-"}


def sums_by_class(text: str, classes: Mapping[str, str], other_class: str | None) -> dict[str, list[int]]:
    """Return numbers of all instruments of a class added up.

    Instruments without a class go to `other`, or nowhere.
    """
    sums: dict[str, list[int]] = {}
    for name, numbers in parse_lines(text):
        kind = classes.get(name, other_class)
        if kind is not None:
            so_far = sums.setdefault(kind, [0] * len(numbers))
            sums[kind] = [a + b for a, b in zip(so_far, numbers, strict=True)]
    return sums


def absences(available: Available, columns: Collection[str]) -> str:
    """Return what is not there, and why, in one sentence; empty when all is there."""
    missing = []
    if "histogram" not in columns:
        missing.append("no statement histograms (MySQL 8.0 and later have them, MariaDB does not)")
    if "wait/io/file/innodb/innodb_log_file" not in available.instruments:
        missing.append("no instrument for redo log files")
    if "wait/io/file/innodb/innodb_dblwr_file" not in available.instruments:
        missing.append("no instrument for doublewrite files")
    if "background" not in columns:
        missing.append("waits are not recorded per thread")
    if "digests" not in columns:
        count = available.digests or 0
        too_many = f"statement digests are not read: {count} of them, more than {DIGESTS_MAX}"
        missing.append(
            too_many if count > DIGESTS_MAX else "statement digests are disabled (statements_digest is off)"
        )
    elif _CPU_CONSUMER not in available.consumers:
        missing.append("no CPU time of statements (MySQL 8.0.28 and later with the consumer events_statements_cpu)")
    return "; ".join(missing)
