"""The facade: finding, listing, verifying, repairing, deleting; where the store is."""

from __future__ import annotations

import datetime as dt
import os
import pickle  # noqa: TID251 - a Holdfast is allowed to be pickled as its address
import shutil
import subprocess
import sys
from operator import attrgetter

import pytest

import holdfast
from holdfast.errors import Forbidden, InvalidData, Locked, NotFound, Unavailable, UsageError
from holdfast.library import Holdfast

pytestmark = pytest.mark.stores(timers=False)


def damage(hf, session_id, old, new):
    """Change bytes of a session's log."""
    path = os.path.join(hf.location(session_id), "events.jsonl")
    with open(path, "rb") as file:
        data = file.read()
    assert old in data
    with open(path, "wb") as file:
        file.write(data.replace(old, new))


def fill(hf, session_id, count=3, **options):
    """A session with some messages."""
    with hf.session(session_id, **options) as s:
        for n in range(count):
            s.user(f"message {n}")


@pytest.mark.req("S0-29")
@pytest.mark.req("S0-31")
@pytest.mark.req("S0-32")
@pytest.mark.req("S3-3")
def test_existence_location_and_time_of_a_session(hf, store_root):
    """What there is can be asked for without opening it."""
    assert not hf.exists("a")
    assert hf.last_modified("a") is None
    before = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=1)
    fill(hf, "a")
    assert hf.exists("a")
    assert hf.location("a") == str(store_root / "sessions" / "a")
    assert before < hf.last_modified("a") < dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1)


@pytest.mark.parametrize(
    "use", ["events", "follow", "state", "snapshots", "verify", "repair", "delete", "recover", "info"]
)
def test_a_missing_session_is_not_found_everywhere(hf, store_root, use):
    """Every way of asking gives NotFound with the id, and creates nothing."""
    with pytest.raises(NotFound) as caught:
        getattr(hf, use)("missing")
    assert caught.value.session_id == "missing"
    assert isinstance(caught.value, KeyError)
    assert list(store_root.iterdir()) == []


@pytest.mark.req("S2-29")
@pytest.mark.req("S2-56")
def test_sessions_are_listed_newest_first(hf):
    """The list is ordered by the last change and cut to the limit."""
    clock = iter(range(1_000_000, 9_000_000_000, 1_000))
    for name in ("a", "b", "c"):
        fill(hf, name, clock=lambda: next(clock))
    assert [row.session_id for row in hf.list()] == ["c", "b", "a"]
    assert [row.session_id for row in hf.list(limit=2)] == ["c", "b"]
    assert len(hf.list(limit=None)) == 3


@pytest.mark.req("S2-16")
@pytest.mark.req("S2-18")
@pytest.mark.req("S2-71", "S2-72")
def test_a_row_tells_what_a_list_needs(hf):
    """Title, tags, times, counts and tokens come from the log."""
    with hf.session("a", agent_id="helper") as s:
        s.user("hi")
        s.assistant("hello", usage={"input_tokens": 2, "output_tokens": 3})
        s.title = "Greeting"
        s.tag("social")
    row = hf.list()[0]
    assert (row.session_id, row.title, row.tags) == ("a", "Greeting", ("social",))
    assert (row.message_count, row.total_tokens, row.agent_id) == (2, 5, "helper")
    assert row.created_at <= row.updated_at
    assert (row.status, row.state) == ("idle", "ok")
    assert hf.info("a").title == "Greeting"


@pytest.mark.req("S2-59")
@pytest.mark.req("S2-62")
def test_lists_are_filtered_by_tag_time_and_agent(hf):
    """Filters combine; times are datetimes or seconds."""
    with hf.session("a", agent_id="x", clock=lambda: 1_000_000) as s:
        s.user("old")
        s.tag("t", "u")
    with hf.session("b", agent_id="y", clock=lambda: 5_000_000) as s:
        s.user("new")
        s.tag("t")
    assert [row.session_id for row in hf.list(tags=["t", "u"])] == ["a"]
    assert [row.session_id for row in hf.list(since=dt.datetime.fromtimestamp(4_000, dt.UTC))] == ["b"]
    assert [row.session_id for row in hf.list(until=dt.datetime.fromtimestamp(4_000, dt.UTC))] == ["a"]
    assert [row.session_id for row in hf.list(agent_id="y")] == ["b"]
    assert hf.list(agent_id="z") == []


def test_a_damaged_session_is_listed_as_such(hf):
    """Listing tolerates what it meets."""
    fill(hf, "a")
    damage(hf, "a", b"message 1", b"massage 1")
    assert [(row.session_id, row.state) for row in hf.list()] == [("a", "damaged")]


@pytest.mark.req("S4-3")
def test_a_session_whose_process_died_in_mid_turn_is_listed_as_interrupted(hf, store_root):
    """While its process works a session is running; once that is gone it is interrupted."""
    source = (
        "import os, sys, holdfast\n"
        "s = holdfast.open(sys.argv[1]).session('a')\n"
        "s.append('turn_start', {})\n"
        "s.user('hi')\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        "os._exit(1)\n"
    )
    command = [sys.executable, "-c", source, str(store_root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"ready\n"
        assert hf.list()[0].status == "running"
        child.communicate(b"\n", timeout=120)
    assert hf.list()[0].status == "interrupted"


def test_foreign_files_beside_the_sessions_are_left_alone(hf, store_root):
    """A stray file, an empty folder or a symlink is not a session."""
    fill(hf, "a")
    (store_root / "sessions" / "stray.txt").write_text("x")
    (store_root / "sessions" / "empty").mkdir()
    (store_root / "sessions" / "link").symlink_to(store_root / "sessions" / "a")
    assert [row.session_id for row in hf.list()] == ["a"]
    assert not hf.exists("empty")


@pytest.mark.req("S2-88", "S3-2")
def test_events_are_read_in_parts_and_backwards(hf):
    """start, stop, types, limit and reverse choose; backwards reads only what is needed."""
    fill(hf, "a", 300)
    everything = list(hf.events("a"))
    assert [e.seq for e in hf.events("a", 10, 13)] == [10, 11, 12]
    assert list(hf.events("a", reverse=True)) == everything[::-1]
    assert list(hf.events("a", reverse=True, limit=2)) == everything[:-3:-1]
    assert [e.seq for e in hf.events("a", 5, 8, reverse=True)] == [7, 6, 5]
    assert [e.type for e in hf.events("a", types={"opened", "closed"})] == ["opened", "closed"]
    assert len(list(hf.events("a", limit=7))) == 7


@pytest.mark.req("S2-88")
def test_reading_backwards_does_not_read_the_whole_log(hf, monkeypatch):
    """The newest event of a long log costs one small read."""
    with hf.session("a") as s:
        for n in range(300):
            s.user(f"{n} " + "x" * 1000)
    kind = type(hf.store.log("sessions/a"))
    monkeypatch.setattr(kind, "read_tail", counted := CountedTail(kind.read_tail))
    newest = next(hf.events("a", reverse=True))
    assert newest.type == "closed"
    assert sum(counted.sizes) < 100_000


def test_batches_are_read_backwards_piece_by_piece(hf, monkeypatch):
    """No piece begins inside of a batch, so the log need not be read as a whole."""
    from holdfast.session import reader

    with hf.session("a") as s:
        for n in range(40):
            s.extend([("user", {"content": f"{n} {m} " + "x" * 1000}) for m in range(12)])
    forwards = list(hf.events("a"))
    monkeypatch.setattr(reader, "read_forwards", None)
    assert list(hf.events("a", reverse=True)) == forwards[::-1]


class CountedTail:
    """Wraps read_tail and remembers how much was read."""

    def __init__(self, read_tail):
        self.read_tail = read_tail
        self.sizes = []

    def __get__(self, log, _kind):
        def read(max_bytes):
            offset, data = self.read_tail(log, max_bytes)
            self.sizes.append(len(data))
            return offset, data

        return read


def test_backwards_through_damage_gives_every_valid_event(hf):
    """The order is reversed and nothing that is valid is missing."""
    with hf.session("a") as s:
        for n in range(300):
            s.user(f"message {n} " + "x" * 1000)
    damage(hf, "a", b"message 290 ", b"massage 290 ")
    assert list(hf.events("a", reverse=True)) == list(hf.events("a"))[::-1]


@pytest.mark.req("S2-76")
def test_verify_says_what_is_wrong_in_plain_words(hf):
    """A whole session is whole; damage, torn bytes, bad snapshots and lost payloads are named."""
    with hf.session("a") as s:
        s.user("message 0")
        s.snapshot()
        s.tool_result("c", "z" * 300_000)
    report = hf.verify("a")
    assert report.ok
    assert report.explain()[-1] == "Everything is whole."
    documents = hf.store.documents("sessions/a")
    blob = documents.names("blobs/")[0]
    documents.put(blob, b"other")
    documents.put(documents.names("snapshots/")[0], b"other")
    damage(hf, "a", b"message 0", b"massage 0")
    with open(os.path.join(hf.location("a"), "events.jsonl"), "ab") as file:
        file.write(b'{"seq"')
    report = hf.verify("a")
    assert not report.ok
    assert report.lost_events == 1
    assert report.torn_bytes == 6
    assert report.missing_blobs == [blob.removeprefix("blobs/")]
    text = "\n".join(report.explain())
    for words in ("event 2 cannot be read", "unfinished write", "payload", "Snapshots"):
        assert words in text


def test_a_lost_payload_is_said_in_the_conversation(hf):
    """A blob that is gone leaves a text in its place; recovery never raises about content."""
    with hf.session("a") as s:
        s.user("hi")
        s.tool_result(s.tool_call("Read"), "z" * 300_000)
    shutil.rmtree(os.path.join(hf.location("a"), "blobs"))
    with hf.session("a") as s:
        assert "missing" in str(s.messages()[-1])


def test_repair_keeps_every_whole_event_and_its_number(hf):
    """A lost event leaves a note in its place, the old bytes are kept, and the log is whole."""
    fill(hf, "a", 5)
    before = {event.seq: event for event in hf.events("a")}
    damage(hf, "a", b"message 1", b"massage 1")
    damage(hf, "a", b"message 3", b"massage 3")
    gaps = hf.repair("a")
    assert [(gap.first_seq, gap.last_seq) for gap in gaps] == [(3, 3), (5, 5)]
    after = {event.seq: event for event in hf.events("a")}
    lost = {3, 5}
    assert {seq: event for seq, event in after.items() if seq in before and seq not in lost} == {
        seq: event for seq, event in before.items() if seq not in lost
    }
    assert [after[seq].data for seq in sorted(lost)] == [{"lost": 3}, {"lost": 5}]
    assert hf.verify("a").ok
    assert hf.repair("a") == []
    kept = hf.store.documents("sessions/a").names("quarantine/")
    assert len(kept) == 1
    with hf.session("a") as s:
        s.user("going on")
    assert hf.verify("a").ok


def test_repair_moves_lines_as_they_are(hf):
    """Members that this version does not know survive a repair byte for byte."""
    fill(hf, "a", 3)
    path = os.path.join(hf.location("a"), "events.jsonl")
    from holdfast.model import START, Position, encode_line

    position, lines = START, []
    for event in hf.events("a"):
        body = b'"type":"%b","timestamp":5,"future":{"x":1.50},"data":%b' % (event.type.encode(), bytes(event.raw))
        line, crc = encode_line(event.seq, body, position.crc)
        position = Position(event.seq + 1, position.offset + len(line), crc)
        lines.append(line)
    with open(path, "wb") as file:
        file.write(b"".join(lines))
    damage(hf, "a", b"message 1", b"massage 1")
    hf.repair("a")
    with open(path, "rb") as file:
        repaired = file.read()
    assert repaired.count(b'"future":{"x":1.50}') == len(lines) - 1
    assert hf.verify("a").ok


def test_repair_of_a_plain_log_keeps_line_numbers(hf, store_root):
    """A bad line in a plain log becomes a note; the lines after it keep their numbers."""
    folder = store_root / "sessions" / "old"
    folder.mkdir(parents=True)
    good = b'{"type":"user","timestamp":1,"data":{"role":"user","content":"%d"}}\n'
    (folder / "events.jsonl").write_bytes(good % 0 + b'{"type":"us\n' + good % 2)
    assert [e.seq for e in hf.events("old")] == [0, 2]
    assert len(hf.repair("old")) == 1
    assert [e.data.get("content") for e in hf.events("old")][:3] == ["0", None, "2"]
    assert hf.verify("old").ok


def test_an_open_session_is_not_repaired_or_deleted(hf):
    """Both need the session for themselves."""
    with hf.session("a") as s:
        s.user("hi")
        for use in (hf.repair, hf.delete):
            with pytest.raises(Locked):
                use("a")


@pytest.mark.req("S2-30")
@pytest.mark.req("S3-8")
def test_a_deleted_session_is_in_the_trash_and_comes_back(hf):
    """Delete and undelete, also of several sessions that had the same id."""
    for text in ("first", "second"):
        with hf.session("a") as s:
            s.user(text)
        hf.delete("a")
        assert not hf.exists("a")
        assert hf.list() == []
    hf.undelete("a")
    assert hf.session("a").history[0]["content"] == "second"
    with pytest.raises(Exception, match="taken"):
        hf.undelete("a")
    with pytest.raises(NotFound, match="trash") as caught:
        hf.undelete("b")
    assert "undelete -" in caught.value.remedy  # a list of what is in use would be of no help


def test_the_longest_id_comes_back_from_the_trash(hf):
    """Two ids of 128 characters that differ only at their end are deleted and undeleted apart."""
    for end in "ab":
        with hf.session("x" * 127 + end) as s:
            s.user(end)
        hf.delete("x" * 127 + end)
    for end in "ab":
        hf.undelete("x" * 127 + end)
        assert hf.session("x" * 127 + end).history[0]["content"] == end


def test_a_store_that_others_can_write_is_refused(store_root):
    """A group-writable or foreign root is not safe; nothing is written to it."""
    store_root.chmod(0o770)
    with pytest.raises(Forbidden) as caught:
        Holdfast(store_root)
    assert "chmod" in caught.value.remedy
    assert list(store_root.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_store_of_another_user_is_refused(store_root):
    """Someone else's directory is not ours to write."""
    os.chown(store_root, 12345, 12345)
    with pytest.raises(Forbidden):
        Holdfast(store_root)


def test_a_file_in_the_place_of_the_store_is_refused(tmp_path):
    """A path that is a file cannot be a store."""
    (tmp_path / "file").write_text("x")
    with pytest.raises((Unavailable, Forbidden)):
        Holdfast(tmp_path / "file")
    with pytest.raises((Unavailable, Forbidden)):
        Holdfast(tmp_path / "file" / "below")


def test_a_store_can_be_given_in_many_ways(tmp_path, monkeypatch):
    """A path, a URL, a store object, the environment, the project, the user's directory."""
    assert holdfast.open(tmp_path / "a").url == (tmp_path / "a").as_uri()
    assert holdfast.open((tmp_path / "b").as_uri()).url == (tmp_path / "b").as_uri()
    assert holdfast.open("memory:").url == "memory:"
    assert holdfast.open("none:").url == "none:"
    monkeypatch.chdir(tmp_path)
    assert str(tmp_path) not in holdfast.open().url
    (tmp_path / ".holdfast").mkdir()
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert holdfast.open().url == (tmp_path / ".holdfast").as_uri()
    (tmp_path / "below" / ".git").mkdir()
    assert holdfast.open().url != (tmp_path / ".holdfast").as_uri()
    monkeypatch.setenv("HOLDFAST_STORE", str(tmp_path / "env"))
    assert holdfast.open().url == (tmp_path / "env").as_uri()


@pytest.mark.req("S3-20")
@pytest.mark.req("S3-21")
def test_the_storage_form_of_configuration(tmp_path, monkeypatch):
    """Type none, memory or filesystem with a path; a misspelt type is named with the right one."""
    monkeypatch.chdir(tmp_path)
    assert holdfast.open(config={"storage": {"type": "none"}}).url == "none:"
    assert holdfast.open(config={"storage": {"type": "memory"}}).url == "memory:"
    assert holdfast.open(config={"storage": {}}).url == "none:"
    default = holdfast.open(config={"storage": {"type": "filesystem"}})
    assert default.url == (tmp_path / ".agent-sessions").as_uri()
    given = holdfast.open(config={"storage": {"type": "filesystem", "options": {"path": "x"}}})
    assert given.url == (tmp_path / "x").as_uri()
    for wrong in ({"type": "Filesystem"}, {"type": "file"}, "memory", {"type": 5}):
        with pytest.raises(UsageError):
            holdfast.open(config={"storage": wrong})
    with pytest.raises(UsageError, match="did you mean 'filesystem'"):
        holdfast.open(config={"storage": {"type": "filesytem"}})
    with pytest.raises(UsageError):
        holdfast.open(config={"storage": {"type": "filesystem", "options": {"path": ""}}})


def test_settings_reach_the_sessions(store_root):
    """Limits and durability of the configuration hold everywhere; misspelt ones are named."""
    hf = Holdfast(store_root, config={"durability": "os", "limits": {"message_bytes_max": 300_000}}, timers=False)
    assert hf.limits.message_bytes_max == 300_000
    with hf.session("a") as s, pytest.raises(holdfast.HoldfastError, match="300,000"):
        s.user("x" * 300_001)
    with pytest.raises(UsageError, match="did you mean 'limits'"):
        holdfast.open(store_root, config={"limit": {}})
    with pytest.raises(UsageError, match="unknown limit"):
        holdfast.open(store_root, config={"limits": {"messages": 1}})
    with pytest.raises(UsageError):
        holdfast.open(store_root, config={"limits": {"depth_max": 0}})
    assert holdfast.open(store_root, config={"limits": hf.limits}).limits == hf.limits


@pytest.mark.parametrize("url", ["redis://x", "file://other/x", "file:relative"])
def test_an_address_that_no_store_serves_is_refused(url):
    """The error says which addresses there are."""
    with pytest.raises(UsageError):
        holdfast.open(url)


@pytest.mark.req("S3-4")
def test_the_store_none_keeps_nothing_and_the_session_works(store_root):
    """A session without a store has state and messages while it lives, and no past afterwards."""
    hf = holdfast.open("none:")
    with hf.session("a") as s:
        s.user("hi")
        s.variables["x"] = 1
        s.flush()
        assert s.messages()[0]["content"] == "hi"
        assert s.variables["x"] == 1
        assert s.snapshot() >= 0
    assert not hf.exists("a")
    with hf.session("a") as s:
        assert not s.restored
    assert hf.list() == []
    with pytest.raises(UsageError):
        pickle.dumps(hf)


@pytest.mark.req("S3-5")
@pytest.mark.req("S3-6")
def test_the_memory_store_keeps_sessions_for_the_process(store_root):
    """Sessions in memory are found again, listed, counted and cleared."""
    hf = holdfast.open("memory:")
    for name in ("a", "b"):
        with hf.session(name) as s:
            s.user("hi")
    with hf.session("a") as s:
        assert s.restored
    assert hf.store.ids() == ["a", "b"]
    assert hf.store.count() == 2
    hf.store.clear()
    assert hf.list() == []
    assert holdfast.open("memory:x").store is holdfast.open("memory:x").store


def test_a_holdfast_pickles_as_its_address(hf):
    """A worker process gets the same store."""
    fill(hf, "a")
    copy = pickle.loads(pickle.dumps(hf))
    assert copy.url == hf.url
    assert copy.exists("a")


def test_closing_a_holdfast_closes_its_sessions(store_root):
    """Open sessions are ended and flushed; the closed object refuses new ones."""
    hf = Holdfast(store_root)
    s = hf.session("a")
    s.user("hi")
    hf.close()
    hf.close()
    assert s.closed
    with pytest.raises(UsageError):
        hf.session("b")
    with Holdfast(store_root) as again:
        assert list(again.events("a"))[-1].type == "closed"
    assert "Holdfast" in repr(again)


def test_recover_gives_a_valid_conversation(hf):
    """An interrupted call is marked or dropped, and the list can be cut at any event."""
    with hf.session("a") as s:
        s.system("be brief")
        user = s.user("hi")
        s.assistant("let me look")
        s.tool_call("Read", {"path": "x"}, id="c1")
    dropped = hf.recover("a", incomplete="drop")
    assert dropped.recovered
    assert [m["role"] for m in dropped.messages] == ["user", "assistant"]
    assert dropped.system == "be brief"
    marked = hf.recover("a")
    assert marked.messages[-1]["content"][0]["type"] == "tool_result"
    assert [m["role"] for m in hf.recover("a", at=user.seq).messages] == ["user"]
    assert hf.recover("a", provider="openai").messages[0]["role"] in ("system", "user")


def test_bad_data_of_a_foreign_log_is_not_fatal(hf, store_root):
    """Lines whose data is no object are events all the same; only looking inside is an error."""
    folder = store_root / "sessions" / "odd"
    folder.mkdir(parents=True)
    (folder / "events.jsonl").write_bytes(b'{"type":"user","timestamp":1,"data":5}\n')
    event = next(hf.events("odd"))
    with pytest.raises(InvalidData):
        _ = event.data
    assert hf.recover("odd").messages == []
    with hf.session("odd") as s:
        s.user("hi")
        assert len(s.messages()) == 1


def test_the_public_names_are_there_and_complete():
    """Everything in __all__ can be had, also what is loaded later; nothing else is promised."""
    for name in holdfast.__all__:
        assert getattr(holdfast, name) is not None
    assert set(holdfast.__all__) <= set(dir(holdfast))
    assert len(holdfast.__all__) <= 30
    with pytest.raises(AttributeError):
        _ = holdfast.nonsense


def test_a_window_counts_tokens_exactly_where_a_vocabulary_is_known(hf):
    """With the tokens extra the count for openai is exact, for others a labelled estimate."""
    pytest.importorskip("splintr", reason="the tokens extra is not installed")
    with hf.session("a") as s:
        for n in range(30):
            s.user(f"question number {n} " * 20)
            s.assistant(f"answer number {n} " * 20)
    exact = hf.recover("a", provider="openai", window_tokens=600)
    assert exact.count.source == "counter"
    assert exact.count.tokens <= 600
    assert exact.left_out.messages > 0
    assert "question number 0" in str(exact.messages[0])
    assert hf.recover("a", window_tokens=600).count.source == "estimate"


@pytest.mark.parametrize(
    ("name", "given"),
    [
        *((name, ()) for name in ("list", "stats", "prune", "trash.list", "session_ids", "keys.list")),
        *((name, ("a",)) for name in ("exists", "state", "export", "delete", "undelete", "fork")),
        *((name, ("a",)) for name in ("erase", "archive", "last_modified", "purge_agent")),
        ("copy_to", ("memory:",)),
        ("subscribe", (print,)),
    ],
)
def test_nothing_is_read_or_changed_through_a_closed_one(hf, name, given):
    """It says so, whatever it is asked; the session stays as it is."""
    with hf.session("a") as s:
        s.user("x")
    hf.close()
    with pytest.raises(UsageError, match="is closed"):
        attrgetter(name)(hf)(*given)
    with Holdfast(hf.url) as again:
        assert again.exists("a")


def test_a_listener_that_cannot_be_called_is_refused(hf):
    """At once, and not by silence later."""
    with pytest.raises(UsageError, match="a listener is a function"):
        hf.subscribe("print")
