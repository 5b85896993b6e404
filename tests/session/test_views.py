"""Variables, memory and todos: small views whose changes are events."""

from __future__ import annotations

import datetime as dt
import threading

import pytest

from holdfast.errors import Conflict, UsageError
from holdfast.replay import MemoryEntry
from holdfast.session import NotStoredWarning
from holdfast.session._agent_documents import AgentMemory
from holdfast.storage import MemoryStore


@pytest.mark.req("S1-8")
@pytest.mark.req("S1-43")
def test_variables_keep_their_types_across_processes(hf):
    """Numbers, dates, sets, bytes and nested values come back equal after reopening."""
    values = {
        "x": 10,
        "when": dt.datetime(2020, 1, 2, 3, 4, tzinfo=dt.UTC),
        "set": {1, 2},
        "bytes": b"\0\xff",
        "deep": {"a": [1, (2, 3)], 5: "int key"},
    }
    with hf.session("a") as s:
        s.variables.update(values)
    with hf.session("a") as s:
        assert dict(s.variables) == values
        assert s.variables.copy() == values
        assert len(s.variables) == 5
        assert "x" in s.variables
        assert "Variables" in repr(s.variables)


def test_reads_are_copies(hf):
    """Changing what was read changes nothing."""
    with hf.session("a") as s:
        s.variables["v"] = [1]
        s.variables["v"].append(2)
        assert s.variables["v"] == [1]
        s.memory.set("m", {"a": 1})
        s.memory.get("m")["a"] = 2
        assert s.memory.get("m") == {"a": 1}
        s.todos.write([{"content": "c"}])
        s.todos[0]["content"] = "other"
        assert s.todos[0]["content"] == "c"


def test_deleting_and_replacing_variables(hf):
    """A deleted variable is gone after reopening too; a missing one is a KeyError."""
    with hf.session("a") as s:
        s.variables.update(a=1, b=2, c=3)
        del s.variables["a"]
        s.variables.replace({"b": 5})
        with pytest.raises(KeyError):
            del s.variables["a"]
        with pytest.raises(KeyError):
            _ = s.variables["a"]
        with pytest.raises(UsageError):
            s.variables[""] = 1
    with hf.session("a") as s:
        assert dict(s.variables) == {"b": 5}


def test_what_cannot_be_stored_stays_in_memory_and_is_named(hf):
    """A lock in a variable works in this process, warns, and is missing after reopening."""
    notices = []
    hf.subscribe(lambda _id, item: notices.append(item))
    lock = threading.Lock()
    with hf.session("a") as s:
        with pytest.warns(NotStoredWarning, match="'tool'"):
            s.variables["tool"] = {"lock": lock, "name": "x"}
        assert s.variables["tool"]["lock"] is lock
        lost = [n for n in notices if getattr(n, "kind", "") == "variable_not_stored"]
        assert [n.detail["name"] for n in lost] == ["tool"]
        assert list(s.variables) == ["tool"]
    with hf.session("a") as s:
        assert s.variables["tool"] == {"name": "x"}


def test_a_variable_in_memory_only_can_be_set_again_or_deleted(hf):
    """Storing a plain value takes the place of the one in memory."""
    with hf.session("a") as s:
        for name in "vw":
            with pytest.warns(NotStoredWarning):
                s.variables[name] = threading.Lock()
        s.variables["v"] = 1
        assert s.variables["v"] == 1
        del s.variables["w"]
        assert dict(s.variables) == {"v": 1}


def test_a_large_variable_comes_back(hf):
    """A value beyond the blob threshold is kept beside the log."""
    with hf.session("a") as s:
        s.variables["big"] = "x" * 500_000
        assert len(s.variables["big"]) == 500_000
    with hf.session("a") as s:
        assert len(s.variables["big"]) == 500_000


@pytest.mark.req("S0-25")
@pytest.mark.req("S0-26")
@pytest.mark.req("S0-75")
def test_memory_entries_carry_all_their_fields(hf):
    """Description, scope, priority, pin, size and times are kept, and the sums agree."""
    with hf.session("a") as s:
        s.memory.set("prefs", {"theme": "dark"}, description="d", priority="high", pinned=True)
        entry = s.memory.entry("prefs")
        assert (entry.description, entry.scope, entry.priority, entry.pinned) == ("d", "session", "high", True)
        assert entry.size_bytes == len('{"theme":"dark"}')
        assert entry.created_at > 0
        assert s.memory.stats() == {"total_entries": 1, "total_size_bytes": 16}
        assert "prefs" in s.memory
        assert s.memory.delete("prefs")
        assert not s.memory.delete("prefs")
        assert s.memory.get("prefs", "gone") == "gone"
        assert s.memory.stats()["total_entries"] == 0


@pytest.mark.req("S0-39")
def test_memory_is_read_and_cleared_by_scope(hf):
    """Everything, or what is of one scope, is listed and forgotten; the other scope stays."""
    with hf.session("a", agent_id="bot") as s:
        s.memory.set("mine", 1)
        s.memory.set("also", 2)
        s.memory.set("ours", 3, scope="persistent")
        assert list(s.memory.entries("session")) == ["mine", "also"]
        assert list(s.memory.entries("persistent")) == ["ours"]
        with pytest.raises(UsageError, match="not a scope"):
            s.memory.clear("everything")
        assert s.memory.clear("session") == 2
        assert list(s.memory.entries()) == ["ours"]
        s.memory.set("mine", 1)
        assert s.memory.clear() == 2
        assert s.memory.clear() == 0
    with hf.session("b", agent_id="bot") as s:
        assert s.memory.entries() == {}


@pytest.mark.req("S0-37")
def test_an_agents_memory_is_read_when_it_is_first_asked_for(hf, store_root):
    """A session of the agent opens and records without touching the document."""
    with hf.session("a", agent_id="bot") as s:
        s.memory.set("ours", 3, scope="persistent")
    (store_root / "agents" / "bot" / "memory.json").write_text("{")
    with hf.session("b", agent_id="bot") as s:
        s.user("not about memory")
        assert s.repairs == []
        assert s.memory.get("ours") is None
        assert "memory.json is damaged" in s.repairs[0].detail["what"]


@pytest.mark.req("S2-5")
def test_persistent_memory_belongs_to_the_agent(hf):
    """It is seen by the agent's other sessions and does not travel with the log."""
    with hf.session("a", agent_id="helper") as s:
        s.memory.set("name", "Alice", scope="persistent")
        s.memory.set("here", 1)
    with hf.session("b", agent_id="helper") as s:
        assert s.memory.get("name") == "Alice"
        assert s.memory.get("here") is None
        assert list(s.memory.entries("persistent")) == ["name"]
        assert s.memory.delete("name")
    with hf.session("c", agent_id="other") as s:
        assert s.memory.get("name") is None
    assert next(hf.events("a", types=["memory_set"])).data["key"] == "here"


@pytest.mark.req("S0-36")
def test_an_agents_memory_is_a_file_behind_the_interface_of_memory(hf, store_root):
    """Set, get, list and delete come from memory.json and go there; a person may edit it."""
    file = store_root / "agents" / "bot" / "memory.json"
    with hf.session("a", agent_id="bot") as s:
        s.memory.set("name", "Alice", description="the user", scope="persistent")
        s.memory.set("town", "Oslo", scope="persistent")
        assert s.memory.delete("town")
    text = file.read_text(encoding="utf-8")
    assert "Alice" in text
    assert "Oslo" not in text
    file.write_text(text.replace("Alice", "Bob"), encoding="utf-8")
    with hf.session("b", agent_id="bot") as s:
        assert s.memory.get("name") == "Bob"
        entries = s.memory.entries("persistent")
        assert {key: entry.description for key, entry in entries.items()} == {"name": "the user"}


@pytest.mark.req("S2-5")
def test_sessions_without_an_agent_share_one_persistent_memory(hf, store_root):
    """It outlives each of them, and no agent with a name sees it."""
    with hf.session("a") as s:
        s.memory.set("name", "Alice", scope="persistent")
        assert s.memory.get("name") == "Alice"
    assert (store_root / "agents" / "default" / "memory.json").exists()
    with hf.session("b") as s:
        assert list(s.memory.entries("persistent")) == ["name"]
    with hf.session("c", agent_id="helper") as s:
        assert s.memory.get("name") is None


@pytest.mark.parametrize("wrong", [{"key": ""}, {"key": 5}, {"scope": "galaxy"}, {"priority": "urgent"}])
def test_wrong_memory_entries_are_refused(hf, wrong):
    """A key, scope or priority that does not exist is a UsageError."""
    with hf.session("a") as s, pytest.raises(UsageError):
        s.memory.set(**{"key": "k", "value": 1, **wrong})


def test_two_writers_of_an_agents_memory_lose_nothing(store_root):
    """Threads that set different keys at once all find their entry afterwards."""
    documents = MemoryStore().documents("agents/a")

    def remember(n):
        memory = AgentMemory(documents)
        memory.set(
            {
                "key": f"k{n}",
                "value": n,
                "description": "",
                "scope": "persistent",
                "priority": "normal",
                "pinned": False,
                "sizeBytes": 1,
            }
        )
        memory.flush()

    threads = [threading.Thread(target=remember, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(AgentMemory(documents).entries()) == [f"k{n}" for n in range(8)]
    assert isinstance(AgentMemory(documents).entries()["k0"], MemoryEntry)


def test_an_unreadable_agent_memory_is_set_aside_and_told():
    """A person's slip in the file is named, and its bytes are kept."""
    documents = MemoryStore().documents("agents/a")
    documents.put("memory.json", b"{oops")
    memory, told = AgentMemory(documents), []
    memory.tell = told.append
    assert memory.entries() == {}
    [aside] = documents.names("quarantine/")
    assert documents.get(aside)[0] == b"{oops"
    assert aside in told[0]


def test_a_document_that_keeps_changing_ends_in_a_conflict(monkeypatch):
    """A writer does not try for ever."""
    documents = MemoryStore().documents("agents/a")

    def refuse(*_args, **_kwargs):
        raise Conflict

    monkeypatch.setattr(documents, "put", refuse)
    memory = AgentMemory(documents)
    memory.set(
        dict.fromkeys(("key", "description", "scope", "priority"), "x") | {"value": 1, "sizeBytes": 1, "pinned": False}
    )
    with pytest.raises(Conflict):
        memory.flush()
    assert memory.is_dirty


@pytest.mark.req("S3-68")
@pytest.mark.req("S3-70")
def test_todos_get_ids_and_defaults(hf):
    """A written list is whole: ids, status, priority and active form."""
    with hf.session("a") as s:
        written = s.todos.write([{"content": "book"}, {"content": "pack", "id": "7"}])
        assert written[0]["status"] == "pending"
        assert len(written[0]["id"]) == 8
        assert written[1]["id"] == "7"
        assert len(s.todos) == 2
        assert "book" in repr(s.todos)
    with hf.session("a") as s:
        assert list(s.todos) == written


@pytest.mark.req("S3-68")
@pytest.mark.parametrize(
    "todos",
    [
        ["text"],
        [{"content": ""}],
        [{"content": "a", "status": "done"}],
        [{"content": "a", "priority": "urgent"}],
        [{"content": "a", "activeForm": ""}],
        [{"content": "a"}, {"content": " A "}],
        [{"content": "a", "status": "in_progress"}, {"content": "b", "status": "in_progress"}],
    ],
)
def test_lists_that_break_a_rule_are_refused_whole(hf, todos):
    """One wrong item and nothing is written."""
    with hf.session("a") as s:
        with pytest.raises(UsageError):
            s.todos.write(todos)
        assert list(s.todos) == []


@pytest.mark.req("S3-71")
def test_the_last_list_wins_whoever_wrote_it(hf):
    """A TodoWrite call and todos.write replace each other's list."""
    with hf.session("a") as s:
        s.todos.write([{"content": "one"}])
        s.tool_call("TodoWrite", {"todos": [{"content": "two", "status": "pending"}]})
        assert [todo["content"] for todo in s.todos] == ["two"]
        s.todos.write([{"content": "three"}])
    with hf.session("a") as s:
        assert [todo["content"] for todo in s.todos] == ["three"]


@pytest.mark.req("S0-38")
@pytest.mark.req("S0-67")
@pytest.mark.req("S0-75")
def test_persistent_memory_is_written_with_the_flush_not_with_each_change(hf, monkeypatch):
    """Many changes cost one write, at the next flush; a session without events saves at its end."""
    documents = hf.store.documents("agents/helper")
    puts = []
    real = type(documents).put
    monkeypatch.setattr(type(documents), "put", lambda self, *a, **k: (puts.append(a[0]), real(self, *a, **k))[1])
    with hf.session("a", agent_id="helper") as s:
        for n in range(20):
            s.memory.set("count", n, scope="persistent")
            s.memory.set("gone", n, scope="persistent")
        s.memory.delete("gone")
        assert s.memory.get("count") == 19
        assert puts == []
        s.flush()
        assert puts == ["memory.json"]
        s.memory.set("last", 1, scope="persistent")
    assert puts == ["memory.json"] * 2
    with hf.session("b", agent_id="helper") as s:
        assert sorted(s.memory.entries("persistent")) == ["count", "last"]


async def test_persistent_memory_is_written_under_asyncio(hf):
    """The same with aflush, which leaves the loop free."""
    async with hf.session("a", agent_id="helper") as s:
        s.memory.set("k", 1, scope="persistent")
        await s.aflush()
        assert not s.memory.is_dirty
    assert hf.store.documents("agents/helper").get("memory.json") is not None
