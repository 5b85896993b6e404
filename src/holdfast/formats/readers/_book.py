"""Converting a session of a coding agent to drafts, one source entry after the other."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

from holdfast.formats._foreign import Foreign, ForeignDraft, read_time
from holdfast.formats._source import Source
from holdfast.formats.readers import _values as v
from holdfast.formats.readers._files import Record, records

_TALK = frozenset({"user", "assistant", "thinking", "tool_call", "tool_result"})
_LEFT_BEHIND = ("branch-", "rewound-", "rolled-back-", "reverted")
"""The prefixes of runs that a person went back from."""


class SourceEntry:
    """One line, row or message of the source, and its drafts.

    The first draft has the unchanged source. An entry outside the conversation becomes a frame. ``kind`` names, in the
    frame, why it is no part of the conversation.
    """

    def __init__(self, book: Book, raw: Any, stamp: int | None, key: str, run: str | None) -> None:
        self.drafts: list[ForeignDraft] = []
        self.key = key
        self.kind: str | None = None
        self._book = book
        self._raw = raw
        self._stamp = stamp
        self._run = run

    def add(self, type: str, data: dict[str, Any], key: str | None = None) -> None:
        """Add a draft. One whose key is known from an earlier entry is left out."""
        if key is None:
            key = f"{self.key}/{len(self.drafts)}" if self.drafts else self.key
        # Tools write the same thing in several places: the first of them counts.
        if not self._book.claim(key):
            return
        kept = {name: value for name, value in data.items() if value is not None}
        self.drafts.append(ForeignDraft(type, kept, self._stamp, self._run, key))

    def user(self, content: Any, key: str | None = None) -> None:
        """Add a person's message: a text or blocks. An empty one is left out."""
        if said := _content(content):
            self.add("user", {"role": "user", "content": said}, key)

    def assistant(self, content: Any, model: Any = None, key: str | None = None) -> None:
        if said := _content(content):
            self.add("assistant", {"role": "assistant", "content": said, "model": _name(model)}, key)

    def thinking(self, content: Any, signature: Any = None, key: str | None = None) -> None:
        """Add the model's thinking: a text with its signature, or blocks of the provider."""
        if content or signature:
            self.add("thinking", {"content": content, "signature": _name(signature)}, key)

    def call(self, id: Any, tool: Any, params: Any, signature: Any = None) -> None:
        """Add a call of the model. A repeated one is left out."""
        call = {"id": str(id), "tool": _name(tool) or "unknown", "params": params}
        self.add("tool_call", call | {"thought_signature": _name(signature)}, f"call/{id}")

    def block(self, block: Record, kinds: Mapping[str, tuple[str, ...]], model: Any = None) -> bool:
        """Add a block of an answer; return False if the table has no such kind.

        The table has, by the kind, what it is (``text``, ``thought``, ``call``, or ``whole`` for blocks that go back to
        the provider unchanged) and the tool's names of its members.
        """
        what, *members = kinds.get(v.text(block.get("type")), ("",))
        values = [block.get(member) for member in members]
        if what == "text":
            self.assistant(values[0], model)
        elif what == "thought":
            self.thinking(v.text(values[0]), *values[1:])
        elif what == "call":
            self.call(*values)
        elif what == "whole":
            self.thinking([block])
        return bool(what)

    def result(self, id: Any, result: Any, *, is_error: bool = False, stamp: int | None = None) -> None:
        """Add the result of a call, after the last of parallel calls, at the entry's or the given time; once."""
        data: dict[str, Any] = {"toolCallId": str(id), "result": v.text_result(result), "is_error": is_error or None}
        count = len(self.drafts)
        self.add("tool_result", data, f"result/{id}")
        for draft in self.drafts[count:]:
            draft.timestamp = stamp or draft.timestamp

    def usage(self, figures: dict[str, Any], model: Any = None, key: str | None = None) -> None:
        if figures:
            self.add("usage", figures | {"model": _name(model)}, key)

    def close(self) -> list[ForeignDraft]:
        """Return the drafts, of which the first has the source."""
        if not self.drafts:
            data = {"direction": "imported", "tool": self._book.tool, "kind": self.kind}
            self.add("frame", data, self._book.free_key(f"frame/{self.key}"))
        self.drafts[0].raw = self._raw
        return self.drafts


class Book:
    """The drafts of one session. ``problems`` lists what could not be read."""

    def __init__(self, tool: str, problems: list[str] | None = None) -> None:
        self.tool = tool
        self.problems: list[str] = [] if problems is None else problems
        self.drafts: list[ForeignDraft] = []
        self.first_stamp: int | None = None
        self._keys: set[str] = set()
        self._doubles: dict[str, int] = {}
        self._main: list[int] = []  # the places of the main run's messages
        self._last_stamp: int | None = None

    def claim(self, key: str) -> bool:
        """Reserve a key for a draft; return False if it is taken."""
        if key in self._keys:
            return False
        self._keys.add(key)
        return True

    def knows(self, key: str) -> bool:
        """Return whether an entry of that key was added already."""
        return key in self._keys or f"frame/{key}" in self._keys

    def free_key(self, key: str) -> str:
        """Return the key, or a free one like it."""
        free, count = key, self._doubles.get(key, 0)
        while free in self._keys:
            count += 1
            free = f"{key}.{count}"
        self._doubles[key] = count
        return free

    @contextmanager
    def entry(
        self, raw: Any, stamp: int | None = None, key: str | None = None, run: str | None = None, *, again: bool = False
    ) -> Iterator[SourceEntry]:
        """Return an entry to be filled; at the end of the block its drafts are in the book.

        Without a key of its own it gets one made from the source's bytes. A repeated one (``again``) leaves nothing if
        it adds nothing.
        """
        # A line without a time belongs to the moment of the one before it.
        stamp = stamp or self._last_stamp
        self._last_stamp = stamp
        self.first_stamp = self.first_stamp or stamp
        entry = SourceEntry(self, raw, stamp, key or self.free_key(_digest(raw)), run)
        yield entry
        if entry.drafts or not again:
            first = len(self.drafts)
            self.drafts += entry.close()
            self._main += [
                at for at, draft in enumerate(self.drafts[first:], first) if draft.run is None and draft.type in _TALK
            ]

    def note(self, raw: Any, kind: str, stamp: int | None = None, key: str | None = None) -> None:
        """Add an entry outside the conversation, under its kind."""
        with self.entry(raw, stamp, key) as entry:
            entry.kind = kind

    def has_talk(self) -> bool:
        """Return whether there was any message so far."""
        return bool(self._main)

    def tell_summary(self, summary: Any, entry: SourceEntry) -> None:
        """Add a summary of the earlier conversation, unless that is there in full."""
        entry.kind = "compaction"
        words = v.block_text(summary)
        # If the messages themselves are recorded, their summary would repeat them.
        if words.strip() and not self.has_talk():
            entry.add("system", {"content": words})

    def set_aside(self, first: int, run: str) -> None:
        """Move the messages from a place on to a run of their own: they were taken back."""
        while self._main and self._main[-1] >= first:
            self.drafts[self._main.pop()].run = run

    def turns_back(self, count: int) -> int:
        """Return the place of the user's message that many turns ago, or of the first."""
        place = len(self.drafts)
        for at in reversed(self._main):
            if count <= 0:
                break
            if self.drafts[at].type == "user":
                place = at
                count -= 1
        return place

    def foreign(self, foreign_id: str, **details: Any) -> Foreign:
        """Return the session as it is so far.

        Branches that were left behind are retracted if an earlier import had them in the main run. There they had the
        same key; here they get another one, and are recorded anew in their own run.
        """
        details["created_at"] = details.get("created_at") or self.first_stamp
        # None of a side run comes before the first of the main one: that would be mistaken for it.
        first = next((n for n, d in enumerate(self.drafts) if d.type in _TALK and d.run is None), -1) + 1
        drafts = [*sorted(self.drafts[:first], key=lambda draft: draft.run is not None), *self.drafts[first:]]
        keys = []
        for draft in drafts:
            if draft.type in _TALK and draft.key and draft.run and draft.run.startswith(_LEFT_BEHIND):
                keys.append(draft.key)
                draft.key = f"{draft.key}@{draft.run}"
        if keys:
            drafts.append(ForeignDraft("retracted", {"keys": keys}, self._last_stamp, key=f"back/{_digest(keys)}"))
        return Foreign(self.tool, foreign_id, drafts, problems=self.problems, **details)


class SessionLog:
    """One JSONL file on its way to a session: the part that is the same for all tools."""

    tool: ClassVar[str]
    id_member: ClassVar[str | None] = "id"  # the member of a line that names it; None if lines have no names

    def __init__(self, source: Source, name: str) -> None:
        self._book = Book(self.tool)
        self._source = source
        self._name = name
        self._lines = list(records(source, name, self._book.problems))
        self._at = 0
        self._strays: dict[str, str] = {}
        self._title: str | None = None

    @classmethod
    def sessions(cls, source: Source, names: list[str]) -> Iterator[Foreign]:
        return (cls(source, name).foreign() for name in names)

    def foreign(self) -> Foreign:
        """Return the session, once all lines are read."""
        for at, (line, record) in enumerate(self._lines):
            self._at = at
            key = self._key(record)
            # A resumed session may repeat the lines of the one before it.
            if key is None or not self._book.knows(key):
                with self._book.entry(line, self._stamp(record), key, self._run(record)) as entry:
                    self._tell(record, entry)
        return self._book.foreign(**self._about())

    def _first(self, member: str) -> str | None:
        """Return the first text that a line has under this name."""
        return v.first_text(*(record.get(member) for _, record in self._lines))

    def _key(self, record: Record) -> str | None:
        return v.first_text(record.get(self.id_member)) if self.id_member else None

    def _stamp(self, record: Record) -> int | None:
        return read_time(record.get("timestamp"))

    def _run(self, record: Record) -> str | None:
        """Return the run of a line: a branch that was left behind; None for the main one."""
        stray = self._strays.get(self._key(record) or "")
        return f"branch-{stray}" if stray else None

    def _tell(self, record: Record, entry: SourceEntry) -> None:
        raise NotImplementedError

    def _about(self) -> dict[str, Any]:
        """Return the session's metadata: its ``foreign_id``, title, cwd and so on."""
        raise NotImplementedError


def _digest(raw: Any) -> str:
    data = raw if isinstance(raw, bytes) else repr(raw).encode("utf-8", "surrogatepass")
    return "line/" + hashlib.sha256(data).hexdigest()[:24]


def _name(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _content(content: Any) -> Any:
    """Return a text, or blocks of which some are not text; empty for an empty message."""
    if isinstance(content, str):
        return content if content.strip() else ""
    blocks = [block for block in v.items(content) if isinstance(block, dict)]
    said = [b for b in blocks if b.get("type") != "text" or _name(b.get("text"))]
    if len(said) == 1 and said[0].get("type") == "text" and said[0].keys() <= {"type", "text"}:
        return _content(said[0]["text"])
    return said


# The entries of a tree that form the current conversation, and those that were left behind.
# Tools that let a person go back keep all entries in one file, each with the id of its parent. The tool would continue
# from the path between the root and the last entry.
class TreeNode(NamedTuple):
    """One entry: its id, its parent's, and the group (such as one message) it is a part of."""

    id: str
    parent: str | None
    group: str | None = None
    calls: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()  # the calls whose results it has: it stays where they stay
    is_talk: bool = True  # whether the conversation may end with it: notices can be anywhere in the tree


def left_behind(nodes: Sequence[TreeNode], *, joined_roots: bool) -> dict[str, str]:
    """Return by id, for each entry that is not on the path to the last one, where it branched off.

    Parts of one group stay together, results stay with their call: parallel calls branch the tree and yet all belong
    to it. A missing parent stands for the entry before, and so, with ``joined_roots``, does no parent.
    """
    leaf = next((node for node in reversed(nodes) if node.is_talk), None)
    if leaf is None:
        return {}
    parents = _parents(nodes, joined_roots=joined_roots)
    active: set[str] = set()
    at: str | None = leaf.id
    while at is not None and at not in active:
        active.add(at)
        at = parents[at]
    # One answer is several entries, which may have different parents.
    groups = {node.group for node in nodes if node.group and node.id in active}
    active |= {node.id for node in nodes if node.group in groups}
    calls = {call for node in nodes if node.id in active for call in node.calls}
    active |= {node.id for node in nodes if not calls.isdisjoint(node.answers)}
    strays: dict[str, str] = {}
    for node in nodes:
        astray = strays.get(parents[node.id] or "")
        if node.id not in active and (node.is_talk or astray):
            strays[node.id] = astray or node.id
    return strays


def _parents(nodes: Sequence[TreeNode], *, joined_roots: bool) -> dict[str, str | None]:
    """Return each entry's parent, which always comes before it."""
    parents: dict[str, str | None] = {}
    before: str | None = None
    for node in nodes:
        is_root = node.parent is None and not joined_roots
        parents[node.id] = node.parent if is_root or node.parent in parents else before
        before = node.id
    return parents
