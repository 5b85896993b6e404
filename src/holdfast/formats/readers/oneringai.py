"""oneringai: a session file with its compacted conversation, and the fuller journal beside it.

``<base>/<agentId>/sessions/<id>.json``, ``<id>.history.jsonl`` and ``_index.json``; also the single
``session.json`` of an agent, as the first design of that system has it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any

from holdfast.errors import HoldfastError, TooNew
from holdfast.formats._foreign import Foreign, ForeignDraft, check_version, frame, read_time
from holdfast.formats._source import Source
from holdfast.formats.readers._files import document_beside
from holdfast.formats.readers._values import (
    as_json,
    as_text,
    digest,
    first_text,
    first_time,
    join,
    member,
    memories,
    speak,
    text_block,
    texts_in,
)

# The items of a oneringai conversation: what each says, in the neutral form.


TOOL = "oneringai"


class ConversationItem:
    """One item of the conversation, with its time and line where the journal has them."""

    __slots__ = ("item", "raw", "role", "when")

    def __init__(self, item: Any, when: int | None = None, raw: Any = None, role: str = "") -> None:
        self.item = item
        self.when = when
        self.raw = item if raw is None else raw
        self.role = role

    @property
    def id(self) -> str | None:
        """The item's own id, which it need not have."""
        own = member(self.item, "id")
        return own if isinstance(own, str) and own else None

    @property
    def words(self) -> str:
        """A name for what the item says."""
        return digest(member(self.item, "role") or self.role, member(self.item, "content"))

    @property
    def key(self) -> str:
        """The name under which its events are known."""
        return self.id or self.words


def with_calls(items: list[ConversationItem], records: Any) -> list[ConversationItem]:
    """The items, and among them, by their times, the calls that are kept in a list of their own.

    A call that an item tells too is left to it. An item that only repeats what a call gave back is
    the call's result, and is kept beside it.
    """
    told = {
        as_text(member(part, "id"))
        for one in items
        for part in _parts(member(one.item, "content"))
        if member(part, "type") == "tool_use"
    }
    calls = [_RecordedCall(record) for record in (records if isinstance(records, list) else [])]
    calls = [call for call in calls if call.id and call.id not in told]
    found = [one for one in items if not any(call.takes(one) for call in calls)]
    for call in calls:
        later = (n for n, one in enumerate(found) if call.when and (one.when or 0) > call.when)
        found.insert(next(later, len(found)), call)
    return found


class _RecordedCall(ConversationItem):
    """A record of a call: its name, arguments and end."""

    __slots__ = ("_repeated",)

    def __init__(self, record: Any) -> None:
        super().__init__(record, read_time(member(record, "timestamp")))
        self._repeated: list[Any] = []

    def takes(self, item: ConversationItem) -> bool:
        """Whether an item says what came of this call; no second one does."""
        result = member(self.item, "result")
        words = result if isinstance(result, str) else as_text(result)
        if self._repeated or not words or member(item.item, "role") != "tool":
            return False
        if member(item.item, "content") != words:
            return False
        self._repeated.append(item.raw)
        return True

    def drafts(self) -> list[ForeignDraft]:
        """The call, and its result once it ended."""
        record = self.item
        took = record.get("durationMs")
        began = self.when
        if began and isinstance(took, (int, float)) and 0 < took < began:
            began -= int(took)
        call = {
            "id": self.id,
            "tool": as_text(record.get("name")) or "unknown",
            "params": as_json(record.get("args", record.get("arguments"))),
        }
        raw = [record, *self._repeated] if self._repeated else record
        drafts = [ForeignDraft("tool_call", call, began, raw=raw)]
        error = record.get("error")
        if error or "result" in record:
            ended = {"toolCallId": self.id, "result": error or record.get("result")}
            ended |= {"is_error": True} if error else {}
            drafts.append(ForeignDraft("tool_result", ended, self.when))
        return drafts


def said(entry: ConversationItem, model: str | None = None) -> list[ForeignDraft]:
    """The events of an item, each with a key of its own."""
    item = entry.item
    role = member(item, "role") or entry.role
    if isinstance(entry, _RecordedCall):
        drafts = entry.drafts()
    elif not role or member(item, "type") == "compaction":
        drafts = [frame(TOOL, entry.raw, entry.when)]
    else:
        content = member(item, "content") if isinstance(item, dict) else item
        blocks = [_block(part) for part in _parts(content)]
        extra = {"model": model, "usage": _usage(item)} if role == "assistant" else {}
        drafts = speak(role, blocks, entry.when, entry.raw, **extra)
    for number, draft in enumerate(drafts):
        draft.key = f"{entry.key}.{number}"
    return drafts


def _parts(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [content]


def _usage(item: Any) -> Any:
    usage = member(item, "usage") or member(item, "metadata", "usage")
    return usage if isinstance(usage, dict) else None


def _block(part: Any) -> Any:
    """A part of a message in the neutral form."""
    kind = member(part, "type")
    if kind in ("input_text", "output_text"):
        return text_block(as_text(part.get("text")))
    if kind == "input_image_url":
        return {"type": "image_url", "image_url": part.get("image_url")}
    if kind == "tool_use":
        block = {"type": "tool_use", "id": part.get("id"), "name": part.get("name")}
        block["input"] = as_json(part.get("arguments", part.get("input")))
        return block | {"thought_signature": part.get("thoughtSignature")}
    if kind == "tool_result":
        return _result(part)
    if kind == "thinking":
        return {name: part.get(name) for name in ("type", "thinking", "signature")}
    return part


def _result(part: dict[str, Any]) -> dict[str, Any]:
    content: Any = part.get("content")
    error = part.get("error")
    if error and not content:
        content = as_text(error)
    images = part.get("__images")
    if isinstance(images, list) and images:
        words = [text_block(as_text(content))] if content else []
        content = words + [_image(image) for image in images]
    return {"type": "tool_result", "tool_use_id": part.get("tool_use_id"), "content": content, "is_error": bool(error)}


def _image(image: Any) -> dict[str, Any]:
    media = as_text(member(image, "mediaType")) or "image/png"
    source = {"type": "base64", "media_type": media, "data": as_text(member(image, "base64"))}
    return {"type": "image", "source": source}


# What oneringai keeps beside the sessions of an agent: its memory, plugins and instructions.


SESSION = "session.json"
_MEMORY = "memory.json"
_PLUGINS = "plugins/"
_INSTRUCTIONS = "custom_instructions.json"
_OLD_INSTRUCTIONS = "custom_instructions.md"
_INSTRUCTIONS_VERSION = 2
_OLD_INSTRUCTIONS_BYTES_MAX = 1024 * 1024


class AgentFiles:
    """The files of one agent, as far as they are there; what is damaged is told as passed over."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.plugins = self._plugins()
        self.instructions = self._instructions()

    def _plugins(self) -> dict[str, Any]:
        """The states that lie in files of their own; beside a single file only the memory."""
        plugins = [name for name in self._source.names(".json") if name.startswith(_PLUGINS)]
        found = {}
        for name in [_MEMORY, *plugins]:
            value = document_beside(self._source, name, TOOL, _VERSION)
            if isinstance(value, dict):
                found[posixpath.basename(name).removesuffix(".json")] = value
        return found

    def _instructions(self) -> Any:
        """What a person told the agent for good: texts with their ids and times, or one text."""
        told = document_beside(self._source, _INSTRUCTIONS, TOOL, _INSTRUCTIONS_VERSION)
        entries = member(told, "entries")
        if isinstance(entries, list):
            return entries or None
        if not self._source.has(_OLD_INSTRUCTIONS):
            return None
        data = self._source.read(_OLD_INSTRUCTIONS, _OLD_INSTRUCTIONS_BYTES_MAX)
        text = data.decode("utf-8", "replace").strip()
        return [{"id": "legacy_instructions", "content": text}] if text else None


def is_agent_folder(source: Source) -> bool:
    """Whether a folder has such files directly in it."""
    return not source.is_file and any(source.has(name) for name in (SESSION, _INSTRUCTIONS, _OLD_INSTRUCTIONS))


__all__ = ["READER"]

_VERSION = 1
_CONTEXT_VERSION = 2  # 1 has a history of texts, 2 a conversation of items
_NAMED_MAX = 20
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
    places = (".oneringai/agents",)

    def claims(self, source: Source) -> bool:
        """A session file, a journal, the index that lists them, or the folder of an agent."""
        if not source.is_file:
            return is_agent_folder(source) and any(self.claims(one) for one in _sessions(source))
        if source.name.endswith(".jsonl"):
            first = source.first(source.name)
            return _is_journal_line(first)
        value = source.glimpse(source.name)
        return _is_session(value) or _is_index(value)

    def read(self, source: Source) -> Iterator[Foreign]:
        """The session of the file; for an index, those that it lists and that are there."""
        if not source.is_file:
            yield from self._read_agent(source)
            return
        if source.name.endswith(".jsonl"):
            yield from self._read_journal(source)
            return
        value = source.json(source.name)
        if source.name == SESSION and "context" in value:
            agent = AgentFiles(source)
            yield _under(agent, _first_design(source, agent))
            return
        if not _is_index(value):
            yield _session(source, value, _journal_of(source))
            return
        check_version(source.name, TOOL, value.get("version"), _VERSION)
        for name in _listed(value, source):
            try:
                yield _session(source, source.json(name), name.removesuffix(".json") + _JOURNAL)
            except HoldfastError as error:
                yield Foreign(TOOL, name.removesuffix(".json"), [], problems=[str(error)])

    def _read_agent(self, source: Source) -> Iterator[Foreign]:
        """All sessions of an agent, each with what the agent was told for good."""
        agent = AgentFiles(source)
        for one in _sessions(source):
            if one.is_used() or not self.claims(one):
                continue
            for foreign in self.read(one) if one.name != SESSION else [_first_design(one, agent)]:
                yield _under(agent, foreign)

    def _read_journal(self, source: Source) -> Iterator[Foreign]:
        """A journal by its own: with the session file that it belongs to, if that is there."""
        stem = source.name.removesuffix(".jsonl").removesuffix(".history")
        session = f"{stem}.json"
        if source.has(session):
            try:
                yield _session(source, source.json(session), source.name)
                return
            except HoldfastError as error:
                # The journal holds all that was said, but neither memory nor title.
                source.pass_over(session, str(error))
        yield _session(source, {"sessionId": stem}, source.name)


READER = OneRingAI()


def _sessions(source: Source) -> list[Source]:
    """The files of an agent's folder that may be its sessions."""
    found = [source.only(SESSION)] if source.has(SESSION) else []
    return found + [one for one in source.below("sessions").children() if one.is_file]


def _first_design(source: Source, agent: AgentFiles) -> Foreign:
    """The one session of an agent: memory and plugins lie beside it, or in it."""
    value = source.json(source.name)
    return _session(source, {**value, "files": agent.plugins}, _journal_of(source))


def _under(agent: AgentFiles, foreign: Foreign) -> Foreign:
    """A session with what its agent was told for good."""
    told = _instructed(agent.instructions)
    if told and foreign.refusal is None:
        foreign.drafts += told
        foreign.problems.append("its custom instructions were kept only to be read")
    return foreign


def _instructed(instructions: Any, when: int | None = None) -> list[ForeignDraft]:
    """What the agent was told for good, to be read by people: it instructs nobody here."""
    if not instructions:
        return []
    data = {"custom_instructions": instructions}
    return [ForeignDraft("metadata", data, when, key=f"instructions.{digest(data)}")]


def _is_session(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    state = value.get("state")
    if isinstance(value.get("sessionId"), str) and isinstance(state, dict):
        return bool({"conversation", "pluginStates", "systemPrompt", "metadata"} & state.keys())
    return isinstance(value.get("agentId"), str) and isinstance(member(value, "context", "core"), dict)


def _is_index(value: Any) -> bool:
    sessions = member(value, "sessions")
    return (
        isinstance(sessions, list)
        and isinstance(member(value, "agentId"), str)
        and all(isinstance(member(row, "sessionId"), str) for row in sessions)
    )


def _is_journal_line(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and "item" in value
        and "type" in value
        and ("turnIndex" in value or "timestamp" in value)
    )


def _journal_of(source: Source) -> str:
    return source.name.removesuffix(".gz").removesuffix(".json") + _JOURNAL


def _listed(index: dict[str, Any], source: Source) -> Iterator[str]:
    """The files of the sessions in an index. A file's name is the id, made tame by that system."""
    for row in index["sessions"]:
        name = f"{_tamed(row['sessionId'])}.json"
        if source.has(name):
            yield name
        elif not source.has(name.removesuffix(".json") + _JOURNAL):
            source.pass_over(name, "the index lists it, but there is no such file")


def _tamed(id: str) -> str:
    text = "".join(char if char.isascii() and (char.isalnum() or char in "_-") else "_" for char in id)
    while "__" in text:
        text = text.replace("__", "_")
    return text.removeprefix("_").removesuffix("_").lower() or "default"


def _session(source: Source, value: dict[str, Any], journal: str) -> Foreign:
    id = as_text(value.get("sessionId") or value.get("agentId") or source.name)
    problems: list[str] = []
    state = value.get("state") if isinstance(value.get("state"), dict) else value.get("context")
    state = state if isinstance(state, dict) else {}
    try:
        check_version(source.name, TOOL, value.get("version"), _VERSION)
        check_version(f"the context in {source.name}", TOOL, state.get("version"), _CONTEXT_VERSION)
    except TooNew as error:
        return Foreign(TOOL, id, [], refusal=error)
    # One index serves all sessions of a folder.
    index = source.remember("oneringai index", _INDEX, lambda: _index_of(source))
    listed = next((row for row in member(index, "sessions") or [] if row["sessionId"] == id), None)
    created = first_time(value.get("createdAt"), member(listed, "createdAt"))
    saved = first_time(
        value.get("lastSavedAt"),
        value.get("lastActiveAt"),
        member(listed, "lastSavedAt"),
        member(state, "metadata", "savedAt"),
    )
    drafts = list(_prompts(state, created))
    entries = _entries(source, state, journal, problems)
    first = next((entry.when for entry in entries if entry.when), None)
    model = first_text(member(state, "metadata", "model"), member(state, "config", "model"))
    for entry in entries:
        drafts += said(entry, model)
    drafts += _kept(value, state, saved)
    drafts += _left(value, state, saved)
    problems += _not_taken(value, state)
    metas = [member(value, "metadata"), member(state, "metadata"), member(listed, "metadata")]
    drafts.append(_description(value, metas, saved))
    return Foreign(
        TOOL,
        id,
        drafts,
        title=first_text(*(member(meta, "title") for meta in metas)),
        tags=texts_in(*(member(meta, "tags") for meta in metas)),
        created_at=created or first or saved,
        version=as_text(value["version"]) if "version" in value else None,
        scope=_scope(state, index),
        agent_id=first_text(value.get("agentId")) or _scope(state, index),
        problems=problems,
    )


def _index_of(source: Source) -> Any:
    """The index: a save in that system may wipe the title from a session's own file."""
    index = document_beside(source, _INDEX, TOOL, _VERSION, _is_index)
    if index is not None:
        list(_listed(index, source))  # tells which of them are not there
    return index


def _scope(state: dict[str, Any], index: Any) -> str | None:
    """Whose session it is: agents name their sessions as they like, so two may choose one name."""
    return first_text(member(state, "metadata", "agentId"), member(index, "agentId"))


def _entries(source: Source, state: dict[str, Any], journal: str, problems: list[str]) -> list[ConversationItem]:
    """The journal, with what only the state has put in its place."""
    kept = with_calls(_conversation(state), member(state, "core", "toolCalls"))
    if not source.has(journal):
        return kept
    written = []
    for line, value in source.values(journal, problems):
        if not _is_journal_line(value):
            problems.append(f"{journal}: a line that is no entry was left out")
            continue
        item = value["item"]
        role = "" if member(item, "role") else _ROLES.get(value["type"], as_text(value["type"]))
        written.append(ConversationItem(item, read_time(value.get("timestamp")), line, role))
    # Copies in the state may have lost their id, or, being shortened, their words.
    words = {entry.id: entry.words for entry in written if entry.id}
    return join(written, kept, key=lambda entry: words.get(entry.id or "", entry.words))


def _conversation(state: dict[str, Any]) -> list[ConversationItem]:
    """What the state itself keeps of the conversation, with times where it has them."""
    core = (member(state, "core", name) for name in ("conversation", "history"))
    items = next((kept for kept in (state.get("conversation"), *core) if kept), None)
    times = member(state, "core", "messageMetadata")
    found = [ConversationItem(item) for item in items] if isinstance(items, list) else []
    for one in found:
        when = read_time(member(one.item, "timestamp"))
        one.when = when or read_time(member(times, one.id or "", "timestamp"))
    return found


def _prompts(state: dict[str, Any], created: int | None) -> Iterator[ForeignDraft]:
    for way in (("systemPrompt",), ("core", "systemPrompt"), ("core", "instructions")):
        prompt = member(state, *way)
        if isinstance(prompt, str) and prompt.strip():
            yield ForeignDraft("system", {"content": prompt}, created, key=f"prompt.{digest(prompt)}")


def _kept(value: dict[str, Any], state: dict[str, Any], saved: int | None) -> Iterator[ForeignDraft]:
    """Memory as memory; what other plugins kept only as it came: no plugin comes in with a file."""
    known: dict[str, str] = {}
    for name, kept in _plugins(value, state):
        entries = member(kept, "entries")
        found = list(memories(entries, saved, read_time))
        if not found:
            raw = {"plugin": name, "state": kept}
            yield frame(TOOL, raw, saved, key=f"plugin.{name}.{digest(kept)}")
            if _are_instructions(entries):
                yield from _instructed(entries, saved)
        for draft in found:
            mark, earlier = digest(draft.data), known.get(draft.data["key"])
            if earlier == mark:
                continue  # the same entry in a file of its own
            known.setdefault(draft.data["key"], mark)
            # Two plugins may use one key for different things; here a key is unique.
            if earlier is not None:
                draft.data["key"] = f"{name}/{draft.data['key']}"
            draft.key = f"memory.{digest(draft.data)}"
            yield draft


def _are_instructions(entries: Any) -> bool:
    return isinstance(entries, list) and any(
        first_text(member(one, "id")) and first_text(member(one, "content")) for one in entries
    )


def _left(value: dict[str, Any], state: dict[str, Any], saved: int | None) -> Iterator[ForeignDraft]:
    """What has no place here, as it came; tools and permissions are in it, and do not act."""
    left: dict[str, Any] = {name: item for name, item in value.items() if name not in _TOLD}
    left |= {name: item for name, item in state.items() if name not in _TOLD}
    core = state.get("core")
    if isinstance(core, dict):
        left |= {name: item for name, item in core.items() if name not in _TOLD and item}
    if left:
        yield frame(TOOL, left, saved, key=f"left.{digest(left)}")


def _not_taken(value: dict[str, Any], state: dict[str, Any]) -> Iterator[str]:
    """What an agent had there and has not here, because nothing in a file may act."""
    given = {
        name: ", ".join(sorted(str(rule) for rule in rules)[:_NAMED_MAX])
        for name in ("approvals", "allowlist", "blocklist")
        if isinstance(rules := member(state, "permissions", name), (dict, list)) and rules
    }
    if given:
        told = "; ".join(f"{name}: {tools}" for name, tools in given.items())
        yield f"its permissions were left out, and do not hold here ({told})"
    if any(member(state, "tools", name) for name in ("enabled", "namespaces", "priorities")):
        yield "which tools were switched on, and how they were ranked, was left out"
    for name, kept in _plugins(value, state):
        if kept and not list(memories(member(kept, "entries"), None, read_time)):
            yield f"the state of its plugin {name[:80]!r} was kept only to be read"


def _plugins(value: dict[str, Any], state: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    if isinstance(value.get("memory"), dict):
        yield "memory", value["memory"]
    places = (value.get("files"), state.get("pluginStates"), state.get("plugins"))
    for states in (*places, value.get("plugins")):
        for name, kept in states.items() if isinstance(states, dict) else ():
            yield str(name), _unwrapped(as_json(kept))


def _unwrapped(kept: Any) -> Any:
    for name in ("state", "data"):
        if isinstance(member(kept, name, "entries"), list):
            return kept[name]
    return kept


def _description(value: dict[str, Any], metas: list[Any], saved: int | None) -> ForeignDraft:
    told: dict[str, Any] = {}
    for meta in reversed(metas):
        told |= meta if isinstance(meta, dict) else {}
    for name in ("agentId", "agentType"):
        if name in value:
            told.setdefault(name, value[name])
    data = {TOOL: {name: item for name, item in told.items() if name not in ("title", "tags")}}
    return ForeignDraft("metadata", data, saved, key=f"about.{digest(data, saved)}")
