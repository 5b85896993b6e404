"""What is made in a thread while what came before is being used."""

from __future__ import annotations

import asyncio
import itertools
import threading
from contextlib import aclosing

import pytest

from holdfast.apps.wire.ahead import made_ahead


async def test_all_comes_in_order_until_nothing_is_made():
    """Each piece once, though several are made before they are asked for."""
    pieces = iter([b"1", b"2", b"3", b"4", b"5", b"", b"never"])
    async with aclosing(made_ahead(lambda: next(pieces))) as made:
        assert [piece async for piece in made] == [b"1", b"2", b"3", b"4", b"5"]


async def test_only_a_few_are_made_ahead():
    """A reader who takes nothing keeps the maker waiting, and little is held."""
    numbers, waits = itertools.count(1), threading.Event()

    def make():
        number = next(numbers)
        if number == 4:
            waits.set()
        return b"%d" % number

    async with aclosing(made_ahead(make)) as made:
        assert await anext(made) == b"1"
        assert not await asyncio.to_thread(waits.wait, 0.05)
        assert await anext(made) == b"2"
        assert await asyncio.to_thread(waits.wait, 30)
    assert next(numbers) <= 6


async def test_what_is_raised_comes_after_what_was_made():
    """Nothing that was made before is lost by it."""
    pieces = iter([b"1", b"2"])

    def make():
        try:
            return next(pieces)
        except StopIteration:
            raise OSError("the medium is gone") from None

    found = []

    async def gather():
        async with aclosing(made_ahead(make)) as made:
            async for piece in made:
                found.append(piece)  # noqa: PERF401 - what came before the error counts

    with pytest.raises(OSError, match="gone"):
        await gather()
    assert found == [b"1", b"2"]
