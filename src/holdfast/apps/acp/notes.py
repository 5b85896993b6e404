"""What an agent is told that has lost a conversation, or did not see how it ended."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.replay import Stage

__all__ = ["WINDOW_TOKENS", "Undone", "interruption_note", "transcript_note", "undone"]

WINDOW_TOKENS = 24_000
"""How much of the past an agent is told at most; the newest of it."""

_RESULT_CHARS = 4_000
_SEEN_CHARS = 2_000
_CALL_CHARS = 1_000
_COMMANDS = ("command", "cmd", "commands", "script")
_FOLDERS = ("cwd", "workdir", "working_directory", "directory", "dir_path")
_UNDONE: dict[Stage, str] = {
    "begun": (
        "These tool calls had begun, and whether they took effect is unknown: {}."
        " Check before you do any of it again."
    ),
    "asked": "These did not run, because nobody answered whether they may: {}.",
    "refused": "These did not run, because the user refused them: {}.",
}

_ABOUT = (
    "[Note of the session keeper, not of the user. This conversation began before this session of"
    " yours, which knows nothing of it. Here is what was said and done so far, oldest first{cut}."
    " Take it as your own past: do not answer it, do not repeat its actions, and go on with the"
    " user's message that follows this note.]"
)
_CUT = "; what came before it is left out"
_ABOUT_END = (
    "[Note of the session keeper, not of the user. Your record of this conversation lacks its end."
    " Here is what was said and done after what you know, oldest first. Take it as your own past:"
    " do not answer it, do not repeat its actions, and go on with the user's message that follows"
    " this note.]"
)


def transcript_note(
    messages: Sequence[Mapping[str, Any]],
    *,
    cut: bool = False,
    before: Sequence[Mapping[str, Any]] = (),
) -> str:
    """A conversation in neutral form as a text for a model that was not there.

    ``cut``: it does not begin with the beginning. ``before`` is what the model knows of it: then
    only the end is told.
    """
    about = _ABOUT_END if before else _ABOUT.format(cut=_CUT if cut else "")
    calls = {
        block.get("id"): f"{block.get('name')}: {_params_of(block)}"
        for message in (*before, *messages)
        for block in _blocks(message)
        if block.get("type") == "tool_use"
    }
    lines, newest = [about, "<conversation>"], None
    for message in messages:
        speaker = "User" if message.get("role") == "user" else "Assistant"
        if isinstance(message.get("content"), str):
            lines.append(f"{speaker}: {message['content']}")
        for block in _blocks(message):
            if block.get("type") == "tool_result":
                id = block.get("tool_use_id")
                lines.append(_told_result(block, "" if id == newest else calls.get(id, "")))
                newest = None
            elif line := _told_block(speaker, block):
                lines.append(line)
                newest = block.get("id") if block.get("type") == "tool_use" else None
    lines.append("</conversation>")
    return "\n".join(lines)


def _blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message.get("content")
    return content if isinstance(content, list) else []


def _told_block(speaker: str, block: Mapping[str, Any]) -> str:
    kind = block.get("type")
    if kind == "text":
        return f"{speaker}: {block.get('text', '')}"
    if kind == "tool_use":
        return f"Assistant used {block.get('name')}: {_params_of(block)}"
    if kind in ("image", "document"):
        return f"{speaker}: [{kind}]"
    return ""  # thoughts are the thinker's own


def _params_of(call: Mapping[str, Any]) -> str:
    return _short(json.dumps(call.get("input"), ensure_ascii=False), _RESULT_CHARS)


def _told_result(block: Mapping[str, Any], call: str) -> str:
    """What came of a call; which, unless it stands right before."""
    label = "It failed" if block.get("is_error") else "It gave"
    if call:
        label = f"{call} {'failed' if block.get('is_error') else 'gave'}"
    return f"{label}: {_short(_text_of(block.get('content')), _RESULT_CHARS)}"


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [block.get("text", f"[{block.get('type')}]") for block in content]
        return "\n".join(map(str, texts))
    return json.dumps(content, ensure_ascii=False)


class Undone(NamedTuple):
    """A call that had no result when a turn was cut off: what was to be done, and how far it is."""

    what: str
    stage: Stage


def undone(call: Mapping[str, Any], stage: Stage, cwd: Any) -> Undone:
    """What a model has to know of a call, given the data of its ``tool_call``.

    Enough to look whether it took effect: the command or the input, and in which folder.
    """
    tool, title, params = call.get("tool"), call.get("title"), call.get("params")
    given = params if isinstance(params, Mapping) else {}
    what = next((text for name in _COMMANDS if (text := _command(given.get(name)))), "")
    if not what:
        rest = {name: value for name, value in given.items() if name != "title"}
        shown = json.dumps(rest, ensure_ascii=False, default=str) if rest else ""
        named = title if isinstance(title, str) and ("title" in given or not rest) else ""
        what = f"{named} ({shown})" if named and shown else named or shown
    folder = next((found for name in _FOLDERS if (found := _command(given.get(name)))), "")
    folder = os.path.join(cwd if isinstance(cwd, str) else "", folder).rstrip(os.sep)
    where = f" in {folder}" if folder else ""
    told = f"{tool}: {_short(what, _CALL_CHARS)}" if what else str(tool)
    return Undone(told + where, stage if stage in _UNDONE else "begun")


def _command(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return shlex.join(value)
    return value if isinstance(value, str) else ""


def interruption_note(calls: Iterable[Undone], seen: str) -> str:
    """What the agent has to know of a turn that never ended: what ran, and what the user saw."""
    parts = ["[Note of the session keeper, not of the user. Your last turn was cut off."]
    calls = list(calls)
    for stage, sentence in _UNDONE.items():
        these = [call.what for call in calls if call.stage == stage]
        if these:
            parts.append(sentence.format("; ".join(these)))
    if seen.strip():
        parts.append(f"The user had seen this much of your answer: {_short(seen, _SEEN_CHARS)!r}.")
    parts.append("Go on with the user's message that follows this note.]")
    return " ".join(parts)


def _short(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]} […{len(text) - 2 * half:,} characters left out…] {text[-half:]}"
