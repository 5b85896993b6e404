"""A store with a past, and the SDK's own client on a server in the same process."""

from __future__ import annotations

import pytest

pytest.importorskip("mcp", reason="the MCP SDK is not installed")

from mcp import Client
from mcp.shared.exceptions import MCPError

from holdfast.apps.mcp.server import SessionServer
from holdfast.session import now_ms


@pytest.fixture
def past(hf):
    """Two sessions: a trip with a tool call, and a short talk."""
    with hf.session("trip-planner", title="A trip", agent_id="guide") as session:
        with session.turn():
            session.user("Find me a lighthouse near Bergen")
            with session.tool("lookup", {"place": "Bergen"}) as call:
                call.result = "Fedje"
            session.assistant("There is one on Fedje", model="m", usage={"output_tokens": 5})
        session.variables["budget"] = 500
        session.append("todo_update", {"todos": [{"content": "Book the ferry", "status": "pending"}]})
    ended = now_ms()
    while now_ms() == ended:  # the talk is the newer one, also where both take less than 1 ms
        pass
    with hf.session("talk") as session:
        session.user("What is a bollard?")
        session.assistant("A post to tie ships to.")
    return hf


class EachTime:
    """The SDK's client, connected anew for each question: it cannot outlive a task."""

    def __init__(self, server):
        self._server = server

    def __getattr__(self, name):
        async def ask(*arguments):
            async with Client(self._server) as client:
                try:
                    return await getattr(client, name)(*arguments)
                except MCPError as error:
                    refused = error
            raise refused

        return ask


class Caller:
    """A client with short ways to say things."""

    def __init__(self, server):
        self.client = EachTime(server)

    async def call(self, tool, **arguments):
        """What a tool answers; a value if it gives one, else its text."""
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, result.content[0].text
        content = result.structured_content
        return result.content[0].text if content is None or "result" in content else content

    async def fail(self, tool, **arguments):
        """What a tool says when it refuses."""
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error
        return result.content[0].text


@pytest.fixture
def caller(past):
    """A client that may only read."""
    return Caller(SessionServer(past))


@pytest.fixture
def writer(past):
    """A client that may add."""
    return Caller(SessionServer(past, writes=True))
