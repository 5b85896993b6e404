"""The primitive around a tool's side effect, and the turn."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.errors import InvalidData, UsageError
from holdfast.library import Holdfast
from holdfast.storage import Disk, FileStore


class CountingDisk(Disk):
    """A disk that remembers the order of writes and syncs."""

    def __init__(self):
        self.calls = []

    def write(self, descriptor, data):
        self.calls.append("write")
        return super().write(descriptor, data)

    def sync(self, descriptor):
        self.calls.append("sync")
        super().sync(descriptor)


@pytest.fixture
def counted(store_root):
    """A Holdfast and the calls that its disk gets."""
    disk = CountingDisk()
    library = Holdfast(FileStore(store_root, disk=disk), timers=False)
    yield library, disk
    library.close()


def test_a_tools_intent_is_on_disk_before_its_side_effect(counted):
    """When the block begins, the call has been written and synced; the result comes after."""
    hf, disk = counted
    with hf.session("a") as s:
        s.user("hi")
        s.flush()
        disk.calls.clear()
        with s.tool("Write", {"path": "x"}) as call:
            assert disk.calls == ["write", "sync"]
            call.result = {"ok": True}
        assert disk.calls == ["write", "sync", "write"]
    call_event, result = hf.events("a", types=["tool_call", "tool_result"])
    assert result.data == {"toolCallId": call_event.data["id"], "result": {"ok": True}}


def test_a_flush_is_exactly_one_sync(counted):
    """After the first, flush costs one sync; with nothing new it costs none."""
    hf, disk = counted
    with hf.session("a") as s:
        s.user("1")
        s.flush()
        disk.calls.clear()
        s.user("2")
        s.flush()
        s.flush()
    assert disk.calls[:3] == ["write", "sync", "write"]


def test_an_error_in_a_tool_is_its_result_and_goes_on(hf):
    """The exception reaches the caller and stands in the log as an error result."""
    with hf.session("a") as s:
        with pytest.raises(ValueError, match="boom"), s.tool("X") as call:
            raise ValueError("boom \0 \ud800")
        assert call.result_event.data["is_error"] is True
        assert "ValueError: boom" in call.result_event.data["result"]["message"]


async def test_a_cancelled_tool_is_recorded_as_cancelled(hf):
    """A cancellation inside the block is recorded and delivered."""
    s = hf.session("a")
    started = asyncio.Event()

    async def work():
        async with s.tool("Sleep"):
            started.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await s.aclose()
    result = next(hf.events("a", types=["tool_result"]))
    assert result.data["result"]["cancelled"] is True


def test_a_result_that_cannot_be_stored_still_says_that_the_tool_ran(hf):
    """An unstorable result raises, and the call is not left without one."""
    with hf.session("a") as s:
        with pytest.raises(InvalidData), s.tool("X") as call:
            call.result = object()
        assert s.state.pending_calls == {}
    assert next(hf.events("a", types=["tool_result"])).data["is_error"] is True


def test_a_call_has_no_id_before_its_block(hf):
    """Asking for the id outside the block is a clear mistake."""
    with hf.session("a") as s:
        run = s.tool("X")
        with pytest.raises(UsageError):
            _ = run.id
        with run as call:
            assert call.id == call.event.id


def test_durability_os_does_not_sync_at_barriers(counted):
    """With durability="os" only an explicit flush and nothing else waits for the disk."""
    hf, disk = counted
    with hf.session("a", durability="os") as s, s.tool("X"):
        assert "sync" not in disk.calls
        s.flush()
        assert "sync" in disk.calls


def test_durability_always_syncs_every_append(counted):
    """With durability="always" every append is synced before it returns."""
    hf, disk = counted
    with hf.session("a", durability="always") as s:
        for _ in range(3):
            s.user("x")
            assert disk.calls[-1] == "sync"
        s.extend([("user", {"content": "y"})])
        assert disk.calls[-1] == "sync"


def test_a_turn_has_a_beginning_and_an_end_that_is_flushed(counted):
    """The end of a turn is a barrier, and says how the turn ended."""
    hf, disk = counted
    with hf.session("a") as s:
        with s.turn() as turn:
            s.user("hi")
            assert s.state.open_turn.seq == turn.number
        assert disk.calls[-1] == "sync"
        with pytest.raises(RuntimeError), s.turn():
            raise RuntimeError
        assert s.state.open_turn is None
    ends = [e.data["reason"] for e in hf.events("a", types=["turn_end"])]
    assert ends == ["completed", "failed"]


async def test_a_turn_works_under_asyncio(hf):
    """A turn under asyncio is marked, and says when it was cancelled."""
    async with hf.session("a") as s:
        async with s.turn():
            s.user("hi")
        with pytest.raises(asyncio.CancelledError):
            async with s.turn():
                raise asyncio.CancelledError
    ends = [e.data["reason"] for e in hf.events("a", types=["turn_end"])]
    assert ends == ["completed", "cancelled"]
