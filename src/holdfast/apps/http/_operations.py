"""The operations of the HTTP API: their code, and the table that describes them."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable
from itertools import islice
from types import NoneType
from typing import Any, get_type_hints

import msgspec
from starlette.responses import Response

from holdfast.apps.http import _requests as requests
from holdfast.apps.http._call import EVENT_STREAM, JSON, Call, Endpoint, Refused
from holdfast.apps.http._inbox import answer_outside, answer_question, list_waiting, make_token, revoke_token, signal
from holdfast.apps.http._requests import Append
from holdfast.apps.http._spaces import LEASE_MS
from holdfast.apps.http._stream import follow
from holdfast.apps.http._turns import approve, begin_turn, cancel, steer
from holdfast.apps.http.tokens import METRICS_SCOPE
from holdfast.catalog import Stats
from holdfast.errors import Conflict, HoldfastError, NotFound
from holdfast.library.answers import events as answers
from holdfast.library.answers.search import SearchHits
from holdfast.library.answers.sessions import SessionCreated, SessionPage, SessionRow, TrashPage
from holdfast.library.answers.store import ImportedIds, ServerHealth, VerifiedSession
from holdfast.library.answers.turns import SessionMade, TurnAnswer
from holdfast.model import VERSION, Event, SessionMetadata, is_reference, make_id
from holdfast.observe import CONTENT_TYPE
from holdfast.replay import Comparison, State
from holdfast.session import Session, resolve_blobs

_PAGE_BYTES_MAX = 16 << 20
# The first and the last second that a datetime can be.
_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799
_MEDIA = {".md": "text/markdown", ".txt": "text/plain", ".json": "application/json"}


def list_sessions(call: Call) -> SessionPage:
    """Return a page of sessions, newest first."""
    asked = call.query
    more = {name: getattr(asked, name) for name in ("model", "status", "parent", "archived", "after")}
    page = call.hf.list(asked.limit, **_narrowing(asked), **more)
    return SessionPage(sessions=list(page), next=page.next)


def search(call: Call) -> SearchHits:
    """Return the matching events, best first."""
    asked = call.query
    by_event = {"role": asked.role, "tool": asked.tool, "limit": asked.limit}
    return SearchHits(hits=call.hf.search(asked.q, asked.session_id, **_narrowing(asked), **by_event))


def _narrowing(asked: Any) -> dict[str, Any]:
    """Return the filter of sessions, for all operations on many of them."""
    return {"tags": asked.tag, "since": _moment(asked.since), "until": _moment(asked.until), "agent_id": asked.agent_id}


def _moment(time_s: float | None) -> dt.datetime | None:
    """Return a time as the library takes it; one that no calendar has is its first or last."""
    if time_s is None:
        return None
    return dt.datetime.fromtimestamp(min(max(time_s, _FIRST_S), _LAST_S), dt.UTC)


def read_events(call: Call) -> answers.EventPage:
    """Return events from a place on: as many as were asked for, or as fit into an answer."""
    asked, id = call.query, call.id
    types = asked.type or None
    # One more than is returned: it says where the next page begins.
    found = call.hf.events(id, asked.start, types=types, limit=asked.limit + 1)
    documents = call.hf.store.documents(f"sessions/{id}")
    told: list[answers.EventRecord] = []
    size = 0
    for event in resolve_blobs(islice(found, asked.limit + 1), documents):
        if len(told) == asked.limit or size > _PAGE_BYTES_MAX:
            return answers.EventPage(events=told, next=event.seq)
        told.append(answers.EventRecord.of(event))
        # Payloads that were kept beside the log count too; the line itself may be short.
        size += len(event.raw) if event.data is None else _size(event.data)
    return answers.EventPage(events=told)


def messages(call: Call) -> answers.MessageList:
    """Return a valid conversation, whatever the log holds."""
    asked = call.query
    found = call.hf.recover(call.id, asked.provider, asked.incomplete, asked.window_tokens, asked.at)
    plain = msgspec.to_builtins(found.messages)
    issues = [f"{issue.where}: {issue.detail}" for issue in found.issues]
    return answers.MessageList(messages=plain, system=found.system, issues=issues)


def stats(call: Call) -> Stats:
    """Return the statistics of the whole space."""
    asked = call.query
    return call.hf.stats(**_narrowing(asked), model=asked.model, tz=asked.tz, by=asked.by)


def export(call: Call) -> Response:
    """Return a session in another form: a file to be saved, never a page to be shown."""
    from holdfast.formats import format_of

    asked, id = call.query, call.id
    chosen = format_of(asked.format)
    # A tool's file names a folder of the server's; it is not for clients to know which.
    found = call.hf.export(id, asked.format, at=asked.at, zone=asked.zone, cwd="/")
    data = found.encode("utf-8", "replace") if isinstance(found, str) else found
    headers = {
        "content-disposition": f'attachment; filename="{id}{chosen.suffix}"',
        "content-security-policy": "sandbox; default-src 'none'",
    }
    return Response(data, 200, headers, media_type=_MEDIA.get(chosen.suffix, "application/octet-stream"))


def _size(data: dict[str, Any]) -> int:
    """Return the approximate size as JSON, counting only long texts."""
    return sum(len(value) for value in data.values() if isinstance(value, str)) + 100


# Operations that change something: creating sessions, recording events, labels, branches, the trash.
def create(call: Call) -> SessionCreated:
    """Return a session that is on record at once. Raises Conflict if the id is taken."""
    wish = call.body
    made = _derived(call, wish.id)
    if not _is_made(call, made):
        options = {"title": wish.title, "agent_id": wish.agent_id, "lease_ms": LEASE_MS}
        with call.hf.session(made, resume="auto", **options) as session:
            session.append("metadata", {"begun_by": "http"})
            if wish.tags:
                session.tag(*wish.tags)
            session.barrier()
            made = session.id
    return SessionCreated(session_id=str(made), session=call.hf.info(str(made)))


def label(call: Call) -> SessionRow:
    """Set title, tags and pin, as far as given."""
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
    """Return a legal hold, or its end."""
    session, reason = _open(call), call.body.reason
    if reason is None:
        call.hf.policies.release(session.id)
    else:
        call.hf.policies.hold(session.id, reason)
    return SessionRow(session=call.hf.info(session.id))


def fork(call: Call) -> SessionMade:
    """Return a new session from a moment of this one."""
    wish = call.body
    return _made(call, lambda new: call.hf.fork(call.id, wish.at, new_id=new, title=wish.title))


def restore(call: Call) -> SessionMade:
    """Restore an earlier moment as a new session."""
    return _made(call, lambda new: call.hf.restore(call.id, call.body.at, new_id=new))


def merge(call: Call) -> SessionMade:
    """Return a new session of two."""
    wish = call.body
    options = {"turns": wish.turns, "policy": wish.policy, "title": wish.title}
    return _made(call, lambda new: call.hf.merge(call.id, wish.other, new_id=new, **options))


def import_bytes(call: Call) -> ImportedIds:
    """Return the sessions in a file of another tool, or in a bundle. Raises what kept all of them out."""
    # A file may hold many sessions: those that could be read are kept, and the others are named.
    report = call.hf.import_all([call.body], call.query.format)
    if report.errors and not report.ids:
        raise report.errors[0]
    problems = [row.reason or "" for row in report.failed]
    problems += [row.reason for row in report.skipped]
    return ImportedIds(sessions=report.ids, problems=problems)


def undelete(call: Call) -> SessionRow:
    """Restore a session from the trash."""
    call.hf.undelete(call.id)
    return SessionRow(session=call.hf.info(call.id))


def repair(call: Call) -> VerifiedSession:
    """Return a whole log in the place of a damaged one."""
    call.hf.repair(call.id)
    return VerifiedSession.of(call.hf.verify(call.id))


def _open(call: Call) -> Session:
    assert call.session is not None
    return call.session


def _append(call: Call, wishes: list[Append]) -> answers.Appended:
    session = _open(call)
    recorded = record(session, wishes, call.key)
    return answers.Appended(session_id=session.id, seqs=[event.seq for event in recorded])


def record(session: Session, wishes: list[Append], key: str | None) -> list[Event]:
    """Record events together. Raises Refused for a reused key, and for a legal hold, which a writer could lift so."""
    if any(wish.type == "metadata" and "legal_hold" in wish.data for wish in wishes):
        raise Refused(403, "scope", "a legal hold is no event of a client", "Use PUT /v1/sessions/{id}/hold.")
    keys = [wish.key for wish in wishes]
    if key is not None:
        own = [f"http.{key}"] if len(wishes) == 1 else [f"http.{key}.{at}" for at in range(len(wishes))]
        keys = [given or made for given, made in zip(keys, own, strict=True)]
    events = [Event.make(wish.type, wish.data, run=wish.run, key=k) for wish, k in zip(wishes, keys, strict=True)]
    before = session.seq
    recorded = session.extend(events)
    for wish, event in zip(wishes, recorded, strict=True):
        # Its key was on record already, so this is what it stood for then.
        if event.seq <= before:
            _check_same(wish, event)
    return recorded


def _check_same(wish: Append, event: Event) -> None:
    """Refuse a repeated key with a different body."""
    # Payloads beside the log, and redacted secrets, cannot be compared.
    whole = b"[secret:" not in bytes(event.raw) and not any(map(is_reference, event.data.values()))
    if event.type != wish.type or (whole and event.data != wish.data):
        detail = f"the key {str(event.key)[:80]!a} was used for another event"
        raise Refused(422, "key_reused", detail, "Use a new key for each thing that is to happen once.")


def _derived(call: Call, wanted: str | None) -> str | None:
    """Return the id of what is to be made: the one asked for, or always the same for a key."""
    if wanted is not None or call.key is None:
        return wanted
    # The same key on another path is another request. 48 bits are the time of an id, 80 its randomness.
    about = f"{call.request.method}\0{call.request.url.path}\0{call.key}"
    digest = hashlib.sha256(about.encode()).digest()
    return make_id(int.from_bytes(digest[:6]) & (2**48 - 1), digest[6:16])


def _is_made(call: Call, id: str | None) -> bool:
    """Return whether an earlier request with the same key created it. Raises Conflict if another one did."""
    if id is None or not call.hf.exists(id):
        return False
    if call.key is None:
        raise Conflict(f"there is a session {id} already", remedy="Choose another id.", session_id=id)
    return True


def _made(call: Call, make: Callable[[str | None], str]) -> SessionMade:
    """Create a session with ``make`` from the one in the path, once for a key. Raises NotFound, Conflict."""
    id = _derived(call, call.body.new_id)
    if not call.hf.exists(call.id):
        raise NotFound(f"there is no session {call.id}", session_id=call.id)
    return SessionMade(session_id=str(id) if _is_made(call, id) else make(id))


# The table: one row for each thing that can be asked.
async def _health(_: Call) -> Response:
    """Report that the process is running, which its answer shows."""
    return Response(b'{"status":"ok","version":"%s"}' % VERSION.encode(), media_type=JSON)


def _ready(call: Call) -> ServerHealth:
    """Return whether requests can be served. Raises Refused."""
    try:
        call.hf.store.check()
    except HoldfastError as error:
        raise Refused(503, "unavailable", "the store cannot be used now") from error
    return ServerHealth(status="ok", version=VERSION)


async def _metrics(call: Call) -> Response:
    """Return the metrics of the whole service, for Prometheus."""
    return Response(await call.service.metrics(), media_type=CONTENT_TYPE)


def _row(route: str, summary: str, do: Callable[[Call], Any], **more: Any) -> Endpoint:
    """Return a row of which only what differs is said.

    Reading needs the scope read and all else write; what is answered is what ``do`` gives, with the
    status that belongs to it. A ``do`` that makes the response itself says what is in it.
    """
    method, _, path = route.partition(" ")
    given = get_type_hints(do).get("return")
    answer = more.pop("answer", None if given in (NoneType, Response) else given)
    status = 204 if answer is None else 201 if answer in (SessionCreated, SessionMade) else 200
    usual = {"scope": "read" if method == "GET" else "write", "status": status}
    return Endpoint(method, path, summary, do, answer, **(usual | more))


# fmt: off
ENDPOINTS: tuple[Endpoint, ...] = (
    _row("GET /healthz", "Whether the process is there.", _health, scope=None, answer=ServerHealth),
    _row("GET /readyz", "Whether the store can be used, and the server is not about to stop.", _ready, scope=None),
    _row("GET /metrics", "How the service does, for Prometheus.", _metrics, scope=METRICS_SCOPE, answer=str,
         media=CONTENT_TYPE),
    _row("GET /v1/sessions", "List sessions, newest first.", list_sessions, query=requests.ListAsked),
    _row("POST /v1/sessions", "Make a session.", create, body=requests.NewSession, keyed=True),
    _row("GET /v1/search", "Find what was said, in every session or in one.", search, query=requests.Search),
    _row("GET /v1/stats", "Tokens, cost, activity, tools and topics.", stats, query=requests.StatsAsked),
    _row("POST /v1/import", "Bring in the sessions of a file of another tool, or of a bundle.", import_bytes,
         query=requests.Import, takes_bytes=True),
    _row("GET /v1/trash", "List what can be brought back.", lambda call: TrashPage.of(call.hf.trash.list()),
         answer=TrashPage),
    _row("POST /v1/trash/{id}/undelete", "Bring a session back from the trash.", undelete),
    _row("GET /v1/waiting", "List the questions that sessions wait for, the oldest first.", list_waiting,
         query=requests.WaitingAsked),
    _row("PUT /v1/waiting/{ask}", "Answer a question; the first answer counts.", answer_question,
         body=requests.AnswerRequest),
    _row("POST /v1/waiting/{ask}/tokens", "Make a token by which somebody outside answers a question.", make_token,
         body=requests.TokenWish),
    _row("POST /v1/answers", "Answer a question with its token, which is all that is needed.", answer_outside,
         body=requests.OutsideAnswer, scope=None),
    _row("POST /v1/answers/revoke", "Let a token for somebody outside answer nothing any more.", revoke_token,
         body=requests.TokenGiven),
    _row("POST /v1/signals/{event}", "Tell the calls that wait for an event that it came: for webhooks.", signal,
         body=requests.SignalGiven),
    _row("GET /v1/sessions/{id}", "Show what a session is.", lambda call: call.hf.info(call.id),
         answer=SessionMetadata),
    _row("PATCH /v1/sessions/{id}", "Change title, tags and pin.", label, body=requests.Labels, writes=True),
    _row("DELETE /v1/sessions/{id}", "Put a session into the trash.", lambda call: call.hf.delete(call.id),
         alone=True),
    _row("GET /v1/sessions/{id}/events", "Read events, page by page.", read_events, query=requests.EventsAsked),
    _row("POST /v1/sessions/{id}/events", "Record an event; it is on the medium when this is answered.",
         lambda call: _append(call, [call.body]), answer=answers.Appended, body=requests.Append, keyed=True,
         writes=True),
    _row("POST /v1/sessions/{id}/batch", "Record several events, all of them or none.",
         lambda call: _append(call, call.body.events), answer=answers.Appended, body=requests.AppendMany, keyed=True,
         writes=True),
    _row("GET /v1/sessions/{id}/follow", "Events as they come, with ids; Last-Event-ID goes on after one.", follow,
         query=requests.Follow, answer=str, media=EVENT_STREAM),
    _row("GET /v1/sessions/{id}/state", "The state, now or after an event.",
         lambda call: call.hf.state(call.id, call.query.at), answer=State, query=requests.StateAsked),
    _row("GET /v1/sessions/{id}/messages", "A valid conversation for a provider, whatever the log holds.", messages,
         query=requests.MessagesAsked),
    _row("GET /v1/sessions/{id}/compare", "Two sessions side by side since their last common event.",
         lambda call: call.hf.compare(call.id, call.query.other), answer=Comparison, query=requests.Comparing),
    _row("POST /v1/sessions/{id}/fork", "Make a new session from any point of this one.", fork, body=requests.Forking,
         keyed=True),
    _row("POST /v1/sessions/{id}/merge", "Make a new session of this one and another.", merge,
         body=requests.MergeRequest, keyed=True),
    _row("POST /v1/sessions/{id}/restore", "Go back to an earlier moment, as a new session.", restore,
         body=requests.Resuming, keyed=True),
    _row("GET /v1/sessions/{id}/snapshots", "List the snapshots of a session.",
         lambda call: answers.SnapshotList(snapshots=call.hf.snapshots(call.id)), answer=answers.SnapshotList),
    _row("POST /v1/sessions/{id}/snapshots", "Take a snapshot now.",
         lambda call: answers.SnapshotTaken(seq=_open(call).snapshot()), answer=answers.SnapshotTaken, writes=True),
    _row("GET /v1/sessions/{id}/export", "A session as a document, a bundle, or for another tool.", export,
         query=requests.Export, answer=bytes, media="*/*"),
    _row("GET /v1/sessions/{id}/verify", "Look at every byte and say what is whole.",
         lambda call: VerifiedSession.of(call.hf.verify(call.id)), answer=VerifiedSession),
    _row("POST /v1/sessions/{id}/repair", "Write a whole log in the place of a damaged one.", repair, scope="admin",
         alone=True),
    _row("PUT /v1/sessions/{id}/hold", "Put a session under legal hold, or end that.", hold, scope="admin",
         body=requests.Hold, writes=True),
    _row("POST /v1/sessions/{id}/turns", "Let the agent answer, or go on with what was interrupted.", begin_turn,
         body=requests.TurnRequest, answer=TurnAnswer, keyed=True),
    _row("PUT /v1/sessions/{id}/turns", "Say something to the agent while it works.", steer, body=requests.WordGiven),
    _row("DELETE /v1/sessions/{id}/turns", "Stop the turn that goes on.", cancel),
    _row("PUT /v1/sessions/{id}/approvals/{call}", "Let a tool run that waits for approval, or not.", approve,
         body=requests.ApprovalRequest),
)
# fmt: on
