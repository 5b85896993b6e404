"""Finding and asking models: whatever goes wrong is a typed error with a remedy."""

from __future__ import annotations

import contextlib
import http.server
import socket
import threading

import pytest
from openai import AsyncOpenAI
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from holdfast.agent import Agent, register_model, resolve_model
from holdfast.errors import ModelFailed, UsageError

# A provider's library has escapes in its source that Python warns of when it is first compiled.
pytestmark = [
    pytest.mark.filterwarnings("ignore:invalid escape sequence:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:invalid escape sequence:SyntaxWarning"),
]


@pytest.mark.parametrize("name", ["nope", "nobody:model", "", "   ", None, 5])
def test_an_unknown_model_is_refused(name):
    """A name that nobody knows is a UsageError with the form that is expected."""
    with pytest.raises(UsageError) as caught:
        Agent(name)
    assert "provider:model" in caught.value.remedy


@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ("anthropic:claude-sonnet-5-5", "ANTHROPIC_API_KEY"),
        ("openai:gpt-5", "OPENAI_API_KEY"),
        ("google:gemini-2.5-pro", "GOOGLE_API_KEY"),
        ("google-gla:gemini-2.5-pro", "GOOGLE_API_KEY"),
    ],
)
def test_a_missing_key_is_named(monkeypatch, model, variable):
    """Without its key a provider's model is refused, naming the variable to set."""
    monkeypatch.delenv(variable, raising=False)
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    with pytest.raises(UsageError) as caught:
        Agent(model)
    assert caught.value.variable == variable
    assert variable in caught.value.remedy


@pytest.mark.parametrize(
    ("model", "variable", "system"),
    [
        ("anthropic:claude-sonnet-5-5", "ANTHROPIC_API_KEY", "anthropic"),
        ("openai:gpt-5", "OPENAI_API_KEY", "openai"),
        ("google-gla:gemini-2.5-pro", "GOOGLE_API_KEY", "google"),
    ],
)
def test_a_provider_is_found_by_its_name(monkeypatch, model, variable, system):
    """With its key, each provider's model is made."""
    monkeypatch.setenv(variable, "key")
    assert resolve_model(model).system.startswith(system)


def test_a_prefix_can_be_given_a_model_of_ones_own(script):
    """register_model teaches the agent a new prefix."""
    made = script("hi").model
    register_model("mine", lambda name: made if name == "x" else None)
    assert Agent("mine:x").run_sync("hello").output == "hi"


def closed_port():
    """A port on loopback where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def test_a_provider_that_is_down_leaves_the_session_resumable(hf, script, texts):
    """Connection refused is a ModelFailed with a remedy; the same session goes on later."""
    address = f"http://127.0.0.1:{closed_port()}/v1"
    down = OpenAIChatModel("gpt", provider=OpenAIProvider(base_url=address, api_key="k"))
    with hf.session("s") as session:
        with pytest.raises(ModelFailed) as caught:
            await Agent(down).run("hello?", session=session)
        assert caught.value.reason == "connection"
        assert "address" in caught.value.remedy
        kinds = [event.type for event in session.events()]
        assert kinds[-2:] == ["agent_error", "turn_end"]
        model = script("here")
        assert (await Agent(model.model).run(None, session=session)).output == "here"
    assert texts(model.requests[0]) == ["hello?"]


async def test_any_failure_of_a_model_is_typed(hf, script):
    """An exception of any kind from a model is a ModelFailed; its cause is kept."""
    agent = Agent(script(KeyError("odd"), "fine").model)
    with hf.session("s") as session:
        with pytest.raises(ModelFailed) as caught:
            await agent.run("go", session=session)
        assert isinstance(caught.value.__cause__, KeyError)
        assert (await agent.run("again", session=session)).output == "fine"


@pytest.mark.parametrize(
    ("status", "reason"), [(401, "key"), (404, "unknown_model"), (429, "rate_limit"), (400, "refused")]
)
async def test_what_a_provider_answers_is_told_apart(status, reason):
    """Key, model and rate errors each have their reason and remedy."""
    with refusing_server(status) as address:
        client = AsyncOpenAI(api_key="k", base_url=address, max_retries=0)
        model = OpenAIChatModel("gpt", provider=OpenAIProvider(openai_client=client))
        with pytest.raises(ModelFailed) as caught:
            await Agent(model).run("go")
        assert caught.value.reason == reason
        await client.close()


@contextlib.contextmanager
def refusing_server(status):
    """A server on loopback that answers every request with an error."""

    class Refusal(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = b'{"error": {"message": "no", "code": "x"}}'
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusal)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_settings_reach_the_model(script):
    """model_settings are passed on with each request."""
    model = script("x")
    await Agent(model.model, model_settings={"temperature": 0.1}).run("go")
    assert model.infos[0].model_settings["temperature"] == 0.1
