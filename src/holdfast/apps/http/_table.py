"""Everything that can be asked over HTTP."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.apps.http import _changes, _queries
from holdfast.apps.http import _requests as requests
from holdfast.apps.http._call import Call, as_json
from holdfast.apps.http._endpoints import EVENT_STREAM, JSON, Endpoint
from holdfast.apps.http._problems import Refused
from holdfast.apps.http._stream import follow
from holdfast.apps.http._turns import approve, begin_turn, cancel
from holdfast.apps.http.tokens import METRICS_SCOPE
from holdfast.catalog import Stats
from holdfast.errors import HoldfastError
from holdfast.library.answers import care, events, sessions, store, turns
from holdfast.model import VERSION, SessionMetadata
from holdfast.observe import CONTENT_TYPE
from holdfast.replay import Comparison

_ONE = "/v1/sessions/{id}"


async def _health(_: Call) -> Response:
    """Whether the process is there: it is, since it answers."""
    return Response(b'{"status":"ok","version":"%s"}' % VERSION.encode(), media_type=JSON)


def _ready(call: Call) -> store.ServerHealth:
    """Whether requests can be served. Raises Refused."""
    try:
        call.hf.store.check()
    except HoldfastError as error:
        raise Refused(503, "unavailable", "the store cannot be used now") from error
    return store.ServerHealth(status="ok", version=VERSION)


async def _metrics(call: Call) -> Response:
    """How the whole service does, for Prometheus."""
    return Response(await call.service.metrics(), media_type=CONTENT_TYPE)


async def _delete(call: Call) -> Response:
    """Into the trash, once nobody has it open."""
    await call.service.spaces.let_go(call.space, call.id)
    await call.service.threads.run(call.hf.delete, call.id)
    return Response(None, 204)


async def _repair(call: Call) -> Response:
    """A whole log, once nobody has it open."""
    await call.service.spaces.let_go(call.space, call.id)
    found = await call.service.threads.run(_changes.repair, call)
    return Response(as_json(found), media_type=JSON)


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/healthz",
        summary="Whether the process is there.",
        scope=None,
        answer=store.ServerHealth,
        stream=_health,
    ),
    Endpoint(
        method="GET",
        path="/readyz",
        summary="Whether the store can be used, and the server is not about to stop.",
        scope=None,
        answer=store.ServerHealth,
        work=_ready,
    ),
    Endpoint(
        method="GET",
        path="/metrics",
        summary="How the service does, for Prometheus.",
        scope=METRICS_SCOPE,
        answer=str,
        media=CONTENT_TYPE,
        stream=_metrics,
    ),
    Endpoint(
        method="GET",
        path="/v1/sessions",
        summary="List sessions, newest first.",
        query=requests.ListAsked,
        answer=sessions.SessionPage,
        work=_queries.list_sessions,
    ),
    Endpoint(
        method="POST",
        path="/v1/sessions",
        summary="Make a session.",
        scope="write",
        body=requests.NewSession,
        answer=sessions.SessionCreated,
        status=201,
        keyed=True,
        work=_changes.create,
    ),
    Endpoint(
        method="GET",
        path="/v1/search",
        summary="Find what was said, in every session or in one.",
        query=requests.Search,
        answer=events.SearchHits,
        work=_queries.search,
    ),
    Endpoint(
        method="GET",
        path="/v1/stats",
        summary="Tokens, cost, activity, tools and topics.",
        query=requests.StatsAsked,
        answer=Stats,
        work=_queries.stats,
    ),
    Endpoint(
        method="POST",
        path="/v1/import",
        summary="Bring in the sessions of a file of another tool, or of a bundle.",
        scope="write",
        query=requests.Import,
        takes_bytes=True,
        answer=care.ImportedIds,
        work=_changes.import_bytes,
    ),
    Endpoint(
        method="GET",
        path="/v1/trash",
        summary="List what can be brought back.",
        answer=sessions.TrashPage,
        work=_queries.trash,
    ),
    Endpoint(
        method="POST",
        path="/v1/trash/{id}/undelete",
        summary="Bring a session back from the trash.",
        scope="write",
        answer=sessions.SessionRow,
        work=_changes.undelete,
    ),
    Endpoint(
        method="GET",
        path=_ONE,
        summary="Show what a session is.",
        answer=SessionMetadata,
        work=_queries.look,
    ),
    Endpoint(
        method="PATCH",
        path=_ONE,
        summary="Change title, tags and pin.",
        scope="write",
        body=requests.Labels,
        answer=sessions.SessionRow,
        writes=True,
        work=_changes.label,
    ),
    Endpoint(
        method="DELETE",
        path=_ONE,
        summary="Put a session into the trash.",
        scope="write",
        status=204,
        stream=_delete,
    ),
    Endpoint(
        method="GET",
        path=f"{_ONE}/events",
        summary="Read events, page by page.",
        query=requests.EventsAsked,
        answer=events.EventPage,
        work=_queries.read_events,
    ),
    Endpoint(
        method="POST",
        path=f"{_ONE}/events",
        summary="Record an event; it is on the medium when this is answered.",
        scope="write",
        body=requests.Append,
        answer=events.Appended,
        keyed=True,
        writes=True,
        work=_changes.append,
    ),
    Endpoint(
        method="POST",
        path=f"{_ONE}/batch",
        summary="Record several events, all of them or none.",
        scope="write",
        body=requests.AppendMany,
        answer=events.Appended,
        keyed=True,
        writes=True,
        work=_changes.append_many,
    ),
    Endpoint(
        method="GET",
        path=f"{_ONE}/follow",
        summary="Events as they come, with ids; Last-Event-ID goes on after one.",
        query=requests.Follow,
        answer=str,
        media=EVENT_STREAM,
        stream=follow,
    ),
    Endpoint(
        method="GET",
        path=f"{_ONE}/state",
        summary="The state, now or after an event.",
        query=requests.StateAsked,
        answer=dict[str, Any],
        work=_queries.state,
    ),
    Endpoint(
        method="GET",
        path=f"{_ONE}/messages",
        summary="A valid conversation for a provider, whatever the log holds.",
        query=requests.MessagesAsked,
        answer=events.MessageList,
        work=_queries.messages,
    ),
    Endpoint(
        method="GET",
        path=f"{_ONE}/compare",
        summary="Two sessions side by side since their last common event.",
        query=requests.Comparing,
        answer=Comparison,
        work=_queries.compare,
    ),
    Endpoint(
        method="POST",
        path=f"{_ONE}/fork",
        summary="Make a new session from any point of this one.",
        scope="write",
        body=requests.Forking,
        answer=sessions.SessionMade,
        status=201,
        keyed=True,
        work=_changes.fork,
    ),
    Endpoint(
        method="POST",
        path=f"{_ONE}/merge",
        summary="Make a new session of this one and another.",
        scope="write",
        body=requests.MergeRequest,
        answer=sessions.SessionMade,
        status=201,
        keyed=True,
        work=_changes.merge,
    ),
    Endpoint(
        method="POST",
        path=f"{_ONE}/restore",
        summary="Go back to an earlier moment, as a new session.",
        scope="write",
        body=requests.Resuming,
        answer=sessions.SessionMade,
        status=201,
        keyed=True,
        work=_changes.restore,
    ),
    Endpoint(
        method="GET",
        path=f"{_ONE}/snapshots",
        summary="List the snapshots of a session.",
        answer=events.SnapshotList,
        work=_queries.snapshots,
    ),
    Endpoint(
        method="POST",
        path=f"{_ONE}/snapshots",
        summary="Take a snapshot now.",
        scope="write",
        answer=events.SnapshotTaken,
        writes=True,
        work=_changes.snapshot,
    ),
    Endpoint(
        method="GET",
        path=f"{_ONE}/export",
        summary="A session as a document, a bundle, or for another tool.",
        query=requests.Export,
        answer=bytes,
        media="*/*",
        work=_queries.export,
    ),
    Endpoint(
        method="GET",
        path=f"{_ONE}/verify",
        summary="Look at every byte and say what is whole.",
        answer=care.VerifiedSession,
        work=_queries.verify,
    ),
    Endpoint(
        method="POST",
        path=f"{_ONE}/repair",
        summary="Write a whole log in the place of a damaged one.",
        scope="admin",
        answer=care.VerifiedSession,
        stream=_repair,
    ),
    Endpoint(
        method="PUT",
        path=f"{_ONE}/hold",
        summary="Put a session under legal hold, or end that.",
        scope="admin",
        body=requests.Hold,
        answer=sessions.SessionRow,
        writes=True,
        work=_changes.hold,
    ),
    Endpoint(
        method="POST",
        path=f"{_ONE}/turns",
        summary="Let the agent answer, or go on with what was interrupted.",
        scope="write",
        body=requests.TurnRequest,
        answer=turns.TurnAnswer,
        keyed=True,
        stream=begin_turn,
    ),
    Endpoint(
        method="DELETE",
        path=f"{_ONE}/turns",
        summary="Stop the turn that goes on.",
        scope="write",
        status=204,
        stream=cancel,
    ),
    Endpoint(
        method="PUT",
        path=f"{_ONE}/approvals/{{call}}",
        summary="Let a tool run that waits for approval, or not.",
        scope="write",
        body=requests.ApprovalRequest,
        status=204,
        stream=approve,
    ),
)
