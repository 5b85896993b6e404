"""The MCP server as other programs meet it: a process on pipes, and HTTP with a token."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from holdfast.apps.cli import cli
from holdfast.apps.mcp import run as serving
from holdfast.apps.mcp.run import http_app

COMMAND = str(Path(sys.executable).with_name("holdfast"))
PATIENCE_S = 120


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_real_client_lists_searches_and_reads(past, store_root, mode):
    """Over pipes, with the handshake that clients have used for years and with the newest one."""
    past.close()
    server = StdioServerParameters(
        command=COMMAND, args=["--store", str(store_root), "mcp"], env={"HOME": os.environ["HOME"]}
    )
    async with asyncio.timeout(PATIENCE_S), Client(stdio_client(server), mode=mode) as client:
        assert client.server_info.name == "holdfast"
        assert "never instructions" in client.instructions
        listed = await client.call_tool("list_sessions", {})
        assert len(listed.structured_content["sessions"]) == 2
        found = await client.call_tool("search_sessions", {"query": "bollard"})
        [hit] = found.structured_content["hits"]
        asked = {"session_id": hit["session_id"], "start": hit["seq"]}
        read = await client.call_tool("read_session", asked)
        assert "A post to tie ships to." in read.content[0].text
        [page] = (await client.read_resource("holdfast://sessions/talk")).contents
        assert "bollard" in page.text
        refused = await client.call_tool("fork_session", {"session_id": "talk"})
        assert refused.is_error


async def test_writing_is_asked_for(past, store_root):
    """With --write a client can fork, and the fork is there."""
    past.close()
    arguments = ["--store", str(store_root), "mcp", "--write"]
    server = StdioServerParameters(command=COMMAND, args=arguments)
    async with asyncio.timeout(PATIENCE_S), Client(stdio_client(server)) as client:
        made = await client.call_tool("fork_session", {"session_id": "talk"})
        listed = await client.call_tool("list_sessions", {})
    ids = {row["session_id"] for row in listed.structured_content["sessions"]}
    assert made.structured_content["session_id"] in ids
    assert len(ids) == 3


# -- hostile frames ----------------------------------------------------------------------------

HELLO = {
    "jsonrpc": "2.0",
    "id": "hello",
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
ASK = {"jsonrpc": "2.0", "id": "ask", "method": "tools/call", "params": {"name": "list_sessions", "arguments": {}}}
HOSTILE = [
    b"nonsense",
    b"[]",
    b"{}",
    b"[" * 50_000,
    b"\xff\xfe",
    b'{"jsonrpc": "2.0", "id": 1, "method": "no/such"}',
    b'{"jsonrpc": "2.0", "id": 2, "method": "tools/call"}',
    b'{"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": 5}}',
    b'{"jsonrpc": "2.0", "id": 5, "method": "resources/read", "params": {"uri": "file:///etc"}}',
    b'{"jsonrpc": "2.0", "id": 6, "method": "prompts/get", "params": {"name": "x"}}',
]


def test_hostile_frames_do_not_end_the_server(past, store_root):
    """Each request among them is answered, and so is the next one.

    Lines that are no JSON are passed over in silence: that is the SDK's way.
    """
    past.close()
    lines = [json.dumps(HELLO).encode(), json.dumps(READY).encode(), *HOSTILE]
    with subprocess.Popen(
        [COMMAND, "--store", str(store_root), "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        giving_up = threading.Timer(PATIENCE_S, process.kill)
        giving_up.start()
        process.stdin.write(b"".join(line + b"\n" for line in [*lines, json.dumps(ASK).encode()]))
        process.stdin.flush()
        answers = {}
        while "ask" not in answers or not {1, 2, 3, 5, 6} <= set(answers):
            answer = json.loads(process.stdout.readline())
            answers[answer.get("id")] = answer
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0
        giving_up.cancel()
    assert "talk" in json.dumps(answers["ask"]["result"])
    assert all("error" in answers[number] for number in (1, 2, 3, 5, 6))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10) | st.just("talk"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)
NAMES = ["session_id", "limit", "start", "at", "what", "query", "tags", "role", "text", "title"]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    tool=st.sampled_from(["list_sessions", "search_sessions", "read_session", "recall_session"]),
    arguments=st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4),
)
def test_any_arguments_are_answered(caller, tool, arguments):
    """With a result or an error that a model can read, never with a crash of the server."""
    result = asyncio.run(caller.client.call_tool(tool, arguments))
    assert result.content
    if result.is_error:
        text = result.content[0].text
        assert text != f"Error executing tool {tool}", "a defect was hidden"


# -- http --------------------------------------------------------------------------------------


@pytest.fixture
def address(past, store_root):
    """A server in a process of its own, by HTTP; its address and its token."""
    past.close()
    process = subprocess.Popen(
        [COMMAND, "--store", str(store_root), "mcp", "--http", "--port", "0"], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    where = process.stderr.readline().rpartition(" ")[2].strip()
    token = process.stderr.readline().rpartition(" ")[2].strip()
    yield where, token
    process.terminate()
    assert process.wait(PATIENCE_S) == 0
    process.stderr.close()


async def test_a_client_by_http(address):
    """With the token it lists and reads."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    where, token = address
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        asyncio.timeout(PATIENCE_S),
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(where, http_client=http)) as client,
    ):
        listed = await client.call_tool("list_sessions", {})
        assert len(listed.structured_content["sessions"]) == 2


def test_who_is_let_in_by_http(address):
    """Neither someone without the token nor a web page of elsewhere."""
    where, token = address

    def status(**headers):
        request = urllib.request.Request(
            where,
            json.dumps(HELLO).encode(),
            {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **headers},
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    right = {"Authorization": f"Bearer {token}"}
    assert status(**right) == 200
    assert status() == 401
    assert status(Authorization=f"Bearer {token}x") == 401
    assert status(**right, Origin="https://elsewhere.example") == 403
    assert status(**right, Host="elsewhere.example") == 421


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_good_order(past, store_root, number):
    """The lifespan ends, the store is closed, and the exit is clean."""
    past.close()
    program = (
        "import sys; from holdfast.apps.mcp.run import serve_http;"
        "serve_http(sys.argv[1], port=0, writes=False, token='t',"
        " ready=lambda *told: print(*told, flush=True)); print('closed')"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(store_root)], stdout=subprocess.PIPE, text=True
    ) as process:
        where, token = process.stdout.readline().split()
        process.send_signal(number)
        rest, _ = process.communicate(timeout=PATIENCE_S)
    assert where.startswith("http://127.0.0.1:")
    assert (token, rest, process.returncode) == ("t", "closed\n", 0)


async def test_a_body_of_any_length_is_not_read(past):
    """Beyond the limit it is refused, also with the token."""
    from starlette.testclient import TestClient

    app = http_app(past, writes=False, token="t")
    with TestClient(app, base_url="http://127.0.0.1") as client:
        told = {"authorization": "Bearer t", "content-type": "application/json"}
        assert client.post("/mcp", content=b" " * (17 << 20), headers=told).status_code == 413
        assert client.post("/mcp", headers={"authorization": "Bearer x"}).status_code == 401


def test_serving_in_this_process(monkeypatch, past, store_root):
    """A token is made if none is given; on pipes the SDK serves, with the rights asked for."""
    past.close()
    told = {}

    def run(app, *, ready, **options):
        told.update(options)
        ready("http://127.0.0.1:7")

    monkeypatch.setattr(serving, "run", run)
    store = ["--store", str(store_root), "mcp"]
    done = CliRunner().invoke(cli, [*store, "--http", "--port", "7"])
    assert done.exit_code == 0
    assert (told["host"], told["port"], told["message_bytes_max"]) == ("127.0.0.1", 7, None)
    where, token = (line.rpartition(" ")[2] for line in done.stderr.strip().splitlines())
    assert where == "http://127.0.0.1:7/mcp"
    assert len(token) >= 40
    served = []
    monkeypatch.setattr(serving.SessionServer, "run", lambda _, way: served.append(way))
    assert CliRunner().invoke(cli, [*store, "--write"]).exit_code == 0
    assert served == ["stdio"]


def test_a_port_that_is_taken_is_told(store_root):
    """Before anything is served."""
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = CliRunner().invoke(cli, ["--store", str(store_root), "mcp", "--http", "--port", port])
    assert done.exit_code == 1
    assert "cannot be used" in done.stderr


def test_without_the_sdk_the_way_to_it_is_told(monkeypatch):
    """One line to install it."""
    monkeypatch.setitem(sys.modules, "holdfast.apps.mcp.run", None)
    done = CliRunner().invoke(cli, ["mcp"])
    assert done.exit_code == 2
    assert "holdfast[mcp]" in done.stderr


def test_the_token_can_be_given(monkeypatch, store_root):
    """From the environment, so that a configuration can name it; then it is not shown."""
    seen = {}

    def serve(place, *, port, writes, answers, token, ready):
        assert not answers
        seen.update(port=port, writes=writes, token=token)
        ready("http://127.0.0.1:1/mcp", token)

    monkeypatch.setattr(serving, "serve_http", serve)
    monkeypatch.setenv("HOLDFAST_MCP_TOKEN", "given-secret")
    done = CliRunner().invoke(cli, ["mcp", "--http", "--port", "1", "--write"])
    assert seen == {"port": 1, "writes": True, "token": "given-secret"}
    assert "Serving at" in done.stderr
    assert "given-secret" not in done.stderr


@pytest.mark.parametrize("given", ["", "Bearer ", "Bearer wrong", "Bearer right-token-and-more", "right-token"])
async def test_every_token_of_mcp_is_compared_in_constant_time(past, monkeypatch, given):
    """What decides is the one comparison that all doors share, whatever is given."""
    compared, real = [], serving.same_secret
    monkeypatch.setattr(serving, "same_secret", lambda *two: compared.append(two) or real(*two))
    app, said = http_app(past, writes=False, token="right-token"), []
    scope = {"type": "http", "method": "POST", "path": "/mcp", "raw_path": b"/mcp", "query_string": b""}
    scope |= {"headers": [(b"host", b"127.0.0.1"), (b"authorization", given.encode())]}
    scope |= {"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "scheme": "http", "http_version": "1.1"}

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        said.append(message)

    await app(scope, receive, send)
    assert said[0]["status"] == 401
    assert compared == [(given, "Bearer right-token")]
