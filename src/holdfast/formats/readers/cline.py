"""Cline: a JSON file of messages and a manifest for each session; before that one for each task."""

from __future__ import annotations

import posixpath
import re
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from holdfast.formats._foreign import Foreign, read_time, refusal_of
from holdfast.formats._source import Source
from holdfast.formats.readers import _values as v
from holdfast.formats.readers._book import Book, SourceEntry
from holdfast.formats.readers._files import Record, ToolReader, has_tables, look, one_by_one, open_document, read_tables

_TOOL = "cline"
_MESSAGES = ".messages.json"
_HISTORY = "api_conversation_history.json"
_HISTORY_NAMES = (_HISTORY, "claude_messages.json")
_VERSION = 1
_USAGE = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadTokens": "cache_read_tokens",
    "cacheWriteTokens": "cache_write_tokens",
    "tokensIn": "input_tokens",
    "tokensOut": "output_tokens",
    "cacheReads": "cache_read_tokens",
    "cacheWrites": "cache_write_tokens",
    "cost": "cost",
}
_CWD = re.compile(r"Current Working Directory \(([^\n]+?)\) Files")

_BLOCKS = {"thinking": ("thought", "thinking", "signature"), "redacted_thinking": ("whole",)}


class _Cline(ToolReader):
    """Also reads sessions of which only the manifest or the index is there."""

    def read(self, source: Source) -> Iterator[Foreign]:
        told: set[str] = set()
        for foreign in super().read(source):
            if foreign.foreign_id not in told:
                told.add(foreign.foreign_id)
                yield foreign


def _is_mine(source: Source, name: str) -> bool:
    if name.endswith(_HISTORY_NAMES) and source.head(name, 64).lstrip().startswith(b"["):
        return True
    if name.endswith(_MESSAGES) and b'"messages"' in source.head(name):  # also one that is torn
        return True
    value = v.mapping(look(source, name, b'"sessionId"'))
    kept = isinstance(value.get("messages"), list) and {"sessionId", "origin"} <= value.keys()
    return kept or _is_manifest(source, name)


def _is_manifest(source: Source, name: str) -> bool:
    return all(mark in source.head(name, 4096) for mark in (b'"session_id"', b'"started_at"', b'"workspace_root"'))


# The files of one session.
def _read_file(source: Source, name: str, problems: list[str]) -> Iterator[Foreign]:
    if name.endswith(_HISTORY_NAMES):
        yield _read_task(source, name, problems)
        return
    base = name.removesuffix(_MESSAGES).removesuffix(".json")
    if _is_manifest(source, name):
        about = v.mapping(_load(source, name, problems))
        kept = v.mapping(_load(source, base + _MESSAGES, problems))
    else:
        about = v.mapping(_load(source, f"{base}.json", problems)) if name != base else {}
        kept = v.mapping(_load(source, name, problems))
    own = v.first_text(kept.get("sessionId"), about.get("session_id")) or posixpath.basename(base)
    foreign = _foreign(own, about, kept, problems)
    refusals = (refusal_of(name, _TOOL, one.get("version"), _VERSION) for one in (about, kept))
    foreign.refusal = next(filter(None, refusals), None)
    yield foreign


def _load(source: Source, name: str, problems: list[str]) -> Any:
    """Return a JSON file, or its intact part; what is missing is reported."""
    if not source.has(name):
        if name.endswith(_MESSAGES):
            problems.append(f"{name}: the messages of the session are not here")
        return None
    return open_document(source, name, problems)


def _foreign(own: str, about: Record, kept: Record, problems: list[str]) -> Foreign:
    book = Book(_TOOL, problems)
    started = read_time(about.get("started_at"))
    book.note(about or {"sessionId": own}, "session", started, "session")
    if v.first_text(kept.get("system_prompt")):
        book.note(kept["system_prompt"], "system_prompt", key="system_prompt")
    teller = _ClineTeller(book, v.first_text(about.get("model")))
    for message in v.items(kept.get("messages")):
        teller.take(message)
    details = v.mapping(about.get("metadata"))
    origin = v.mapping(details.get("sessionHistoryOrigin")) or v.mapping(kept.get("origin"))
    return book.foreign(
        own,
        title=v.first_text(details.get("title")),
        cwd=v.first_text(about.get("cwd"), about.get("workspace_root")),
        parent=v.first_text(about.get("parent_session_id")),
        version=v.first_text(origin.get("version")),
        created_at=started,
    )


def _read_index(source: Source, name: str, problems: list[str]) -> Iterator[Foreign]:
    """Yield the sessions in the index; their messages are elsewhere."""
    for row in read_tables(source, name, {"sessions": "session_id"}, problems)["sessions"]:
        own = v.text(row.get("session_id"))
        missing = f"{name}: the messages of session {own} are in {own}{_MESSAGES}"
        yield _foreign(own, row | {"metadata": v.as_json(row.get("metadata_json"))}, {}, [*problems, missing])


# Tasks of earlier versions.
def _read_task(source: Source, name: str, problems: list[str]) -> Foreign:
    own = source.only(name).folder or "task"
    book = Book(_TOOL, problems)
    teller = _ClineTeller(book, None)
    for message in v.items(_load(source, name, problems)):
        teller.take(message)
    beside = posixpath.join(posixpath.dirname(name), "ui_messages.json")
    shown = [v.mapping(message) for message in v.items(_load(source, beside, problems))]
    # The folder of a task is named by the millisecond in which it began.
    begun = int(own) if own.isdigit() and len(own) > 9 else None
    created = v.first_time(begun, *(message.get("ts") for message in shown))
    for draft in book.drafts:
        draft.timestamp = draft.timestamp or created
    task = next((v.text(message.get("text")) for message in shown if message.get("say") == "task"), "")
    return book.foreign(own, title=v.first_text(task.strip()[:120]), cwd=teller.cwd, created_at=created)


class _ClineTeller:
    """Processes messages one after the other; a call in a text is answered by the next message."""

    def __init__(self, book: Book, model: str | None) -> None:
        self.cwd: str | None = None
        self._book = book
        self._model = model
        self._count = 0
        self._open: dict[str, deque[str]] = {}

    def take(self, message: Any) -> None:
        self._count += 1
        given = v.mapping(message)
        key = f"message/{v.first_text(given.get('id')) or self._count}"
        with self._book.entry(message, read_time(given.get("ts")), key) as entry:
            content = given.get("content")
            blocks = [v.text_block(content)] if isinstance(content, str) else content
            found = [v.mapping(block) for block in v.items(blocks)]
            if given.get("role") == "assistant":
                self._tell_assistant(given, found, entry)
            elif given.get("role") == "user":
                self._tell_user(found, entry)

    def _tell_assistant(self, message: Record, blocks: list[Record], entry: SourceEntry) -> None:
        info = v.mapping(message.get("modelInfo"))
        model = v.first_text(info.get("id"), info.get("modelId"), self._model)
        for block in blocks:
            kind = block.get("type")
            if kind == "text":
                self._tell_words(v.text(block.get("text")), model, entry)
            elif kind == "tool_use":
                id = v.first_text(block.get("id"), block.get("call_id"))
                entry.call(id or entry.key, block.get("name"), block.get("input"))
            else:
                entry.block(block, _BLOCKS)
        entry.usage(v.rename_figures(message.get("metrics"), _USAGE), model)

    def _tell_words(self, words: str, model: str | None, entry: SourceEntry) -> None:
        said, calls = read_assistant(words)
        entry.assistant(said.strip() if calls else said, model)
        for number, (tool, params) in enumerate(calls):
            id = f"{entry.key}/{tool}" + (f"/{number}" if number else "")
            self._open.setdefault(tool, deque()).append(id)
            entry.call(id, tool, params)

    def _tell_user(self, blocks: list[Record], entry: SourceEntry) -> None:
        said: list[Record] = []
        result: list[Record] = []
        answered: tuple[str, bool] | None = None
        for block in blocks:
            kind = v.text(block.get("type"))
            if kind == "tool_result":
                said += self._tell_result(block, entry)
            elif kind == "text":
                words = v.text(block.get("text"))
                spoken = read_user(words)
                place = _CWD.search(words) if self.cwd is None else None
                self.cwd = place[1] if place else self.cwd
                if spoken.result is not None and answered is None:
                    waiting = self._open.get(spoken.tool)  # the oldest open call of that tool
                    answered = waiting.popleft() if waiting else f"{entry.key}/{spoken.tool}", spoken.is_error
                    result.append(v.text_block(spoken.result))
                    said += _words(spoken.said)
                # Text after a result in the same message still belongs to it, unless it is wrapped.
                elif answered is not None and spoken.said and not words.startswith("<"):
                    result.append(block)
                else:
                    said += _words(spoken.said)
            elif kind in {"image", "document"}:
                said.append(block)
        if answered is not None:
            entry.result(answered[0], result, is_error=answered[1])
        entry.kind = "context"
        entry.user(said)

    def _tell_result(self, block: Record, entry: SourceEntry) -> list[Record]:
        """Add a native result, and the person's words that came with it."""
        content = block.get("content")
        entry.result(block.get("tool_use_id"), content, is_error=block.get("is_error") is True)
        words = read_user(v.text(content))
        return _words(words.said if words.said != content else "")


def _words(said: str) -> list[Record]:
    return [v.text_block(said)] if said.strip() else []


READER = _Cline(
    _TOOL,
    (".json", _is_mine, one_by_one(_read_file)),
    (".db", has_tables(sessions="session_id messages_path workspace_root"), one_by_one(_read_index)),
)

# What Cline wraps around words: the person's, and the tools' before native calls.
_TOOLS = """
    execute_command read_file write_to_file replace_in_file search_files list_files
    list_code_definition_names browser_action use_mcp_tool access_mcp_resource web_fetch web_search
    ask_followup_question attempt_completion new_task plan_mode_respond act_mode_respond
    load_mcp_documentation condense summarize_task new_rule report_bug apply_diff insert_content
    search_and_replace apply_patch generate_explanation use_skill use_subagents
    """.split()  # noqa: SIM905 - a list of words is easier to read and to change
_CALL = re.compile(rf"<({'|'.join(_TOOLS)})>(.*?)(?:</\1>|\Z)", re.DOTALL)
_OPENING = re.compile(r"<([a-z_]+)>")
_RESULT = re.compile(r"\[([a-z_]+)(?: for [^\n]*?)?\] Result:\s*(.*)", re.DOTALL)
_WRAPPING = re.compile(r"<(user_input|task|feedback|user_message|answer|new_message)\b[^>]{0,200}>")
_NOISE = re.compile(
    r"\s*(?:<(?:environment_details|mode_notice|explicit_instructions|system_reminder|hook_context"
    r"|workspace_context)\b|\[ERROR\]|\[TASK RESUMPTION\]|# task_progress|\[The user "
    r"(?:didn't|did not) )"
)
_DENIED = re.compile(r"\s*(?:The tool execution failed|The user denied this operation|\[ERROR\])")


class Spoken(NamedTuple):
    """The contents of one text of a user's message: words of a person, and results of a tool."""

    said: str = ""
    result: str | None = None
    tool: str = ""
    is_error: bool = False


def read_assistant(words: str) -> tuple[str, list[tuple[str, dict[str, str]]]]:
    """Return the words before calls that are written into them, and the calls: each its tool and parameters."""
    found = list(_CALL.finditer(words))
    calls = [(match[1], dict(_wrapped(match[2], _OPENING))) for match in found]
    return words[: found[0].start()] if found else words, calls


def _wrapped(words: str, opening: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Yield names and contents of tags, one after the other."""
    at = 0
    while found := opening.search(words, at):
        end = words.find(f"</{found[1]}>", found.end())
        end = len(words) if end < 0 else end
        yield found[1], words[found.end() : end].strip("\n")
        at = end + 1


def read_user(words: str) -> Spoken:
    """Return the contents of one text of a user's message."""
    if _NOISE.match(words):
        return Spoken()
    result = _RESULT.match(words)
    said = "\n\n".join(inner.strip() for _, inner in _wrapped(words, _WRAPPING))
    if result is not None:
        return Spoken(said, result[2], result[1], _DENIED.match(result[2]) is not None)
    return Spoken(said or words)
