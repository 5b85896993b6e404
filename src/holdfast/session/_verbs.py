"""What the verbs of a session do beyond recording one event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import TooLarge, UsageError
from holdfast.model import Event
from holdfast.session._clock import new_call_id
from holdfast.session._tool import find_asked_call

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.session._journal import Journal

_OWN_ROLES = frozenset({"user", "assistant", "system"})
_ROLES = _OWN_ROLES | {"developer", "function", "model", "tool"}
# What OpenAI's assistant says beside the content.
_SAID_BESIDE = frozenset({"tool_calls", "function_call", "refusal", "audio"})


def record_message(journal: Journal, message: Any, run: str | None) -> list[Event]:
    """Record a message as a provider's library gives or takes it; the events that say it."""
    from holdfast.replay import tell

    words = tell(message)
    said = next((data for type, data in words if type == "assistant"), None)
    if said is not None:
        _cover(journal, said, run)
    if run is None:
        return journal.extend(words)
    return journal.extend([Event.make(type, data, run=run) for type, data in words])


def assistant(journal: Journal, content: Any, run: str | None, extra: dict[str, Any]) -> Event:
    """Record what the agent said, in the place of what was streamed of it."""
    data = {"role": "assistant", "content": content}
    if extra:
        if not _SAID_BESIDE.isdisjoint(extra):
            data = _assistant_message(data, extra)
        data.update(extra)
    _cover(journal, data, run)
    return journal.record("assistant", data, run)


def tool_call(
    journal: Journal,
    tool: str,
    params: Any,
    *,
    id: str | None,
    run: str | None,
    extra: dict[str, Any],
) -> Event:
    """Record the intent to use a tool: the call that was asked for, or a new one."""
    if id is None:
        id = _asked_call(journal, tool, params, run) or new_call_id()
    data = {"id": id, "tool": tool, "params": params, **extra}
    return journal.record("tool_call", data, run)


def tool_result(
    journal: Journal, call: Event | str, result: Any, *, run: str | None, extra: dict[str, Any]
) -> Event:
    """Record what a tool gave for a call."""
    if isinstance(call, Event):
        run = call.run if run is None else run
        call = _call_id(call)
    return journal.record("tool_result", {"toolCallId": call, "result": result, **extra}, run)


def add_turn(journal: Journal, role: str, content: Any, message: dict[str, Any]) -> Event:
    """Record a turn by its role, or a message by its members."""
    if not isinstance(role, str) or role not in _ROLES:
        raise UsageError(f"{role!r:.60} is not a role: use one of {', '.join(sorted(_ROLES))}")
    said = {"role": role, "content": content, **message}
    if message or isinstance(content, list) or role not in _OWN_ROLES:
        return record_message(journal, said, None)[-1]
    return journal.record(role, said)


def change_tags(journal: Journal, type: str, tags: Iterable[str]) -> None:
    """Add or take away tags: all of them, or none if one is not good."""
    most = journal.limits.tag_chars_max
    for tag in tags:
        if not isinstance(tag, str) or not tag.strip():
            raise UsageError("a tag is a text that is not empty")
        if len(tag) > most:
            raise TooLarge(
                f"the tag has {len(tag):,} characters, at most {most:,} are allowed",
                limit="tag_chars_max",
            )
    for tag in tags:
        journal.record(type, {"tag": tag})


def _assistant_message(data: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
    """The data of an event for OpenAI's message; what is no member of that is taken out."""
    from holdfast.replay import tell

    beside = {name: extra.pop(name) for name in _SAID_BESIDE.intersection(extra)}
    ((_, told),) = tell(data | beside)
    return told


def _call_id(call: Event) -> str:
    found = call.id
    if call.type != "tool_call" or found is None:
        raise UsageError(f"event {call.seq} is a {call.type}, not a tool call")
    return found


def _asked_call(journal: Journal, tool: str, params: Any, run: str | None) -> str | None:
    """The id of the open call of the last assistant message that fits; None for a new call."""
    with journal.lock:
        seq = journal.live_state.asked.get(run or "")
        if seq is None:
            return None
        newest = list(journal.newest(seq))
    said = journal.talk.resolved(map(journal.as_it_was, newest))
    own = (event for event in said if event.run == run or event.type == "opened")
    return find_asked_call(own, tool, params)


def _cover(journal: Journal, said: dict[str, Any], run: str | None) -> None:
    """Let a final message name the pieces that were streamed of it, unless it does already."""
    if "covers_from" not in said:
        first = _streamed_from(journal, said.get("content"), run)
        if first is not None:
            said["covers_from"] = first


def _streamed_from(journal: Journal, content: Any, run: str | None) -> int | None:
    """The first streamed piece of a run that is of this content, if that is known here."""
    with journal.lock:
        first = journal.live_state.streaming.get(run or "")
        if first is None:  # nearly always
            return None
        newest = list(journal.newest(first))
    from holdfast.replay import words_said

    said = words_said(content)
    streamed: dict[str, list[tuple[int, str]]] = {kind: [] for kind in said}
    for event in map(journal.as_it_was, newest):
        if event.run != run:
            continue
        if event.type != "delta":
            break  # what was streamed before it is another message's
        kind = "thinking" if event.data.get("kind") == "thinking" else "assistant"
        if kind in said:
            streamed[kind].append((event.seq, str(event.data.get("content") or "")))
    return _first_of(said, streamed)


def _first_of(said: dict[str, str], streamed: dict[str, list[tuple[int, str]]]) -> int | None:
    """The first piece of what a message has the words of, by kind; pieces come newest first.

    Words that the message does not begin with are what somebody saw, and have to stay: where such
    come later, the message covers nothing, since it covers all of its kinds from one piece on.
    """
    of_it: list[int] = []
    others: list[int] = []
    for kind, pieces in streamed.items():
        text = _bare("".join(piece for _, piece in reversed(pieces)))
        if text:
            is_of_it = _bare(said[kind]).startswith(text)
            (of_it if is_of_it else others).extend(seq for seq, _ in pieces)
    first = min(of_it, default=None)
    return None if first is None or any(seq > first for seq in others) else first


def _bare(text: str) -> str:
    """The words without what stands between them, which blocks of a message do not keep."""
    return "".join(text.split())
