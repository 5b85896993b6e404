"""Sessions with external agents as single values, and snapshots taken of them."""

from __future__ import annotations

import gzip
import json
import runpy
import stat
import sys
import threading
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.apps.acp.client import (
    ClientConfig,
    Provider,
    SessionMetrics,
    SessionSnapshot,
    SnapshotMessage,
    SnapshotStore,
    Snapshotter,
    create_or_resume,
)
from holdfast.errors import Conflict, Damaged, Locked, NotFound, StoreFull, TooNew, UsageError
from holdfast.model import Notice

SCRIPT = str(Path(__file__).with_name("agents") / "scripted.py")


@pytest.fixture
def library(store_root):
    """The sessions of an empty store."""
    with holdfast.open(store_root) as found:
        yield found


@pytest.fixture
def notices(library):
    """What the library's subscribers are told besides events."""
    found = []
    library.subscribe(lambda _, what: found.append(what) if isinstance(what, Notice) else None)
    return found


@pytest.fixture
def snapshotter(library):
    """What takes snapshots."""
    found = Snapshotter(library)
    yield found
    found.close()


@pytest.fixture
def client(library, tmp_path):
    """Create or resume a session with an agent that loads, and reports tokens."""
    command = [sys.executable, SCRIPT, "--store", str(tmp_path / "a.json"), "--load", "yes"]

    async def client(id="talk", snapshotter=None, **config):
        settings = ClientConfig(cwd=str(tmp_path), quiet_s=0.1, **config)
        return await create_or_resume([*command, "--usage"], id, settings, library=library, snapshotter=snapshotter)

    return client


def example(id="s", **changes):
    """A snapshot with something in every member."""
    said = [
        SnapshotMessage("user", [{"type": "text", "text": "hello"}], 1000),
        SnapshotMessage("assistant", [{"type": "text", "text": "hi"}], 2000),
    ]
    found = SessionSnapshot(
        session_id=id,
        provider_type="gemini",
        config={"provider": "gemini"},
        acp_session_id="g-1",
        messages=said,
        current_task="greet",
        metrics=SessionMetrics(tokens_in=7, tokens_out=3, request_count=2),
        metadata={"tool_state": {"open": ["a.py"]}},
    )
    return msgspec.structs.replace(found, **changes)


def said(snapshot):
    """Roles and texts of a snapshot's messages."""
    return [(one.role, one.content[0]["text"]) for one in snapshot.messages]


# -- the view ------------------------------------------------------------------------------------


@pytest.mark.req("S4-5", "S4-6", "S4-7", "S4-8", "S4-9", "S4-10", "S4-11", "S4-23", "S4-51")
async def test_a_session_as_a_value(client, library):
    """Every member is folded from the log, of one moment."""
    async with await client() as session:
        await session.ask("hello")
        session.current_task = "greet"
        session.annotate(tool_state={"open": ["a.py"]})
        found = session.snapshot()
        assert found.session_id == "talk"
        assert found.provider_type == Path(sys.executable).name
        assert found.version == 2
        assert found.created_at <= found.updated_at
        assert found.config["enable_persistence"] is False
        assert found.acp_session_id == session.acp_session_id
        assert said(found) == [("user", "hello"), ("assistant", "You said 'hello'. I know [].")]
        assert all(message.timestamp >= found.created_at for message in found.messages)
        assert found.current_task == "greet"
        assert found.metrics.tokens_in == 10
        assert found.metrics.tokens_out == 5
        assert found.metrics.request_count == 1
        assert found.metrics.last_activity == found.updated_at
        assert found.metadata["tool_state"] == {"open": ["a.py"]}
        assert found.seq == session.session.seq
    assert len(library.snapshots("talk")) == 1


@pytest.mark.req("S4-28", "S4-69")
async def test_task_and_metrics_are_restored(client):
    """A session that goes on has what it had, and adds to it."""
    async with await client() as session:
        await session.ask("hello")
        session.current_task = {"step": 1}
    async with await client() as session:
        assert session.current_task == {"step": 1}
        assert session.metrics.tokens_in == 10
        assert session.metadata["acp"]["agent"]["name"] == "scripted"
        await session.ask("again")
        assert session.metrics.tokens_in == 20
        assert session.metrics.request_count == 2


def test_what_broke_off_is_in_the_view(library):
    """Of an answer that never ended, or began anew, what was seen; thoughts are no messages."""
    with library.session("s") as s:
        s.user("one")
        s.delta("hmm", kind="thinking")
        s.delta("half ")
        s.delta("an answer")
        s.assistant("Anew.")
        first = s.delta("who")
        s.delta("le")
        s.assistant("whole", covers_from=first.seq)
    found = SnapshotStore(library).load("s")
    assert said(found) == [
        ("user", "one"),
        ("assistant", "half an answer"),
        ("assistant", "Anew."),
        ("assistant", "whole"),
    ]


@pytest.mark.req("S4-8")
def test_blocks_stay_blocks(library):
    """A content of blocks is given as it is, large ones too."""
    blocks = [{"type": "text", "text": "x" * 200_000}]
    with library.session("s") as s:
        s.user(blocks)
    assert SnapshotStore(library).load("s").messages[0].content == blocks


# -- JSON and versions ---------------------------------------------------------------------------


@pytest.mark.req("S4-14", "S4-48", "S4-60")
def test_a_snapshot_round_trips_as_json(library):
    """What was written is read again, and people can read it too."""
    data = example().to_json()
    assert json.loads(data)["acp_session_id"] == "g-1"
    assert SessionSnapshot.from_json(data) == example()


@pytest.mark.req("S4-15", "S4-72")
def test_a_large_snapshot_is_compressed(library):
    """As gzip, which is recognised when it is read."""
    large = example(metadata={"text": "x" * 100_000})
    data = large.to_json()
    assert data.startswith(b"\x1f\x8b")
    assert len(data) < 5_000
    assert SessionSnapshot.from_json(data) == large


@pytest.mark.req("S4-50", "S4-60")
@pytest.mark.parametrize("nested", [True, False])
def test_version_1_is_migrated(nested):
    """Texts become blocks, RFC 3339 becomes milliseconds, and Go's names become ours."""
    part = {
        "acp_session_id": "g-1",
        "messages": [
            {"role": "user", "content": "hello", "timestamp": "2026-02-21T10:00:00.123456789Z"},
            {"role": "assistant", "content": [{"type": "text", "text": "hi"}], "timestamp": 5},
        ],
        "current_task": "greet",
        "metrics": {"TokensIn": 7, "tokens_out": 3, "RequestCount": 2},
    }
    old = {
        "session_id": "s",
        "provider_type": "gemini",
        "created_at": "2026-02-21T10:00:00+01:00",
        "updated_at": "2026-02-21T10:00:01",
        "version": 1,
        "config": {"WorkingDir": "/w"},
        "metadata": None,
        **({"provider_state": part} if nested else part),
    }
    found = SessionSnapshot.from_json(gzip.compress(json.dumps(old).encode()))
    assert found.version == 2
    assert said(found) == [("user", "hello"), ("assistant", "hi")]
    assert [message.timestamp for message in found.messages] == [1771668000123, 5]
    assert found.created_at == 1771664400000
    assert found.updated_at == 1771668001000
    assert found.metrics == SessionMetrics(tokens_in=7, tokens_out=3, request_count=2)
    assert (found.acp_session_id, found.current_task) == ("g-1", "greet")
    assert (found.config, found.metadata) == ({"WorkingDir": "/w"}, {})


@pytest.mark.req("S4-45", "S4-60")
def test_a_later_version_is_refused():
    """A typed error that says what to do."""
    with pytest.raises(TooNew, match="version 3"):
        SessionSnapshot.from_json(b'{"version": 3, "session_id": "s"}')


@pytest.mark.req("S4-47")
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not json",
        b"[]",
        b"{}",
        b'{"version": 0}',
        b'{"version": true}',
        b'{"version": "2"}',
        b'{"version": 2}',
        b'{"version": 2, "session_id": "s", "messages": [1]}',
        b'{"version": 1, "session_id": "s", "messages": [1]}',
        b'{"version": 1, "session_id": "s", "created_at": "yesterday"}',
        b'{"version": 1, "session_id": "s", "metrics": {"TokensIn": "many"}}',
        b'{"version": 1, "session_id": "s", "provider_state": 7}',
        gzip.compress(example().to_json())[:-9],
        b"\x1f\x8bnot gzip",
        b"[" * 100_000,
    ],
)
def test_what_is_no_snapshot_is_damaged(data):
    """One error, whatever is wrong with the bytes."""
    with pytest.raises(Damaged):
        SessionSnapshot.from_json(data)


@pytest.mark.req("S4-47")
@given(st.data())
def test_any_change_of_bytes_is_noticed_or_harmless(data):
    """A changed snapshot is another snapshot, or a typed error; nothing else."""
    whole = bytearray(example().to_json(compress_from=data.draw(st.sampled_from([0, 10**6]))))
    whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = SessionSnapshot.from_json(bytes(whole))
    except (Damaged, TooNew):
        return
    assert isinstance(found, SessionSnapshot)


# -- the store -----------------------------------------------------------------------------------


STORES = {
    "a folder": lambda root: root,
    "a database": lambda root: f"sqlite:///{root}/store.db",
    "an object store": lambda _: _object_store(),
}


def _object_store():
    found = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "custom_storage.py"))
    return found["BucketStore"](found["Bucket"](), prefix="snapshots")


@pytest.fixture(params=STORES)
def any_library(request, store_root):
    """The sessions of an empty store of one of several kinds."""
    with holdfast.open(STORES[request.param](store_root)) as found:
        yield found


@pytest.mark.req("S4-76")
def test_the_list_has_snapshots_and_nothing_else(library):
    """A session of which no snapshot was stored is not among them."""
    with library.session("plain") as session:
        session.user("hello")
    assert SnapshotStore(library).list() == []
    SnapshotStore(library).save(example("a"))
    (found,) = SnapshotStore(library).list()
    assert (found.session_id, found.messages) == ("a", example().messages)


@pytest.mark.req("S4-12", "S4-16", "S4-48", "S4-49")
def test_save_load_list_and_delete(any_library):
    """What is saved becomes a session like any other, and is loaded as it was, on any store."""
    library = any_library
    store = SnapshotStore(library)
    store.save(example("b"))
    store.save(example("a"))
    assert [found.session_id for found in store.list()] == ["a", "b"]
    found = store.load("b")
    for name in ("provider_type", "config", "acp_session_id", "current_task", "metadata"):
        assert getattr(found, name) == getattr(example(), name)
    assert found.messages == example().messages
    assert found.metrics.tokens_in == 7
    assert found.metrics.tokens_out == 3
    assert found.metrics.request_count == 2
    assert library.recover("b").messages[0]["role"] == "user"
    store.delete("b")
    assert [found.session_id for found in store.list()] == ["a"]
    with pytest.raises(NotFound):
        store.load("b")
    library.undelete("b")
    assert said(store.load("b")) == said(example())


@pytest.mark.req("S4-71")
def test_saving_records_only_what_is_new(library):
    """The same again records nothing; a longer conversation adds its new messages."""
    store = SnapshotStore(library)
    store.save(example())
    before = library.state("s").seq
    store.save(example())
    assert library.state("s").seq == before
    longer = store.load("s")
    longer.messages.append(SnapshotMessage("user", [{"type": "text", "text": "more"}]))
    store.save(longer)
    assert said(store.load("s")) == said(longer)
    new = [e.type for e in library.events("s", before + 1)]
    assert new == ["opened", "user", "closed"]


def test_a_snapshot_that_says_otherwise_is_refused(library):
    """What was recorded is never changed."""
    store = SnapshotStore(library)
    store.save(example())
    other = SnapshotMessage("user", [{"type": "text", "text": "other"}])
    with pytest.raises(Conflict):
        store.save(example(messages=[other]))
    with pytest.raises(UsageError, match="no role"):
        store.save(example("t", messages=[msgspec.structs.replace(other, role="system")]))
    assert said(store.load("s")) == said(example())
    assert [found.session_id for found in store.list()] == ["s"]


@pytest.mark.req("S4-44", "S4-45", "S4-47")
def test_errors_of_loading(library, store_root):
    """Not found, too new and damaged are told apart."""
    store = SnapshotStore(library)
    with pytest.raises(NotFound):
        store.load("nothing")
    store.save(example("broken"))
    log = Path(library.location("broken"), "events.jsonl")
    log.write_bytes(log.read_bytes().replace(b'"hello"', b'"hallo"'))
    with pytest.raises(Damaged) as caught:
        store.load("broken")
    assert caught.value.session_id == "broken"
    folder = store_root / "sessions" / "future"
    folder.mkdir(mode=0o700)
    (folder / "events.jsonl").write_text('{"type":"session_start","timestamp":1,"data":{"format":99}}\n')
    with pytest.raises(TooNew):
        store.load("future")


def test_an_open_session_is_not_deleted(library):
    """Whoever is at work is not disturbed."""
    with library.session("s") as s:
        s.user("hello")
        with pytest.raises(Locked):
            SnapshotStore(library).delete("s")


@pytest.mark.req("S4-56")
def test_snapshots_are_private(library):
    """Files 0600 in folders 0700."""
    SnapshotStore(library).save(example())
    root = Path(library.location("s"))
    for path in [root, *root.rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


# -- taking them ---------------------------------------------------------------------------------


@pytest.mark.req("S4-18", "S4-61", "S4-64", "S4-65", "S4-67")
def test_a_snapshot_by_hand_is_told_and_counted(library, snapshotter, notices):
    """Subscribers get its size, and the figures know it."""
    with library.session("s") as s:
        s.user("hello")
        found = snapshotter.snapshot(s)
    assert said(found) == [("user", "hello")]
    (notice,) = [one for one in notices if one.kind == "snapshot_created"]
    assert notice.session_id == "s"
    assert snapshotter.stats.sizes == [notice.detail["size_bytes"]]
    assert snapshotter.stats.taken == 1
    assert snapshotter.stats.success_rate == 1.0
    assert len(snapshotter.stats.snapshot_s) == 1


@pytest.mark.req("S4-63", "S4-64")
def test_a_snapshot_that_fails_is_told_and_raised(library, snapshotter, notices, monkeypatch):
    """With the code of the event; the session goes on."""
    with library.session("s") as s:
        s.user("hello")

        def full(*arguments):
            raise StoreFull

        monkeypatch.setattr(s._journal.keeper, "save_snapshot", full)
        with pytest.raises(StoreFull):
            snapshotter.snapshot(s)
        snapshotter.try_snapshot(s)
        s.user("more")
    failed = [one.detail["code"] for one in notices if one.kind == "snapshot_failed"]
    assert failed == ["SNAPSHOT_ERROR", "SNAPSHOT_ERROR"]
    assert snapshotter.stats.failed == 2
    assert snapshotter.stats.success_rate == 0.0


@pytest.mark.req("S4-21", "S4-66", "S4-68", "S4-62")
def test_restores_are_counted(library, snapshotter, notices):
    """Success and failure; whoever opens the session again is told its age."""
    SnapshotStore(library).save(example())
    assert said(snapshotter.restore("s")) == said(example())
    with pytest.raises(NotFound):
        snapshotter.restore("nothing")
    assert snapshotter.stats.restore_rate == 0.5
    assert len(snapshotter.stats.restore_s) == 1
    library.session("s").close()
    (notice,) = [one for one in notices if one.kind == "session_restored"]
    assert notice.detail["age"] >= 0


class Gate:
    """A session for timers: notes who takes its snapshot."""

    def __init__(self, id):
        self.id = id
        self.closed = False
        self.seq = 1
        self.taken = threading.Semaphore(0)

    def snapshot(self):
        self.taken.release()


@pytest.mark.req("S4-17", "S4-19", "S4-20", "S4-22", "S4-52")
def test_automatic_snapshots_start_replace_and_stop(library, snapshotter):
    """Again and again; a second start takes the place of the first; a stop ends it."""
    first, second, other = Gate("s"), Gate("s"), Gate("other")
    snapshotter.start_auto_snapshot(first, 0.001)
    for _ in range(3):
        assert first.taken.acquire(timeout=120)
    snapshotter.start_auto_snapshot(second, 0.001)
    assert second.taken.acquire(timeout=120)
    while first.taken.acquire(blocking=False):
        pass
    for _ in range(3):
        assert second.taken.acquire(timeout=120)
    assert not first.taken.acquire(blocking=False)
    snapshotter.stop_auto_snapshot("s")
    snapshotter.stop_auto_snapshot("s")
    snapshotter.start_auto_snapshot(other, 0.001)
    assert other.taken.acquire(timeout=120)
    while second.taken.acquire(blocking=False):
        pass
    for _ in range(3):
        assert other.taken.acquire(timeout=120)
    assert not second.taken.acquire(blocking=False)
    with pytest.raises(UsageError):
        snapshotter.start_auto_snapshot(other, 0)


@pytest.mark.req("S4-38", "S4-34")
async def test_snapshots_follow_turns_and_the_end(client, library, notices, snapshotter):
    """With persistence: after a turn in the background, and a last one when it ends."""
    settings = {"enable_persistence": True, "snapshot_interval": 3600}
    session = await client(snapshotter=snapshotter, **settings)
    async with session:
        await session.ask("hello")
        while not library.snapshots("talk"):
            session.session.append("metadata", {"waited": True})
            snapshotter.snapshot_soon(session.session)
        session.annotate(late=True)
        last = session.session.seq
    assert max(one.seq for one in library.snapshots("talk")) >= last
    assert snapshotter._autos == {}


@pytest.mark.req("S4-32", "S4-37")
async def test_without_persistence_no_snapshot_is_taken(client, library):
    """It is off unless asked for; the log is written all the same, by the session's own key too."""
    async with await client() as session:
        await session.ask("hello")
    assert library.snapshots("talk") == []
    own = {"enable_persistence": False}
    async with await client(enable_persistence=True, custom=own) as session:
        await session.ask("hello")
    assert library.snapshots("talk") == []
    own = {"enable_persistence": True}
    async with await client(snapshot_on_exit=False, custom=own, snapshot_interval=9.0) as session:
        assert session.config.interval_s == 9.0
        assert session.session.state.config["enable_persistence"] is True


@pytest.mark.req("S4-36", "S4-59")
async def test_only_the_last_snapshots_are_kept(client, library):
    """As many as the configuration says."""
    async with await client(max_snapshots_per_session=3) as session:
        for number in range(6):
            session.annotate(number=number)
            session.snapshot()
        last = session.session.seq
    seqs = [one.seq for one in library.snapshots("talk")]
    assert seqs == [last, last - 1, last - 2]


@pytest.mark.req("S4-33", "S4-34", "S4-35", "S4-36", "S4-32")
def test_defaults_of_the_configuration():
    """Those of the design."""
    config = ClientConfig()
    assert config.enable_persistence is False
    assert config.snapshot_interval == 300
    assert config.snapshot_on_exit is True
    assert config.snapshot_storage_path is None
    assert config.max_snapshots_per_session == 10
    assert (config.input_buffer, config.event_buffer) == (10, 100)
    assert (config.resume, config.permission) == ("auto", "deny")


@pytest.mark.parametrize(
    "wrong",
    [
        {"resume": "perhaps"},
        {"on_no_load": "ignore"},
        {"permission": "maybe"},
        {"cwd": "relative"},
        {"input_buffer": 0},
        {"event_buffer": 0},
        {"max_snapshots_per_session": 0},
        {"custom": {"interval": 1}},
        {"enable_persistence": True, "snapshot_interval": 0},
    ],
)
def test_a_wrong_configuration_is_refused(wrong):
    """Before anything is started."""
    with pytest.raises(UsageError):
        ClientConfig(**wrong)


@pytest.mark.parametrize("wrong", ["", "'", [], ["x", 1]])
def test_a_wrong_command_is_refused(wrong):
    """What is no command line."""
    with pytest.raises(UsageError):
        Provider.of(wrong)


@pytest.mark.req("S4-35", "S4-70")
async def test_where_sessions_are_kept_without_a_library(tmp_path, monkeypatch):
    """Nowhere without persistence; at the storage path with it."""
    monkeypatch.setenv("HOLDFAST_STORE", str(tmp_path / "default"))
    command = [sys.executable, SCRIPT]
    async with await create_or_resume(command, "s", ClientConfig(cwd=str(tmp_path))) as session:
        await session.ask("hello")
    assert not (tmp_path / "default").exists()
    path = tmp_path / "kept"
    path.mkdir(mode=0o700)
    config = ClientConfig(cwd=str(tmp_path), enable_persistence=True, snapshot_storage_path=str(path))
    async with await create_or_resume(command, "s", config) as session:
        await session.ask("hello")
    with holdfast.open(path) as library:
        assert library.state("s").turns == 1
        assert len(library.snapshots("s")) >= 1


async def test_a_directory_that_is_gone_is_told(library, tmp_path):
    """The session is as it was, and nothing is started."""
    config = ClientConfig(cwd=str(tmp_path / "gone"))
    with pytest.raises(UsageError, match="is not there"):
        await create_or_resume(["/no/such/agent"], "s", config, library=library)
    library.close()
    with pytest.raises(UsageError, match="closed"):
        await create_or_resume(["/no/such/agent"], "s", library=library)
