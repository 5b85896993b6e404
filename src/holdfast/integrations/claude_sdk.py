"""The Claude Agent SDK on our log: a store for ``ClaudeAgentOptions(session_store=…)``.

Each session of the SDK is one of ours, the transcripts of its subagents are runs within it, and
every entry comes back deep-equal.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from anyio import from_thread
from anyio.to_thread import run_sync  # of the SDK, which runs on trio as well as on asyncio

from holdfast.errors import UsageError
from holdfast.integrations._calls import DurableCalls, ResultForm, ToolCall, Unknown
from holdfast.integrations._history import missing
from holdfast.integrations._place import AdapterSession, Library, Recent, library_of, linked
from holdfast.integrations._units import Form, Unit, Units, Words, as_run, blocks_of, retract, spoken
from holdfast.model import Event

if TYPE_CHECKING:
    from claude_agent_sdk import (
        SdkMcpTool,
        SessionKey,
        SessionListSubkeysKey,
        SessionStore,
        SessionStoreEntry,
        SessionStoreListEntry,
        SessionSummaryEntry,
    )

__all__ = ["HoldfastSessionStore", "bring_over", "durable"]

_TOOL = "claude-sdk"


class _Transcripts(Units):
    """One session of the SDK: its entries, and its summary so far."""

    def _begin_again(self) -> None:
        super()._begin_again()
        self.known: set[tuple[str | None, str | None]] = set()
        """The ids of entries, each with the transcript that it is in."""
        self.summary: SessionSummaryEntry | None = None
        self.folded_to = -1

    def of(self, subpath: str | None) -> list[Unit]:
        """Return the entries of the main transcript, or of another one."""
        return [unit for unit in self.read() if unit.own and unit.run == subpath]

    def _add(self, unit: Unit) -> None:
        super()._add(unit)
        if unit.own:
            self.known.add((unit.run, _id(unit.item)))

    def _drop(self, unit: Unit) -> None:
        if unit.own:
            self.known.discard((unit.run, _id(unit.item)))


class HoldfastSessionStore:
    """Transcripts of the SDK, in the sessions of a Holdfast.

    ``hf`` is a Holdfast, a store URL or path, or None for the default place. Entries are on the
    medium when ``append`` returns; an entry with a known ``uuid`` is not recorded a second time.
    Works under asyncio and under trio: what waits for a medium does so on a thread.
    """

    def __init__(self, hf: Library = None) -> None:
        self._library = library = library_of(hf)
        self._kept = Recent[tuple[str, str], _Transcripts](
            lambda key: _Transcripts(AdapterSession(library, _TOOL, key[1], scope=key[0]), _FORM)
        )

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Record entries, all of them or none."""
        if not entries:
            return
        kept, subpath = self._of(key), key.get("subpath")

        def tell() -> list[Event]:
            new: dict[Any, Any] = {}
            for number, entry in enumerate(cast("list[dict[str, Any]]", entries)):
                id = _id(entry)
                # The SDK may send entries again: those with an id are recognised by it.
                if id is None:
                    new[number] = entry
                elif (subpath, id) not in kept.known:
                    new.setdefault(id, entry)
            return as_run(_FORM.words(new.values()), subpath)

        await run_sync(kept.write, tell)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return the entries in their order; None for a key that was never written."""
        units = await run_sync(self._of(key).of, key.get("subpath"))
        return [cast("SessionStoreEntry", unit.fresh) for unit in units] or None

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the sessions of a project, with the time of their last change."""
        found = await run_sync(list, self._sessions(project_key))
        return [{"session_id": id, "mtime": changed} for id, _, changed in found]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return the SDK's own summary of each session of a project."""
        return await run_sync(self._summarise, project_key)

    async def delete(self, key: SessionKey) -> None:
        """Move a session to the trash (``hf.undelete`` brings it back), or take back a subpath."""
        kept, subpath = self._of(key), key.get("subpath")
        if subpath is None:
            self._kept.pop((key["project_key"], key["session_id"]))
            await run_sync(kept.place.delete)
            return
        await run_sync(kept.write, lambda: as_run(retract(kept.of(subpath)), subpath))

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the subpaths of a session, in the order of their first entries."""
        units = await run_sync(self._of(key).read)
        return list(dict.fromkeys(unit.run for unit in units if unit.own and unit.run))

    def _of(self, key: SessionKey | SessionListSubkeysKey) -> _Transcripts:
        return self._kept((key["project_key"], key["session_id"]))

    def _sessions(self, project_key: str) -> Iterator[tuple[str, _Transcripts, int]]:
        """Yield the sessions of a project that have entries, and when each was changed."""
        for _, link in linked(self._library, _TOOL):
            kept = self._kept((project_key, link["id"])) if link.get("scope") == project_key else None
            if kept is not None and kept.of(None):
                changed = self._library.last_modified(kept.place.id)
                yield link["id"], kept, 0 if changed is None else round(changed.timestamp() * 1000)

    def _summarise(self, project_key: str) -> list[SessionSummaryEntry]:
        from claude_agent_sdk import fold_session_summary

        made: list[SessionSummaryEntry] = []
        for id, kept, changed in self._sessions(project_key):
            key: SessionKey = {"project_key": project_key, "session_id": id}
            with kept.lock:
                # A summary is a fold over entries; entries that it contains are not folded again.
                new = [unit for unit in kept.of(None) if unit.seqs[0] > kept.folded_to]
                if new:
                    kept.summary = fold_session_summary(kept.summary, key, [unit.item for unit in new])
                    kept.folded_to = new[-1].seqs[0]
                if kept.summary is not None:
                    made.append({**kept.summary, "mtime": changed})
        return made


def durable(
    tool: SdkMcpTool[Any], *, session: HoldfastSessionStore, key: SessionKey, unknown: Unknown = "tell"
) -> SdkMcpTool[Any]:
    """Return a tool whose effect happens once for each call, even if the process is killed during it.

    For tools of your own, which ``create_sdk_mcp_server`` serves. Intent and result are kept in the session of ``key``
    that ``session``, the store, keeps. A call that was cut off is not run again: the model is told that its outcome is
    unknown. With ``unknown="rerun"`` it runs again; a function gets an OutcomeUnknown with ``arguments``, and returns
    the result it looked up, or ``holdfast.RERUN``.
    """
    if key.get("subpath") is not None:
        raise UsageError("key is that of a session, not of a transcript beside it")
    place = session._of(key).place  # noqa: SLF001 - of this module
    calls = DurableCalls(unknown, ResultForm(_told, names=lambda name: name.rpartition("__")[2]))

    async def handler(args: Any) -> dict[str, Any]:
        # The SDK does not say which call of the model this is, so it is identified by its tool and arguments.
        call = ToolCall(uuid4().hex, tool.name, args)
        act = lambda: from_thread.run(tool.handler, args)  # noqa: E731 - on the loop, trio's or asyncio's
        return cast("dict[str, Any]", await run_sync(calls.run, place, call, act))

    return dataclasses.replace(tool, handler=handler)


def _told(text: str, _: ToolCall) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


async def bring_over(source: SessionStore, project_key: str, hf: Library = None) -> int:
    """Record the new entries of a project's transcripts in another store, and return their number."""
    target, count = HoldfastSessionStore(hf), 0
    for session in await source.list_sessions(project_key):
        main: SessionListSubkeysKey = {"project_key": project_key, "session_id": session["session_id"]}
        keys: list[SessionKey] = [cast("SessionKey", main)]
        keys += [{**main, "subpath": path} for path in await source.list_subkeys(main)]
        for key in keys:
            entries = await source.load(key) or []
            new = missing(await target.load(key) or [], entries, session["session_id"])
            await target.append(key, new)
            count += len(new)
    return count


def _id(entry: dict[str, Any]) -> str | None:
    id = entry.get("uuid")
    return id if isinstance(id, str) else None


def _tell(entry: dict[str, Any]) -> Words:
    message = entry.get("message")
    if entry.get("type") not in ("user", "assistant") or not isinstance(message, dict):
        return []
    words = spoken(message, "anthropic")
    usage, model = message.get("usage"), message.get("model")
    for type, data in words:
        if type == "assistant" and isinstance(usage, dict):
            data.update({"usage": usage} | ({"model": model} if model else {}))
    return words


def _rebuild(words: Words) -> dict[str, Any]:
    type, data = words[0]
    if type == "frame":
        return {}
    role = "user" if type in ("user", "tool_result") else "assistant"
    is_text = role == "user" and isinstance(data.get("content"), str)
    content: Any = data["content"] if is_text else blocks_of(words)
    message = {"role": role, "content": content}
    message |= {name: data[name] for name in ("usage", "model") if name in data}
    return {"type": role, "message": message}


_FORM = Form("claude-sdk/1", _tell, _rebuild)
