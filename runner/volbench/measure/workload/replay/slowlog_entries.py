"""Divides the text of a slow query log into its entries: heads, the text after each, and the server's banners.

`divide_segments` may also take runs of plain entries out of the text with one expression for each entry: a head,
comments, `use`, `SET timestamp` and a statement in which nothing is open at its end, where the next head begins.

Servers escape nothing, so a literal or a comment may hold lines that look like an entry. A head within a literal or
a comment that is still open is text of the statement; `_with_text_inside` tells it from one that follows a literal
that never ends. What a server writes is in `slowlog`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from volbench.core.base.parse import parse_moment
from volbench.core.sql.tokens import is_closed

STATEMENT_CHARACTERS_MAX = 128 << 20
"""A longer statement is counted, not kept; servers allow a GiB, and have 16 or 64 MiB by default."""
_HEAD_CHARACTERS_MAX = 8192
_LOOKAHEAD_SEGMENTS = 1024
_CLOCK_SLACK_S = 2.0
BLANK = " \t\r\n\x00"
"""A crash may leave zeros after the last entry."""

_HEAD_TEXT = (
    r"# (?:(?:Time: (?P<time>[^\n]*)\n# )?User@Host: (?P<user>[^\n]*)\n# )?"
    r"(?:(?P<named>(?:Thread_id|Schema): [^\n]*)\n# )?"
    r"Query_time: (?P<query>\d{1,9}(?:\.\d{1,9})?)  ?Lock_time: (?P<lock>\d{1,9}(?:\.\d{1,9})?)  ?"
    r"Rows_sent: (?P<sent>\d{1,20})  ?Rows_examined: (?P<examined>\d{1,20})(?P<more>[^\n]*)\n"
)
_HEAD = re.compile(_HEAD_TEXT)
_PLAIN = re.compile(
    rf"{_HEAD_TEXT}(?P<preamble>(?<=[^\r]\n)"
    r"(?:#(?! (?:Time|User@Host|Thread_id|Schema|Query_time|administrator command): )[^\n#]*+\n)*"
    r"(?:use (?P<use>[^\n#'\"`/;\\]*+);\n)?"
    r"SET timestamp=[0-9]{1,11}+(?:\.[0-9]{1,6}+)?;\n(?!;))?"
)
"""A head, and what comes before the statement if that is as servers write it."""
_HIDING = ("'", '"', "`", "/*", "#", "--")
"""Without one of these in it a text has nothing open at its end."""
_BANNER_END = re.compile(r" started with:\r?\nT(?:cp|CP) [Pp]ort: [^\n]*\nTime[ \t]+Id Command[ \t]+Argument\r?\n")
"""What follows the version; of the line before it only the end is looked for, since it may be a long statement."""
_BANNER_MARK = "started with:"
PREAMBLE = re.compile(
    r"(?P<comments>(?:#(?! administrator command: )[^\n]*\n)*)"
    r"(?:use (?P<use>[^\n]*);\r?\n)?"
    r"(?:SET (?=[lit])(?:last_insert_id=-?\d+,?)?(?:insert_id=-?\d+,?)?"
    r"(?:timestamp=(?P<stamp>\d{1,12}(?:\.\d{1,6})?))?;\r?\n)?"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class LogSegment:
    """A head, None for text that has none before it, and the text up to the next head or banner.

    `is_partial` tells that the text was far too long, and that not all of it was kept; `is_cut` that the log ends
    within it.
    """

    head: re.Match[str] | None
    body: str
    is_partial: bool = False
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class PlainRun:
    """Plain entries one after the other, each a match of `_PLAIN` and its statement; a head follows the last."""

    entries: list[tuple[re.Match[str], str]]

    def segments(self) -> Iterator[LogSegment]:
        """Yield the same entries as segments."""
        for match, sql in self.entries:
            yield LogSegment(head=_head_of(match), body=f"{match['preamble']}{sql};\n")


class EntryContinues(Exception):
    """What is before or after a part of a log decides what the part holds."""


@dataclass(frozen=True)
class Banner:
    """Here the server opened the log."""


def divide_segments(text: Iterable[str], *, plain_runs: bool = False) -> Iterator[LogSegment | Banner | PlainRun]:
    """Yield the log, divided at all that looks like a head or a banner; plain entries in runs if asked for."""
    head: re.Match[str] | None = None
    buffer, searched, is_partial = "", 0, False
    for chunk in text:
        buffer += chunk
        start, run = 0, list[tuple[re.Match[str], str]]()
        expression = _PLAIN if plain_runs and _BANNER_MARK not in buffer else _HEAD
        for matched in _heads(expression, buffer, searched):
            begin = matched.start()
            if begin and matched["user"] is None and buffer[begin - 1] != "\n":
                continue
            if head is not None and head.string is buffer and (sql := _plain_statement(head, begin)) is not None:
                run.append((head, sql))
            else:
                if run:
                    yield PlainRun(run)
                    run = []
                yield from _divided(head and _head_of(head), buffer[start:begin], is_partial=is_partial)
            head, start, is_partial = matched, _head_end(matched), False
        if run:
            yield PlainRun(run)
        head = head and _head_of(head)
        buffer = buffer[start:]
        searched = max(0, len(buffer) - _HEAD_CHARACTERS_MAX)
        if searched > STATEMENT_CHARACTERS_MAX:
            buffer, searched, is_partial = buffer[searched:], 0, True
    yield from _divided(head, buffer, is_partial=is_partial)


def _heads(expression: re.Pattern[str], text: str, at: int) -> Iterator[re.Match[str]]:
    """Yield what `finditer` gives, with the first characters of a head looked for several times as fast."""
    while (at := text.find("# ", at)) >= 0:
        matched = expression.match(text, at)
        if matched is None:
            at += 1
        else:
            yield matched
            at = matched.end()


def _plain_statement(match: re.Match[str], end: int) -> str | None:
    """Return the statement of an entry up to the next head.

    None where it may go on after it, or does not end as one.
    """
    text = match.string
    if match.re is not _PLAIN or match["preamble"] is None or not text.endswith(";\n", match.end(), end):
        return None
    sql = text[match.end() : end - 2]
    is_open = any(sign in sql for sign in _HIDING) and not is_closed(sql)
    return None if is_open else sql or None


def _head_end(match: re.Match[str]) -> int:
    return match.end("more") + 1


def _head_of(match: re.Match[str]) -> re.Match[str]:
    """Return the match of the head alone."""
    if match.re is _HEAD:
        return match
    head = _HEAD.match(match.string, match.start())
    assert head is not None
    return head


def _divided(head: re.Match[str] | None, body: str, *, is_partial: bool) -> Iterator[LogSegment | Banner]:
    """Yield the text after a head, at the server's banners; what follows a banner belongs to no entry."""
    start = 0
    if _BANNER_MARK in body:
        for banner in _BANNER_END.finditer(body):
            line = max(start, body.rfind("\n", start, banner.start()) + 1)
            if body.find(", Version: ", line, banner.start()) < 0:
                continue
            if head is not None or body[start:line].strip(BLANK):
                yield LogSegment(head=head, body=body[start:line], is_partial=is_partial)
            yield Banner()
            head, start, is_partial = None, banner.end(), False
    if head is not None or body[start:].strip(BLANK):
        yield LogSegment(head=head, body=body[start:], is_partial=is_partial)


def join_entries(
    segments: Iterator[LogSegment | Banner | PlainRun],
    following: Iterator[LogSegment | Banner | PlainRun] | None = None,
) -> Iterator[LogSegment | Banner | PlainRun]:
    """Yield each segment, joined with those after it whose heads are text of its statement.

    Args:
        segments: of the log, or of a part of it.
        following: the segments after the part, which may decide where its last entries end.

    Raises EntryContinues when an entry goes on in what follows the part.
    """
    waiting: deque[LogSegment | Banner] = deque()
    later: deque[LogSegment | Banner] = deque()

    def fill(
        queue: deque[LogSegment | Banner], source: Iterator[LogSegment | Banner | PlainRun] | None, size: int
    ) -> bool:
        while len(queue) < size:
            entry = next(source, None) if source is not None else None
            if entry is None:
                return False
            queue.extend(entry.segments() if isinstance(entry, PlainRun) else (entry,))
        return True

    def ahead(number: int) -> LogSegment | Banner | None:
        if fill(waiting, segments, number + 1):
            return waiting[number]
        number -= len(waiting)
        return later[number] if fill(later, following, number + 1) else None

    while (entry := waiting.popleft() if waiting else next(segments, None)) is not None:
        if isinstance(entry, LogSegment) and _is_open(entry):
            entry, count = _with_text_inside(entry, ahead)
            if count > len(waiting):
                raise EntryContinues
            for _ in range(count):
                waiting.popleft()
        yield entry


def _with_text_inside(
    segment: LogSegment, ahead: Callable[[int], LogSegment | Banner | None]
) -> tuple[LogSegment, int]:
    """Return the segment with those after it that are text of its open literal or comment, and how many they are.

    A literal is open because its end comes later, or because it never ends: the entry was cut off, has an error of
    syntax (which MySQL never writes), or is of a session with NO_BACKSLASH_ESCAPES. A later statement's quotes then
    seem to end it. So where that may be, a head that was written when the next one should be is real.
    """
    body, first = segment.body, ahead(0)
    may_have_ended = is_closed(body, escapes=False)
    may_be_whole = may_have_ended or not is_complete(body) or iso_time_s(segment) is None
    if may_be_whole and (
        may_have_ended if first is None else isinstance(first, LogSegment) and _is_next(segment, first)
    ):
        return segment, 0
    for number in range(_LOOKAHEAD_SEGMENTS):
        following = ahead(number)
        if following is None:
            return replace(segment, body=body, is_cut=True), number
        if isinstance(following, Banner):
            break
        body += (following.head[0] if following.head else "") + following.body
        if is_complete(body) and is_closed(body):
            return replace(segment, body=body), number + 1
    return segment, 0


def _is_next(segment: LogSegment, following: LogSegment) -> bool:
    """Return whether the times of two segments let them be entries one after the other."""
    written_s, next_s = _written_s(segment), _written_s(following)
    return written_s is None or (next_s is not None and next_s > written_s - _CLOCK_SLACK_S)


def _written_s(segment: LogSegment) -> float | None:
    """Return when the entry was written, about, in one clock for all entries of a log."""
    if (iso_s := iso_time_s(segment)) is not None:
        return iso_s
    preamble = PREAMBLE.match(segment.body)
    if segment.head is None or preamble is None or preamble["stamp"] is None:
        return None
    return float(preamble["stamp"]) + float(segment.head["query"])


def iso_time_s(segment: LogSegment) -> float | None:
    """Return the time of a head as MySQL from 5.7 on writes it, None where it is no such time."""
    text = segment.head["time"] if segment.head is not None else None
    if text is None or "T" not in text:
        return None
    try:
        return parse_moment(text.strip()).timestamp()
    except ValueError:
        return None


def _is_open(segment: LogSegment) -> bool:
    """Return whether the statement's text may go on after the next head.

    Of one that is far too long nobody knows.
    """
    return segment.head is not None and not segment.is_partial and not is_closed(segment.body)


def is_complete(body: str) -> bool:
    """Return whether the text ends as a statement does, with a line feed after its semicolon."""
    text = body.rstrip(BLANK)
    return text.endswith(";") and "\n" in body[len(text) :]
