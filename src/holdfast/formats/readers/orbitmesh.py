"""orbitmesh: a session file, its message log, run attempts, and gzip snapshots of the provider.

``sessions/<id>.json``, ``sessions/<id>.messages.jsonl``, ``sessions/attempts/<id>/*.json`` and
``snapshots/<id>.json.gz``. Resume tokens are not read: they must not be usable by others.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.formats._foreign import Foreign, ForeignDraft, frame, refusal_of
from holdfast.formats._source import Source
from holdfast.formats.readers import _orbitmesh_messages as messages
from holdfast.formats.readers import _values as v

_VERSION = 1
_LOG = ".messages.jsonl"
_SNAPSHOT = ".json.gz"
_HIDDEN = frozenset({"Environment", "environment", "env", "provider_custom", "messages"})
_TOLD = frozenset({"id", "title", "messages", "created_at", "current_task", "provider_custom"})


class OrbitMesh:
    """Reads sessions of orbitmesh."""

    tool = messages.TOOL

    def claims(self, source: Source) -> bool:
        """Return whether it is a session file, a message log, a snapshot, or a folder that holds such files."""
        if not source.is_file:
            homes = ("sessions", "snapshots", "")
            names = [name for name in source.names() if posixpath.basename(posixpath.dirname(name)) in homes]
            names = [name for name in names if name.endswith((".json", ".gz", ".jsonl"))]
            return any(self.claims(source.only(name)) for name in names[:50])
        if source.name.endswith(".jsonl"):
            return messages.is_log_line(source.first(source.name))
        value = _tame_snapshot(source.glimpse(source.name))
        return _is_session(value) or _is_snapshot(value)

    def read(self, source: Source) -> Iterator[Foreign]:
        """Yield the sessions: each with its log, its attempts and its snapshot."""
        found: defaultdict[str, _SessionParts] = defaultdict(_SessionParts)
        for name in [source.name] if source.is_file else source.names():
            _sort_in(source, name, found)
        for id, parts in found.items():
            _look_beside(source, parts)
            yield parts.foreign(source, id)


READER = OrbitMesh()


class _SessionParts:
    """The parts of one session."""

    def __init__(self) -> None:
        self.session: dict[str, Any] = {}
        self.snapshot: dict[str, Any] = {}
        self.place = ""
        self.log: str | None = None
        self.attempts: list[dict[str, Any]] = []
        self.refusal: HoldfastError | None = None

    def foreign(self, source: Source, id: str) -> Foreign:
        """Return the session of these parts: the log comes first, then the list, then the snapshot."""
        problems: list[str] = []
        if self.refusal is not None:
            if not self.session and self.log is None:
                return Foreign(messages.TOOL, id, [], refusal=self.refusal)
            problems.append(str(self.refusal))
        said = messages.logged(source, self.log, problems) if self.log else []
        said = messages.join_in_time(said, messages.embedded(self.session.get("messages")))
        snapped = v.member(self.snapshot, "provider_state", "messages")
        # Keys of an earlier reader: its events are retracted, or they would be there twice.
        earlier = messages.earlier_form(messages.go_on_with(said, snapped))
        said = messages.go_on_with(messages.put_together(said), snapped)
        created = v.first_time(self.session.get("created_at"), self.snapshot.get("created_at"))
        first = next((one.when for one in said if one.when), None)
        return Foreign(
            messages.TOOL,
            id,
            [*messages.drafts_of(said), *self._rest(), earlier],
            title=v.first_text(self.session.get("title"), v.member(self.snapshot, "metadata", "title")),
            tags=v.texts_in(self.session.get("tags"), v.member(self.snapshot, "metadata", "tags")),
            created_at=created or first,
            cwd=v.first_text(self.session.get("working_dir"), v.member(self.snapshot, "config", "WorkingDir")),
            version=v.as_text(self.snapshot["version"]) if "version" in self.snapshot else None,
            provider_type=v.first_text(self.session.get("provider_type"), self.snapshot.get("provider_type")),
            problems=problems,
        )

    def _rest(self) -> Iterator[ForeignDraft]:
        state = self.snapshot.get("provider_state")
        updated = v.first_time(self.session.get("updated_at"), self.snapshot.get("updated_at"))
        for attempt in self.attempts:
            ended = v.first_time(attempt.get("ended_at"), attempt.get("started_at"))
            yield frame(messages.TOOL, attempt, ended, key=f"attempt.{v.digest(attempt)}")
        linked = v.text(v.member(state, "acp_session_id"))
        if linked:
            yield ForeignDraft("link", {"kind": "acp", "id": linked}, updated, key=f"acp.{linked}")
        task = self.session.get("current_task") or v.member(state, "current_task")
        if task:
            yield ForeignDraft("task", {"task": task}, updated, key=f"task.{v.digest(task)}")
        usage = _usage(v.member(state, "metrics"))
        if usage:
            yield ForeignDraft("usage", usage, updated, key=f"usage.{v.digest(usage)}")
        if self.snapshot:
            kept = _without_secrets(self.snapshot)
            yield frame(messages.TOOL, kept, updated, key=f"snapshot.{v.digest(kept)}")
        about = {name: item for name, item in self.session.items() if name not in _TOLD}
        about = about or {"provider_type": self.snapshot.get("provider_type")}
        yield ForeignDraft("metadata", {messages.TOOL: about}, updated, key=f"about.{v.digest(about)}")


def _is_session(value: Any) -> bool:
    named = isinstance(v.member(value, "id"), str) and "provider_type" in value
    return named and not value.keys().isdisjoint({"state", "transitions", "working_dir"})


def _is_snapshot(value: Any) -> bool:
    return isinstance(v.member(value, "session_id"), str) and "provider_state" in value


def _is_attempt(value: Any) -> bool:
    return isinstance(v.member(value, "attempt_id"), str) and isinstance(v.member(value, "session_id"), str)


def _sort_in(source: Source, name: str, found: defaultdict[str, _SessionParts]) -> None:
    """Add a file to the session that it is a part of."""
    if name.endswith(_LOG):
        if messages.is_log_line(source.first(name)):
            parts = found[posixpath.basename(name).removesuffix(_LOG)]
            parts.log, parts.place = name, name.removesuffix(_LOG)
        return
    # A token would let the importer act in another's name: it is not even opened.
    if not name.endswith((".json", ".gz")) or "resume_tokens" in name.split("/"):
        return
    value = _tame_snapshot(source.glimpse(name))
    if not (_is_snapshot(value) or _is_attempt(value) or _is_session(value)):
        reason = source.damage(name) if value is None else None
        if reason is not None:
            source.pass_over(name, reason)
        return
    value = _tame_snapshot(source.json(name))
    if _is_snapshot(value):
        parts = found[value["session_id"]]
        parts.refusal = refusal_of(name, messages.TOOL, value.get("version"), _VERSION)
        parts.snapshot = value if parts.refusal is None else {}
    elif _is_attempt(value):
        found[value["session_id"]].attempts.append(value)
    else:
        parts = found[value["id"]]
        parts.session, parts.place = value, name.removesuffix(".json")


def _look_beside(source: Source, parts: _SessionParts) -> None:
    """Read the other file of a session, if only one of the two was given."""
    if parts.log is None and parts.place and source.has(parts.place + _LOG):
        parts.log = parts.place + _LOG
    name = f"{parts.place}.json"
    if not parts.session and parts.place and source.has(name):
        try:
            value = source.json(name)
        except HoldfastError:
            return
        parts.session = value if _is_session(value) else {}


def _usage(metrics: Any) -> dict[str, Any]:
    """Return the usage in a snapshot; the names are those of Go fields, or in lower case."""
    names = {"tokensin": "input_tokens", "tokensout": "output_tokens", "requestcount": "requests"}
    tame = {name.replace("_", "").lower(): count for name, count in v.mapping(metrics).items() if type(count) is int}
    return v.rename_figures(tame, names)


def _without_secrets(value: Any) -> Any:
    """Return a snapshot without its environment, which has keys, and without its messages."""
    if not isinstance(value, dict):
        return value
    return {name: _without_secrets(item) for name, item in value.items() if name not in _HIDDEN}


# Snapshots of orbitmesh's first design in the form of the later one. There they are plain JSON under ``sessions/``,
# with the messages, the task and the agent's own id at the top; the names are those of Go fields or in lower case.
_NAMES = {
    "SessionID": "session_id",
    "ProviderType": "provider_type",
    "CreatedAt": "created_at",
    "UpdatedAt": "updated_at",
    "Version": "version",
    "Config": "config",
    "ProviderState": "provider_state",
    "Metadata": "metadata",
    "ACPSessionID": "acp_session_id",
    "Messages": "messages",
    "CurrentTask": "current_task",
    "Metrics": "metrics",
}
_INNER = ("acp_session_id", "messages", "current_task", "metrics")


def _tame_snapshot(value: Any) -> Any:
    """Return a snapshot with the later names, and the provider's state in a map; anything else unchanged."""
    tamed = {_NAMES.get(name, name): item for name, item in v.mapping(value).items()}
    if not isinstance(tamed.get("session_id"), str) or "attempt_id" in tamed:
        return value
    state = tamed.get("provider_state")
    if isinstance(state, dict):
        return tamed | {"provider_state": {_NAMES.get(name, name): item for name, item in state.items()}}
    if "provider_type" not in tamed or not isinstance(tamed.get("messages"), list):
        return value
    inner = {name: tamed.pop(name) for name in _INNER if name in tamed}
    return tamed | {"provider_state": inner}
