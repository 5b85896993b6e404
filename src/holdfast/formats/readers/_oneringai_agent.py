"""What oneringai keeps beside the sessions of an agent: its memory, plugins and instructions."""

from __future__ import annotations

import posixpath
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.formats._foreign import check_version
from holdfast.formats._source import Source
from holdfast.formats.readers._oneringai_items import TOOL
from holdfast.formats.readers._speech import member

__all__ = ["SESSION", "Agent", "is_agent_folder"]

SESSION = "session.json"
_MEMORY = "memory.json"
_PLUGINS = "plugins/"
_INSTRUCTIONS = "custom_instructions.json"
_OLD_INSTRUCTIONS = "custom_instructions.md"
_VERSION = 1
_INSTRUCTIONS_VERSION = 2
_OLD_INSTRUCTIONS_BYTES_MAX = 1024 * 1024


class Agent:
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
            value = self._json(name, _VERSION)
            if isinstance(value, dict):
                found[posixpath.basename(name).removesuffix(".json")] = value
        return found

    def _instructions(self) -> Any:
        """What a person told the agent for good: texts with their ids and times, or one text."""
        entries = member(self._json(_INSTRUCTIONS, _INSTRUCTIONS_VERSION), "entries")
        if isinstance(entries, list):
            return entries or None
        if not self._source.has(_OLD_INSTRUCTIONS):
            return None
        data = self._source.read(_OLD_INSTRUCTIONS, _OLD_INSTRUCTIONS_BYTES_MAX)
        text = data.decode("utf-8", "replace").strip()
        return [{"id": "legacy_instructions", "content": text}] if text else None

    def _json(self, name: str, newest: int) -> Any:
        if not self._source.has(name):
            return None
        try:
            value = self._source.json(name)
            check_version(name, TOOL, member(value, "version"), newest)
            return value
        except HoldfastError as error:
            self._source.pass_over(name, str(error))
            return None


def is_agent_folder(source: Source) -> bool:
    """Whether a folder has such files directly in it."""
    return not source.is_file and any(
        source.has(name) for name in (SESSION, _INSTRUCTIONS, _OLD_INSTRUCTIONS)
    )
