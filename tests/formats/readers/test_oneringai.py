"""oneringai: session files, journals and the index."""

from __future__ import annotations

import json

import pytest

import holdfast

pytestmark = pytest.mark.req("C20")

CREATED = "2026-02-11T08:00:00.000Z"
SAVED = "2026-02-11T09:30:00.500Z"
CREATED_MS = 1770796800000
SAVED_MS = 1770802200500


def text(words, kind="input_text"):
    """A part of a message."""
    return {"type": kind, "text": words}


def message(role, *parts, **extra):
    """An item of a conversation."""
    return {"type": "message", "role": role, "content": list(parts), **extra}


CONVERSATION = [
    message("developer", text("Answer shortly.")),
    message("user", text("What is in a.txt?"), id="m1"),
    message(
        "assistant",
        {"type": "thinking", "thinking": "I should look.", "signature": "c2ln", "persistInHistory": True},
        text("I look.", "output_text"),
        {"type": "tool_use", "id": "t1", "name": "read", "arguments": '{"path": "a.txt"}'},
        id="m2",
    ),
    message(
        "user",
        {
            "type": "tool_result",
            "tool_use_id": "t1",
            "content": "forty-two",
            "__images": [{"base64": "aGk=", "mediaType": "image/png"}],
        },
        id="m3",
    ),
    message("assistant", text("It says forty-two.", "output_text"), id="m4"),
]
MEMORY = {
    "version": 1,
    "entries": [
        {
            "key": "prefs",
            "description": "how it should look",
            "value": {"theme": "dark"},
            "scope": "persistent",
            "sizeBytes": 16,
            "basePriority": "high",
            "pinned": True,
        }
    ],
}
IN_CONTEXT = {
    "entries": [
        {
            "key": "goal",
            "description": "what for",
            "value": "finish",
            "updatedAt": 1770800000000,
            "priority": "critical",
            "showInUI": True,
        }
    ]
}


def session(**changes):
    """A session file."""
    return {
        "version": 1,
        "sessionId": "Trip Planner!",
        "createdAt": CREATED,
        "lastSavedAt": SAVED,
        "state": {
            "conversation": CONVERSATION,
            "pluginStates": {"working_memory": MEMORY, "in_context_memory": IN_CONTEXT, "other": {"counter": 3}},
            "systemPrompt": "You plan trips.",
            "metadata": {"savedAt": SAVED_MS, "agentId": "planner", "model": "m-1"},
        },
        "metadata": {"title": "A trip", "tags": ["travel", "work"]},
        **changes,
    }


@pytest.fixture
def place(tmp_path):
    """The sessions folder of an agent."""
    folder = tmp_path / "agents" / "planner" / "sessions"
    folder.mkdir(parents=True)
    return folder


def write(path, value):
    """A JSON file."""
    path.write_text(json.dumps(value))


def said(hf, id, *types):
    """What events of these types say."""
    return [event.data.get("content") for event in hf.events(id, types=types)]


def test_a_session_file_arrives_whole(hf, place):
    """Messages, prompt, thinking with its signature, call and result, title, tags and times."""
    write(place / "trip_planner.json", session())
    [id] = hf.import_(place / "trip_planner.json")
    row, state = hf.info(id), hf.state(id)
    assert (row.title, row.tags) == ("A trip", ("travel", "work"))
    assert (row.created_at, row.updated_at, row.status) == (CREATED_MS, SAVED_MS, "idle")
    assert state.links["oneringai"] == ["Trip Planner!"]
    assert said(hf, id, "system") == ["You plan trips.", "Answer shortly."]
    assert said(hf, id, "user", "assistant") == ["What is in a.txt?", "I look.", "It says forty-two."]
    [thought] = hf.events(id, types=["thinking"])
    assert (thought.data["content"], thought.data["signature"]) == ("I should look.", "c2ln")
    [call] = hf.events(id, types=["tool_call"])
    assert (call.data["id"], call.data["tool"], call.data["params"]) == ("t1", "read", {"path": "a.txt"})
    [result] = hf.events(id, types=["tool_result"])
    assert [part["type"] for part in result.data["result"]] == ["text", "image"]
    assert state.metadata["oneringai"]["model"] == "m-1"


@pytest.mark.req("S0-24", "S0-25")
def test_memory_entries_are_memory_and_other_plugins_are_not_plugins(hf, place):
    """Both memories arrive entry by entry; no plugin state comes in with a file."""
    write(place / "x.json", session())
    [id] = hf.import_(place / "x.json")
    state = hf.state(id)
    prefs, goal = state.memory["prefs"], state.memory["goal"]
    assert (prefs.value, prefs.description, prefs.scope) == ({"theme": "dark"}, "how it should look", "persistent")
    assert (prefs.priority, prefs.pinned, prefs.size_bytes) == ("high", True, 16)
    assert (goal.value, goal.priority, goal.updated_at) == ("finish", "critical", 1770800000000)
    assert state.plugins == {}
    frames = [event.data["raw"] for event in hf.events(id, types=["frame"])]
    assert {"plugin": "other", "state": {"counter": 3}} in frames


def journal_line(kind, item, when, turn):
    """A line of a journal."""
    return json.dumps({"timestamp": when, "type": kind, "item": item, "turnIndex": turn}) + "\n"


def test_a_journal_that_is_fuller_than_the_state(hf, place):
    """What was compacted away comes from the journal; what only the state has is put in place."""
    summary = message("developer", text("Summary of before."), id="s1")
    compaction = {"type": "compaction", "id": "c1", "encrypted_content": "xxxx"}
    late = message("user", text("Thanks."), id="m9")
    write(place / "x.json", session(state={"conversation": [summary, compaction, CONVERSATION[4], late]}))
    journal = place / "x.history.jsonl"
    journal.write_text(
        journal_line("user", CONVERSATION[1], 1770797000000, 1)
        + "{not json\n\n"
        + journal_line("assistant", CONVERSATION[2], 1770797001000, 1)
        + journal_line("tool_result", CONVERSATION[3], 1770797002000, 1)
        + journal_line("assistant", CONVERSATION[4], 1770797003000, 1)
    )
    report = hf.import_all([place / "x.json"])
    [row] = report.sessions
    id = row.session_id
    assert said(hf, id, "user", "assistant") == ["What is in a.txt?", "I look.", "It says forty-two.", "Thanks."]
    assert said(hf, id, "system") == ["Summary of before."]
    assert next(hf.events(id, types=["user"])).timestamp == 1770797000000
    assert any("line 2" in text for text in row.problems)
    line = journal.read_text().splitlines()[0]
    assert next(hf.events(id, types=["user"])).data["raw"] == line
    recovered = hf.recover(id)
    assert [m["role"] for m in recovered.messages] == ["user", "assistant"] * 2 + ["user"]


def test_a_folder_gives_each_session_once(hf, place):
    """Journals, the index and session files of one folder are one session each."""
    write(place / "a.json", session(sessionId="a"))
    write(place / "b.json", session(sessionId="b", metadata={}))
    (place / "a.history.jsonl").write_text(journal_line("user", CONVERSATION[1], 1770797000000, 1))
    (place / "c.history.jsonl").write_text(journal_line("user", message("user", text("alone")), 1770797000000, 1))
    rows = [
        {
            "sessionId": "b",
            "createdAt": CREATED,
            "lastSavedAt": SAVED,
            "metadata": {"title": "From the index", "tags": ["kept"]},
        },
        {"sessionId": "gone", "createdAt": CREATED, "lastSavedAt": SAVED, "metadata": {}},
    ]
    write(place / "_index.json", {"version": 1, "agentId": "planner", "sessions": rows})
    report = hf.import_all([place.parent])
    assert sorted(row.foreign_id for row in report.sessions) == ["a", "b", "c"]
    assert {row.outcome for row in report.sessions} == {"imported"}
    titles = {hf.state(row.session_id).links["oneringai"][0]: hf.info(row.session_id) for row in report.sessions}
    assert (titles["b"].title, titles["b"].tags) == ("From the index", ("kept",))
    assert said(hf, report.ids[2], "user") == ["alone"]


def test_the_index_alone_leads_to_its_sessions(hf, place):
    """Naming the index brings in what it lists, by that system's own file names."""
    write(place / "trip_planner.json", session())
    rows = [{"sessionId": "Trip Planner!"}, {"sessionId": "gone"}]
    write(place / "_index.json", {"version": 1, "agentId": "planner", "sessions": rows})
    [id] = hf.import_(place / "_index.json")
    assert hf.info(id).title == "A trip"


def test_the_first_design_of_that_system(hf, tmp_path):
    """A session.json with context, history and memory arrives as well."""
    value = {
        "version": 1,
        "agentId": "helper",
        "agentType": "agent",
        "createdAt": CREATED,
        "lastActiveAt": SAVED,
        "context": {
            "core": {
                "systemPrompt": "Help.",
                "history": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}],
            },
            "permissions": {"version": 1, "approvals": {"rm": {"toolName": "rm", "scope": "always"}}},
        },
        "memory": {
            "version": 1,
            "entries": [{"key": "k", "value": 1, "createdAt": 1770796900000, "lastAccessedAt": 1770796950000}],
        },
        "plugins": {},
        "metadata": {"title": "Old", "tags": []},
    }
    write(tmp_path / "session.json", value)
    [id] = hf.import_(tmp_path / "session.json")
    state = hf.state(id)
    assert said(hf, id, "user", "assistant") == ["hi", "hello"]
    assert (state.memory["k"].created_at, state.memory["k"].last_accessed_at) == (1770796900000, 1770796950000)
    assert state.permissions.approvals == {}
    assert hf.info(id).title == "Old"


def test_a_damaged_session_file_beside_a_whole_journal(hf, place):
    """The journal gives the conversation when the state cannot be read."""
    (place / "x.json").write_text('{"version": 1, "sessionId": "x", "sta')
    (place / "x.history.jsonl").write_text(journal_line("user", CONVERSATION[1], 1770797000000, 1))
    [id] = hf.import_(place)
    assert said(hf, id, "user") == ["What is in a.txt?"]


def test_a_second_import_adds_what_is_new(hf, place):
    """A session that went on there goes on here, and nothing comes twice."""
    write(place / "x.json", session())
    [id] = hf.import_(place / "x.json")
    before = [event.seq for event in hf.events(id)]
    assert hf.import_(place / "x.json") == [id]
    assert [event.seq for event in hf.events(id)] == before
    grown = session()
    grown["state"]["conversation"] = [*CONVERSATION, message("user", text("And b.txt?"))]
    write(place / "x.json", grown)
    assert hf.import_all([place / "x.json"]).updated[0].session_id == id
    assert said(hf, id, "user") == ["What is in a.txt?", "And b.txt?"]


def test_copies_in_the_state_that_lost_their_id_or_their_words(hf, place):
    """An item is the same by its id or by what it says, whatever the order of its members."""
    bare = {"content": CONVERSATION[1]["content"], "role": "user", "type": "message"}
    short = message("assistant", text("It says…", "output_text"), id="m4")
    write(place / "x.json", session(state={"conversation": [bare, short]}))
    (place / "x.history.jsonl").write_text(
        journal_line("user", CONVERSATION[1], 1770797000000, 1)
        + journal_line("assistant", CONVERSATION[4], 1770797003000, 1)
    )
    [id] = hf.import_(place / "x.json")
    assert said(hf, id, "user", "assistant") == ["What is in a.txt?", "It says forty-two."]


def test_an_index_with_a_damaged_session_and_a_damaged_index(hf, place):
    """What the index lists and cannot be read is told; an index that is none hides nothing."""
    write(place / "good.json", session(sessionId="good"))
    (place / "bad.json").write_text("{")
    rows = [{"sessionId": "bad"}, {"sessionId": "good"}]
    write(place / "_index.json", {"version": 1, "agentId": "p", "sessions": rows})
    report = hf.import_all([place / "_index.json"])
    assert [row.foreign_id for row in report.sessions] == ["bad", "good"]
    assert report.sessions[0].problems
    (place / "_index.json").write_text("{")
    assert hf.import_(place / "good.json") == [report.ids[1]]


def test_odd_parts(hf, place):
    """Pictures by address, failed calls, wrapped and doubled memories, lines that are none."""
    parts = [
        {"type": "input_image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}},
        {"type": "tool_result", "tool_use_id": "t9", "content": "", "error": "it broke"},
    ]
    call = {"type": "tool_use", "id": "t9", "name": "draw", "arguments": "not json"}
    other = {"state": {"entries": [{"key": "prefs", "value": "second"}]}}
    state = {
        "conversation": [message("assistant", call), message("user", *parts), "loose words"],
        "pluginStates": {"a": MEMORY, "b": other, "c": json.dumps(MEMORY)},
    }
    write(place / "x.json", session(state=state))
    (place / "x.history.jsonl").write_text(
        journal_line("assistant", message("assistant", call), 1770797000000, 1) + '{"note": 1}\n'
    )
    [row] = hf.import_all([place / "x.json"]).sessions
    assert any("no entry" in text for text in row.problems)
    id = row.session_id
    [result] = hf.events(id, types=["tool_result"])
    assert (result.data["result"], result.data["is_error"]) == ("it broke", True)
    [pictures] = hf.events(id, types=["user"])
    assert pictures.data["content"][0]["type"] == "image_url"
    memory = hf.state(id).memory
    assert memory["prefs"].value == {"theme": "dark"}
    assert memory["b/prefs"].value == "second"
    assert "loose words" in [event.data.get("raw") for event in hf.events(id, types=["frame"])]


def write_json(path, value):
    """A document, and the folders it lies in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))


def small(id, words, **metadata):
    """A session with one message."""
    return {
        "version": 1,
        "sessionId": id,
        "createdAt": CREATED,
        "lastSavedAt": SAVED,
        "state": {"conversation": [message("user", text(words))], "metadata": metadata},
        "metadata": {},
    }


@pytest.fixture
def library(tmp_path):
    """A store of one's own."""
    with holdfast.open(tmp_path / "library") as opened:
        yield opened


FIRST_DESIGN = {
    "version": 1,
    "agentId": "old",
    "agentType": "task-agent",
    "createdAt": CREATED,
    "lastActiveAt": SAVED,
    "context": {
        "core": {"systemPrompt": "Be kind.", "history": [{"role": "user", "content": "hello"}]},
        "plugins": {"in_context_memory": IN_CONTEXT},
        "permissions": {"allowlist": ["rm"]},
    },
    "metadata": {"title": "The first one"},
}


@pytest.mark.req("S0-7", "S0-24", "S0-25")
def test_files_of_the_first_design(library, tmp_path):
    """Memory and plugins in files of their own arrive with the session, and so do instructions."""
    agent = tmp_path / "agents" / "old"
    noted = [{"key": "note", "value": [1], "scope": "persistent", "basePriority": "low"}]
    write_json(agent / "session.json", FIRST_DESIGN)
    write_json(agent / "memory.json", {"version": 1, "entries": noted})
    write_json(agent / "custom_instructions.md", "Never shout.\n")
    [id] = library.import_(agent / "session.json")
    assert set(library.state(id).memory) == {"note", "goal"}
    more = [{"key": "mood", "value": "good", "priority": "high"}, *IN_CONTEXT["entries"]]
    write_json(agent / "plugins" / "in_context_memory.json", {"entries": more})
    assert library.import_(tmp_path / "agents") == [id]
    state = library.state(id)
    assert {key: entry.value for key, entry in state.memory.items()} == {"note": [1], "mood": "good", "goal": "finish"}
    [told] = state.metadata["custom_instructions"]
    assert told["content"] == "Never shout."
    assert state.permissions.allowlist == []
    assert library.import_(agent) == [id]
    assert library.state(id) == state


@pytest.mark.req("S0-8")
def test_instructions_of_an_agent(library, tmp_path):
    """They come with each of its sessions, to be read; a file that is damaged is told."""
    agent = tmp_path / "helper"
    entries = [{"id": "tone", "content": "Be brief.", "createdAt": 1, "updatedAt": 2}]
    write_json(agent / "custom_instructions.json", {"version": 2, "entries": entries})
    for name in ("one", "two"):
        write_json(agent / "sessions" / f"{name}.json", small(name, name))
    report = library.import_all([agent])
    assert len(report.ids) == 2
    for id in report.ids:
        assert library.state(id).metadata["custom_instructions"] == entries
    write_json(agent / "custom_instructions.json", '{"version": 2')
    [skipped] = library.import_all([agent]).skipped
    assert skipped.source.endswith("custom_instructions.json")


def test_two_agents_with_sessions_of_one_name(library, tmp_path):
    """Agents name sessions as they like; those of two agents stay apart."""
    ids = []
    for agent in ("one", "two"):
        folder = tmp_path / agent / "sessions"
        write_json(folder / "default.json", small("default", agent, agentId=agent))
        write_json(folder / "_index.json", {"version": 1, "agentId": agent, "sessions": []})
        ids += library.import_(tmp_path / agent)
    assert len(set(ids)) == 2
    assert library.import_(tmp_path / "two" / "sessions" / "default.json") == ids[1:]


def test_what_is_not_there_is_told(library, tmp_path):
    """Sessions that only the index knows, and a damaged file whose journal came in its place."""
    folder = tmp_path / "sessions"
    rows = [{"sessionId": id, "metadata": {}} for id in ("kept", "gone")]
    write_json(folder / "_index.json", {"version": 1, "agentId": "a", "sessions": rows})
    write_json(folder / "kept.json", small("kept", "hi"))
    write_json(folder / "torn.json", '{"version": 1, "sessionId": "to')
    entry = {"timestamp": CREATED_MS, "type": "user", "turnIndex": 1}
    item = message("user", text("from the journal"))
    write_json(folder / "torn.history.jsonl", json.dumps({**entry, "item": item}) + "\n")
    report = library.import_all([folder])
    assert len(report.ids) == 2
    assert sorted(one.source for one in report.skipped) == ["gone.json", "torn.json"]


def test_what_has_no_place_here_is_kept(library, tmp_path):
    """Members that nobody knows stay readable in the log."""
    value = small("s", "hi")
    value["state"]["agentState"] = {"step": 7}
    write_json(tmp_path / "s.json", value)
    [id] = library.import_(tmp_path / "s.json")
    frames = [event.data.get("raw") for event in library.events(id, types=["frame"])]
    assert {"agentState": {"step": 7}} in frames
