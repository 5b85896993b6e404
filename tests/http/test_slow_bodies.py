"""A body that comes a byte at a time."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from holdfast.apps.gate import limits
from holdfast.apps.gate.limits import BodyLimit


async def echo(_scope, receive, send):
    """Read the whole body, then answer with its length."""
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message["body"]), message["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(size).encode()})


async def asked(app, parts):
    """The status and the words of the answer to a body that comes in such parts."""
    scope = {"type": "http", "method": "POST", "path": "/", "headers": []}
    sent, rest = [], iter(parts)

    async def receive():
        await asyncio.sleep(0)
        return {"type": "http.request", "body": next(rest), "more_body": True}

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], sent[1]["body"]


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass only when a part is waited for: so many for each look at the clock."""
    now = [0.0]

    def look():
        now[0] += 5.0
        return now[0]

    # Its own clock, not that of the loop.
    monkeypatch.setattr(limits, "time", SimpleNamespace(monotonic=look))


@pytest.mark.usefixtures("clock")
async def test_a_byte_now_and_then_is_not_waited_for_for_ever():
    """Each part comes before its time has run out, and all together take too long: 408."""

    def drops():
        while True:
            yield b"x"

    status, words = await asked(BodyLimit(echo, 1 << 20, part_s=30), drops())
    assert status == 408
    assert b"less than 1,024 bytes" in words


@pytest.mark.usefixtures("clock")
async def test_a_long_body_has_its_time():
    """What comes with some KiB each second is never too slow, however long it takes."""

    def parts():
        for _ in range(200):
            yield b"x" * (16 << 10)

    limit = BodyLimit(echo, 100 * (16 << 10), part_s=30)
    assert (await asked(limit, parts()))[0] == 413  # and not 408
