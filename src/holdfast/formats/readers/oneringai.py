"""oneringai: a session file with its compacted conversation, and the fuller journal beside it.

``<base>/<agentId>/sessions/<id>.json``, ``<id>.history.jsonl`` and ``_index.json``; also the single ``session.json`` of
an agent, as the first design of that system has it.
"""

from __future__ import annotations

import posixpath
import re
from collections import ChainMap
from collections.abc import Iterator
from typing import Any, NamedTuple

from holdfast.errors import HoldfastError, TooNew
from holdfast.formats._foreign import Foreign, ForeignDraft, check_version, frame, read_time
from holdfast.formats._source import Source
from holdfast.formats.readers import _values as v
from holdfast.formats.readers._files import document_beside

TOOL = "oneringai"
_VERSION = 1
_CONTEXT_VERSION = 2  # 1 has a history of texts, 2 a conversation of items
_INSTRUCTIONS_VERSION = 2
_NAMED_MAX = 20
_OLD_INSTRUCTIONS_BYTES_MAX = 1024 * 1024
_SESSION = "session.json"
_MEMORY = "memory.json"
_PLUGINS = "plugins/"
_INSTRUCTIONS = "custom_instructions.json"
_OLD_INSTRUCTIONS = "custom_instructions.md"
_JOURNAL = ".history.jsonl"
_INDEX = "_index.json"
_TOLD = frozenset(
    """
    sessionId agentId agentType version createdAt lastSavedAt lastActiveAt state context metadata
    memory plugins files conversation pluginStates systemPrompt core instructions history
    toolCalls messageMetadata
    """.split()  # noqa: SIM905 - a list of words is easier to read and to change
)
_ROLES = {"tool_result": "user", "developer": "system"}


class OneRingAI:
    """Reads sessions of oneringai."""

    tool = TOOL

    def claims(self, source: Source) -> bool:
        """Return whether it is a session file, a journal, the index that lists them, or the folder of an agent."""
        if not source.is_file:
            named = any(source.has(name) for name in (_SESSION, _INSTRUCTIONS, _OLD_INSTRUCTIONS))
            return named and any(self.claims(one) for one in _sessions(source))
        if source.name.endswith(".jsonl"):
            return _is_journal_line(source.first(source.name))
        value = source.glimpse(source.name)
        return _is_session(value) or _is_index(value)

    def read(self, source: Source) -> Iterator[Foreign]:
        """Yield the session of the file; for an index, those that it lists and that exist."""
        if not source.is_file:
            yield from self._read_agent(source)
            return
        if source.name.endswith(".jsonl"):
            yield _read_journal(source)
            return
        value = source.json(source.name)
        if source.name == _SESSION and "context" in value:
            agent = _agent_files(source)
            yield _under(agent, _first_design(source, agent))
        elif not _is_index(value):
            yield _session(source, value, _journal_of(source))
        else:
            check_version(source.name, TOOL, value.get("version"), _VERSION)
            for name in _listed(value, source):
                try:
                    yield _session(source, source.json(name), name.removesuffix(".json") + _JOURNAL)
                except HoldfastError as error:
                    yield Foreign(TOOL, name.removesuffix(".json"), [], problems=[str(error)])

    def _read_agent(self, source: Source) -> Iterator[Foreign]:
        """Yield all sessions of an agent, each with the agent's permanent instructions."""
        agent = _agent_files(source)
        for one in _sessions(source):
            if one.is_used() or not self.claims(one):
                continue
            for foreign in self.read(one) if one.name != _SESSION else [_first_design(one, agent)]:
                yield _under(agent, foreign)


READER = OneRingAI()


def _is_session(value: Any) -> bool:
    state = v.member(value, "state")
    if isinstance(v.member(value, "sessionId"), str) and isinstance(state, dict):
        return bool({"conversation", "pluginStates", "systemPrompt", "metadata"} & state.keys())
    return isinstance(v.member(value, "agentId"), str) and isinstance(v.member(value, "context", "core"), dict)


def _is_index(value: Any) -> bool:
    sessions = v.member(value, "sessions")
    named = isinstance(sessions, list) and isinstance(v.member(value, "agentId"), str)
    return named and all(isinstance(v.member(row, "sessionId"), str) for row in sessions)


def _is_journal_line(value: Any) -> bool:
    names = v.mapping(value).keys()
    return {"item", "type"} <= names and not names.isdisjoint({"turnIndex", "timestamp"})


def _sessions(source: Source) -> list[Source]:
    """Return the files of an agent's folder that may be its sessions."""
    found = [source.only(_SESSION)] if source.has(_SESSION) else []
    return found + [one for one in source.below("sessions").children() if one.is_file]


def _read_journal(source: Source) -> Foreign:
    """Return a journal by itself, or with its session file, if that is there."""
    stem = source.name.removesuffix(".jsonl").removesuffix(".history")
    session = f"{stem}.json"
    if source.has(session):
        try:
            return _session(source, source.json(session), source.name)
        except HoldfastError as error:
            # The journal has the whole conversation, but neither memory nor title.
            source.pass_over(session, str(error))
    return _session(source, {"sessionId": stem}, source.name)


def _journal_of(source: Source) -> str:
    return source.name.removesuffix(".gz").removesuffix(".json") + _JOURNAL


def _listed(index: dict[str, Any], source: Source) -> Iterator[str]:
    """Yield the session files in an index. A file's name is the id, made safe by that system."""
    for row in index["sessions"]:
        tamed = re.sub(r"[^A-Za-z0-9-]+", "_", row["sessionId"]).strip("_").lower() or "default"
        if source.has(f"{tamed}.json"):
            yield f"{tamed}.json"
        elif not source.has(tamed + _JOURNAL):
            source.pass_over(f"{tamed}.json", "the index lists it, but there is no such file")


# What oneringai keeps beside the sessions of an agent: its memory, plugins and instructions.
class _AgentFiles(NamedTuple):
    plugins: dict[str, Any]  # the states in files of their own; beside a single file only the memory
    instructions: list[Any]  # the agent's permanent instructions: texts with their ids and times, or one text


def _agent_files(source: Source) -> _AgentFiles:
    """Return the existing files of one agent; damaged ones are reported as skipped."""
    names = [_MEMORY, *(name for name in source.names(".json") if name.startswith(_PLUGINS))]
    read = {posixpath.basename(name): document_beside(source, name, TOOL, _VERSION) for name in names}
    plugins = {name.removesuffix(".json"): value for name, value in read.items() if isinstance(value, dict)}
    entries = v.member(document_beside(source, _INSTRUCTIONS, TOOL, _INSTRUCTIONS_VERSION), "entries")
    told = v.items(entries)
    if not isinstance(entries, list) and source.has(_OLD_INSTRUCTIONS):
        words = source.read(_OLD_INSTRUCTIONS, _OLD_INSTRUCTIONS_BYTES_MAX).decode("utf-8", "replace").strip()
        told = [{"id": "legacy_instructions", "content": words}] if words else []
    return _AgentFiles(plugins, told)


def _first_design(source: Source, agent: _AgentFiles) -> Foreign:
    """Return the one session of an agent: memory and plugins are beside it, or in it."""
    return _session(source, {**source.json(source.name), "files": agent.plugins}, _journal_of(source))


def _under(agent: _AgentFiles, foreign: Foreign) -> Foreign:
    """Return a session with its agent's permanent instructions."""
    if agent.instructions and foreign.refusal is None:
        foreign.drafts.append(_instructed(agent.instructions))
        foreign.problems.append("its custom instructions were kept only to be read")
    return foreign


def _instructed(instructions: Any, when: int | None = None) -> ForeignDraft:
    """Return the agent's permanent instructions, for people to read: they instruct nobody here."""
    data = {"custom_instructions": instructions}
    return ForeignDraft("metadata", data, when, key=f"instructions.{v.digest(data)}")


# One session.
def _session(source: Source, value: dict[str, Any], journal: str) -> Foreign:
    id = v.as_text(value.get("sessionId") or value.get("agentId") or source.name)
    problems: list[str] = []
    state = v.mapping(value["state"] if isinstance(value.get("state"), dict) else value.get("context"))
    try:
        check_version(source.name, TOOL, value.get("version"), _VERSION)
        check_version(f"the context in {source.name}", TOOL, state.get("version"), _CONTEXT_VERSION)
    except TooNew as error:
        return Foreign(TOOL, id, [], refusal=error)
    # One index serves all sessions of a folder.
    index = source.remember("oneringai index", _INDEX, lambda: _index_of(source))
    listed = next((row for row in v.member(index, "sessions") or [] if row["sessionId"] == id), None)
    created = v.first_time(value.get("createdAt"), v.member(listed, "createdAt"))
    saved = v.first_time(
        value.get("lastSavedAt"),
        value.get("lastActiveAt"),
        v.member(listed, "lastSavedAt"),
        v.member(state, "metadata", "savedAt"),
    )
    entries = _entries(source, state, journal, problems)
    model = v.first_text(v.member(state, "metadata", "model"), v.member(state, "config", "model"))
    problems += _not_taken(state)
    metas = [v.member(value, "metadata"), v.member(state, "metadata"), v.member(listed, "metadata")]
    # Agents name their sessions as they like, so two may choose one name.
    scope = v.first_text(v.member(state, "metadata", "agentId"), v.member(index, "agentId"))
    return Foreign(
        TOOL,
        id,
        [
            *(
                ForeignDraft("system", {"content": prompt}, created, key=f"prompt.{v.digest(prompt)}")
                for way in (("systemPrompt",), ("core", "systemPrompt"), ("core", "instructions"))
                if (prompt := v.first_text(v.member(state, *way)))
            ),
            *(draft for entry in entries for draft in entry.keyed(model)),
            *_kept(value, state, saved, problems),
            *_left(value, state, saved),
            _description(value, metas, saved),
        ],
        title=v.first_text(*(v.member(meta, "title") for meta in metas)),
        tags=v.texts_in(*(v.member(meta, "tags") for meta in metas)),
        created_at=created or next((entry.when for entry in entries if entry.when), saved),
        version=v.as_text(value["version"]) if "version" in value else None,
        scope=scope,
        agent_id=v.first_text(value.get("agentId")) or scope,
        problems=problems,
    )


def _index_of(source: Source) -> Any:
    """Return the index: a save in that system may remove the title from a session's own file."""
    index = document_beside(source, _INDEX, TOOL, _VERSION, _is_index)
    if index is not None:
        list(_listed(index, source))  # reports which of them are missing
    return index


def _kept(
    value: dict[str, Any], state: dict[str, Any], saved: int | None, problems: list[str]
) -> Iterator[ForeignDraft]:
    """Yield memory as memory; other plugins' states only unchanged: no plugin comes in with a file."""
    known: dict[str, str] = {}
    for name, kept in _plugins(value, state):
        entries = v.member(kept, "entries")
        found = list(v.memories(entries, saved))
        if not found:
            yield frame(TOOL, {"plugin": name, "state": kept}, saved, key=f"plugin.{name}.{v.digest(kept)}")
            if any(
                v.first_text(v.member(one, "id")) and v.first_text(v.member(one, "content")) for one in v.items(entries)
            ):
                yield _instructed(entries, saved)
            if kept:
                problems.append(f"the state of its plugin {name[:80]!r} was kept only to be read")
        for draft in found:
            mark, earlier = v.digest(draft.data), known.get(draft.data["key"])
            if earlier == mark:
                continue  # the same entry in a file of its own
            known.setdefault(draft.data["key"], mark)
            # Two plugins may use one key for different things; here a key is unique.
            if earlier is not None:
                draft.data["key"] = f"{name}/{draft.data['key']}"
            draft.key = f"memory.{v.digest(draft.data)}"
            yield draft


def _plugins(value: dict[str, Any], state: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    if isinstance(value.get("memory"), dict):
        yield "memory", value["memory"]
    for states in (value.get("files"), state.get("pluginStates"), state.get("plugins"), value.get("plugins")):
        for name, given in v.mapping(states).items():
            kept = v.as_json(given)
            wrapped = (kept[inner] for inner in ("state", "data") if isinstance(v.member(kept, inner, "entries"), list))
            yield str(name), next(wrapped, kept)


def _left(value: dict[str, Any], state: dict[str, Any], saved: int | None) -> Iterator[ForeignDraft]:
    """Yield the data without a place here, unchanged; tools and permissions are in it, and have no effect."""
    core = {name: item for name, item in v.mapping(state.get("core")).items() if item}
    left = {name: item for name, item in (value | state | core).items() if name not in _TOLD}
    if left:
        yield frame(TOOL, left, saved, key=f"left.{v.digest(left)}")


def _not_taken(state: dict[str, Any]) -> Iterator[str]:
    """Yield what the agent had there and has not here, because nothing in a file may act."""
    given = {
        name: ", ".join(sorted(str(rule) for rule in rules)[:_NAMED_MAX])
        for name in ("approvals", "allowlist", "blocklist")
        if isinstance(rules := v.member(state, "permissions", name), (dict, list)) and rules
    }
    if given:
        told = "; ".join(f"{name}: {tools}" for name, tools in given.items())
        yield f"its permissions were left out, and do not hold here ({told})"
    if any(v.member(state, "tools", name) for name in ("enabled", "namespaces", "priorities")):
        yield "which tools were switched on, and how they were ranked, was left out"


def _description(value: dict[str, Any], metas: list[Any], saved: int | None) -> ForeignDraft:
    agent: dict[str, Any] = {name: value[name] for name in ("agentId", "agentType") if name in value}
    told = ChainMap(*map(v.mapping, metas), agent)
    data = {TOOL: {name: item for name, item in told.items() if name not in ("title", "tags")}}
    return ForeignDraft("metadata", data, saved, key=f"about.{v.digest(data, saved)}")


# The items of a conversation, in the neutral form.
class _ConversationItem:
    """One item of the conversation, with its time and line where the journal has them."""

    __slots__ = ("item", "raw", "role", "when")

    def __init__(self, item: Any, when: int | None = None, raw: Any = None, role: str = "") -> None:
        self.item = item
        self.when = when
        self.raw = item if raw is None else raw
        self.role = role

    @property
    def id(self) -> str:
        return v.text(v.member(self.item, "id"))

    @property
    def words(self) -> str:
        """Return a name for the item's content."""
        return v.digest(v.member(self.item, "role") or self.role, v.member(self.item, "content"))

    def keyed(self, model: str | None) -> Iterator[ForeignDraft]:
        """Return the events of the item, each with a key of its own."""
        for number, draft in enumerate(self.drafts(model)):
            draft.key = f"{self.id or self.words}.{number}"
            yield draft

    def drafts(self, model: str | None) -> list[ForeignDraft]:
        role = v.member(self.item, "role") or self.role
        if not role or v.member(self.item, "type") == "compaction":
            return [frame(TOOL, self.raw, self.when)]
        content = v.member(self.item, "content") if isinstance(self.item, dict) else self.item
        usage = v.mapping(v.member(self.item, "usage") or v.member(self.item, "metadata", "usage")) or None
        extra = {"model": model, "usage": usage} if role == "assistant" else {}
        return v.speak(role, [_block(part) for part in _parts(content)], self.when, self.raw, **extra)


class _RecordedCall(_ConversationItem):
    """A record of a call: its name, arguments and end."""

    __slots__ = ("_repeated",)

    def __init__(self, record: Any) -> None:
        super().__init__(record, read_time(v.member(record, "timestamp")))
        self._repeated: list[Any] = []

    def takes(self, item: _ConversationItem) -> bool:
        """Return whether an item has the result of this call; no second one does."""
        words = v.as_text(v.member(self.item, "result"))
        if (
            self._repeated
            or not words
            or v.member(item.item, "role") != "tool"
            or v.member(item.item, "content") != words
        ):
            return False
        self._repeated.append(item.raw)
        return True

    def drafts(self, model: str | None) -> list[ForeignDraft]:
        """Return the call, and its result once it ended."""
        record, began, took = self.item, self.when, self.item.get("durationMs")
        if began and isinstance(took, (int, float)) and 0 < took < began:
            began -= int(took)
        params = v.as_json(record.get("args", record.get("arguments")))
        call = {"id": self.id, "tool": v.as_text(record.get("name")) or "unknown", "params": params}
        raw = [record, *self._repeated] if self._repeated else record
        drafts = [ForeignDraft("tool_call", call, began, raw=raw)]
        error = record.get("error")
        if error or "result" in record:
            ended = {"toolCallId": self.id, "result": error or record.get("result")}
            drafts.append(ForeignDraft("tool_result", ended | ({"is_error": True} if error else {}), self.when))
        return drafts


def _entries(source: Source, state: dict[str, Any], journal: str, problems: list[str]) -> list[_ConversationItem]:
    """Return the journal, with items that only the state has inserted at their places."""
    kept = _with_calls(_conversation(state), v.member(state, "core", "toolCalls"))
    if not source.has(journal):
        return kept
    written = []
    for line, value in source.values(journal, problems):
        if not _is_journal_line(value):
            problems.append(f"{journal}: a line that is no entry was left out")
            continue
        item = value["item"]
        role = "" if v.member(item, "role") else _ROLES.get(value["type"], v.as_text(value["type"]))
        written.append(_ConversationItem(item, read_time(value.get("timestamp")), line, role))
    # Copies in the state may have lost their id, or, being shortened, their words.
    words = {entry.id: entry.words for entry in written if entry.id}
    return v.join(written, kept, key=lambda entry: words.get(entry.id, entry.words))


def _conversation(state: dict[str, Any]) -> list[_ConversationItem]:
    """Return the conversation in the state itself, with times where it has them."""
    core = (v.member(state, "core", name) for name in ("conversation", "history"))
    found = [_ConversationItem(item) for item in v.items(next(filter(None, (state.get("conversation"), *core)), None))]
    times = v.member(state, "core", "messageMetadata")
    for one in found:
        one.when = v.first_time(v.member(one.item, "timestamp"), v.member(times, one.id, "timestamp"))
    return found


def _with_calls(entries: list[_ConversationItem], records: Any) -> list[_ConversationItem]:
    """Return the items, and among them, by their times, the calls of a separate list.

    A call that is also an item is left to that. An item that only repeats the output of a call is the call's result,
    and is kept beside it.
    """
    parts = (part for one in entries for part in _parts(v.member(one.item, "content")))
    told = {v.as_text(v.member(part, "id")) for part in parts if v.member(part, "type") == "tool_use"}
    calls = [call for call in map(_RecordedCall, v.items(records)) if call.id and call.id not in told]
    found = [one for one in entries if not any(call.takes(one) for call in calls)]
    for call in calls:
        later = (n for n, one in enumerate(found) if call.when and (one.when or 0) > call.when)
        found.insert(next(later, len(found)), call)
    return found


def _parts(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [content]


def _block(part: Any) -> Any:
    """Return a part of a message in the neutral form."""
    kind = v.member(part, "type")
    if kind in ("input_text", "output_text"):
        return v.text_block(v.as_text(part.get("text")))
    if kind == "input_image_url":
        return {"type": "image_url", "image_url": part.get("image_url")}
    if kind == "tool_use":
        block = {name: part.get(name) for name in ("type", "id", "name")}
        given = v.as_json(part.get("arguments", part.get("input")))
        return block | {"input": given, "thought_signature": part.get("thoughtSignature")}
    if kind == "tool_result":
        return _result(part)
    if kind == "thinking":
        return {name: part.get(name) for name in ("type", "thinking", "signature")}
    return part


def _result(part: dict[str, Any]) -> dict[str, Any]:
    content, error = part.get("content"), part.get("error")
    if error and not content:
        content = v.as_text(error)
    if v.items(part.get("__images")):
        words = [v.text_block(v.as_text(content))] if content else []
        shown = (v.image_block(v.member(one, "mediaType"), v.member(one, "base64")) for one in part["__images"])
        content = words + [block for block in shown if block]
    return {"type": "tool_result", "tool_use_id": part.get("tool_use_id"), "content": content, "is_error": bool(error)}
