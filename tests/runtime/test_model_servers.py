"""Model servers on this machine: real ones on loopback in every shape, and what is none."""

from __future__ import annotations

import contextlib
import http.server
import json
import socket
import threading
import time

import pytest

from holdfast._config import Configuration, Found
from holdfast.agent import _model_servers, choose_model

OPENAI = {"object": "list", "data": [{"id": "qwen3-8b", "object": "model", "owned_by": "x"}]}
TAGS = {
    "models": [
        {"name": "nomic-embed-text:latest", "size": 9_000_000_000, "details": {"family": "nomic-bert"}},
        {"name": "llama3.2:3b", "size": 2_000_000_000, "details": {"family": "llama"}},
        {"name": "qwen3:14b", "size": 9_000_000_000, "details": {"family": "qwen3"}},
    ]
}
STUDIO = {
    "models": [
        {"type": "embedding", "key": "text-embedding-nomic", "loaded_instances": [{"id": "e"}]},
        {"type": "llm", "key": "gemma-3-4b", "size_bytes": 3_000_000_000, "loaded_instances": []},
        {"type": "llm", "key": "qwen3-30b", "size_bytes": 18_000_000_000, "loaded_instances": []},
    ]
}
OLDER_STUDIO = {
    "object": "list",
    "data": [
        {"id": "gemma-3-4b", "type": "llm", "state": "not-loaded"},
        {"id": "mistral-7b", "type": "llm", "state": "loaded"},
        {"id": "embedder", "type": "embeddings", "state": "loaded"},
    ],
}
ROUTER = {
    "object": "list",
    "data": [{"id": "a", "status": {"value": "unloaded"}}, {"id": "b", "status": {"value": "loaded"}}],
}


class Served(http.server.ThreadingHTTPServer):
    """Answers each path with what it was given; any other with 404."""

    daemon_threads = True
    block_on_close = False


@pytest.fixture
def serve():
    """Start a server on a port of its own, with an answer for each path; its address."""
    started = []

    def start(answers, *, wait_s=0.0, status=200, location=None):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                time.sleep(wait_s)
                answer = answers.get(self.path)
                self.send_response(status if answer is not None else 404)
                if location is not None:
                    self.send_header("Location", location)
                self.end_headers()
                with contextlib.suppress(ConnectionError):  # whoever asked has not waited
                    self.wfile.write(answer if isinstance(answer, bytes) else json.dumps(answer).encode())

            def log_message(self, *_):
                pass

        server = Served(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        started.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


@pytest.fixture
def here(monkeypatch, unused_tcp_port):
    """Say which servers run on this machine, by the name of their kind; nobody listens for the others."""

    def place(**roots):
        names = {"ollama": "Ollama", "studio": "LM Studio", "llama": "llama.cpp", "vllm": "vLLM"}
        at = {names[name]: root for name, root in roots.items()}
        nobody = f"http://127.0.0.1:{unused_tcp_port}"
        kinds = [kind._replace(address=lambda _, n=kind.name: at.get(n, nobody)) for kind in _model_servers._KINDS]
        monkeypatch.setattr(_model_servers, "_KINDS", tuple(kinds))

    return place


def choice(**values):
    """Who answers without a key, with these settings."""
    return choose_model(None, Configuration({name: Found(value, "code") for name, value in values.items()}), {})


SHAPES = [
    ("ollama", {"/api/tags": TAGS}, "ollama:qwen3:14b"),
    ("ollama", {"/api/tags": TAGS, "/api/ps": {"models": [{"name": "llama3.2:3b"}]}}, "ollama:llama3.2:3b"),
    ("ollama", {"/api/tags": {"models": [{"name": "a"}, {"name": "b"}]}}, "ollama:a"),
    ("studio", {"/api/v1/models": STUDIO}, "openai:qwen3-30b"),
    (
        "studio",
        {"/api/v1/models": {"error": "Unexpected endpoint"}, "/api/v0/models": OLDER_STUDIO},
        "openai:mistral-7b",
    ),
    ("studio", {"/v1/models": OPENAI}, "openai:qwen3-8b"),
    ("llama", {"/v1/models": OPENAI}, "openai:qwen3-8b"),
    ("llama", {"/v1/models": ROUTER}, "openai:b"),
    ("vllm", {"/v1/models": OPENAI}, "openai:qwen3-8b"),
]


@pytest.mark.parametrize(("kind", "answers", "name"), SHAPES)
def test_a_server_of_each_shape_is_found(serve, here, kind, answers, name):
    """The model that is loaded, else the largest, else the first; none that only makes vectors."""
    root = serve(answers)
    here(**{kind: root})
    found = choice()
    assert (found.name, found.base_url, found.api_key) == (name, f"{root}/v1", None)
    assert "runs on this machine" in found.explain()
    assert found.resolve().model_name == name.partition(":")[2]


WRONG = [
    {"/v1/models": b"<html>Jupyter</html>"},
    {"/v1/models": {"data": [{"id": "x"}]}},
    {"/v1/models": {"object": "list", "data": "many"}},
    {"/v1/models": {"object": "list", "data": [{"id": 5}, "x", None]}},
    {"/v1/models": {"object": "list", "data": [{"id": "text-embedding-3"}]}},
    {"/v1/models": []},
    {"/v1/models": b"\xff\xfe"},
    {},
]


@pytest.mark.parametrize("answers", WRONG)
def test_another_program_at_the_port_is_no_model_server(serve, here, answers):
    """Those ports belong to many: only the right shape counts, and then the guide answers."""
    root = serve(answers)
    here(llama=root, vllm=root, studio=root, ollama=root)
    assert choice().is_guide


def test_a_server_that_is_still_loading_is_none(serve, here):
    """An answer with a failure does not count, whatever its words."""
    here(llama=serve({"/v1/models": OPENAI}, status=503))
    assert choice().is_guide


def test_a_slow_server_is_not_waited_for(serve, here):
    """Whoever does not answer in time is left out, and the others are heard all the same."""
    here(llama=serve({"/v1/models": OPENAI}, wait_s=5), vllm=serve({"/v1/models": OPENAI}))
    found = choice()
    assert found.reason == "vLLM runs on this machine"


def test_a_server_that_sends_elsewhere_is_none(serve, here):
    """Another program's redirect is not followed: nobody but this machine is asked."""
    asked = []

    class Elsewhere(dict):
        def get(self, path):
            asked.append(path)
            return OPENAI

    elsewhere = serve(Elsewhere())
    here(vllm=serve({"/v1/models": {}}, status=302, location=f"{elsewhere}/v1/models"))
    assert choice().is_guide
    assert asked == []


def test_a_server_that_trickles_is_not_waited_for(here):
    """A byte now and then is no answer in time."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        here(vllm=f"http://127.0.0.1:{server.getsockname()[1]}")

        def trickle():
            server.accept()[0].close()  # the knock
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(4096)
                connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                while True:
                    connection.sendall(b" ")
                    time.sleep(0.01)

        thread = threading.Thread(target=trickle, daemon=True)
        thread.start()
        assert choice().is_guide
        thread.join(10)  # whoever asked has hung up
        assert not thread.is_alive()


def test_a_loaded_model_goes_before_a_larger_one(serve, here):
    """Of all servers: who has a model in memory answers at once."""
    here(ollama=serve({"/api/tags": TAGS}), vllm=serve({"/v1/models": OPENAI}))
    assert choice().reason == "vLLM runs on this machine"


def test_a_setting_switches_the_asking_off(serve, here):
    """With model_servers = false nobody is asked, and the line says so."""
    here(vllm=serve({"/v1/models": OPENAI}))
    found = choice(model_servers=False)
    assert found.is_guide
    assert "not asked" in found.explain()


PLACES = [
    ({}, "http://127.0.0.1:11434"),
    ({"OLLAMA_HOST": "0.0.0.0:9999"}, "http://127.0.0.1:9999"),
    ({"OLLAMA_HOST": "http://box:1/"}, "http://box:1"),
    ({"OLLAMA_HOST": "[::1]:5"}, "http://[::1]:5"),
    ({"OLLAMA_BASE_URL": "https://box/v1"}, "https://box"),
]


@pytest.mark.parametrize(("environment", "root"), PLACES)
def test_ollama_is_where_its_variable_says(environment, root):
    """Its own variable, in the forms in which people write it."""
    assert _model_servers.ollama_root(environment) == root


LLAMA_PLACES = [
    ({}, "http://127.0.0.1:8080"),
    ({"LLAMA_ARG_PORT": "9"}, "http://127.0.0.1:9"),
    ({"LLAMA_ARG_HOST": "0.0.0.0"}, "http://127.0.0.1:8080"),
    ({"LLAMA_ARG_HOST": "box", "LLAMA_ARG_PORT": "x"}, "http://box:8080"),
    ({"LLAMA_ARG_HOST": "::1"}, "http://[::1]:8080"),
    ({"LLAMA_ARG_HOST": "::"}, "http://127.0.0.1:8080"),
]


@pytest.mark.parametrize(("environment", "root"), LLAMA_PLACES)
def test_llama_cpp_is_where_its_variables_say(environment, root):
    """Its own variables for host and port."""
    [kind] = [kind for kind in _model_servers._KINDS if kind.name == "llama.cpp"]
    assert kind.address(environment) == root


@pytest.mark.parametrize("place", ["::::", "http://", "x:99999999", "http://nobody.invalid:1", "\0"])
def test_a_strange_place_is_nobody(place):
    """A variable that names no place is as good as none."""
    assert _model_servers._knock(_model_servers.ollama_root({"OLLAMA_HOST": place})) is None
