"""One run: what is asked, what is recorded, what comes back."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart
from pydantic_ai.usage import RequestUsage

from holdfast.agent import Agent, ToolContext, _providers
from holdfast.errors import TooLarge, TooManyIterations, UsageError
from holdfast.replay import validate
from holdfast.testing.model_server import Say, ScriptedModel


@pytest.mark.req("S1-23", "S1-28", "S1-41")
@pytest.mark.req("S1-21")
async def test_a_run_without_a_session_answers_and_forgets(script, texts):
    """Without a session each run starts with its own prompt alone."""
    model = script("Hello", "Again")
    agent = Agent(model.model)
    first = await agent.run("My name is Alice")
    second = await agent.run("Who am I?")
    assert (first.output, second.output) == ("Hello", "Again")
    assert first.session_id is None
    assert texts(model.requests[1]) == ["Who am I?"]


@pytest.mark.req("S0-1", "B-4")
async def test_nothing_touches_the_disk_without_persistence(script, tmp_path, monkeypatch):
    """An agent that does not ask for persistence makes no file anywhere."""
    monkeypatch.setenv("HOLDFAST_STORE", str(tmp_path / "store"))
    agent = Agent(script("Hello").model, tools=[lambda_tool])
    await agent.run("Hi")
    agent.close()
    assert list(tmp_path.iterdir()) == []


def lambda_tool() -> str:
    """Do nothing."""
    return "nothing"


@pytest.mark.req("S1-1", "S1-2", "S1-42", "S1-44")
@pytest.mark.req("S1-22")
async def test_a_session_carries_the_conversation(hf, script, texts):
    """With a session, what was said before is part of the next request."""
    model = script("Hello Alice", "You are Alice")
    agent = Agent(model.model)
    with hf.session("s") as session:
        await agent.run("My name is Alice", session=session)
        result = await agent.run("Who am I?", session=session)
        assert len(session.history) == 4
    assert texts(model.requests[1]) == ["My name is Alice", "Hello Alice", "Who am I?"]
    assert result.session_id == "s"
    assert [message["role"] for message in result.messages] == ["user", "assistant"] * 2


@pytest.mark.req("S1-25")
async def test_each_step_is_recorded_in_order(hf, script, types):
    """Turn, user, intent, result, answer and end are on record in the order they happened."""
    agent = Agent(script([("add", {"a": 1, "b": 2})], "3").model, tools=[add])
    with hf.session("s") as session:
        await agent.run("1 + 2?", session=session)
        assert types(session) == [
            "turn_start",
            "agent_start",
            "user",
            "agent_iteration",
            "tool_call",
            "tool_result",
            "agent_iteration",
            "assistant",
            "agent_complete",
            "turn_end",
        ]
        ended = [event for event in session.events() if event.type == "turn_end"]
        assert ended[0].data["reason"] == "completed"


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.mark.req("S1-8", "S1-27", "S1-43", "B-31")
@pytest.mark.req("S1-26")
async def test_a_tool_sets_a_variable_that_the_next_turn_has(hf, script):
    """A variable set by a tool keeps its type and is there in a later turn, also after a crash."""
    seen = []

    def set_x(ctx: ToolContext, value: int) -> str:
        """Set x."""
        ctx.variables["x"] = value
        return "set"

    def get_x(ctx: ToolContext) -> int:
        """Get x."""
        seen.append(ctx.variables["x"])
        return ctx.variables["x"]

    model = script([("set_x", {"value": 10})], RuntimeError("cut"), [("get_x", {})], "10")
    agent = Agent(model.model, tools=[set_x, get_x])
    with hf.session("s") as session:
        with pytest.raises(Exception, match="cut"):
            await agent.run("set x to 10", session=session)
        assert session.variables["x"] == 10
        await agent.run("what is x?", session=session)
    assert seen == [10]


@pytest.mark.req("S1-22")
async def test_given_variables_are_merged_over_the_stored_ones(hf, script):
    """Variables given with a run are set before it and stay."""
    agent = Agent(script("ok").model)
    with hf.session("s") as session:
        session.variables.update(a=1, b=2)
        await agent.run("go", session=session, variables={"b": 3})
        assert dict(session.variables) == {"a": 1, "b": 3}


@pytest.mark.req("S1-3", "S1-32", "S1-45")
@pytest.mark.req("S1-33")
async def test_a_question_is_an_answer_and_the_reply_the_next_turn(hf, script, texts):
    """The agent asks by answering; the user's reply continues the same conversation."""
    model = script("Which city?", "Paris it is")
    agent = Agent(model.model)
    with hf.session("s") as session:
        question = await agent.run("Book a trip", session=session)
        await agent.run("Paris", session=session)
    assert "?" in question.output
    assert texts(model.requests[1]) == ["Book a trip", "Which city?", "Paris"]


@pytest.mark.req("S1-4")
async def test_after_an_interruption_the_next_input_goes_on(hf, script, texts):
    """Stopped in the middle of a tool: the next words continue, and nothing said before is lost."""
    begun = asyncio.Event()

    async def book() -> str:
        """Book."""
        begun.set()
        await asyncio.Event().wait()

    model = script([("book", {})], "Paris it is")
    agent = Agent(model.model, tools=[book])
    with hf.session("s") as session:
        running = asyncio.create_task(agent.run("Book a trip", session=session))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        answer = await agent.run("To Paris, please", session=session)
    assert answer.output == "Paris it is"
    told = texts(model.requests[-1])
    assert (told[0], told[-1]) == ("Book a trip", "To Paris, please")
    assert "cancelled" in str(told[1:-1])


@pytest.mark.req("S1-24")
async def test_iterations_are_bounded(hf, script):
    """An agent that never ends is stopped, and the session can go on."""
    assert Agent("test").spec.bounds.max_iterations == 1000
    model = script([("add", {"a": 1, "b": 1})])
    agent = Agent(model.model, tools=[add], max_iterations=3)
    with hf.session("s") as session:
        with pytest.raises(TooManyIterations) as caught:
            await agent.run("loop", session=session)
        assert caught.value.session_id == "s"
        assert len(model.requests) == 3
        assert validate(session.messages("anthropic"), "anthropic").valid
        model.steps[:] = ["fine"]
        assert (await agent.run("stop", session=session)).output == "fine"


async def test_usage_is_the_providers_where_it_is_reported(hf):
    """The provider's figures are on the message, on the result and in the session's sum."""
    usage = RequestUsage(input_tokens=7, output_tokens=5, cache_read_tokens=2)
    response = ModelResponse(parts=[TextPart("hi")], usage=usage)
    agent = Agent(answering(response))
    with hf.session("s") as session:
        result = await agent.run("hello", session=session)
        recorded = next(e for e in session.events() if e.type == "assistant").data
        assert session.state.usage.total_tokens == 12
    assert recorded["usage"] == {"input_tokens": 7, "output_tokens": 5, "cache_read_tokens": 2}
    assert recorded["token_count"] == 5
    assert "token_count_estimated" not in recorded
    assert (result.usage.input_tokens, result.usage.total_tokens) == (7, 12)


def answering(response):
    """A model that always gives this response, without an estimate of its own."""
    from pydantic_ai.models.function import FunctionModel

    class Fixed(FunctionModel):
        async def request(self, messages, model_settings, model_request_parameters):
            return response

    return Fixed(lambda messages, info: response, model_name="fixed")


async def test_missing_usage_is_estimated_and_marked(hf):
    """Without figures of the provider, every message has an estimate that says it is one."""
    agent = Agent(answering(ModelResponse(parts=[TextPart("hello there")])))
    with hf.session("s") as session:
        result = await agent.run("a prompt of some words", session=session)
        events = {event.type: event.data for event in session.events()}
    assert result.usage.estimated
    assert events["assistant"]["usage"]["estimated"]
    assert events["assistant"]["token_count_estimated"]
    assert events["user"]["token_count"] == 6
    assert events["user"]["token_count_estimated"]


@pytest.mark.req("S3-60")
async def test_thinking_goes_back_with_its_signature(hf):
    """A thought is recorded with its signature and is part of the next request as it came."""
    thought = ThinkingPart("hm", signature="sig", provider_name="anthropic")
    seen = []

    def answer(messages, info):
        seen.append(messages)
        return ModelResponse(parts=[thought, TextPart("done")])

    from pydantic_ai.models.function import FunctionModel

    agent = Agent(FunctionModel(answer))
    with hf.session("s") as session:
        await agent.run("think", session=session)
        await agent.run("again", session=session)
    again = seen[1][1].parts[0]
    assert (again.content, again.signature, again.provider_name) == ("hm", "sig", "anthropic")


@pytest.mark.req("S1-15", "S1-40")
async def test_two_sessions_of_one_agent_never_mix(hf, script, texts):
    """Runs of one agent on two sessions at the same time keep to their own."""
    model = script(lambda messages: f"echo {texts(messages)[0]}")
    agent = Agent(model.model)
    with hf.session("a") as a, hf.session("b") as b:
        for _ in range(5):
            results = await asyncio.gather(agent.run("of a", session=a), agent.run("of b", session=b))
            assert [result.output for result in results] == ["echo of a", "echo of b"]
        assert {turn["content"] for turn in a.history} == {"of a", "echo of a"}
        assert {turn["content"] for turn in b.history} == {"of b", "echo of b"}


async def test_turns_of_one_session_wait_for_each_other(hf, script, types):
    """Two runs on one session are one turn after the other, in the order they came."""

    async def slow() -> str:
        """Take a while."""
        await asyncio.sleep(0.05)
        return "slow"

    model = script([("slow", {})], "first", "second")
    agent = Agent(model.model, tools=[slow])
    with hf.session("s") as session:
        results = await asyncio.gather(agent.run("one", session=session), agent.run("two", session=session))
        assert [result.output for result in results] == ["first", "second"]
        order = [t for t in types(session) if t in ("turn_start", "turn_end")]
        assert order == ["turn_start", "turn_end"] * 2


async def test_a_turn_inside_itself_is_refused(hf, script):
    """A tool that runs an agent on its own session is told, instead of waiting for ever."""
    refused = []

    async def nested(ctx: ToolContext) -> str:
        """Run the agent again."""
        try:
            await agent.run("inside", session=ctx.session)
        except UsageError as error:
            refused.append(error)
        return "tried"

    agent = Agent(script([("nested", {})], "done").model, tools=[nested])
    with hf.session("s") as session:
        await asyncio.wait_for(agent.run("go", session=session), 120)
    assert len(refused) == 1
    assert refused[0].session_id == "s"


def test_run_sync_works_again_and_again(hf, script):
    """The sync form can be called as often as one likes, from any thread."""
    agent = Agent(script("one", "two").model)
    assert [agent.run_sync("x").output, agent.run_sync("y").output] == ["one", "two"]


def test_one_agent_answers_many_threads(monkeypatch):
    """Threads that share an agent never share the connections of another thread's event loop."""
    everyone = threading.Barrier(4)
    outputs = []

    def ask():
        outputs.extend(agent.run_sync("hi").output for _ in range(3))

    def answer(request):
        with contextlib.suppress(threading.BrokenBarrierError):
            everyone.wait(1)  # so that the runs are under way at the same time
        return Say("hello")

    with ScriptedModel(answer) as model:
        monkeypatch.setenv("OPENAI_BASE_URL", model.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        agent = Agent("openai-chat:scripted")
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert outputs == ["hello"] * 12
    assert _providers._users == {}


async def test_run_sync_inside_a_loop_names_the_async_form(script):
    """Inside an event loop the sync form is refused with the way out."""
    with pytest.raises(UsageError) as caught:
        Agent(script("x").model).run_sync("hi")
    assert "await" in caught.value.remedy


@pytest.mark.parametrize("prompt", ["", "   ", [], 5])
async def test_a_bad_prompt_is_refused_before_anything_is_recorded(hf, script, prompt):
    """What is no prompt is refused, and the session has no trace of it."""
    with hf.session("s") as session:
        with pytest.raises(UsageError):
            await Agent(script("x").model).run(prompt, session=session)
        assert session.seq == -1


async def test_a_prompt_of_blocks_reaches_the_model(hf, script):
    """Blocks of text and pictures are part of the request."""
    model = script("a picture")
    picture = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    prompt = [{"type": "text", "text": "look"}, {"type": "image", "source": picture}]
    with hf.session("s") as session:
        await Agent(model.model).run(prompt, session=session)
    words, image = model.requests[0][0].parts[0].content
    assert (words, image.data, image.media_type) == ("look", b"hi", "image/png")


async def test_an_overlong_prompt_leaves_the_session_usable(hf, script):
    """A prompt over the limit is refused, and the next one works."""
    agent = Agent(script("fine").model)
    with hf.session("s") as session:
        with pytest.raises(TooLarge):
            await agent.run("x" * (2 << 20), session=session)
        assert (await agent.run("short", session=session)).output == "fine"


async def test_going_on_without_a_prompt_needs_something_to_go_on_with(hf, script):
    """None as a prompt goes on with unfinished work, and is refused when there is none."""
    model = script(RuntimeError("cut"), "done")
    agent = Agent(model.model)
    with hf.session("s") as session:
        with pytest.raises(Exception, match="cut"):
            await agent.run("a task", session=session)
        assert (await agent.run(None, session=session)).output == "done"
        with pytest.raises(UsageError):
            await agent.run(None, session=session)


async def test_a_cancelled_run_is_on_record_and_the_session_goes_on(hf, script):
    """Cancelling ends the turn as cancelled, with a result for the tool that ran."""
    begun = asyncio.Event()

    async def forever() -> str:
        """Never return."""
        begun.set()
        await asyncio.sleep(3600)
        return "never"

    agent = Agent(script([("forever", {})], "fine").model, tools=[forever])
    with hf.session("s") as session:
        task = asyncio.ensure_future(agent.run("go", session=session))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        ended = [e.data["reason"] for e in session.events() if e.type == "turn_end"]
        results = [e.data["result"] for e in session.events() if e.type == "tool_result"]
        assert ended == ["cancelled"]
        assert results[0]["cancelled"]
        assert (await agent.run("and now?", session=session)).output == "fine"
        assert validate(session.messages("openai"), "openai").valid


@pytest.mark.parametrize("steps", range(12))
async def test_a_run_cancelled_anywhere_leaves_a_valid_session(hf, script, steps):
    """Wherever the cancellation falls, no call is left open and the session goes on."""
    agent = Agent(script([("add", {"a": 1, "b": 1}), ("add", {"a": 2, "b": 2})], "fine").model, tools=[add])
    with hf.session("s") as session:
        task = asyncio.ensure_future(agent.run("go", session=session))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert not session.live_state.pending_calls
        assert not session.live_state.open_turns
        assert (await agent.run("and now?", session=session)).output == "fine"
        assert validate(session.messages("anthropic"), "anthropic").valid


async def test_a_closed_agent_refuses_to_run(script):
    """After close nothing runs any more."""
    agent = Agent(script("x").model)
    async with agent:
        pass
    with pytest.raises(UsageError):
        await agent.run("hi")


async def test_the_built_in_test_model_runs_with_tools(hf):
    """The model named "test" calls every tool and answers, without any provider."""
    with hf.session("s") as session:
        result = await Agent("test", tools=[add]).run("go", session=session)
    assert "add" in result.output


@pytest.mark.req("S3-13")
async def test_events_name_their_agent(hf, script):
    """The agent's name is on what it says and does."""
    agent = Agent(script([("add", {"a": 1, "b": 1})], "2").model, tools=[add], name="adder")
    with hf.session("s") as session:
        await agent.run("go", session=session)
        named = [e for e in session.events() if e.type in ("assistant", "tool_call")]
    assert [event.data["agent"] for event in named] == ["adder", "adder"]


async def test_another_agent_goes_on_in_the_same_session(hf, script, texts):
    """An agent of another name sees what the first one said."""
    second = script("hello from two")
    with hf.session("s") as session:
        await Agent(script("from one").model, name="one").run("hi", session=session)
        await Agent(second.model, name="two").run("and you?", session=session)
        assert len(session.messages()) == 4
    assert texts(second.requests[0]) == ["hi", "from one", "and you?"]
