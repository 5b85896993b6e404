"""OpenAgent-Terminal: session files and their index."""

from __future__ import annotations

import json
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast

pytestmark = pytest.mark.req("C20")


def local_ms(text):
    """A naive time of this machine in milliseconds."""
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def message(role, content, when, **extra):
    """A message as that system writes it."""
    return {
        "role": role,
        "content": content,
        "timestamp": when,
        "token_count": None,
        "tool_calls": None,
        "metadata": {},
        **extra,
    }


def about(id, **extra):
    """A session's metadata."""
    return {
        "session_id": id,
        "created_at": "2025-10-05T14:00:00.123456",
        "updated_at": "2025-10-05T14:05:00.654321",
        "message_count": 5,
        "total_tokens": 9,
        "title": None,
        "tags": [],
        **extra,
    }


MESSAGES = [
    message("system", "Be kind.", "2025-10-05T14:00:00.200000"),
    message("user", "List the files", "2025-10-05T14:00:01.000000", metadata={"query_id": "q-1"}, token_count=3),
    message(
        "assistant",
        "I list them.",
        "2025-10-05T14:00:02.000000",
        token_count=6,
        tool_calls=[{"tool": "ls", "args": {"path": "."}}],
    ),
    message("tool", "a.txt b.txt", "2025-10-05T14:00:03.000000"),
    message("assistant", "Two files.", "2025-10-05T14:00:04Z"),
]


@pytest.fixture
def place(tmp_path):
    """The sessions folder."""
    folder = tmp_path / "sessions"
    folder.mkdir()
    return folder


def write(place, id, **extra):
    """A session file."""
    value = {"metadata": about(id, **extra), "messages": MESSAGES}
    (place / f"{id}.json").write_text(json.dumps(value, indent=2))


def write_index(place, *rows):
    """The index file."""
    (place / "index.json").write_text(json.dumps({"version": "1.0", "sessions": list(rows)}))


@pytest.mark.req("S2-20", "S2-73")
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_a_session_file_arrives_whole(hf, place, monkeypatch, zone):
    """Every message with its role, naive times as local ones, tokens, title and tags."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        write(place, "2025-10-05_140000_1", title="Files", tags=["shell"])
        [id] = hf.import_(place / "2025-10-05_140000_1.json")
        row = hf.info(id)
        assert (row.title, row.tags, row.total_tokens) == ("Files", ("shell",), 9)
        assert row.created_at == local_ms("2025-10-05T14:00:00.123456")
        assert row.updated_at == local_ms("2025-10-05T14:05:00.654321")
        first = next(hf.events(id, types=["user"]))
        assert first.timestamp == local_ms("2025-10-05T14:00:01")
        assert first.data["metadata"] == {"query_id": "q-1"}
        *_, last = hf.events(id, types=["assistant"])
        assert last.timestamp == 1759672804000
    finally:
        monkeypatch.undo()
        time.tzset()
    kinds = ["system", "user", "assistant", "tool_call", "tool_result"]
    assert [e.type for e in hf.events(id, types=kinds)] == [*kinds, "assistant"]
    recovered = hf.recover(id)
    assert recovered.system == "Be kind."
    [_, call, result, answer] = recovered.messages
    assert call["content"][1]["input"] == {"path": "."}
    assert result["content"][0]["content"] == "a.txt b.txt"
    assert answer["content"] == "Two files."


@pytest.mark.req("S2-75")
def test_a_folder_whose_index_has_drifted(hf, place):
    """Files without an entry come in, entries without a file do not, titles come from either."""
    write(place, "2025-10-05_140000")
    write(place, "2025-10-05_140000_1", title="Own")
    write_index(
        place,
        about("2025-10-05_140000", title="From the index", tags=["listed"]),
        about("2025-10-05_150000", title="Never saved"),
    )
    report = hf.import_all([place])
    rows = {row.foreign_id: hf.info(row.session_id) for row in report.sessions}
    assert rows.keys() == {"2025-10-05_140000", "2025-10-05_140000_1"}
    assert rows["2025-10-05_140000"].title == "From the index"
    assert rows["2025-10-05_140000"].tags == ("listed",)
    assert rows["2025-10-05_140000_1"].title == "Own"
    assert len({row.session_id for row in report.sessions}) == 2


def test_the_index_alone_leads_to_its_sessions(hf, place):
    """Naming the index brings in what it lists and never leaves the folder."""
    write(place, "2025-10-05_140000")
    (place.parent / "secret.json").write_text((place / "2025-10-05_140000.json").read_text())
    write_index(place, about("2025-10-05_140000"), about("../secret"))
    [id] = hf.import_(place / "index.json")
    assert hf.state(id).links["openagent-terminal"] == ["2025-10-05_140000"]


@pytest.mark.parametrize("index", ["{", '{"version": "1.0", "sessions": 5}', "[]"])
def test_a_damaged_index_hides_nothing(hf, place, index):
    """The files speak for themselves."""
    write(place, "2025-10-05_140000")
    (place / "index.json").write_text(index)
    assert len(hf.import_(place)) == 1


def test_tool_messages_without_a_call_and_other_shapes(hf, place):
    """A result that nobody asked for stays in the conversation; calls in other shapes are read."""
    calls = [
        {"id": "c1", "name": "grep", "arguments": '{"for": "x"}'},
        {"id": "c2", "function": {"name": "cat", "arguments": "{}"}, "result": "meow"},
        "odd",
    ]
    messages = [
        message("user", "go", "2025-10-05T14:00:00"),
        message("tool", "out of the blue", "2025-10-05T14:00:01"),
        message("assistant", "", "2025-10-05T14:00:02", tool_calls=calls),
        message("tool", "found x", "2025-10-05T14:00:03", metadata={"tool_call_id": "c1"}),
        "no message at all",
    ]
    value = {"metadata": about("s"), "messages": messages}
    (place / "s.json").write_text(json.dumps(value))
    [id] = hf.import_(place / "s.json")
    results = {e.data["toolCallId"]: e.data["result"] for e in hf.events(id, types=["tool_result"])}
    assert results == {"call_1": "out of the blue", "c1": "found x", "c2": "meow"}
    assert "out of the blue" in json.dumps(hf.recover(id).messages)
    assert hf.info(id).status == "idle"


def test_sessions_that_were_never_saved_are_told(tmp_path):
    """The index may list what has no file; it is named, in a folder and in the index alone."""
    folder = tmp_path / "sessions"
    folder.mkdir()
    rows = [about("2025-10-05_140000"), about("2025-10-06_140000", title="Lost"), about("a/b")]
    (folder / "index.json").write_text(json.dumps({"version": "1.0", "sessions": rows}))
    (folder / "2025-10-05_140000.json").write_text(json.dumps({"metadata": rows[0], "messages": MESSAGES}))
    with holdfast.open(tmp_path / "store") as hf:
        for path in (folder, folder / "index.json"):
            report = hf.import_all([path])
            assert len(report.ids) == 1
            told = {one.source: one.reason for one in report.skipped}
            assert told.keys() == {"2025-10-06_140000.json", "a/b"}
            assert "Lost" in told["2025-10-06_140000.json"]


def test_a_damaged_index_is_told(tmp_path):
    """The sessions come in by their files."""
    folder = tmp_path / "sessions"
    folder.mkdir()
    (folder / "index.json").write_text('{"version": "1.0", "sessions": [')
    value = {"metadata": about("2025-10-05_140000"), "messages": MESSAGES}
    (folder / "2025-10-05_140000.json").write_text(json.dumps(value))
    with holdfast.open(tmp_path / "store") as hf:
        report = hf.import_all([folder])
        assert len(report.ids) == 1
        assert [one.source for one in report.skipped] == ["index.json"]


def stamp(number):
    """The time of a message, as an export writes it."""
    when = datetime.fromtimestamp(1_759_672_800 + number, UTC)
    return f"{when:%Y-%m-%dT%H:%M:%S}.000Z"


@st.composite
def documents(draw):
    """Whole sessions in that form: in each round a user asks, tools may run, the model answers."""
    words = st.text("ab cé\n", min_size=1).filter(str.strip)
    counts = st.none() | st.integers(1, 9)
    about_it = st.dictionaries(st.sampled_from(["query_id", "mood"]), words)
    said = [("system", draw(words), {})] if draw(st.booleans()) else []
    for number in range(draw(st.integers(1, 3))):
        said.append(("user", draw(words), {"token_count": draw(counts), "metadata": draw(about_it)}))
        arguments = draw(st.lists(st.dictionaries(words, words | st.integers()), max_size=2))
        ids = [f"call_{number}_{place}" for place in range(len(arguments))]
        calls = [{"id": id, "tool": "ls", "args": args} for id, args in zip(ids, arguments, strict=True)]
        if calls:
            said.append(("assistant", draw(words), {"tool_calls": calls}))
            said += [("tool", draw(words), {"metadata": {"tool_call_id": id}}) for id in ids]
        said.append(("assistant", draw(words), {"token_count": draw(counts)}))
    messages = [message(role, content, stamp(number), **extra) for number, (role, content, extra) in enumerate(said)]
    about_all = about(
        "s",
        created_at=stamp(0),
        updated_at=stamp(len(said) - 1),
        message_count=len(said),
        total_tokens=sum(one["token_count"] or 0 for one in messages),
        title=draw(words.map(str.strip).filter(lambda text: "\n" not in text)),
        tags=draw(st.lists(st.sampled_from(["shell", "work"]), unique=True).map(sorted)),
    )
    return {"metadata": about_all, "messages": messages}


@pytest.mark.req("S2-12", "S2-13", "S2-14", "S2-15", "S2-16", "S2-17", "S2-19", "S2-70")
@given(documents())
def test_a_session_comes_from_a_document_and_goes_back_into_it(document):
    """Every field of the metadata and of each message, in all four roles, is as it was."""
    with tempfile.TemporaryDirectory() as folder, holdfast.open("memory:") as hf:
        (Path(folder) / "s.json").write_text(json.dumps(document))
        [id] = hf.import_(Path(folder) / "s.json")
        written = json.loads(hf.export(id, "openagent-terminal"))
    assert written.keys() == {"metadata", "messages"}
    assert written["metadata"] == {**document["metadata"], "session_id": id}
    assert written["messages"] == document["messages"]


@pytest.mark.req("S2-12", "S2-14", "S2-15", "S2-17", "S2-19", "S2-23")
def test_a_session_of_ours_goes_out_and_comes_back(hf, place):
    """It is an indented file named after the session; another store reads what it says."""
    with hf.session("trip", title="Files") as s:
        s.system("Be kind.")
        s.tag("shell")
        s.user("List the files")
        with s.tool("ls", {"path": "."}) as call:
            call.result = "a.txt"
        s.assistant("One file.", usage={"input_tokens": 3, "output_tokens": 4})
    hf.export("trip", "openagent-terminal", to=place)
    text = (place / "trip.json").read_text()
    document = json.loads(text)
    assert text.startswith('{\n  "metadata": {\n    "session_id": "trip",\n')
    assert [(one["role"], one["content"]) for one in document["messages"]] == [
        ("system", "Be kind."),
        ("user", "List the files"),
        ("assistant", ""),
        ("tool", "a.txt"),
        ("assistant", "One file."),
    ]
    [call] = document["messages"][2]["tool_calls"]
    assert (call["tool"], call["args"]) == ("ls", {"path": "."})
    for one in document["messages"]:
        assert datetime.fromisoformat(one["timestamp"]).tzinfo is not None
    with holdfast.open("memory:") as other:
        [id] = other.import_(place / "trip.json")
        row = other.info(id)
        assert (row.title, row.tags, row.message_count) == ("Files", ("shell",), 5)
        assert other.recover(id).system == "Be kind."
        assert other.recover(id).messages[-1]["content"] == "One file."


@pytest.mark.req("S2-14", "S2-70")
def test_what_a_message_need_not_have_may_be_missing(hf, place):
    """A role and words are enough; the rest is empty when it is written again."""
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    value = {"metadata": {"session_id": "s"}, "messages": messages}
    (place / "s.json").write_text(json.dumps(value))
    [id] = hf.import_(place / "s.json")
    written = json.loads(hf.export(id, "openagent-terminal"))["messages"]
    assert [{"role": one["role"], "content": one["content"]} for one in written] == messages
    for one in written:
        assert (one["token_count"], one["tool_calls"], one["metadata"]) == (None, None, {})
