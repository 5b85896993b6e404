"""What a session tells: its state, its conversation, its history."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from holdfast.errors import UsageError
from holdfast.model import Event, read_events
from holdfast.session._opening import check_title
from holdfast.session._tool import find_asked_call
from holdfast.session._verbs import Recorder
from holdfast.session.reader import read_range

if TYPE_CHECKING:
    import threading

    from holdfast.replay import Fold, State
    from holdfast.session._conversation import LiveConversation
    from holdfast.session._opening import Opening, Options
    from holdfast.session._writer import Writer

_MS = 1000.0


class Readable(Recorder):
    """The reading half of a session; every answer is a copy or to be read only."""

    _lock: threading.RLock
    _fold: Fold
    _writer: Writer
    _opening: Opening
    _options: Options
    _talk: LiveConversation
    _in_doubt: bool

    @abstractmethod
    def _settle(self) -> None:
        """Bring state and conversation in step with the log."""

    @property
    def seq(self) -> int:
        """The seq of the newest event; -1 if there is none."""
        return self._writer.seq - 1

    @property
    def live_state(self) -> State:
        """The state itself, for readers that do not change it."""
        with self._lock:
            if self._in_doubt:
                self._settle()
            return self._fold.state

    @property
    def state(self) -> State:
        """The state after the newest event; a copy."""
        with self._lock:
            self._settle()
            return self._fold.state.copy()

    def _streamed_from(self, content: Any, run: str | None) -> int | None:
        with self._lock:
            first = self.live_state.streaming.get(run or "")
            if first is None:  # nearly always
                return None
            newest = list(self._newest(first))
        from holdfast.replay import words_said

        said = words_said(content)
        streamed: dict[str, list[tuple[int, str]]] = {kind: [] for kind in said}
        for event in map(self._as_it_was, newest):
            if event.run != run:
                continue
            if event.type != "delta":
                break  # what was streamed before it is another message's
            kind = "thinking" if event.data.get("kind") == "thinking" else "assistant"
            if kind in said:
                streamed[kind].append((event.seq, str(event.data.get("content") or "")))
        return _first_of(said, streamed)

    @property
    def key(self) -> str:
        """The session's key in the store."""
        return self._opening.key

    @property
    def agent_id(self) -> str | None:
        """The agent that this session belongs to."""
        return self.live_state.agent_id or self._options.agent_id

    @property
    def title(self) -> str | None:
        """The session's title: the one that was given, else the first words of the user."""
        return self.live_state.shown_title

    @title.setter
    def title(self, title: str | None) -> None:
        check_title(title, self.limits)
        self.append("title", {"title": title})

    @property
    def tags(self) -> list[str]:
        """The session's tags, in the order in which they were given."""
        return list(self.live_state.tags)

    @property
    def created_at(self) -> float:
        """When the session began, in Unix seconds."""
        return (self.live_state.created_at or self._opening.opened_at) / _MS

    @property
    def last_activity(self) -> float:
        """When something was last recorded, in Unix seconds."""
        return (self.live_state.updated_at or self._opening.opened_at) / _MS

    @property
    def history(self) -> list[dict[str, Any]]:
        """Every user and assistant turn as ``{role, content, timestamp}``, timestamp in seconds."""
        return [
            {
                "role": event.type,
                "content": event.data.get("content"),
                "timestamp": event.timestamp / _MS,
            }
            for event in self._talk.resolved(self.events())
            if event.type in ("user", "assistant")
        ]

    @property
    def current_prompt(self) -> str:
        """What the user said in the turn that is going on; empty between turns."""
        with self._lock:
            self._settle()
            turn = self._fold.state.open_turn
            newest = [] if turn is None else list(self._newest(turn.seq))
        said = self._talk.resolved(map(self._as_it_was, reversed(newest)))
        texts = [_text_of(event.data.get("content")) for event in said if event.type == "user"]
        return "\n".join(text for text in texts if text)

    def events(self, start: int = 0) -> Iterator[Event]:
        """The recorded events from ``start`` on."""
        if not isinstance(start, int):
            raise UsageError(f"start is a whole number, not {start!r:.40}")
        with self._lock:
            waiting = self._writer.staged_lines()
        log = self._writer.log
        events = read_events(chain(log.read(), waiting), unseal=log.unseal)
        return (event for event in events if event.seq >= start)

    def _asked_call(self, tool: str, params: Any, run: str | None) -> str | None:
        with self._lock:
            seq = self.live_state.asked.get(run or "")
            if seq is None:
                return None
            newest = list(self._newest(seq))
        said = self._talk.resolved(map(self._as_it_was, newest))
        own = (event for event in said if event.run == run or event.type == "opened")
        return find_asked_call(own, tool, params)

    def _newest(self, seq: int) -> Iterator[Event]:
        """The events from the newest back to ``seq``."""
        if self._writer.staged_lines():
            return reversed(list(self.events(seq)))
        return read_range(self._writer.log, start=seq, reverse=True)

    @abstractmethod
    def _as_it_was(self, event: Event) -> Event:
        """The event with the words that were said while this object was there to hear them."""

    def messages(
        self, provider: str = "neutral", *, incomplete: str = "mark"
    ) -> list[dict[str, Any]]:
        """The conversation as the provider takes it: valid in every state of the session.

        The list is the caller's; the messages in it are shared and to be read only.
        """
        if not isinstance(provider, str) or not isinstance(incomplete, str):
            raise UsageError("a provider, and what becomes of incomplete calls, are texts")
        with self._lock:
            self._settle()
            return self._talk.messages(provider, incomplete)


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


def _text_of(content: Any) -> str:
    """The words in a message's content."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))
