"""The event logger: everything in order, the agent never disturbed."""

from __future__ import annotations

import errno
import logging
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.errors import InvalidData, Locked, StoreFull, UsageError
from holdfast.library import Holdfast
from holdfast.storage import FileStore
from holdfast.testing import FaultyDisk

OWN = {"session_start", "opened", "closed"}


def logged(library, id="session-123"):
    """What the logger recorded, without what the session says of itself."""
    return [event for event in library.events(id) if event.type not in OWN]


@pytest.fixture
def log(hf):
    with holdfast.EventLogger(hf, "session-123") as logger:
        yield logger


@pytest.mark.req("S3-25")
@pytest.mark.req("S3-26")
def test_messages_have_the_fields_of_the_log(hf, log):
    """A user's and an agent's message are recorded with role, content and agent."""
    log.log_user_message("Hello")
    log.log_assistant_message("orchestrator", "Hi", usage={"output_tokens": 1})
    user, assistant = logged(hf)
    assert (user.type, user.data) == ("user", {"role": "user", "content": "Hello"})
    assert assistant.data == {
        "role": "assistant",
        "content": "Hi",
        "usage": {"output_tokens": 1},
        "agent": "orchestrator",
    }


@pytest.mark.req("S3-27")
@pytest.mark.req("S3-28")
@pytest.mark.req("S3-24")
def test_a_call_and_its_result_make_a_pair(hf, log):
    """The id that a call returns joins its result, and the conversation is valid."""
    log.log_user_message("read it")
    id = log.log_tool_call("orchestrator", "Read", {"path": "a.txt"})
    log.log_tool_result("orchestrator", "Read", id, {"content": "text"})
    log.log_assistant_message("orchestrator", "done")
    _, call, result, _ = logged(hf)
    assert call.data == {"id": id, "tool": "Read", "params": {"path": "a.txt"}, "agent": "orchestrator"}
    assert result.data == {"toolCallId": id, "result": {"content": "text"}}
    blocks = hf.recover("session-123").messages[1]["content"]
    assert [block["type"] for block in blocks] == ["tool_use"]


@pytest.mark.req("S3-31")
def test_an_id_that_only_the_result_knows_finds_its_call(hf, log):
    """A result under a strange id belongs to the oldest open call of its agent and tool."""
    first = log.log_tool_call("a", "Read", {"path": "1"})
    second = log.log_tool_call("a", "Read", {"path": "2"})
    other = log.log_tool_call("b", "Read", {"path": "3"})
    log.log_tool_result("a", "Read", "toolu_1", "one")
    log.log_tool_result("b", "Read", None, "three")
    log.log_tool_result("a", "Read", "toolu_2", "two")
    results = {e.data["result"]: e.data["toolCallId"] for e in logged(hf) if "result" in e.data}
    assert results == {"one": first, "two": second, "three": other}
    assert log.call_ids["toolu_1"] == first
    assert log.call_ids["toolu_2"] == second


@pytest.mark.req("S3-31")
def test_a_given_id_is_kept(hf, log):
    """The agent's own call id is the recorded one, whatever the order of the results."""
    log.log_tool_call("a", "Read", {}, tool_id="call_1")
    log.log_tool_call("a", "Read", {}, tool_id="call_2")
    log.log_tool_result("a", "Read", "call_2", "two", is_error=True)
    log.log_tool_result("a", "Read", "call_1", "one")
    results = [e.data for e in logged(hf) if e.type == "tool_result"]
    assert results == [
        {"toolCallId": "call_2", "result": "two", "is_error": True},
        {"toolCallId": "call_1", "result": "one"},
    ]


@pytest.mark.req("S3-29")
def test_the_life_of_agents_and_todos_are_recorded(hf, log):
    """Starts, rounds, ends, failures, delegations and todos each have their event."""
    log.log_agent_start("main", "plan", depth=0)
    log.log_agent_iteration("main", 1)
    log.log_delegation("main", "helper", "look")
    log.log_agent_start("helper", parent="main", depth=1)
    log.log_agent_error("helper", ValueError("no"))
    log.log_delegation_complete("main", "helper", "nothing")
    log.log_thinking("main", "hm", signature="s")
    log.log_system_message("be brief")
    log.log_todo_update([{"content": "book", "status": "pending", "activeForm": "Booking"}])
    log.log_agent_complete("main", 12.5)
    assert [(event.type, event.data) for event in logged(hf)] == [
        ("agent_start", {"agent": "main", "task": "plan", "depth": 0}),
        ("agent_iteration", {"agent": "main", "iteration": 1}),
        ("delegation", {"parent": "main", "child": "helper", "task": "look"}),
        ("agent_start", {"agent": "helper", "parent": "main", "depth": 1}),
        ("agent_error", {"agent": "helper", "error": "ValueError: no"}),
        ("delegation_complete", {"parent": "main", "child": "helper", "result": "nothing"}),
        ("thinking", {"content": "hm", "signature": "s", "agent": "main"}),
        ("system", {"role": "system", "content": "be brief"}),
        ("todo_update", {"todos": [{"content": "book", "status": "pending", "activeForm": "Booking"}]}),
        ("agent_complete", {"agent": "main", "duration": 12.5}),
    ]
    assert hf.state("session-123").todos[0]["content"] == "book"


def test_it_is_recorded_when_the_call_returns(hf, store_root, log):
    """Another reader sees an event as soon as its call has returned: there is no queue to lose."""
    log.log_user_message("Hello")
    with Holdfast(store_root) as other:
        assert [event.type for event in logged(other)] == ["user"]


def test_threads_lose_nothing(hf, log):
    """Events of many threads are all recorded, each thread's in its order."""

    def work(name):
        for number in range(50):
            log.log_assistant_message(name, str(number))

    threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    events = logged(hf)
    for name in ("t0", "t1", "t2", "t3"):
        mine = [event.data["content"] for event in events if event.data["agent"] == name]
        assert mine == [str(number) for number in range(50)]
    assert log.errors == 0


@pytest.mark.req("S3-30")
def test_a_full_store_disturbs_nothing_and_loses_nothing(store_root, caplog):
    """While the disk is full events wait; once there is space they are recorded in order."""
    disk = FaultyDisk(call="write", errno=errno.ENOSPC, persistent=True)
    with Holdfast(FileStore(store_root, disk=disk), timers=False) as library:
        log = holdfast.EventLogger(library, "session-123")
        log.log_user_message("one")
        disk.nth = disk.counts["write"] + 1
        with caplog.at_level(logging.WARNING, "holdfast"):
            log.log_assistant_message("a", "two")
            log.log_assistant_message("a", "three")
        assert (log.errors, log.waiting) == (2, 2)
        assert isinstance(log.last_error, StoreFull)
        assert len(caplog.records) == 1
        assert not log.flush()
        disk.nth = 0
        log.log_user_message("four")
        assert (log.waiting, log.flush()) == (0, True)
        contents = [event.data["content"] for event in logged(library)]
        assert contents == ["one", "two", "three", "four"]
        assert log.close()


@pytest.mark.req("S3-30")
def test_a_failing_sync_is_counted_and_the_session_opened_anew(store_root):
    """After the medium refused a sync the logger goes on with a fresh session object."""
    disk = FaultyDisk(call="sync", persistent=True)
    with Holdfast(FileStore(store_root, disk=disk), timers=False) as library:
        log = holdfast.EventLogger(library, "session-123")
        log.log_user_message("one")
        disk.nth = disk.counts["sync"] + 1
        assert not log.flush()
        assert log.last_error.code == "sync_failed"
        disk.nth = 0
        log.log_user_message("two")
        assert [event.data["content"] for event in logged(library) if event.type == "user"] == ["one", "two"]
        assert log.close()


@pytest.mark.req("S3-30")
def test_a_session_that_another_process_writes_is_waited_for(store_root, hf):
    """While another writer has the session events wait, and are recorded when it is free."""
    log = holdfast.EventLogger(hf, "session-123")
    with Holdfast(FileStore(store_root), timers=False) as other:
        # The same process would be given the same live session: hold the lease itself.
        lease = other.store.lease("sessions/session-123")
        lease.acquire("other", 1000)
        log.log_user_message("one")
        assert isinstance(log.last_error, Locked)
        lease.release()
    log.log_user_message("two")
    assert [event.data["content"] for event in logged(hf)] == ["one", "two"]
    log.close()


def test_what_waits_is_bounded(hf, store_root):
    """A store that stays away does not fill the agent's memory: the oldest events go."""
    lease = FileStore(store_root).lease("sessions/session-123")
    lease.acquire("other", 1000)
    log = holdfast.EventLogger(hf, "session-123")
    for number in range(1010):
        log.log_user_message(str(number))
    assert (log.errors, log.waiting) == (1010, 1000)
    lease.release()
    assert log.flush()
    assert logged(hf)[0].data["content"] == "10"
    log.close()


def test_a_damaged_session_is_mended_and_goes_on(hf, store_root, log):
    """A bad record in the middle is repaired at the first event."""
    with hf.session("session-123") as session:
        for number in range(5):
            session.user(f"text {number}")
    path = store_root / "sessions" / "session-123" / "events.jsonl"
    path.write_bytes(path.read_bytes().replace(b"text 2", b"text X"))
    log.log_user_message("after")
    assert log.errors == 0
    assert logged(hf)[-1].data["content"] == "after"
    assert hf.verify("session-123").ok


@pytest.mark.req("S3-30")
def test_a_closed_library_is_counted(hf, log):
    """After the store was closed a call does nothing but count."""
    hf.close()
    log.log_user_message("late")
    assert log.errors == 1
    assert isinstance(log.last_error, UsageError)
    assert log.waiting == 0


def test_a_closed_logger_counts_and_closes_once(hf):
    """Closing twice is harmless; what comes later is counted and goes nowhere."""
    log = holdfast.EventLogger(hf, "session-123")
    log.log_user_message("in time")
    assert log.close()
    assert log.close()
    log.log_user_message("late")
    assert (log.errors, len(logged(hf))) == (1, 1)
    assert "session-123" in repr(log)


def test_an_invalid_session_id_is_counted(hf):
    """Even a wrong session id reaches the counter and not the agent."""
    log = holdfast.EventLogger(hf, "../escape")
    log.log_user_message("one")
    assert log.errors == 1
    assert log.last_error.code == "invalid_id"


def test_what_json_does_not_know_is_recorded_as_text(hf, log):
    """A result that is some object is recorded as its text, and a loop is counted."""

    class Thing:
        def __str__(self):
            return "a thing"

    id = log.log_tool_call("a", "Make")
    log.log_tool_result("a", "Make", id, {"made": Thing()})
    assert logged(hf)[-1].data["result"] == {"made": "a thing"}
    loop = []
    loop.append(loop)
    log.log_tool_result("a", "Make", id, loop)
    assert isinstance(log.last_error, InvalidData)


def test_later_changes_of_what_was_logged_do_not_count(hf, store_root):
    """What waits is a copy: the agent may go on changing its own data."""
    lease = FileStore(store_root).lease("sessions/session-123")
    lease.acquire("other", 1000)
    log = holdfast.EventLogger(hf, "session-123")
    todos = [{"content": "book", "status": "pending"}]
    log.log_todo_update(todos)
    todos[0]["content"] = "changed"
    lease.release()
    log.close()
    assert logged(hf)[0].data["todos"][0]["content"] == "book"


METHODS = [name for name in dir(holdfast.EventLogger) if name.startswith("log_")]
ANYTHING = st.recursive(
    st.none() | st.integers() | st.floats() | st.text() | st.binary() | st.builds(object),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=8,
)


@pytest.mark.req("S3-30")
@settings(max_examples=100)
@given(calls=st.lists(st.tuples(st.sampled_from(METHODS), ANYTHING, ANYTHING), max_size=5))
def test_no_argument_whatever_disturbs_the_agent(calls):
    """Whatever is passed, a call returns; nothing but a wrong number of arguments raises."""
    needs = {"log_tool_result": 4, "log_tool_call": 2, "log_delegation": 2}
    with Holdfast("memory:", timers=False) as library:
        log = holdfast.EventLogger(library, "session-123")
        for name, first, second in calls:
            one = name in ("log_user_message", "log_system_message", "log_todo_update")
            count = 1 if one else needs.get(name, 2)
            getattr(log, name)(*[first, second, first, second][:count])
        log.close()
