"""An object with a few methods is enough as a backend."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime

import pytest
from pydantic_ai.models.function import FunctionModel

import holdfast
from holdfast.agent import Agent, PersistentSession
from holdfast.compat import DocumentStore, EventStore
from holdfast.errors import HoldfastError, TooNew, Unavailable
from holdfast.testing import StoreContract


class SixMethods:
    """The state of one agent in a JSON file."""

    def __init__(self, file):
        self.file = file

    def save(self, state):
        self.file.write_text(json.dumps(state))

    def load(self):
        return json.loads(self.file.read_text()) if self.file.exists() else None

    def exists(self):
        return self.file.exists()

    def delete(self):
        self.file.unlink(missing_ok=True)

    def path(self):
        return str(self.file)

    def last_modified(self):
        return datetime.fromtimestamp(self.file.stat().st_mtime, UTC) if self.exists() else None


class AsyncSixMethods(SixMethods):
    """The same as coroutines, which is how the design has it."""

    async def save(self, state):
        await asyncio.sleep(0)
        super().save(state)

    async def load(self):
        return super().load()

    async def exists(self):
        return self.file.exists()

    async def delete(self):
        super().delete()

    def last_modified(self):
        return None


class ThreeMethods:
    """Events of sessions, a file of lines for each."""

    def __init__(self, folder):
        self.folder = folder

    def append(self, session_id, event):
        with (self.folder / session_id).open("a") as file:
            file.write(event + "\n")

    def read(self, session_id):
        return (self.folder / session_id).read_text().splitlines()

    def exists(self, session_id):
        return (self.folder / session_id).exists()


class AsyncThreeMethods(ThreeMethods):
    """The same as coroutines."""

    async def append(self, session_id, event):
        super().append(session_id, event)

    async def read(self, session_id):
        return super().read(session_id)

    async def exists(self, session_id):
        return super().exists(session_id)


MAKERS = {
    "document": lambda tmp: DocumentStore(SixMethods(tmp / "state.json")),
    "async document": lambda tmp: DocumentStore(AsyncSixMethods(tmp / "state.json")),
    "events": lambda tmp: EventStore(ThreeMethods(tmp)),
    "async events": lambda tmp: EventStore(AsyncThreeMethods(tmp)),
}


@pytest.fixture(params=MAKERS)
def make(request, tmp_path):
    """Makes a store of the same backend again, as the next process would."""
    return lambda: MAKERS[request.param](tmp_path)


@pytest.mark.contract("C01-C78")
class TestDocumentStore(StoreContract):
    """A store on six methods keeps the whole store contract."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self.folder, self.count = tmp_path, 0

    def make_store(self):
        self.count += 1
        return DocumentStore(SixMethods(self.folder / f"{self.count}.json"))


@pytest.mark.contract("C01-C78")
class TestEventStore(StoreContract):
    """A store on three methods keeps the whole store contract."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self.folder, self.count = tmp_path, 0

    def make_store(self):
        self.count += 1
        folder = self.folder / str(self.count)
        folder.mkdir()
        return EventStore(ThreeMethods(folder))


@pytest.mark.req("S0-78")
@pytest.mark.req("S3-78")
def test_a_session_is_there_for_the_next_process(make):
    """Words, variables, big payloads and damage-proof bytes come back from the backend."""
    big = "x" * 400_000
    with holdfast.open(make()) as hf, hf.session("trip") as s:
        s.user("My name is Alice")
        s.variables["x"] = 10
        with s.tool("Read", {"path": "a"}) as call:
            call.result = big
        before = s.messages()
    with holdfast.open(make()) as hf:
        assert hf.recover("trip", "neutral").messages == before
        assert hf.verify("trip").ok
        assert [row.session_id for row in hf.list()] == ["trip"]
        with hf.session("trip") as s:
            assert (s.restored, s.variables["x"]) == (True, 10)
            s.user("and?")
    with holdfast.open(make()) as hf:
        assert hf.recover("trip", "neutral").messages[-1]["content"][-1]["text"] == "and?"


@pytest.mark.req("S0-78")
@pytest.mark.req("S3-78")
def test_a_deleted_session_is_gone_for_the_next_process(make):
    """Trash, undelete and erase work as on every store."""
    with holdfast.open(make()) as hf:
        for id in ("a", "b", "c"):
            with hf.session(id) as s:
                s.user(id)
        hf.delete("a")
        hf.erase("b")
    with holdfast.open(make()) as hf:
        assert [row.session_id for row in hf.list()] == ["c"]
        hf.undelete("a")
    with holdfast.open(make()) as hf:
        assert sorted(row.session_id for row in hf.list()) == ["a", "c"]
        with hf.session("b") as s:
            assert not s.restored
            s.user("anew")
    with holdfast.open(make()) as hf:
        assert [m["content"] for m in hf.recover("b", "neutral").messages] == ["anew"]


@pytest.mark.req("S0-33")
@pytest.mark.req("S0-78")
def test_an_agent_keeps_itself_in_six_methods(tmp_path):
    """A persistent agent on a user's own backend remembers; the backend is this agent's alone."""
    seen = []

    def answer(messages, _info):
        from pydantic_ai.messages import ModelResponse, TextPart

        seen.append(str(messages))
        return ModelResponse(parts=[TextPart("noted")])

    backend = SixMethods(tmp_path / "agents.json")
    for prompt in ("My name is Alice", "What is my name?"):
        kept = PersistentSession(storage=holdfast.open(DocumentStore(backend)))
        with Agent(FunctionModel(answer), agent_id="helper", persistent_session=kept) as agent:
            agent.run_sync(prompt)
    assert "Alice" in seen[-1]
    kept = json.loads(backend.file.read_text())["keys"]
    assert [key for key in kept if key.startswith("agents/")] == ["agents/helper"]
    assert "Alice" in str(kept)


def test_what_a_backend_raises_is_a_store_error(tmp_path):
    """A backend that fails is Unavailable, in its own words; what it did not take is not lost."""
    backend = SixMethods(tmp_path / "state.json")
    with holdfast.open(DocumentStore(backend)) as hf, hf.session("a") as s:
        s.user("hi")
        backend.save = lambda _: 1 / 0
        try:
            with pytest.raises(Unavailable, match="division by zero"):
                s.flush()
        finally:
            del backend.save
    with holdfast.open(DocumentStore(backend)) as hf:
        assert hf.recover("a", "neutral").messages[0]["content"] == "hi"


@pytest.mark.req("S0-83")
def test_a_document_of_a_newer_version_is_refused_by_name(tmp_path):
    """A state that a later release saved is not read half."""
    (tmp_path / "state.json").write_text('{"version": 9, "keys": {}}')
    with pytest.raises(TooNew, match="version 9"):
        DocumentStore(SixMethods(tmp_path / "state.json"))


@pytest.mark.req("S3-78")
def test_events_of_another_program_are_read(tmp_path):
    """Plain events, as objects, that were there before are the session's past."""
    backend = ThreeMethods(tmp_path)
    backend.read = lambda _: [{"type": "user", "timestamp": 1, "data": {"content": "hello"}}]
    (tmp_path / "old").touch()
    backend.exists = lambda name: name == "old"
    with holdfast.open(EventStore(backend)) as hf:
        assert [m["content"] for m in hf.recover("old", "neutral").messages] == ["hello"]


def test_an_object_without_methods_is_pointed_to_the_adapters():
    """Whoever hands over a plain object is told how it becomes a store."""
    with pytest.raises(HoldfastError) as raised:
        holdfast.open(object())
    assert "DocumentStore" in raised.value.remedy
