"""Editors that mean harm, in front of our own agent: odd frames are refused, and other sessions stay as they are."""

from __future__ import annotations

import asyncio
import json

import pytest

from holdfast.apps.wire.frames import RpcError


@pytest.fixture
def others(hf, tmp_path):
    """A session of this store that no editor opened, one of another space, and how their bytes are."""
    with hf.session("diary") as session:
        session.user("words of the diary")
    other = hf.space("other")
    with other.session("ledger") as session:
        session.user("words of the ledger")

    def read():
        places = ((hf, "diary"), (other, "ledger"))
        return {id: b"".join(library.store.log(f"sessions/{id}").read()) for library, id in places}

    return read


async def raw(editor, data):
    """Send bytes as they are."""
    editor.pipe._stream.write(data)
    await editor.pipe._stream.drain()


def frame(method, params, **more):
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **more}).encode() + b"\n"


DEEP = b'{"jsonrpc":"2.0","id":9,"method":"session/prompt","params":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
HOSTILE = {
    "no json": b"}{ nothing\n",
    "no object": b"[1,2,3]\n",
    "a number": b"7\n",
    "bytes that are no UTF-8": b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"\xff\xfe\xc0"}}\n',
    "half a surrogate": b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"\\ud800"}}\n',
    "deep": DEEP,
    "huge": frame("session/cancel", {"sessionId": "x" * 5_000_000}),
    "many members": frame("session/cancel", {f"m{number}": number for number in range(20_000)}),
    "the same member twice": b'{"jsonrpc":"2.0","method":"a","method":"session/cancel","params":{"sessionId":"a"}}\n',
    "params of another type": frame("session/prompt", "text", id=[1]),
    "a method that is no text": frame(["session/prompt"], {}, id={"a": 1}),
    "an answer that nobody asked for": b'{"jsonrpc":"2.0","id":4711,"result":{"outcome":"selected"}}\n',
    "an answer with both ends": b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}\n',
    "nothing": b"\n\n\n",
}


@pytest.mark.parametrize("what", HOSTILE)
async def test_an_odd_frame_harms_nobody(serve, hf, others, tmp_path, what):
    """The session of the same editor goes on, and others are as they were."""
    before = others()
    editor = await serve("fine")
    id = await editor.new(tmp_path)
    await raw(editor, HOSTILE[what])
    assert (await editor.prompt(id, "hello"))["stopReason"] == "end_turn"
    assert others() == before
    assert hf.verify(id).ok


@pytest.mark.parametrize("wrong", ["ledger", "../spaces/other/sessions/ledger", "", "x" * 100_000, "\0", "a/b"])
@pytest.mark.parametrize("method", ["session/prompt", "session/load", "session/resume"])
async def test_an_editor_reaches_no_session_of_another_space(serve, others, tmp_path, method, wrong):
    """Nor one by an odd id: it is refused in words that do not hold the content, and nothing is made."""
    before = others()
    editor = await serve("fine")
    params = {"sessionId": wrong, "cwd": str(tmp_path), "mcpServers": [], "prompt": [{"type": "text", "text": "x"}]}
    error = await editor.fail(method, **params)
    assert "words of" not in repr(error)
    assert len(repr(error)) < 2_000
    assert others() == before
    assert not editor.updates


@pytest.mark.parametrize("wrong", [7, None, True, ["diary"], {"id": "diary"}, 1.5])
@pytest.mark.parametrize("method", ["session/prompt", "session/load", "session/set_mode"])
async def test_an_id_of_another_type_is_refused(serve, others, tmp_path, method, wrong):
    """With an error of the protocol; the agent goes on."""
    before = others()
    editor = await serve("fine")
    assert (await editor.fail(method, sessionId=wrong, cwd=str(tmp_path), mcpServers=[], prompt=[])).code < 0
    id = await editor.new(tmp_path)
    assert (await editor.prompt(id, "hello"))["stopReason"] == "end_turn"
    assert others() == before


async def test_the_same_request_twice_is_two_turns_at_most(serve, hf, tmp_path):
    """A number that is used again confuses nobody: what was taken is on record once, and the session goes on."""
    editor = await serve("fine")
    id = await editor.new(tmp_path)
    params = {"sessionId": id, "prompt": [{"type": "text", "text": "again"}]}
    await raw(editor, frame("session/prompt", params, id="same") * 2)
    await editor.shown()
    while True:
        try:
            assert (await editor.prompt(id, "last"))["stopReason"] == "end_turn"
            break
        except RpcError:
            await asyncio.sleep(0.01)  # it still answers the first
    said = str([event.data["content"] for event in hf.events(id, types={"user"})])
    assert 1 <= said.count("again") <= 2
    assert said.count("last") == 1
    assert hf.verify(id).ok
