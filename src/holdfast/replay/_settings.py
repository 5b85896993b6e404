"""Reducers for what a session was told to keep: variables, memory, permissions, title.

Each reads the recorded bytes, never the caller's data, so that nothing a caller changes later can
reach the state.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from holdfast.model import Event, decode_json, has_blob, is_reference
from holdfast.replay._progress import Data, Reducer, fresh_data
from holdfast.replay._state import (
    Approval,
    MemoryEntry,
    Parent,
    PluginState,
    State,
    ToolState,
    add_usage,
    read_todos,
    stage_after,
)
from holdfast.replay._upcast import Steps, check_format

_NULL = msgspec.Raw(b"null")
_ALLOW = frozenset({"allow", "allowed", "approve", "approved", "grant", "granted"})
_DENY = frozenset({"deny", "denied", "reject", "rejected"})
_REVOKE = frozenset({"revoke", "revoked"})


class _Variable(msgspec.Struct):
    name: str
    value: msgspec.Raw = _NULL


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


class _Key(msgspec.Struct):
    key: str


class _Plugin(msgspec.Struct):
    name: str
    state: msgspec.Raw = _NULL
    version: int | str | None = None


class _Permission(msgspec.Struct):
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


class _Tools(msgspec.Struct):
    enabled: dict[str, Any] = {}
    namespaces: dict[str, Any] = {}
    priorities: dict[str, Any] = {}


class _Instructions(msgspec.Struct):
    content: str | None = None


class _Title(msgspec.Struct):
    title: str | None = None
    auto: bool = False


class _Tag(msgspec.Struct):
    tag: str


class _Link(msgspec.Struct):
    kind: str
    id: str


_decode_variable = msgspec.json.Decoder(_Variable).decode
_decode_memory = msgspec.json.Decoder(_Memory).decode
_decode_key = msgspec.json.Decoder(_Key).decode
_decode_plugin = msgspec.json.Decoder(_Plugin).decode
_decode_permission = msgspec.json.Decoder(_Permission).decode
_decode_tools = msgspec.json.Decoder(_Tools).decode
_decode_instructions = msgspec.json.Decoder(_Instructions).decode
_decode_title = msgspec.json.Decoder(_Title).decode
_decode_tag = msgspec.json.Decoder(_Tag).decode
_decode_link = msgspec.json.Decoder(_Link).decode


def _variable_set(state: State, event: Event, _data: Data) -> None:
    body = _decode_variable(event.raw)
    # A copy: a Raw is a view that would keep the whole event in memory.
    state.encoded[body.name] = body.value.copy()


def _variable_delete(state: State, event: Event, _data: Data) -> None:
    state.encoded.pop(_decode_variable(event.raw).name, None)


def _memory_set(state: State, event: Event, _data: Data) -> None:
    body = _decode_memory(event.raw)
    earlier = state.memory.get(body.key)
    created_at = earlier.created_at if earlier else event.timestamp
    state.memory[body.key] = MemoryEntry(
        key=body.key,
        raw=body.value.copy(),
        description=body.description,
        scope=body.scope,
        priority=body.priority,
        pinned=body.pinned,
        size_bytes=_size_of(body),
        created_at=created_at if body.created_at is None else body.created_at,
        updated_at=event.timestamp,
        last_accessed_at=body.last_accessed_at or event.timestamp,
        seq=event.seq,
    )


def _size_of(body: _Memory) -> int:
    """The size that was recorded with the value, else that of its JSON, wherever it is kept."""
    if body.sizeBytes is not None and body.sizeBytes >= 0:
        return body.sizeBytes
    raw = bytes(body.value)
    if has_blob(raw):
        reference = decode_json(raw)
        kept = reference.get("bytes") if is_reference(reference) else None
        if type(kept) is int and kept >= 0:
            return kept
    return len(raw)


def _memory_delete(state: State, event: Event, _data: Data) -> None:
    state.memory.pop(_decode_key(event.raw).key, None)


def _todo_update(state: State, event: Event, _data: Data) -> None:
    state.todos = read_todos(fresh_data(event))


def _plugin_state(state: State, event: Event, _data: Data) -> None:
    body = _decode_plugin(event.raw)
    state.plugins[body.name] = PluginState(
        name=body.name, raw=body.state.copy(), version=body.version, updated_at=event.timestamp, seq=event.seq
    )


def _permission(state: State, event: Event, _data: Data) -> None:
    body = _decode_permission(event.raw)
    known = state.permissions
    if body.approvals is not None:
        known.approvals = body.approvals
    if body.allowlist is not None:
        known.allowlist = body.allowlist
    if body.blocklist is not None:
        known.blocklist = body.blocklist
    if body.version is not None:
        known.version = body.version
    # An event may replace the whole lists, decide about one tool, or both, in this order.
    if body.tool is not None:
        _decide(state, body.tool, body, event.timestamp)
    call, stage = state.pending_calls.get(body.call or ""), stage_after(body.decision)
    if call is not None and stage is not None:
        state.pending_calls[str(body.call)] = msgspec.structs.replace(call, stage=stage)


def _decide(state: State, tool: str, body: _Permission, now: int) -> None:
    """One decision about one tool. What is allowed or denied once leaves nothing behind."""
    known = state.permissions
    if body.decision in _ALLOW and body.scope != "once":
        known.approvals[tool] = Approval(
            scope=body.scope,
            approved_at=now,
            approved_by=body.approved_by,
            expires_at=body.expires_at,
            args_hash=body.args_hash,
        )
    elif body.decision in _REVOKE or (body.decision in _DENY and body.scope != "once"):
        known.approvals.pop(tool, None)
    elif body.decision in ("allowlist", "blocklist", "unlist"):
        known.allowlist = [name for name in known.allowlist if name != tool]
        known.blocklist = [name for name in known.blocklist if name != tool]
        if body.decision == "allowlist":
            known.allowlist.append(tool)
        elif body.decision == "blocklist":
            known.blocklist.append(tool)


def _tools(state: State, event: Event, _data: Data) -> None:
    body = _decode_tools(event.raw)
    _merge(state.tools.enabled, body.enabled)
    _merge(state.tools.namespaces, body.namespaces)
    _merge(state.tools.priorities, body.priorities)


def _merge(known: dict[str, Any], given: dict[str, Any]) -> None:
    """Set what is given, remove what is given as null, leave the rest."""
    for name, value in given.items():
        if value is None:
            known.pop(name, None)
        else:
            known[name] = value


def _config(state: State, event: Event, _data: Data) -> None:
    _merge(state.config, fresh_data(event))


def _metadata(state: State, event: Event, _data: Data) -> None:
    _merge(state.metadata, fresh_data(event))


def _instructions(state: State, event: Event, _data: Data) -> None:
    state.instructions = _decode_instructions(event.raw).content


def _task(state: State, event: Event, _data: Data) -> None:
    state.task = fresh_data(event).get("task")


def _usage(state: State, event: Event, _data: Data) -> None:
    figures = fresh_data(event)
    add_usage(state.usage_by_model, figures, figures.get("model"))


def _title(state: State, event: Event, _data: Data) -> None:
    body = _decode_title(event.raw)
    if body.auto:
        state.title_auto = body.title
    else:
        state.title = body.title


def _tag(state: State, event: Event, _data: Data) -> None:
    tag = _decode_tag(event.raw).tag
    if tag not in state.tags:
        state.tags.append(tag)


def _untag(state: State, event: Event, _data: Data) -> None:
    tag = _decode_tag(event.raw).tag
    if tag in state.tags:
        state.tags.remove(tag)


def _link(state: State, event: Event, _data: Data) -> None:
    body = _decode_link(event.raw)
    known = state.links.setdefault(body.kind, [])
    if body.id in known:
        known.remove(body.id)
    known.append(body.id)


SETTINGS: dict[str, Reducer] = {
    "variable_set": _variable_set,
    "variable_delete": _variable_delete,
    "memory_set": _memory_set,
    "memory_delete": _memory_delete,
    "todo_update": _todo_update,
    "plugin_state": _plugin_state,
    "permission": _permission,
    "tools": _tools,
    "config": _config,
    "metadata": _metadata,
    "instructions": _instructions,
    "task": _task,
    "usage": _usage,
    "title": _title,
    "tag": _tag,
    "untag": _untag,
    "link": _link,
}


# Reducers for where a session comes from: its beginning, forks, merges, imports, rewritten logs.
#
# As in ``_settings.py`` each reads the recorded bytes.


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


class _Imported(msgspec.Struct):
    parent_session: Any = None  # whatever it is, the rest of such an event must count


class _Branch(msgspec.Struct):
    session: str
    seq: int | None = None
    log: str | None = None
    root: str | None = None
    reason: str | None = None


class _Rewritten(msgspec.Struct):
    generation: int = 0


_decode_start = msgspec.json.Decoder(_Start).decode
_decode_imported = msgspec.json.Decoder(_Imported).decode
_decode_branch = msgspec.json.Decoder(_Branch).decode
_decode_rewritten = msgspec.json.Decoder(_Rewritten).decode


def session_start_reducer(steps: Steps) -> Reducer:
    """The reducer of ``session_start``, given the formats that are known."""

    def session_start(state: State, event: Event, _data: Data) -> None:
        body = _decode_start(event.raw)
        version = check_format(body.format, steps)
        if state.log is not None:
            return  # that of a session whose events were copied here
        state.format = version
        state.log = state.first_log = body.log
        state.generation = body.generation
        state.agent_id = body.agent_id
        state.agent_type = body.agent_type
        state.provider_type = body.provider_type
        if body.parent is not None:
            state.parent = Parent(body.parent, body.parent_seq)
            state.root = body.parent

    return session_start


def _forked(state: State, event: Event, _data: Data) -> None:
    _rest(state)
    body = _decode_branch(event.raw)
    state.parent = Parent(body.session, body.seq)
    state.root = body.root or state.root or body.session
    state.links = {}  # under those ids people know the other session
    if body.log is not None:
        state.log = body.log
    if body.reason is not None:
        state.title_auto = _branch_title(state.shown_title, body.reason)
        state.title = None


def _branch_title(title: str | None, reason: str) -> str | None:
    """``Trip (fork)``, ``Trip (fork 2)``, ``Trip (merge)``: what it came from, and how."""
    if title is None:
        return None
    found = _BRANCH_TITLE.match(title)
    if found is None or found["reason"] != reason:
        return f"{title} ({reason})"
    return f"{found['title']} ({reason} {int(found['number'] or 1) + 1})"


def _merged(state: State, _event: Event, _data: Data) -> None:
    _rest(state)


def _rest(state: State) -> None:
    """The events so far are another session's: whoever was at work there is not at work here."""
    state.open_turns.clear()
    state.pending_calls.clear()
    state.deferred_calls.clear()
    state.streaming.clear()
    state.open_steps.clear()
    state.suspended = False
    state.interrupted_at = state.failed_at = -1
    state.last_open = None


def _imported(state: State, event: Event, _data: Data) -> None:
    """What came in with a file acts on nothing here; what the file forbade stays forbidden.

    A session that another tool forked has that one for its parent, as far as it has none here.
    """
    parent = _decode_imported(event.raw).parent_session
    if isinstance(parent, str) and parent and state.parent is None:
        state.parent = Parent(parent, None)
        state.root = state.root or parent
    state.permissions.approvals = {}
    state.permissions.allowlist = []
    state.tools = ToolState()
    state.plugins = {}
    state.config = {}


def _rewritten(state: State, event: Event, _data: Data) -> None:
    state.generation = max(state.generation, _decode_rewritten(event.raw).generation)


ORIGINS: dict[str, Reducer] = {
    "forked": _forked,
    "merged": _merged,
    "imported": _imported,
    "repaired": _rewritten,
    "redacted": _rewritten,
}
