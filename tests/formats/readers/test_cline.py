"""Cline's sessions, and the tasks before them."""

from __future__ import annotations

import json

import pytest

from holdfast.formats.readers.cline import READER

OWN = "1760000000123_abcde"
AT = 1760000000500
MANIFEST = {
    "version": 1,
    "session_id": OWN,
    "started_at": "2025-10-09T08:53:20.123Z",
    "model": "m-0",
    "cwd": "/home/kim/map",
    "workspace_root": "/home/kim/map",
    "parent_session_id": "1750000000000_zzzzz",
    "metadata": {"title": "The map", "sessionHistoryOrigin": {"version": "3.1.0"}},
}
SCHEMA = """
CREATE TABLE sessions (session_id TEXT PRIMARY KEY, started_at TEXT, cwd TEXT, workspace_root TEXT,
  metadata_json TEXT, messages_path TEXT);
"""


def text(words):
    return {"type": "text", "text": words}


def messages():
    used = {"inputTokens": 14, "outputTokens": 6, "cost": 0.125}
    call = {"type": "tool_use", "id": "c1", "name": "read_files", "input": {"files": ["a"]}}
    result = [{"query": "a", "result": "north", "success": True}]
    return [
        {"id": "m1", "role": "user", "ts": AT, "content": [text('<user_input mode="act">Which way?</user_input>')]},
        {
            "id": "m2",
            "role": "assistant",
            "ts": AT + 10,
            "modelInfo": {"id": "m-1"},
            "metrics": used,
            "content": [{"type": "thinking", "thinking": "Map.", "signature": "c2ln"}, text("I look."), call],
        },
        {"id": "m3", "role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": result}]},
        {"id": "m4", "role": "assistant", "content": [text("North.")]},
    ]


def kept(found):
    value = {"version": 1, "sessionId": OWN, "origin": {"version": "3.1.0"}, "messages": found}
    return json.dumps(value | {"system_prompt": "You are Cline."}, indent=2).encode()


def files(found=None):
    return {
        f"{OWN}.json": json.dumps(MANIFEST, indent=2).encode(),
        f"{OWN}.messages.json": kept(messages() if found is None else found),
    }


@pytest.mark.req("C11")
@pytest.mark.parametrize("name", [f"{OWN}.messages.json", f"{OWN}.json"])
def test_a_session_arrives_whole_by_either_file(kit, name):
    """Turns, thoughts, calls with results, cost, title, place, time and parent."""
    told = kit.one(READER, kit.source(name, files()[name], files()))
    assert told.counts() == (1, 2, 1, 1, 1)
    assert told.said() == ["Which way?"]
    assert told.of("user")[0].timestamp == AT
    usage = told.of("usage")[0].data
    assert (usage["input_tokens"], usage["cost"], usage["model"]) == (14, 0.125, "m-1")
    foreign = told.foreign
    assert (foreign.foreign_id, foreign.title, foreign.cwd) == (OWN, "The map", "/home/kim/map")
    assert (foreign.version, foreign.parent) == ("3.1.0", "1750000000000_zzzzz")
    assert foreign.created_at == 1760000000123
    assert foreign.problems == []


def test_a_folder_gives_each_session_once(kit):
    """The manifest, the messages and the index are of one session."""
    row = (OWN, MANIFEST["started_at"], "/home/kim/map", "/home/kim/map", "{}", "/x")
    other = ("other", MANIFEST["started_at"], "/home/kim/map", "/home/kim/map", None, "/y")
    index = kit.database(SCHEMA, {"sessions": [row, other]})
    tree = {f"sessions/{OWN}/{name}": data for name, data in files().items()}
    found = kit.read(READER, kit.folder(tree | {"db/sessions.db": index}))
    assert [told.foreign.foreign_id for told in found] == [OWN, "other"]
    assert found[0].counts() == (1, 2, 1, 1, 1)
    assert "other.messages.json" in found[1].foreign.problems[0]


def test_messages_alone_are_a_session(kit):
    """Without the manifest, whatever the file is called."""
    told = kit.one(READER, kit.source("kept", kept(messages())))
    assert (told.foreign.foreign_id, told.counts()) == (OWN, (1, 2, 1, 1, 1))


def test_a_manifest_alone_says_what_is_missing(kit):
    """The session is known, its messages are not here."""
    told = kit.one(READER, kit.source(f"{OWN}.json", files()[f"{OWN}.json"]))
    assert told.counts() == (0, 0, 0, 0, 0)
    assert "not here" in told.foreign.problems[0]


@pytest.mark.parametrize("name", [f"{OWN}.messages.json", "kept"])
def test_of_a_file_that_was_cut_short_the_whole_messages_arrive(kit, name):
    """Cline rewrites the file; a crash in the middle of that must not cost all of it."""
    data = kept(messages())
    cut = data.index(b"North.") + 3
    told = kit.one(READER, kit.source(name, data[:cut]))
    assert told.counts() == (1, 1, 1, 1, 1)
    assert "what is whole was read" in told.foreign.problems[-1]


def test_a_file_without_any_whole_message_is_told(kit):
    """There is nothing to be had of it."""
    name = f"{OWN}.messages.json"
    told = kit.one(READER, kit.source(name, b'{"messages" [', files() | {name: b"{"}))
    assert "nothing of it" in told.foreign.problems[-1]


def test_pictures_and_native_failures(kit):
    """Blocks of the person, errors of the tools, words that came with a result."""
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    found = messages()
    found[0]["content"].append(picture)
    found[2]["content"][0] |= {"content": "<feedback>\nNo!\n</feedback>", "is_error": True}
    found[3]["content"].append({"type": "redacted_thinking", "data": "b3BhcXVl"})
    name = f"{OWN}.messages.json"
    told = kit.one(READER, kit.source(name, kept(found)))
    assert told.said() == [[text("Which way?"), picture], "No!"]
    assert told.of("tool_result")[0].data["is_error"] is True
    assert len(told.of("thinking")) == 2


def task():
    return [
        {"role": "user", "content": [text("<task>\nRun the tests\n</task>"), text(ENVIRONMENT)]},
        {
            "role": "assistant",
            "content": [text("I run them.\n<execute_command>\n<command>make</command>\n</execute_command>")],
        },
        {
            "role": "user",
            "content": [text("[execute_command for 'make'] Result:"), text("12 passed"), text(ENVIRONMENT)],
        },
        {"role": "assistant", "content": "<attempt_completion>\n<result>All pass.</result>\n</attempt_completion>"},
        {"role": "user", "content": [text("[attempt_completion] Result:\n<feedback>\nThanks, once more\n</feedback>")]},
    ]


PLACE = "# Current Working Directory (/home/kim/map) Files"
ENVIRONMENT = f"<environment_details>\n{PLACE}\na.py\n</environment_details>"


def test_tasks_of_earlier_versions(kit):
    """Calls and results were written into the text; they become calls and results."""
    shown = [{"ts": AT, "type": "say", "say": "task", "text": "Run the tests"}]
    name = "api_conversation_history.json"
    beside = {"ui_messages.json": json.dumps(shown).encode()}
    source = kit.source(name, json.dumps(task()).encode(), beside, folder="1760000000123")
    told = kit.one(READER, source)
    assert told.said() == ["Run the tests", "Thanks, once more"]
    assert told.said("assistant") == ["I run them."]
    assert [d.data["params"] for d in told.of("tool_call")] == [{"command": "make"}, {"result": "All pass."}]
    assert [d.data["result"].split()[0] for d in told.of("tool_result")] == ["12", "<feedback>"]
    foreign = told.foreign
    assert (foreign.foreign_id, foreign.title) == ("1760000000123", "Run the tests")
    assert (foreign.cwd, foreign.created_at) == ("/home/kim/map", 1760000000123)
    assert told.of("user")[0].timestamp == 1760000000123


def test_several_calls_in_one_text_and_refused_ones(kit):
    """Each has its result; a refusal is marked; a result without a call is kept."""
    found = [
        {"role": "user", "content": [text("Go")]},
        {"role": "assistant", "content": [text("<read_file><path>a</path></read_file><read_file><path>b")]},
        {"role": "user", "content": [text("[read_file for 'a'] Result:\nA")]},
        {"role": "user", "content": [text("[read_file for 'b'] Result:\nThe user denied this operation.")]},
        {"role": "user", "content": [text("[ERROR] You did not use a tool")]},
        {"role": "user", "content": [text("[list_files for '.'] Result:\na")]},
    ]
    source = kit.source("api_conversation_history.json", json.dumps(found).encode(), folder="t")
    told = kit.one(READER, source)
    assert [d.data["params"] for d in told.of("tool_call")] == [{"path": "a"}, {"path": "b"}]
    assert [d.data.get("is_error", False) for d in told.of("tool_result")] == [False, True, False]
    assert told.said() == ["Go"]


@pytest.mark.parametrize("data", [b"", b"{}", b'{"messages": []}', b"[1]"])
def test_other_files_are_not_claimed(kit, data):
    """The content decides."""
    assert not READER.claims(kit.source("a.json", data))
