"""The session messages of the bridge: as they were written down, and without the old mistakes."""

from __future__ import annotations

import datetime as dt
import json

import pytest

from holdfast.apps.wire.frames import utc

ERROR = {"type", "code", "message", "remedy"}


def past(hf, id, *texts, title=None):
    """A session with something said in it."""
    with hf.session(id, title=title) as session:
        for text in texts:
            session.user(text)
            session.assistant(f"yes, {text}")
    return id


@pytest.mark.req("S2-43")
@pytest.mark.req("S2-26")
def test_a_session_is_created_and_found(hf, talk):
    """It has its title and is listed at once, before anything is said in it."""
    created, listed = talk({"type": "session_create", "title": "Trip"}, {"type": "session_list", "limit": 5})
    assert created == {"type": "session_created", "session_id": created["session_id"]}
    assert [info["title"] for info in listed["sessions"]] == ["Trip"]
    assert hf.info(created["session_id"]).title == "Trip"


@pytest.mark.req("S2-43")
def test_sessions_created_in_one_moment_differ(talk):
    """An earlier system gave two sessions of one second the same id."""
    ids = [answer["session_id"] for answer in talk(*[{"type": "session_create"}] * 5)]
    assert len(set(ids)) == 5


@pytest.mark.req("S2-44")
@pytest.mark.req("S2-27")
def test_saving_needs_a_current_session(talk):
    """Without one the answer is no, with the reason; with one it is yes."""
    nothing, _, something = talk({"type": "session_save"}, {"type": "session_create"}, {"type": "session_save"})
    assert nothing["type"] == "session_saved"
    assert nothing["success"] is False
    assert nothing["error"]["code"] == "usage"
    assert something == {"type": "session_saved", "success": True}


@pytest.mark.req("S2-44")
async def test_a_loaded_session_is_saved_unless_it_is_gone(hf, connect):
    """There is nothing to do where nothing was said; the answer is no once it was deleted."""
    past(hf, "trip", "go")
    client = await connect()
    await client.ask(type="session_load", session_id="trip")
    assert await client.ask(type="session_save") == {"type": "session_saved", "success": True}
    hf.delete("trip")
    saved = await client.ask(type="session_save")
    assert (saved["success"], saved["error"]["code"]) == (False, "not_found")


@pytest.mark.req("S2-45")
@pytest.mark.req("S2-28")
def test_loading_counts_the_messages(hf, talk):
    """The answer has the id and the number of messages, and nobody is locked out by it."""
    past(hf, "trip", "go", "stay")
    [loaded] = talk({"type": "session_load", "session_id": "trip"})
    assert loaded == {"type": "session_loaded", "session_id": "trip", "message_count": 4}


@pytest.mark.req("S2-45")
@pytest.mark.parametrize(("id", "code"), [("missing", "not_found"), ("../../etc", "invalid_id"), ("", "invalid_id")])
@pytest.mark.req("S2-28", "S2-36")
def test_what_cannot_be_loaded_is_told(ask, id, code):
    """An error in kind names the request and what to do."""
    answer = ask({"type": "session_load", "session_id": id})
    assert set(answer) == ERROR | {"request"}
    assert (answer["request"], answer["code"]) == ("session_load", code)


def test_a_failed_load_keeps_the_current_session(hf, talk):
    """What was current before stays so."""
    past(hf, "trip", "go")
    *_, exported = talk(
        {"type": "session_load", "session_id": "trip"},
        {"type": "session_load", "session_id": "missing"},
        {"type": "session_export", "format": "markdown"},
    )
    assert "yes, go" in exported["content"]


@pytest.mark.req("S2-46", "S2-49")
@pytest.mark.req("S0-14")
def test_the_list_is_newest_first_and_typed(hf, ask):
    """Every row has the fields of SessionInfo: times in UTC, and a title or none, never null."""
    past(hf, "old", "one", title="First")
    with hf.session("bare") as session:
        session.append("metadata", {"a": 1})
    answer = ask({"type": "session_list"})
    assert answer["type"] == "session_list_result"
    bare, old = answer["sessions"]
    assert set(old) == {
        "session_id",
        "title",
        "created_at",
        "updated_at",
        "message_count",
        "total_tokens",
        "tokens_estimated",
    }
    assert old["tokens_estimated"] is True
    assert "tokens_estimated" not in bare
    assert (old["session_id"], old["title"], old["message_count"]) == ("old", "First", 2)
    assert bare["session_id"] == "bare"
    assert "title" not in bare
    assert dt.datetime.fromisoformat(bare["created_at"]).utcoffset() == dt.timedelta(0)
    assert bare["created_at"].endswith("Z")


@pytest.mark.req("S2-46")
@pytest.mark.parametrize(("limit", "count"), [(None, 12), (3, 3), (0, 0), (2**53 - 1, 12)])
def test_the_limit_of_a_list(hf, ask, limit, count):
    """Without a limit all are listed, as the document has it."""
    for number in range(12):
        past(hf, f"s{number}", "x")
    assert len(ask({"type": "session_list", "limit": limit})["sessions"]) == count


@pytest.mark.req("S2-47")
@pytest.mark.req("S2-36")
def test_deleting_says_yes_or_no(hf, talk):
    """A session that is there goes to the trash; one that is not gives no, with the reason."""
    past(hf, "trip", "go")
    yes, no, never = talk(
        {"type": "session_delete", "session_id": "trip"},
        {"type": "session_delete", "session_id": "trip"},
        {"type": "session_delete", "session_id": "../trip"},
    )
    assert yes == {"type": "session_deleted", "success": True}
    assert (no["type"], no["success"], no["error"]["code"]) == ("session_deleted", False, "not_found")
    assert (never["success"], never["error"]["code"]) == (False, "invalid_id")
    assert [found.session_id for found in hf.trash.list()] == ["trip"]


@pytest.mark.req("S2-47")
def test_going_on_after_the_current_session_was_deleted(hf, talk):
    """What is said then begins a session that is listed; an earlier system lost it."""
    past(hf, "trip", "go")
    told = talk(
        {"type": "initialize", "demo_mode": True},
        {"type": "session_load", "session_id": "trip"},
        {"type": "session_delete", "session_id": "trip"},
        {"type": "query", "query": "still here"},
    )
    assert told[2] == {"type": "session_deleted", "success": True}
    began = told[-1]["session_id"]
    assert began != "trip"
    assert [info.session_id for info in hf.list()] == [began]


@pytest.mark.req("S2-47")
def test_a_session_that_is_open_elsewhere_stays(hf, ask):
    """Whoever writes it is not robbed of it; the answer is no."""
    with hf.session("trip") as session:
        session.user("go")
        answer = ask({"type": "session_delete", "session_id": "trip"})
    assert (answer["success"], answer["error"]["code"]) == (False, "locked")


@pytest.mark.req("S2-48")
def test_exports_of_the_current_and_of_another_session(hf, talk):
    """An export of another session does not change the current one, as it once did."""
    past(hf, "one", "first words")
    past(hf, "two", "second words")
    _, other, mine = talk(
        {"type": "session_load", "session_id": "one"},
        {"type": "session_export", "session_id": "two", "format": "json"},
        {"type": "session_export", "format": "markdown"},
    )
    assert set(other) == {"type", "content"}
    assert json.loads(other["content"])
    assert "second words" in other["content"]
    assert "first words" in mine["content"]


@pytest.mark.req("S2-31", "S2-48")
def test_an_export_without_a_session_is_empty(ask):
    """There is nothing to export, which is no error."""
    answer = ask({"type": "session_export", "format": "markdown"})
    assert answer == {"type": "session_exported", "content": ""}


@pytest.mark.req("S2-48")
@pytest.mark.parametrize("format", ["pdf", "bundle", ""])
def test_formats_that_no_message_carries(hf, ask, format):
    """Unknown ones, and bytes, are told."""
    past(hf, "trip", "go")
    answer = ask({"type": "session_export", "session_id": "trip", "format": format})
    assert (answer["type"], answer["code"]) == ("error", "usage")


@pytest.mark.req("S2-48")
def test_an_export_that_is_too_long_is_told(hf, ask, monkeypatch):
    """It is refused, not cut."""
    monkeypatch.setattr("holdfast.apps.ipc._session.EXPORT_CHARS_MAX", 10)
    past(hf, "trip", "go")
    answer = ask({"type": "session_export", "session_id": "trip", "format": "text"})
    assert answer["code"] == "too_large"


def test_what_is_not_recorded_is_in_no_session(ask, hf):
    """A title that cannot be recorded is told, and no session is left behind."""
    answer = ask({"type": "session_create", "title": "x" * 2_000_000})
    assert answer["type"] == "error"
    assert hf.list() == []


def test_moments_that_no_calendar_has():
    """A clock that was wrong by ages does not break the list."""
    assert utc(0) == "1970-01-01T00:00:00.000Z"
    assert utc(10**18) == "9999-12-31T23:59:59.999Z"
    assert utc(-(10**18)) == "0001-01-01T00:00:00.000Z"


@pytest.mark.req("S2-84")
def test_every_method_gives_what_its_message_gives(hf, talk):
    """The JSON-RPC names lead to the same answers, by the method or by the tag."""
    past(hf, "trip", "go")
    asked = {"session_id": "trip"}
    tagged, method, alias = talk(
        {"type": "session_load", **asked},
        {"jsonrpc": "2.0", "id": "a", "method": "session.load", "params": asked},
        {"jsonrpc": "2.0", "id": 2, "method": "session_load", "params": asked},
    )
    del tagged["type"]
    assert method == {"jsonrpc": "2.0", "id": "a", "result": tagged}
    assert alias == {"jsonrpc": "2.0", "id": 2, "result": tagged}


def test_what_sessions_wait_for_is_listed_and_answered(hf, talk):
    """Of all sessions, by the beginning of an id; the same answer again is the same, another one is refused."""
    with hf.session("bill") as s:
        s.append("tool_call", {"id": "c1", "tool": "pay", "params": {"amount": 90}, "begun": False})
        s.append("suspended", {"id": "0123456789ab", "kind": "permission", "call": "c1", "tool": "pay"})
    answer = {"type": "waiting_answer", "question": "0123456789ab", "decision": "deny", "because": "not today"}
    listed, told, again, other, same, none = talk(
        {"type": "waiting_list", "session_id": "bill"},
        {**answer, "question": "0123"},
        answer,
        {**answer, "decision": "result", "result": 1},
        {"jsonrpc": "2.0", "id": 0, "method": "waiting.answer", "params": {**answer, "decision": "allow"}},
        {"jsonrpc": "2.0", "id": 1, "method": "waiting.list"},
    )
    assert [(one["id"], one["args"]) for one in listed["waiting"]] == [("0123456789ab", {"amount": 90})]
    assert (told["decision"], told["reason"], told["via"]) == ("deny", "not today", "bridge")
    assert again["at"] == told["at"]
    assert (other["type"], other["code"]) == ("error", "question_settled")
    assert (same["error"]["code"], same["error"]["data"]["code"]) == (-32602, "question_settled")
    assert "answered already: denied by" in other["message"]
    assert none["result"]["waiting"] == []
