"""Cline: a JSON file of messages and a manifest for each session; before that one for each task."""

from __future__ import annotations

import posixpath
import re
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from holdfast.formats._foreign import Foreign, read_time, refusal_of
from holdfast.formats._source import Source
from holdfast.formats.readers._book import Book, SourceEntry
from holdfast.formats.readers._files import Record, ToolReader, look, open_document, tables_of, whole_rows
from holdfast.formats.readers._values import first_text, items, json_value, mapping, rename_figures, text, text_block

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
    """Also tells of sessions of which only the manifest or the index is there."""

    def read(self, source: Source) -> Iterator[Foreign]:
        told: set[str] = set()
        for foreign in super().read(source):
            if foreign.foreign_id not in told:
                told.add(foreign.foreign_id)
                yield foreign


def _is_mine(source: Source, name: str) -> bool:
    return _is_history(source, name) or _is_messages(source, name) or _is_manifest(source, name)


def _is_history(source: Source, name: str) -> bool:
    return name.endswith(_HISTORY_NAMES) and source.head(name, 64).lstrip().startswith(b"[")


def _is_messages(source: Source, name: str) -> bool:
    if name.endswith(_MESSAGES):  # also one that is torn
        return b'"messages"' in source.head(name)
    value = mapping(look(source, name, b'"sessionId"'))
    return isinstance(value.get("messages"), list) and {"sessionId", "origin"} <= value.keys()


def _is_manifest(source: Source, name: str) -> bool:
    head = source.head(name, 4096)
    return b'"session_id"' in head and b'"started_at"' in head and b'"workspace_root"' in head


def _is_index(source: Source, name: str) -> bool:
    columns = tables_of(source, name).get("sessions", ())
    return {"session_id", "messages_path", "workspace_root"} <= set(columns)


# --- the files of one session


def _read_files(source: Source, names: list[str]) -> Iterator[Foreign]:
    return (_read_file(source, name) for name in names)


def _read_file(source: Source, name: str) -> Foreign:
    if name.endswith(_HISTORY_NAMES):
        return _read_task(source, name)
    problems: list[str] = []
    base = name.removesuffix(_MESSAGES).removesuffix(".json")
    if _is_manifest(source, name):
        about = mapping(_load(source, name, problems))
        kept = mapping(_load(source, base + _MESSAGES, problems))
    else:
        about = mapping(_load(source, f"{base}.json", problems)) if name != base else {}
        kept = mapping(_load(source, name, problems))
    own = first_text(kept.get("sessionId"), about.get("session_id")) or posixpath.basename(base)
    foreign = _foreign(own, about, kept, problems)
    refusals = (refusal_of(name, _TOOL, one.get("version"), _VERSION) for one in (about, kept))
    foreign.refusal = next(filter(None, refusals), None)
    return foreign


def _load(source: Source, name: str, problems: list[str]) -> Any:
    """A JSON file, or what is whole of it; what is missing is told."""
    if not source.has(name):
        if name.endswith(_MESSAGES):
            problems.append(f"{name}: the messages of the session are not here")
        return None
    return open_document(source, name, problems)


def _foreign(own: str, about: Record, kept: Record, problems: list[str]) -> Foreign:
    book = Book(_TOOL, problems)
    started = read_time(about.get("started_at"))
    with book.entry(about or {"sessionId": own}, started, "session") as entry:
        entry.kind = "session"
    if first_text(kept.get("system_prompt")):
        with book.entry(kept["system_prompt"], key="system_prompt") as entry:
            entry.kind = "system_prompt"
    teller = _ClineTeller(book, first_text(about.get("model")))
    for message in items(kept.get("messages")):
        teller.take(message)
    details = mapping(about.get("metadata"))
    origin = mapping(details.get("sessionHistoryOrigin")) or mapping(kept.get("origin"))
    return book.foreign(
        own,
        title=first_text(details.get("title")),
        cwd=first_text(about.get("cwd"), about.get("workspace_root")),
        parent=first_text(about.get("parent_session_id")),
        version=first_text(origin.get("version")),
        created_at=started or book.first_stamp,
    )


def _read_indexes(source: Source, names: list[str]) -> Iterator[Foreign]:
    """The sessions that the index knows; their messages lie elsewhere."""
    for name in names:
        problems: list[str] = []
        with source.database(name) as database:
            rows = whole_rows(database, "sessions", "session_id", name, problems)
        for row in rows:
            about = row | {"metadata": json_value(row.get("metadata_json"))}
            own = text(row.get("session_id"))
            missing = f"{name}: the messages of session {own} are in {own}{_MESSAGES}"
            yield _foreign(own, about, {}, [*problems, missing])


# --- tasks of earlier versions


def _read_task(source: Source, name: str) -> Foreign:
    problems: list[str] = []
    folder = posixpath.dirname(name)
    own = source.only(name).folder or "task"
    book = Book(_TOOL, problems)
    teller = _ClineTeller(book, None)
    for message in items(_load(source, name, problems)):
        teller.take(message)
    shown = items(_load(source, posixpath.join(folder, "ui_messages.json"), problems))
    stamps = [stamp for m in shown if (stamp := read_time(mapping(m).get("ts")))]
    # The folder of a task is named by the millisecond in which it began.
    created = read_time(int(own)) if own.isdigit() and len(own) > 9 else None
    for draft in book.drafts:
        draft.timestamp = draft.timestamp or created or next(iter(stamps), None)
    task = next((text(mapping(m).get("text")) for m in shown if mapping(m).get("say") == "task"), "")
    return book.foreign(
        own,
        title=first_text(task.strip()[:120]),
        cwd=teller.cwd,
        created_at=created or next(iter(stamps), book.first_stamp),
    )


class _ClineTeller:
    """Takes messages one after the other; a call in a text is answered by the next message."""

    def __init__(self, book: Book, model: str | None) -> None:
        self.cwd: str | None = None
        self._book = book
        self._model = model
        self._count = 0
        self._open: dict[str, deque[str]] = {}

    def take(self, message: Any) -> None:
        """One message."""
        self._count += 1
        given = mapping(message)
        key = f"message/{first_text(given.get('id')) or self._count}"
        with self._book.entry(message, read_time(given.get("ts")), key) as entry:
            content = given.get("content")
            blocks = [text_block(content)] if isinstance(content, str) else content
            found = [mapping(block) for block in items(blocks)]
            if given.get("role") == "assistant":
                self._tell_assistant(given, found, entry)
            elif given.get("role") == "user":
                self._tell_user(found, entry)

    def _tell_assistant(self, message: Record, blocks: list[Record], entry: SourceEntry) -> None:
        info = mapping(message.get("modelInfo"))
        model = first_text(info.get("id"), info.get("modelId"), self._model)
        for block in blocks:
            kind = block.get("type")
            if kind == "text":
                self._tell_words(text(block.get("text")), model, entry)
            elif kind == "tool_use":
                id = first_text(block.get("id"), block.get("call_id"))
                entry.call(id or entry.key, block.get("name"), block.get("input"))
            else:
                entry.block(block, _BLOCKS)
        entry.usage(rename_figures(message.get("metrics"), _USAGE), model)

    def _tell_words(self, words: str, model: str | None, entry: SourceEntry) -> None:
        said, calls = read_assistant(words)
        entry.assistant(said.strip() if calls else said, model)
        for number, call in enumerate(calls):
            id = f"{entry.key}/{call.tool}" + (f"/{number}" if number else "")
            self._open.setdefault(call.tool, deque()).append(id)
            entry.call(id, call.tool, call.params)

    def _tell_user(self, blocks: list[Record], entry: SourceEntry) -> None:
        said: list[Record] = []
        result: list[Record] = []
        answered: tuple[str, bool] | None = None
        for block in blocks:
            kind = text(block.get("type"))
            if kind == "tool_result":
                said += self._tell_result(block, entry)
            elif kind == "text":
                spoken = read_user(text(block.get("text")))
                self._note_cwd(text(block.get("text")))
                if spoken.result is not None and answered is None:
                    answered = self._answered(spoken.tool, entry), spoken.is_error
                    result.append(text_block(spoken.result))
                    said += _words(spoken.said)
                # What follows a result in the same message is still of it, unless it is wrapped.
                elif answered is not None and spoken.said and "<" not in block["text"][:1]:
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
        """A native result; words of the person that came with it."""
        content = block.get("content")
        failed = block.get("is_error") is True
        entry.result(block.get("tool_use_id"), content, is_error=failed)
        words = read_user(text(content) if isinstance(content, str) else "")
        return _words(words.said if words.said != content else "")

    def _answered(self, tool: str, entry: SourceEntry) -> str:
        """The id of the oldest open call of that tool."""
        waiting = self._open.get(tool)
        return waiting.popleft() if waiting else f"{entry.key}/{tool}"

    def _note_cwd(self, words: str) -> None:
        place = _CWD.search(words) if self.cwd is None else None
        self.cwd = place[1] if place else self.cwd


def _words(said: str) -> list[Record]:
    return [text_block(said)] if said.strip() else []


READER = _Cline(
    _TOOL,
    (
        ".cline/data/sessions/*/*.messages.json",
        ".cline/data/tasks/*/api_conversation_history.json",
        ".config/Code/User/globalStorage/saoudrizwan.claude-dev/tasks/*/api_conversation_history.json",
        "Library/Application Support/Code/User/globalStorage/saoudrizwan.claude-dev/tasks/*/*.json",
    ),
    (".json", _is_mine, _read_files),
    (".db", _is_index, _read_indexes),
    homes={"CLINE_DATA_DIR": ".cline/data", "CLINE_DIR": ".cline"},
)


# What Cline wraps around words: the person's, the tools' in the days before native calls.


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


class ClineCall(NamedTuple):
    """A call that was written into the text."""

    tool: str
    params: dict[str, Any]


class Spoken(NamedTuple):
    """What one text of a user's message is: words of a person, and results of a tool."""

    said: str = ""
    result: str | None = None
    tool: str = ""
    is_error: bool = False


def read_assistant(words: str) -> tuple[str, list[ClineCall]]:
    """The words before calls that are written into them, and the calls."""
    found = list(_CALL.finditer(words))
    calls = [ClineCall(match[1], dict(_wrapped(match[2], _OPENING))) for match in found]
    return words[: found[0].start()] if found else words, calls


def _wrapped(words: str, opening: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Names and contents of what is wrapped in tags, one after the other."""
    at = 0
    while found := opening.search(words, at):
        end = words.find(f"</{found[1]}>", found.end())
        end = len(words) if end < 0 else end
        yield found[1], words[found.end() : end].strip("\n")
        at = end + 1


def read_user(words: str) -> Spoken:
    """What one text of a user's message is."""
    if _NOISE.match(words):
        return Spoken()
    result = _RESULT.match(words)
    said = "\n\n".join(inner.strip() for _, inner in _wrapped(words, _WRAPPING))
    if result is not None:
        failed = _DENIED.match(result[2]) is not None
        return Spoken(said, result[2], result[1], failed)
    return Spoken(said or words)
