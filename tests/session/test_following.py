"""Following a session that anyone writes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
import threading

import pytest

import holdfast
from holdfast.errors import NotFound


def test_a_follower_gives_what_is_there_then_what_comes(hf):
    """Every event arrives once and in order, wherever the follower began."""
    with hf.session("a") as s:
        s.user("0")
        follower = hf.follow("a")
        assert [next(follower).type for _ in range(3)] == ["session_start", "opened", "user"]
        s.user("1")
        s.extend([("user", {"content": "2"}), ("user", {"content": "3"})])
        assert [next(follower).data["content"] for _ in range(3)] == ["1", "2", "3"]
        assert next(hf.follow("a", start=4)).data["content"] == "2"


def test_following_across_processes(hf, store_root):
    """Events of another process arrive while it writes."""
    with hf.session("a") as s:
        s.user("first")
    source = """
        import sys, time, holdfast
        with holdfast.open(sys.argv[1]).session("a") as s:
            for n in range(20):
                s.user(str(n))
                time.sleep(0.005)
    """
    follower = hf.follow("a", start=4)
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(source), str(store_root)])
    found = []
    for event in follower:
        found.append(event)
        if event.type == "closed":
            break
    assert child.wait(timeout=120) == 0
    assert [e.data["content"] for e in found if e.type == "user"] == [str(n) for n in range(20)]
    assert [e.seq for e in found] == list(range(4, 4 + len(found)))


async def test_following_under_asyncio(hf):
    """The same object is an async iterator that leaves the loop free."""
    async with hf.session("a") as s:
        s.user("0")
        follower = hf.follow("a", start=2)
        assert (await anext(follower)).data["content"] == "0"

        async def later():
            await asyncio.sleep(0.05)
            s.user("1")

        task = asyncio.create_task(later())
        assert (await anext(follower)).data["content"] == "1"
        await task
        follower.close()
        assert [e async for e in follower] == []


def test_closing_ends_the_iteration_from_another_thread(hf):
    """A follower that waits is ended by close()."""
    with hf.session("a") as s:
        s.user("0")
    follower = hf.follow("a")
    assert [next(follower).seq for _ in range(4)] == [0, 1, 2, 3]
    timer = threading.Timer(0.1, follower.close)
    timer.start()
    assert list(follower) == []
    timer.join()


def test_a_follower_of_nothing_is_an_error(hf):
    """There must be a session to follow."""
    with pytest.raises(NotFound):
        hf.follow("missing")


def test_a_follower_ends_when_the_session_is_deleted(hf):
    """Once the session is in the trash there is nothing more to wait for."""
    with hf.session("a") as s:
        s.user("0")
    follower = hf.follow("a")
    assert len(follower.poll()) == 4
    hf.delete("a")
    assert list(follower) == []


def test_a_torn_tail_that_is_cut_does_not_confuse_a_follower(hf):
    """Bytes that were never a whole event are not given, and what replaces them is."""
    with hf.session("a") as s:
        s.user("0")
    path = os.path.join(hf.location("a"), "events.jsonl")
    with open(path, "ab") as file:
        file.write(b'{"seq":4,"type":"user","timestamp":1,"da')
    follower = hf.follow("a")
    assert len(follower.poll()) == 4
    with hf.session("a") as s:
        s.user("1")
    assert [e.type for e in follower.poll()] == ["opened", "user", "closed"]


def test_a_follower_begins_again_after_a_repair(hf):
    """A new generation of the log is noticed; events that were given are not given again."""
    with hf.session("a") as s:
        for n in range(5):
            s.user(f"message {n}")
    path = os.path.join(hf.location("a"), "events.jsonl")
    with open(path, "rb") as file:
        data = file.read()
    with open(path, "wb") as file:
        file.write(data.replace(b"message 1", b"massage 1"))
    follower = hf.follow("a")
    seen = follower.poll()
    assert 3 not in [e.seq for e in seen]
    assert len(hf.repair("a")) == 1
    assert [e.type for e in follower.poll()] == ["repaired"]
    with hf.session("a") as s:
        s.user("next")
    assert [e.type for e in follower.poll()] == ["opened", "user", "closed"]


def test_a_plain_log_that_another_tool_extends_is_followed(hf, store_root):
    """Lines without checksums arrive as they are added, until the first line with one."""
    folder = store_root / "sessions" / "old"
    folder.mkdir(parents=True)
    line = b'{"type":"user","timestamp":1,"data":{"role":"user","content":"%d"}}\n'
    (folder / "events.jsonl").write_bytes(line % 0)
    follower = hf.follow("old")
    assert [e.data["content"] for e in follower.poll()] == ["0"]
    with (folder / "events.jsonl").open("ab") as file:
        file.write(line % 1)
    assert [e.data["content"] for e in follower.poll()] == ["1"]
    with hf.session("old") as s:
        s.user("2")
    assert [e.type for e in follower.poll()] == ["opened", "user", "closed"]


@pytest.mark.parametrize("key", [None, b"k" * 32])
@pytest.mark.parametrize("old", [3, 40])
def test_a_session_made_anew_is_followed_from_its_beginning(store_root, old, key):
    """Whoever followed one that was erased gets every event of the next one of that name."""
    with holdfast.open(store_root, key=key, seal=key is not None) as hf:
        with hf.session("a") as s:
            for number in range(old):
                s.user(f"old {number}")
        follower = hf.follow("a")
        assert len(follower.poll()) == old + 3
        hf.erase("a")
        with hf.session("a") as s:
            for number in range(12):
                s.user(f"new {number}")
        found = [event for event in follower.poll() if event.type == "user"]
        assert [event.data["content"] for event in found] == [f"new {n}" for n in range(12)]
        assert follower.poll() == []


@pytest.mark.parametrize("key", [None, b"k" * 32])
def test_the_same_number_of_a_file_does_not_hide_that_it_is_another(store_root, monkeypatch, key):
    """Where the store's mark did not change, the content tells a session that was made anew."""
    with holdfast.open(store_root, key=key, seal=key is not None) as hf:
        with hf.session("a") as s:
            s.user("old")
        follower = hf.follow("a")
        assert len(follower.poll()) == 4
        mark = follower._generation
        hf.erase("a")
        with hf.session("a") as s:
            s.extend([("user", {"role": "user", "content": f"new {n}"}) for n in range(12)])
        monkeypatch.setattr(type(follower._log), "generation", lambda self: mark)
        found = [event for event in follower.poll() if event.type == "user"]
        assert [event.data["content"] for event in found] == [f"new {n}" for n in range(12)]


def test_a_repaired_session_is_followed_on(hf, store_root):
    """After a repair only what was not given yet comes."""
    with hf.session("a") as s:
        for number in range(9):
            s.user(f"word {number}")
    follower = hf.follow("a")
    assert len(follower.poll()) == 12
    log = store_root / "sessions" / "a" / "events.jsonl"
    log.write_bytes(log.read_bytes().replace(b"word 3", b"wOrd 3"))
    hf.repair("a")
    with hf.session("a") as s:
        s.user("on")
    assert [event.type for event in follower.poll()] == ["repaired", "opened", "user", "closed"]
