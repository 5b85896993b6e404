"""The gate before every HTTP app: who may come in, how much, and what goes out."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import urllib.request
from types import SimpleNamespace

import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st

from holdfast.apps.gate.callers import guarded
from holdfast.apps.gate.limits import BodyLimit, Buckets
from holdfast.apps.gate.responses import SafeHeaders
from holdfast.apps.gate.secret import same_secret
from holdfast.apps.gate.server import _Heads, _Server, listen
from holdfast.errors import Unavailable

PATIENCE_S = 120
OWN = "127.0.0.1:8000"


async def echo(scope, receive, send):
    """Reads the whole body, then says how long it was."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        return
    size, more = 0, True
    while more:
        message = await receive()
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(size).encode()})


async def ask(app, method="GET", *, headers=(), body=(b"",), kind="http", client="10.0.0.1"):
    """What an application answers: status, headers, body; or the messages of a WebSocket."""
    scope = {
        "type": kind,
        "method": method,
        "path": "/",
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers],
        "client": (client, 4000),
        "extensions": {"websocket.http.response": {}},
    }
    if kind == "websocket":
        coming = [{"type": "websocket.connect"}]
    else:
        last = len(body) - 1
        coming = [{"type": "http.request", "body": part, "more_body": at < last} for at, part in enumerate(body)]
    sent = []

    async def receive():
        return coming.pop(0)

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    if sent[0]["type"] == "websocket.accept":
        return 101, {}, b""
    start = sent[0]
    given_headers = {key.decode(): value.decode() for key, value in start["headers"]}
    return start["status"], given_headers, b"".join(part.get("body", b"") for part in sent[1:])


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:8000", "127.0.0.1.evil.example", "localhost.evil.example",
        "127.0.0.1@evil.example", "evil.example/127.0.0.1", "evil.example#localhost", "",
        "localhost:notaport", "[::1", "0x7f000001", "2130706433", "127.1", "localhost\nevil",
    ],
)  # fmt: skip
async def test_a_foreign_name_is_refused(kind, host):
    """DNS rebinding: a name that is not the server's own comes no further, whatever it is."""
    status, headers, body = await ask(guarded(echo), headers=[("host", host)], kind=kind)
    assert status == 421
    assert json.loads(body)["code"] == "host"
    assert headers["content-type"] == "application/problem+json"


async def test_a_second_host_header_is_refused():
    """Two names for one request are no name."""
    status, _, _ = await ask(guarded(echo), headers=[("host", OWN), ("host", "evil.example")])
    assert status == 421


@pytest.mark.parametrize("host", [OWN, "localhost", "LOCALHOST:1", "[::1]:8000", "[::1]"])
async def test_the_names_of_this_machine_are_let_in(host):
    """With and without a port, in any case of letters."""
    assert (await ask(guarded(echo), headers=[("host", host)]))[0] == 200


async def test_other_names_are_let_in_if_they_are_given():
    """A list of hosts replaces the usual ones; a star takes all."""
    app = guarded(echo, hosts=["holdfast.example"])
    assert (await ask(app, headers=[("host", "holdfast.example")]))[0] == 200
    assert (await ask(app, headers=[("host", "localhost")]))[0] == 421
    assert (await ask(guarded(echo, hosts=["*"]), headers=[("host", "any.example")]))[0] == 200


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example", "https://evil.example", "null", "", "http://127.0.0.1:9000",
        "http://127.0.0.1:8000.evil.example", "file://", "http://127.0.0.1:8000/",
        "chrome-extension://127.0.0.1:8000", "127.0.0.1:8000",
    ],
)  # fmt: skip
async def test_other_pages_change_nothing(origin):
    """Cross-site forms, fetches and WebSockets are refused; reading has no effect and is not."""
    headers = [("host", OWN), ("origin", origin)]
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert (await ask(guarded(echo), method, headers=headers))[0] == 403
    assert (await ask(guarded(echo), headers=headers, kind="websocket"))[0] == 403
    assert (await ask(guarded(echo), "GET", headers=headers))[0] == 200


async def test_own_pages_and_programs_come_in():
    """The same origin, an origin that was allowed, and whoever is no browser."""
    app = guarded(echo, origins=["https://app.example"])
    for more in ([("origin", f"http://{OWN}")], [("origin", "https://app.example")], []):
        assert (await ask(app, "POST", headers=[("host", OWN), *more]))[0] == 200
        assert (await ask(app, headers=[("host", OWN), *more], kind="websocket"))[0] == 101


@pytest.mark.parametrize(
    ("site", "status"), [("same-origin", 200), ("none", 200), ("same-site", 403), ("cross-site", 403)]
)
async def test_what_the_browser_says_of_the_page_counts(site, status):
    """Another port of this machine is the same site, and still another page."""
    headers = [("host", OWN), ("sec-fetch-site", site)]
    assert (await ask(guarded(echo), "POST", headers=headers))[0] == status


async def test_an_app_with_cookies_wants_to_know_where_a_request_comes_from():
    """With need_origin an unsafe request without any origin is refused."""
    app = guarded(echo, need_origin=True)
    assert (await ask(app, "POST", headers=[("host", OWN)]))[0] == 403
    assert (await ask(app, "GET", headers=[("host", OWN)]))[0] == 200


async def test_every_answer_has_the_safe_headers():
    """Also a refusal; what an app says itself of caching and policy stays."""
    for host in (OWN, "evil.example"):
        _, headers, _ = await ask(guarded(echo, policy="default-src 'self'"), headers=[("host", host)])
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'self'; ")
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-frame-options"] == "DENY"
        assert headers["cache-control"] == "no-store"

    async def picture(scope, receive, send):
        named = [(b"cache-control", b"max-age=60"), (b"content-security-policy", b"sandbox")]
        named.append((b"x-content-type-options", b"whatever"))
        await send({"type": "http.response.start", "status": 200, "headers": named})
        await send({"type": "http.response.body"})

    _, headers, _ = await ask(SafeHeaders(picture))
    assert headers["cache-control"] == "max-age=60"
    assert headers["content-security-policy"] == "sandbox"
    assert headers["x-content-type-options"] == "nosniff"


async def test_a_page_that_may_come_can_read_the_answer():
    """CORS: asked before, told yes with the token's header; no other page is, and no cookie."""
    app = guarded(echo, origins=["https://app.example"])
    asked = [("host", OWN), ("access-control-request-method", "PATCH")]
    asked.append(("access-control-request-headers", "authorization"))
    may = [("origin", "https://app.example")]
    status, told, _ = await ask(app, "OPTIONS", headers=[*asked, *may])
    assert (status, told["access-control-allow-origin"]) == (204, "https://app.example")
    assert "PATCH" in told["access-control-allow-methods"]
    assert "authorization" in told["access-control-allow-headers"]
    assert "access-control-allow-credentials" not in told
    status, told, _ = await ask(app, headers=[("host", OWN), *may])
    assert (status, told["access-control-allow-origin"]) == (200, "https://app.example")
    assert told["vary"] == "origin"
    for origin in ("https://evil.example", "null", f"http://{OWN}"):
        for method in ("GET", "OPTIONS"):
            _, told, _ = await ask(app, method, headers=[*asked, ("origin", origin)])
            assert not [name for name in told if name.startswith("access-control")]
    _, told, _ = await ask(app, "OPTIONS", headers=[("host", "evil.example"), *asked[1:], *may])
    assert "access-control-allow-origin" not in told


async def test_bodies_together_do_not_fill_the_memory():
    """While others are being sent a further one is refused; afterwards there is room again."""
    app = BodyLimit(echo, 100, together_max=150)
    gate = asyncio.Event()

    async def waiting(scope, receive, send):
        await echo(scope, receive, send)
        await gate.wait()

    slow = BodyLimit(waiting, 100, together_max=150)
    first = asyncio.ensure_future(ask(slow, "POST", body=[b"x" * 100]))
    await asyncio.sleep(0)
    status, told, body = await ask(slow, "POST", body=[b"x" * 60])
    assert (status, told["retry-after"]) == (503, "1")
    assert json.loads(body)["code"] == "busy"
    gate.set()
    assert (await first)[0] == 200
    assert [(await ask(slow, "POST", body=[b"x" * 60]))[0] for _ in range(3)] == [200] * 3
    assert (await ask(app, "POST", body=[b"x" * 101]))[0] == 413
    assert (await ask(app, "POST", body=[b"x" * 100]))[0] == 200


async def test_a_body_that_does_not_come_is_not_waited_for():
    """408 after a while without a byte; what follows a whole body may take its time."""

    async def slow(coming):
        if not coming:
            await asyncio.sleep(0.2)
            return {"type": "http.disconnect"}
        return coming.pop(0)

    async def answered(app, coming):
        sent = []

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/", "headers": []}
        await app(scope, lambda: slow(coming), send)
        return sent[0]["status"]

    async def waiting(scope, receive, send):
        assert (await receive())["type"] == "http.request"
        assert (await receive())["type"] == "http.disconnect"
        await send({"type": "http.response.start", "status": 200, "headers": []})

    part = {"type": "http.request", "body": b"x"}
    assert await answered(BodyLimit(echo, 9, part_s=0.02), [{**part, "more_body": True}]) == 408
    assert await answered(BodyLimit(echo, 9, part_s=0.02), []) == 408
    assert await answered(BodyLimit(waiting, 9, part_s=0.02), [part]) == 200


@pytest.mark.parametrize("claimed", [(), (("content-length", "1"),)])
async def test_a_body_is_counted_while_it_comes(claimed):
    """A body that is longer than it says, or says nothing, is refused all the same."""
    parts = [b"x" * 60, b"x" * 60]
    status, _, body = await ask(BodyLimit(echo, 100), "POST", headers=claimed, body=parts)
    assert status == 413
    assert json.loads(body)["code"] == "too_large"
    assert (await ask(BodyLimit(echo, 120), "POST", body=parts))[2] == b"120"


@pytest.mark.parametrize("claimed", ["101", "-1", "1e9", "", "9" * 5000, "100\n100"])
async def test_a_body_that_claims_too_much_is_not_read(claimed):
    """Nor one whose length is no number."""

    async def never(scope, receive, send):
        pytest.fail("the application was asked")

    headers = [("content-length", claimed)]
    assert (await ask(BodyLimit(never, 100), "POST", headers=headers))[0] == 413


async def test_the_limit_may_differ_by_path():
    """The limit is asked for with the scope."""
    app = BodyLimit(echo, lambda scope: 10 if scope["method"] == "POST" else 1000)
    assert (await ask(app, "POST", body=[b"x" * 11]))[0] == 413
    assert (await ask(app, "PUT", body=[b"x" * 11]))[0] == 200


async def test_an_app_that_answers_before_it_reads_keeps_its_answer():
    """Half an answer is never followed by another one."""

    async def early(scope, receive, send):
        await send({"type": "http.response.start", "status": 202, "headers": []})
        await receive()

    status, _, body = await ask(BodyLimit(early, 10), "POST", body=[b"x" * 11])
    assert (status, body) == (202, b"")


async def test_an_app_that_swallows_the_error_is_not_heard():
    """Whatever it answers to a body that is too long, the client gets 413, once."""

    async def swallowing(scope, receive, send):
        with contextlib.suppress(Exception):
            await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"fine"})

    status, _, body = await ask(BodyLimit(swallowing, 10), "POST", body=[b"x" * 11])
    assert status == 413
    assert b"fine" not in body


async def test_an_error_of_the_app_itself_passes():
    """The guard hides no mistake that is not its own."""

    async def broken(scope, receive, send):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        await ask(BodyLimit(broken, 10), "POST")


async def test_who_asks_too_often_waits():
    """429 with Retry-After; others are not held up, and after the wait it goes on."""
    now = [0.0]
    app = guarded(echo, buckets=Buckets(0.5, 2, clock=lambda: now[0]))
    headers = [("host", OWN)]
    assert [(await ask(app, headers=headers))[0] for _ in range(3)] == [200, 200, 429]
    status, said, body = await ask(app, headers=headers)
    assert (status, said["retry-after"]) == (429, "2")
    assert json.loads(body)["code"] == "too_many"
    assert (await ask(app, headers=headers, client="10.0.0.2"))[0] == 200
    assert (await ask(app, headers=headers, kind="websocket"))[0] == 429
    now[0] += 2
    assert [(await ask(app, headers=headers))[0] for _ in range(2)] == [200, 429]


def test_only_the_newest_clients_are_remembered():
    """Many addresses cost no more memory than a few."""
    buckets = Buckets(1, 1, clock=lambda: 0.0, clients_max=100)
    for number in range(10_000):
        assert buckets.take(str(number)) == 0
    assert len(buckets._levels) == 100
    assert buckets.take("9999") > 0


@given(st.lists(st.floats(0, 10), max_size=60))
def test_no_more_pass_than_the_rate_allows(pauses):
    """Whatever the pauses: in the long run per_second, and burst at once."""
    now, passed = 0.0, 0
    buckets = Buckets(2, 5, clock=lambda: now)
    for pause in pauses:
        now += pause
        passed += buckets.take("one") == 0
    assert passed <= 5 + 2 * now + 1e-6


@given(st.text(), st.text())
def test_secrets_are_compared_as_they_are(one, other):
    """Also texts that are no ASCII; the same only with itself."""
    clean_one, clean_other = one.encode("utf-8", "replace"), other.encode("utf-8", "replace")
    assert same_secret(one, other) == (clean_one == clean_other)
    assert same_secret(one, one)


SERVER = textwrap.dedent("""
    import asyncio, sys
    from holdfast.apps.gate.server import run

    stop = None

    async def app(scope, receive, send):
        global stop
        if scope["type"] == "lifespan":
            while True:
                kind = (await receive())["type"]
                print(kind, flush=True)
                await send({"type": kind + ".complete"})
                if kind == "lifespan.shutdown":
                    return
        stop = asyncio.Event()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        await stop.wait()
        await send({"type": "http.response.body", "body": b" and ended"})

    run(
        app,
        ready=lambda url: print(url, flush=True),
        stopping=lambda: stop and stop.set(),
        head_s=float(sys.argv[1]),
    )
    print("left in good order", flush=True)
""")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_server_ends_in_good_order(number):
    """A signal ends the long answer, then the app, then run returns; the exit is clean."""
    process = subprocess.Popen([sys.executable, "-c", SERVER, "20"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "lifespan.startup\n"
        url = process.stdout.readline().strip()
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            assert answer.read(5) == b"begun"
            os.kill(process.pid, number)
            assert answer.read() == b" and ended"
        rest, _ = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    assert rest == "lifespan.shutdown\nleft in good order\n"
    assert process.returncode == 0


def test_a_request_that_does_not_come_is_not_waited_for():
    """Neither the first nor the rest of one; an answer that takes longer is not cut."""
    process = subprocess.Popen([sys.executable, "-c", SERVER, "3"], stdout=subprocess.PIPE, text=True)
    try:
        process.stdout.readline()
        host, _, port = process.stdout.readline().strip().rpartition("/")[2].partition(":")
        address = host, int(port)
        answered = socket.create_connection(address, PATIENCE_S)
        answered.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        silent, half = (socket.create_connection(address, PATIENCE_S) for _ in range(2))
        half.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        assert silent.recv(10) == b""
        assert half.recv(10) == b""
        os.kill(process.pid, signal.SIGTERM)  # which ends the long answer
        heard = b"".join(iter(lambda: answered.recv(4096), b""))
        process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    for one in (answered, silent, half):
        one.close()
    assert b" and ended" in heard


SMUGGLED = (
    b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"0\r\n\r\nGET /second HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
)


def test_a_body_of_two_lengths_ends_the_connection():
    """Content-Length and Transfer-Encoding together: 400, and what follows on that connection is not answered."""
    guarding = SERVER.replace(
        "run(\n    app,", "from holdfast.apps.gate.callers import guarded\nrun(\n    guarded(app),"
    )
    process = subprocess.Popen([sys.executable, "-c", guarding, "20"], stdout=subprocess.PIPE, text=True)
    try:
        process.stdout.readline()
        host, _, port = process.stdout.readline().strip().rpartition("/")[2].partition(":")
        with socket.create_connection((host, int(port)), PATIENCE_S) as one:
            one.sendall(SMUGGLED)
            heard = b"".join(iter(lambda: one.recv(4096), b""))
    finally:
        process.kill()
        process.communicate()
    assert heard.startswith(b"HTTP/1.1 400 ")
    assert heard.count(b"HTTP/1.1") == 1
    assert b"ambiguous_length" in heard


def test_a_port_that_is_taken_is_a_sentence():
    """Unavailable, with what to do; the same for a port that is none."""
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Unavailable, match=f"port {port}"):
            listen("127.0.0.1", port)
    with pytest.raises(Unavailable):
        listen("127.0.0.1", 70_000)
    if socket.has_ipv6:
        with contextlib.suppress(Unavailable), listen("::1", 0) as six:
            assert six.family == socket.AF_INET6


class _Transport:
    """As much of a connection as a protocol needs."""

    def __init__(self):
        self.protocol = None
        self.is_closed = False

    def get_protocol(self):
        """Who speaks on it now."""
        return self.protocol

    def close(self):
        """The end."""
        self.is_closed = True


class _Base:
    """As uvicorn's protocol: a cycle is a request that is being answered."""

    def __init__(self):
        self.loop = asyncio.get_running_loop()
        self.cycle = None

    def connection_made(self, transport):
        """A client is there."""
        self.transport = transport
        transport.protocol = self

    def data_received(self, data):
        """``!`` completes a request, ``.`` its answer."""
        for sign in data:
            self.cycle = SimpleNamespace(response_complete=sign == ord("."))

    def connection_lost(self, exc):
        """It is gone."""


@pytest.mark.parametrize(
    ("parts", "upgraded", "closed"),
    [((), False, True), ((b"!",), False, False), ((b"!", b"."), False, True), ((), True, False)],
)
async def test_only_who_is_to_speak_is_given_up(parts, upgraded, closed):
    """Not one that is being answered, and not one that became a WebSocket."""

    class Heads(_Heads, _Base):
        head_s = 0.01

    heads, transport = Heads(), _Transport()
    heads.connection_made(transport)
    for part in parts:
        heads.data_received(part)
    if upgraded:
        transport.protocol = object()
    await asyncio.sleep(0.05)
    assert transport.is_closed is closed
    heads.connection_lost(None)
    assert heads._late is None


async def test_a_second_signal_does_not_wait():
    """The first one asks, the second one ends; what stops is told once."""
    told = []
    server = _Server(uvicorn.Config(echo))
    server.told_stopping = lambda: told.append("stopping")
    server._end()
    assert (server.should_exit, server.force_exit) == (True, False)
    server._end()
    assert (told, server.force_exit) == (["stopping"], True)


async def test_a_server_that_cannot_answer_a_handshake_ends_it():
    """Without the extension for it a WebSocket that is refused is closed."""
    sent = []
    scope = {"type": "websocket", "headers": [(b"host", b"evil.example")], "path": "/"}

    async def receive():
        return {"type": "websocket.connect"}

    async def send(message):
        sent.append(message)

    await guarded(echo)(scope, receive, send)
    assert [message["type"] for message in sent] == ["websocket.close"]
