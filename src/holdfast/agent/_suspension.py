"""Waiting for someone: a token that is given out once, works once and expires."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

import msgspec

from holdfast.agent._context import Suspend
from holdfast.agent._run_log import RunLog
from holdfast.errors import ResumeTokenExpired, ResumeTokenInvalid, ResumeTokenUsed
from holdfast.session import Session

_TOKEN_BYTES = 24


class Suspension(msgspec.Struct, frozen=True):
    """What a suspended run gives: the token to go on with, until ``expires_at`` (Unix ms)."""

    token: str
    reason: str
    resume_as: str
    expires_at: int


class Waiting(msgspec.Struct):
    """A suspension as the log knows it: the token's digest, never the token."""

    digest: str
    expires_at: int
    resume_as: str
    call: str | None
    done: bool = False


def suspend(talk: RunLog, call_id: str, wish: Suspend, now: int) -> Suspension:
    """Record that the run waits, and make the token."""
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    suspension = Suspension(token, wish.reason, wish.resume_as, now + wish.expires_in_ms)
    talk.append(
        "suspended",
        {
            "reason": wish.reason,
            "token": _digest(token),
            "expires_at": suspension.expires_at,
            "resume_as": wish.resume_as,
            "call": call_id,
            "agent": talk.agent,
        },
    )
    return suspension


def find_waiting(session: Session, token: str, now: int) -> Waiting:
    """The suspension that a token belongs to.

    Raises ResumeTokenInvalid, ResumeTokenUsed or ResumeTokenExpired.
    """
    found = _read(session).get(_digest(token))
    if found is None:
        raise ResumeTokenInvalid(session_id=session.id)
    if found.done:
        raise ResumeTokenUsed(session_id=session.id)
    if found.expires_at <= now:
        raise ResumeTokenExpired(session_id=session.id, expires_at=found.expires_at)
    return found


def revoke(talk: RunLog) -> None:
    """Go on without the answer: its token is spent, and the call that waited for it is told."""
    waiting = [one for one in _read(talk.session).values() if not one.done]
    talk.append("resumed", {"reason": "superseded"})
    for one in waiting:
        if one.resume_as == "tool_result" and one.call is not None:
            message = "interrupted: the conversation went on before an answer came"
            talk.tool_result(one.call, {"error": True, "message": message}, is_error=True)


def _read(session: Session) -> dict[str, Waiting]:
    waiting: dict[str, Waiting] = {}
    for event in session.events():
        if event.type == "suspended":
            one = _waiting(event.data)
            waiting[one.digest] = one
        elif event.type in ("resumed", "forked", "merged"):
            digest = event.data.get("token")
            for one in waiting.values():
                # Without a token the session went on by itself: no answer is awaited any more. A
                # fork waits for nothing: the token is its parent's, and works once.
                one.done = one.done or digest in (None, one.digest)
    return waiting


def _waiting(data: dict[str, Any]) -> Waiting:
    expires_at, call = data.get("expires_at"), data.get("call")
    return Waiting(
        digest=str(data.get("token")),
        expires_at=expires_at if isinstance(expires_at, int) else 0,
        resume_as=str(data.get("resume_as", "user_message")),
        call=call if isinstance(call, str) else None,
    )


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
