"""aider: one Markdown history for each project, with all chats one below the other."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections import Counter, deque
from collections.abc import Iterator
from typing import NamedTuple

from holdfast.errors import HoldfastError
from holdfast.formats._foreign import Foreign, read_time
from holdfast.formats._source import Source
from holdfast.formats.readers import _values as v
from holdfast.formats.readers._book import Book, SourceEntry
from holdfast.formats.readers._files import ToolReader, one_by_one

_TOOL = "aider"
_NAME = ".aider.chat.history.md"
_START = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*")
_TOKENS = re.compile(r"> Tokens: ([\d.,]+[kM]?) sent,(?:.*?) ([\d.,]+[kM]?) received\.?")
_COST = re.compile(r"Cost: \$(\d{1,12}(?:\.\d{1,12})?) message")
_MODEL = re.compile(r"> (?:Main model|Model|Models): (\S+)(?: with| \()?")
_VERSION = re.compile(r"> Aider v(\S+)")
_PRIVATE = re.compile(r"/(?!ask\b|code\b|architect\b|help\b|context\b|chat-mode\b)[a-z][a-z-]*(?:\s|$)")
_INPUT_TIME = re.compile(r"# (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?)\s*")
_INPUTS_BYTES_MAX = 16 * 1024 * 1024
_SIZES = {"k": 1_000, "M": 1_000_000}


class _Piece(NamedTuple):
    """Lines of one kind: ``user``, ``assistant`` or ``notice``."""

    kind: str
    lines: list[str]


def _is_mine(source: Source, name: str) -> bool:
    lines = _text(source.head(name)).split("\n")
    is_named = name.endswith(_NAME) and any(line.startswith("#### ") for line in lines)
    return is_named or any(map(_START.fullmatch, lines))


def _read_history(source: Source, name: str, problems: list[str]) -> Iterator[Foreign]:
    """Yield a session for each chat in the history."""
    data = source.read(name)
    lines = _text(data).split("\n")
    if "\ufffd" in "".join(lines) and b"\xef\xbf\xbd" not in data:
        problems.append(f"{name}: bytes that are no text were replaced")
    inputs = _Inputs(source, posixpath.join(posixpath.dirname(name), ".aider.input.history"))
    starts = [number for number, line in enumerate(lines) if _START.fullmatch(line)]
    if any(line.strip() for line in lines[: starts[0] if starts else None]):
        starts.insert(0, 0)  # the heading of the first chat was cut off
    told: Counter[str] = Counter()
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield _read_chat(lines[start:end], inputs, told, list(problems))


def _read_chat(lines: list[str], inputs: _Inputs, told: Counter[str], problems: list[str]) -> Foreign:
    heading = _START.fullmatch(lines[0])
    started = heading[1] if heading else "undated"
    stamp = read_time(started)
    book = Book(_TOOL, problems)
    model = _found(_MODEL, lines)
    if heading:
        book.note(lines[0], "start", stamp, "start")
    pieces = _pieces(lines[1:] if heading else lines)
    for number, piece in enumerate(pieces):
        raw = "\n".join(piece.lines)
        at = inputs.time_of(_said(piece), stamp) if piece.kind == "user" else None
        with book.entry(raw, at, f"piece/{number}") as entry:
            _tell(piece, pieces[number + 1 : number + 2], model, entry)
    return book.foreign(_identity(started, lines, told), created_at=stamp, version=_found(_VERSION, lines))


def _identity(started: str, lines: list[str], told: Counter[str]) -> str:
    """Return a name for a chat that has none: its time, and the command that it was started with."""
    first = lines[0] if started == "undated" else ""
    command = v.first_text(*(line for line in lines[1:8] if line.startswith("> "))) or first
    digest = hashlib.sha256(command.encode()).hexdigest()[:8]
    own = f"{started.replace(' ', 'T')}-{digest}"
    told[own] += 1
    return own if told[own] == 1 else f"{own}-{told[own]}"


def _pieces(lines: list[str]) -> list[_Piece]:
    """Yield runs of lines of one kind; a blank line ends a person's input and is part of an answer."""
    found: list[_Piece] = []
    open_kind = ""
    marked = any(_is_marked(line) for line in lines if line.startswith("#### "))
    for line in lines:
        kind = "user" if line.startswith("#### ") else "notice" if line.startswith("> ") else "assistant"
        # Answers contain headings and quotations of their own; only aider's own lines end in two blanks.
        if marked and open_kind == "assistant" and not _is_marked(line):
            kind = "assistant"  # a heading or a quotation in an answer
        if not line.strip() and open_kind != "assistant":
            open_kind = "" if open_kind == "user" else open_kind
            continue
        if kind != open_kind:
            found.append(_Piece(kind, []))
        found[-1].lines.append(line)
        open_kind = kind
    return found


def _is_marked(line: str) -> bool:
    """Return whether a line ends as aider ends a person's input and its own notices."""
    return line.endswith("  ")


def _said(piece: _Piece) -> str:
    return "\n".join(line.removeprefix("#### ").rstrip() for line in piece.lines).strip()


def _tell(piece: _Piece, after: list[_Piece], model: str | None, entry: SourceEntry) -> None:
    entry.kind = piece.kind
    if piece.kind == "user":
        said = _said(piece)
        # A command such as /ask is repeated without its name, as the model gets it.
        again = [_said(other) for other in after if other.kind == "user"]
        if _PRIVATE.match(said) or (said.startswith("/") and said.partition(" ")[2] in again):
            entry.kind = "command"
        elif said != "<blank>":
            entry.user(said)
    elif piece.kind == "assistant":
        entry.assistant("\n".join(piece.lines).strip(), model)
    else:
        for tokens in filter(None, map(_TOKENS.match, piece.lines)):
            figures = {"input_tokens": _number(tokens[1]), "output_tokens": _number(tokens[2])}
            cost = _COST.search(tokens.string)
            entry.usage(figures | ({"cost": float(cost[1])} if cost else {}), model)


def _number(words: str) -> int:
    try:
        return round(float(words.rstrip("kM").replace(",", "")) * _SIZES.get(words[-1], 1))
    except (ValueError, OverflowError):
        return 0


def _found(pattern: re.Pattern[str], lines: list[str]) -> str | None:
    return next((found[1] for line in lines if (found := pattern.match(line))), None)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\r\n", "\n")


class _Inputs:
    """The times of inputs, from the file in which aider keeps them."""

    def __init__(self, source: Source, name: str) -> None:
        self._times: dict[str, deque[int]] = {}
        try:
            if not source.has(name):
                return
            lines = _text(source.read(name, _INPUTS_BYTES_MAX)).split("\n")
        except HoldfastError:
            return
        stamp: int | None = None
        said: list[str] = []
        for line in [*lines, "# end"]:
            if line.startswith("+"):
                said.append(line[1:].rstrip())
                continue
            if said and stamp is not None:
                self._times.setdefault("\n".join(said).strip(), deque()).append(stamp)
                said = []
            found = _INPUT_TIME.fullmatch(line)
            stamp = read_time(found[1]) if found else stamp

    def time_of(self, said: str, after: int | None) -> int | None:
        """Return when an input was typed, in a chat that began at ``after``; each time is used once."""
        times = self._times.get(said)
        while times:
            stamp = times.popleft()
            if after is None or stamp >= after:
                return stamp
        return None


READER = ToolReader(_TOOL, (".md", _is_mine, one_by_one(_read_history)))
