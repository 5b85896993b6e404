"""The conversation of a live session, as recorded and as providers get it.

The contract of each function is on the method of the session that has its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.errors import TooLarge, UsageError
from holdfast.model import Event
from holdfast.replay import blocks_of
from holdfast.session._clock import new_call_id
from holdfast.session.reader import resolve_blobs
from holdfast.storage import Documents, Store

if TYPE_CHECKING:
    from holdfast.replay import Conversation, Incomplete, Issue, Provider
    from holdfast.session._journal import Journal

# An unused conversation is brought up to date in steps of this many events.
_UNFED_MAX = 512
_LINES_MAX = 10_000
_logged: dict[tuple[str, str], str] = {}


class LiveConversation:
    """The conversations of a session, one for each way of treating calls without a result."""

    def __init__(self, read_all: Callable[[], Iterable[Event]], documents: Documents) -> None:
        self._read_all = read_all
        self._documents = documents
        self._conversations: dict[str, Conversation] = {}
        self._unfed: list[Event] = []
        self._feeding = False
        self.active = False  # whether events must be taken as they come

    def begin_again(self) -> None:
        """Forget all events; the next use reads them from the log."""
        self._conversations, self._unfed, self._feeding, self.active = {}, [], False, False

    def take(self, event: Event) -> None:
        """Add the next event of the session."""
        self._unfed.append(event)
        if len(self._unfed) > _UNFED_MAX:
            self._feed()

    def messages(self, provider: Provider, incomplete: Incomplete) -> list[dict[str, Any]]:
        """Return the conversation up to the last event that was added."""
        self._feed()
        conversation = self._conversations.get(incomplete)
        if conversation is None:
            # The code that makes messages is loaded with the first use.
            from holdfast.replay import Conversation

            conversation = Conversation(incomplete=incomplete)
            conversation.feed_all(self.resolved(self._read_all()))
            self._conversations[incomplete] = conversation
            self.active = True
        return conversation.messages(provider)

    def issues(self, incomplete: Incomplete) -> list[Issue]:
        """Return the issues that changed the conversation from what the log says."""
        self.messages("neutral", incomplete)
        return self._conversations[incomplete].issues

    def resolved(self, events: Iterable[Event]) -> Iterator[Event]:
        return resolve_blobs(events, self._documents)

    def _feed(self) -> None:
        if self._feeding:
            self.begin_again()  # the last one was interrupted half-way
        if not self._unfed:
            return
        self._feeding = True
        events = list(self.resolved(self._unfed))
        for conversation in self._conversations.values():
            conversation.feed_all(events)
        self._unfed, self._feeding = [], False


def messages(journal: Journal, provider: Provider, incomplete: Incomplete) -> list[dict[str, Any]]:
    if not isinstance(provider, str) or not isinstance(incomplete, str):
        raise UsageError("a provider, and what becomes of incomplete calls, are texts")
    with journal.lock:
        journal.settle()
        return journal.talk.messages(provider, incomplete)


def history(journal: Journal) -> list[dict[str, Any]]:
    return [
        {"role": event.type, "content": event.data.get("content"), "timestamp": event.timestamp / 1000}
        for event in journal.talk.resolved(journal.events())
        if event.type in ("user", "assistant")
    ]


def current_prompt(journal: Journal) -> str:
    with journal.lock:
        turn = journal.live_state.open_turn
        newest = [] if turn is None else list(journal.newest(turn.seq))
    events = journal.talk.resolved(map(journal.as_it_was, reversed(newest)))
    said = [blocks_of(event.data.get("content")) for event in events if event.type == "user"]
    texts = [block.get("text") for blocks in said for _, block in blocks]
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def log_recovery(store: Store, session_id: str, issues: Sequence[Issue]) -> None:
    """Log a warning about what a recovery changed: once for each session, and again when it differs."""
    if not issues:
        return
    from holdfast.replay import recovery_line

    line, place = recovery_line(session_id, issues), (store.identity, session_id)
    if _logged.get(place) == line:
        return
    if len(_logged) >= _LINES_MAX:
        _logged.clear()
    _logged[place] = line
    import logging

    logging.getLogger("holdfast").warning("%s", line)


# Methods of the session that do more than record one event.
_OWN_ROLES = frozenset({"user", "assistant", "system"})
_ROLES = _OWN_ROLES | {"developer", "function", "model", "tool"}
# What an assistant message of OpenAI holds beside the content.
_SAID_BESIDE = frozenset({"tool_calls", "function_call", "refusal", "audio"})


def record_message(journal: Journal, message: Any, run: str | None) -> list[Event]:
    from holdfast.replay import tell

    words = tell(message)
    said = next((data for type, data in words if type == "assistant"), None)
    if said is not None:
        _cover(journal, said, run)
    if run is None:
        return journal.extend(words)
    return journal.extend([Event.make(type, data, run=run) for type, data in words])


def assistant(journal: Journal, content: Any, run: str | None, extra: dict[str, Any]) -> Event:
    data = {"role": "assistant", "content": content}
    if extra:
        if beside := {name: extra.pop(name) for name in _SAID_BESIDE.intersection(extra)}:
            from holdfast.replay import tell

            ((_, data),) = tell(data | beside)  # as OpenAI's message has it
        data.update(extra)
    _cover(journal, data, run)
    return journal.record("assistant", data, run)


def tool_call(
    journal: Journal, tool: str, params: Any, *, id: str | None, run: str | None, extra: dict[str, Any]
) -> Event:
    if id is None:
        id = _asked_call(journal, tool, params, run) or new_call_id()
    data = {"id": id, "tool": tool, "params": params, **extra}
    return journal.record("tool_call", data, run)


def tool_result(journal: Journal, call: Event | str, result: Any, *, run: str | None, extra: dict[str, Any]) -> Event:
    if isinstance(call, Event):
        if call.type != "tool_call" or call.id is None:
            raise UsageError(f"event {call.seq} is a {call.type}, not a tool call")
        run = call.run if run is None else run
        call = call.id
    return journal.record("tool_result", {"toolCallId": call, "result": result, **extra}, run)


def add_turn(journal: Journal, role: str, content: Any, message: dict[str, Any]) -> Event:
    if not isinstance(role, str) or role not in _ROLES:
        raise UsageError(f"{role!r:.60} is not a role: use one of {', '.join(sorted(_ROLES))}")
    said = {"role": role, "content": content, **message}
    if message or isinstance(content, list) or role not in _OWN_ROLES:
        return record_message(journal, said, None)[-1]
    return journal.record(role, said)


def change_tags(journal: Journal, type: str, tags: Iterable[str]) -> None:
    """Add or remove tags: all of them, or none if one is invalid."""
    most = journal.limits.tag_chars_max
    for tag in tags:
        if not isinstance(tag, str) or not tag.strip():
            raise UsageError("a tag is a text that is not empty")
        if len(tag) > most:
            raise TooLarge(f"the tag has {len(tag):,} characters, at most {most:,} are allowed", limit="tag_chars_max")
    for tag in tags:
        journal.record(type, {"tag": tag})


def _asked_call(journal: Journal, tool: str, params: Any, run: str | None) -> str | None:
    """Return the id of the one open call of a run's last assistant message that matches.

    Open are calls without a result that this process has not begun: one that another process left behind may be
    taken up again. None if no call matches, or several do.
    """
    with journal.lock:
        seq = journal.live_state.asked.get(run or "")
        if seq is None:
            return None
        newest = list(journal.newest(seq))
    wanted = _canonical(params)
    taken: set[Any] = set()
    is_ours = True
    for event in journal.talk.resolved(map(journal.as_it_was, newest)):
        data = event.data
        if event.type == "opened":
            is_ours = False  # a call that was begun before belongs to no running process
        elif event.run != run:
            continue
        elif event.type == "tool_result":
            taken.add(data.get("toolCallId"))
        elif event.type == "tool_call" and is_ours:
            taken.add(data.get("id"))
        elif event.type == "user":
            blocks = blocks_of(data.get("content"))
            taken.update(one.get("tool_use_id") for kind, one in blocks if kind == "tool_result")
        elif event.type == "assistant":
            fitting = [
                block["id"]
                for kind, block in blocks_of(data.get("content"))
                if kind == "tool_use"
                and isinstance(block.get("id"), str)
                and block["id"] not in taken
                and block.get("name") == tool
                and _canonical(block.get("input")) == wanted
            ]
            return fitting[0] if len(fitting) == 1 else None
    return None


def _canonical(value: Any) -> Any:
    """Return a value that is equal exactly for equal arguments."""
    try:
        return msgspec.json.encode({} if value is None else value, order="deterministic")
    except (TypeError, ValueError, RecursionError):
        return object()  # a value that cannot be recorded is refused when it is recorded


def _cover(journal: Journal, said: dict[str, Any], run: str | None) -> None:
    """Let a final message name the first streamed piece of it, if known here and not named already."""
    if "covers_from" in said:
        return
    with journal.lock:
        first = journal.live_state.streaming.get(run or "")
        if first is None:  # nearly always
            return
        newest = list(journal.newest(first))
    from holdfast.replay import words_said

    words = words_said(said.get("content"))
    streamed: dict[str, list[tuple[int, str]]] = {kind: [] for kind in words}
    for event in map(journal.as_it_was, newest):
        if event.run != run:
            continue
        if event.type != "delta":
            break  # the pieces before it belong to another message
        kind = "thinking" if event.data.get("kind") == "thinking" else "assistant"
        if kind in words:
            streamed[kind].append((event.seq, str(event.data.get("content") or "")))
    covered = _first_of(words, streamed)
    if covered is not None:
        said["covers_from"] = covered


def _first_of(said: dict[str, str], streamed: dict[str, list[tuple[int, str]]]) -> int | None:
    """Return the first piece of the streamed text that a message repeats, by kind; pieces come newest first.

    Text that the message does not begin with was seen by somebody, and has to stay: if such text comes later, the
    message covers nothing, since it covers all of its kinds from one piece on.
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
    """Return the text without white space between words, which blocks of a message do not keep."""
    return "".join(text.split())
