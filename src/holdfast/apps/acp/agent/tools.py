"""The tools of our agent in an editor: its files and terminals where it lends them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.agent import Tool, ToolContext, builtin_tools
from holdfast.apps.acp.agent.editor import EditorAccess
from holdfast.errors import UsageError

Show = Callable[[str, list[dict[str, Any]]], None]
_COMMAND_S = 300


class ToolBox:
    """The tools of one session.

    ``check`` raises Forbidden where nothing may be changed; ``show_diff`` and ``show_terminal`` add
    to what the editor shows of a call.
    """

    def __init__(self, desk: EditorAccess, *, check: Callable[[], None], show_diff: Show, show_terminal: Show) -> None:
        self._desk = desk
        self._check = check
        self._show_diff = show_diff
        self._show_terminal = show_terminal

    def tools(self) -> list[Tool]:
        """Return the tools that this editor makes possible, and those that need no editor."""
        lent = self._desk.capabilities
        found = [*builtin_tools(), *self._reading()]
        if lent.writes:
            found += self._writing()
        if lent.terminal:
            found += self._running()
        return found

    async def preview(self, tool: str, args: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the changes that a call would make, for the person who is asked about it."""
        path, changed = args.get("path"), args.get("content") if tool == "write_file" else None
        try:
            if tool == "edit_file":
                changed = await self._edited(str(path), str(args.get("old_text")), str(args.get("new_text")))
            is_known = isinstance(path, str) and isinstance(changed, str)
            return [await self._diff(str(path), str(changed))] if is_known else []
        except Exception:  # noqa: BLE001 - the call itself will say what is wrong with it
            return []

    def _reading(self) -> list[Tool]:
        desk = self._desk

        async def read_file(path: str) -> str:
            """Read a text file of the project.

            Args:
                path: Its path, absolute or from the top of the project.
            """
            return await desk.read(path)

        async def list_directory(path: str = ".") -> list[str]:
            """List a directory of the project; the names of directories end with a slash.

            Args:
                path: Its path, absolute or from the top of the project.
            """
            return await desk.names(path)

        options: dict[str, Any] = {"read_only": True, "namespace": "files"}
        return [Tool(read_file, **options), Tool(list_directory, **options)]

    def _writing(self) -> list[Tool]:
        async def write_file(ctx: ToolContext, path: str, content: str) -> str:
            """Write a text file of the project: a new one, or all of one that is there.

            Args:
                path: Its path, absolute or from the top of the project.
                content: All that the file is to hold.
            """
            return await self._write(ctx.call_id, path, content)

        async def edit_file(ctx: ToolContext, path: str, old_text: str, new_text: str) -> str:
            """Replace a part of a text file of the project.

            Args:
                path: Its path, absolute or from the top of the project.
                old_text: The part as it stands there, which must occur exactly once.
                new_text: What takes its place.
            """
            self._check()
            changed = await self._edited(path, old_text, new_text)
            return await self._write(ctx.call_id, path, changed)

        options: dict[str, Any] = {"needs_permission": True, "namespace": "files"}
        return [Tool(write_file, **options), Tool(edit_file, **options)]

    async def _write(self, call_id: str, path: str, content: str) -> str:
        self._check()
        # Before the file is written: afterwards nobody has the old text.
        self._show_diff(call_id, [await self._diff(path, content)])
        await self._desk.write(path, content)
        lines = len(content.splitlines())
        return f"{path} is written and has {lines} line{'' if lines == 1 else 's'}"

    async def _edited(self, path: str, old_text: str, new_text: str) -> str:
        before = await self._desk.read(path)
        found = before.count(old_text) if old_text else 0
        if found != 1:
            told = f"old_text occurs {found} times in {path}, and must occur once"
            raise UsageError(told, remedy="Read the file again, and give more of what is around it.")
        return before.replace(old_text, new_text)

    async def _diff(self, path: str, content: str) -> dict[str, Any]:
        before = await self._desk.read_if_there(path)
        shown = {"type": "diff", "path": self._desk.path(path), "newText": content}
        return shown if before is None else {**shown, "oldText": before}

    def _running(self) -> list[Tool]:
        async def run_command(
            ctx: ToolContext, command: str, directory: str = ".", timeout_s: int = _COMMAND_S
        ) -> dict[str, Any]:
            """Run a line of shell in a terminal of the editor, and wait for its end.

            Args:
                command: The line, for sh.
                directory: Where it runs, absolute or from the top of the project.
                timeout_s: After so many seconds it is ended.
            """
            self._check()
            if not 0 < timeout_s <= 24 * 3600:
                raise UsageError("timeout_s is a number of seconds, at most a day")
            terminal = await self._desk.start(command, directory)
            self._show_terminal(ctx.call_id, [{"type": "terminal", "terminalId": terminal}])
            return await self._desk.finish(terminal, timeout_s)

        return [Tool(run_command, needs_permission=True, namespace="terminal")]
