"""What Cline wraps around words: the person's, the tools' in the days before native calls."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

__all__ = ["Call", "Spoken", "read_assistant", "read_user"]

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


class Call(NamedTuple):
    """A call that was written into the text."""

    tool: str
    params: dict[str, Any]


class Spoken(NamedTuple):
    """What one text of a user's message is: words of a person, and results of a tool."""

    said: str = ""
    result: str | None = None
    tool: str = ""
    is_error: bool = False


def read_assistant(words: str) -> tuple[str, list[Call]]:
    """The words before calls that are written into them, and the calls."""
    found = list(_CALL.finditer(words))
    calls = [Call(match[1], dict(_wrapped(match[2], _OPENING))) for match in found]
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
