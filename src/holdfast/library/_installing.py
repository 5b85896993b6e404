"""Where each coding agent finds a session that was written for it, and how to resume it there."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from holdfast.formats import ExportOptions, Format, Recorded

__all__ = ["Installation", "installation"]


class Installation(NamedTuple):
    """The file's place, the id that the tool knows, and the command that goes on."""

    path: str
    session_id: str
    command: str


def installation(format: Format, recorded: Recorded, options: ExportOptions) -> Installation:
    """What is to be done for a native format."""
    go = f"cd {shlex.quote(options.cwd)} && "
    if format.name == "claude-code":
        from holdfast.formats.writers import claude_code

        own = claude_code.session_id(recorded)
        home = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
        path = claude_code.session_file(recorded, options).removeprefix(".claude/")
        return Installation(os.path.join(home, path), own, f"{go}claude --resume {own}")
    if format.name == "codex":
        from holdfast.formats.writers import codex

        own = codex.session_id(recorded)
        home = os.environ.get("CODEX_HOME") or os.path.expanduser("~/.codex")
        path = codex.session_file(recorded, options).removeprefix(".codex/")
        return Installation(os.path.join(home, path), own, f"{go}codex resume {own}")
    name = f"{recorded.metadata.session_id}.{format.name}{format.suffix}"
    path = os.path.join(options.cwd, name)
    file = shlex.quote(name)
    if format.name == "gemini-cli":
        from holdfast.formats.writers import gemini_cli

        own = gemini_cli.session_id(recorded)
        return Installation(path, own, f"{go}gemini --session-file {file}")
    from holdfast.formats.writers import opencode

    own = opencode.session_id(recorded)
    return Installation(path, own, f"{go}opencode import {file} && opencode --session {own}")
