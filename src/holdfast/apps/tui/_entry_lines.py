"""Transcript entries as lines: Markdown with highlighted code, calls and results folded. Pure."""

from __future__ import annotations

from typing import NamedTuple

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text
from textual.strip import Strip

from holdfast.apps.render.markdown import markdown, paragraphs
from holdfast.apps.render.transcript import body, is_long_winded
from holdfast.apps.render.words import clock, counted, day_time
from holdfast.apps.tui._safe import cut, lay_out, styled
from holdfast.replay import Entry

_MARKDOWN_CHARS_MAX = 60_000
_TEXT_CHARS_MAX = 200_000
_INDENT = 2
_YOU = "you"
_SIGNS = {"call": "→", "result": "←", "failure": "✗", "note": "·", "thinking": "…"}


class EntryLook(NamedTuple):
    """The parameters that the drawing of an entry depends on besides the entry."""

    width: int
    dark: bool = True
    today: str = ""  # the day; what is of another one says so


class EntryBlock(NamedTuple):
    """An entry as it is shown: its first line is the heading, with ``who`` in it."""

    entry: Entry
    who: str
    look: EntryLook
    lines: list[Strip]


# On a dark and on a light ground. Told apart with any sight of colours; a word or a sign always says the same.
_STYLES = {
    "user": ("bold #56b4e9", "bold #0072b2"),
    "assistant": ("bold #e69f00", "bold #7d4a00"),
    "system": ("bold #cc79a7", "bold #a03070"),
    "thinking": ("italic #999999", "italic #666666"),
    "call": ("#009e73", "#00664a"),
    "result": ("#009e73", "#00664a"),
    "failure": ("bold #d55e00", "bold #b34700"),
    "note": ("italic #999999", "italic #666666"),
}


def is_foldable(entry: Entry) -> bool:
    """Return whether an entry is shown as one line until it is unfolded."""
    return is_long_winded(entry) and bool(body(entry).strip())


def block_of(entry: Entry, who: str, look: EntryLook, *, is_open: bool, found: bool = False) -> EntryBlock:
    """Return the lines of an entry; ``found`` marks the one that was looked for."""
    style = _STYLES.get(entry.kind, ("", ""))[0 if look.dark else 1]
    shown = is_open or not is_foldable(entry)
    lines = [*lay_out(_heading(entry, who, style, look, shown=shown, found=found), look.width)]
    if shown and body(entry).strip():
        lines += lay_out(Padding(_body(entry, look), (0, 0, 0, _INDENT)), look.width)
    lines.append(Strip.blank(0))
    return EntryBlock(entry, who, look, lines)


def first_line(text: Text, width: int) -> list[Strip]:
    """Return a line that is cut where it ends, as one line of that width."""
    text.truncate(width, overflow="ellipsis")
    return lay_out(text, width)[:1] or [Strip.blank(0)]


def _heading(entry: Entry, who: str, style: str, look: EntryLook, *, shown: bool, found: bool) -> Text:
    mark = "▶ " if found else ""
    fold = ("▾ " if shown else "▸ ") if is_foldable(entry) else ""
    label = f"{_SIGNS.get(entry.kind, '')} {_YOU if entry.kind == 'user' else who}".strip()
    line = styled((f"{mark}{fold}{label}", f"{style} reverse" if found else style))
    when = day_time(entry.timestamp)
    when = when if look.today and not when.startswith(look.today) else clock(entry.timestamp)
    end = f"  {when}  #{entry.seq}"
    if not shown:
        room = look.width - line.cell_len - len(end) - 2
        line.append("  " + _first_words(body(entry), room), "dim")
    line.append(end, "dim")
    line.truncate(look.width, overflow="ellipsis")
    return line


def _first_words(text: str, room: int) -> str:
    """Return the beginning of what is folded, and how much there is of it."""
    first, *rest = text.strip().split("\n", 1)
    more = f" (+{counted(rest[0].count(chr(10)) + 1, 'line')})" if rest else ""
    return cut(first[:400], max(room - len(more), 8)) + more


def _body(entry: Entry, look: EntryLook) -> RenderableType:
    text = paragraphs(body(entry).strip("\n"))
    hidden = len(text) - _TEXT_CHARS_MAX
    if hidden > 0:
        text = f"{text[:_TEXT_CHARS_MAX]}\n… {hidden:,} more characters; an export has them all"
    if entry.kind in ("assistant", "system") and len(text) <= _MARKDOWN_CHARS_MAX:
        return markdown(text, dark=look.dark)
    style = "italic dim" if entry.kind in ("thinking", "note") else ""
    return Text(text, style, overflow="fold")
