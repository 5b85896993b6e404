"""Stores with many sessions, made quickly: a few are recorded, the others are written like them.

Every session has an id, a time, a title and a log number of its own. Its lines are those that a
session of the same content would have, with their checksums: nothing tells it from a recorded one.
"""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Iterator
from typing import Any

import msgspec

import holdfast
from bench.child import SCRATCH
from bench.workload import TIMESTAMP, record, step
from holdfast.model import Event, encode_line, line_body

__all__ = ["RARE", "TAG", "Crowd", "common_words", "paths", "phrases", "rare_words", "shared_crowd"]

RARE = "quetzalcoatlus00"
"""A word in ten sessions of a store; for more of them see :func:`rare_words`."""
TAG = "billing"
"""A tag of every hundredth session."""

_NUMBER = "session-0000000"
_MINUTE_MS = 60_000
_RARE_SESSIONS = 10
_RARE_WORDS = 50
_TAGGED_EVERY = 100
_TEMPLATES = 40
_PARTS = 100
_LARGE = 50_000


class Crowd:
    """The number of events in each session of a store, and the most characters in each event."""

    def __init__(self, events: int, chars_max: int = 1 << 20) -> None:
        self._events = events
        self._chars_max = chars_max
        self._templates: dict[tuple[int, bool, bool], list[Event]] = {}

    def fill(self, store: str, count: int) -> int:
        """Create a store with ``count`` sessions, and return the bytes of their logs."""
        folder = os.path.join(store, "sessions")
        os.makedirs(store, mode=0o700)
        os.mkdir(folder, mode=0o700)
        size = 0
        for number in range(count):
            data = self.log(number, count)
            size += len(data)
            place = os.path.join(folder, f"session-{number:07d}")
            os.mkdir(place, mode=0o700)
            path = os.path.join(place, "events.jsonl")
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            os.write(descriptor, data)
            os.close(descriptor)
        return size

    def log(self, number: int, count: int) -> bytes:
        """Return the log of session ``number`` of ``count``; they are a minute apart."""
        rare = _rare_word(number, count)
        is_tagged = number % _TAGGED_EVERY == 0
        events = self._template(number % _TEMPLATES, is_rare=rare is not None, is_tagged=is_tagged)
        began = TIMESTAMP + number * _MINUTE_MS
        crc, lines = 0, []
        for event in events:
            body = line_body(msgspec.structs.replace(event, timestamp=began + event.seq))
            body = body.replace(_NUMBER.encode(), b"session-%07d" % number)
            if rare is not None:
                body = body.replace(RARE.encode(), rare.encode())
            line, crc = encode_line(event.seq, body, crc)
            lines.append(line)
        return b"".join(lines)

    def texts(self, count: int) -> Iterator[tuple[int, str, str]]:
        """Yield session, type and text of every event with text, as in the logs."""
        for number in range(count):
            rare = _rare_word(number, count)
            for type, text in self._said(number % _TEMPLATES, is_rare=rare is not None):
                said = text if rare is None else text.replace(RARE, rare)
                yield number, type, said.replace(_NUMBER, f"session-{number:07d}")

    def _said(self, template: int, *, is_rare: bool) -> Iterator[tuple[str, str]]:
        first = template * (self._events + 3 & ~3)  # the first event is a user's, and gives the title
        for index in range(first, first + self._events):
            event = step(index)
            text = event.text[: self._chars_max]
            if index == first:
                text = f"{_NUMBER} {RARE} {text}" if is_rare else f"{_NUMBER} {text}"
            if event.type == "tool_call":
                text = f"{_path(index)} {text}"
            yield event.type, text

    def _template(self, number: int, *, is_rare: bool, is_tagged: bool) -> list[Event]:
        key = (number, is_rare, is_tagged)
        if key not in self._templates:
            self._templates[key] = self._record(number, is_rare=is_rare, is_tagged=is_tagged)
        return self._templates[key]

    def _record(self, number: int, *, is_rare: bool, is_tagged: bool) -> list[Event]:
        call: Any = None
        with holdfast.open("memory:") as hf:
            with hf.session("template") as session:
                if is_tagged:
                    session.tag(TAG)
                for type, text in self._said(number, is_rare=is_rare):
                    call = record(session, step(0)._replace(type=type, text=text), call)
            return list(hf.events("template"))


def shared_crowd(folder: str, count: int) -> str:
    """Return a store of short sessions beside a case's own folder, created by the first case that needs it.

    Making 100,000 sessions takes minutes: the cases of a run that only look at them share them, and
    so large a store stays for the next run.
    """
    place = SCRATCH if count >= _LARGE else os.path.dirname(folder)
    os.makedirs(place, exist_ok=True)
    store = os.path.join(place, f"crowd-{count}")
    done = os.path.join(place, f"crowd-{count}.{_fingerprint()}")
    if not os.path.exists(done):
        shutil.rmtree(store, ignore_errors=True)
        Crowd(6, chars_max=400).fill(store, count)
        with holdfast.open(store) as hf:
            hf.reindex()
        with open(done, "wb"):
            pass
    return store


def _fingerprint() -> str:
    """Return a digest of everything that a crowd depends on, such as its texts and the version of the catalogue."""
    from holdfast.catalog.sqlite import schema

    with open(__file__, "rb") as ours, open(str(schema.__file__), "rb") as theirs:
        return f"{zlib.crc32(ours.read() + theirs.read()):08x}"


def rare_words(count: int) -> list[str]:
    """Return words that are in ten sessions each, in a store with a number of sessions."""
    words = min(_RARE_WORDS, max(1, count // _RARE_SESSIONS))
    return [RARE[:-2] + f"{number:02d}" for number in range(words)]


def common_words(count: int) -> list[str]:
    """Return words of the workload that are in very many events."""
    words = (word for word in step(1).text.split() if word.isalpha() and len(word) > 3)
    return sorted(set(words))[:count]


def phrases(count: int) -> list[str]:
    """Return three consecutive words of a tool result of the first session."""
    words = step(3).text.split()
    threes = (words[at : at + 3] for at in range(len(words)))
    return [" ".join(three) for three in threes if "".join(three).isalpha()][:count]


def paths(count: int) -> list[str]:
    """Return paths of some tool calls; all stores of 40 sessions and more have all of them."""
    return [_path(number * 8 + 2) for number in range(count)]


def _path(index: int) -> str:
    return f"src/holdfast/storage/part_{index // 4 % _PARTS}.py"


def _rare_word(number: int, count: int) -> str | None:
    """Return the rare word of a session, if it has one."""
    words = rare_words(count)
    place = number % max(1, count // _RARE_SESSIONS)
    return words[place] if place < len(words) else None
