"""What a page apart from the report says, by section: Markdown and HTML are made of the same descriptions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from volbench.results.report.views.causes import CauseView
    from volbench.results.report.views.charts import ChartGroup
    from volbench.results.report.views.sessions import Layer
    from volbench.results.report.views.time_budget import Segment

Role = Literal["plain", "dim", "warning"]


class Block:
    """What stands in a section: one of the classes below."""

    @property
    def kind(self) -> str:
        """Return the name of its class, by which a template shows it."""
        return type(self).__name__


@dataclass(frozen=True)
class Text(Block):
    """A paragraph; what stands between backticks is code. `dim`: it explains what is next to it."""

    text: str
    role: Role = "plain"


@dataclass(frozen=True)
class Heading(Block):
    """A heading within a section."""

    text: str


@dataclass(frozen=True)
class Items(Block):
    """A list. `anchors`: of the section that the words before each text's first comma lead to; empty: of none."""

    texts: tuple[str, ...]
    anchors: tuple[str, ...] = ()


@dataclass(frozen=True)
class Lines(Block):
    """Text whose lines and columns stay as they are."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Table(Block):
    """A table of plain text.

    Args:
        heads: of the columns.
        rows: their cells.
        has_figures: whether all columns but the first are figures.
        has_code: whether the first column is code.
        pieces: of each row the piece of time whose colour stands before its first cell; empty: none.
    """

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    has_figures: bool = True
    has_code: bool = False
    pieces: tuple[str, ...] = ()


@dataclass(frozen=True)
class NamedCause(Block):
    """A cause with its evidence; `remark` stands behind its certainty."""

    view: CauseView
    remark: str = ""

    @property
    def certainty(self) -> str:
        """Return the certainty with the remark."""
        return "; ".join(filter(None, (self.view.certainty, self.remark)))


@dataclass(frozen=True)
class Bars(Block):
    """Name, length as text, and pieces of each bar. Pages alone show it, as all that follow."""

    bars: tuple[tuple[str, str, tuple[Segment, ...]], ...]


@dataclass(frozen=True, kw_only=True)
class Sessions(Block):
    """Sessions in each piece of time, stacked.

    Args:
        layers: from the bottom up.
        top: sessions at the upper edge, as text.
        ends: begin and end as text.
        bands: left edge and width in percent, and name, of each stretch that is shaded.
        note: what the figure shows.
    """

    layers: tuple[Layer, ...]
    top: str
    ends: tuple[str, str]
    bands: tuple[tuple[float, float, str], ...]
    note: str


@dataclass(frozen=True)
class Charts(Block):
    """Charts over time, and a line that says of which time."""

    group: ChartGroup
    caption: str = ""


@dataclass(frozen=True)
class Section:
    """Blocks below a title; without a title they stand above all others. `anchor`: what links lead to."""

    title: str
    blocks: tuple[Block, ...]
    anchor: str = ""


@dataclass(frozen=True, kw_only=True)
class Document:
    """A page apart from the report.

    Args:
        kind: of page, a few words.
        title: of this page.
        about: sentences below the title.
        sections: in their order.
    """

    kind: str
    title: str
    about: tuple[str, ...] = ()
    sections: tuple[Section, ...]

    @property
    def kinds(self) -> frozenset[str]:
        """Return the kinds of all blocks."""
        return frozenset(block.kind for section in self.sections for block in section.blocks)
