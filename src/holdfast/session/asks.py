"""Questions that a session waits for, and their answers, which any process may give.

A log has one writer, and a person may answer while another process has the session open. So an answer is a
document first, which is put only if there is none: the first one wins, on every store. The process that has the
session turns it into an event, and removes the document once that is on the medium.
"""

# Loaded late: most sessions wait for nothing.

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.errors import Conflict, QuestionSettled, UsageError
from holdfast.replay import AskState
from holdfast.session._clock import now_ms
from holdfast.storage import MUST_NOT_EXIST, Documents

if TYPE_CHECKING:
    from holdfast.model import Event
    from holdfast.session.session import Session

ANSWERS = "answers/"
_ID_BYTES = 6


class Edited(msgspec.Struct, frozen=True):
    """Approve a call with other arguments than the model's."""

    args: dict[str, Any]


class Result(msgspec.Struct, frozen=True):
    """Answer in place of the tool, which does not run."""

    value: Any


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An answer to a question: the document, and the data of its event."""

    id: str
    decision: str
    """``allow``, ``deny``, ``edit`` or ``result``."""
    args: dict[str, Any] | None = None
    result: Any = None
    reason: str | None = None
    by: str = "user"
    via: str = "api"
    at: int = 0
    scope: str = "once"
    """For how long an approval counts: ``once``, for the ``session``, or ``always``."""

    def is_same(self, other: Answer) -> bool:
        """Return whether it is the same decision, apart from who gave it."""
        return (self.id, self.decision, self.args, self.result) == (other.id, other.decision, other.args, other.result)

    def __str__(self) -> str:
        from holdfast.replay import DECIDED

        when = datetime.fromtimestamp(self.at / 1000, UTC).isoformat(timespec="seconds")
        return f"{DECIDED.get(self.decision, self.decision)} by {self.by} at {when}"


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """An open question. Times are Unix milliseconds."""

    id: str
    session_id: str
    run: str | None = None
    tool: str = ""
    args: Any = None
    """The arguments of the waiting call; None if they cannot be read."""
    reason: str = ""
    asked_at: int = 0
    expires_at: int | None = None
    kind: str = "permission"
    """``permission`` or ``input`` asks a person; ``time`` or ``event`` does not."""
    agent: str | None = None
    call: str | None = None
    digest: str = ""
    until: int | None = None
    event: str | None = None
    replayable: bool = True
    """True if an approved call can be made from the log; otherwise the model is told to make it again."""
    token: str | None = None
    """The token for ``agent.resume(token, value)``; only the run that asks knows it."""


def waiting_of(session_id: str, id: str, ask: AskState, args: Any = None, token: str | None = None) -> Waiting:
    """Return an open question as people see it."""
    names = [name for name in Waiting.__struct_fields__ if hasattr(ask, name) and name != "token"]
    known = {name: getattr(ask, name) for name in names}
    return Waiting(id=id, session_id=session_id, args=args, token=token, **known)


def ask_id(log: str | None, run: str | None, call: str | None, kind: str) -> str:
    """Return the id of a question, which is the same if it is asked again after a crash."""
    from hashlib import blake2b  # it loads OpenSSL

    return blake2b("\0".join((log or "", run or "", call or "", kind)).encode(), digest_size=_ID_BYTES).hexdigest()


_SCOPES = ("once", "session", "always")


def read_answer(
    id: str, given: Any, *, redacted: Callable[[dict[str, Any]], dict[str, Any]] | None = None, **said: Any
) -> Answer:
    """Return a caller's answer in the form of its event; its document is kept first. Raises UsageError."""
    answer = _read(id, given, **said)
    return answer if redacted is None else msgspec.convert(redacted(msgspec.structs.asdict(answer)), Answer)


def _read(
    id: str, given: Any, *, by: str = "user", via: str = "api", reason: str | None = None, scope: str = "once"
) -> Answer:
    if isinstance(given, Answer):
        return given
    for name, text in (("by", by), ("via", via), ("reason", reason)):
        if text is not None and not isinstance(text, str):
            raise UsageError(f"{name} is a text, not {type(text).__name__}")
    if scope not in _SCOPES:
        raise UsageError(f"scope {scope!r:.40} is none of {', '.join(_SCOPES)}")
    known: dict[str, Any] = {"id": id, "by": by, "via": via, "reason": reason, "at": now_ms(), "scope": scope}
    if isinstance(given, bool):
        return Answer(decision="allow" if given else "deny", **known)
    if isinstance(given, Edited):
        if not isinstance(given.args, dict):
            raise UsageError(f"edited arguments are a dict, not {type(given.args).__name__}")
        return _plain(Answer(decision="edit", args=given.args, **known))
    if isinstance(given, Result):
        return _plain(Answer(decision="result", result=given.value, **known))
    raise UsageError(f"{given!r:.60} is no answer", remedy="Answer with True, False, Edited(args) or Result(value).")


def _plain(answer: Answer) -> Answer:
    try:
        return msgspec.json.decode(msgspec.json.encode(answer), type=Answer)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"the answer cannot be written as JSON: {error}") from error


def put_answer(documents: Documents, answer: Answer) -> Answer:
    """Keep an answer, durably, unless there is one; return the one that counts."""
    name = ANSWERS + answer.id
    while True:
        try:
            documents.put(name, msgspec.json.encode(answer), if_match=MUST_NOT_EXIST)
        except Conflict:
            found = documents.get(name)
            if found is not None:
                return msgspec.json.decode(found[0], type=Answer)
        else:
            return answer


def kept_answers(documents: Documents) -> dict[str, Answer]:
    """Return the answers that are not recorded as events yet, by question."""
    found = {name.removeprefix(ANSWERS): documents.get(name) for name in documents.names(ANSWERS)}
    return {id: msgspec.json.decode(one[0], type=Answer) for id, one in found.items() if one is not None}


def drop_answer(documents: Documents, id: str) -> None:
    """Remove the document of an answer, once it is recorded or it does not count."""
    documents.delete(ANSWERS + id)


def answered_by(events: Iterable[Event], id: str) -> Answer | None:
    """Return the recorded answer to a question."""
    for event in events:
        if event.type == "permission" and event.data.get("id") == id:
            names = [name for name in Answer.__struct_fields__ if event.data.get(name) is not None]
            return msgspec.convert({name: event.data[name] for name in names}, Answer)
    return None


def overdue(id: str, ask: AskState, now: int) -> Answer | None:
    """Return the answer that time gives to a question: its time has come, or it has expired."""
    if not ask.is_open:
        return None
    if ask.until is not None and now >= ask.until:
        when = datetime.fromtimestamp(ask.until / 1000, UTC).isoformat()
        return Answer(id=id, decision="result", result=f"waited until {when}", by="timer", via="timer", at=now)
    # A question of an earlier version has a token and no id of its own: a new message ends its waiting.
    if ask.for_person and "@" not in id and is_late(ask, now):
        decision = "allow" if ask.on_expiry == "allow" else "deny"
        return Answer(id=id, decision=decision, reason="nobody answered in time", by="expiry", via="expiry", at=now)
    return None


def is_late(ask: AskState, now: int) -> bool:
    """Return whether it is too late to answer a question."""
    return ask.expires_at is not None and now >= ask.expires_at


def documents_of(session: Session) -> Documents:
    """Return the documents with the answers for a session."""
    return session.store.documents(session.key)


def give_answers(
    session_id: str,
    asks: Mapping[str, AskState],
    documents: Documents,
    events: Callable[[], Iterable[Event]],
    answers: Iterable[Answer],
) -> list[Answer]:
    """Keep answers for a session, whichever process has it open; return those that count.

    Raises UsageError, before anything is kept, for an invalid one.
    """
    answers, open_ones = list(answers), {id: ask for id, ask in asks.items() if ask.is_open}
    for answer in answers:
        ask = open_ones.get(answer.id)
        if ask is None:
            check_settled(answer, answered_by(events(), answer.id), session_id)
        elif is_late(ask, now_ms()):
            raise expired(answer.id, session_id)
        elif answer.decision == "edit" and ask.kind != "permission":
            raise UsageError(
                f"question {answer.id} asks for no permission, so that there is no call to change",
                remedy="Answer with Result(value).",
                session_id=session_id,
            )
    counting = [put_answer(documents, answer) if answer.id in open_ones else answer for answer in answers]
    for answer, counts in zip(answers, counting, strict=True):
        check_settled(answer, counts, session_id)
    return counting


def check_settled(answer: Answer, counts: Answer | None, session_id: str) -> None:
    """Raise UsageError unless the answer that counts says the same as this one."""
    if counts is None:
        raise UsageError(
            f"no question {answer.id} is open in session {session_id}",
            remedy="`holdfast waiting` lists the open ones.",
            session_id=session_id,
        )
    if counts.by == "expiry":
        raise expired(answer.id, session_id)
    if not counts.is_same(answer):
        raise answered_already(counts, session_id)


def answered_already(counts: Answer, session_id: str) -> QuestionSettled:
    """Return the error for a question that has an answer."""
    return QuestionSettled(f"question {counts.id} was answered already: {counts}", session_id=session_id)


def expired(id: str, session_id: str) -> QuestionSettled:
    """Return the error for a question that can no longer be answered."""
    told = f"question {id} has expired; what its settings say counts as its answer"
    return QuestionSettled(told, remedy="`holdfast waiting` lists what is open.", session_id=session_id)


def is_due(session: Session) -> bool:
    """Return whether a session that is open here can go on: there is an answer, or a time has come."""
    asks, now = session.live_state.asks, now_ms()
    if any(not ask.is_open or overdue(id, ask, now) is not None for id, ask in asks.items()):
        return True
    return bool(asks) and any(name.removeprefix(ANSWERS) in asks for name in documents_of(session).names(ANSWERS))


def take_answers(session: Session) -> bool:
    """Turn the answers for a session, and those that time gives, into events; return whether there were any.

    Only for the process that has the session. The documents go once the events are on the medium.
    """
    asks, documents, now = session.live_state.asks, documents_of(session), now_ms()
    late = [found for id, ask in asks.items() if (found := overdue(id, ask, now)) is not None]
    for answer in late:
        put_answer(documents, answer)
    if not late and not documents.names(ANSWERS):
        return False
    kept, taken = kept_answers(documents), False
    for id, answer in kept.items():
        ask = asks.get(id)
        if ask is not None and ask.is_open:
            data = {"call": ask.call, "tool": ask.tool or None, **msgspec.structs.asdict(answer)}
            nothing = () if answer.decision == "result" else ("result",)
            data = {name: value for name, value in data.items() if value is not None and name not in nothing}
            session.append("permission", data, run=ask.run)
            taken = True
    session.flush()
    for id in kept:
        drop_answer(documents, id)
    return taken


# Waiting for a time, without a call that waits.
_TICK_S = 1.0  # so that a clock that is set forward is noticed


def sleep_until(session: Session, when: datetime) -> None:
    """Wait until a time, durably. Raises UsageError for a time without a zone."""
    id = _begin_sleep(session, when)
    if id is not None:
        session.flush()
        for seconds in _ticks(session, id):
            sleep(seconds)
        _end_sleep(session, id)


async def asleep_until(session: Session, when: datetime) -> None:
    """Do what ``sleep_until`` does without blocking the event loop."""
    import asyncio

    id = _begin_sleep(session, when)
    if id is not None:
        await session.aflush()
        for seconds in _ticks(session, id):
            await asyncio.sleep(seconds)
        _end_sleep(session, id)


def _begin_sleep(session: Session, when: datetime) -> str | None:
    """Record that a session waits until a time; return the id, or None if the time has come. Raises UsageError."""
    if not isinstance(when, datetime) or when.tzinfo is None:
        raise UsageError(
            f"the time to wait for is a datetime with a time zone, not {when!r:.60}", remedy="datetime.now(UTC) + …"
        )
    until = math.ceil(when.timestamp() * 1000)  # never before the time
    id = ask_id(session.id, None, str(until), "time")
    ask = session.live_state.asks.get(id)
    if until <= now_ms():
        if ask is not None:
            _end_sleep(session, id)
        return None
    if ask is None:
        known = {"id": id, "kind": "time", "until": until, "agent": session.agent_id}
        session.append("suspended", {name: value for name, value in known.items() if value is not None})
    return id


def _ticks(session: Session, id: str) -> Iterator[float]:
    """Yield how long to sleep, repeatedly, until the time has come or the waiting was ended.

    A clock that is set back makes it no longer than it was when this began.
    """
    ask = session.live_state.asks[id]
    assert ask.until is not None
    end = monotonic() + (ask.until - now_ms()) / 1000
    while id in session.live_state.asks:
        left = min(end - monotonic(), (ask.until - now_ms()) / 1000)
        if left <= 0:
            return
        yield min(left, _TICK_S)


def _end_sleep(session: Session, id: str) -> None:
    """Record that the time has come."""
    if id in session.live_state.asks:
        session.append("resumed", {"reason": "the time has come", "ids": [id]})
    drop_answer(documents_of(session), id)
