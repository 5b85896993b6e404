"""Real servers: stopped in mid-turn, killed in mid-turn, several on one database."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx2
import pytest
from websockets.sync.client import connect

from holdfast.apps.http.tokens import TokenBook
from holdfast.storage import open_store
from holdfast.testing.model_server import Say, ScriptedModel

COMMAND = str(Path(sys.executable).with_name("holdfast"))
PATIENCE_S = 120
LONG = " ".join(f"word-{number}" for number in range(400))  # two minutes of it


class Process:
    """A server as people start it."""

    def __init__(self, where, model=None, *, before=()):
        arguments = [*before, COMMAND, "--store", str(where), "serve", "--port", "0"]
        env = {**os.environ}
        if model is None:
            arguments.append("--no-agent")
        else:
            arguments += ["--model", "openai-chat:scripted"]
            env |= {"OPENAI_BASE_URL": model.openai_url, "OPENAI_API_KEY": "any"}
        self.process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, env=env)
        line = self.process.stderr.readline()
        assert line.startswith("Serving at "), line + self.process.stderr.read()
        self.url = line.split()[-1]

    def client(self, token):
        """A client of this server."""
        headers = {"authorization": f"Bearer {token}"}
        return httpx2.Client(base_url=self.url, headers=headers, timeout=PATIENCE_S)


@pytest.fixture
def start():
    """Start servers; they are gone with the test."""
    running = []

    def begin(*arguments, **more):
        running.append(Process(*arguments, **more))
        return running[-1]

    yield begin
    for one in running:
        one.process.kill()
        one.process.communicate()


def token_for(where, space="alice"):
    """A token, made beside the servers."""
    store = open_store(str(where))
    try:
        return TokenBook(store).create(space, "admin")[0]
    finally:
        store.close()


def first_words(lines):
    """Read the stream of a turn until something was said."""
    for line in lines:
        if line.startswith("data: ") and json.loads(line[6:]).get("text"):
            return json.loads(line[6:])["text"]
    return pytest.fail("nothing was said")


def begin_turn(client, id):
    """A turn that is being answered, as a stream."""
    headers = {"accept": "text/event-stream"}
    return client.stream("POST", f"/v1/sessions/{id}/turns", json={"prompt": "Count"}, headers=headers)


def go_on(client, id):
    """Go on with what was interrupted, waiting for as long as another server has it."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        answer = client.post(f"/v1/sessions/{id}/turns", json={"prompt": None})
        if answer.status_code != 409:
            return answer
        time.sleep(float(answer.headers.get("retry-after", 1)))
    return pytest.fail("it stayed locked")


@pytest.mark.req("S4-4")
def test_a_planned_stop_loses_nothing(start, store_root):
    """SIGTERM in mid-turn: a clean end; after the restart the turn goes on from what was said."""
    token = token_for(store_root)
    with ScriptedModel([Say(LONG, pause_s=0.3), Say("and that was all")]) as model:
        first = start(store_root, model)
        with first.client(token) as client:
            id = client.post("/v1/sessions", json={}).json()["session_id"]
            with begin_turn(client, id) as stream:
                lines = stream.iter_lines()
                said = first_words(lines)
                first.process.send_signal(signal.SIGTERM)
                rest = list(lines)
        assert "event: interrupted" in rest
        _, written = first.process.communicate(timeout=PATIENCE_S)
        assert (first.process.returncode, "Traceback" in written) == (0, False)
        second = start(store_root, model)
        with second.client(token) as client:
            assert client.get(f"/v1/sessions/{id}").json()["status"] == "interrupted"
            assert "and that was all" in go_on(client, id).json()["output"]
            told = client.get(f"/v1/sessions/{id}/messages").json()["messages"]
            assert said.strip() in str(told)
            assert client.get(f"/v1/sessions/{id}/verify").json()["ok"] is True


def another_machine():
    """Before a command: it runs where process ids of this machine mean nothing, as elsewhere.

    Nothing, where that needs rights that the tests do not have: then it is another one here.
    """
    apart = ("unshare", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc")
    try:
        subprocess.run([*apart, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return ()
    return (*apart, "sh", "-c", 'hostname elsewhere; exec "$0" "$@"')


@pytest.mark.req("S4-70")
@pytest.mark.slow
def test_another_server_takes_over(start, postgres_url):
    """Servers on PostgreSQL are killed in mid-turn, and the client goes on at another one.

    Of one on the same machine it can be seen that it died; of one elsewhere the lease has to end.
    """
    token = token_for(postgres_url)
    told = [Say(LONG, pause_s=0.3), Say("and that was all")]
    with ScriptedModel(told * 2) as model:
        here, elsewhere, other = (start(postgres_url, model, before=before) for before in ((), another_machine(), ()))
        for first in (here, elsewhere):
            take_over(first, other, token)


def take_over(first, second, token):
    """A turn begins at one server, which is killed, and goes on at the other."""
    with first.client(token) as here, second.client(token) as there:
        id = here.post("/v1/sessions", json={"title": "Counting"}).json()["session_id"]
        assert there.get(f"/v1/sessions/{id}").json()["title"] == "Counting"
        with begin_turn(here, id) as stream:
            said = first_words(stream.iter_lines())
            first.process.kill()
            first.process.wait()
        answer = go_on(there, id)
        assert "and that was all" in answer.json()["output"], answer.text
        told = there.get(f"/v1/sessions/{id}/messages").json()["messages"]
        assert said.strip() in str(told)
        page = there.get(f"/v1/sessions/{id}/events", params={"limit": 1000}).json()["events"]
        assert [event["type"] for event in page].count("interrupted") == 1
        assert there.get(f"/v1/sessions/{id}/verify").json()["ok"] is True


@pytest.mark.req("S4-70")
def test_two_servers_share_a_session(start, postgres_url):
    """What is written at one is heard at the other, and each may write in turn."""
    token = token_for(postgres_url)
    first, second = start(postgres_url), start(postgres_url)
    with first.client(token) as here, second.client(token) as there:
        id = here.post("/v1/sessions", json={}).json()["session_id"]
        with there.stream("GET", f"/v1/sessions/{id}/follow") as stream:
            lines = stream.iter_lines()
            for number, client in enumerate((here, there, here)):
                event = {"type": "note", "data": {"n": number}}
                path = f"/v1/sessions/{id}/events"
                answer = client.post(path, json=event, headers={"idempotency-key": str(number)})
                assert answer.status_code == 200, answer.text
                assert any(f'"n":{number}' in line for line in lines)


def test_a_killed_server_has_kept_what_it_acknowledged(start, store_root):
    """Killed right after an answer: it is there; a key sent again is not recorded twice."""
    token = token_for(store_root)
    headers = {"authorization": f"Bearer {token}"}
    first = start(store_root)
    with connect(f"{first.url.replace('http', 'ws')}/input", additional_headers=headers) as socket:
        id = json.loads(socket.recv(timeout=PATIENCE_S))["payload"]["session_id"]
        wish = {"type": "append", "event": "note", "data": {"n": 1}, "key": "k1"}
        socket.send(json.dumps(wish))
        told = json.loads(socket.recv(timeout=PATIENCE_S))
        first.process.kill()
    assert told["event"] == "session.appended"
    first.process.wait()
    second = start(store_root)
    url = f"{second.url.replace('http', 'ws')}/input?session_id={id}"
    with connect(url, additional_headers=headers) as socket:
        assert json.loads(socket.recv(timeout=PATIENCE_S))["payload"]["restored"] is True
        socket.send(json.dumps(wish))
        again = json.loads(socket.recv(timeout=PATIENCE_S))
    assert again["payload"]["seq"] == told["payload"]["seq"]


def test_a_port_that_is_taken_is_said(start, store_root):
    """One sentence and exit code 1, no stack trace."""
    first = start(store_root)
    port = first.url.rpartition(":")[2]
    outcome = subprocess.run(
        [COMMAND, "--store", str(store_root), "serve", "--no-agent", "--port", port],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert outcome.returncode == 1
    assert f"port {port}" in outcome.stderr
    assert "Traceback" not in outcome.stderr


def test_serving_in_this_process(store_root):
    """The same as the command does it: ready, answering, and back after a signal."""
    from holdfast.apps.http.server import serve

    token = token_for(store_root)
    found = []

    def visit(url):
        try:
            headers = {"authorization": f"Bearer {token}"}
            with httpx2.Client(base_url=url, headers=headers, timeout=PATIENCE_S) as client:
                found.append(client.get("/readyz").status_code)
                found.append(client.post("/v1/sessions", json={"id": "one"}).status_code)
            with connect(f"{url.replace('http', 'ws')}/input?session_id=one", additional_headers=headers) as socket:
                found.append(json.loads(socket.recv(timeout=PATIENCE_S))["event"])
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    serve(str(store_root), None, ready=lambda url: threading.Thread(target=visit, args=(url,), daemon=True).start())
    assert found == [200, 201, "session.connected"]
    assert signal.getsignal(signal.SIGTERM) == before
