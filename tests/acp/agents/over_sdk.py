"""A small agent over the official SDK: with ``--load`` it keeps sessions in a file."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import acp
from acp import helpers, schema


class Echo(acp.Agent):
    """Says what it was told, and what it was told before."""

    def __init__(self, store: Path | None) -> None:
        self._store = store
        self._sessions: dict[str, list[list[str]]] = {}
        if store is not None and store.exists():
            self._sessions = json.loads(store.read_text())

    def on_connect(self, conn: Any) -> None:
        """The client that is talked to."""
        self._conn = conn

    async def initialize(self, protocol_version: int, **_: Any) -> schema.InitializeResponse:
        """With load or without."""
        return schema.InitializeResponse(
            protocol_version=protocol_version,
            agent_capabilities=schema.AgentCapabilities(load_session=self._store is not None),
            agent_info=schema.Implementation(name="echo", version="2"),
        )

    async def new_session(self, cwd: str, **_: Any) -> schema.NewSessionResponse:
        """A session that knows nothing."""
        id = f"echo-{len(self._sessions)}"
        self._sessions[id] = []
        return schema.NewSessionResponse(session_id=id)

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> schema.LoadSessionResponse | None:
        """Replay what was said."""
        if self._store is None:
            raise acp.RequestError.method_not_found("session/load")
        for role, text in self._sessions[session_id]:
            if role == "user":
                update: Any = helpers.update_user_message_text(text)
            else:
                update = helpers.update_agent_message_text(text)
            await self._conn.session_update(session_id=session_id, update=update)
        return schema.LoadSessionResponse()

    async def prompt(self, prompt: list[Any], session_id: str, **_: Any) -> schema.PromptResponse:
        """Answer with everything that is known."""
        turns = self._sessions[session_id]
        text = "\n".join(block.text for block in prompt if block.type == "text")
        answer = f"You said {text!r}. I know {json.dumps([said for _, said in turns])}."
        update = helpers.update_agent_message_text(answer)
        await self._conn.session_update(session_id=session_id, update=update)
        turns += [["user", text], ["assistant", answer]]
        if self._store is not None:
            self._store.write_text(json.dumps(self._sessions))
        return schema.PromptResponse(stop_reason="end_turn")


if __name__ == "__main__":
    place = Path(sys.argv[2]) if sys.argv[1:2] == ["--load"] else None
    asyncio.run(acp.run_agent(Echo(place)))
