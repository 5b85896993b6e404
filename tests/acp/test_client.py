"""A client for external agents: sessions begin, go on and end, whatever the agent can do."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.apps.acp.client import AgentWarning, ClientConfig, Provider, create_or_resume
from holdfast.errors import AgentError, AgentNoLoadSupport, NotFound, UsageError

AGENTS = Path(__file__).with_name("agents")


@pytest.fixture
def library(store_root):
    """The sessions of an empty store."""
    with holdfast.open(store_root) as found:
        yield found


@pytest.fixture
def told():
    """Warnings that the client gave."""
    return []


@pytest.fixture
def agent(tmp_path):
    """The command of a scripted agent that keeps its own sessions in a file."""

    def agent(*wishes, store="agent.json"):
        script = str(AGENTS / "scripted.py")
        journal = str(tmp_path / "journal.jsonl")
        kept = ["--store", str(tmp_path / store), "--journal", journal]
        return [sys.executable, script, *kept, *wishes]

    return agent


@pytest.fixture
def sent(tmp_path):
    """The frames that the agent was sent, by method."""

    def sent(method):
        lines = (tmp_path / "journal.jsonl").read_text().splitlines()
        return [frame for frame in map(json.loads, lines) if frame.get("method") == method]

    return sent


@pytest.fixture
def client(library, tmp_path, told):
    """Create or resume the session "talk" with an agent."""

    async def client(command, id="talk", **config):
        settings = {"cwd": str(tmp_path), "on_warning": told.append, "quiet_s": 0.1, **config}
        return await create_or_resume(command, id, ClientConfig(**settings), library=library)

    return client


def types(library, id="talk"):
    """The types of a session's events."""
    return [event.type for event in library.events(id)]


def read(library):
    """The bytes of the session, as text."""
    return Path(library.location("talk"), "events.jsonl").read_text()


def contents(library, *kinds):
    """What was said, by events of these types."""
    return [event.data["content"] for event in library.events("talk", types=set(kinds))]


# -- beginning and going on ----------------------------------------------------------------------


@pytest.mark.req("S4-7", "S4-24", "S4-25", "S4-31", "S4-69")
async def test_a_new_session_is_recorded_as_it_was_said(client, agent, library):
    """Prompt and answer are in the log, the agent's own id is a link, and not ours."""
    async with await client(agent()) as session:
        answer = await session.ask("hello")
        assert session.attached == "new"
        assert answer.stop_reason == "end_turn"
        assert answer.text == "You said 'hello'. I know []."
        assert session.acp_session_id != session.id
        link = session.acp_session_id
    assert library.state("talk").links == {"acp": [link]}
    said = [(e.type, e.data["content"]) for e in library.events("talk", types={"user", "assistant"})]
    assert said == [("user", "hello"), ("assistant", answer.text)]
    assert library.state("talk").status == "idle"


@pytest.mark.req("S4-1", "S4-29", "S4-30", "S4-39", "S4-54", "B-34", "B-35")
@pytest.mark.parametrize(
    ("wishes", "way"),
    [
        (["--resume", "yes", "--load", "yes"], "resume"),
        (["--load", "yes"], "load"),
        (["--load", "late", "--delay", "0.02"], "load"),
        (["--resume", "missing", "--load", "yes"], "load"),
        (["--resume", "fails", "--load", "yes"], "load"),
    ],
)
async def test_an_agent_that_can_goes_on_with_its_own_session(client, agent, library, *, told, wishes, way):
    """By resume, else by load; its replay is not recorded a second time, even a late one."""
    async with await client(agent(*wishes)) as session:
        await session.ask("my name is Ada")
        own_id = session.acp_session_id
    before = types(library)
    # A busy machine makes an agent pause in its late replay.
    quiet_s = 3 if "late" in wishes else 0.1
    async with await client(agent(*wishes), quiet_s=quiet_s) as session:
        assert session.attached == way
        assert session.acp_session_id == own_id
        assert types(library) == [*before, "opened", "link"]
        answer = await session.ask("what is my name")
        assert "my name is Ada" in answer.text
        assert "I was told" not in answer.text
    assert told == []
    assert types(library).count("user") == 2
    assert types(library).count("assistant") == 2


@pytest.mark.req("S4-40", "B-34")
async def test_a_load_carries_directory_and_servers_in_full(client, agent, sent, tmp_path):
    """The protocol restores neither; both are sent with new and with load."""
    servers = [{"name": "files", "command": "/bin/files", "args": ["-v"], "env": []}]
    extra = [str(tmp_path)]
    for _ in range(2):
        settings = {"mcp_servers": servers, "additional_directories": extra}
        async with await client(agent("--load", "yes"), **settings) as session:
            await session.ask("hello")
    for method in ("session/new", "session/load"):
        (params,) = [frame["params"] for frame in sent(method)]
        assert params["cwd"] == str(tmp_path)
        assert params["mcpServers"] == servers
        assert params["additionalDirectories"] == extra


@pytest.mark.req("S4-40")
async def test_directory_and_servers_are_taken_from_the_log(client, agent, sent, told, tmp_path):
    """What the caller leaves out on resume was recorded; servers with secrets are left out."""
    plain = {"name": "plain", "command": "/bin/plain", "args": [], "env": []}
    secret = {**plain, "name": "secret", "env": [{"name": "KEY", "value": "hush"}]}
    async with await client(agent("--load", "yes"), mcp_servers=[plain, secret]) as session:
        await session.ask("hello")
    async with await client(agent("--load", "yes"), cwd=None) as session:
        assert session.attached == "load"
    (load,) = sent("session/load")
    assert load["params"]["cwd"] == str(tmp_path)
    assert load["params"]["mcpServers"] == [plain]
    assert ["secret" in str(warning) for warning in told] == [True]


@pytest.mark.req("S4-57")
async def test_secrets_of_servers_are_not_recorded(client, agent, library):
    """Values of the environment and of headers never enter the log."""
    servers = [
        {"name": "a", "command": "x", "args": [], "env": [{"name": "KEY", "value": "hush-1"}]},
        {"name": "b", "type": "http", "url": "http://b", "headers": [{"name": "A", "value": "hush-2"}]},
    ]
    provider = Provider(tuple(agent()), env={"TOKEN": "hush-3"})
    async with await client(provider, mcp_servers=servers) as session:
        await session.ask("hello")
    log = read(library)
    assert "hush" not in log
    assert '"KEY"' in log


@pytest.mark.req("S4-41", "S4-42", "S4-43", "S4-46", "S4-54", "S4-55", "S4-69")
@pytest.mark.parametrize(
    ("wishes", "why"),
    [
        ([], "does not say that it can"),
        (["--load", "hidden"], "does not say that it can"),
        (["--load", "fails"], "No previous sessions found"),
        (["--load", "missing"], "no such method"),
        (["--load", "hangs"], "no answer within"),
    ],
)
async def test_an_agent_that_cannot_is_told_the_conversation(client, agent, library, sent, *, told, wishes, why):
    """A new session of the agent, primed with the transcript, and a warning that says why."""
    async with await client(agent(*wishes)) as session:
        await session.ask("my name is Ada")
        first = session.acp_session_id
    patience_s = 10 if "hangs" in wishes else 120
    async with await client(agent(*wishes), attach_timeout_s=patience_s) as session:
        assert session.attached == "primed"
        (warning,) = session.warnings
        assert isinstance(warning, AgentNoLoadSupport)
        assert why in str(warning)
        assert told == [warning]
        answer = await session.ask("what is my name")
        assert "I know []" in answer.text
        assert "my name is Ada" in answer.text.partition("I was told")[2]
        await session.ask("and now")
        second = session.acp_session_id
    assert library.state("talk").links == {"acp": [first, second]}
    assert contents(library, "user") == ["my name is Ada", "what is my name", "and now"]
    assert [len(frame["params"]["prompt"]) for frame in sent("session/prompt")] == [1, 2, 1]


@pytest.mark.req("S4-3", "S4-43", "B-34")
async def test_an_agent_that_lost_the_end_is_told_it(client, agent, told):
    """What its replay lacks comes with the next prompt, and a warning says so."""
    async with await client(agent("--load", "yes")) as session:
        await session.ask("my name is Ada")
        await session.ask("I live in Rome")
    async with await client(agent("--load", "yes", "--forget", "2")) as session:
        assert session.attached == "load"
        answer = await session.ask("who am I")
        repeated = answer.text.partition("I was told")[2]
        assert "I live in Rome" in repeated
        assert "User: my name is Ada" not in repeated
    assert ["has lost the end" in str(warning) for warning in told] == [True]


@pytest.mark.req("S4-46")
@pytest.mark.parametrize("way", ["no", "fails"])
async def test_no_load_support_can_be_an_error(client, agent, library, way):
    """With on_no_load="raise" nothing is recorded, and the agent does not stay."""
    async with await client(agent()) as session:
        await session.ask("hello")
    before = types(library)
    with pytest.raises(AgentNoLoadSupport) as caught:
        await client(agent("--load", way), on_no_load="raise")
    assert caught.value.session_id == "talk"
    assert types(library) == before


async def test_without_a_listener_warnings_are_pythons(agent, library, tmp_path):
    """A warning that nobody asked for still reaches the user."""
    config = ClientConfig(cwd=str(tmp_path))
    async with await create_or_resume(agent(), "talk", config, library=library) as session:
        await session.ask("hello")
    with pytest.warns(AgentWarning, match="cannot go on"):
        session = await create_or_resume(agent(), "talk", config, library=library)
    await session.close()


@pytest.mark.req("B-35")
async def test_the_resume_policy_is_kept(client, agent, library):
    """``always`` fails if nothing is stored, ``never`` if something is; no agent is started."""
    with pytest.raises(NotFound):
        await client(["/no/such/agent"], resume="always")
    async with await client(agent()) as session:
        await session.ask("hello")
    with pytest.raises(UsageError):
        await client(["/no/such/agent"], resume="never")
    async with await client(agent("--load", "yes"), resume="always") as session:
        assert session.attached == "load"


@pytest.mark.req("S4-75")
async def test_another_agent_goes_on_with_the_conversation(client, agent, told):
    """An agent of another name is told what was said to the first."""
    async with await client(agent("--load", "yes")) as session:
        await session.ask("my name is Ada")
    other = agent("--load", "yes", "--nameless", store="other.json")
    async with await client(other) as session:
        assert session.attached == "primed"
        assert "my name is Ada" in (await session.ask("who am I")).text
    assert len(told) == 1


@pytest.mark.req("S4-75")
async def test_an_agent_is_told_what_others_said_meanwhile(client, agent, library):
    """A session that another program went on with is not what the agent remembers."""
    async with await client(agent("--load", "yes")) as session:
        await session.ask("hello")
    with library.session("talk") as s:
        s.user("my name is Ada")
        s.assistant("Hello Ada")
    async with await client(agent("--load", "yes")) as session:
        assert session.attached == "primed"
        assert "Hello Ada" in (await session.ask("who am I")).text


@pytest.mark.req("S4-55")
@pytest.mark.parametrize("loads", [True, False])
async def test_an_agent_over_the_official_sdk(client, library, told, tmp_path, loads):
    """With its load and without it, the history reaches the agent."""
    command = [sys.executable, str(AGENTS / "over_sdk.py")]
    command += ["--load", str(tmp_path / "echo.json")] if loads else []
    async with await client(command) as session:
        await session.ask("my name is Ada")
    async with await client(command) as session:
        assert session.attached == ("load" if loads else "primed")
        assert "my name is Ada" in (await session.ask("who am I")).text
    assert len(told) == (0 if loads else 1)
    assert types(library).count("user") == 2


# -- turns ---------------------------------------------------------------------------------------


async def test_updates_come_in_order_and_are_recorded_before(client, agent, library):
    """Whoever sees an update finds it in the log."""
    async with await client(agent(), permission="allow") as session:
        turn = await session.send("think, plan and use tool")
        seen = []
        async for update in turn:
            seen.append(update.kind)
            kinds = {"delta", "todo_update", "tool_call", "tool_result", "frame"}
            recorded = list(library.events("talk", types=kinds))
            assert len([e for e in recorded if "permission" not in str(e.data)]) >= len(seen)
        assert seen[:3] == ["agent_thought_chunk", "plan", "tool_call"]
        assert (await turn.answer()).stop_reason == "end_turn"
    assert library.state("talk").todos[0]["content"] == "look"


@pytest.mark.req("S4-27")
async def test_a_flood_waits_for_whoever_reads(client, agent, library):
    """No more updates are kept than the event buffer holds; none is lost."""
    async with await client(agent("--flood", "2000"), event_buffer=100) as session:
        turn = await session.send("go")
        await anext(turn)
        assert turn._updates.maxsize == 100
        texts = [update.text async for update in turn]
        assert texts[:2000] == [f" {n}" for n in range(2000)]
    assert types(library).count("delta") == 2002


@pytest.mark.req("S4-27")
async def test_more_prompts_than_the_buffer_holds_wait_or_are_refused(client, agent, library):
    """Ten prompts wait; one more waits with its sender, or is refused with a typed error."""
    async with await client(agent()) as session:
        first = await session.send("wait")
        await anext(first)
        waiting = [await session.send(f"number {n}") for n in range(10)]
        with pytest.raises(AgentError, match="10 prompts are waiting"):
            await session.send("one more", wait=False)
        blocked = asyncio.ensure_future(session.send("patient"))
        await asyncio.sleep(0.05)
        assert not blocked.done()
        waiting[3].cancel()
        first.cancel()
        assert (await first.answer()).stop_reason == "cancelled"
        reasons = [(await turn.answer()).stop_reason for turn in waiting]
        assert (await (await blocked).answer()).stop_reason == "end_turn"
    assert reasons == ["end_turn"] * 3 + ["cancelled"] + ["end_turn"] * 6
    assert contents(library, "user") == ["wait", *(f"number {n}" for n in range(10) if n != 3), "patient"]


async def test_a_waiter_that_is_cancelled_cancels_the_turn(client, agent, library):
    """The agent is asked to stop, and the turn ends in the log."""
    async with await client(agent()) as session:
        speaks = asyncio.Event()
        unsubscribe = library.subscribe(lambda _, what: speaks.set() if getattr(what, "type", "") == "delta" else None)
        asking = asyncio.ensure_future(session.ask("wait"))
        await speaks.wait()
        unsubscribe()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (await session.ask("hello")).stop_reason == "end_turn"
    ends = [e.data["reason"] for e in library.events("talk", types={"turn_end"})]
    assert ends == ["cancelled", "completed"]


async def test_who_stops_reading_stops_the_turn(client, agent, library):
    """Closing a turn cancels it; what still comes is recorded, and the next prompt is answered."""
    async with await client(agent("--flood", "300"), event_buffer=10) as session:
        turn = await session.send("go")
        await anext(turn)
        await turn.aclose()
        assert (await session.ask("next")).stop_reason == "end_turn"
    assert types(library).count("delta") == 604


@pytest.mark.parametrize("prompt", ["", "  ", [], [{"text": "x"}], ["x"]])
async def test_a_prompt_that_is_none_is_refused(client, agent, library, prompt):
    """Before anything is recorded or sent."""
    async with await client(agent()) as session:
        before = session.session.seq
        with pytest.raises(UsageError):
            await session.ask(prompt)
        assert session.session.seq == before


async def test_blocks_are_sent_as_they_are(client, agent, sent, library):
    """A prompt may hold pictures and links; the log keeps them."""
    blocks = [{"type": "image", "mimeType": "image/png", "data": "aGk="}, {"type": "text", "text": "what is this"}]
    async with await client(agent()) as session:
        await session.ask(blocks)
    assert sent("session/prompt")[0]["params"]["prompt"] == blocks
    (user,) = library.events("talk", types={"user"})
    assert user.data["raw"]["params"]["prompt"] == blocks


async def test_a_refusal_and_an_error_end_the_turn(client, agent, library):
    """A stop reason is told as it is; an error of the agent is an AgentError, and recorded."""
    async with await client(agent()) as session:
        assert (await session.ask("refuse")).stop_reason == "refusal"
        with pytest.raises(AgentError, match="the model is gone"):
            await session.ask("error")
        assert (await session.ask("hello")).stop_reason == "end_turn"
    ends = [e.data["reason"] for e in library.events("talk", types={"turn_end"})]
    assert ends == ["refusal", "failed", "completed"]
    assert "agent_error" in types(library)


async def test_what_is_no_frame_is_passed_over(client, agent):
    """An agent that prints to its output disturbs nothing."""
    async with await client(agent("--noise")) as session:
        assert "hello" in (await session.ask("hello")).text


async def test_what_comes_before_the_session_is_kept_or_refused(client, agent, library):
    """Commands told before the answer are recorded; a question too early is answered with no."""
    async with await client(agent("--commands", "--rude")) as session:
        assert session.capabilities["loadSession"] is False
        await session.ask("hello")
    frames = [event.data["frame"] for event in library.events("talk", types={"frame"})]
    kinds = [frame["params"]["update"]["sessionUpdate"] for frame in frames]
    assert kinds == ["available_commands_update"]
    assert types(library)[:5] == ["session_start", "opened", "metadata", "config", "link"]


async def test_a_command_line_is_read_as_a_shell_does(client, agent):
    """A provider may be given as one text."""
    async with await client(shlex.join(agent())) as session:
        assert session.provider.command == tuple(agent())
