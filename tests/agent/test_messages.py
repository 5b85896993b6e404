"""The edge to the engine: nothing that a provider needs back is lost on the way."""

from __future__ import annotations

import pytest
from pydantic_ai import messages as pai
from pydantic_ai.models import Model
from pydantic_ai.models.function import FunctionModel

import holdfast
from holdfast.agent import Agent
from holdfast.agent._providers import Converter, read_reply
from holdfast.errors import ModelFailed
from holdfast.testing.model_server import Say, ScriptedModel


class Fixed(FunctionModel):
    """A model that gives the same parts every time, as a provider of some name would."""

    def __init__(self, parts, system="function"):
        super().__init__(lambda messages, info: None, model_name="fixed")
        self.parts = parts
        self.seen = []
        self.parameters = []
        self._system = system

    async def request(self, messages, model_settings, model_request_parameters):
        self.seen.append(messages)
        self.parameters.append(model_request_parameters)
        return pai.ModelResponse(parts=[*self.parts])


@pytest.mark.parametrize(
    "part",
    [
        pai.ThinkingPart("hm", signature="c2ln", provider_name="anthropic"),
        pai.ThinkingPart("", id="redacted_thinking", signature="x", provider_name="anthropic"),
        pai.ThinkingPart("hm", signature="c2ln", provider_name="google"),
    ],
    ids=["anthropic", "redacted", "google"],
)
async def test_thoughts_come_back_as_they_were(hf, part):
    """Signed thoughts of each provider reach it again with their signature, after a restart."""
    model = Fixed([part, pai.TextPart("ok")])
    with hf.session("s") as session:
        await Agent(model).run("go", session=session)
    with hf.session("s") as session:
        await Agent(model).run("again", session=session)
    found = model.seen[1][1].parts[0]
    assert (found.content, found.signature) == (part.content, part.signature)
    assert (found.provider_name, found.id) == (part.provider_name, part.id)


async def test_the_signature_of_a_call_comes_back(hf):
    """Google's signature on a call is recorded with it and sent again."""
    call = pai.ToolCallPart("look", {}, "c1", provider_name="google", provider_details={"thought_signature": "c2ln"})

    def look() -> str:
        """Look."""
        model.parts = [pai.TextPart("done")]
        return "seen"

    model = Fixed([call])
    with hf.session("s") as session:
        await Agent(model, tools=[look]).run("go", session=session)
    again = model.seen[1][1].parts[0]
    assert again.provider_details == {"thought_signature": "c2ln"}
    assert again.provider_name == "google"


async def test_thoughts_of_others_are_kept_without_their_signature(hf):
    """A signature that only counts on the provider's own server is not recorded."""
    part = pai.ThinkingPart("hm", signature="enc", id="rs_1", provider_name="openai")
    model = Fixed([part, pai.TextPart("ok")])
    with hf.session("s") as session:
        await Agent(model).run("go", session=session)
        [thought] = [event.data for event in session.events() if event.type == "thinking"]
    assert thought == {"content": "hm", "agent": "agent"}


@pytest.mark.parametrize(("system", "expected"), [("anthropic", ["look"]), ("openai", [])])
async def test_a_conversation_with_calls_can_go_on_without_tools(hf, system, expected):
    """Providers that want tools defined get stand-ins for those that the conversation used."""
    with hf.session("s") as session:
        session.user("go")
        call = session.tool_call("look", {})
        session.tool_result(call, "seen")
        model = Fixed([pai.TextPart("ok")], system)
        await Agent(model).run("and?", session=session)
    assert [tool.name for tool in model.parameters[0].function_tools] == expected


async def test_a_model_that_cannot_stream_answers_in_one_piece(hf):
    """Streaming such a model gives the whole answer at once, recorded like any other."""

    class Whole(Model):
        model_name = "whole"
        system = "whole"
        provider = None

        async def request(self, messages, model_settings, model_request_parameters):
            return pai.ModelResponse(parts=[pai.TextPart("all at once")])

    with hf.session("s") as session:
        stream = Agent(Whole()).run_stream("go", session=session)
        assert [piece async for piece in stream] == ["all at once"]
        assert session.messages()[-1]["content"] == "all at once"


async def test_an_answer_without_words_ends_the_turn(hf, script):
    """A model that says nothing at all gives an empty output and a valid session."""
    model = Fixed([])
    with hf.session("s") as session:
        result = await Agent(model).run("go", session=session)
        assert result.output == ""
        assert (await Agent(script("hi").model).run("hello?", session=session)).output == "hi"


def converted(*blocks, role="user"):
    """One message of the engine for these blocks."""
    return Converter().convert([{"role": role, "content": list(blocks)}])[0].parts


def test_media_of_every_kind_are_converted():
    """Addresses, bytes and texts become what the engine knows; the unreadable becomes a note."""
    [prompt] = converted(
        {"type": "image", "source": {"type": "url", "url": "http://x/a.png"}},
        {"type": "document", "source": {"type": "url", "url": "http://x/a.pdf"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "!!"}},
        {"type": "document", "source": {"type": "text", "data": "plain"}},
        {"type": "document", "source": {"type": "file"}},
    )
    picture, document, broken, text, unknown = prompt.content
    assert isinstance(picture, pai.ImageUrl)
    assert isinstance(document, pai.DocumentUrl)
    assert "could not be read" in broken
    assert (text, unknown) == ("plain", "[document]")
    [result] = converted({"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "a"}]})
    assert result.content == ["a"]
    assert converted({"type": "server_tool_use", "id": "x"}, role="assistant") == []


def test_a_message_is_converted_once():
    """What has not changed since the last request is not converted again."""
    converter = Converter()
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    first = converter.convert(messages)
    second = converter.convert([*messages, {"role": "user", "content": "c"}])
    assert second[0] is first[0]
    assert second[1] is first[1]


def test_parts_that_say_nothing_are_left_out():
    """Empty words and parts of unknown kinds are no speech."""
    response = pai.ModelResponse(
        parts=[pai.TextPart(""), pai.FilePart(content=pai.BinaryContent(b"x", media_type="x/y"))]
    )
    reply = read_reply(response)
    assert (reply.speech, reply.calls, reply.text) == ([], [], "")


async def test_a_broken_answer_can_be_gone_on_with(hf, script, texts):
    """After a stream broke off, None as a prompt asks the model to go on where it was."""

    async def breaking(messages, info):
        yield "half an "
        raise ConnectionError("line cut")

    broken = FunctionModel(stream_function=breaking)
    with hf.session("s") as session:
        session.append("turn_start", {}, run="r-1")
        session.user("tell me", run="r-1")
        session.delta("half an ", run="r-1")
        session._journal.writer.dead = RuntimeError("killed")
    with hf.session("s") as session:
        model = script("answer")
        result = await Agent(model.model).run(None, session=session)
        assert result.output == "answer"
        with pytest.raises(ModelFailed):
            async for _ in Agent(broken).run_stream("more", session=session):
                pass
    assert texts(model.requests[0]) == ["tell me", "half an ", "(go on where you were interrupted)"]


def test_a_thought_without_its_signature_is_not_told_to_anthropic(monkeypatch):
    """It is left of an answer that was cut off; the engine would send it as words of the user, two turns in a row."""
    with ScriptedModel([Say("hello"), Say("The plan is this.")]) as server, holdfast.open("memory:") as hf:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "any")
        with Agent("anthropic:scripted", hf=hf, persistent_session=True) as agent:
            agent.run_sync("hi")
            agent.session.append("turn_start", {})
            agent.session.user("The plan?")
            agent.session.append("delta", {"content": "Let me see.", "kind": "thinking"})
            agent.session.append("delta", {"content": "The plan "})
            assert agent.run_sync(None).output == "The plan is this."
        assert [message["role"] for message in server.requests[-1].messages] == ["user", "assistant"] * 2 + ["user"]
