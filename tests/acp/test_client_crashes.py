"""Agents that die, stores that fail, sessions that are closed in mid-turn: nothing seen is lost."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

import pytest

import holdfast
from holdfast.apps.acp.client import ClientConfig, Provider, create_or_resume
from holdfast.errors import AgentError, StoreFull, UsageError

SCRIPT = str(Path(__file__).with_name("agents") / "scripted.py")


@pytest.fixture
def library(store_root):
    """The sessions of an empty store."""
    with holdfast.open(store_root) as found:
        yield found


@pytest.fixture
def agent(tmp_path):
    """The command of a scripted agent; what it does once is noted in a file."""

    def agent(*wishes):
        kept = ["--store", str(tmp_path / "agent.json"), "--die-once", str(tmp_path / "died")]
        return [sys.executable, SCRIPT, *kept, *wishes]

    return agent


@pytest.fixture
def client(library, tmp_path):
    """Create or resume the session "talk" with an agent; it warns of nothing."""

    async def client(command, **config):
        settings = {"cwd": str(tmp_path), "on_warning": lambda _: None, "quiet_s": 0.1, **config}
        return await create_or_resume(command, "talk", ClientConfig(**settings), library=library)

    return client


def text_of(library):
    """Every word of the agent that is in the log, streamed or whole."""
    deltas = library.events("talk", types={"delta"})
    return "".join(event.data["content"] for event in deltas)


async def read(turn, seen):
    """Take what comes until it ends."""
    async for update in turn:
        seen.append(update.text)


@pytest.mark.req("S4-3", "S4-53")
@pytest.mark.parametrize("phase", ["prompt", "stream", "tool", "permission"])
async def test_an_agent_that_dies_in_a_turn_is_started_again(client, agent, library, phase):
    """The turn fails with a typed error; the next prompt finds the agent with its session."""
    async with await client(agent("--load", "yes", "--die", phase), permission="allow") as session:
        turn = await session.send("use tool")
        seen = []
        with pytest.raises(AgentError, match="exit code 9"):
            await read(turn, seen)
        assert text_of(library) == "".join(seen)
        assert library.state("talk").status == "interrupted"
        answer = await session.ask("go on")
        # Before it noted anything, it has nothing to load.
        assert session.attached == ("primed" if phase == "prompt" else "load")
        assert "cut off" in answer.text.partition("I was told")[2]
    ends = [event.data["reason"] for event in library.events("talk", types={"turn_end"})]
    assert ends == ["interrupted", "completed"]
    assert library.state("talk").pending_calls == {}


async def test_an_agent_that_died_shows_what_it_has(client, agent):
    """It is loaded, though it can resume: only a replay tells what it has lost."""
    wishes = agent("--load", "yes", "--resume", "yes", "--die", "stream")
    async with await client(wishes) as session:
        with pytest.raises(AgentError, match="exit code 9"):
            await session.ask("hello")
        await session.ask("go on")
        assert session.attached == "load"


async def test_whoever_stops_waiting_holds_up_nobody(client, agent, library):
    """An answer that nobody waits for any more is recorded, and the next prompt is answered."""
    async with await client(agent("--flood", "5000")) as session:
        asking = asyncio.ensure_future(session.ask("hello"))
        while not text_of(library):  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)
        asking.cancel()
        answer = await asyncio.wait_for(session.ask("and now?"), 120)
        assert answer.stop_reason == "end_turn"


@pytest.mark.parametrize("phase", ["initialize", "new"])
async def test_an_agent_that_dies_at_the_start_leaves_no_trace(client, agent, library, phase):
    """A typed error, and no session."""
    with pytest.raises(AgentError):
        await client(agent("--die", phase))
    assert not library.exists("talk")


async def test_an_agent_that_dies_while_it_loads_is_given_up(client, agent, library):
    """The error is told, the session is as it was, and the next attempt works."""
    async with await client(agent("--load", "yes")) as session:
        await session.ask("hello")
    with pytest.raises(AgentError):
        await client(agent("--load", "yes", "--die", "load"))
    async with await client(agent("--load", "yes", "--die", "load")) as session:
        assert session.attached == "load"
        assert "hello" in (await session.ask("again")).text.partition("I know")[2]


async def test_an_agent_that_cannot_be_started(client, library):
    """The message names the command."""
    with pytest.raises(AgentError, match="could not be started"):
        await client(["/no/such/agent"])
    assert not library.exists("talk")


@pytest.mark.req("S4-27")
async def test_after_three_failures_the_agent_rests(client, agent, tmp_path):
    """The fourth attempt is refused at once, with the time to wait; then one is made again."""
    command = [sys.executable, SCRIPT, "--die", "prompt"]
    async with await client(command) as session:
        now = [0.0]
        session.breaker._clock = lambda: now[0]
        for _ in range(3):
            with pytest.raises(AgentError, match="exit code 9"):
                await session.ask("hello")
        with pytest.raises(AgentError, match="3 times in a row; it is tried again in 30 s"):
            await session.ask("hello")
        now[0] = 31.0
        session.breaker._failures = 3
        with pytest.raises(AgentError, match="exit code 9"):
            await session.ask("hello")


async def test_a_success_closes_the_breaker(client, agent):
    """Failures that are not in a row do not add up."""
    async with await client(agent()) as session:
        for _ in range(4):
            with pytest.raises(AgentError, match="the model is gone"):
                await session.ask("error")
            assert session.breaker.failures == 1
            await session.ask("hello")
            assert session.breaker.failures == 0


@pytest.mark.req("S4-4", "S4-38")
async def test_closing_in_mid_turn_ends_the_turn(client, agent, library):
    """An agent that heeds a cancel ends its turn itself."""
    session = await client(agent())
    turn = await session.send("wait")
    waiting = await session.send("later")
    await anext(turn)
    await session.close()
    await session.close()
    ends = [event.data["reason"] for event in library.events("talk", types={"turn_end"})]
    assert ends == ["cancelled"]
    with pytest.raises(AgentError, match="closed"):
        await waiting.answer()
    with pytest.raises(UsageError, match="closed"):
        await session.ask("more")


async def test_closing_does_not_wait_for_ever(client, tmp_path, library):
    """An agent that heeds nothing is ended with everything it started, and the log says so."""
    script = tmp_path / "deaf.py"
    script.write_text(
        "import json, os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "for line in sys.stdin:\n"
        "    frame = json.loads(line)\n"
        "    if frame['method'] == 'session/prompt':\n"
        "        open(sys.argv[1], 'w').write(str(os.getpid()))\n"
        "        time.sleep(600)\n"
        "    result = {'protocolVersion': 1, 'sessionId': 'x'}\n"
        "    answer = {'jsonrpc': '2.0', 'id': frame['id'], 'result': result}\n"
        "    print(json.dumps(answer), flush=True)\n"
    )
    pid = tmp_path / "pid"
    session = await client([sys.executable, str(script), str(pid)], cancel_timeout_s=0.1)
    turn = await session.send("hello")
    await asyncio.to_thread(_wait_for, pid)
    await session.close()
    with pytest.raises(AgentError, match="closed"):
        await turn.answer()
    assert not Path("/proc", pid.read_text()).exists()  # noqa: ASYNC240 - a look at /proc
    ends = [event.data["reason"] for event in library.events("talk", types={"turn_end"})]
    assert ends == ["interrupted"]


def _wait_for(path):
    while not (path.exists() and path.read_text()):
        time.sleep(0.01)


async def test_what_cannot_be_recorded_is_not_shown(client, agent, library, monkeypatch):
    """A full disk fails the turn: no update comes out that is not in the log."""
    # More than the buffers on the way hold, so that the end of it has not come yet.
    async with await client(agent("--flood", "20000")) as session:
        turn = await session.send("go")
        first = await anext(turn)
        real = session.session.extend

        def full(events):
            raise StoreFull

        monkeypatch.setattr(session.session, "extend", full)
        seen = [first.text]
        with pytest.raises(StoreFull):
            await read(turn, seen)
        monkeypatch.setattr(session.session, "extend", real)
        assert text_of(library).startswith("".join(seen))


@pytest.mark.req("S4-2", "S4-53")
async def test_a_host_that_dies_loses_nothing_that_was_seen(agent, library, store_root, tmp_path):
    """After kill -9 of our own process in mid-stream, every word that came out is in the log."""
    program = tmp_path / "host.py"
    program.write_text(
        "import asyncio, json, os, signal, sys\n"
        "import holdfast\n"
        "from holdfast.apps.acp.client import ClientConfig, create_or_resume\n"
        "async def main():\n"
        "    library = holdfast.open(sys.argv[1])\n"
        "    command = json.loads(sys.argv[2])\n"
        "    session = await create_or_resume(command, 'talk', library=library)\n"
        "    seen = 0\n"
        "    async for update in await session.send('go'):\n"
        "        print(update.text, end='', flush=True)\n"
        "        seen += 1\n"
        "        if seen == 40: os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(program),
        str(store_root),
        json.dumps(agent("--flood", "20000", "--load", "yes")),
        stdout=asyncio.subprocess.PIPE,
        cwd=tmp_path,
    )
    out, _ = await process.communicate()
    assert process.returncode == -9
    assert text_of(library).startswith(out.decode())
    warned = []
    config = ClientConfig(cwd=str(tmp_path), quiet_s=0.1, on_warning=warned.append)
    command = Provider.of(agent("--load", "yes", "--resume", "yes"))
    async with await create_or_resume(command, "talk", config, library=library) as session:
        assert session.attached == "load"  # only a replay shows what it has lost
        answer = await session.ask("go on")
        told = answer.text.partition("I was told")[2].replace("\\\\", "")
        assert told.count(out.decode()[:20]) == 1
    assert ["has lost the end" in str(warning) for warning in warned] == [True]
    assert library.state("talk").status == "idle"


async def test_an_answer_that_cannot_be_recorded_is_not_given(client, agent, library, monkeypatch):
    """A permission that is not on record is none: the turn fails, and the tool is not used."""
    session = await client(agent(), permission=lambda request: _break(session, monkeypatch))
    async with session:
        with pytest.raises(StoreFull):
            await session.ask("use tool")
        monkeypatch.undo()
    assert list(library.events("talk", types={"tool_result"})) == []


def _break(session, monkeypatch):
    def full(events):
        raise StoreFull

    monkeypatch.setattr(session.session, "extend", full)
    return "yes"


async def test_an_agent_that_never_answers(client, agent, tmp_path):
    """A session that is not made in time is an error, and the agent is ended."""
    script = tmp_path / "mute.py"
    script.write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    frame = json.loads(line)\n"
        "    if frame['method'] == 'initialize':\n"
        "        answer = {'jsonrpc': '2.0', 'id': frame['id'], 'result': {}}\n"
        "        print(json.dumps(answer), flush=True)\n"
    )
    with pytest.raises(AgentError, match="did not answer in time"):
        await client([sys.executable, str(script)], attach_timeout_s=0.2)


async def test_a_defect_in_a_turn_is_told_to_whoever_waits(client, agent, monkeypatch):
    """Nobody waits for ever, and the next prompt is answered."""

    async def broken():
        raise RuntimeError("boom")

    async with await client(agent()) as session:
        monkeypatch.setattr(session, "_ready", broken)
        with pytest.raises(AgentError, match="RuntimeError: boom"):
            await session.ask("hello")
        monkeypatch.undo()
        assert (await session.ask("hello")).stop_reason == "end_turn"
