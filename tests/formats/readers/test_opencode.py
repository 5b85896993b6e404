"""opencode's database, exports and folders."""

from __future__ import annotations

import json

import pytest

from holdfast.formats.readers.opencode import READER

SCHEMA = """
CREATE TABLE session (id TEXT PRIMARY KEY, parent_id TEXT, directory TEXT, title TEXT,
  version TEXT, revert TEXT, time_created INTEGER);
CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT);
CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, data TEXT);
"""
AT = 1760000000000
INFO = {
    "id": "ses_1",
    "directory": "/home/kim/site",
    "title": "The footer",
    "version": "1.2.0",
    "time": {"created": AT},
}


def text(id, words, **members):
    return {"id": id, "type": "text", "text": words, **members}


def tool(id, call, **state):
    return {"id": id, "type": "tool", "tool": "read", "callID": call, "state": state}


def about(id, role, at, **members):
    model = {"modelID": "m-1", "providerID": "p"} if role == "assistant" else {}
    return {"id": id, "role": role, "time": {"created": AT + at}, **model, **members}


def messages():
    done = tool("prt_4", "c1", status="completed", input={"f": 1}, output="<footer>")
    tokens = {"input": 11, "output": 5, "cache": {"read": 3, "write": 0}}
    return [
        (about("msg_1", "user", 1), [text("prt_1", "Where is the footer?")]),
        (
            about("msg_2", "assistant", 2, tokens=tokens, cost=0.25),
            [
                {"id": "prt_2", "type": "step-start"},
                {
                    "id": "prt_3",
                    "type": "reasoning",
                    "text": "Search.",
                    "metadata": {"anthropic": {"signature": "c2ln"}},
                },
                done,
                text("prt_5", "In base.html."),
                {"id": "prt_6", "type": "step-finish", "tokens": tokens},
            ],
        ),
    ]


def export(found, **info):
    value = {"info": INFO | info, "messages": [{"info": a, "parts": p} for a, p in found]}
    return json.dumps(value, indent=2).encode()


def without_id(record):
    return json.dumps({name: value for name, value in record.items() if name != "id"})


def database(kit, sessions):
    rows = {"session": [], "message": [], "part": []}
    for info, found in sessions:
        revert = json.dumps(info["revert"]) if "revert" in info else None
        row = (info["id"], info.get("parentID"), info["directory"], info["title"], info["version"])
        rows["session"].append((*row, revert, info["time"]["created"]))
        for given, parts in found:
            at = given["time"]["created"]
            rows["message"].append((given["id"], info["id"], at, without_id(given)))
            rows["part"] += [(p["id"], given["id"], info["id"], without_id(p)) for p in parts]
    return kit.database(SCHEMA, rows)


@pytest.fixture
def one(kit):
    def read(found, **info):
        return kit.one(READER, kit.source("export.json", export(found, **info)))

    return read


@pytest.mark.req("C11")
def test_an_export_arrives_whole(one):
    """Turns, thoughts, calls with results, cost, title, place and time."""
    told = one(messages())
    assert told.counts() == (1, 1, 1, 1, 1)
    assert told.of("thinking")[0].data["signature"] == "c2ln"
    assert told.of("assistant")[0].data["model"] == "m-1"
    usage = told.of("usage")[0].data
    assert (usage["input_tokens"], usage["cache_read_tokens"], usage["cost"]) == (11, 3, 0.25)
    foreign = told.foreign
    assert (foreign.title, foreign.cwd, foreign.version) == ("The footer", "/home/kim/site", "1.2.0")
    assert (foreign.created_at, told.of("user")[0].timestamp) == (AT, AT + 1)


def test_a_database_gives_every_session(kit):
    """The same session has the same keys there as in its export."""
    other = INFO | {"id": "ses_2", "parentID": "ses_1", "title": "New session - 2025-10-09"}
    data = database(kit, [(INFO, messages()), (other, [])])
    first, second = kit.read(READER, kit.source("opencode.db", data))
    exported = kit.one(READER, kit.source("e.json", export(messages())))
    assert [d.key for d in first.drafts] == [d.key for d in exported.drafts]
    assert first.counts() == (1, 1, 1, 1, 1)
    assert (second.foreign.parent, second.foreign.title) == ("ses_1", None)
    assert first.of("user")[0].data["raw"] == without_id(messages()[0][1][0])


def test_a_damaged_database_gives_what_is_whole(kit):
    """And says that something is missing."""
    found = [(about(f"msg_{n:04d}", "user", n), [text(f"prt_{n:04d}", "long " * 200)]) for n in range(300)]
    data = bytearray(database(kit, [(INFO, found)]))
    middle = len(data) // 2
    data[middle : middle + 20_000] = b"\xff" * 20_000
    (told,) = kit.read(READER, kit.source("opencode.db", bytes(data)))
    assert 0 < len(told.said()) < 300
    assert "missing" in told.foreign.problems[0]


def test_folders_of_earlier_versions(kit):
    """One file for each session, message and part; a torn one is told."""
    files = {"storage/session/p1/ses_1.json": json.dumps(INFO).encode()}
    for given, parts in messages():
        files[f"storage/message/ses_1/{given['id']}.json"] = json.dumps(given).encode()
        for part in parts:
            files[f"storage/part/{given['id']}/{part['id']}.json"] = json.dumps(part).encode()
    files["storage/part/msg_2/prt_9.json"] = b'{"type'
    told = kit.one(READER, kit.folder(files))
    assert told.counts() == (1, 1, 1, 1, 1)
    assert "prt_9" in told.foreign.problems[0]


def test_failed_and_unfinished_calls(one):
    """An error is marked; a call without an end has no result."""
    found = messages()
    found[1][1].append(tool("prt_7", "c2", status="error", input={}, error="denied"))
    found[1][1].append(tool("prt_8", "c3", status="running", input={}))
    told = one(found)
    assert told.counts() == (1, 1, 1, 3, 2)
    assert told.of("tool_result")[1].data["is_error"] is True


def test_pictures_of_people_and_tools(one):
    """Both are blocks."""
    url = "data:image/png;base64,aGk="
    found = messages()
    found[0][1].append({"id": "prt_1b", "type": "file", "mime": "image/png", "url": url})
    found[0][1].append({"id": "prt_1c", "type": "file", "mime": "text/plain", "url": "file:///a"})
    shown = [{"type": "file", "url": url}]
    state = {"status": "completed", "input": {}, "output": "seen", "attachments": shown}
    found[1][1].append(tool("prt_7", "c2", **state))
    told = one(found)
    assert [block["type"] for block in told.said()[0]] == ["text", "image"]
    assert [b["type"] for b in told.of("tool_result")[1].data["result"]] == ["text", "image"]


def test_what_the_tool_adds_is_no_turn(one):
    """Expanded files and summaries stay as frames."""
    found = messages()
    found[0][1].append(text("prt_1b", "Called the Read tool", synthetic=True))
    found.append((about("msg_3", "assistant", 3, summary=True), [text("prt_9", "In short")]))
    assert one(found).counts() == (1, 1, 1, 1, 1)


def test_what_was_undone_is_set_aside(one):
    """From the message on that the session was taken back to."""
    found = [*messages(), (about("msg_3", "user", 3), [text("prt_9", "Undo me")])]
    told = one(found, revert={"messageID": "msg_3"})
    assert told.said() == ["Where is the footer?"]
    assert told.said(run="reverted") == ["Undo me"]


@pytest.mark.parametrize("data", [b"", b"[]", b'{"info": 3, "messages": []}', b"SQLite format 3\0xx"])
def test_other_files_are_not_claimed(kit, data):
    """The content decides."""
    assert not READER.claims(kit.source("opencode.db", data))


def test_parallel_calls_stay_together(one):
    """Both come before the first result, as the model made them in one answer."""
    found = messages()
    ended = {"status": "completed", "input": {}, "output": "b", "time": {"start": AT, "end": AT + 9}}
    found[1][1].insert(3, tool("prt_4b", "c2", **ended))
    told = one(found)
    kinds = [d.type for d in told.drafts if d.type.startswith("tool")]
    assert kinds == ["tool_call", "tool_call", "tool_result", "tool_result"]
    assert AT + 9 in {d.timestamp for d in told.of("tool_result")}


def test_messages_of_the_newer_tables(kit):
    """Where the older ones are empty, these are read."""
    script = (
        SCHEMA + "CREATE TABLE session_message (id TEXT, session_id TEXT, type TEXT, seq INTEGER,"
        " time_created INTEGER, data TEXT);"
    )
    done = {"status": "completed", "input": {"f": 1}, "content": [{"type": "text", "text": "x"}]}
    failed = {"status": "error", "input": {}, "content": [], "error": {"message": "denied"}}
    picture = {"uri": "data:image/png;base64,aGk=", "mime": "image/png"}
    content = [
        {"type": "reasoning", "text": "Hm", "providerMetadata": {"a": {"signature": "c2ln"}}},
        {"type": "text", "id": "t", "text": "I look."},
        {"type": "tool", "id": "c1", "name": "read", "state": done, "time": {"completed": AT + 5}},
        {"type": "tool", "id": "c2", "name": "bash", "state": failed},
    ]
    used = {"model": {"id": "m-2"}, "tokens": {"input": 3, "output": 1}}
    rows = [
        ("msg_1", "ses_1", "user", 1, AT + 1, {"text": "Where?", "files": [picture]}),
        ("msg_2", "ses_1", "assistant", 2, AT + 2, {"content": content} | used),
        ("msg_3", "ses_1", "compaction", 3, AT + 3, {"summary": "In short"}),
    ]
    rows = [(*row[:5], json.dumps(row[5])) for row in rows]
    session = ("ses_1", None, "/home/kim/site", "The footer", "2.0.0", None, AT)
    data = kit.database(script, {"session": [session], "session_message": rows})
    told = kit.one(READER, kit.source("opencode.db", data))
    assert told.counts() == (1, 1, 1, 2, 2)
    assert told.said()[0][0] == {"type": "text", "text": "Where?"}
    assert [d.data["result"] for d in told.of("tool_result")] == ["x", "denied"]
    assert told.of("usage")[0].data["model"] == "m-2"
    assert told.of("user")[0].timestamp == AT + 1
