"""A bridge and its client in one process: lines in, lines out."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import socket

import pytest
from tests.scripts import make_kit

from holdfast.apps.ipc._session import Current
from holdfast.apps.ipc.bridge import LINE_BYTES_MAX, Connection
from holdfast.apps.wire.pipes import Pipe

PATIENCE_S = 120


def as_line(message):
    """A message as it is sent; bytes are sent as they are."""
    return message if isinstance(message, bytes) else json.dumps(message).encode()


@pytest.fixture
def kit_of():
    """Makes what agents on a scripted model are made of."""
    return make_kit


@pytest.fixture
def talk(hf):
    """Says some messages on one connection; everything that came back."""

    def talk(*messages, kit=None, library=hf):
        async def work():
            reader, out = asyncio.StreamReader(), io.BytesIO()
            reader.feed_data(b"".join(as_line(message) + b"\n" for message in messages))
            reader.feed_eof()
            pipe = Pipe(reader, out, line_bytes_max=LINE_BYTES_MAX)
            await Connection(pipe, Current(library, kit or make_kit())).run()
            return [json.loads(line) for line in out.getvalue().splitlines()]

        return asyncio.run(work())

    return talk


@pytest.fixture
def ask(talk):
    """Says one message; the one answer to it."""

    def ask(message, **options):
        [answer] = talk(message, **options)
        return answer

    return ask


class Client:
    """The other end of a connection that stays open."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer

    async def say(self, **message):
        """Send a message."""
        self.writer.write(json.dumps(message).encode() + b"\n")
        await self.writer.drain()

    async def hear(self, *tags):
        """The next message of these tags; the others are passed over."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                message = json.loads(await self.reader.readline())
                if not tags or message.get("type") in tags:
                    return message

    async def ask(self, **message):
        """The answer to a message."""
        await self.say(**message)
        return await self.hear()


@pytest.fixture
async def connect(hf):
    """Opens a connection to a bridge on a script."""
    async with contextlib.AsyncExitStack() as stack:

        async def connect(*steps, kit=None):
            one, other = socket.socketpair()
            pipe = Pipe(*await _streams(one), line_bytes_max=LINE_BYTES_MAX)
            served = asyncio.ensure_future(Connection(pipe, Current(hf, kit or make_kit(*steps))).run())
            reader, writer = await asyncio.open_connection(sock=other)
            client = Client(reader, writer)
            client.served = served
            stack.callback(pipe.close)
            stack.push_async_callback(asyncio.wait, [served])
            stack.callback(writer.close)
            return client

        yield connect


async def _streams(end):
    reader, writer = await asyncio.open_connection(sock=end)
    return reader, writer
