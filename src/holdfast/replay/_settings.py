"""Reducers for what a session keeps: variables, memory, permissions, title.

Each reads the recorded bytes, never the caller's data, so that nothing a caller changes later can reach the state.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from holdfast.model import Event, LazyDecoder, decode_json, has_blob, is_reference
from holdfast.replay._progress import Data, Reducer, fresh_data, interrupted
from holdfast.replay._state import Approval, MemoryEntry, Parent, PluginState, State, ToolState, add_usage, stage_after
from holdfast.replay._upcast import Steps, check_format

T = TypeVar("T")

SETTINGS: dict[str, Reducer] = {}  # the reducers of this module, by the type of event

_NULL = msgspec.Raw(b"null")
_ALLOW = frozenset({"allow", "allowed", "approve", "approved", "grant", "granted"})
_DENY = frozenset({"deny", "denied", "reject", "rejected"})
_REVOKE = frozenset({"revoke", "revoked"})


def _reads(body: type[T], *types: str) -> Callable[[Callable[[State, T, Event], None]], None]:
    """Register a reducer for events of these types; it gets their recorded bytes decoded as ``body``."""
    decoder = LazyDecoder(body)

    def register(reduce: Callable[[State, T, Event], None]) -> None:
        def reducer(state: State, event: Event, _data: Data) -> None:
            reduce(state, decoder.decode(event.raw), event)

        SETTINGS.update(dict.fromkeys(types, reducer))

    return register


class _Variable(msgspec.Struct):
    name: str
    value: msgspec.Raw = _NULL


@_reads(_Variable, "variable_set")
def _variable_set(state: State, body: _Variable, _event: Event) -> None:
    # A copy: a Raw is a view that would keep the whole event in memory.
    state.encoded[body.name] = body.value.copy()


@_reads(_Variable, "variable_delete")
def _variable_delete(state: State, body: _Variable, _event: Event) -> None:
    state.encoded.pop(body.name, None)


class _Memory(msgspec.Struct):
    key: str
    value: msgspec.Raw = _NULL
    description: str = ""
    scope: str = "session"
    priority: str = "normal"
    pinned: bool = False
    sizeBytes: int | None = None  # noqa: N815 - the name in recorded logs
    created_at: int | None = None
    last_accessed_at: int | None = None


@_reads(_Memory, "memory_set")
def _memory_set(state: State, body: _Memory, event: Event) -> None:
    earlier = state.memory.get(body.key)
    created_at = earlier.created_at if earlier else event.timestamp
    given = {name: getattr(body, name) for name in ("key", "description", "scope", "priority", "pinned")}
    state.memory[body.key] = MemoryEntry(
        **given,
        raw=body.value.copy(),
        size_bytes=_size_of(body),
        created_at=created_at if body.created_at is None else body.created_at,
        updated_at=event.timestamp,
        last_accessed_at=body.last_accessed_at or event.timestamp,
        seq=event.seq,
    )


def _size_of(body: _Memory) -> int:
    """Return the size that was recorded with the value, else that of its JSON, wherever it is kept."""
    if body.sizeBytes is not None and body.sizeBytes >= 0:
        return body.sizeBytes
    raw = bytes(body.value)
    if has_blob(raw):
        reference = decode_json(raw)
        kept = reference.get("bytes") if is_reference(reference) else None
        if type(kept) is int and kept >= 0:
            return kept
    return len(raw)


class _Key(msgspec.Struct):
    key: str


@_reads(_Key, "memory_delete")
def _memory_delete(state: State, body: _Key, _event: Event) -> None:
    state.memory.pop(body.key, None)


class _Plugin(msgspec.Struct):
    name: str
    state: msgspec.Raw = _NULL
    version: int | str | None = None


@_reads(_Plugin, "plugin_state")
def _plugin_state(state: State, body: _Plugin, event: Event) -> None:
    state.plugins[body.name] = PluginState(
        name=body.name, raw=body.state.copy(), version=body.version, updated_at=event.timestamp, seq=event.seq
    )


class _Permission(msgspec.Struct):
    id: str | None = None
    tool: str | None = None
    call: str | None = None
    decision: str | None = None
    scope: str = "session"
    approved_by: str | None = None
    expires_at: int | None = None
    args_hash: str | None = None
    approvals: dict[str, Approval] | None = None
    allowlist: list[str] | None = None
    blocklist: list[str] | None = None
    version: int | None = None


@_reads(_Permission, "permission")
def _permission(state: State, body: _Permission, event: Event) -> None:
    for name in ("approvals", "allowlist", "blocklist", "version"):
        given = getattr(body, name)
        if given is not None:
            setattr(state.permissions, name, given)
    # An event may replace the whole lists, decide about one tool, or both, in this order.
    if body.tool is not None:
        # One decision about one tool. A decision for one time leaves nothing behind.
        known = state.permissions
        if body.decision in _ALLOW and body.scope != "once":
            kept = {name: getattr(body, name) for name in ("scope", "approved_by", "expires_at", "args_hash")}
            known.approvals[body.tool] = Approval(approved_at=event.timestamp, **kept)
        elif body.decision in _REVOKE or (body.decision in _DENY and body.scope != "once"):
            known.approvals.pop(body.tool, None)
        elif body.decision in ("allowlist", "blocklist", "unlist"):
            for kind in ("allowlist", "blocklist"):
                others = [name for name in getattr(known, kind) if name != body.tool]
                setattr(known, kind, [*others, body.tool] if kind == body.decision else others)
    ask = state.asks.get(body.id or "")
    if ask is not None and ask.answered < 0:
        ask.answered = event.seq
    call, stage = state.pending_calls.get(body.call or ""), stage_after(body.decision, body.id)
    if call is not None and stage is not None:
        state.pending_calls[str(body.call)] = msgspec.structs.replace(call, stage=stage)


@_reads(ToolState, "tools")
def _tools(state: State, body: ToolState, _event: Event) -> None:
    _merge(state.tools.enabled, body.enabled)
    _merge(state.tools.namespaces, body.namespaces)
    _merge(state.tools.priorities, body.priorities)


def _merge(known: dict[str, Any], given: dict[str, Any]) -> None:
    """Set given members, remove those given as null, leave the rest."""
    for name, value in given.items():
        if value is None:
            known.pop(name, None)
        else:
            known[name] = value


def _keep_data(state: State, event: Event, _data: Data) -> None:
    """Keep data that may hold anything, so that all of it is read."""
    data = fresh_data(event)
    match event.type:
        case "config":
            _merge(state.config, data)
        case "metadata":
            _merge(state.metadata, data)

        case "task":
            state.task = data.get("task")
        case _:
            add_usage(state.usage_by_model, data, data.get("model"))


SETTINGS |= dict.fromkeys(("config", "metadata", "task", "usage"), _keep_data)


class _Instructions(msgspec.Struct):
    content: str | None = None


@_reads(_Instructions, "instructions")
def _instructions(state: State, body: _Instructions, _event: Event) -> None:
    state.instructions = body.content


class _Title(msgspec.Struct):
    title: str | None = None
    auto: bool = False


@_reads(_Title, "title")
def _title(state: State, body: _Title, _event: Event) -> None:
    setattr(state, "title_auto" if body.auto else "title", body.title)


class _Tag(msgspec.Struct):
    tag: str


@_reads(_Tag, "tag", "untag")
def _tag(state: State, body: _Tag, event: Event) -> None:
    if event.type == "untag":
        state.tags = [tag for tag in state.tags if tag != body.tag]
    elif body.tag not in state.tags:
        state.tags.append(body.tag)


class _Link(msgspec.Struct):
    kind: str
    id: str


@_reads(_Link, "link")
def _link(state: State, body: _Link, _event: Event) -> None:
    known = state.links.setdefault(body.kind, [])
    if body.id in known:
        known.remove(body.id)
    known.append(body.id)


# The origin of a session: its beginning, forks, merges, imports, rewritten logs.
_BRANCH_TITLE = re.compile(r"(?P<title>.*) \((?P<reason>[a-z]+)(?: (?P<number>[0-9]{1,9}))?\)\Z", re.ASCII | re.DOTALL)


class _Start(msgspec.Struct):
    format: int = 0
    log: str | None = None
    generation: int = 0
    agent_id: str | None = None
    agent_type: str | None = None
    provider_type: str | None = None
    parent: str | None = None
    parent_seq: int | None = None


class _Branch(msgspec.Struct):
    session: str
    seq: int | None = None
    log: str | None = None
    root: str | None = None
    reason: str | None = None


_start_decoder = LazyDecoder(_Start)
_branch_decoder = LazyDecoder(_Branch)


def session_start_reducer(steps: Steps) -> Reducer:
    """Return the reducer of ``session_start``, given the known formats."""

    def session_start(state: State, event: Event, _data: Data) -> None:
        body = _start_decoder.decode(event.raw)
        version = check_format(body.format, steps)
        if state.log is not None:
            return  # that of a session whose events were copied here
        state.format = version
        state.log = state.first_log = body.log
        state.generation, state.agent_id = body.generation, body.agent_id
        state.agent_type, state.provider_type = body.agent_type, body.provider_type
        if body.parent is not None:
            state.parent = Parent(body.parent, body.parent_seq)
            state.root = body.parent

    return session_start


def _forked(state: State, event: Event, _data: Data) -> None:
    _rest(state, event)
    body = _branch_decoder.decode(event.raw)
    state.parent = Parent(body.session, body.seq)
    state.root = body.root or state.root or body.session
    state.links = {}  # those ids belong to the other session
    if body.log is not None:
        for one in state.steps.values():
            if one.status != "done":
                one.log = one.log or state.log  # a step done in either branch is the same step
        state.log = body.log
    if body.reason is not None:
        title, state.title = state.shown_title, None
        state.title_auto = None if title is None else _branch_title(title, body.reason)


def _branch_title(title: str, reason: str) -> str:
    """Return ``Trip (fork)``, ``Trip (fork 2)``, ``Trip (merge)``: the origin, and how it was made."""
    found = _BRANCH_TITLE.match(title)
    if found is None or found["reason"] != reason:
        return f"{title} ({reason})"
    return f"{found['title']} ({reason} {int(found['number'] or 1) + 1})"


def _rest(state: State, event: Event, _data: Data = None) -> None:
    """End open work: the events so far are another session's, whose writer is not at work here."""
    interrupted(state, event)
    state.deferred_calls.clear()
    state.asks.clear()
    state.interrupted_at = state.failed_at = -1
    state.last_open = None


SETTINGS |= {"forked": _forked, "merged": _rest}


class _Imported(msgspec.Struct):
    parent_session: Any = None  # whatever it is, the rest of such an event must count


@_reads(_Imported, "imported")
def _imported(state: State, body: _Imported, _event: Event) -> None:
    """Disable what came with a file: only its prohibitions stay.

    A session that another tool forked gets that one as its parent, unless it has one here.
    """
    parent = body.parent_session
    if isinstance(parent, str) and parent and state.parent is None:
        state.parent = Parent(parent, None)
        state.root = state.root or parent
    state.permissions.approvals = {}
    state.permissions.allowlist = []
    state.asks.clear()
    state.tools = ToolState()
    state.plugins = {}
    state.config = {}


class _Rewritten(msgspec.Struct):
    generation: int = 0


@_reads(_Rewritten, "repaired", "redacted")
def _rewritten(state: State, body: _Rewritten, _event: Event) -> None:
    state.generation = max(state.generation, body.generation)
