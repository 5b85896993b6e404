"""The conversation of a live session, built when first asked for and kept up to date after that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.errors import UsageError
from holdfast.model import Event
from holdfast.session.reader import resolve_blobs
from holdfast.storage import Documents, Store

if TYPE_CHECKING:
    from holdfast.replay import Conversation, Issue
    from holdfast.session._journal import Journal

# A conversation that nobody asks for is brought up to date in steps of this many events.
_UNFED_MAX = 512
_LINES_MAX = 10_000
_logged: dict[tuple[str, str], str] = {}


class LiveConversation:
    """One conversation for each way of treating calls without a result."""

    def __init__(self, read_all: Callable[[], Iterable[Event]], documents: Documents) -> None:
        self._read_all = read_all
        self._documents = documents
        self._conversations: dict[str, Conversation] = {}
        self._unfed: list[Event] = []
        self._feeding = False
        self.active = False
        """Whether events must be taken as they come."""

    def begin_again(self) -> None:
        """Forget what was taken; the next one who asks has it read from the log."""
        self._conversations, self._unfed, self._feeding, self.active = {}, [], False, False

    def take(self, event: Event) -> None:
        """The next event of the session."""
        self._unfed.append(event)
        if len(self._unfed) > _UNFED_MAX:
            self._feed()

    def messages(self, provider: str, incomplete: str) -> list[dict[str, Any]]:
        """The conversation up to the last event that was taken."""
        self._feed()
        conversation = self._conversations.get(incomplete)
        if conversation is None:
            conversation = _conversation(incomplete)
            for event in self.resolved(self._read_all()):
                conversation.feed(event)
            self._conversations[incomplete] = conversation
            self.active = True
        return conversation.messages(provider)

    def issues(self, incomplete: str) -> list[Issue]:
        """What of the log did not come into the conversation as it is."""
        self.messages("neutral", incomplete)
        return self._conversations[incomplete].issues

    def resolved(self, events: Iterable[Event]) -> Iterator[Event]:
        """Events with their big payloads in place."""
        return resolve_blobs(events, self._documents)

    def _feed(self) -> None:
        if self._feeding:
            self.begin_again()  # the last one was interrupted half-way
        if not self._unfed:
            return
        self._feeding = True
        for event in self.resolved(self._unfed):
            for conversation in self._conversations.values():
                conversation.feed(event)
        self._unfed, self._feeding = [], False


def _conversation(incomplete: str) -> Conversation:
    """An empty one. What makes messages is loaded with the first one that is asked for."""
    from holdfast.replay import Conversation

    return Conversation(incomplete=incomplete)


def messages(journal: Journal, provider: str, incomplete: str) -> list[dict[str, Any]]:
    """The conversation as the provider takes it: valid in every state of the session."""
    if not isinstance(provider, str) or not isinstance(incomplete, str):
        raise UsageError("a provider, and what becomes of incomplete calls, are texts")
    with journal.lock:
        journal.settle()
        return journal.talk.messages(provider, incomplete)


def history(journal: Journal) -> list[dict[str, Any]]:
    """Every user and assistant turn with its time in seconds."""
    return [
        {
            "role": event.type,
            "content": event.data.get("content"),
            "timestamp": event.timestamp / 1000,
        }
        for event in journal.talk.resolved(journal.events())
        if event.type in ("user", "assistant")
    ]


def current_prompt(journal: Journal) -> str:
    """What the user said in the turn that is going on; empty between turns."""
    with journal.lock:
        turn = journal.live_state.open_turn
        newest = [] if turn is None else list(journal.newest(turn.seq))
    said = journal.talk.resolved(map(journal.as_it_was, reversed(newest)))
    texts = [_text_of(event.data.get("content")) for event in said if event.type == "user"]
    return "\n".join(text for text in texts if text)


def _text_of(content: Any) -> str:
    """The words in a message's content."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def warn_of_recovery(journal: Journal) -> None:
    """Warn, in the log of the program, of what had to be changed for the session to go on."""
    with journal.lock:
        issues = journal.talk.issues("mark")
    log_recovery(journal.store, journal.id, issues)


def log_recovery(store: Store, session_id: str, issues: Sequence[Issue]) -> None:
    """Warn of what a recovery changed, in the log of the program.

    Once for each session, and again only when something else had to be changed.
    """
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
