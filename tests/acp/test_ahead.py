"""What is made in a thread and sent from there, while the event loop does other things."""

from __future__ import annotations

import asyncio
import fcntl
import itertools
import os
import threading

import pytest

from holdfast.apps.wire.pipes import Pipe, connect, pour

LINE = b"x" * 99 + b"\n"


class Slow:
    """A reader who takes nothing before it is asked to drain, and then so much at a time."""

    def __init__(self, *, takes=0):
        self.takes = takes
        self.kept = []
        self.taken = []
        self.may_take = asyncio.Event()

    def offer(self, data):
        if len(self.taken) < self.takes and not self.kept:
            self.taken.append(data)
            return True
        self.kept.append(data)
        return False

    def write(self, data):
        self.taken += [one for one in (*self.kept, data) if one]
        self.kept.clear()

    async def drain(self):
        await self.may_take.wait()


async def test_all_comes_in_order_until_nothing_is_made():
    """Each piece once, whether it was taken at once or had to wait."""
    pieces = iter([b"1", b"2", b"3", b"4", b"5", b"", b"never"])
    reader = Slow(takes=2)
    reader.may_take.set()
    await pour(lambda: next(pieces), reader)
    assert reader.taken == [b"1", b"2", b"3", b"4", b"5"]


async def test_only_a_few_are_made_ahead():
    """A reader who takes nothing keeps the maker waiting, and little is held."""
    numbers, waits = itertools.count(1), threading.Event()

    def make():
        number = next(numbers)
        if number == 3:
            waits.set()
        return b"%d" % number

    reader = Slow()
    pouring = asyncio.ensure_future(pour(make, reader))
    assert not await asyncio.to_thread(waits.wait, 0.05)
    reader.may_take.set()
    assert await asyncio.to_thread(waits.wait, 30)
    pouring.cancel()
    await asyncio.wait([pouring])
    assert reader.taken[:2] == [b"1", b"2"]


async def test_what_is_raised_comes_after_what_was_made():
    """Nothing that was made before is lost by it."""
    pieces = iter([b"1", b"2"])

    def make():
        try:
            return next(pieces)
        except StopIteration:
            raise OSError("the medium is gone") from None

    reader = Slow(takes=1)
    reader.may_take.set()
    with pytest.raises(OSError, match="gone"):
        await pour(make, reader)
    assert reader.taken == [b"1", b"2"]


async def test_nothing_is_sent_once_it_was_cancelled():
    """What is still being made then is for nobody."""
    made, goes_on = threading.Event(), threading.Event()

    def make():
        made.set()
        assert goes_on.wait(120)
        return b"late"

    reader = Slow(takes=9)
    pouring = asyncio.ensure_future(pour(make, reader))
    assert await asyncio.to_thread(made.wait, 30)
    pouring.cancel()
    await asyncio.wait([pouring])
    goes_on.set()
    await asyncio.to_thread(lambda: None)
    assert reader.taken == reader.kept == []


@pytest.fixture
async def ends():
    """A pipe with frames, and the end from which they can be read."""
    source, unused = os.pipe()
    reading, target = os.pipe()
    pipe = await connect(os.fdopen(source, "rb", 0), os.fdopen(target, "wb", 0))
    with os.fdopen(reading, "rb", 0) as output:
        yield pipe, output
    pipe.close()
    os.close(unused)


async def _read(output, size):
    found = b""
    while len(found) < size:
        found += await asyncio.to_thread(output.read, 1 << 20)
    return found


async def _write_on(pipe):
    while True:
        pipe.write(LINE)
        await pipe.drain()
        await asyncio.sleep(0)


async def test_lines_of_two_threads_never_mix(ends):
    """What a full pipe did not take of an offer comes before what the event loop writes then."""
    pipe, output = ends
    offered = LINE * 20_000
    assert not await asyncio.to_thread(pipe.offer, offered)
    pipe.write(b"after\n")
    assert not await asyncio.to_thread(pipe.offer, LINE)  # the event loop is still at it
    pipe.write(b"last\n")
    whole = offered + b"after\n" + LINE + b"last\n"
    assert await _read(output, len(whole)) == whole
    await pipe.drain()
    assert await asyncio.to_thread(pipe.offer, LINE)
    assert await _read(output, 1) == LINE


async def test_an_offer_to_a_reader_who_is_gone_raises_nothing(ends):
    """As with any write: that nobody reads shows where it is waited for."""
    pipe, output = ends
    output.close()
    assert not pipe.offer(LINE)
    with pytest.raises(ConnectionError):
        await _write_on(pipe)


async def test_a_file_takes_offers_with_the_next_write(tmp_path):
    """There an event loop has no part in it at all."""
    with (tmp_path / "out").open("wb") as file:
        writer = Pipe(asyncio.StreamReader(), file)
        assert not writer.offer(b"1\n")
        assert not writer.offer(b"2\n")
        writer.write(b"")
    assert (tmp_path / "out").read_bytes() == b"1\n2\n"


@pytest.mark.skipif(not hasattr(fcntl, "F_GETPIPE_SZ"), reason="only Linux tells")
async def test_a_pipe_has_room_for_what_is_written_at_once(ends):
    """A reader who is as quick as the writer never makes it wait."""
    _, output = ends
    assert fcntl.fcntl(output, fcntl.F_GETPIPE_SZ) >= 256 * 1024
