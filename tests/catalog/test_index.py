"""The index itself: what is kept of each session, and who may change it."""

from __future__ import annotations

import msgspec
import pytest

import holdfast
from holdfast.catalog import EVERYTHING, Catalog, Filter, _catalog, _look
from holdfast.catalog._catalog import open_in_memory
from holdfast.catalog._catch_up import catch_up
from holdfast.catalog._faults import IndexDamaged
from holdfast.catalog._index import IndexUpdate, PlainIndex, Row, Trace
from holdfast.catalog.sqlite.index import SqliteIndex
from holdfast.catalog.sqlite.rows import Writing
from holdfast.errors import StoreFull
from holdfast.model import SessionMetadata
from holdfast.storage import FileStore, MemoryStore


@pytest.fixture(params=["sqlite", "plain"])
def index(request):
    """Each implementation, empty."""
    return open_in_memory(MemoryStore()) if request.param == "sqlite" else PlainIndex()


def update(id, *, version=0, **members):
    """What a look would find."""
    meta = SessionMetadata(session_id=id, **members)
    return IndexUpdate(row=Row(meta, Trace(etag="e", folder="f")), state=b"{}", tally=b"", version=version)


def test_what_is_written_is_there(index):
    """A row comes back as it was put in, with its mark and count."""
    assert index.write([update("a", updated_at=1), update("b", updated_at=2)], mark="m") == []
    assert index.mark() == "m"
    assert index.count() == 2
    assert index.known(["a", "b", "c"]) == {"a": ("e", "f"), "b": ("e", "f")}
    assert index.folders() == {"a": "f", "b": "f"}
    assert index.get("a").row.meta.updated_at == 1
    assert index.get("c") is None
    assert [row.session_id for row in index.page(EVERYTHING, 5, None)] == ["b", "a"]
    index.write([], ["a", "never"])
    assert index.count() == 1
    assert [row.session_id for row in index.page(EVERYTHING, None, None)] == ["b"]
    index.clear()
    assert (index.count(), index.mark()) == (0, "")
    assert not index.is_worn()
    index.close()


def test_who_was_slower_does_not_win():
    """A row that others have changed since the look is left alone, and the mark with it."""
    index = open_in_memory(MemoryStore())
    index.write([update("a", title="old")])
    version = index.get("a").version
    assert index.write([update("a", title="theirs", version=version)]) == []
    assert index.write([update("a", title="mine", version=version)], mark="m") == ["a"]
    assert index.get("a").row.meta.title == "theirs"
    assert index.mark() == ""


def read_all(index):
    """Read what there is in every way."""
    for id in "ab":
        index.get(id)
    index.page(EVERYTHING, 5, None)
    index.page(EVERYTHING, None, None)


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE sessions SET data = 'x'",
        "UPDATE sessions SET data = replace(data, 'first', 'other')",
        "UPDATE sessions SET trace = x'00'",
        "UPDATE sessions SET updated = updated + 5",
        "UPDATE folds SET state = x'01'",
        "DELETE FROM folds",
        "UPDATE facts SET value = x'31'",
        "DELETE FROM facts",
        "DELETE FROM sessions WHERE id = 'a'",
    ],
)
@pytest.mark.req("S2-75")
def test_a_changed_row_is_noticed(harm):
    """Whatever is changed behind its back, the index says so where it is read."""
    index = open_in_memory(MemoryStore())
    index.write([update("a", title="first", updated_at=1), update("b", updated_at=2)])
    index.connection.execute(harm)
    with pytest.raises(IndexDamaged):
        read_all(index)


def test_lists_use_table_indexes():
    """No list with a limit looks at every row or sorts."""
    from holdfast.catalog.sqlite.rows import selection

    index = open_in_memory(MemoryStore())
    for wanted in (
        EVERYTHING,
        Filter(tags=frozenset(["t"])),
        Filter(agent_id="a"),
        Filter(model="m"),
        Filter(parent="p"),
        Filter(cwd="/p"),
        Filter(since=1, until=2),
    ):
        query, values = selection(wanted, (5, "x"))
        plan = index.connection.execute(f"EXPLAIN QUERY PLAN {query}", (*values, 9)).fetchall()
        told = " ".join(str(line[-1]) for line in plan)
        assert "TEMP B-TREE" not in told
        assert "SCAN s" not in told.replace("SCAN s USING INDEX", "")


def test_a_long_log_is_read_in_steps(store_root, monkeypatch):
    """A log longer than one step gives the same row, and a half-read one is gone on with."""
    with holdfast.open(store_root) as hf:
        with hf.session("a") as session:
            for number in range(3000):
                session.user(f"turn {number} " + "x" * 300)
        whole = hf.list()[0]
    looks = []
    real = _look.look

    def small(*arguments, **options):
        options["step_bytes"] = 1 << 18
        looks.append(real(*arguments, **options))
        return looks[-1]

    monkeypatch.setattr(_look, "look", small)
    catalog = Catalog(FileStore(store_root))
    assert catalog.reindex().sessions == 1
    assert len(looks) > 2
    assert catalog.page(EVERYTHING, 5)[0] == whole
    catalog.close()


@pytest.mark.parametrize("verb", ["reindex", "redact", "erase"])
def test_a_full_disk_is_said_as_such(store_root, monkeypatch, verb):
    """Every verb that makes the index anew raises StoreFull, and works again once there is space."""
    real = _catalog.connect

    def full(*arguments, **options):
        connection = real(*arguments, **options)
        connection.execute("PRAGMA max_page_count=4")  # SQLite says then what it says on a full disk
        return connection

    with holdfast.open(store_root) as hf:
        for id in "ab":
            with hf.session(id) as session:
                session.user("hello " + "words " * 200)
        hf.list()
        verbs = {"reindex": hf.reindex, "redact": lambda: hf.redact("a"), "erase": lambda: hf.erase("a")}
        with monkeypatch.context() as patch:
            patch.setattr(_catalog, "connect", full)
            with pytest.raises(StoreFull):
                verbs[verb]()
        if verb != "erase":  # which was done, but for the index
            verbs[verb]()
        assert [hit.session_id for hit in hf.search("hello")] == (["b"] if verb == "erase" else ["b", "a"])


def test_large_payloads_are_in_place(store_root):
    """What lies beside the log is handed on with its event."""
    with holdfast.open(store_root) as hf:
        with hf.session("a") as session:
            session.append("tool_result", {"toolCallId": "c", "result": "needle " + "x" * 2_000_000})
        entry = hf.store.entry("sessions/a")
        found = _look.look(hf.store, entry, None)
        said = [event.data["result"] for event in found.events if event.type == "tool_result"]
        assert said[0].startswith("needle")


def test_automatic_tags_stay_where_nothing_was_said(store_root, monkeypatch):
    """A tag or a pin does not derive them again; the next words do."""
    with holdfast.open(store_root) as hf:
        with hf.session("a") as session:
            session.user("kubectl get pods, then kubectl logs of the kubernetes cluster")
        automatic = hf.list()[0].auto_tags
        derived = []
        real = _look.auto_tags
        monkeypatch.setattr(_look, "auto_tags", lambda tally: derived.append(tally) or real(tally))
        hf.tag("a", "mine")
        assert hf.list()[0].auto_tags == automatic
        assert automatic
        assert not derived
        with hf.session("a") as session:
            session.user("pytest, pytest, pytest: the unit tests fail, says pytest")
        assert hf.list()[0].auto_tags != automatic
        assert derived


@pytest.mark.parametrize("kind", ["too_new", "unreadable"])
def test_a_log_that_cannot_be_read_hides_no_other(store_root, kind):
    """It is listed with its state, and the others as they are."""
    with holdfast.open(store_root) as hf:
        with hf.session("good") as session:
            session.user("hello")
        folder = store_root / "sessions" / "bad"
        folder.mkdir(mode=0o700)
        line = b'{"type":"session_start","timestamp":1,"data":{"format":99}}\n'
        if kind == "too_new":
            (folder / "events.jsonl").write_bytes(line)
            assert {row.session_id: row.state for row in hf.list()} == {"good": "ok", "bad": "too_new"}
            assert hf.info("bad").state == "too_new"
        else:
            (folder / "events.jsonl").mkdir()
            assert [row.session_id for row in hf.list()] == ["good"]


def test_rows_keep_every_member(store_root):
    """What a list shows survives the way into the index and back."""
    index = open_in_memory(MemoryStore())
    members = {
        "title": "t" * 10_000,
        "tags": ("a", "b"),
        "auto_tags": ("c",),
        "created_at": -5,
        "updated_at": 1 << 70,
        "cost": 0.25,
        "model": "m",
        "agent_id": "x",
        "parent": "p",
        "cwd": "/p",
        "pinned": True,
        "held": True,
        "archived": True,
        "state": "damaged",
    }
    index.write([update("a", **members)])
    expected = SessionMetadata(session_id="a", **members)
    assert index.page(EVERYTHING, 5, None) == [expected]
    assert index.page(EVERYTHING, None, None) == [expected]
    assert msgspec.json.decode(msgspec.json.encode(expected))["status"] == "idle"


def filled(store):
    """A store with two closed sessions."""
    with holdfast.open(store) as hf:
        for name in "ab":
            with hf.session(name) as session:
                session.user(f"hello {name}")
    return store


def test_a_conflict_is_looked_at_again():
    """When another process was quicker with a row, it is read again before the mark is set."""
    store = filled(MemoryStore())
    index = open_in_memory(store)
    real, quicker = index.write, []

    def write(updates, gone=(), mark=None):
        if updates and not quicker:
            quicker.append(real([updates[0]]))
        return real(updates, gone, mark)

    index.write = write
    catch_up(store, index)
    assert quicker == [[]]
    assert index.count() == 2
    assert index.mark()


def test_a_row_that_others_never_let_go_leaves_the_mark():
    """Who cannot get a row right does not say that all is right."""
    store = filled(MemoryStore())
    index = open_in_memory(store)
    index.write = lambda updates, *_, **__: [one.row.meta.session_id for one in updates]
    catch_up(store, index)
    assert index.mark() == ""


def test_a_worn_index_is_made_anew(monkeypatch):
    """Once too much of it is of sessions that are gone, it is read anew from the logs."""
    store = filled(MemoryStore())
    index = open_in_memory(store)
    catch_up(store, index)
    monkeypatch.setattr(index, "is_worn", lambda: True)
    cleared = []
    real = index.clear
    monkeypatch.setattr(index, "clear", lambda: (cleared.append(1), real()))
    store.drop("sessions/a")
    catch_up(store, index)
    assert cleared == [1]
    assert [row.session_id for row in index.page(EVERYTHING, None, None)] == ["b"]


def test_a_transaction_that_fails_leaves_nothing(monkeypatch):
    """Of a write that breaks off half-way nothing stays."""
    index = open_in_memory(MemoryStore())
    index.write([update("a", title="old")], mark="before")
    version = index.get("a").version

    def fail(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(Writing, "_put_rest", fail)
    with pytest.raises(ZeroDivisionError):
        index.write([update("a", title="new", version=version)], mark="after")
    assert index.get("a").row.meta.title == "old"
    assert index.mark() == "before"


def test_a_catalogue_that_is_always_damaged_is_answered_from_memory(store_root, monkeypatch):
    """Trouble that does not end does not keep a question from its answer."""
    filled(store_root)
    catalog = Catalog(FileStore(store_root))
    real = SqliteIndex.page

    def page(self, *arguments):
        if catalog._spare is not self:
            raise IndexDamaged("always")
        return real(self, *arguments)

    monkeypatch.setattr(SqliteIndex, "page", page)
    assert [row.session_id for row in catalog.page(EVERYTHING, 5)] == ["b", "a"]
    assert catalog.health().trouble == "always"
    assert catalog.health().mended == 3
    catalog.close()
