"""Claude Code: one JSONL file for each session, its records a tree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from holdfast.formats._foreign import read_time
from holdfast.formats._source import Source
from holdfast.formats.readers import _values as v
from holdfast.formats.readers._book import SessionLog, SourceEntry, TreeNode, left_behind
from holdfast.formats.readers._files import Record, ToolReader, has_record, stem

_TALK = frozenset({"user", "assistant"})
_OWN_TYPES = frozenset(
    """
    queue-operation file-history-snapshot last-prompt custom-title ai-title attachment progress
    permission-mode agent-name pr-link mode cost-state
    """.split()  # noqa: SIM905 - a list of words is easier to read and to change
)
# Messages of the tool itself in a user's place.
_NOISE = re.compile(
    r"\s*(?:<(?:local-command-(?:stdout|stderr|caveat)|command-(?:message|args|contents)|bash-(?:input"
    r"|stdout|stderr)|system-reminder|task-notification|user-memory-input|teammate-message"
    r"|new-diagnostics|ide_(?:opened_file|selection|diagnostics))\b|Caveat: The messages below were"
    r"|\[Request interrupted by user)"
)
_SUMS = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadInputTokens": "cache_read_input_tokens",
    "cacheCreationInputTokens": "cache_creation_input_tokens",
    "costUSD": "cost",
}
_SYNTHETIC = "<synthetic>"
_COST = "cost-state"
_BY_PROVIDER = ("_tool_use", "_tool_result")  # of tools that the provider runs itself

_BLOCKS = {
    "text": ("text", "text"),
    "thinking": ("thought", "thinking", "signature"),
    "redacted_thinking": ("whole",),
    "tool_use": ("call", "id", "name", "input"),
}


def _is_record(record: Record) -> bool:
    kind = v.text(record.get("type"))
    if kind in _TALK:
        return "content" in v.mapping(record.get("message"))
    if kind == "summary":
        return "leafUuid" in record
    return kind in _OWN_TYPES and ("sessionId" in record or "messageId" in record)


class _Transcript(SessionLog):
    tool = "claude-code"
    id_member = "uuid"

    def __init__(self, source: Source, name: str) -> None:
        super().__init__(source, name)
        found = [record for _, record in self._lines]
        self._is_side_file = all(record.get("isSidechain") is True for record in found if "uuid" in record)
        nodes = [_node(r) for r in found if isinstance(r.get("uuid"), str) and self._is_main(r)]
        self._strays = left_behind(nodes, joined_roots=True)
        self._sides: dict[str, str] = {}
        # Whether sub-agents of this session have files of their own.
        started = any(v.member(record, "toolUseResult", "agentId") for record in found)
        elsewhere = started and not any(record.get("isSidechain") is True for record in found)
        self._bill = _Bill(has_agents_elsewhere=elsewhere)
        # Each block of an answer is a line; all of them have the usage, of which the last counts.
        answers = ((at, record) for at, record in enumerate(found) if record.get("type") == "assistant")
        self._last_of_message = {v.text(v.member(record, "message", "id")): at for at, record in answers}
        # The beginning of a session whose lines have no times.
        self._began: int | None = None
        if not any(read_time(record.get("timestamp")) for record in found):
            begun = (read_time(record.get("startTime")) for record in found if record.get("type") == _COST)
            self._began = min(filter(None, begun), default=None)

    def _stamp(self, record: Record) -> int | None:
        stamp = super()._stamp(record)
        return self._began if stamp is None and self._book.first_stamp is None else stamp

    def _about(self) -> dict[str, Any]:
        own, parent = self._identity()
        return {
            "foreign_id": own,
            "title": self._best_title(),
            "cwd": self._first("cwd"),
            "parent": parent,
            "version": self._first("version"),
        }

    # -- assignment ----------------------------------------------------------------------------
    def _is_main(self, record: Record) -> bool:
        return self._is_side_file or record.get("isSidechain") is not True

    def _run(self, record: Record) -> str | None:
        """Return the run of a sub-agent, or of a branch that was left behind; None for the main one."""
        if self._is_main(record):
            return super()._run(record)
        own, before = v.text(record.get("uuid")), self._sides.get(v.text(record.get("parentUuid")))
        self._sides[own] = before or f"side-{v.first_text(record.get('agentId'), own) or 'agent'}"
        return self._sides[own]

    def _identity(self) -> tuple[str, str | None]:
        """Return the session's own id, and that of the one it continues."""
        ids = list(dict.fromkeys(filter(None, (v.text(record.get("sessionId")) for _, record in self._lines))))
        if self._is_side_file and ids and self._first("agentId"):
            return f"{ids[-1]}/agent-{self._first('agentId')}", ids[-1]
        # A file has the name of its session; lines in it may be from the one it was resumed from.
        named = stem(self._name)
        own = named if v.UUID.fullmatch(named) or not ids else ids[-1]
        return own, next((id for id in ids if id != own), None)

    def _best_title(self) -> str | None:
        """Return the last title of the best kind."""
        found = [
            record.get(name)
            for kind, name in (("custom-title", "customTitle"), ("ai-title", "aiTitle"), ("summary", "summary"))
            for _, record in reversed(self._lines)
            if record.get("type") == kind
        ]
        return v.first_text(*found)

    # -- records -------------------------------------------------------------------------------
    def _tell(self, record: Record, entry: SourceEntry) -> None:
        kind = record.get("type")
        if kind == "user":
            self._tell_user(record, entry)
        elif kind == "assistant":
            self._tell_assistant(record, entry)
        elif kind == "attachment":
            _tell_queued(v.mapping(record.get("attachment")), entry)
        elif kind == _COST:
            entry.kind = _COST
            for model, figures in self._bill.settle(record):
                entry.usage(figures, model, f"cost/{entry.key}/{model or ''}")

    def _tell_user(self, record: Record, entry: SourceEntry) -> None:
        content = v.member(record, "message", "content")
        for block in map(v.mapping, v.items(content)):
            if block.get("type") == "tool_result":
                failed = block.get("is_error") is True
                entry.result(block.get("tool_use_id"), block.get("content"), is_error=failed)
        if record.get("isCompactSummary") is True:
            self._book.tell_summary(content, entry)
        elif _is_from_the_tool(record):
            entry.kind = "meta"
        else:
            self._tell_words(content, entry)

    def _tell_words(self, content: Any, entry: SourceEntry) -> None:
        words = v.text(content)
        command = v.between(words, "<command-name>", "</command-name>")
        if command is not None:
            if self._is_answered():
                arguments = v.between(words, "<command-args>", "</command-args>") or ""
                entry.user(f"{command.strip()} {arguments.strip()}".strip())
            entry.kind = "command"
        elif isinstance(content, str):
            entry.kind = "noise"
            entry.user("" if _NOISE.match(content) else content)
        else:
            given = [
                v.mapping(block) for block in v.items(content) if not _NOISE.match(v.text(v.member(block, "text")))
            ]
            entry.user([block for block in given if block.get("type") in ("text", "image", "document")])

    def _is_answered(self) -> bool:
        """Return whether the model answered: a command that only concerns the tool is not a turn."""
        for _, record in self._lines[self._at + 1 :]:
            if record.get("type") == "assistant":
                return bool(v.member(record, "message", "model") != _SYNTHETIC)
            if record.get("type") == "user" and record.get("isMeta") is not True:
                return False
        return False

    def _tell_assistant(self, record: Record, entry: SourceEntry) -> None:
        message = v.mapping(record.get("message"))
        model = message.get("model")
        # The tool's own error message; the model never saw it.
        if model == _SYNTHETIC or record.get("isApiErrorMessage") is True:
            entry.kind = "synthetic"
            return
        content = message.get("content")
        for block in map(v.mapping, [v.text_block(content)] if isinstance(content, str) else v.items(content)):
            kind = v.text(block.get("type"))
            if not entry.block(block, _BLOCKS, model) and kind.endswith(_BY_PROVIDER):
                entry.assistant([block], model)
        id = v.text(message.get("id"))
        # All lines of a message have its usage so far; the last has the total.
        if not id or self._last_of_message.get(id) == self._at:
            figures = v.rename_figures(message.get("usage"), v.ANTHROPIC_USAGE)
            figures |= v.rename_figures(record, {"costUSD": "cost"})  # of earlier versions
            entry.usage(figures, model, f"usage/{id or entry.key}")
            self._bill.count(model, figures)


class _Bill:
    """Turns sums into differences, so that nothing is counted twice.

    A sum also covers requests without lines, such as those for titles. It includes sub-agents; if those have files of
    their own, their usage is counted there.
    """

    def __init__(self, *, has_agents_elsewhere: bool) -> None:
        self._has_agents_elsewhere = has_agents_elsewhere
        self._told: dict[str, Record] = {}
        self._sums: dict[str, Record] = {}
        self._total: float = 0

    def count(self, model: Any, figures: Record) -> None:
        """Note the usage of a request that has a line of its own."""
        told = self._told.setdefault(_model_name(model), {})
        for name, amount in figures.items():
            told[name] = told.get(name, 0) + amount

    def settle(self, record: Record) -> Iterator[tuple[str | None, Record]]:
        """Yield what a line with sums adds, by model: tokens without lines of their own, and the cost."""
        used = v.mapping(record.get("modelUsage"))
        sums = {_model_name(model): v.rename_figures(figures, _SUMS) for model, figures in used.items()}
        if not sums:
            total = v.rename_figures(record, {"totalCostUSD": "cost"}).get("cost", 0)
            since = total - self._total if total >= self._total else total
            self._total = total
            if since > 0:
                yield None, {"requests": 0, "cost": since, "settles": True}
            return
        known = ((model, name, amount) for model, before in self._sums.items() for name, amount in before.items())
        # Sums only grow within a process.
        if any(sums.get(model, {}).get(name, 0) < amount for model, name, amount in known):
            self._sums = {}  # another process counts, from zero
        partly_unknown = record.get("hasUnknownModelCost") is True
        for model, figures in sums.items():
            if figures == self._sums.get(model):
                continue
            added = self._added(model, figures)
            if "cost" in figures or not partly_unknown:
                added = {"cost": 0.0, **added, "settles": True}
            self._sums[model] = figures
            if added:
                yield model, {"requests": 0, **added}

    def _added(self, model: str, figures: Record) -> Record:
        before = self._sums.get(model, {})
        added = {name: amount - before.get(name, 0) for name, amount in figures.items()}
        told = self._told.get(model, {})
        for name in [name for name in added if name != "cost" and model in self._told]:
            since = added[name] - told.get(name, 0)
            told[name] = max(-since, 0)
            added[name] = 0 if self._has_agents_elsewhere else since
        return {name: amount for name, amount in added.items() if amount > 0}


def _model_name(model: Any) -> str:
    """Return the name of a model as in answers: sums may append the size of its window."""
    return str(model).partition("[")[0]


def _is_from_the_tool(record: Record) -> bool:
    """Return whether the tool itself says this in the user's place, by its own marks."""
    marked = ("isMeta", "isVisibleInTranscriptOnly", "isSynthetic")
    origin = v.text(v.member(record, "origin", "kind"))
    return any(record.get(mark) is True for mark in marked) or origin not in {"", "human"}


def _node(record: Record) -> TreeNode:
    parent = v.first_text(record.get("parentUuid"), record.get("logicalParentUuid"))
    blocks = [v.mapping(block) for block in v.items(v.member(record, "message", "content"))]
    calls = [block.get("id") for block in blocks if block.get("type") == "tool_use"]
    answers = [block.get("tool_use_id") for block in blocks if block.get("type") == "tool_result"]
    group = v.first_text(v.member(record, "message", "id")) if record.get("type") == "assistant" else None
    is_talk = v.text(record.get("type")) in _TALK or v.member(record, "attachment", "type") == "queued_command"
    return TreeNode(record["uuid"], parent, group, v.texts(calls), v.texts(answers), is_talk)


def _tell_queued(attachment: Record, entry: SourceEntry) -> None:
    """Add words that were typed while the model worked, and reached it in mid-turn."""
    entry.kind = v.text(attachment.get("type")) or None
    prompt, is_prompt = attachment.get("prompt"), v.text(attachment.get("commandMode")) in {"", "prompt"}
    if entry.kind == "queued_command" and is_prompt and not _NOISE.match(v.block_text(prompt)):
        entry.user(prompt)


READER = ToolReader(_Transcript.tool, (".jsonl", has_record(_is_record), _Transcript.sessions))
