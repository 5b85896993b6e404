"""The open questions of all sessions, which any process can answer."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.errors import Conflict, HoldfastError, NotFound, UsageError
from holdfast.library import _finder, _views
from holdfast.library._core import Core, check_text, whole
from holdfast.model import check_id
from holdfast.session import (
    Answer,
    Result,
    Waiting,
    answered_already,
    answered_by,
    check_settled,
    drop_answer,
    expired,
    give_answers,
    is_late,
    kept_answers,
    now_ms,
    overdue,
    read_answer,
    resolve_blobs,
    waiting_of,
)

if TYPE_CHECKING:
    from holdfast.model import Event, SessionMetadata
    from holdfast.replay import AskState
    from holdfast.storage import Documents

_TOKENS = "tokens/"
_SIGNALS, _SIGNAL = "shared/signals", "signal-"
_SIGNAL_MS = 24 * 3600 * 1000  # how long a signal that no session waits for yet is kept
_NEWEST = 20  # sessions that are searched for a question that is not open
_UNNAMED = "agent"  # the name of an Agent that was given none
_STATUSES = ("waiting", "suspended", "running", "interrupted")

Asks = tuple["SessionMetadata", dict[str, "AskState"]]


class Inbox:
    """The open questions of all sessions, tokens to answer them with, and events that sessions wait for."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def find(self, prefix: str, session: str | None = None) -> Waiting:
        """Return the open question whose id begins with a prefix.

        Raises NotFound, and UsageError if several do, or if it was answered already or has expired.
        """
        return _find(self._core, *_named(self._core, prefix, session))

    def answer(self, prefix: str, given: Any, **said: Any) -> Answer:
        """Answer the question whose id begins with a prefix, as ``Holdfast.answer`` does."""
        id, session_id = _named(self._core, prefix)
        return give_answer(self._core, id, given, session_id=session_id, **said)

    def give(self, session_id: str, answers: Mapping[str, Any], *, by: str = "user") -> list[Answer]:
        """Answer questions of one session, whichever process has it open: all of them or, with UsageError, none."""
        self._core.check_open()
        redacted = self._core.redacted
        return _give(
            self._core, session_id, [read_answer(id, one, by=by, redacted=redacted) for id, one in answers.items()]
        )

    def session_of(self, id: str) -> str:
        """Return the session of a question. Raises UsageError if there is no such question."""
        return _session_of(self._core, id)

    def count(self) -> int:
        """Return the number of open questions."""
        return sum(ask.for_person for _, _, ask in _open_asks(self._core))

    def due(
        self, agent: str | None = None, tools: Collection[str] | None = None, session: str | None = None
    ) -> list[str]:
        """Return the ids of sessions that can go on, because of an answer or a deadline, and that no process has open.

        With ``tools``, only those whose approved calls are of these, and others that are of ``agent`` or of one without
        a name: another agent would refuse what was approved.
        """
        check_text("an agent", agent)
        found = [(meta, asks) for meta, asks in _asks(self._core, session) if _is_due(self._core, meta, asks, agent)]
        return [meta.session_id for meta, asks in found if tools is None or _knows(tools, asks, agent)]

    def signal(self, event: str, value: Any = None, *, by: str = "webhook") -> list[str]:
        """Deliver an event to all calls that wait for it (``Suspend(event=…)``); return their sessions.

        An event that no call waits for yet is kept for a day, for the first that does.
        """
        import secrets

        check_text("an event", event)
        self._core.check_open()
        read_answer("", Result(value), by=by)
        if (redactor := self._core.redactor()) is not None:
            redactor.check_name(event, "an event")  # its name is how waiting sessions find it
        value = self._core.redacted({"value": value})["value"]
        # Kept first: a call that begins to wait meanwhile either finds it there, or is found here.
        documents, now = self._core.store.documents(_SIGNALS), now_ms()
        for old in documents.names(_SIGNAL):
            if int(old.split("-")[2], 16) + _SIGNAL_MS <= now:
                documents.delete(old)
        name = f"{_signals(event)}{now:012x}-{secrets.token_hex(6)}"
        documents.put(name, msgspec.json.encode(_Signal(event=event, value=value, at=now, by=by)))
        told = []
        for meta, asks in _asks(self._core):
            for id, ask in asks.items():
                if ask.is_open and ask.event == event and _tell(self._core, meta.session_id, id, value, by):
                    told.append(meta.session_id)
        if told:
            documents.delete(name)
        return list(dict.fromkeys(told))

    def take_signals(self, session_id: str, asks: dict[str, AskState]) -> None:
        """Answer the questions of a session whose events came before they were asked."""
        answered = kept_answers(_documents(self._core, session_id))
        wanted = {ask.event: id for id, ask in asks.items() if ask.is_open and ask.event and id not in answered}
        documents = self._core.store.documents(_SIGNALS)
        for event, id in wanted.items():
            for name in sorted(documents.names(_signals(event))):
                if _take_signal(self._core, documents, name, session_id, id):
                    documents.delete(name)
                    break

    def token(self, id: str, holder: str, expires_in_ms: int | None = None) -> str:
        """Return a token with which ``holder``, or anyone they give it to, can answer one question.

        Only its digest is kept. Raises UsageError if the question is no longer open.
        """
        import secrets

        check_text("a holder", holder)
        if not holder:
            raise UsageError("a token has a holder, by whom the answer is then")
        lasts = None if expires_in_ms is None else now_ms() + whole("expires_in_ms", expires_in_ms)
        session_id = _session_of(self._core, id)
        _find(self._core, id, session_id)
        token = f"{id}.{secrets.token_urlsafe(24)}"
        holder = self._core.redacted({"by": holder})["by"]
        kept = _Token(ask=id, holder=holder, digest=_digest(token), expires_at=lasts)
        _documents(self._core, session_id).put(_TOKENS + kept.digest, msgspec.json.encode(kept))
        return token

    def revoke_token(self, token: str) -> bool:
        """Revoke a token; return whether it could still answer a question."""
        check_text("a token", token)
        session_id = _session_of(self._core, token.partition(".")[0])
        return _documents(self._core, session_id).delete(_TOKENS + _digest(token))

    def answer_by_token(self, token: str, answer: Any, because: str | None = None) -> Answer:
        """Answer the question of a token on behalf of its holder. Raises UsageError."""
        import hmac

        check_text("a token", token)
        id, session_id = token.partition(".")[0], ""
        try:
            session_id = _session_of(self._core, id)
            found = _documents(self._core, session_id).get(_TOKENS + _digest(token))
        except (NotFound, UsageError):
            found = None
        kept = None if found is None else msgspec.json.decode(found[0], type=_Token)
        if kept is None or not hmac.compare_digest(kept.digest, _digest(token)):
            raise UsageError("this token answers no question")
        if kept.expires_at is not None and kept.expires_at <= now_ms():
            raise UsageError("this token has expired")
        return give_answer(self._core, id, answer, by=kept.holder, via="token", because=because, session_id=session_id)


def _find(core: Core, id: str, session_id: str) -> Waiting:
    for one in waiting(core, session=session_id):
        if one.id == id:
            return one
    answer = kept_answers(_documents(core, session_id)).get(id) or _recorded(core, id, session_id)
    raise expired(id, session_id) if answer is None else answered_already(answer, session_id)


def waiting(core: Core, agent: str | None = None, session: str | None = None) -> list[Waiting]:
    """Return the open questions, the oldest first."""
    check_text("an agent", agent)
    found = [
        (meta.session_id, id, ask)
        for meta, id, ask in _open_asks(core, session)
        if agent in (None, ask.agent, meta.agent_id)
    ]
    found.sort(key=lambda one: (one[2].asked_at, one[0], one[2].seq))
    return [waiting_of(session_id, id, ask, _args(core, session_id, ask)) for session_id, id, ask in found]


def _open_asks(core: Core, session: str | None = None) -> Iterator[tuple[SessionMetadata, str, AskState]]:
    """Yield the unanswered questions that are not overdue, with their sessions."""
    now = now_ms()
    for meta, asks in _asks(core, session):
        answered = kept_answers(_documents(core, meta.session_id))
        for id, ask in asks.items():
            if ask.is_open and id not in answered and not is_late(ask, now) and overdue(id, ask, now) is None:
                yield meta, id, ask


def _knows(tools: Collection[str], asks: dict[str, AskState], agent: str | None) -> bool:
    return all(_knows_one(tools, ask, agent) for ask in asks.values())


def _knows_one(tools: Collection[str], ask: AskState, agent: str | None) -> bool:
    if ask.above or ask.tool in tools:  # a delegate has its own tools
        return True
    # A time, an event or a value needs no tool: it is for the agent that waits, and for any if that has no name.
    is_own = ask.agent in (agent, _UNNAMED) if ask.tool else agent is not None and ask.agent == agent
    return ask.kind != "permission" and is_own


def _is_due(core: Core, meta: SessionMetadata, asks: dict[str, AskState], agent: str | None) -> bool:
    if agent is not None and agent != meta.agent_id and agent not in {ask.agent for ask in asks.values()}:
        return False
    now = now_ms()
    if any(ask.is_open and overdue(id, ask, now) is not None for id, ask in asks.items()):
        return True
    if any(not ask.is_open for ask in asks.values()) and not meta.open:
        return True
    return any(id in asks for id in kept_answers(_documents(core, meta.session_id)))


def give_answer(
    core: Core,
    id: str,
    given: Any,
    *,
    by: str = "user",
    via: str = "api",
    because: str | None = None,
    scope: str = "once",
    session_id: str | None = None,
) -> Answer:
    """Answer a question, whichever process has its session. Returns the answer that counts, once it is durable."""
    core.check_open()
    said = read_answer(id, given, by=by, via=via, reason=because, scope=scope, redacted=core.redacted)
    return _give(core, session_id or _session_of(core, id), [said])[0]


def _give(core: Core, session_id: str, said: list[Answer]) -> list[Answer]:
    documents, asks = _documents(core, session_id), _views.state(core, session_id).asks

    def recorded() -> Iterator[Event]:
        return resolve_blobs(_views.events(core, session_id, types=("permission",)), documents)

    found = give_answers(session_id, asks, documents, recorded, said)
    # The process that has the session may have recorded another answer meanwhile, and removed its document.
    for number, answer in enumerate(said):
        counts = answered_by(recorded(), answer.id)
        if counts is not None:
            if found[number] is answer and counts != answer:
                drop_answer(documents, answer.id)
            check_settled(answer, counts, session_id)
            found[number] = counts
    return found


# Tokens for an outside party: each answers one question, and reveals nothing else.
class _Token(msgspec.Struct, frozen=True, kw_only=True):
    ask: str
    holder: str
    digest: str
    expires_at: int | None = None


def _digest(token: str) -> str:
    import hashlib  # it loads OpenSSL

    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


# Events from outside that sessions wait for.
class _Signal(msgspec.Struct, frozen=True, kw_only=True):
    event: str
    value: Any = None
    at: int
    by: str
    ask: str | None = None
    """The question that it answers, in case a crash kept the session from receiving the answer."""


def _signals(event: str) -> str:
    import hashlib  # it loads OpenSSL

    return f"{_SIGNAL}{hashlib.sha256(event.encode()).hexdigest()[:24]}-"


def _tell(core: Core, session_id: str, id: str, value: Any, by: str) -> bool:
    """Answer a question with the data of its event; return False if it has another answer already."""
    with contextlib.suppress(UsageError):
        give_answer(core, id, Result(value), by=by, via="webhook", session_id=session_id)
        return True
    return False


def _take_signal(core: Core, documents: Documents, name: str, session_id: str, id: str) -> bool:
    found = documents.get(name)
    kept = None if found is None else msgspec.json.decode(found[0], type=_Signal)
    if found is None or kept is None or kept.ask not in (None, id) or kept.at + _SIGNAL_MS <= now_ms():
        return False
    # Answered before it is removed, so that a crash in between does not let another question have it too.
    with contextlib.suppress(Conflict):
        documents.put(name, msgspec.json.encode(msgspec.structs.replace(kept, ask=id)), if_match=found[1])
        return _tell(core, session_id, id, kept.value, kept.by)
    return False


def _asks(core: Core, session: str | None = None) -> Iterator[Asks]:
    """Yield the sessions that have questions and are not archived, each with its questions."""
    core.check_open()
    if session is not None:
        meta = _finder.info(core, check_id(session))
        asks = _views.state(core, session).asks
        if asks and not meta.archived:
            yield meta, asks
        return
    for id in core.catalog.asking():
        try:
            meta, asks = _finder.info(core, id), core.catalog.asks(id)
        except HoldfastError:
            continue  # a session that does not open must not fail the list
        if asks and not meta.archived:
            yield meta, asks
    if core.store.has_keys:
        yield from _sealed_asks(core)


def _sealed_asks(core: Core) -> Iterator[Asks]:
    """Yield the sealed sessions that have questions: they are not in the index, and need the key."""
    for status in _STATUSES:
        for meta in _finder.all_sessions(core, status=status, archived=False):
            try:
                if meta.state == "ok" and not core.catalog.asks(meta.session_id):
                    asks = _views.state(core, meta.session_id).asks
                    if asks:
                        yield meta, asks
            except HoldfastError:
                continue


def _session_of(core: Core, id: str) -> str:
    check_text("the id of a question", id)
    for known, session_id in _known(core, id):
        if known == id:
            return session_id
    raise UsageError(f"there is no question {str(id)[:40]!a}", remedy="`holdfast waiting` lists the open ones.")


def _named(core: Core, prefix: str, session: str | None = None) -> tuple[str, str]:
    """Return the id that begins with a prefix, and its session: of an open question, else of one answered lately."""
    check_text("the id of a question", prefix)
    if not prefix:
        raise UsageError("a question is named by its id", remedy="`holdfast waiting` lists them.")
    found = {id: meta.session_id for meta, id, _ in _open_asks(core, session) if id.startswith(prefix)}
    found = found or {id: of for id, of in _known(core, prefix) if session in (None, of)}
    if not found:
        raise NotFound(f"no open question begins with {prefix[:40]!a}", remedy="`holdfast waiting` lists them.")
    if len(found) > 1:
        raise UsageError(f"{len(found)} open questions begin with {prefix!a}", remedy="Give more of the id.")
    return found.popitem()


def _known(core: Core, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield the ids that begin with a prefix, of questions open or answered, with their sessions."""
    for meta, asks in _asks(core):
        yield from ((id, meta.session_id) for id in asks if id.startswith(prefix))
    # A question that was carried out is in no index; a repeated answer comes soon after.
    for meta in _finder.list_sessions(core, _NEWEST):
        with contextlib.suppress(HoldfastError):
            for event in _views.events(core, meta.session_id, types=("permission",)):
                if isinstance(id := event.data.get("id"), str) and id.startswith(prefix):
                    yield id, meta.session_id


def _recorded(core: Core, id: str, session_id: str) -> Answer | None:
    events = _views.events(core, session_id, types=("permission",))
    return answered_by(resolve_blobs(events, _documents(core, session_id)), id)


def _args(core: Core, session_id: str, ask: AskState) -> Any:
    if ask.call_seq < 0:
        return None
    events = _views.events(core, session_id, start=ask.call_seq, limit=1)
    event = next(resolve_blobs(events, _documents(core, session_id)), None)
    return None if event is None else event.data.get("params")


def _documents(core: Core, session_id: str) -> Documents:
    return core.store.documents(core.stored(session_id))
