"""``holdfast list`` as most people and programs ask for it, without loading the whole command.

It shows the same bytes: the table and the screen are the same, and the index is read by the same
functions. What it does not know for sure, such as another option, settings, a store that changed,
or a screen that has no room, is for the whole command, and nothing has been written then.
"""

from __future__ import annotations

import os
import sys
from io import StringIO
from time import time_ns

from holdfast._config import store_without_settings
from holdfast.apps.cli._screen import COLOURS, standard_error, standard_output
from holdfast.apps.render.page import Column, Span
from holdfast.apps.render.words import ago, counted, price, short
from holdfast.catalog import Number
from holdfast.storage import is_path

TYPE_CHECKING = False  # loading `typing` would take longer than this module

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, TextIO

    from holdfast.apps.render.page import Piece
    from holdfast.catalog import Listed, Newest
    from holdfast.model import SessionMetadata

COLUMNS = (
    Column("ID", middle=True, least=20),
    Column("UPDATED", spared=True),
    Column("TITLE", flexible=True, least=20),
    Column("MSGS", right=True, spared=True),
    Column("COST", right=True, spared=True),
    Column("TOKENS", right=True, optional=True, spared=True),
    Column("TAGS", flexible=True, optional=True, spared=True),
    Column("TOPICS", flexible=True, optional=True, spared=True),
    Column("STATE"),
)
_STYLES = {"running": "good", "archived": "faint"}
_STYLES |= dict.fromkeys(("waiting", "interrupted", "sealed"), "warning")
_STYLES |= dict.fromkeys(("failed", "damaged", "too_new", "unreadable"), "bad")


def session_cells(row: SessionMetadata | Listed, now: int, id: str, mark: str = "") -> list[Piece]:
    """Return the cells of a session at a time, by its short id, with a mark before it."""
    state = row.status if row.state == "ok" else row.state
    if state == "idle" and row.archived:
        state = "archived"
    return [
        Span(mark + id, "name"),
        Span(ago(row.updated_at, now), "faint"),
        row.title or "",
        str(row.message_count),
        price(row.cost),
        ("~" if row.tokens_estimated else "") + short(row.total_tokens) if row.total_tokens else "",
        ", ".join(row.tags),
        Span(", ".join(row.auto_tags), "faint"),
        Span("" if state == "idle" else state.replace("_", " "), _STYLES.get(state, "")),
    ]


def older(count: int) -> Span:
    """Return the note that this many more exist than a list shows."""
    return Span(f"and {counted(count, 'older session')}; use --all to show all", "faint")


LIMIT = 50  # the number of sessions in a list by default

_LIMIT_MAX = 1000
_NS_PER_MS = 1_000_000


class _Words:
    """The options of a command line that asks for a plain list."""

    store: str | None = None
    colour: str | None = None
    limit = LIMIT
    as_json = False
    may_page = True


def quick_list(arguments: list[str]) -> int | None:
    """Show the list that a command line asks for; the exit code, or None if this is not the way."""
    words = _understood(arguments)
    # An encoding that lacks characters needs escapes, which the whole command makes.
    if words is None or not (_is_plain(sys.stdout) and _is_plain(sys.stderr)):
        return None
    try:
        made = _made(words)
        if made is None:
            return None
        found, text = made
        sys.stdout.write(text)
        sys.stdout.flush()
        if found.has_more and standard_output(words.colour).is_terminal and not words.as_json:
            err = standard_error(words.colour)
            err.line(older(found.total - len(found.rows)))
            err.flush()
    except BaseException as error:  # noqa: BLE001 - explained, never shown as a stack trace
        from holdfast.apps.cli._app import App, asked, fail

        return fail(App(None, asked(arguments)), error)
    return 0


def _made(words: _Words) -> tuple[Newest, str] | None:
    """Return the sessions and what to show of them; None where the whole command has to look."""
    try:
        # Reading settings takes longer than the list; where there are any, this gives None.
        place = store_without_settings()
        if place is None or not is_path(place := words.store or place):
            return None
        from holdfast.catalog import newest

        found = newest(os.path.expanduser(place), words.limit)
        if found is None or not found.rows:
            return None
        text = _text(words, found)
    # The index may be locked, damaged or of another version: all of that is for the other way.
    except Exception:  # noqa: BLE001 - even a defect of this: the whole command does without it
        return None
    return None if text is None else (found, text)


def _understood(arguments: list[str]) -> _Words | None:
    """Return the command line, if nothing in it is strange."""
    words, is_list = _Words(), False
    for name, value in _options(arguments):
        if name in ("list", "ls") and not is_list:
            is_list = True
        elif name == "--store" and value:
            words.store = value
        elif name == "--color" and value in COLOURS:
            words.colour = value
        elif name in ("--limit", "-n") and is_list and _is_limit(value):
            words.limit = int(value or 0)
        elif name == "--json" and is_list:
            words.as_json = True
        elif name == "--no-pager":
            words.may_page = False
        else:
            return None
    return words if is_list else None


def _options(arguments: list[str]) -> Iterator[tuple[str, str | None]]:
    """Yield each option with its value, and each other word with None."""
    rest = iter(arguments)
    for word in rest:
        name, equals, value = word.partition("=")
        if name not in ("--store", "--color", "--limit", "-n"):
            yield word, None
        elif equals:
            yield name, value
        else:
            following = next(rest, "")
            yield name, None if following.startswith("-") else following


def _is_limit(value: str | None) -> bool:
    if value is None or not (value.isascii() and value.isdecimal()):
        return False
    return 0 < int(value) <= _LIMIT_MAX


def _is_plain(stream: TextIO | None) -> bool:
    """Return whether the stream accepts every character."""
    return stream is not None and stream.encoding.lower() == "utf-8"


def _text(words: _Words, found: Newest) -> str | None:
    """Return the text for standard output; None if a pager has to show it."""
    held = StringIO()
    out = standard_output(words.colour)
    out.pass_through(held)
    if words.as_json:
        out.json_document(document_of(found))
    else:
        now = time_ns() // _NS_PER_MS
        out.table(COLUMNS, [session_cells(row, now, found.short[row.session_id]) for row in found.rows])
    text = held.getvalue()
    # Held until now, so that nothing has been written if the whole command has to do it.
    return text if not (out.is_terminal and words.may_page) or _has_room(text) else None


def _has_room(text: str) -> bool:
    """Return whether the text fits on the screen, so that no pager is needed."""
    # The same rule as in the pager, so that both paths page the same lists.
    columns, lines = os.get_terminal_size(sys.stdout.fileno())
    if not columns:
        return False
    return sum(max(1, -(-_length(line) // columns)) for line in text.split("\n")[:-1]) < lines


def _length(line: str) -> int:
    """Return the number of visible characters of a line."""
    first, *others = line.split("\x1b[")
    return len(first) + sum(len(other.partition("m")[2]) for other in others)


def document_of(found: Newest) -> str:
    """Return the list as JSON, as the whole command writes it, without what that loads."""
    return _json_text({"sessions": [vars(row) for row in found.rows], "next": found.next}, "\n")


def _json_text(value: Any, line: str) -> str:
    """Return a value; ``line`` is what a line begins with where it stands."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Number):
        return value.text
    below = line + "  "
    if isinstance(value, dict):
        parts = [f"{quoted(name)}: {_json_text(member, below)}" for name, member in value.items()]
        return f"{{{below}{f',{below}'.join(parts)}{line}}}"
    parts = [_json_text(member, below) for member in value]
    return f"[{below}{f',{below}'.join(parts)}{line}]" if parts else "[]"


def quoted(text: str) -> str:
    """Return a text in quotes, with escapes for what JSON does not take as it is."""
    try:
        from _json import encode_basestring
    except ImportError:
        from json.encoder import encode_basestring
    return encode_basestring(text)
