"""Which texts of statement digests are volbench's own: they are no part of the load that is measured.

A connection of ours sends some statements when it opens, asks for the server's counters, and says how it is. On a
server of ours nobody else sends these texts.
"""

from __future__ import annotations

import re

_OWN = re.compile(
    r"""
    SET\ NAMES\ |
    SET\ `?@?@?(session|local)?`?\s*\.?\s*`?autocommit`?\s*=\ |
    SET\ (SESSION|@@session\ ?\.)\ ?`?(group_concat_max_len|time_zone|sql_mode|
        explain_json_format_version|information_schema_stats_expiry)`?\s*=\ |
    SET\ SESSION\ TRANSACTION\ |
    START\ TRANSACTION\ WITH\ CONSISTENT\ SNAPSHOT$ |
    SHOW\ (GLOBAL\ |BINARY\ LOG\ |MASTER\ |REPLICA\ |SLAVE\ )?(STATUS|VARIABLES)\b |
    UPDATE\ .*\bperformance_schema\b |
    SELECT\ (\?|[0-9]+)\ *$ |
    SELECT\ @@ |
    (SELECT|TRUNCATE)\b.*\bperformance_schema\b |
    SELECT\ (TABLE_NAME|\?|COUNT)\ FROM\ information_schema\b |
    KILL\ |
    USE\ .*|
    (.*\b(AS\ volbench|volbench_others|volbench_programs|volbench_owned|volbench_heartbeat)\b)
    """,
    re.IGNORECASE | re.VERBOSE,
)


def is_own_digest(text: str) -> bool:
    """Return whether a digest's text is that of a statement by which volbench asks or opens a connection.

    Args:
        text: DIGEST_TEXT, perhaps only its beginning, with any spacing and quoting of names.
    """
    plain = " ".join(text.replace("`", "").split())
    return _OWN.match(plain) is not None
