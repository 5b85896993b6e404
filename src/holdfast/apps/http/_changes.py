"""What changes something: sessions made, events recorded, labels, branches, the trash."""

from __future__ import annotations

import hashlib

from holdfast.apps.http._call import Call
from holdfast.apps.http._problems import Refused
from holdfast.apps.http._queries import verify
from holdfast.apps.http._requests import Append
from holdfast.apps.http._spaces import LEASE_MS
from holdfast.errors import Conflict, NotFound
from holdfast.library.answers.care import ImportedIds, VerifiedSession
from holdfast.library.answers.events import Appended, SnapshotTaken
from holdfast.library.answers.sessions import SessionCreated, SessionMade, SessionRow
from holdfast.model import Event, is_reference, make_id
from holdfast.session import Session

_BEGUN = {"begun_by": "http"}
_REDACTED = b"[secret:"


def create(call: Call) -> SessionCreated:
    """A session that is on record at once. Raises Conflict if the id is taken."""
    wish = call.body
    made = _derived(call, wish.id)
    if made is not None and call.hf.exists(made):
        if call.key is None:
            raise Conflict(
                f"there is a session {made} already", remedy="Choose another id.", session_id=made
            )
        return SessionCreated(session_id=made, session=call.hf.info(made))
    options = {"title": wish.title, "agent_id": wish.agent_id, "lease_ms": LEASE_MS}
    with call.hf.session(made, resume="auto", **options) as session:
        session.append("metadata", _BEGUN)
        if wish.tags:
            session.tag(*wish.tags)
        session.barrier()
        made = session.id
    return SessionCreated(session_id=made, session=call.hf.info(made))


def append(call: Call) -> Appended:
    """One event."""
    return _append(call, [call.body])


def append_many(call: Call) -> Appended:
    """Several, all of them or none."""
    return _append(call, call.body.events)


def label(call: Call) -> SessionRow:
    """Title, tags and pin, as far as they are given."""
    wish, session = call.body, _open(call)
    if wish.title is not None:
        session.title = wish.title
    if wish.add_tags:
        session.tag(*wish.add_tags)
    if wish.remove_tags:
        session.untag(*wish.remove_tags)
    if wish.pinned is not None:
        (call.hf.policies.pin if wish.pinned else call.hf.policies.unpin)(session.id)
    return SessionRow(session=call.hf.info(session.id))


def hold(call: Call) -> SessionRow:
    """A legal hold, or its end."""
    session, reason = _open(call), call.body.reason
    if reason is None:
        call.hf.policies.release(session.id)
    else:
        call.hf.policies.hold(session.id, reason)
    return SessionRow(session=call.hf.info(session.id))


def snapshot(call: Call) -> SnapshotTaken:
    """A snapshot of the newest state."""
    return SnapshotTaken(seq=_open(call).snapshot())


def fork(call: Call) -> SessionMade:
    """A new session from a moment of this one."""
    wish = call.body
    made = _derived(call, wish.new_id)
    if _was_done(call, made):
        return SessionMade(session_id=str(made))
    return SessionMade(session_id=call.hf.fork(call.id, wish.at, new_id=made, title=wish.title))


def restore(call: Call) -> SessionMade:
    """Back to an earlier moment, as a new session."""
    wish = call.body
    made = _derived(call, wish.new_id)
    if _was_done(call, made):
        return SessionMade(session_id=str(made))
    return SessionMade(session_id=call.hf.restore(call.id, wish.at, new_id=made))


def merge(call: Call) -> SessionMade:
    """A new session of two."""
    wish = call.body
    made = _derived(call, wish.new_id)
    if _was_done(call, made):
        return SessionMade(session_id=str(made))
    return SessionMade(
        session_id=call.hf.merge(
            call.id,
            wish.other,
            turns=wish.turns,
            policy=wish.policy,
            new_id=made,
            title=wish.title,
        )
    )


def import_bytes(call: Call) -> ImportedIds:
    """The sessions in a file of another tool, or in a bundle. Raises what kept all of them out."""
    report = call.hf.import_all([call.body], call.query.format)
    if report.errors and not report.ids:
        raise report.errors[0]
    problems = [row.reason or "" for row in report.failed]
    problems += [row.reason for row in report.skipped]
    return ImportedIds(sessions=report.ids, problems=problems)


def undelete(call: Call) -> SessionRow:
    """Back from the trash."""
    call.hf.undelete(call.id)
    return SessionRow(session=call.hf.info(call.id))


def repair(call: Call) -> VerifiedSession:
    """A whole log in the place of a damaged one."""
    call.hf.repair(call.id)
    return verify(call)


def _open(call: Call) -> Session:
    assert call.session is not None
    return call.session


def _append(call: Call, wishes: list[Append]) -> Appended:
    session = _open(call)
    recorded = record(session, wishes, call.key)
    return Appended(session_id=session.id, seqs=[event.seq for event in recorded])


def record(session: Session, wishes: list[Append], key: str | None) -> list[Event]:
    """Record events together. Raises Refused for a key that was used for another one.

    A legal hold is not among them: whoever may write could lift it so.
    """
    if any(wish.type == "metadata" and "legal_hold" in wish.data for wish in wishes):
        raise Refused(
            403, "scope", "a legal hold is no event of a client", "Use PUT /v1/sessions/{id}/hold."
        )
    events = [
        Event.make(wish.type, wish.data, run=wish.run, key=_key_of(wish, key, at, len(wishes)))
        for at, wish in enumerate(wishes)
    ]
    before = session.seq
    recorded = session.extend(events)
    for wish, event in zip(wishes, recorded, strict=True):
        if event.seq <= before:
            _check_same(wish, event)
    return recorded


def _key_of(wish: Append, key: str | None, at: int, count: int) -> str | None:
    if key is None or wish.key is not None:
        return wish.key
    return f"http.{key}" if count == 1 else f"http.{key}.{at}"


def _check_same(wish: Append, event: Event) -> None:
    """A key that comes again has to come with the same words."""
    # What is kept beside the log, or was taken out as a secret, is not there to be compared.
    whole = _REDACTED not in bytes(event.raw) and not any(map(is_reference, event.data.values()))
    if event.type != wish.type or (whole and event.data != wish.data):
        raise Refused(
            422, "key_reused", f"the key {str(event.key)[:80]!a} was used for another event",
            "Use a new key for each thing that is to happen once.",
        )  # fmt: skip


def _derived(call: Call, wanted: str | None) -> str | None:
    """The id of what is to be made: the one asked for, or always the same for a key."""
    if wanted is not None or call.key is None:
        return wanted
    about = f"{call.request.method}\0{call.request.url.path}\0{call.key}"
    digest = hashlib.sha256(about.encode()).digest()
    return make_id(int.from_bytes(digest[:6]) & (2**48 - 1), digest[6:16])


def _was_done(call: Call, made: str | None) -> bool:
    """Whether an earlier request with the same key made it already."""
    if not call.hf.exists(call.id):
        raise NotFound(f"there is no session {call.id}", session_id=call.id)
    if made is None or not call.hf.exists(made):
        return False
    if call.key is None:
        raise Conflict(
            f"there is a session {made} already", remedy="Choose another id.", session_id=made
        )
    return True
