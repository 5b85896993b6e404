"""Opening: resume policies, one live object, locks, damage, torn tails, interruptions, forks."""

from __future__ import annotations

import gc
import os
import pickle  # noqa: TID251 - to see that it is refused
import shutil
import signal
import subprocess
import sys
import textwrap
import tracemalloc

import pytest

import holdfast
from holdfast.errors import Damaged, InvalidId, NotFound, TooNew, UsageError
from holdfast.library import Holdfast
from holdfast.model import START, Position, encode_line, line_body


def log_path(hf, session_id):
    """Where the session's log is."""
    return os.path.join(hf.location(session_id), "events.jsonl")


def read(path):
    """The bytes of a file."""
    with open(path, "rb") as file:
        return file.read()


def write(path, data):
    """Put other bytes into a file."""
    with open(path, "wb") as file:
        file.write(data)


def in_child(source, *arguments):
    """Run Python source in another process and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_restored_says_whether_there_was_a_past(hf):
    """A session is restored the second time, not the first."""
    with hf.session("a") as s:
        assert s.restored is False
        s.user("hi")
    with hf.session("a") as s:
        assert s.restored is True


@pytest.mark.req("S4-44")
def test_resume_always_on_a_missing_id_creates_nothing(hf, store_root):
    """A typo in an id is an error, not a new session."""
    with pytest.raises(NotFound) as caught:
        hf.session("typo", resume="always")
    assert caught.value.session_id == "typo"
    assert list(store_root.iterdir()) == []


def test_resume_never_refuses_an_existing_session(hf):
    """A caller who wants a fresh session does not get an old one."""
    with hf.session("a") as s:
        s.user("hi")
        with pytest.raises(UsageError):
            hf.session("a", resume="never")
    with pytest.raises(UsageError):
        hf.session("a", resume="never")


@pytest.mark.parametrize("option", ["resume", "durability", "repair"])
def test_misspelt_options_are_named(hf, option):
    """An option that does not exist is refused with the ones that do."""
    with pytest.raises(UsageError, match=option):
        hf.session("a", **{option: "sometimes"})
    with pytest.raises(UsageError, match="unknown option"):
        hf.session("a", sometimes=True)


@pytest.mark.req("S2-99")
@pytest.mark.req("S2-100")
@pytest.mark.parametrize("bad", ["../x", "a/b", "", "a\0b", "x" * 10_000, "CON", "a..b", ".hidden", "tail.", "ü", None])
def test_a_bad_id_is_refused_before_anything_is_written(hf, store_root, bad):
    """Ids that could leave the store or clash with a device never reach the disk."""
    for use in (hf.exists, hf.location, hf.delete, hf.verify):
        with pytest.raises(InvalidId):
            use(bad)
    if bad is not None:
        with pytest.raises(InvalidId):
            hf.session(bad)
    assert list(store_root.iterdir()) == []


def test_ids_that_differ_only_by_case_do_not_live_side_by_side(hf):
    """On some systems they would be one file, so the second one is refused everywhere."""
    with hf.session("Trip") as s:
        s.user("hi")
    with pytest.raises(InvalidId, match="Trip"):
        hf.session("trip")


@pytest.mark.parametrize("type", ["session_start", "opened", "closed"])
def test_what_the_session_records_itself_cannot_be_claimed(hf, type):
    """An event that would lie about the session's own life is refused before it is written."""
    with hf.session("a") as s:
        with pytest.raises(UsageError):
            s.append(type, {"format": 2})
        with pytest.raises(UsageError):
            s.extend([(type, {})])
    assert not hf.exists("a")


@pytest.mark.req("S1-6", "S2-24", "S3-19")
def test_a_session_without_an_id_gets_one_that_sorts_by_time(hf):
    """Generated ids are unique, well-formed and in the order of their making."""
    ids = []
    for _ in range(20):
        with hf.session() as s:
            ids.append(s.id)
    assert len(set(ids)) == 20
    assert [i[:10] for i in ids] == sorted(i[:10] for i in ids)


@pytest.mark.req("S1-39")
@pytest.mark.req("S1-14")
def test_two_opens_of_one_id_are_the_same_object(hf, store_root):
    """Within a process there is one live object per session; it closes with its last user."""
    with hf.session("a") as first:
        with hf.session("a") as second, Holdfast(store_root, timers=False) as other:
            assert second is first
            with other.session("a") as third:
                assert third is first
        first.user("still open")
    assert first.closed


@pytest.mark.req("S1-40")
@pytest.mark.req("S1-15")
def test_sessions_are_isolated_from_each_other(hf):
    """What is recorded in one session is not in another."""
    with hf.session("a") as a, hf.session("b") as b:
        a.variables["x"] = 1
        b.user("b")
        assert dict(b.variables) == {}
        assert a.messages() == []


@pytest.mark.req("S0-73")
def test_another_process_is_told_who_has_the_session(hf, store_root):
    """A second writer gets Locked with pid and host, and may read meanwhile."""
    child = """
        import sys, holdfast
        hf = holdfast.open(sys.argv[1])
        try:
            hf.session("a")
        except holdfast.HoldfastError as error:
            print(error.code, error.pid, error.host)
        with hf.session("a", read_only=True) as s:
            print(s.messages()[0]["content"])
    """
    with hf.session("a") as s:
        s.user("hello")
        out = in_child(child, store_root)
    assert out.splitlines() == [f"locked {os.getpid()} {os.uname().nodename}", "hello"]


def test_a_read_only_session_refuses_to_write(hf):
    """Every way of writing through a read-only session is a UsageError; reading works."""
    with hf.session("a") as s:
        s.user("hi")
    with hf.session("a", read_only=True) as s:
        assert s.restored
        assert s.state.message_count == 1
        for write_something in (lambda: s.user("x"), s.flush, s.snapshot):
            with pytest.raises(UsageError, match="read-only"):
                write_something()
    with pytest.raises(NotFound):
        hf.session("missing", read_only=True)
    with pytest.raises(UsageError):
        hf.session(read_only=True)


def test_a_lock_ends_with_its_holder_however_it_dies(store_root):
    """After kill -9 of the writer the session opens at once, with all that was appended."""
    source = """
        import os, signal, sys, holdfast
        s = holdfast.open(sys.argv[1]).session("a")
        for n in range(50):
            s.user(str(n))
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(source), str(store_root)], check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    with Holdfast(store_root, timers=False) as hf, hf.session("a") as s:
        assert len(s.history) == 50
        s.user("and on")


def test_two_processes_that_both_found_nothing_do_not_mix(hf, store_root):
    """Who appends second to a session that was new for both goes on after the first."""
    mine = hf.session("a")
    in_child(
        """
        import sys, holdfast
        with holdfast.open(sys.argv[1]).session("a") as s:
            s.user("theirs")
        """,
        store_root,
    )
    mine.user("mine")
    assert mine.restored
    assert [m["content"] for m in mine.history] == ["theirs", "mine"]
    mine.close()
    assert hf.verify("a").ok


def test_a_torn_tail_is_set_aside_by_the_next_writer(hf):
    """Bytes of an unfinished write are ignored by readers and moved to quarantine by writers."""
    with hf.session("a") as s:
        s.user("hi")
    whole = read(log_path(hf, "a"))
    write(log_path(hf, "a"), whole + b'{"seq":5,"type":"us')
    notices = []
    hf.subscribe(lambda _id, item: notices.append(getattr(item, "kind", "")))
    assert hf.verify("a").torn_bytes == 19
    assert len(list(hf.events("a"))) == 4
    with hf.session("a") as s:
        s.user("again")
    assert "torn_tail" in notices
    assert read(log_path(hf, "a")).startswith(whole)
    assert hf.verify("a").torn_bytes == 0
    names = hf.store.documents("sessions/a").names("quarantine/")
    assert hf.store.documents("sessions/a").get(names[0])[0] == b'{"seq":5,"type":"us'


def test_damage_in_the_middle_is_refused_unless_repair_is_asked_for(hf):
    """The raw API raises Damaged and leaves the log alone; repair="auto" mends and goes on."""
    with hf.session("a") as s:
        for n in range(5):
            s.user(f"message {n}")
    data = read(log_path(hf, "a")).replace(b"message 2", b"massage 2")
    write(log_path(hf, "a"), data)
    with pytest.raises(Damaged) as caught:
        hf.session("a")
    assert caught.value.seq == 4
    assert read(log_path(hf, "a")) == data
    with hf.session("a", read_only=True) as s:
        assert len(s.history) == 4
    kinds = []
    hf.subscribe(lambda _id, item: kinds.append(getattr(item, "kind", "")))
    with hf.session("a", repair="auto") as s:
        assert [m["content"] for m in s.history] == [f"message {n}" for n in (0, 1, 3, 4)]
        s.user("going on")
    assert "repaired" in kinds
    assert hf.verify("a").ok


@pytest.mark.req("S4-45")
def test_a_newer_format_is_refused_untouched(hf):
    """A log of a newer major version is neither read as if it were ours nor written."""
    with hf.session("a") as s:
        s.user("hi")
    position, lines = START, []
    for event in list(hf.events("a")):
        body = line_body(event).replace(b'"format":1', b'"format":2')
        line, crc = encode_line(event.seq, body, position.crc)
        position = Position(event.seq + 1, position.offset + len(line), crc)
        lines.append(line)
    write(log_path(hf, "a"), b"".join(lines))
    before = read(log_path(hf, "a"))
    assert hf.verify("a").ok
    with pytest.raises(TooNew):
        hf.session("a")
    with pytest.raises(TooNew):
        hf.session("a", repair="auto")
    with pytest.raises(TooNew):
        hf.archive("a")
    assert read(log_path(hf, "a")) == before
    assert hf.list()[0].state == "too_new"


def test_a_plain_log_opens_as_it_is_and_goes_on(hf, store_root):
    """Lines without seq and crc are numbered by line; what we add is chained after them."""
    folder = store_root / "sessions" / "old"
    folder.mkdir(parents=True)
    plain = b"".join(
        b'{"type":"user","timestamp":%d,"data":{"role":"user","content":"m%d"}}\n' % (n, n) for n in range(3)
    )
    (folder / "events.jsonl").write_bytes(plain.rstrip(b"\n"))
    with hf.session("old") as s:
        assert s.restored
        assert s.user("new").seq == 4
    assert (folder / "events.jsonl").read_bytes().startswith(plain)
    assert [m["content"] for m in hf.session("old").history] == ["m0", "m1", "m2", "new"]
    assert hf.verify("old").ok


def test_a_session_folder_copied_in_by_hand_is_simply_there(hf, store_root):
    """A copy of a folder under another name is another session."""
    with hf.session("a") as s:
        s.user("hi")
    shutil.copytree(hf.location("a"), store_root / "sessions" / "copy")
    assert {row.session_id for row in hf.list()} == {"a", "copy"}
    with hf.session("copy") as s:
        s.user("more")
    assert len(hf.session("a").history) == 1


@pytest.mark.req("S4-53")
def test_an_interruption_is_recorded_once(hf, store_root):
    """A session that died in mid-turn says so at its next opening, and only then."""
    source = """
        import os, sys, holdfast
        s = holdfast.open(sys.argv[1]).session("a")
        s.append("turn_start", {})
        s.user("hi")
        s.tool_call("Read", id="c1")
        os._exit(1)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(source), str(store_root)], check=False)
    for _ in range(2):
        with hf.session("a") as s:
            s.user("next")
    found = list(hf.events("a", types=["interrupted"]))
    assert len(found) == 1
    assert found[0].data["calls"] == ["c1"]


def test_a_clean_end_is_no_interruption(hf):
    """A session that was closed between turns is not said to be interrupted."""
    for _ in range(2):
        with hf.session("a") as s, s.turn():
            s.user("hi")
    assert list(hf.events("a", types=["interrupted"])) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_in_a_forked_child_the_session_is_dead_and_the_lock_free(hf, store_root):
    """The child cannot write, does not keep the lock, and its exit does not disturb the parent."""
    s = hf.session("a")
    s.user("parent")
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            s.user("child")
        except holdfast.HoldfastError as error:
            os.write(writing, error.code.encode())
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(reading, 100) == b"usage"
    os.close(reading)
    os.close(writing)
    s.user("parent goes on")
    s.close()
    assert [m["content"] for m in hf.session("a").history] == ["parent", "parent goes on"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_that_outlives_the_parent_does_not_keep_its_lock(store_root):
    """Once the parent is dead its lock is free, whatever its forked children do."""
    source = """
        import os, sys, time, holdfast
        s = holdfast.open(sys.argv[1]).session("a")
        s.user("hi")
        if os.fork() == 0:
            os.close(1); os.close(2)
            time.sleep(20)
            os._exit(0)
        print("forked", flush=True)
        os._exit(0)
    """
    assert in_child(source, store_root) == "forked"
    with Holdfast(store_root, timers=False) as hf, hf.session("a") as s:
        s.user("mine now")


def test_a_tool_subprocess_does_not_inherit_the_lock(hf, store_root):
    """Descriptors are closed when a child program is started."""
    s = hf.session("a")
    s.user("hi")
    sleeper = subprocess.Popen(["sleep", "20"], close_fds=False)
    try:
        s.close()
        in_child(
            """
            import sys, holdfast
            with holdfast.open(sys.argv[1]).session("a") as s:
                s.user("other process")
            """,
            store_root,
        )
    finally:
        sleeper.kill()
        sleeper.wait()


def test_a_session_refuses_to_be_pickled_and_says_what_to_do(hf):
    """Pickling a live object would give two writers; the error names the way out."""
    with hf.session("a") as s, pytest.raises(UsageError) as caught:
        pickle.dumps(s)
    assert "id" in caught.value.remedy


def test_a_closed_session_refuses_to_be_used(hf):
    """After close every write is a UsageError; closing again is harmless."""
    s = hf.session("a")
    s.user("hi")
    s.close()
    s.close()
    with pytest.raises(UsageError, match="closed"):
        s.user("late")


def test_an_abandoned_session_gives_its_lock_back(hf):
    """An object that was never closed does not block the session once it is gone."""
    s = hf.session("a")
    s.user("hi")
    del s
    gc.collect()
    with hf.session("a") as s:
        assert s.restored


@pytest.mark.req("S1-47")
def test_an_open_session_is_light():
    """A session with a word in it takes a few kilobytes of memory, not a copy of the machinery."""
    with holdfast.open("memory:") as hf:
        hf.session("first").user("loads what is loaded once")
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            sessions = [hf.session(f"s{number}") for number in range(20)]
            for session in sessions:
                session.user("hi")
            taken = (tracemalloc.get_traced_memory()[0] - before) / len(sessions)
        finally:
            tracemalloc.stop()
    assert taken < 32_768
