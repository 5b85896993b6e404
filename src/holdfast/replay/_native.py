"""Messages as a provider's library gave them, handed back to that provider unchanged.

An event with the content of a provider's message has that message under ``native``; an empty list if our own form of
it is the same. It is handed back while all its content is still in the conversation, the provider accepts it, and its
calls and results still match; else the event's content is written in the provider's form like any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.model import BLOB_KEY
from holdfast.replay._blocks import Block
from holdfast.replay._dialects._form import Dialect, Fragment, Message
from holdfast.replay._rules import check_alone, goes_on

if TYPE_CHECKING:
    from holdfast.replay._pieces import Drafts

# A shorter text takes less space than a reference to it.
_SHARED_CHARS_MIN = 40
_SAME = ""  # the one member of an object that refers to a text of the event, by its number


class Native(msgspec.Struct, eq=False):
    """The messages of one event, and its blocks; ``reused`` are ids of its calls that other calls had before.

    Answers are cached for each provider.
    """

    messages: list[Message] = []
    blocks: list[Block] = []
    reused: set[str] = set()
    _known: dict[tuple[str, str], bool] = {}

    def fits(self, provider: str) -> bool:
        """Return whether the provider accepts each of the messages, wherever it is."""
        found = self._known.get(("fits", provider))
        if found is None:
            rules = check_alone(self.messages, provider)
            well = bool(self.messages) and not rules.errors
            found = self._known["fits", provider] = well and rules.seen.isdisjoint(self.reused)
        return found

    def is_plain(self, dialect: Dialect) -> bool:
        """Return whether results in our own form answer the calls in the messages."""
        found = self._known.get(("plain", dialect.name))
        if found is None:
            calls = [block["id"] for block in self.blocks if block["type"] == "tool_use"]
            results = [{"type": "tool_result", "tool_use_id": call, "content": "."} for call in calls]
            written = dialect.write("user", results, self.blocks) if results else []
            found = self._known["plain", dialect.name] = goes_on([*self.messages, *written], dialect.name)
        return found

    def answers(self, dialect: Dialect, call: Block) -> bool:
        """Return whether the message, which is a result, answers a call in our own form."""
        found = self._known.get(("answers", dialect.name))
        if found is None:
            written = dialect.write("assistant", [call], [])
            found = self._known["answers", dialect.name] = goes_on([*written, *self.messages], dialect.name)
        return found


class NativeMessages(msgspec.Struct, eq=False):
    """The parts of a conversation that came as a provider's messages, by event; ``systems`` in order."""

    natives: dict[int, Native] = {}
    systems: list[tuple[int, Native]] = []

    def __bool__(self) -> bool:
        return bool(self.natives or self.systems)

    def forget(self, first: int, last: int) -> bool:
        """Forget events whose content has changed; return whether a system message was one."""
        for seq in [seq for seq in self.natives if first <= seq <= last]:
            del self.natives[seq]
        gone = [at for at, (seq, _) in enumerate(self.systems) if first <= seq <= last]
        for at in gone:
            self.systems[at] = (self.systems[at][0], Native())
        return bool(gone)

    def system_messages(self, dialect: Dialect, at: int, before: int | None = None) -> tuple[list[Message], int]:
        """Return the system messages from number ``at`` on that came before an event, and their number now."""
        found: list[Message] = []
        while at < len(self.systems) and (before is None or self.systems[at][0] < before):
            native = self.systems[at][1]
            if native.fits(dialect.name):
                found += native.messages
            at += 1
        return found, at


def write_draft(dialect: Dialect, page: Drafts, index: int, at: int) -> tuple[list[Message], int]:
    """Return the messages for one draft; parts that came as the provider's messages are used unchanged.

    System messages from number ``at`` on are put where they were recorded; their number is returned too.
    """
    role, before = page.role(index), page.blocks(index - 1) if index else []
    fragments = [
        Fragment(part.seq, messages, _is_result(part.blocks[0]))
        for part in _parts(dialect, page, index)
        if (messages := part.write(dialect, role, before))
    ]
    if dialect.join is not None and fragments:
        return dialect.join(fragments) if len(fragments) > 1 else fragments[0].messages, at
    written: list[Message] = []
    for seq, messages, is_result in fragments:
        # Nothing may be between a call and its result.
        if not is_result and (dialect.systems == "anywhere" or not (index or written)):
            systems, at = page.told.system_messages(dialect, at, seq)
            written += systems
        written += messages
    return written if dialect.order is None else dialect.order(written), at


def last_systems(dialect: Dialect, page: Drafts, at: int) -> list[Message]:
    if dialect.systems == "anywhere" or (dialect.systems == "first" and not len(page)):
        return page.told.system_messages(dialect, at)[0]
    return []


class _Part(NamedTuple):
    """The blocks of one event, or of a few, in a draft, and the message for them."""

    seq: int
    blocks: list[Block]
    native: Native | None

    def write(self, dialect: Dialect, role: str, before: list[Block]) -> list[Message]:
        if self.native is None:
            return dialect.write(role, self.blocks, before)
        return self.native.messages


def _parts(dialect: Dialect, page: Drafts, index: int) -> list[_Part]:
    """Return the parts of a draft; all of it is one if its messages could not follow each other."""
    parts = list(_split(page, index))
    for at, part in enumerate(parts):
        if part.native is not None and not _stands(dialect, page, index, part.native, part.blocks):
            parts[at] = part._replace(native=None)
    asking = [part for part in parts if part.blocks[-1]["type"] == "tool_use"]
    # Several messages with calls in a row: most providers want results in between.
    if len(asking) > 1 and dialect.join is None:
        messages = [one for part in parts for one in part.write(dialect, page.role(index), [])]
        if check_alone(messages, dialect.name).errors:
            return [_Part(parts[0].seq, page.blocks(index), None)]
    return parts


def _split(page: Drafts, index: int) -> Iterator[_Part]:
    natives, blocks, seqs = page.told.natives, page.blocks(index), page.seqs(index)
    start = 0
    while start < len(blocks):
        seq, stop = seqs[start], start + 1
        native = natives.get(seq)
        while stop < len(blocks) and (seqs[stop] not in natives if native is None else seqs[stop] == seq):
            stop += 1
        yield _Part(seq, blocks[start:stop], native)
        start = stop


def _is_result(block: Block) -> bool:
    return bool(block["type"] == "tool_result")


def _stands(dialect: Dialect, page: Drafts, index: int, native: Native, part: list[Block]) -> bool:
    """Return whether a message can be handed back for the remaining blocks."""
    stood_in = _is_result(part[0]) and not _is_result(native.blocks[0])
    if stood_in or len(part) != len(native.blocks) or not native.fits(dialect.name):
        return False
    calls = [block for block in native.blocks if block["type"] == "tool_use"]
    if calls:
        kept = {block["id"] for block in part if "caller" in block}
        if any("caller" in call and call["id"] not in kept for call in calls):
            return False  # the code that makes the call is not there
        return _has_results(dialect, page, index, native, part)
    if not _is_result(part[0]):
        return True
    # A result has to match its call: the original message, or one in our form.
    for before in _parts(dialect, page, index - 1):
        call = next((block for block in before.blocks if block.get("id") == part[0]["tool_use_id"]), None)
        if call is not None:
            return before.native is not None or native.answers(dialect, call)
    return False  # pragma: no cover - a result stands behind its call


def _has_results(dialect: Dialect, page: Drafts, index: int, native: Native, part: list[Block]) -> bool:
    """Return whether the results of a message's calls will answer them: in our form, or all in its own."""
    # With our form it does not matter in which form each result comes.
    if native.is_plain(dialect) or index + 1 >= len(page):
        return True
    natives = page.told.natives
    calls = {block["id"] for block in part if block["type"] == "tool_use"}
    for block, seq in zip(page.blocks(index + 1), page.seqs(index + 1), strict=True):
        if _is_result(block) and block["tool_use_id"] in calls:
            answer = natives.get(seq)
            if answer is None or not _is_result(answer.blocks[0]) or not answer.fits(dialect.name):
                return False
    return True


def pack(messages: list[Message], said: Any) -> list[Any]:
    """Return messages in recorded form: long texts that the event has anyway are referred to by number."""
    texts = _texts(said) or []
    numbers = {text: n for n, text in enumerate(texts) if len(text) >= _SHARED_CHARS_MIN}
    return [_pack(message, numbers) for message in messages]


def _pack(value: Any, numbers: dict[str, int]) -> Any:
    if isinstance(value, str):
        return {_SAME: numbers[value]} if value in numbers else value
    if isinstance(value, list):
        return [_pack(item, numbers) for item in value]
    if not isinstance(value, dict):
        return value
    packed = {name: _pack(item, numbers) for name, item in value.items()}
    return {_SAME: packed} if _SAME in value else packed


def unpack(packed: Any, said: Any) -> list[Message] | None:
    """Return the original messages; None if the record is incomplete, such as with a blob missing."""
    texts = _texts(said)
    if texts is None or not isinstance(packed, list):
        return None
    try:
        messages = [_unpack(message, texts) for message in packed]
    except (IndexError, TypeError):
        return None
    return messages if all(isinstance(one, dict) for one in messages) else None


def _unpack(value: Any, texts: list[str]) -> Any:
    if isinstance(value, list):
        return [_unpack(item, texts) for item in value]
    if not isinstance(value, dict):
        return value
    if BLOB_KEY in value:
        raise TypeError
    if value.keys() == {_SAME}:
        value = value[_SAME]
        if not isinstance(value, dict):
            return texts[value]
    return {name: _unpack(item, texts) for name, item in value.items()}


def _texts(said: Any) -> list[str] | None:
    """Return every text in a value in its order; None if one of them is elsewhere."""
    found: list[str] = []
    waiting = [said]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, list):
            waiting += reversed(value)
        elif isinstance(value, dict):
            if BLOB_KEY in value:
                return None
            waiting += reversed(value.values())
    return found
