"""docs/causes.md: its table of causes and a section for each, generated from the descriptors beside the rules."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator

from volbench.results.explain.cause_info import GROUPS, CauseInfo
from volbench.results.explain.causes import CAUSES, RULES
from volbench.results.explain.rule import EXPLAINS_WAITS, LIMITS, OUTSIDE, SLOW

WIDTH = 130
_TABLE = "| group | causes |\n"
_OF_RULES = (
    "Each rule looks at a step by itself, and one function decides from this table which findings stand"
    " (`runner/volbench/results/explain/deciding.py`). *much*: a finding that explains 15 % and more, or of which"
    " that is not known; *leading*: and it is not others' I/O with the smaller part of the device. What is"
    " *after* a finding of another rule explains at most 0.9 of what that explains. Rules that are named together:"
)
_OF_CAUSES = (
    "Descriptors of causes say what a finding claims, and so what the check looks at; how even the waits are"
    " that it makes, where they are not as random as counted ones, and which seconds it makes longer, where they"
    " are not waits for storage: p95 is rebuilt from both; whose time its share is of, where that is not"
    " statements'; which other cause it is the doing of, where it shows in a stretch of the step only, or which"
    " state of the host, where that is there in the rest of the step as well; what makes it, so that it must"
    " show in the time without that, too; what is its own doing, as far as it took speed, where that is met"
    " within its time; what takes of its level, which is then what that one leaves; what it is the better name"
    " for; what cannot be true with it; and whether it explains that a load does less than a quarter of its"
    " usual for a while. Where no finding explains that, and the volume was not busy then, causes that are there"
    " all along are one of two (`collapses.py`). *Suggested as*: what an objection that does not refute says"
    " makes the same figures; the two are then one of two (`suggestions.py`)."
)
_SECONDS = {"": "no seconds that are counted", "storage": ""}
_FALLS = "what explains a fall of the load"
_STATE = "{} in the rest of the step"
GROUPED = {"waits": EXPLAINS_WAITS, "outside": OUTSIDE, "limits": LIMITS, "slow": SLOW}
_SECTIONS = {"Meaning": "meaning", "What you see": "signs", "What to do": "advice"}


def causes_page(text: str) -> str:
    """Return the page with its table and sections rewritten; what stands before the table is kept.

    Raises ValueError for a page without the table.
    """
    introduction, table, _ = text.partition(_TABLE)
    if not table:
        raise ValueError("the page has no table of causes")
    return introduction + "\n".join([*_table(), *_decision(), *_sections()])


def _table() -> Iterator[str]:
    yield _TABLE.rstrip()
    yield "|---|---|"
    for group in GROUPS:
        names = [name for name, cause in CAUSES.items() if cause.group == group]
        yield f"| {group} | {', '.join(f'[`{name}`](#{_anchor(name)})' for name in names)} |"


def _decision() -> Iterator[str]:
    """Yield the tables of who decides: which rule gives way to which, and what is checked of each cause."""
    yield "\n## Who decides"
    yield _filled(_OF_RULES) + "\n"
    for name, rules in GROUPED.items():
        yield f"- **{name}**: {', '.join(sorted(rules))}"
    yield ""
    yield "| rule | finds | gives way to | needs | one of two with | after |"
    yield "|---|---|---|---|---|---|"
    for rule in RULES:
        conditions = (
            _names(rule.yields_to),
            _names(rule.yields_to_much, " (much)"),
            _names(rule.yields_to_leading, " (leading)"),
            _names(rule.yields_within, " (within its time)"),
            _names(rule.sound_beside, ", with a check that failed"),
        )
        cells = [
            ", ".join(f"`{name}`" for name in sorted(rule.causes)),
            "; ".join(section for section in conditions if section) or "–",
            *(_names(names) or "–" for names in (rule.needs, rule.one_of_two_with, rule.after)),
        ]
        yield f"| {rule.name} | {' | '.join(cells)} |"
    yield "\n" + _filled(_OF_CAUSES) + "\n"
    yield (
        "| cause | claims | waits | share of | yields to | effect of | brings | left by | in place of | excludes"
        " | explains a collapse | suggested as |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|"
    for name, cause in CAUSES.items():
        sets = (cause.effect_of, cause.brings, cause.left_by, cause.suppresses, cause.contradicts)
        state = "" if cause.state is None else _STATE.format(cause.state)
        events = (_names(cause.yields_to), _FALLS * cause.yields_to_falls, state)
        columns = [
            ", ".join(sorted(cause.claims)),
            _waits(cause),
            "" if cause.share_of == "statements" else cause.share_of,
            ", ".join(event for event in events if event),
            *(_names(names) for names in sets),
            "always" if cause.explains_fall or cause.is_change else cause.explains_collapse,
            cause.suggested_as,
        ]
        if any(columns):
            yield f"| `{name}` | {' | '.join(column or '–' for column in columns)} |"


def _waits(cause: CauseInfo) -> str:
    """How even its waits are, and which seconds vary with them; nothing of counted waits for storage."""
    parts = ("" if cause.waits == "counted" else cause.waits, _SECONDS.get(cause.wait_time, cause.wait_time))
    return "; ".join(part for part in parts if part)


def _names(names: Collection[str], suffix: str = "") -> str:
    """Names of rules, of rules that are named together, and of causes as code."""
    left, listed = set(names), []
    for name, rules in GROUPED.items():
        if rules <= left:
            listed.append(f"**{name}**")
            left -= rules
    listed += [f"`{name}`" if name in CAUSES else name for name in sorted(left)]
    return f"{', '.join(listed)}{suffix}" if listed else ""


def _sections() -> Iterator[str]:
    for cause in CAUSES.values():
        yield f"\n## {cause.name}\n*{cause.title}.*\n"
        yield "\n\n".join(_paragraphs(cause))
    yield ""


def _paragraphs(cause: CauseInfo) -> Iterator[str]:
    for heading, section in _SECTIONS.items():
        yield _filled(f"**{heading}.** {getattr(cause, section)}")


def _filled(paragraph: str) -> str:
    return textwrap.fill(paragraph, WIDTH, break_long_words=False, break_on_hyphens=False)


def _anchor(name: str) -> str:
    return name.replace(".", "")
