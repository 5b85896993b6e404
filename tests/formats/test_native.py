"""Files that other tools take for their own: their shape, and the way back."""

from __future__ import annotations

import json
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.formats import FORMATS
from holdfast.formats.writers import claude_code, codex
from holdfast.library._export import recorded
from holdfast.replay import Conversation, validate

TOOLS = ("claude-code", "codex", "gemini-cli", "opencode")
PIXEL = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}


@pytest.fixture
def library():
    with holdfast.open("memory:") as found:
        yield found


def talk(session):
    """A conversation with words, parallel calls, a failure and a call that was cut off."""
    session.user("Read both files, please. ünïcode 🎉\n\nThanks.")
    session.assistant("I will read them.")
    first = session.tool_call("Read", {"path": "a.txt"})
    second = session.tool_call("Read", {"path": "b.txt", "lines": [1, 2]})
    session.append("tool_result", {"toolCallId": second.id, "result": "no such file", "is_error": True})
    session.tool_result(first, "line one\nline two")
    session.assistant("One is missing.")
    session.user("Try again")
    third = session.tool_call("strange tool/näme", {"x": {"deep": [None, True, 1.5]}})
    session.tool_result(third, {"a": 1})
    session.user("And now?")
    session.assistant("Done.")


@pytest.fixture
def moved(library):
    with library.session("s", title="Moved here") as session:
        talk(session)
    return "s"


def neutral(library, id):
    return library.recover(id, "neutral", "mark").messages


@pytest.mark.parametrize("tool", TOOLS)
def test_round_trip(library, moved, tool):
    """What was written for a tool reads back as the same messages."""
    document = library.export(moved, tool, cwd="/srv/project")
    with holdfast.open("memory:") as other:
        (id,) = other.import_(document.encode(), tool)
        found, given = (texts_and_calls(neutral(*one)) for one in ((other, id), (library, moved)))
        if tool == "codex":  # has no place for whether a call failed; its words say so
            given = [[*one[:4], False] if one[0] == "call" else one for one in given]
        assert found == given
        assert other.import_(document.encode()) == [id]


def texts_and_calls(messages):
    """Who said what and which call gave what, whatever the ids and the grouping."""
    found, calls = [], {}
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            if block["type"] == "text":
                found.append((message["role"], block["text"]))
            elif block["type"] == "tool_use":
                calls[block["id"]] = len(found)
                found.append(["call", block["name"], block["input"], None, None])
            elif block["type"] == "tool_result":
                call = found[calls[block["tool_use_id"]]]
                call[3:] = [_text(block["content"]), bool(block.get("is_error"))]
    return found


def _text(content):
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content)


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1).filter(str.strip)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("user"), WORDS),
        st.tuples(st.just("assistant"), WORDS),
        st.tuples(st.just("call"), WORDS),
        st.tuples(st.just("open"), WORDS),
    ),
    max_size=8,
)


def record(library, steps):
    """A session in which this was said and done; an open call never got its result."""
    with library.session("s") as session:
        session.user("begin")
        for kind, words in steps:
            if kind in ("user", "assistant"):
                session.add_turn(kind, words)
            else:
                call = session.tool_call("T", {"words": words})
                if kind == "call":
                    session.tool_result(call, words)


@settings(max_examples=40)
@given(STEPS)
def test_any_conversation_comes_back(steps):
    """Whatever was recorded, each tool's file reads back as the recovered conversation."""
    with holdfast.open("memory:") as library:
        record(library, steps)
        given = texts_and_calls(neutral(library, "s"))
        for tool in TOOLS:
            with holdfast.open("memory:") as other:
                (id,) = other.import_(library.export("s", tool).encode(), tool)
                found = texts_and_calls(neutral(other, id))
            assert _without_failures(found) == _without_failures(given)


def _without_failures(entries):
    """A side's words in a row as one: not every tool keeps them apart, nor what failed."""
    joined = []
    for entry in entries:
        if entry[0] == "call":
            joined.append((entry[0], entry[1], str(entry[2]), entry[3]))
        elif joined and joined[-1][0] == entry[0]:
            joined[-1] = (entry[0], joined[-1][1] + entry[1])
        else:
            joined.append((entry[0], entry[1]))
    return [(*entry[:1], *(_squeezed(part) for part in entry[1:])) for entry in joined]


def _squeezed(text):
    return "".join(str(text).split())


def _documents(document, tool):
    return document.splitlines() if FORMATS[tool].suffix == ".jsonl" else [document]


def test_claude_code_records(library, moved):
    """One chain of records, one for each block, all of one session."""
    lines = library.export(moved, "claude-code", cwd="/srv/my project").splitlines()
    records = [json.loads(line) for line in lines]
    spoken = [record for record in records if "message" in record]
    parents = [record["parentUuid"] for record in spoken]
    assert parents == [None, *[record["uuid"] for record in spoken][:-1]]
    assert {record["sessionId"] for record in records} == {spoken[0]["sessionId"]}
    assert {record["cwd"] for record in spoken} == {"/srv/my project"}
    answers = [record["message"] for record in spoken if record["type"] == "assistant"]
    assert all(len(message["content"]) == 1 for message in answers)
    assert answers[0]["id"] == answers[1]["id"] == answers[2]["id"] != answers[3]["id"]
    assert records[-2] == {"type": "custom-title", "customTitle": "Moved here", "sessionId": spoken[0]["sessionId"]}
    assert records[-1]["leafUuid"] == spoken[-1]["uuid"]
    assert records[-1]["lastPrompt"] == "And now?"
    merged = []
    for record in spoken:
        message = record["message"]
        if merged and record["type"] == "assistant" and merged[-1]["role"] == "assistant":
            merged[-1]["content"] += message["content"]
        else:
            content = message["content"]
            merged.append({"role": message["role"], "content": content})
    assert validate(merged, "anthropic").valid


@pytest.mark.parametrize(
    ("cwd", "folder"), [("/srv/dev/claude", "-srv-dev-claude"), ("/a b/ö.x", "-a-b---x"), ("/", "-")]
)
def test_claude_code_folders(cwd, folder):
    """A project's folder is its path with everything but letters and digits as a dash."""
    assert claude_code.project_folder(cwd) == folder


def test_codex_rollout(library, moved):
    """A head with a UUID of version 7, then items that the provider accepts."""
    lines = library.export(moved, "codex", cwd="/srv/x").splitlines()
    head, *records = [json.loads(line) for line in lines]
    assert head["type"] == "session_meta"
    assert uuid.UUID(head["payload"]["id"]).version == 7
    assert head["payload"]["cwd"] == "/srv/x"
    items = [record["payload"] for record in records if record["type"] == "response_item"]
    assert validate(items, "openai-responses").valid
    shown = [record["payload"]["message"] for record in records if record["type"] == "event_msg"]
    assert shown[-2:] == ["And now?", "Done."]


def test_gemini_cli_record(library, moved):
    """Results stand with their calls and nowhere else, or they would be read twice."""
    document = json.loads(library.export(moved, "gemini-cli"))
    answers = [message for message in document["messages"] if message["type"] == "gemini"]
    calls = [call for message in answers for call in message.get("toolCalls", [])]
    assert [call["status"] for call in calls] == ["success", "error", "success"]
    assert calls[0]["result"][0]["functionResponse"]["response"] == {"output": "line one\nline two"}
    assert "functionResponse" not in json.dumps(
        [message for message in document["messages"] if message["type"] == "user"]
    )


def test_opencode_parts(library, moved):
    """Ids sort in the order of the conversation; answers name the prompt they answer."""
    document = json.loads(library.export(moved, "opencode", cwd="/srv/x", model="fake/m-1"))
    ids = [message["info"]["id"] for message in document["messages"]]
    parts = [part["id"] for message in document["messages"] for part in message["parts"]]
    assert ids == sorted(ids)
    assert parts == sorted(parts)
    answers = [m["info"] for m in document["messages"] if m["info"]["role"] == "assistant"]
    assert {(info["providerID"], info["modelID"]) for info in answers} == {("fake", "m-1")}
    assert all(info["parentID"] in ids for info in answers)
    assert document["info"]["directory"] == "/srv/x"
    tools = [p["state"] for m in document["messages"] for p in m["parts"] if p["type"] == "tool"]
    assert [state["status"] for state in tools] == ["completed", "error", "completed"]


def test_the_same_each_time(library, moved):
    """Exporting twice gives the same file, so that it can be found and compared."""
    for tool in TOOLS:
        first = library.export(moved, tool, cwd="/srv/x")
        assert first == library.export(moved, tool, cwd="/srv/x")


def test_pictures_and_thinking(library):
    """Pictures go along where the tool takes them; thinking where it may be read."""
    with library.session("s") as session:
        session.append("user", {"content": [{"type": "image", "source": PIXEL}]})
        session.append("thinking", {"content": "Hm.", "signature": "c2ln"})
        session.assistant("A dot.")
        call = session.tool_call("Look", {})
        blocks = [{"type": "text", "text": "seen"}, {"type": "image", "source": PIXEL}]
        session.append("tool_result", {"toolCallId": call.id, "result": blocks})
        session.assistant("Again.")
    for tool in TOOLS:
        document = library.export("s", tool)
        assert PIXEL["data"] in document
        assert "seen" in document
    assert '"thought' in library.export("s", "gemini-cli")
    assert "Hm." not in library.export("s", "opencode")
    lines = [json.loads(line) for line in library.export("s", "codex").splitlines()]
    [shown] = [line for line in lines if "Hm." in str(line)]  # on the screen, not to the model
    assert shown["type"] == "event_msg"
    assert shown["payload"] == {"type": "agent_reasoning", "text": "Hm."}


@pytest.mark.parametrize("tool", TOOLS)
def test_nothing_was_said(library, tool):
    """A session without a message gives a file without one."""
    with library.session("s") as session:
        session.variables["x"] = 1
    document = library.export("s", tool)
    for line in _documents(document, tool):
        json.loads(line)
    with holdfast.open("memory:") as other:
        for id in other.import_all([document.encode()], tool).ids:
            assert texts_and_calls(neutral(other, id)) == []


def test_times(library):
    """Records carry the times of the events they come from, and never go back."""
    with library.session("s") as session:
        talk(session)
    stamps = [
        record["timestamp"]
        for record in map(json.loads, library.export("s", "claude-code").splitlines())
        if "timestamp" in record
    ]
    assert stamps == sorted(stamps)


def test_sources():
    """A conversation tells which event each block of its messages comes from."""
    with holdfast.open("memory:") as library:
        with library.session("s") as session:
            talk(session)
        conversation = Conversation(incomplete="mark")
        events = list(library.events("s"))
        for event in events:
            conversation.feed(event)
    messages = conversation.messages("neutral")
    assert len(conversation.sources) == len(messages)
    first = conversation.sources[0][0]
    assert events[first].type == "user"


def test_calls_of_another_model():
    """Gemini CLI puts a stand-in for the signature of calls that its model did not make."""
    call = {"functionCall": {"name": "Read", "args": {}}}
    call["thoughtSignature"] = "skip_thought_signature_validator"
    messages = [
        {"role": "user", "parts": [{"text": "go"}]},
        {"role": "model", "parts": [call]},
        {"role": "user", "parts": [{"functionResponse": {"name": "Read", "response": {"output": "x"}}}]},
    ]
    assert validate(messages, "gemini").valid
    call["thoughtSignature"] = "neither this nor that"
    assert not validate(messages, "gemini").valid


def test_codex_file_name(library, moved):
    """The rollout lies in the folder of its day."""
    found = recorded(library._core, moved, None)
    path = codex.session_file(found, _options())
    assert path.startswith(".codex/sessions/20")
    assert path.endswith(f"{codex.session_id(found)}.jsonl")


def _options():
    from holdfast.formats import ExportOptions

    return ExportOptions()
