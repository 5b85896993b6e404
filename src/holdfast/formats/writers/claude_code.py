"""Claude Code's own session file: one record for each block, chained by their ids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.formats._view import DialogueTurn, ExportOptions, Recorded, dialogue, in_dialect, iso, stable_uuid

VERSION = "2.1.197"  # the release of Claude Code that resumes these files in our tests

_MODEL = "claude-sonnet-4-5"


def session_id(recorded: Recorded) -> str:
    """Return the id under which Claude Code knows the session."""
    return stable_uuid("claude-code", recorded.metadata.session_id)


def project_folder(cwd: str) -> str:
    """Return the name of the folder in which Claude Code keeps the sessions of a project."""
    return "".join(char if char.isascii() and char.isalnum() else "-" for char in cwd)


def session_file(recorded: Recorded, options: ExportOptions) -> str:
    """Return where Claude Code looks for the session, below the user's home."""
    return f".claude/projects/{project_folder(options.cwd)}/{session_id(recorded)}.jsonl"


def write_claude_code(recorded: Recorded, options: ExportOptions) -> Iterator[bytes]:
    """Yield the records of the conversation, then its title and its last one."""
    own = session_id(recorded)
    parent: str | None = None
    prompt = ""
    number = 0
    for turn in dialogue(recorded).turns:
        for message in _messages(turn, options, stable_uuid(own, "message", number)):
            uuid = stable_uuid(own, number)
            record = {
                "parentUuid": parent,
                # Only records outside side chains are shown when the session is resumed.
                "isSidechain": False,
                "type": turn.role,
                "message": message,
                "uuid": uuid,
                "timestamp": iso(turn.times[0]),
                "userType": "external",
                "entrypoint": "cli",
                "cwd": options.cwd,
                "sessionId": own,
                "version": VERSION,
                "gitBranch": "",
            }
            yield _line(record)
            parent, number = uuid, number + 1
            prompt = _words(message) if turn.role == "user" else prompt
    if title := recorded.metadata.title:
        yield _line({"type": "custom-title", "customTitle": title, "sessionId": own})
    if parent is not None:
        yield _line({"type": "last-prompt", "lastPrompt": prompt, "leafUuid": parent, "sessionId": own})


def _messages(turn: DialogueTurn, options: ExportOptions, id: str) -> Iterator[dict[str, Any]]:
    """Yield a user's turn as one message; an assistant's as one for each block, of one id."""
    for message in in_dialect(turn, "anthropic"):
        content = message["content"]
        if turn.role == "user":
            yield {"role": "user", "content": content}
            continue
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        calls = any(block["type"] == "tool_use" for block in blocks)
        for block in blocks:
            yield {
                "id": f"msg_{id.replace('-', '')[:24]}",
                "type": "message",
                "role": "assistant",
                "model": options.model or _MODEL,
                # Claude Code writes a line for each block; by the id they are one message again.
                "content": [block],
                "stop_reason": "tool_use" if calls else "end_turn",
                "stop_sequence": None,
                "usage": {"input_tokens": 0, "output_tokens": 0},
            }


def _words(message: dict[str, Any]) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block["type"] == "text")


def _line(record: dict[str, Any]) -> bytes:
    return msgspec.json.encode(record) + b"\n"
