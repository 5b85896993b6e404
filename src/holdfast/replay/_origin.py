"""Reducers for where a session comes from: its beginning, forks, merges, imports, rewritten logs.

As in ``_settings.py`` each reads the recorded bytes.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from holdfast.model import Event
from holdfast.replay._progress import Data, Reducer
from holdfast.replay._state import Parent, State, ToolState
from holdfast.replay._upcast import Steps, check_format

_BRANCH_TITLE = re.compile(
    r"(?P<title>.*) \((?P<reason>[a-z]+)(?: (?P<number>[0-9]{1,9}))?\)\Z", re.ASCII | re.DOTALL
)


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
        state.log = body.log
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
