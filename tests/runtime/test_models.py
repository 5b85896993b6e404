"""Which model is chosen, and what is said about it."""

from __future__ import annotations

import http.server
import json
import threading

import pytest

from holdfast._config import Configuration, Found
from holdfast.agent import choose_model
from holdfast.errors import ModelFailed, UsageError


def settings(**values):
    """A configuration with these settings, from a file."""
    values = {"model_servers": False, **values}
    return Configuration({name: Found(value, "holdfast.toml") for name, value in values.items()})


ORDER = [
    ("given:x", {"model": "set:y"}, {"ANTHROPIC_API_KEY": "k"}, "given:x", "as requested"),
    (None, {"model": "set:y"}, {"ANTHROPIC_API_KEY": "k"}, "set:y", "from holdfast.toml"),
    (
        None,
        {},
        {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"},
        "anthropic:claude-sonnet-5-5",
        "ANTHROPIC_API_KEY is set",
    ),
    (None, {}, {"OPENAI_API_KEY": "k"}, "openai:gpt-5", "OPENAI_API_KEY is set"),
    (None, {}, {"GEMINI_API_KEY": "k"}, "google:gemini-flash-latest", "GEMINI_API_KEY is set"),
    (None, {}, {"GOOGLE_API_KEY": "k"}, "google:gemini-flash-latest", "GOOGLE_API_KEY is set"),
    (None, {}, {"ANTHROPIC_API_KEY": ""}, "guide", "no API key is set and model servers are not asked"),
    (None, {}, {}, "guide", "no API key is set and model servers are not asked"),
]


@pytest.mark.parametrize(("given", "set_", "environment", "name", "reason"), ORDER)
def test_the_strongest_wish_wins(given, set_, environment, name, reason):
    """The option, then the configuration, then a key, then the guide."""
    choice = choose_model(given, settings(**set_), environment)
    assert (choice.name, choice.reason, choice.base_url) == (name, reason, None)
    assert name.partition(":")[0] in choice.explain()
    assert reason in choice.explain()


def test_the_line_says_how_to_change_it():
    """Every line names the way to another model; those of the guide and of the embedded one are honest."""
    assert "--model" in choose_model(None, settings(), {"OPENAI_API_KEY": "k"}).explain()
    guide, local = (choose_model(given, settings(), {}).explain() for given in (None, "local"))
    assert "not a language model" in guide
    assert "tiny" in local
    assert all("ANTHROPIC_API_KEY" in line for line in (guide, local))


def test_a_key_without_its_library_is_said(monkeypatch):
    """What was found and cannot be used is named with the command that mends it; the guide answers meanwhile."""
    monkeypatch.setattr("holdfast.agent._model_choice.find_spec", lambda _: None)
    choice = choose_model(None, settings(), {"ANTHROPIC_API_KEY": "k"})
    assert choice.is_guide
    assert choice.needs_engine
    assert "ANTHROPIC_API_KEY is set" in choice.explain()
    assert "pip install 'holdfast[agent]'" in choice.explain()
    assert not choose_model(None, settings(), {}).needs_engine
    assert choose_model("openai:gpt-5", settings(), {}).needs_engine


SERVERS = [
    (None, {"base_url": "http://h/v1"}, {}, ("", "http://h/v1", None)),
    (None, {}, {"OPENAI_BASE_URL": "http://h/v1/"}, ("", "http://h/v1", None)),
    (None, {}, {"OPENAI_BASE_URL": "http://h", "OPENAI_API_KEY": "k"}, ("", "http://h", "k")),
    ("qwen3", {"base_url": "http://h/v1"}, {}, ("openai:qwen3", "http://h/v1", None)),
    ("openai:q", {}, {"OPENAI_BASE_URL": "http://h/v1"}, ("openai:q", "http://h/v1", None)),
    ("ollama:q", {}, {"OLLAMA_HOST": "0.0.0.0"}, ("ollama:q", "http://127.0.0.1:11434/v1", None)),
    ("ollama:q", {}, {"OLLAMA_HOST": "box:1234"}, ("ollama:q", "http://box:1234/v1", None)),
    ("ollama:q", {}, {"OLLAMA_BASE_URL": "https://box/v1"}, ("ollama:q", "https://box/v1", None)),
    ("ollama:llama3:8b", {}, {}, ("ollama:llama3:8b", "http://127.0.0.1:11434/v1", None)),
    ("guide", {"base_url": "http://h/v1"}, {}, ("guide", None, None)),
    ("anthropic:c", {"base_url": "http://h/v1"}, {}, ("anthropic:c", None, None)),
    ("local", {"base_url": "http://h/v1"}, {}, ("local", None, None)),
]


@pytest.mark.parametrize(("given", "set_", "environment", "expected"), SERVERS)
def test_servers_of_the_openai_form(given, set_, environment, expected):
    """Any compatible server and Ollama are found by their address."""
    choice = choose_model(given, settings(**set_), environment)
    assert (choice.name, choice.base_url, choice.api_key) == expected


def test_an_address_that_is_none():
    """Something that is no web address is refused before anything is sent."""
    with pytest.raises(UsageError, match="not the address of a server"):
        choose_model(None, settings(base_url="localhost:8080"), {})


@pytest.fixture
def server():
    """A server that lists its models, and notes what it was asked."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.server.asked.append((self.path, self.headers.get("Authorization")))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(self.server.answer)

        def log_message(self, *_):
            pass

    made = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    made.asked = []
    made.answer = json.dumps({"data": [{"id": "first"}, {"id": "second"}]}).encode()
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def test_a_server_without_a_name_is_asked_for_its_model(server):
    """The first model that the server lists is taken, with the key if there is one."""
    url = f"http://127.0.0.1:{server.server_port}/v1"
    choice = choose_model(None, settings(base_url=url), {"OPENAI_API_KEY": "k"}).named()
    assert choice.name == "openai:first"
    assert server.asked == [("/v1/models", "Bearer k")]
    assert f"Model: openai:first at {url}" in choice.explain()
    assert choice.resolve().model_name == "first"


@pytest.mark.parametrize("answer", [b"{}", b'{"data": []}', b"no json", b"[]"])
def test_a_server_that_lists_nothing(server, answer):
    """An answer without models asks for --model."""
    server.answer = answer
    url = f"http://127.0.0.1:{server.server_port}/v1"
    with pytest.raises(UsageError, match="does not tell which models"):
        choose_model(None, settings(base_url=url), {}).named()


def test_a_server_that_does_not_answer(unused_tcp_port):
    """A server that is down is told as such."""
    url = f"http://127.0.0.1:{unused_tcp_port}/v1"
    with pytest.raises(ModelFailed, match="does not answer"):
        choose_model(None, settings(base_url=url), {}).named()


def test_a_missing_key_is_named(monkeypatch):
    """A provider without its key says which variable to set."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        choose_model("openai:gpt-5", settings(), {}).resolve()


def test_the_model_that_a_key_selects_is_not_about_to_end():
    """The provider's own library says of no default that it will reach its end of life."""
    from anthropic.resources.messages.messages import DEPRECATED_MODELS

    choice = choose_model(None, settings(), {"ANTHROPIC_API_KEY": "any"})
    assert choice.name.removeprefix("anthropic:") not in DEPRECATED_MODELS
