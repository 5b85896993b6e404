"""The messages of orbitmesh: from its log, from the list in a session file, or from a snapshot.

A message is what one event of the provider left behind, so a streamed answer may be many of them.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from holdfast.formats._foreign import read_time
from holdfast.formats._source import Source
from holdfast.formats.readers._speech import as_json, as_text, digest, join, member

TOOL = "orbitmesh"
_COMPARED_CHARS_MAX = 1_000_000_000
_NOTICE = re.compile(r"[a-z][a-z0-9_]*|status: \S+ -> \S+")


class OrbitmeshMessage:
    """One message: what kind, its text, when, and how it came."""

    __slots__ = ("_pieces", "_raws", "is_chunk", "is_notice", "kind", "own", "when")

    def __init__(
        self, kind: str, contents: str, when: int | None, raw: Any, own: Any, *, how: str = ""
    ) -> None:
        self.kind = kind
        self.when = when
        own = as_json(own)
        event = member(own, "event")
        self.own = event if isinstance(event, dict) and own["type"] == "stream_event" else own
        """What the provider said, where it was kept, without an envelope."""
        self.is_chunk = kind == "output" and own is None and how != "append"
        """Whether it may be a piece of an answer, as agents of ACP stream it."""
        self.is_notice = how == "append_raw" or (not how and bool(_NOTICE.fullmatch(contents)))
        """Whether the word of a system message only names an event."""
        self._pieces = [contents]
        self._raws = [raw]

    def go_on(self, contents: str, *raws: Any) -> None:
        """Add a piece of what was streamed."""
        self._pieces.append(contents)
        self._raws += raws

    def take_over(self, other: OrbitmeshMessage) -> None:
        """Keep how another message came, which says the same."""
        self._raws += other._raws

    def give_back(self) -> OrbitmeshMessage:
        """Take the last piece off again, as a message by itself."""
        return OrbitmeshMessage(self.kind, self._pieces.pop(), self.when, self._raws.pop(), None)

    @property
    def last_piece(self) -> str:
        """What was streamed last."""
        return self._pieces[-1]

    @property
    def is_empty(self) -> bool:
        """Whether every piece was taken off."""
        return not self._pieces

    @property
    def is_tool_input(self) -> bool:
        """Whether this is the input of a tool, which streams like words."""
        return bool(member(self.own, "delta", "type") == "input_json_delta")

    @property
    def contents(self) -> str:
        """The whole text."""
        return "".join(self._pieces)

    @property
    def raws(self) -> list[Any]:
        """How its pieces came."""
        return self._raws

    @property
    def raw(self) -> Any:
        """The source as it came; of a message in pieces, all of them."""
        return raw_of(self._raws)

    @property
    def key(self) -> str:
        """What a message of the log and its copy elsewhere have in common."""
        return f"{self.kind}.{digest(self.contents)}"


def raw_of(raws: list[Any]) -> Any:
    """One source as it came, or all of several."""
    if len(raws) == 1:
        return raws[0]
    return [one.decode("utf-8", "replace") if isinstance(one, bytes) else one for one in raws]


def is_log_line(value: Any) -> bool:
    """Whether a value is a line of a message log."""
    return isinstance(value, dict) and "projection" in value and "kind" in value


def logged(source: Source, name: str, problems: list[str]) -> list[OrbitmeshMessage]:
    """The messages of a log. A delta goes on with the message before it, if that is output."""
    found: list[OrbitmeshMessage] = []
    for line, value in source.values(name, problems):
        when = read_time(member(value, "timestamp"))
        seq = member(value, "seq")
        if not is_log_line(value) or type(seq) is not int or seq <= 0 or when is None:
            problems.append(f"{name}: a line without number, time or kind was left out")
            continue
        kind, contents = as_text(value["kind"]) or "output", as_text(value.get("contents"))
        how = as_text(value["projection"])
        said = OrbitmeshMessage(kind, contents, when, line, value.get("raw"), how=how)
        last = found[-1] if found else None
        joins = how == "append_output_delta" and last is not None and last.kind == "output"
        if last is not None and joins and last.is_tool_input == said.is_tool_input:
            last.go_on(contents, line)
        else:
            found.append(said)
    return found


def embedded(messages: Any) -> list[OrbitmeshMessage]:
    """The messages that a session file holds itself."""
    return [
        OrbitmeshMessage(
            as_text(message.get("kind")) or "output",
            as_text(message.get("contents")),
            read_time(message.get("timestamp")),
            message,
            message.get("raw"),
        )
        for message in (messages if isinstance(messages, list) else [])
        if isinstance(message, dict)
    ]


def join_in_time(
    base: list[OrbitmeshMessage], other: list[OrbitmeshMessage]
) -> list[OrbitmeshMessage]:
    """All of ``base`` and what only ``other`` has: where it stands there, or by time at the end."""
    last = max((one.when for one in base if one.when), default=None)
    if last is None:
        return other
    known = Counter(one.key for one in base)
    late = []
    for one in [one for one in other if one.when and one.when > last]:
        if known[one.key]:
            known[one.key] -= 1
        else:
            late.append(one)
    early = [one for one in other if not any(one is later for later in late)]
    return [*join(base, early, key=lambda one: one.key), *late]


def put_together(messages: list[OrbitmeshMessage]) -> list[OrbitmeshMessage]:
    """The messages with the chunks of one answer, or of one thought, as one.

    An agent of ACP tells every thought twice, as output first, and echoes the user as output.
    """
    found: list[OrbitmeshMessage] = []
    for said in messages:
        last = found[-1] if found else None
        if last is None:
            found.append(said)
        elif last.is_chunk and _is_echo(said, last.last_piece):
            said.take_over(last.give_back())
            if last.is_empty:
                found.pop()
            _add(found, said)
        elif last.is_chunk and said.is_chunk:
            last.go_on(said.contents, *said.raws)
        else:
            _add(found, said)
    return found


def _is_echo(said: OrbitmeshMessage, words: str) -> bool:
    """Whether what was taken for an answer is a thought, or what the user said."""
    if said.kind == "thought":
        return said.contents == words
    return said.kind == "system" and said.contents == "user_message_chunk"


def _add(found: list[OrbitmeshMessage], said: OrbitmeshMessage) -> None:
    if said.kind == "thought" and found and found[-1].kind == "thought":
        found[-1].go_on(said.contents, *said.raws)
    else:
        found.append(said)


def go_on_with(said: list[OrbitmeshMessage], messages: Any) -> list[OrbitmeshMessage]:
    """What was said, and, in its time, what only a snapshot has.

    There each piece of a streamed answer is a message by itself, thoughts among them.
    """
    if not said:
        return _snapped(messages)
    found = list(said)
    for one in _snapped(_unknown(said, messages if isinstance(messages, list) else [])):
        later = (n for n, other in enumerate(found) if one.when and (other.when or 0) > one.when)
        found.insert(next(later, len(found)), one)
    return found


def _unknown(said: list[OrbitmeshMessage], messages: list[Any]) -> list[Any]:
    """The messages of a snapshot whose words nobody said."""
    asked = {one.contents for one in said if one.kind == "user"}
    answers = "\n".join(one.contents for one in said if one.kind != "user")
    pieces = [one for one in messages if isinstance(one, dict)]
    if len(pieces) * len(answers) > _COMPARED_CHARS_MAX:
        last = max((one.when for one in said if one.when), default=0)
        return [piece for piece in pieces if (_when(piece) or 0) > last]
    return [piece for piece in pieces if not _is_known(piece, asked, answers)]


def _is_known(piece: dict[str, Any], asked: set[str], answers: str) -> bool:
    text = _text_of(piece.get("content", piece.get("Content")))
    if as_text(piece.get("role", piece.get("Role"))) == "user":
        return text in asked
    return text in answers or text in asked


def _when(message: dict[str, Any]) -> int | None:
    return read_time(message.get("timestamp", message.get("Timestamp")))


def _snapped(messages: Any) -> list[OrbitmeshMessage]:
    """The messages of a snapshot, where each piece of a streamed answer is one by itself."""
    found: list[OrbitmeshMessage] = []
    for message in messages if isinstance(messages, list) else []:
        if not isinstance(message, dict):
            continue
        role = as_text(member(message, "role") or member(message, "Role"))
        kind = {"assistant": "output"}.get(role, role) or "output"
        contents = _text_of(message.get("content", message.get("Content")))
        when = _when(message)
        if kind == "output" and found and found[-1].kind == "output":
            found[-1].go_on(contents, message)
        else:
            found.append(OrbitmeshMessage(kind, contents, when, message, None))
    return found


def _text_of(content: Any) -> str:
    if isinstance(content, list):
        texts = (member(block, "text") or member(block, "Text") for block in content)
        return "".join(as_text(text) for text in texts)
    return as_text(content)


# Snapshots of orbitmesh's first design in the shape of the later one.
#
# There they are plain JSON under ``sessions/``, with the messages, the task and the agent's own
# id at
# the top; the names are those of Go fields or the tame ones.


_NAMES = {
    "SessionID": "session_id",
    "ProviderType": "provider_type",
    "CreatedAt": "created_at",
    "UpdatedAt": "updated_at",
    "Version": "version",
    "Config": "config",
    "ProviderState": "provider_state",
    "Metadata": "metadata",
    "ACPSessionID": "acp_session_id",
    "Messages": "messages",
    "CurrentTask": "current_task",
    "Metrics": "metrics",
}
_INNER = ("acp_session_id", "messages", "current_task", "metrics")


def tame_snapshot(value: Any) -> Any:
    """A snapshot with the later names, and with the provider's state in a map of its own.

    Anything else as it is.
    """
    if not isinstance(value, dict):
        return value
    tamed = {_NAMES.get(name, name): item for name, item in value.items()}
    if not isinstance(tamed.get("session_id"), str) or "attempt_id" in tamed:
        return value
    if isinstance(tamed.get("provider_state"), dict):
        state = tamed["provider_state"]
        tamed["provider_state"] = {_NAMES.get(name, name): item for name, item in state.items()}
        return tamed
    if "provider_type" not in tamed or not isinstance(tamed.get("messages"), list):
        return value
    tamed["provider_state"] = {name: tamed.pop(name) for name in _INNER if name in tamed}
    return tamed
