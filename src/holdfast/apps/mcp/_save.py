"""What other agents may add to sessions, where that is allowed."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.apps.mcp._answers import choose
from holdfast.errors import TooLarge, UsageError
from holdfast.library import Holdfast
from holdfast.library.answers.briefs import Saved
from holdfast.library.answers.sessions import SessionForked
from holdfast.session import Resume

TEXT_CHARS_MAX = 200_000
_AGENT = "mcp"


def save(hf: Holdfast, text: str, *, role: str, session_id: str | None, title: str | None) -> Any:
    """Append something to a session, or begin one with it; where it is now.

    A note is kept in the session's memory, beside the conversation. Raises Locked while another
    process has the session, TooLarge, UsageError.
    """
    if not text.strip():
        raise UsageError("there is nothing to save", remedy="Give a text.")
    if len(text) > TEXT_CHARS_MAX:
        raise TooLarge(f"a text has at most {TEXT_CHARS_MAX:,} characters", remedy="Save less.")
    known = None if session_id is None else choose(hf, session_id)
    resume: Resume = "auto" if known is None else "always"
    agent_id = _AGENT if known is None else None
    with hf.session(known, resume=resume, title=title, agent_id=agent_id) as session:
        if role == "note":
            session.memory.set(
                f"note-{session.seq + 1}", text, description="saved by another agent"
            )
        elif role == "user":
            session.user(text, metadata={"saved_by": _AGENT})
        else:
            session.assistant(text, metadata={"saved_by": _AGENT})
        session.flush()
        return msgspec.to_builtins(Saved(session_id=session.id, seq=session.seq))


def fork(hf: Holdfast, session_id: str, *, at: int | None, title: str | None) -> Any:
    """A new session with the events of another up to a point."""
    parent = choose(hf, session_id)
    made = hf.fork(parent, at, title=title)
    origin = hf.state(made).parent
    told = SessionForked(session_id=made, parent=parent, at=None if origin is None else origin.seq)
    return msgspec.to_builtins(told)
