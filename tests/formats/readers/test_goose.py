"""goose's database, and the files before it."""

from __future__ import annotations

import json
import sqlite3

import pytest

from holdfast.formats.readers.goose import READER

SCHEMA = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT, description TEXT, working_dir TEXT,
  created_at TIMESTAMP, accumulated_total_tokens INTEGER, accumulated_input_tokens INTEGER,
  accumulated_output_tokens INTEGER, model_config_json TEXT);
CREATE TABLE messages (id INTEGER PRIMARY KEY, message_id TEXT, session_id TEXT, role TEXT,
  content_json TEXT, created_timestamp INTEGER, metadata_json TEXT);
"""
AT = 1760000000


def text(words):
    return {"type": "text", "text": words}


def request(id, name="shell", **arguments):
    call = {"status": "success", "value": {"name": name, "arguments": arguments}}
    return {"type": "toolRequest", "id": id, "toolCall": call}


def response(id, result):
    return {"type": "toolResponse", "id": id, "toolResult": result}


def good(*content, is_error=False):
    return {"status": "success", "value": {"content": list(content), "isError": is_error}}


def talk():
    return [
        ("user", [text("How many rows?")]),
        ("assistant", [{"type": "thinking", "thinking": "Count.", "signature": "c2ln"}, text("I count.")]),
        ("assistant", [request("c1", command="wc -l a")]),
        ("user", [response("c1", good(text("12 a")))]),
        ("assistant", [text("Twelve.")]),
    ]


def row(number, session, role, content, *more):
    metadata, id = (*more, None, None)[:2]
    seen = json.dumps(metadata or {"userVisible": True, "agentVisible": True})
    named = id or f"m{number}"
    return (None, named, session, role, json.dumps(content), AT + number, seen)


def database(kit, messages):
    model = json.dumps({"model_name": "m-1"})
    session = ("20251009_1", "Rows", "", "/home/kim/data", "2025-10-09 08:53:20", 50, 40, 10, model)
    rows = [row(n, "20251009_1", *message) for n, message in enumerate(messages)]
    return kit.database(SCHEMA, {"sessions": [session], "messages": rows})


@pytest.fixture
def one(kit):
    def read(messages):
        return kit.one(READER, kit.source("sessions.db", database(kit, messages)))

    return read


@pytest.mark.req("C11")
def test_a_database_arrives_whole(one):
    """Turns, thoughts, calls with results, cost, title, place and time."""
    told = one(talk())
    assert told.counts() == (1, 2, 1, 1, 1)
    assert told.of("tool_call")[0].data["params"] == {"command": "wc -l a"}
    assert told.of("tool_result")[0].data["result"] == "12 a"
    usage = told.of("usage")[0].data
    assert (usage["input_tokens"], usage["output_tokens"], usage["model"]) == (40, 10, "m-1")
    foreign = told.foreign
    assert (foreign.foreign_id, foreign.title, foreign.cwd) == ("20251009_1", "Rows", "/home/kim/data")
    assert foreign.created_at == 1760000000000
    assert told.of("user")[0].timestamp == 1760000000000


def test_what_a_compaction_hid_from_the_model_is_still_a_turn(one):
    """The summary, which only the model sees, is none."""
    hidden = [(role, content, {"userVisible": True, "agentVisible": False}) for role, content in talk()]
    summary = ("user", [text("In short: twelve.")], {"userVisible": False, "agentVisible": True})
    assert one([*hidden, summary]).counts() == (1, 2, 1, 1, 1)


@pytest.mark.parametrize(
    ("outcome", "result"),
    [
        ({"status": "error", "error": "denied"}, "denied"),
        ({"Err": "denied"}, "denied"),
        (good(text("exit 1"), is_error=True), "exit 1"),
    ],
)
def test_failures_are_marked(one, outcome, result):
    """Whichever way the version writes them."""
    told = one([("user", [text("Go")]), ("assistant", [request("c")]), ("user", [response("c", outcome)])])
    data = told.of("tool_result")[0].data
    assert (data["result"], data["is_error"]) == (result, True)


def test_other_contents(one):
    """Pictures, reasoning, hidden thoughts, calls of a front end, results of any shape."""
    picture = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    told = one(
        [
            ("user", [text("<info-msg>It is noon</info-msg>"), text("See"), picture]),
            ("assistant", [{"type": "reasoning", "text": "Hm"}]),
            ("assistant", [{"type": "redactedThinking", "data": "b3BhcXVl"}]),
            ("assistant", [request("c1") | {"type": "frontendToolRequest"}, request("c2")]),
            ("user", [response("c1", good(text("a"), picture)), response("c2", {"Ok": [{"odd": 1}]})]),
            ("assistant", [{"type": "systemNotification", "msg": "x"}]),
        ]
    )
    assert told.counts() == (1, 0, 2, 2, 2)
    assert [block["type"] for block in told.said()[0]] == ["text", "image"]
    assert [b["type"] for b in told.of("tool_result")[0].data["result"]] == ["text", "image"]


def test_several_rows_of_one_message_stay_apart(one):
    """Streamed text is kept in rows with the same id."""
    told = one([("user", [text("Hi")], None, "u"), *(("assistant", [text(w)], None, "a") for w in "xy")])
    assert told.said("assistant") == ["x", "y"]


def test_messages_whose_session_is_missing_arrive(kit):
    """Their session is then known by its id alone."""
    data = kit.database(SCHEMA, {"messages": [row(0, "lost", "user", [text("Hi")])]})
    told = kit.one(READER, kit.source("sessions.db", data))
    assert (told.foreign.foreign_id, told.said()) == ("lost", ["Hi"])


def lines():
    head = {"working_dir": "/home/kim/data", "description": "Rows", "total_tokens": None}
    talked = enumerate(talk())
    return [head, *({"role": r, "created": AT + n, "content": c} for n, (r, c) in talked)]


def test_files_of_earlier_versions(kit):
    """A head, then a message in each line; a torn one is told."""
    data = kit.jsonl(*lines()) + b'{"role":"us'
    told = kit.one(READER, kit.source("20250601_101500.jsonl", data))
    assert told.counts() == (1, 2, 1, 1, 1)
    assert (told.foreign.foreign_id, told.foreign.title) == ("20250601_101500", "Rows")
    assert len(told.foreign.problems) == 1


def test_an_export_is_read(kit):
    """The session as one document."""
    head, *messages = lines()
    value = head | {"id": "20251009_4", "conversation": messages}
    told = kit.one(READER, kit.source("x.json", json.dumps(value, indent=1).encode()))
    assert told.counts() == (1, 2, 1, 1, 1)
    assert told.foreign.foreign_id == "20251009_4"


def test_a_truncated_database_gives_what_is_whole(kit):
    """And says that something is missing."""
    data = database(kit, [("user", [text("word " * 300)])] * 200)
    (told,) = kit.read(READER, kit.source("sessions.db", data[: len(data) // 2]))
    assert "missing" in told.foreign.problems[0]


def test_what_is_only_in_the_write_ahead_log_arrives(kit, tmp_path):
    """The newest words of a running tool are there."""
    path = tmp_path / "sessions.db"
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.executescript(SCHEMA)
    values = row(0, "s", "user", [text("Fresh")])
    writer.execute("INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?)", values)
    writer.commit()
    wal = {"sessions.db-wal": (tmp_path / "sessions.db-wal").read_bytes()}
    data = path.read_bytes()
    writer.close()
    assert kit.one(READER, kit.source("sessions.db", data, wal)).said() == ["Fresh"]
