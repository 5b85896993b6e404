"""A session as exporters see it: its metadata, and ways to read it as often as needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.model import Event, SessionMetadata

if TYPE_CHECKING:
    from holdfast.replay import Incomplete, Provider, Recovery, State


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """One session, to be read and never changed.

    ``events`` gives the events with their large payloads in place, ``lines`` the bytes of the log,
    ``recover`` a valid conversation for a provider and a treatment of incomplete calls, ``documents``
    the names and bytes of documents beside the log, ``lost_from`` where a damaged end of the log
    begins, if there is one. Everything is read on demand.
    """

    metadata: SessionMetadata
    state: Callable[[], State]
    events: Callable[[], Iterator[Event]]
    lines: Callable[[], Iterator[bytes]]
    recover: Callable[[Provider, Incomplete], Recovery]
    documents: Mapping[str, Callable[[], bytes]] = {}
    lost_from: Callable[[], int | None] = lambda: None


class ExportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The caller's options. ``cwd`` is the project in which a coding agent will resume."""

    zone: tzinfo = UTC
    cwd: str = "/"
    passphrase: str | None = None
    model: str | None = None  # the model to name in a native file, if its tool needs one
    incomplete: Incomplete = "mark"
    """The treatment of calls without a result in lists of messages; native files mark them."""


_ENDS = {
    "interrupted": "Interrupted here: the last turn did not come to its end.",
    "failed": "The last turn failed.",
    "running": "Still going on when this was exported.",
    "waiting": "Waiting here for somebody to answer.",
}


def ending(row: SessionMetadata) -> str:
    """Return the sentence that a document ends with, if the last turn has not come to its end."""
    return _ENDS.get(row.status, "")


_EARLIEST = datetime(1, 1, 2, tzinfo=UTC)
_LATEST = datetime(9999, 12, 30, tzinfo=UTC)


def moment(timestamp_ms: int, zone: tzinfo = UTC) -> datetime:
    """Return the time of an event; for a clock that was wrong by thousands of years the nearest possible one."""
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).astimezone(zone)
    except (ValueError, OverflowError, OSError):
        return (_LATEST if timestamp_ms > 0 else _EARLIEST).astimezone(zone)


def clock(timestamp_ms: int, zone: tzinfo, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """Return the time of an event as text, its year always with four digits."""
    when = moment(timestamp_ms, zone)
    return when.strftime(form.replace("%Y", f"{when.year:04d}"))


# A session's conversation for another tool to continue: valid turns, each with its time.
Block = dict[str, Any]
_NAMESPACE = "6c1f1f3e-2f0b-5f4b-9d0c-6f2b5d0c7a11"


class DialogueTurn(NamedTuple):
    """One turn in neutral blocks, with the time of each, and its event's place."""

    role: str
    blocks: list[Block]
    times: list[int]
    sources: list[int]  # places in the log, counted from 0; -1 for inserted ones


class Dialogue(msgspec.Struct, frozen=True):
    """The turns of a conversation, user first; and its system prompt."""

    turns: list[DialogueTurn]
    system: str | None


def dialogue(recorded: Recorded) -> Dialogue:
    """Return the top-level conversation. A call without a result gets one that says so."""
    from holdfast.replay import Conversation, sanitize  # most formats need neither

    conversation = Conversation(incomplete="mark")
    times: list[int] = []
    for event in recorded.events():
        conversation.feed(event)
        times.append(event.timestamp)
    # Other tools refuse a history that breaks their provider's rules, so it is repaired first.
    messages = sanitize(conversation.messages("neutral"), "neutral", "mark").messages
    sources = conversation.sources
    before = recorded.metadata.created_at
    turns = []
    for index, message in enumerate(messages):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        # Where the repair inserted something, places no longer match, and none is given.
        own = sources[index] if len(sources) == len(messages) else []
        own = [*own, *[-1] * len(blocks)][: len(blocks)]
        stamps = []
        for at in own:
            # A tool sorts by time: inserted messages, and those during a clock change, must not come earlier.
            before = max(before, times[at]) if 0 <= at < len(times) else before
            stamps.append(before)
        turns.append(DialogueTurn(message["role"], blocks, stamps, own))
    return Dialogue(turns, conversation.system)


def results_in(turns: Iterable[DialogueTurn]) -> dict[str, Block]:
    """Return the results of tools in some turns, by the id of the call."""
    blocks = (block for turn in turns for block in turn.blocks)
    return {block["tool_use_id"]: block for block in blocks if block["type"] == "tool_result"}


def result_text(block: Block) -> str:
    """Return the content of a tool result as one text, for tools that accept nothing else."""
    content = block.get("content", "")
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] if part["type"] == "text" else f"[{part['type']}]" for part in content)


def in_dialect(turn: DialogueTurn, provider: Provider) -> list[dict[str, Any]]:
    """Return one turn in a provider's form."""
    from holdfast.replay import to_dialect

    return to_dialect([{"role": turn.role, "content": turn.blocks}], provider)


def stable_uuid(*parts: object) -> str:
    """Return a UUID that is the same each time the session is exported."""
    import uuid  # what it counts on loads OpenSSL

    return str(uuid.uuid5(uuid.UUID(_NAMESPACE), "\0".join(str(part) for part in parts)))


def digest_id(*parts: object) -> str:
    """Return hexadecimal digits, the same each time, for tools that have ids of their own form."""
    import hashlib  # it loads OpenSSL

    return hashlib.sha256("\0".join(map(str, parts)).encode("utf-8", "replace")).hexdigest()


def iso(timestamp_ms: int) -> str:
    """Return a time as JavaScript writes it."""
    when = moment(timestamp_ms)
    return f"{when.year:04d}-{when:%m-%dT%H:%M:%S}.{when.microsecond // 1000:03d}Z"


def listed(head: bytes, values: Iterable[Any], end: bytes) -> Iterator[bytes]:
    """Yield a JSON list piece by piece, one value on each line; values are bytes, or to be encoded."""
    yield head
    comma = b"\n"
    for value in values:
        yield comma + (value if isinstance(value, bytes) else msgspec.json.encode(value))
        comma = b",\n"
    yield b"\n" + end
