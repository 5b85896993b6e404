"""Tools: what may be one, what becomes of its result, and that none of them harms the session."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
import threading
from typing import Any

import pytest

import holdfast
from holdfast.agent import Agent, Tool, ToolContext, tool
from holdfast.errors import UsageError
from holdfast.replay import validate


def results_of(session):
    """The results in a session, by the tool that gave them."""
    calls = {e.data["id"]: e.data["tool"] for e in session.events() if e.type == "tool_call"}
    return {calls[e.data["toolCallId"]]: e.data for e in session.events() if e.type == "tool_result"}


async def run_tool(hf, script, function, args=None, **options):
    """Let a scripted model call one tool once; the recorded result and what the model saw."""
    given = function if isinstance(function, Tool) else Tool(function)
    model = script([(given.name, args or {})], "done")
    agent = Agent(model.model, tools=[given], **options)
    with hf.session("s") as session:
        result = await agent.run("go", session=session)
        assert result.output == "done"
        assert validate(session.messages("anthropic"), "anthropic").valid
        [recorded] = [e for e in session.events() if e.type == "tool_result"]
        whole = session.messages()[2]["content"][0]
    return recorded.data, model.requests[1][-1].parts[0], whole


async def test_hints_and_docstring_become_the_schema():
    """The model is told the names, types and descriptions that the function has."""

    def weather(ctx: ToolContext, city: str, days: int = 1) -> str:
        """Look up the weather.

        Args:
            city: The name of a city.
            days: How many days.
        """
        return f"{ctx.agent} {city} {days}"

    made = Tool(weather)
    assert made.description == "Look up the weather."
    assert made.schema["required"] == ["city"]
    assert made.schema["properties"]["city"]["description"] == "The name of a city."
    assert set(made.schema["properties"]) == {"city", "days"}


async def test_a_tool_that_raises_gives_a_clear_result(hf, script):
    """The error is the result, the model sees it, and the run goes on."""

    def broken() -> str:
        """Fail."""
        raise ValueError("no such thing")

    recorded, seen, _ = await run_tool(hf, script, broken)
    assert recorded["is_error"]
    assert recorded["result"]["message"] == "ValueError: no such thing"
    assert seen.outcome == "failed"
    assert "no such thing" in seen.content


async def test_ten_mebibytes_become_a_blob_and_the_model_sees_a_part(hf, script):
    """A huge result is kept whole beside the log; the request has a part of it, and says so."""

    def huge() -> str:
        """Give much."""
        return "x" * (10 << 20)

    recorded, seen, whole = await run_tool(hf, script, huge)
    assert recorded["result"]["$blob"]
    assert len(whole["content"]) == 10 << 20
    assert len(seen.content) < 200_000
    assert "characters are not shown here" in seen.content


async def test_more_than_can_be_stored_is_an_error_result(hf, script):
    """A result over the limit of a blob is recorded as one that was not stored."""

    def enormous() -> str:
        """Give far too much."""
        return "x" * (65 << 20)

    recorded, _, _ = await run_tool(hf, script, enormous)
    assert recorded["is_error"]
    assert "not stored" in recorded["result"]["message"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"text \xc3\xa9", "text é"),
        (b"\xff\xfe\x00\x01", "[binary, 4 bytes] ff fe 00 01"),
        ("a\0b\ud800", "a�b?"),
        ({"x": float("nan"), 5: {1, 2}}, {"x": "nan", "5": [1, 2]}),
        (1 << 80, str(1 << 80)),
        (None, None),
        ((1, "two", 3.5, True), [1, "two", 3.5, True]),
    ],
)
async def test_odd_results_become_data(hf, script, value, expected):
    """Whatever a tool gives is recorded as plain data, binary as text."""

    def odd() -> Any:
        """Give something."""
        return value

    recorded, _, _ = await run_tool(hf, script, odd)
    assert recorded["result"] == expected
    assert "is_error" not in recorded


@dataclasses.dataclass
class Point:
    """A value of the user's own."""

    x: int


class Opaque:
    """Something that has no data."""

    def __str__(self):
        """Say what it is."""
        return "opaque"


class Model:
    """A value that knows how to become data."""

    def model_dump(self, mode):
        """The data."""
        return {"mode": mode}


class Hostile:
    """Something that cannot even be printed."""

    def __str__(self):
        """Refuse."""
        raise RuntimeError("no")


async def test_objects_become_data():
    """Dataclasses become objects, others their text, and nothing raises."""
    from holdfast.agent import plain_result

    deep = []
    for _ in range(200):
        deep = [deep]
    assert plain_result([Point(1), Opaque(), Model()]) == [{"x": 1}, "opaque", {"mode": "json"}]
    assert "cannot be shown" in plain_result(Hostile())
    assert plain_result(b"\xff" * 3000).endswith("…")
    assert str(plain_result(deep))


async def test_a_tool_that_never_returns_is_given_up(hf, script):
    """After its time a tool is given up, async or not, and the model is told."""

    async def forever() -> str:
        """Never return."""
        await asyncio.sleep(3600)
        return ""

    free, returned = threading.Event(), []

    def stuck() -> str:
        """Never return either."""
        free.wait(120)
        returned.append("stuck")
        return ""

    model = script([("forever", {}), ("stuck", {})], "done")
    tools = [Tool(forever, timeout_ms=50), stuck]
    agent = Agent(model.model, tools=tools, tool_timeout_ms=80)
    with hf.session("s") as session:
        await agent.run("go", session=session)
        found = results_of(session)
    assert returned == []
    free.set()
    assert "within 50 ms" in found["forever"]["result"]["message"]
    assert "within 80 ms" in found["stuck"]["result"]["message"]


async def test_parallel_calls_run_at_the_same_time(hf, script):
    """Calls of one answer run concurrently, and their intents are recorded before any of them."""
    barrier = threading.Barrier(3, timeout=120)

    def meet(name: str) -> str:
        """Wait for the others."""
        barrier.wait()
        return name

    model = script([("meet", {"name": n}) for n in "abc"], "done")
    with hf.session("s") as session:
        await Agent(model.model, tools=[meet]).run("go", session=session)
        kinds = [e.type for e in session.events() if e.type.startswith("tool_")]
        assert kinds == ["tool_call"] * 3 + ["tool_result"] * 3
        blocks = session.messages()[2]["content"]
        assert [block["content"] for block in blocks] == ["a", "b", "c"]


async def test_the_intent_is_on_the_medium_before_the_tool_runs(hf, script, monkeypatch):
    """When the tool runs, its call has been flushed."""
    from holdfast.session import Session

    order = []
    barrier = Session.abarrier

    async def noted(self):
        await barrier(self)
        order.append("flushed")

    monkeypatch.setattr(Session, "abarrier", noted)

    def act(ctx: ToolContext) -> str:
        """Act."""
        order.append("acted")
        assert ctx.call_id in ctx.session.live_state.pending_calls
        return "ok"

    recorded, _, _ = await run_tool(hf, script, act)
    assert recorded["result"] == "ok"
    assert order[:2] == ["flushed", "acted"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (("nothing", {}), "there is no tool 'nothing'; there are: add"),
        (("add", {"a": 1}), "wrong arguments for add"),
        (("add", {"a": "x", "b": 2}), "unable to parse string as an integer"),
        (("add", '{"a": 1,'), "not JSON"),
        (("add", "[1]"), "not an object"),
    ],
)
async def test_a_wrong_call_is_answered_not_made(hf, script, call, message):
    """The model is told what was wrong, and nothing runs."""
    ran = []

    def add(a: int, b: int) -> int:
        """Add."""
        ran.append((a, b))
        return a + b

    with hf.session("s") as session:
        await Agent(script([call], "done").model, tools=[add]).run("go", session=session)
        [recorded] = [e.data for e in session.events() if e.type == "tool_result"]
        assert validate(session.messages("openai"), "openai").valid
    assert message in recorded["result"]["message"]
    assert recorded["is_error"]
    assert ran == []


async def test_arguments_are_converted_to_their_types(hf, script):
    """A number that came as text is a number to the function."""

    async def double(n: int = 1) -> int:
        """Double."""
        return n * 2

    recorded, _, _ = await run_tool(hf, script, double, {"n": "21"})
    assert recorded["result"] == 42


async def test_an_idempotent_tool_is_run_once_for_the_same_arguments(hf, script):
    """The second call of the same arguments reuses the result, also in a later process."""
    ran = []

    @tool(idempotent=True)
    def charge(amount: int) -> str:
        """Charge."""
        ran.append(amount)
        return f"charged {amount}"

    model = script([("charge", {"amount": 5})], [("charge", {"amount": 5})], "done")
    with hf.session("s") as session:
        await Agent(model.model, tools=[charge]).run("go", session=session)
        cached = [e.data.get("cached") for e in session.events() if e.type == "tool_result"]
    assert cached == [None, True]
    again = script([("charge", {"amount": 5}), ("charge", {"amount": 6})], "done")
    with hf.session("s") as session:
        await Agent(again.model, tools=[charge]).run("go", session=session)
    assert ran == [5, 6]


@pytest.mark.req("S0-40", "S0-81")
@pytest.mark.parametrize("url", ["memory:", "none:", "files"])
async def test_an_idempotent_tool_is_run_once_in_all_runs_of_a_session(url, store_root, script):
    """Runs of one process share the result, whichever agent makes the call."""
    ran = []

    @tool(idempotent=True)
    def look(city: str) -> str:
        """Look."""
        ran.append(city)
        return f"sunny in {city}"

    @tool(idempotent=True)
    def other(city: str) -> str:
        """Look elsewhere."""
        return city

    with holdfast.open(store_root if url == "files" else url) as hf, hf.session("s") as session:
        for tools in ([look], [look], [look, other], [other, look]):
            model = script([("look", {"city": "Oslo"})], "done").model
            await Agent(model, tools=tools).run("go", session=session)
        results = [e.data for e in session.events() if e.type == "tool_result"]
    assert ran == ["Oslo"]
    assert [data["result"] for data in results] == ["sunny in Oslo"] * 4
    assert [data.get("cached", False) for data in results] == [False, True, True, True]


@pytest.mark.req("S0-81")
async def test_the_result_of_a_repeated_call_is_used_again(hf, script):
    """A call that a crash left undone is run once more, and its result serves the next one."""
    ran = []

    @tool(idempotent=True)
    def look(city: str) -> str:
        """Look."""
        ran.append(city)
        return city

    with hf.session("s") as session:
        session.append("turn_start", {})
        session.user("go")
        session.tool_call("look", {"city": "Oslo"}, id="c1")
        model = script([("look", {"city": "Oslo"})], "done").model
        await Agent(model, tools=[look]).run("again", session=session)
    assert ran == ["Oslo"]


@pytest.mark.req("S0-40")
async def test_the_cache_expires_and_belongs_to_the_memory_feature(hf, script):
    """A result that is too old is not reused; without the memory feature none is."""
    from holdfast.agent import Features

    ran = []

    def work() -> int:
        """Work."""
        ran.append(1)
        return len(ran)

    twice = ([("work", {})], [("work", {})], "done")
    stale = Tool(work, idempotent=True, cache_ms=0)
    with hf.session("a") as session:
        await Agent(script(*twice).model, tools=[stale]).run("go", session=session)
    fresh = Tool(work, idempotent=True)
    off = Features(memory=False)
    with hf.session("b") as session:
        await Agent(script(*twice).model, tools=[fresh], features=off).run("go", session=session)
    assert len(ran) == 4


async def test_tools_are_switched_grouped_and_ranked(hf, script):
    """A tool or a namespace that is off is not offered; higher priority comes first."""

    def plain() -> str:
        """Plain."""
        return ""

    def grouped() -> str:
        """Grouped."""
        return ""

    def important() -> str:
        """Important."""
        return ""

    tools = [plain, Tool(grouped, namespace="files"), Tool(important, priority=5)]
    model = script("ok")
    agent = Agent(model.model, tools=tools)

    def offered():
        return [definition.name for definition in model.infos[-1].function_tools]

    with hf.session("s") as session:
        await agent.run("a", session=session)
        assert offered() == ["important", "plain", "grouped"]
        agent.configure_tools(enabled={"files": False}, session=session)
        await agent.run("b", session=session)
        assert offered() == ["important", "plain"]
        agent.configure_tools(enabled={"grouped": True, "plain": False}, priorities={"grouped": 9}, session=session)
        await agent.run("c", session=session)
        assert offered() == ["grouped", "important"]
        agent.configure_tools(session=session)
    with hf.session("s") as session:
        assert session.state.tools.priorities == {"grouped": 9}
        await agent.run("d", session=session)
        assert offered() == ["grouped", "important"]


async def test_a_sync_function_that_gives_an_awaitable_is_awaited(hf, script):
    """A plain function may return a coroutine."""

    async def inner():
        return "inner"

    def outer() -> Any:
        """Outer."""
        return inner()

    recorded, _, _ = await run_tool(hf, script, outer)
    assert recorded["result"] == "inner"


async def test_stop_iteration_is_an_error_like_any_other(hf, script):
    """An exception that futures cannot hold is a result too."""

    def empty() -> str:
        """Look into nothing."""
        return next(iter(()))

    recorded, _, _ = await run_tool(hf, script, empty)
    assert "StopIteration" in recorded["result"]["message"]


def test_what_cannot_be_a_tool_is_refused():
    """A tool needs a name, arguments by name and readable hints; two of one name are refused."""

    def star(*args: int) -> int:
        """Take any."""
        return sum(args)

    def unknown(x: Missing) -> str:  # noqa: F821 - that is the point
        """Hint at nothing."""
        return x

    def lock(x: threading.Event) -> str:
        """Take what has no schema."""
        return str(x)

    for wrong in (star, unknown, lock):
        with pytest.raises(UsageError):
            Tool(wrong).describe()
    with pytest.raises(UsageError):
        Tool(lambda: 1, name="not a name")
    with pytest.raises(UsageError):
        Agent("test", tools=["text"])
    with pytest.raises(UsageError, match="two tools"):
        Agent("test", tools=[named, Tool(named)])


def named() -> str:
    """Have a name."""
    return "named"


def test_the_decorator_takes_options_or_none():
    """@tool and @tool(…) both make tools."""
    assert repr(tool(named)) == "<Tool named>"
    made = tool(read_only=True, name="other")(named)
    assert (made.name, made.repeatable) == ("other", True)


async def test_a_tool_may_come_with_a_schema_of_its_own(hf, script):
    """A schema that is given is used as it is, and arguments are passed on unchecked."""

    async def raw(**given: Any) -> Any:
        """Take anything."""
        return given

    made = Tool(raw, name="raw", description="Raw.", schema={"type": "object", "properties": {}})
    recorded, _, _ = await run_tool(hf, script, made, {"anything": [1]})
    assert recorded["result"] == {"anything": [1]}


async def test_what_tools_are_made_with_reaches_them(hf, script):
    """Deps of the agent are on the context."""

    def use(ctx: ToolContext) -> str:
        """Use it."""
        return ctx.deps["key"]

    recorded, _, _ = await run_tool(hf, script, use, deps={"key": "value"})
    assert recorded["result"] == "value"


@pytest.mark.parametrize("style", ["sync", "async"])
async def test_a_tool_cannot_end_the_process(hf, script, style):
    """sys.exit in a tool is an error result like any other."""

    def leave() -> str:
        """Leave."""
        sys.exit(3)

    async def aleave() -> str:
        """Leave."""
        sys.exit(3)

    function = leave if style == "sync" else aleave
    recorded, _, _ = await run_tool(hf, script, Tool(function, name="leave", timeout_ms=120_000))
    assert "wanted to end the process" in recorded["result"]["message"]


async def test_a_tool_that_is_cancelled_from_inside_is_an_error_result(hf, script):
    """A cancellation that nobody outside asked for does not cancel the run."""

    async def give_up() -> str:
        """Give up."""
        raise asyncio.CancelledError

    recorded, _, _ = await run_tool(hf, script, give_up)
    assert recorded["result"]["cancelled"]


async def test_ids_that_come_again_are_told_apart(hf, script):
    """A server that numbers its calls anew in each answer never mixes up results."""
    session = hf.session("s")
    session.append("turn_start", {"agent": "agent"}, run="r-1")
    session.append("agent_start", {"agent": "agent", "depth": 0}, run="r-1")
    session.user("go", run="r-1")
    session.tool_call("echo", {"word": "lost"}, id="call_0", run="r-1")
    session._journal.writer.dead = RuntimeError("killed")
    session.close()

    def echo(word: str) -> str:
        """Echo."""
        return word

    again = [("echo", {"word": word}, "call_0") for word in ("a", "b")]
    with hf.session("s") as session:
        agent = Agent(script(again, [("echo", {"word": "c"}, "call_0")], "done").model, tools=[echo])
        await agent.run("again", session=session)
        blocks = [b for m in session.messages(incomplete="mark") for b in blocks_of(m)]
        assert validate(session.messages("anthropic", incomplete="mark"), "anthropic").valid
    asked = {b["id"]: b["input"]["word"] for b in blocks if b["type"] == "tool_use"}
    got = {asked[b["tool_use_id"]]: b["content"] for b in blocks if b["type"] == "tool_result"}
    assert "interrupted" in got.pop("lost")
    assert got == {"a": "a", "b": "b", "c": "c"}


async def test_ids_outside_the_window_are_not_used_again(hf, script):
    """An id is new to the whole session, also if the request holds only the end of it."""

    def echo(word: str) -> str:
        """Echo."""
        return word * 300

    steps = [[("echo", {"word": "a"}, "call_0")], "done"] * 6
    agent = Agent(script(*steps).model, tools=[echo], max_context_tokens=600, strategy="window")
    with hf.session("s") as session:
        for number in range(6):
            await agent.run(f"question {number} " + "x" * 600, session=session)
        ids = [event.data["id"] for event in session.events() if event.type == "tool_call"]
    assert len(set(ids)) == 6


def blocks_of(message):
    """The blocks of a message that has any."""
    return message["content"] if isinstance(message["content"], list) else []


@pytest.mark.parametrize("streamed", [False, True])
async def test_words_that_no_log_takes_are_made_fit(hf, script, streamed):
    """NUL and lone surrogates from a model do not end the run."""
    agent = Agent(script("a\0b \ud800 c").model)
    with hf.session("s") as session:
        if streamed:
            async for _ in agent.run_stream("go", session=session):
                pass
        else:
            await agent.run("go", session=session)
        assert session.messages()[-1]["content"].strip() == "a\N{REPLACEMENT CHARACTER}b ? c"
