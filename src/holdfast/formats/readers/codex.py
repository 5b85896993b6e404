"""Codex: one rollout file for each session; a fork points into the file of its parent."""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import Any

from holdfast.formats._foreign import read_time
from holdfast.formats._source import Source
from holdfast.formats.readers import _values as v
from holdfast.formats.readers._book import SessionLog, SourceEntry
from holdfast.formats.readers._files import Record, ToolReader, first_records, records, stem

Lines = list[tuple[bytes, Record]]

_LINE_TYPES = frozenset(
    """
    session_meta response_item event_msg turn_context world_state compacted token_usage_record
    inter_agent_communication
    """.split()  # noqa: SIM905 - a list of words is easier to read and to change
)
_ANCESTORS_MAX = 20
_USAGE = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cached_input_tokens": "cache_read_tokens",
    "cache_write_input_tokens": "cache_write_tokens",
    "total_tokens": "total_tokens",
}
_DATE = re.compile(r"rollout-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-")


def _titles(source: Source) -> dict[str, str]:
    """Return names that people gave to sessions, by the index beside their folders."""
    found = (record for name in source.names("session_index.jsonl") for _, record in records(source, name, []))
    return {v.text(record.get("id")): title for record in found if (title := v.first_text(record.get("thread_name")))}


def _is_mine(source: Source, name: str) -> bool:
    found = first_records(source, name)
    if any(v.text(r.get("type")) in _LINE_TYPES and isinstance(r.get("payload"), dict) for r in found):
        return True
    # The oldest files: a head without a type, then the items themselves.
    oldest = bool(found) and {"id", "timestamp"} <= found[0].keys() and "type" not in found[0]
    return oldest and ("instructions" in found[0] or bool(_DATE.match(stem(name))))


def _payload(record: Record) -> tuple[str, Record]:
    """Return a line's type and data, whatever the version of the tool."""
    payload = record.get("payload")
    if isinstance(payload, dict):
        return v.text(record.get("type")), payload
    if v.text(record.get("type")) in _ITEM_TYPES:
        return "response_item", record
    return ("session_meta", record) if "id" in record and "type" not in record else ("", record)


class _Rollout(SessionLog):
    """A rollout; a fork gets the lines it refers to, if those are in the source."""

    tool = "codex"
    id_member = None  # a line has no name of its own: its bytes give it one

    def __init__(self, source: Source, name: str) -> None:
        super().__init__(source, name)
        self._meta = _meta_of(self._lines)
        self._lines = self._inherited(self._meta, 0) + self._lines
        self._model: str | None = None
        self._cwd: str | None = None
        self._totals: Any = None
        self._rollbacks = 0
        kinds = [_payload(record) for _, record in self._lines]
        # Words are kept twice, as items for the model and as events for the screen: items have more.
        self._has_items = any(k == "response_item" and p.get("type") == "message" for k, p in kinds)
        # Newer versions write the usage in records of its own, and go on writing it in events.
        self._has_records = any(kind == "token_usage_record" for kind, _ in kinds)

    def _about(self) -> dict[str, Any]:
        meta, in_name = self._meta, v.UUID.search(stem(self._name))
        titles = self._source.remember("codex titles", "", lambda: _titles(self._source))
        own = v.first_text(meta.get("id"), in_name[0] if in_name else None) or stem(self._name)
        return {
            "foreign_id": own,
            "title": self._title or titles.get(own),
            "cwd": v.first_text(meta.get("cwd"), self._cwd),
            # The session that this one was forked from, or whose sub-agent it is.
            "parent": v.first_text(
                meta.get("forked_from_id"),
                meta.get("parent_thread_id"),
                v.member(meta, "source", "subagent", "thread_spawn", "parent_thread_id"),
            ),
            "version": v.first_text(meta.get("cli_version")),
            "created_at": read_time(meta.get("timestamp")),
        }

    # -- forks ---------------------------------------------------------------------------------
    def _inherited(self, meta: Record, depth: int) -> Lines:
        """Return the lines of the parent that a fork refers to instead of having them."""
        base = v.mapping(meta.get("history_base"))
        parent, end = v.text(base.get("thread_id")), base.get("end_ordinal_exclusive")
        if not parent:
            return []
        ends = (f"-{parent}.jsonl", f"-{parent}.jsonl.zst")
        name = next((n for n in self._source.names() if n.endswith(ends) and n != self._name), None)
        if name is None or depth >= _ANCESTORS_MAX:
            self._book.problems.append(
                f"{self._name}: a fork; what came before it is in session {parent}, whose file is not here"
            )
            return []
        lines = list(records(self._source, name, self._book.problems))
        kept = lines
        if isinstance(end, int):
            kept = [pair for pair in lines if not isinstance(at := pair[1].get("ordinal"), int) or at < end]
        return self._inherited(_meta_of(lines), depth + 1) + kept

    # -- lines ----------------------------------------------------------------------------------
    def _tell(self, record: Record, entry: SourceEntry) -> None:
        kind, payload = _payload(record)
        if kind == "response_item":
            _tell_item(payload, self._model, entry)
            # There the tool gives the model the working directory.
            words = v.block_text(payload.get("content")) if payload.get("role") == "user" else ""
            if words.lstrip().startswith("<environment_context>"):
                self._cwd = v.first_text(self._cwd, v.between(words, "<cwd>", "</cwd>"))
        elif kind == "event_msg":
            self._tell_event(payload, entry)
        elif kind == "turn_context":
            self._model = v.first_text(payload.get("model")) or self._model
            self._cwd = self._cwd or v.first_text(payload.get("cwd"))
        elif kind == "token_usage_record":
            entry.usage(v.rename_figures(payload.get("usage"), _USAGE), self._model)
        elif kind == "compacted":
            self._book.tell_summary(payload.get("message"), entry)

    def _tell_event(self, event: Record, entry: SourceEntry) -> None:
        kind = entry.kind = v.text(event.get("type")) or None
        if kind == "token_count" and not self._has_records:
            self._tell_usage(v.mapping(event.get("info")), entry)
        elif kind == "thread_name_updated":
            self._title = v.first_text(event.get("thread_name"), self._title)
        elif kind == "thread_rolled_back":
            turns = event.get("num_turns")
            if isinstance(turns, int) and turns > 0 and self._book.has_talk():
                self._rollbacks += 1
                self._book.set_aside(self._book.turns_back(turns), f"rolled-back-{self._rollbacks}")
        elif not self._has_items and kind == "user_message":
            entry.user("" if _NOISE.match(v.text(event.get("message"))) else event.get("message"))
        elif not self._has_items and kind == "agent_message":
            entry.assistant(event.get("message"), self._model)
        elif not self._has_items and kind == "agent_reasoning":
            entry.thinking(v.text(event.get("text")))

    def _tell_usage(self, info: Record, entry: SourceEntry) -> None:
        totals = info.get("total_token_usage")
        if totals is not None and totals != self._totals:  # repeated with each change of limits
            entry.usage(v.rename_figures(info.get("last_token_usage"), _USAGE), self._model)
        self._totals = totals


def _meta_of(lines: Lines) -> Record:
    found = (_payload(record) for _, record in lines)
    return next((payload for kind, payload in found if kind == "session_meta"), {})


READER = ToolReader(_Rollout.tool, (".jsonl", _is_mine, _Rollout.sessions))

# The items of the Responses API, as Codex keeps them.
_CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call", "tool_search_call"})
_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output", "tool_search_output"})
_ITEM_TYPES = _CALLS | _OUTPUTS | {"message", "reasoning", "web_search_call"}
_NOISE = re.compile(
    r"\s*(?:<(environment_context|user_instructions|permissions[ _]instructions|turn_aborted"
    r"|user_shell_command|user_action|skills?(?:_instructions)?|subagent_notification|collaboration_mode"
    r"|apps_instructions|plugins_instructions|model_switch|personality_spec|hook_prompt"
    r"|INSTRUCTIONS|environments_instructions|realtime_conversation|goal_context"
    r"|recommended_plugins)\b|# AGENTS\.md instructions)"
)
_FAILED = re.compile(r"\A(?:Exit code: |(?:.*\n){0,4}?Process exited with code )(?!0\b)\d+")
_FAILED_LOOKED_AT = 400


def _tell_item(item: Record, model: str | None, entry: SourceEntry) -> None:
    kind = v.text(item.get("type")) or ("message" if "role" in item else "")
    if kind == "message":
        _tell_message(item, model, entry)
    elif kind == "reasoning":
        _tell_reasoning(item, entry)
    elif kind in _CALLS:
        _tell_call(item, entry)
    elif kind in _OUTPUTS:
        _tell_output(item, entry)
    elif kind == "web_search_call":
        id = v.first_text(item.get("id")) or entry.key
        entry.call(id, "web_search", item.get("action"))
        entry.result(id, {"status": item.get("status")}, is_error=item.get("status") == "failed")
    else:
        entry.kind = v.text(kind) or None


def _tell_message(item: Record, model: str | None, entry: SourceEntry) -> None:
    role = item.get("role")
    content = item.get("content")
    if role == "assistant":
        entry.assistant(v.block_text(content), model)
    elif role == "user":
        entry.kind = "context"
        names = v.items(v.member(item, "internal_chat_message_metadata_passthrough", "content_item_kinds"))
        parts = [content] if isinstance(content, str) else v.items(content)
        entry.user(v.blocks(*(_said(part, kind) for part, kind in zip_longest(parts, names[: len(parts)]))))
    else:
        entry.kind = v.text(role) or None


def _said(part: Any, kind: Any) -> Record | None:
    """Return a part of a user's message in our form; None if it is not the user's."""
    # Newer versions say themselves which parts are a person's words.
    if isinstance(kind, str) and not kind.startswith(("user", "unknown")):
        return None
    part = {"type": "input_text", "text": part} if isinstance(part, str) else v.mapping(part)
    if "image_url" in part:
        url = part["image_url"]
        return v.data_url_block(url.get("url") if isinstance(url, dict) else url)
    words = v.text(part.get("text"))
    return None if _NOISE.match(words) or not words else v.text_block(words)


def _tell_reasoning(item: Record, entry: SourceEntry) -> None:
    id = v.first_text(item.get("id"))
    # Only reasoning with the provider's id can be sent back to it.
    if id and id.startswith("rs") and (item.get("encrypted_content") or item.get("summary")):
        names = ("id", "summary", "content", "encrypted_content")
        kept = {name: item[name] for name in names if item.get(name)}
        entry.thinking([{"type": "reasoning", "summary": [], **kept}])
        return
    entry.thinking(v.block_text(item.get("summary")) or v.block_text(item.get("content")))


def _tell_call(item: Record, entry: SourceEntry) -> None:
    kind = item["type"]
    name = {"local_shell_call": "local_shell", "tool_search_call": "tool_search"}.get(kind, item.get("name"))
    params = item.get("action") if kind == "local_shell_call" else v.as_json(item.get("arguments"))
    if kind == "custom_tool_call":
        params = {"input": item.get("input")}
    entry.call(v.first_text(item.get("call_id"), item.get("id")) or entry.key, name, params)


def _tell_output(item: Record, entry: SourceEntry) -> None:
    id = v.first_text(item.get("call_id"), item.get("id")) or entry.key
    output = item.get("output", item.get("tools"))
    failed = False
    if isinstance(output, dict):
        failed = output.get("success") is False
        output = output.get("content_items") or output.get("content")
    if isinstance(output, list):
        output = v.blocks(*map(_output_block, output))
    elif isinstance(output, str):
        output, failed = _unwrap(output, failed=failed)
    entry.result(id, output, is_error=failed)


def _output_block(part: Any) -> Record | None:
    part = v.mapping(part)
    if "image_url" in part:
        return v.data_url_block(part["image_url"])
    return v.text_block(part["text"]) if isinstance(part.get("text"), str) else part


def _unwrap(output: str, *, failed: bool) -> tuple[str, bool]:
    """Return the output of a command, and whether it failed; earlier versions kept both as JSON."""
    inner = v.as_json(output) if output.startswith("{") else None
    if isinstance(inner, dict) and isinstance(inner.get("output"), str):
        code = v.member(inner, "metadata", "exit_code")
        return inner["output"], failed or (isinstance(code, int) and code != 0)
    return output, failed or _FAILED.match(output[:_FAILED_LOOKED_AT]) is not None
