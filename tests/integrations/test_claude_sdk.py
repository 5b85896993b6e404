"""The Claude Agent SDK on our log."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import textwrap

import anyio
import pytest
from claude_agent_sdk import fork_session_via_store, get_session_messages_from_store, list_sessions_from_store
from claude_agent_sdk.testing import run_session_store_conformance

import holdfast
from holdfast.integrations.claude_sdk import HoldfastSessionStore

KEY = {"project_key": "-home-me-project", "session_id": "0b1e7f5c-5e1b-4c0f-9d56-3f2c3f1a2b01"}


def _entry(number, type, message, **more):
    uuid = f"0b1e7f5c-5e1b-4c0f-9d56-{number:012d}"
    before = f"0b1e7f5c-5e1b-4c0f-9d56-{number - 1:012d}" if number else None
    return {
        "type": type,
        "uuid": uuid,
        "parentUuid": before,
        "timestamp": f"2026-01-01T00:00:{number:02d}.000Z",
        "sessionId": KEY["session_id"],
        "isSidechain": False,
        "cwd": "/home/me/project",
        "message": message,
        **more,
    }


def _transcript():
    use = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "a"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a lighthouse"}
    thought = {"type": "thinking", "thinking": "I should look.", "signature": "sig=="}
    answer = {"type": "text", "text": "It is a lighthouse."}
    about = {"model": "claude-x", "id": "msg_1", "usage": {"input_tokens": 3, "output_tokens": 5}}
    return [
        {"type": "mode", "mode": "normal"},
        _entry(0, "user", {"role": "user", "content": "What is in a?"}),
        _entry(1, "assistant", {"role": "assistant", "content": [thought], **about}),
        _entry(2, "assistant", {"role": "assistant", "content": [use], **about}),
        _entry(3, "user", {"role": "user", "content": [result]}, toolUseResult={"lines": 1}),
        _entry(4, "assistant", {"role": "assistant", "content": [answer], **about}),
        {"type": "custom-title", "customTitle": "A look", "sessionId": KEY["session_id"]},
    ]


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@pytest.mark.parametrize("kind", ["files", "sqlite", "postgres"])
def test_the_sdk_s_own_conformance_suite_passes(kind, loop, store_root, request):
    """All of its contracts, on every kind of store, under both event loops that it runs on."""
    numbers = itertools.count()
    opened = []

    def make():
        number = next(numbers)
        if kind == "postgres":
            url = request.getfixturevalue("postgres_url") + f"{number}"
        elif kind == "sqlite":
            url = f"sqlite:///{store_root}/{number}.db"
        else:
            url = store_root / str(number)
        opened.append(holdfast.open(url))
        return HoldfastSessionStore(opened[-1])

    try:
        anyio.run(run_session_store_conformance, make, backend=loop)
    finally:
        for hf in opened:
            hf.close()
    assert len(opened) == 15  # a look at what it offers, and one for each of 14 contracts


async def test_a_transcript_comes_back_deep_equal(hf):
    """Entries of all kinds, also from another object."""
    await HoldfastSessionStore(hf).append(KEY, _transcript())
    assert await HoldfastSessionStore(hf).load(KEY) == _transcript()


async def test_an_entry_is_recorded_once(hf):
    """A batch that is tried again adds nothing but entries without an id."""
    store = HoldfastSessionStore(hf)
    await store.append(KEY, _transcript())
    await store.append(KEY, _transcript()[1:-1])
    assert await store.load(KEY) == _transcript()


async def test_its_sessions_are_sessions_like_any_other(hf):
    """Recover pairs call and result, and search finds both sides' words."""
    await HoldfastSessionStore(hf).append(KEY, _transcript())
    (about,) = hf.list()
    recovery = hf.recover(about.session_id)
    assert not recovery.issues
    assert [message["role"] for message in recovery.messages] == [*("user", "assistant", "user", "assistant")]
    assert {hit.role for hit in hf.search("lighthouse")} == {"tool_result", "assistant"}
    assert about.total_tokens > 0


async def test_a_subagent_is_a_run_of_its_own(hf):
    """What a subagent said is kept apart from the conversation."""
    store = HoldfastSessionStore(hf)
    await store.append(KEY, _transcript())
    said = _entry(9, "assistant", {"role": "assistant", "content": [{"type": "text", "text": "x"}]})
    await store.append({**KEY, "subpath": "subagents/agent-1"}, [said])
    assert await store.list_subkeys(KEY) == ["subagents/agent-1"]
    (about,) = hf.list()
    assert len(hf.recover(about.session_id).messages) == 4


async def test_the_sdk_lists_reads_and_forks_through_it(hf):
    """The SDK's own readers work on the store."""
    store = HoldfastSessionStore(hf)
    await store.append(KEY, _transcript())
    directory = "/home/me/project"
    (listed,) = await list_sessions_from_store(store, directory=directory)
    assert listed.session_id == KEY["session_id"]
    messages = await get_session_messages_from_store(store, KEY["session_id"], directory=directory)
    assert [message.type for message in messages] == [*("user", "assistant", "assistant", "user", "assistant")]
    forked = await fork_session_via_store(store, KEY["session_id"], directory=directory)
    copy = await store.load({**KEY, "session_id": forked.session_id})
    assert len([entry for entry in copy if entry["type"] in ("user", "assistant")]) == 5


_PROGRAM = """
    import asyncio, json, sys
    from holdfast.integrations.claude_sdk import HoldfastSessionStore

    async def main():
        store = HoldfastSessionStore(sys.argv[1])
        key = json.loads(sys.argv[2])
        for number in range(1_000_000):
            await store.append(key, [{"type": "x", "uuid": str(number)}])
            print(number, flush=True)

    asyncio.run(main())
"""


def test_what_was_acknowledged_survives_kill_9(store_root, tmp_path):
    """Every append that returned is there after the process was killed."""
    arguments = [sys.executable, "-c", textwrap.dedent(_PROGRAM), str(store_root), json.dumps(KEY)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        for _ in range(30):
            last = process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
        last = max([int(last), *map(int, process.stdout.read().split("\n")[:-1])])
    with holdfast.open(store_root) as hf:
        (about,) = hf.list()
        kept = [e.data["raw"]["set"]["uuid"] for e in hf.events(about.session_id, types={"frame"})]
    assert kept[: last + 1] == [str(number) for number in range(last + 1)]
